"""The contract of a lesson, a function for each rule.

CONTRIBUTING.md lists the contract. A rule takes the cells of a lesson and returns its problems, one
line each.
"""

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
    numeral,
    plain,
    prose,
    read,
    rows,
    section,
    tags,
)
from tools import exercises, lesson_way
from tools.evidence_rule import unnamed_evidence
from tools.lesson_length import measure
from tools.notebooks import CHECK, EXECUTED
from tools.table_rules import uncounted, undeclared

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

LINES = 15  # of a code cell
WIDTH = 75  # characters of a line of code
ALT = 20  # characters of an alternative text
SIZE = 2**20  # bytes of a notebook
WORDS, CODE_LINES, FIGURES, MINUTES = 1_800, 250, 5, 45  # of a core lesson, one sitting
UNWRITTEN = "✎"  # where `notebooks new` leaves something to be written
# how each exercise begins
STATED = r"\*Difficulty [123]/3, importance [123]/3, .*\b(minutes|hours?|days?)\.\*"
RESULT = re.compile(r"\b(show|display|print|course_lab\.run)\(")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((\d\d[b-z]?_\w+)\.ipynb")


def repository() -> str:
    """Return the repository's address as pyproject.toml has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project["urls"]["Repository"]


def lint(source: Path) -> list[str]:
    """Return what `source` and its `.ipynb` lack of the contract, one line each."""
    notebook = read(source)
    headings = FULL_SCALE
    rules = [question, minutes_table, colab, parameters_cell, references, cell_size, figures]
    rules += [unwritten, undeclared]
    if not full_scale(source):
        rules += [objectives, prediction, symbols, hints, takeaway, checked, unnamed_evidence]
        rules += [captions]
        headings = LESSON
    problems = sections(notebook.cells, headings)
    for rule in rules:
        try:
            problems += rule(notebook.cells)
        except MissingSection:  # already reported by `sections`
            continue
    problems += numbers(source, notebook.cells)
    problems += exercises.lint(source, notebook.cells)
    if re.match(r"[01]\d[b-z]?_", source.name):
        problems += sitting(source, prose(notebook.cells))
    problems += outputs(source.with_suffix(".ipynb"))
    return [f"{source.name}: {problem}" for problem in problems]


def question(cells):
    """Return what the first cell lacks: the title, and one line with the question."""
    first = cells[0] if cells else None
    if first is None or first.cell_type != "markdown" or not first.source.startswith("# "):
        return ["the first cell must be Markdown and start with `# Title`"]
    asked = re.findall(r"(?m)^\*\*Question\.\*\*.*", first.source)
    if len(asked) != 1 or not asked[0].rstrip().endswith("?"):
        return ["the first cell needs one line `**Question.** …?`"]
    return []


def numbers(source: Path, cells) -> list[str]:
    """Return which links and title lack a lesson's number, and whether the foot is an old one."""
    problems = []
    own = numeral(source.name)
    if cells and not cells[0].source.startswith(f"# {own}. "):
        problems.append(f"the title must begin with the number, `# {own}. Title`")
    foot = cells[-1] if cells and lesson_way.TAG in tags(cells[-1]) else None
    if (foot.source if foot else "") != lesson_way.foot(source):
        problems.append("its foot does not lead on; run `python -m tools notebooks link`")
    for text, name in LINK.findall(prose(cells)):
        if not re.search(rf"\b0?{numeral(name)}\b", text):
            problems.append(f"the link [{text}] must name its number: [lesson {numeral(name)}](…)")
    return problems


def sections(cells, headings):
    """Return the headings that are missing, or that they come in another order."""
    present = re.findall(r"(?m)^## (.+?)\s*$", prose(cells))
    problems = [f"no heading `## {heading}`" for heading in headings if heading not in present]
    order = [heading for heading in present if heading in headings]
    if not problems and order != list(headings):
        problems.append(f"headings must come once each in the order {', '.join(headings)}")
    return problems


def minutes_table(cells):
    """Return the profiles without minutes, and whether the prerequisites are missing."""
    text = prose(section(cells, "Before you start"))
    stated = {row[0].strip("`*"): row[1] for row in rows(text, ("profile", "minutes"))}
    problems = [
        f"the table `| profile | minutes |` lacks a row `{name}` with a number"
        for name in PROFILES
        if not re.match(r"\d", stated.get(name, ""))
    ]
    if "**Prerequisites.**" not in text:
        problems.append("`Before you start` must say `**Prerequisites.** …`")
    return problems


def sitting(source: Path, text: str) -> list[str]:
    """Return by how much a lesson is longer than one sitting, and what it does not say of it.

    A core lesson, which has no letter after its number, has limits. Every lesson states the minutes
    that reading it takes, and its difficulty.
    """
    length = measure(source)
    problems = []
    if not re.match(r"\d\d[b-z]_", source.name):
        limits = {"words": WORDS, "lines": CODE_LINES, "figures": FIGURES, "minutes": MINUTES}
        problems = [
            f"{getattr(length, name):,} {name}, at most {limit:,} in a core lesson: move what is "
            "not needed to a deeper notebook, `NNb_…`"
            for name, limit in limits.items()
            if getattr(length, name) > limit
        ]
    line = f"**Reading.** {length.minutes} minutes. **Difficulty.**"
    if line not in text:
        problems.append(f"`Before you start` must say `{line} … of 3.`")
    return problems


def colab_command() -> str:
    """Return the line with which a notebook opened on Colab installs the course.

    It installs a checkout, which has plans, results and notebooks beside the library.
    """
    folder = repository().rpartition("/")[2]
    install = f'pip install -q -c {folder}/constraints.txt -e "./{folder}[lab]"'
    return f"!git clone -q {repository()} && {install}"


def colab(cells):
    """Return the line for Google Colab where the lesson does not give it."""
    if f"`{colab_command()}`" in prose(section(cells, "Before you start")):
        return []
    return [f"`Before you start` must give the line for Google Colab: `{colab_command()}`"]


def objectives(cells):
    """Return a problem where there are fewer than two objectives."""
    count = len(re.findall(r"(?m)^[-*] ", prose(section(cells, "What you will learn"))))
    return [] if count >= 2 else ["`What you will learn` needs at least two objectives (`- …`)"]


def parameters_cell(cells):
    """Return what is wrong with the cell tagged `parameters`."""
    tagged = [(i, cell) for i, cell in code(cells) if "parameters" in tags(cell)]
    if len(tagged) != 1:
        return [f"one code cell must be tagged `parameters`, found {len(tagged)}"]
    number, cell = tagged[0]
    problems = []
    if next(code(cells))[0] != number:
        problems.append("the cell tagged `parameters` must be the first code cell")
    if not re.search(r'(?m)^PROFILE = "quick"', cell.source):
        problems.append(
            f'cell {number}: the parameters must have the line `PROFILE = "quick"  # …`'
        )
    for line in filter(str.strip, cell.source.splitlines()):
        match = re.fullmatch(r"[A-Z_]+ = (.+?)  # \S.*", line)
        try:
            ast.literal_eval(match[1] if match else "")
        except (SyntaxError, ValueError):
            problems.append(f"cell {number}: a parameter is `NAME = literal  # what it is`: {line}")
    return problems


def prediction(cells):
    """Return a problem where nothing is asked, or a result is shown before."""
    text = prose(section(cells, "Predict"))
    problems = [] if "?" in text else ["`Predict` must ask the reader something"]
    for number, cell in enumerate(cells, 1):
        if cell.cell_type == "markdown" and re.search(r"(?m)^## Predict\s*$", cell.source):
            return problems
        if cell.cell_type == "code" and RESULT.search(cell.source):
            return [*problems, f"cell {number}: a result is shown before `## Predict`"]
    return problems


def symbols(cells):
    """Return the rows of the table of symbols that lack something."""
    table = rows(prose(section(cells, "Symbols")), ("symbol", "code", "meaning"))
    problems = []
    if len(table) < 3:
        problems.append(
            "`Symbols` needs a table `| symbol | code | meaning |` of three rows or more"
        )
    for row in table:
        if len(row) != 3 or "$" not in row[0] or "`" not in row[1] or not row[2]:
            problems.append(f"`Symbols`: a row is `| $x$ | `x` | meaning |`: {' | '.join(row)}")
    return problems


def hints(cells):
    """Return the exercises without a hint or a difficulty; there are two exercises or more."""
    parts = re.split(r"(?m)^### ", prose(section(cells, "Exercises")))[1:]
    problems = [] if len(parts) >= 2 else ["`Exercises` needs at least two, each under `### …`"]
    for part in parts:
        name, _, text = part.partition("\n")
        name = name.strip()
        if not re.search(r"<details><summary>Hint</summary>\s*\S.*?</details>", part, re.S):
            problems.append(f"exercise {name!r} has no `<details><summary>Hint</summary>` … hint")
        if not re.match(STATED, text.lstrip()):
            asked = "`*Difficulty 2/3, importance 3/3, ten minutes.*`"
            problems.append(f"exercise {name!r} must begin with words as {asked}")
    return problems


def takeaway(cells):
    """Return a problem where the last sentences have no computed numbers."""
    inside = [cell.source for _, cell in code(section(cells, "What we saw"))]
    if any(re.search(r'\bf("""|"|\'\'\'|\').*\{', text, re.S) for text in inside):
        return []
    return ["`What we saw` needs a code cell that displays its sentences with computed numbers"]


def checked(cells):
    """Return a problem where the tests have no cell whose output they compare."""
    if any(cell.source.startswith(CHECK) for _, cell in code(cells)):
        return []
    return [f"no checked cell (first line `{CHECK}`, true in every profile)"]


def unwritten(cells):
    """Return the lines that the author has still to write."""
    return [
        f"cell {number}: still to be written: {line.strip('# ')}"
        for number, cell in enumerate(cells, 1)
        for line in cell.source.splitlines()
        if UNWRITTEN in line
    ]


def cell_size(cells):
    """Return the code cells with too many lines, and the lines that are too long."""
    problems = []
    for number, cell in code(cells):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if len(lines) > LINES:
            problems.append(
                f"cell {number}: {len(lines)} lines of code, at most {LINES} (course_lib "
                "holds what is longer)"
            )
        problems += [
            f"cell {number}: a line of {len(line)} characters, at most {WIDTH}: {line.strip()}"
            for line in lines
            if len(line) > WIDTH
        ]
    return problems


def figures(cells):
    """Return the figures and images without an alternative text."""
    problems = []
    for number, cell in code(cells):
        try:
            tree = ast.parse(plain(cell.source))
        except SyntaxError as error:
            problems.append(f"cell {number}: {error.msg}")
            continue
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = ast.unparse(call.func)
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            if name == "plt.show":
                problems.append(f"cell {number}: use `plots.show(figure, alt=…)`, not `plt.show()`")
            elif name.split(".")[-1] == "show" or "alt" in given:
                if len(literal(given.get("alt"))) < ALT:
                    problems.append(
                        f'cell {number}: `{name}` needs alt="…" that says what is seen '
                        f"({ALT} characters or more)"
                    )
    for number, cell in enumerate(cells, 1):
        if cell.cell_type == "markdown" and re.search(r"!\[\s*\]\(", cell.source):
            problems.append(
                f"cell {number}: an image without alternative text, `![what it shows](…)`"
            )
    return problems


def captions(cells):
    """Return the figures that no numbered text follows, and numbers that are out of order."""
    problems, numbers, bare = [], [], 0
    for place, cell in enumerate(cells, 1):
        found = re.findall(r"\*\*Figure (\d+)\.\*\*", cell.source)
        numbers += map(int, found)
        if cell.cell_type == "code" and "plots.show(" in cell.source:
            problems += [bare] * bool(bare)
            bare = place
        bare = 0 if found else bare
    problems = [
        f"cell {n}: no `**Figure n.** …` follows" for n in [*problems, *[bare] * bool(bare)]
    ]
    if numbers != [*range(1, len(numbers) + 1)]:
        problems.append(f"figures are numbered {numbers}: number them from 1 in their order")
    return problems


def literal(node: ast.expr | None) -> str:
    """Return the text of a literal or f-string, "" of anything else; `{…}` counts as written."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.strip()
    return ast.unparse(node)[2:-1].strip() if isinstance(node, ast.JoinedStr) else ""


def references(cells):
    """Return a problem where no reference is listed."""
    listed = re.findall(r"(?m)^([-*]|\d+\.) ", prose(section(cells, "References")))
    return [] if listed else ["`References` needs a list of at least one"]


def outputs(notebook: Path) -> list[str]:
    """Return what is wrong with the committed `.ipynb`.

    Its outputs must be those of the code that is there, its tables of perplexities must have
    n-grams, its figures alternative text, its size has a limit, and nothing may be in it that
    another run would print otherwise.
    """
    if not notebook.is_file():
        return [f"{notebook.name} is missing; run `python -m tools notebooks pair`"]
    problems = []
    if notebook.stat().st_size > SIZE:
        problems.append(f"{notebook.name} is over {SIZE // 2**20} MiB")
    content = nbformat.read(notebook, as_version=4)
    if not full_scale(notebook) and content.metadata.get(EXECUTED) != digest(content):
        problems.append(
            "the outputs are those of other code; run "
            f"`python -m tools course {notebook.stem}`, then `… notebooks outputs`"
        )
    problems += uncounted(content.cells)
    for number, cell in code(content.cells):
        if cell.source.startswith(CHECK) and not cell.outputs:
            problems.append(
                f"cell {number}: a checked cell has no output to compare with; run "
                "`python -m tools course`, then `… notebooks outputs`"
            )
        for output in cell.outputs:
            if output.output_type == "error":
                problems.append(f"cell {number}: the committed output is the error {output.ename}")
            if output.get("name") == "stderr":
                problems.append(f"cell {number}: a warning in the output: {output.text[:100]!r}")
            shown = output.get("text", "") + output.get("data", {}).get("text/plain", "")
            if re.search(r" at 0x[0-9a-f]{6,}>", shown):
                problems.append(f"cell {number}: the output shows an object's address in memory")
            alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
            if "image/png" in output.get("data", {}) and not alt.strip():
                problems.append(f"cell {number}: a figure in the output has no alternative text")
    return problems
