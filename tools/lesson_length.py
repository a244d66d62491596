"""How long a lesson is: words, lines of code, figures, and the minutes that reading takes."""

import re
from pathlib import Path
from typing import NamedTuple

import nbformat

from course_lab.notebook_source import MissingSection, code, prose, read, section

WORDS_A_MINUTE = 200
LINES_A_MINUTE = 13  # of code


class Length(NamedTuple):
    """The length of a lesson, as a reader meets it."""

    words: int  # of the text; a formula is one word; without the references
    lines: int  # of code, those of exercises and folded cells as well
    figures: int

    @property
    def minutes(self) -> int:
        """The minutes that reading takes, rounded."""
        return round(self.words / WORDS_A_MINUTE + self.lines / LINES_A_MINUTE)


def measure(source: Path) -> Length:
    """Return the length of a lesson; its figures are those of the `.ipynb` beside it."""
    cells = read(source).cells
    try:
        listed = words(prose(section(cells, "References")))
    except MissingSection:
        listed = 0
    lines = [line for _, cell in code(cells) for line in cell.source.splitlines() if line.strip()]
    return Length(words(prose(cells)) - listed, len(lines), pictures(source.with_suffix(".ipynb")))


def words(text: str) -> int:
    """Return the number of words of a Markdown text, without addresses; a formula is one.

    The number before a title is none, and "6b" is one.
    """
    text = re.sub(r"(?m)^# \w+\. |`!git clone[^`]*`|</?\w[^<>]*>", "", text)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"\$\$.*?\$\$|\$[^$]*\$", " x ", text, flags=re.S)
    return len(re.findall(r"[^\W\d_][\w’'-]*|\d[\d,.]*(?:[b-z]\b)?", text))


def pictures(notebook: Path) -> int:
    """Return how many figures the outputs of a notebook show."""
    if not notebook.is_file():
        return 0
    cells = code(nbformat.read(notebook, as_version=4).cells)
    outputs = [output for _, cell in cells for output in cell.get("outputs", ())]
    return sum("image/png" in output.get("data", {}) for output in outputs)
