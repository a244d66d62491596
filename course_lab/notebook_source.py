"""A notebook's `.py` source: which there are, their cells, tags, sections and tables."""

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


FOLDER = ROOT / "notebooks"


PROFILES = ("smoke", "quick", "standard", "full")


METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


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


def digest(notebook: NotebookNode) -> str:
    """Of the code: the same as long as only its layout and comments change."""

    def tree(text):
        try:
            return ast.dump(ast.parse(text))
        except SyntaxError:
            return text

    trees = (tree(plain(cell.source)) for _, cell in code(notebook.cells))
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()[:16]


def tags(cell: NotebookNode) -> list[str]:
    """The tags of a cell."""
    return list(cell.metadata.get("tags", []))


class MissingSection(CourseError):
    """A lesson lacks one of its headings."""


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


def minutes(source: Path) -> dict[str, float]:
    """Minutes by profile, as the table of the lesson's `Before you start` states them."""
    table = rows(prose(section(read(source).cells, "Before you start")), ("profile", "minutes"))
    stated = {}
    for row in table:
        number = re.match(r"[\d.,]+", row[1])
        if number:
            stated[row[0].strip("`*")] = float(number[0].replace(",", ""))
    return stated


def plain(text: str) -> str:
    """The Python of a cell, without its magics and shell commands."""
    return re.sub(r"(?m)^\s*[%!].*$", "", text)
