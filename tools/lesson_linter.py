"""The contract of a lesson, a function for each rule."""

import ast
import re
import tomllib
from pathlib import Path

import nbformat

from course_lab.notebook_source import (
    PROFILES,
    ROOT,
    MissingSection,
    code,
    digest,
    full_scale,
    plain,
    prose,
    read,
    rows,
    section,
    tags,
)
from tools import exercises
from tools.notebooks import CHECK, EXECUTED

LESSON = (  # the headings of a lesson, in this order; others may stand between them
    "What you will learn",
    "Before you start",
    "Predict",
    "Symbols",
    "Exercises",
    "What we saw",
    "References",
)


FULL_SCALE = ("Before you start", "References")  # what notebooks 20 to 29 need of them


LINES, WIDTH, ALT, SIZE = 15, 75, 20, 2**20


RESULT = re.compile(r"\b(show|display|print|experiments\.run)\(")


def repository() -> str:
    """The repository's address as pyproject.toml has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project["urls"]["Repository"]


def lint(source: Path) -> list[str]:
    """What `source` and its `.ipynb` lack of the contract, one line each, naming the cell."""
    notebook = read(source)
    rules, headings = [question, minutes_table, colab, parameters_cell, references], FULL_SCALE
    rules += [cell_size, figures]
    if not full_scale(source):
        rules += [objectives, prediction, symbols, hints, takeaway, checked]
        headings = LESSON
    found = sections(notebook.cells, headings)
    for rule in rules:
        try:
            found += rule(notebook.cells)
        except MissingSection:  # already reported by `sections`
            continue
    found += exercises.lint(source, notebook.cells)
    found += outputs(source.with_suffix(".ipynb"))
    return [f"{source.name}: {problem}" for problem in found]


def question(cells):
    first = cells[0] if cells else None
    if first is None or first.cell_type != "markdown" or not first.source.startswith("# "):
        return ["the first cell must be Markdown and start with `# Title`"]
    asked = re.findall(r"(?m)^\*\*Question\.\*\*.*", first.source)
    if len(asked) != 1 or not asked[0].rstrip().endswith("?"):
        return ["the first cell needs one line `**Question.** …?`"]
    return []


def sections(cells, headings):
    present = re.findall(r"(?m)^## (.+?)\s*$", prose(cells))
    found = [f"no heading `## {heading}`" for heading in headings if heading not in present]
    order = [heading for heading in present if heading in headings]
    if not found and order != list(headings):
        found.append(f"headings must come once each in the order {', '.join(headings)}")
    return found


def minutes_table(cells):
    text = prose(section(cells, "Before you start"))
    stated = {row[0].strip("`*"): row[1] for row in rows(text, ("profile", "minutes"))}
    found = [
        f"the table `| profile | minutes |` lacks a row `{name}` with a number"
        for name in PROFILES
        if not re.match(r"\d", stated.get(name, ""))
    ]
    if "**Prerequisites.**" not in text:
        found.append("`Before you start` must say `**Prerequisites.** …`")
    return found


def colab_command() -> str:
    """The line with which a notebook opened on Colab installs the course: as a checkout, which has
    plans, results and notebooks beside the library."""
    raw = repository().replace("github.com", "raw.githubusercontent.com")
    return f'%pip install -q -c {raw}/main/constraints.txt -e "git+{repository()}#egg=course-lib"'


def colab(cells):
    if f"`{colab_command()}`" in prose(section(cells, "Before you start")):
        return []
    return [f"`Before you start` must give the line for Google Colab: `{colab_command()}`"]


def objectives(cells):
    count = len(re.findall(r"(?m)^[-*] ", prose(section(cells, "What you will learn"))))
    return [] if count >= 2 else ["`What you will learn` needs at least two objectives (`- …`)"]


def parameters_cell(cells):
    tagged = [(i, cell) for i, cell in code(cells) if "parameters" in tags(cell)]
    if len(tagged) != 1:
        return [f"one code cell must be tagged `parameters`, found {len(tagged)}"]
    number, cell = tagged[0]
    found = []
    if next(code(cells))[0] != number:
        found.append("the cell tagged `parameters` must be the first code cell")
    if not re.search(r'(?m)^PROFILE = "quick"', cell.source):
        found.append(f'cell {number}: the parameters must have the line `PROFILE = "quick"  # …`')
    for line in filter(str.strip, cell.source.splitlines()):
        match = re.fullmatch(r"[A-Z_]+ = (.+?)  # \S.*", line)
        try:
            ast.literal_eval(match[1] if match else "")
        except (SyntaxError, ValueError):
            found.append(f"cell {number}: a parameter is `NAME = literal  # what it is`: {line}")
    return found


def prediction(cells):
    text = prose(section(cells, "Predict"))
    found = [] if "?" in text else ["`Predict` must ask the reader something"]
    for number, cell in enumerate(cells, 1):
        if cell.cell_type == "markdown" and re.search(r"(?m)^## Predict\s*$", cell.source):
            return found
        if cell.cell_type == "code" and RESULT.search(cell.source):
            return [*found, f"cell {number}: a result is shown before `## Predict`"]
    return found


def symbols(cells):
    table = rows(prose(section(cells, "Symbols")), ("symbol", "code", "meaning"))
    found = []
    if len(table) < 3:
        found.append("`Symbols` needs a table `| symbol | code | meaning |` of three rows or more")
    for row in table:
        if len(row) != 3 or "$" not in row[0] or "`" not in row[1] or not row[2]:
            found.append(f"`Symbols`: a row is `| $x$ | `x` | meaning |`: {' | '.join(row)}")
    return found


def hints(cells):
    parts = re.split(r"(?m)^### ", prose(section(cells, "Exercises")))[1:]
    found = [] if len(parts) >= 2 else ["`Exercises` needs at least two, each under `### …`"]
    for part in parts:
        if not re.search(r"<details><summary>Hint</summary>\s*\S.*?</details>", part, re.S):
            name = part.split("\n", 1)[0].strip()
            found.append(f"exercise {name!r} has no `<details><summary>Hint</summary>` … hint")
    return found


def takeaway(cells):
    inside = [cell.source for _, cell in code(section(cells, "What we saw"))]
    if any(re.search(r'\bf("""|"|\'\'\'|\').*\{', text, re.S) for text in inside):
        return []
    return ["`What we saw` needs a code cell that displays its sentences with computed numbers"]


