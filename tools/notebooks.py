"""Lessons as files: the `.py` source and its paired `.ipynb`, and the contract a lesson keeps.

The percent-format `.py` is the source and always wins; the `.ipynb` beside it is what readers
open, with the outputs of the `quick` profile. CONTRIBUTING.md lists the contract; `lint` checks
it rule by rule.
"""

import ast
import hashlib
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
from jupytext.combine import combine_inputs_with_outputs
from nbformat import NotebookNode

from course_lib.errors import CourseError, unknown
from tools import exercises

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"
PROFILES = ("smoke", "quick", "standard", "full")
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
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
EXECUTED = "executed"  # where a notebook's metadata has the digest of the code behind its outputs
LINES, WIDTH, ALT, SIZE = 15, 75, 20, 2**20
CHECK = "# NBVAL_CHECK_OUTPUT"  # the first line of a cell whose output the tests compare
RESULT = re.compile(r"\b(show|display|print|experiments\.run)\(")


def sources(folder: Path = FOLDER) -> list[Path]:
    """The sources of all lessons, `NN_name.py`, in the order of the course."""
    return sorted(Path(folder).glob("[0-9][0-9]_*.py"))


def select(names: list[str], folder: Path = FOLDER) -> list[Path]:
    """The sources called `names` (all when empty); CourseError with near matches otherwise."""
    known = {path.stem: path for path in sources(folder)}
    for name in names:
        if name not in known:
            raise unknown("notebook", name, known)
    return [path for stem, path in known.items() if stem in names or not names]


def full_scale(path: Path) -> bool:
    """True for notebooks 20 to 29, which train at full scale and keep a lighter contract."""
    return path.name.startswith("2")


def read(source: Path) -> NotebookNode:
    """The notebook of a `.py` source, with cell names that depend on nothing but the content."""
    notebook = jupytext.read(source)
    notebook.metadata = nbformat.from_dict(METADATA)
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        name = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        seen[name] = seen.get(name, 0) + 1
        cell["id"] = name if seen[name] == 1 else f"{name}-{seen[name]}"
    return notebook


