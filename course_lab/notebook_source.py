"""The `.py` sources of the notebooks: their cells, tags, sections and tables."""

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from course_lib.errors import CourseError, unknown

ROOT = Path(__file__).resolve().parent.parent
IN_REPOSITORY = (ROOT / "pyproject.toml").exists()  # else the course is an installed package
FOLDER = (ROOT if IN_REPOSITORY else ROOT / "course_lab" / "shipped") / "notebooks"
PROFILES = ("smoke", "quick", "standard", "full")
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def sources(folder: Path = FOLDER) -> list[Path]:
    """Return the sources of all notebooks, `NN_name.py` or `NNb_name.py`, in the course's order."""
    return sorted(p for p in Path(folder).glob("*.py") if re.match(r"\d\d[b-z]?_", p.name))


def number(name: str) -> str:
    """Return the number of a lesson as its file's name has it, such as "06" or "06b"."""
    return name.partition("_")[0]


def numeral(name: str) -> str:
    """Return the number of a lesson as readers say it, such as "6" or "6b"."""
    return number(name).lstrip("0")


def select(names: list[str], folder: Path = FOLDER) -> list[Path]:
    """Return the sources with these names, or all where there are no names.

    Raises CourseError, with near matches, for a name that no notebook has.
    """
    known = {path.stem: path for path in sources(folder)}
    for name in names:
        if name not in known:
            raise unknown("notebook", name, known)
    return [path for stem, path in known.items() if stem in names or not names]


def full_scale(path: Path) -> bool:
    """Return whether a notebook is one of 20 to 29, which train at full scale."""
    return path.name.startswith("2")


def read(source: Path) -> NotebookNode:
    """Return the notebook of a `.py` source; the ids of its cells are digests of their content."""
    notebook = jupytext.read(source)
    notebook.metadata = nbformat.from_dict(METADATA)
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        content = f"{cell.cell_type}\n{cell.source}"
        name = hashlib.sha256(content.encode()).hexdigest()[:12]
        seen[name] = seen.get(name, 0) + 1
        cell["id"] = name if seen[name] == 1 else f"{name}-{seen[name]}"
    return notebook


def digest(notebook: NotebookNode) -> str:
    """Return a digest of the code, which layout and comments do not change."""

    def tree(text):
        try:
            return ast.dump(ast.parse(text))
        except SyntaxError:
            return text

    trees = (tree(plain(cell.source)) for _, cell in code(notebook.cells))
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()[:16]


def tags(cell: NotebookNode) -> list[str]:
    """Return the tags of a cell."""
    return list(cell.metadata.get("tags", []))


class MissingSection(CourseError):
    """A lesson lacks one of its headings."""


def section(cells: list[NotebookNode], heading: str) -> list[NotebookNode]:
    """Return the cells from `## heading` to the next heading of that level or above.

    A cell that holds more than the section is cut to the section. Raises MissingSection where
    there is no such heading.
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
    """Return the text of the Markdown cells."""
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def code(cells: list[NotebookNode]) -> Iterator[tuple[int, NotebookNode]]:
    """Yield (number from 1, cell) of every code cell; the number counts all cells."""
    return ((i, cell) for i, cell in enumerate(cells, 1) if cell.cell_type == "code")


def rows(text: str, header: tuple[str, ...]) -> list[list[str]]:
    """Return the rows of the Markdown table in `text` whose header begins with these words."""
    table: list[list[str]] | None = None
    for line in text.splitlines():
        # A `|` inside `…`, or escaped as in $P(w \| h)$, does not separate cells.
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


def minutes(source: Path) -> dict[str, float]:
    """Return the minutes by profile that the table under `Before you start` states."""
    table = rows(prose(section(read(source).cells, "Before you start")), ("profile", "minutes"))
    stated = {}
    for row in table:
        number = re.match(r"[\d.,]+", row[1])
        if number:
            stated[row[0].strip("`*")] = float(number[0].replace(",", ""))
    return stated


def plain(text: str) -> str:
    """Return the Python of a cell, without its magics and shell commands."""
    return re.sub(r"(?m)^\s*[%!].*$", "", text)