def checked(cells):
    if any(cell.source.startswith(CHECK) for _, cell in code(cells)):
        return []
    return [f"no checked cell (first line `{CHECK}`, true in every profile)"]


def cell_size(cells):
    found = []
    for number, cell in code(cells):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if len(lines) > LINES:
            found.append(
                f"cell {number}: {len(lines)} lines of code, at most {LINES} (course_lib "
                "holds what is longer)"
            )
        found += [
            f"cell {number}: a line of {len(line)} characters, at most {WIDTH}: {line.strip()}"
            for line in lines
            if len(line) > WIDTH
        ]
    return found


def figures(cells):
    """Alternative text of every `show(figure, alt=…)`, and no figure shown without."""
    found = []
    for number, cell in code(cells):
        try:
            tree = ast.parse(plain(cell.source))
        except SyntaxError as error:
            found.append(f"cell {number}: {error.msg}")
            continue
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = ast.unparse(call.func)
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            if name == "plt.show":
                found.append(f"cell {number}: use `plots.show(figure, alt=…)`, not `plt.show()`")
            elif name.split(".")[-1] == "show" or "alt" in given:
                if len(literal(given.get("alt"))) < ALT:
                    found.append(
                        f'cell {number}: `{name}` needs alt="…" that says what is seen '
                        f"({ALT} characters or more)"
                    )
    for number, cell in enumerate(cells, 1):
        if cell.cell_type == "markdown" and re.search(r"!\[\s*\]\(", cell.source):
            found.append(f"cell {number}: an image without alternative text, `![what it shows](…)`")
    return found


def literal(node: ast.expr | None) -> str:
    """The text of a literal or f-string, "" for anything else; `{…}` counts as written."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.strip()
    return ast.unparse(node)[2:-1].strip() if isinstance(node, ast.JoinedStr) else ""


def references(cells):
    listed = re.findall(r"(?m)^([-*]|\d+\.) ", prose(section(cells, "References")))
    return [] if listed else ["`References` needs a list of at least one"]


def outputs(notebook: Path) -> list[str]:
    """What is wrong with the committed `.ipynb`: outputs of other code than is there, its size,
    figures without alternative text, what another run would print otherwise."""
    if not notebook.is_file():
        return [f"{notebook.name} is missing; run `python -m tools notebooks pair`"]
    found = []
    if notebook.stat().st_size > SIZE:
        found.append(f"{notebook.name} is over {SIZE // 2**20} MiB")
    content = nbformat.read(notebook, as_version=4)
    if not full_scale(notebook) and content.metadata.get(EXECUTED) != digest(content):
        found.append(
            "the outputs are those of other code; run "
            f"`python -m tools course {notebook.stem}`, then `… notebooks outputs`"
        )
    for number, cell in code(content.cells):
        if cell.source.startswith(CHECK) and not cell.outputs:
            found.append(
                f"cell {number}: a checked cell has no output to compare with; run "
                "`python -m tools course`, then `… notebooks outputs`"
            )
        for output in cell.outputs:
            if output.output_type == "error":
                found.append(f"cell {number}: the committed output is the error {output.ename}")
            if output.get("name") == "stderr":
                found.append(f"cell {number}: a warning in the output: {output.text[:100]!r}")
            shown = output.get("text", "") + output.get("data", {}).get("text/plain", "")
            if re.search(r" at 0x[0-9a-f]{6,}>", shown):
                found.append(f"cell {number}: the output shows an object's address in memory")
            alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
            if "image/png" in output.get("data", {}) and not alt.strip():
                found.append(f"cell {number}: a figure in the output has no alternative text")
    return found