def repository() -> str:
    """The repository's address as pyproject.toml has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project["urls"]["Repository"]


# --- pairs ---------------------------------------------------------------------------------------


def pair(source: Path, executed: Path | None = None) -> bool:
    """Bring the `.ipynb` beside `source` up to date; True when that changed the file.

    Outputs of unchanged cells stay, or come from the notebook `executed`, whose code's digest is
    kept with them. Of full-scale notebooks only those of checked cells are kept.
    """
    target = source.with_suffix(".ipynb")
    notebook, before = read(source), target.read_text("utf-8") if target.is_file() else None
    identity = [(cell["id"], tags(cell)) for cell in notebook.cells]
    metadata = dict(METADATA)
    if executed:
        outputs = nbformat.read(executed, as_version=4)
        outputs.cells = [c for c in outputs.cells if "injected-parameters" not in tags(c)]
        metadata |= {EXECUTED: digest(outputs)}
        notebook = combine_inputs_with_outputs(notebook, outputs)
    elif before:
        outputs = nbformat.reads(before, as_version=4)
        metadata |= {EXECUTED: outputs.metadata.get(EXECUTED, "")}
        notebook = combine_inputs_with_outputs(notebook, outputs)
    for cell, (name, labels) in zip(notebook.cells, identity, strict=True):
        cell["id"] = name
        # jupytext would take the tags of the older notebook, but the .py decides
        cell.metadata = nbformat.from_dict({"tags": list(labels)} if labels else {})
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
            if full_scale(source) and not cell.source.startswith(CHECK):
                cell.outputs, cell.execution_count = [], None
    notebook.metadata = nbformat.from_dict(metadata)
    after = nbformat.writes(notebook) + "\n"
    if after != before:
        target.write_text(after, "utf-8")
    return after != before


def digest(notebook: NotebookNode) -> str:
    """Of the code: the same as long as only its layout and comments change."""

    def tree(text):
        try:
            return ast.dump(ast.parse(text))
        except SyntaxError:
            return text

    trees = (tree(plain(cell.source)) for _, cell in code(notebook.cells))
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()[:16]


def check(source: Path) -> list[str]:
    """How the pair of `source` has drifted apart, one line for each difference."""
    target = source.with_suffix(".ipynb")
    if not target.is_file():
        return [f"{target.name} is missing; run `python -m tools notebooks pair`"]
    left, right = read(source).cells, nbformat.read(target, as_version=4).cells
    found = []
    if len(left) != len(right):
        found.append(f"{source.name} has {len(left)} cells, {target.name} has {len(right)}")
    for number, (one, other) in enumerate(zip(left, right, strict=False), 1):
        for what, a, b in (
            ("kind", one.cell_type, other.cell_type),
            ("text", one.source, other.source),
            ("tags", tags(one), tags(other)),
        ):
            if a != b:
                found.append(f"{source.name}, cell {number}: {what} differs from {target.name}")
    return found


def tags(cell: NotebookNode) -> list[str]:
    """The tags of a cell."""
    return list(cell.metadata.get("tags", []))


# --- the lesson contract -------------------------------------------------------------------------


class MissingSection(CourseError):
    """A lesson lacks one of its headings."""


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


def section(cells: list[NotebookNode], heading: str) -> list[NotebookNode]:
    """The cells from `## heading` to the next `##`; the first cut off before the heading.

    Raises MissingSection when there is no such heading.
    """
    inside: list[NotebookNode] = []
    for cell in cells:
        if cell.cell_type != "markdown":
            inside += [cell] if inside else []
            continue
        for part in re.split(r"(?m)^(?=##? )", cell.source):
            if inside and re.match(r"##? ", part):
                return inside
            if inside or re.match(rf"## {re.escape(heading)}\s*$", part.split("\n", 1)[0]):
                inside.append(NotebookNode(cell, source=part))
    if not inside:
        raise MissingSection(f"no heading `## {heading}`")
    return inside


def prose(cells: list[NotebookNode]) -> str:
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def code(cells: list[NotebookNode]) -> Iterator[tuple[int, NotebookNode]]:
    """(number from 1, cell) of the code cells."""
    return ((i, cell) for i, cell in enumerate(cells, 1) if cell.cell_type == "code")


def rows(text: str, header: tuple[str, ...]) -> list[list[str]]:
    """The rows of the Markdown table in `text` whose header starts with the words `header`."""
    table: list[list[str]] | None = None
    for line in text.splitlines():
        # `|` inside `…`, or escaped as in $P(w \| h)$, does not separate cells
        inner = re.sub(r"`[^`]*`", lambda m: m[0].replace("|", "\0"), line.strip())
        inner = inner.replace(r"\|", "\0")
        if not inner.startswith("|"):
            if table is not None:
                return table
            continue
        cells = [cell.strip().replace("\0", "|") for cell in inner.strip("|").split("|")]
        if table is not None and not re.fullmatch(r"[-: |]+", inner):
            table.append(cells)
        elif table is None and tuple(cell.lower() for cell in cells[: len(header)]) == header:
            table = []
    return table or []


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


def minutes(source: Path) -> dict[str, float]:
    """Minutes by profile, as the table of the lesson's `Before you start` states them."""
    table = rows(prose(section(read(source).cells, "Before you start")), ("profile", "minutes"))
    stated = {}
    for row in table:
        number = re.match(r"[\d.,]+", row[1])
        if number:
            stated[row[0].strip("`*")] = float(number[0].replace(",", ""))
    return stated


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


def plain(text: str) -> str:
    """The Python of a cell, without its magics and shell commands."""
    return re.sub(r"(?m)^\s*[%!].*$", "", text)


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


# --- copies for the tests ------------------------------------------------------------------------


def smoke_copies(target: Path, chosen: list[Path]) -> list[Path]:
    """Write the notebooks of sources into an emptied `target` with PROFILE = "smoke" injected.

    Outputs come along, so that nbval compares the checked cells with the committed `quick` run. A
    notebook with a parameter FOLDER trains into a fresh one, never going on with an older run.
    Exercises are solved, and their wrong answers tried (`exercises.solve`).
    """
    from papermill import inspect_notebook
    from papermill.iorw import load_notebook_node
    from papermill.parameterize import parameterize_notebook

    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    copies = []
    for source in chosen:
        if not source.with_suffix(".ipynb").is_file():
            raise CourseError(check(source)[0])
        notebook = load_notebook_node(str(source.with_suffix(".ipynb")))
        notebook.cells = exercises.solve(source, notebook.cells)
        parameters = {"PROFILE": "smoke"}
        if "FOLDER" in inspect_notebook(notebook):
            parameters["FOLDER"] = str(target / "runs" / source.stem)
        copies.append(target / source.with_suffix(".ipynb").name)
        nbformat.write(parameterize_notebook(notebook, parameters), copies[-1])
    return copies
