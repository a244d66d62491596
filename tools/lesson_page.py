"""From an executed notebook to a page of the website, and what other pages say about the lesson."""

import base64
import hashlib
import html
import json
import re
from pathlib import Path
from typing import NamedTuple

from course_lib.errors import CourseError
from tools import exercises, lesson_way
from tools.exercises import Exercise

PARTS = {  # a lesson's part follows from its number
    "The problem": range(1, 5),
    "The remedies": range(5, 20),
    "Full-scale training": range(20, 30),
    "Analyses": range(30, 100),
}
HIDDEN = {"injected-parameters"}  # tags of cells that no page shows
DROPPED = {"application/vnd.jupyter.widget-view+json", "application/javascript"}


class Lesson(NamedTuple):
    """The other pages say this about a lesson; `thumbnail` is a PNG or None."""

    name: str
    title: str
    question: str
    thumbnail: bytes | None
    alt: str
    exercises: tuple[Exercise, ...] = ()
    minutes: int = 0  # of reading, 0 where the lesson does not say

    @property
    def part(self) -> str:
        """The part of the course to which the lesson belongs."""
        number = int(re.match(r"\d*", self.name)[0] or 0)
        return next((part for part, numbers in PARTS.items() if number in numbers), "More")


def lesson(path: Path, source: Path) -> Lesson:
    """Write the page's copy of an executed notebook under `source/lessons` and describe it.

    Figures become `<img>` with their alternative text (output metadata `image/png: {alt}`), so
    that Sphinx keeps it; widgets, which a static page cannot show, are dropped.
    """
    notebook = json.loads(path.read_text("utf-8"))
    notebook["metadata"].pop("widgets", None)
    cells = [cell for cell in notebook["cells"] if HIDDEN.isdisjoint(tags(cell))]

    # The cells, and their pictures: (tagged for the gallery, PNG, alternative text).
    pictures = []
    for cell in cells:
        if cell["cell_type"] == "markdown":
            cell["source"] = keep_known_links("".join(cell["source"]), source / "lessons")
        else:  # marks for the test runner, not for readers
            cell["source"] = re.sub(r"^# *NBVAL_\w+\n", "", "".join(cell["source"]), flags=re.M)
        for output in cell.get("outputs", ()):
            bundle = output.get("data", {})
            for kind in DROPPED & bundle.keys():
                del bundle[kind]
            if "image/png" in bundle:
                alt = alternative_text(output, cell, path.name)
                png = base64.b64decode("".join(bundle.pop("image/png")))
                pictures.append(("gallery" in tags(cell), png, alt))
                bundle.setdefault("text/html", image(png, alt, source / "_static" / "figures"))

    # The exercises, to which the page of the reader's progress links.
    asked = tuple(exercises.find(path.stem, cells))
    for exercise in asked:
        name_heading(path.stem, exercise, cells)

    # The foot, in a box that the style sheet knows.
    for cell in cells:
        if lesson_way.TAG in tags(cell):
            cell["source"] = f"::::{{container}} course-way\n{cell['source']}\n::::"

    # The page, and what other pages say about it.
    title, question = heading(cells, path.stem)
    notebook["cells"] = cells
    (source / "lessons" / path.name).write_text(json.dumps(notebook), "utf-8")
    _, png, alt = max(pictures, key=lambda picture: picture[0], default=(False, None, ""))
    return Lesson(path.stem, title, question, png, alt, asked, reading_minutes(cells))


def alternative_text(output: dict, cell: dict, name: str) -> str:
    """Return what a figure shows; raise CourseError naming cell and notebook where it has none."""
    alt = output["metadata"].get("image/png", {}).get("alt", "").strip()
    if not alt:
        last = "".join(cell["source"]).strip().splitlines()[-1:]
        raise CourseError(
            f"{name}: a figure without alternative text, in the cell that ends with "
            f"`{''.join(last)}`; show it with `course_lab.plots.show(figure, alt=...)`"
        )
    return alt


def tags(cell: dict) -> list[str]:
    """Return the tags of a cell."""
    return cell["metadata"].get("tags", [])


def image(png: bytes, alt: str, folder: Path) -> str:
    """Write a figure into `folder`; return the `<img>` that shows it, with its size."""
    name = hashlib.sha256(png).hexdigest()[:16] + ".png"
    (folder / name).write_bytes(png)
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    return (
        f'<img class="course-plot" src="../_static/figures/{name}" alt="{html.escape(alt)}" '
        f'width="{width}" height="{height}">'
    )


def heading(cells: list[dict], name: str) -> tuple[str, str]:
    """Return the title and the first paragraph below it, as Markdown on one line."""
    text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    top = re.search(r"^# +(.+?)\s*$(.*?)(?=^#|\Z)", text, re.M | re.S)
    if not top:
        raise CourseError(f"{name}: the lesson has no title (a Markdown cell with '# Title')")
    paragraphs = [p for p in re.split(r"\n\s*\n", top[2]) if p.strip()]
    first = paragraphs[0] if paragraphs else ""
    return top[1], " ".join(re.sub(r"^\s*>|\*\*Question\.?\*\*", "", first, flags=re.M).split())


def reading_minutes(cells: list[dict]) -> int:
    """Return the minutes of reading that a lesson states, 0 where it states none."""
    text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    stated = re.search(r"\*\*Reading\.\*\* (\d+) minutes", text)
    return int(stated[1]) if stated else 0


def name_heading(lesson: str, exercise: Exercise, cells: list[dict]) -> None:
    """Give the heading of an exercise a name, to which the page of the reader's progress links."""
    number = exercise.name.partition(".")[2]
    line = re.compile(rf"^### {number}\. {re.escape(exercise.title)}", re.M)
    for cell in cells:
        if cell["cell_type"] == "markdown":
            named = rf"\n({target(lesson, exercise)})=\n\g<0>"
            cell["source"] = line.sub(named, cell["source"])


def target(lesson: str, exercise: Exercise) -> str:
    """Return the name of an exercise's heading, which is its anchor on the lesson's page."""
    return f"{lesson}-exercise-{exercise.name.partition('.')[2]}".replace("_", "-")


def keep_known_links(markdown: str, folder: Path) -> str:
    """Return a page's text in which relative links lead to pages of the site.

    A link that leads nowhere keeps only its text. Lessons and CONTRIBUTING.md name
    `docs/…` and `notebooks/…` as they lie in the repository.
    """

    def replace(link: re.Match) -> str:
        text, target, anchor = link.groups()
        target = re.sub(r"^((?:\.\./)*)docs/", r"\1", target)
        target = re.sub(r"^((?:\.\./)*)notebooks/", r"\1lessons/", target)
        return f"[{text}]({target}{anchor or ''})" if (folder / target).is_file() else text

    return re.sub(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)", replace, markdown)
