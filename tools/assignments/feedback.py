"""The feedback: a page a student, with the diagnosis and the instance of each step."""

import base64
from collections import defaultdict
from pathlib import Path

from tools.assignments import handin, marking, pages, variant

OPEN = ("manual", "waiting", "ask", "unreadable")
PICTURE = 2 << 20  # bytes of a figure on the page


def totals(results: dict) -> dict[str, float]:
    """Return the points in an assignment of each student who handed in."""
    sums = defaultdict(float)
    for (student, _), result in results.items():
        sums[student] += result["points"]
    return {student: round(points, 1) for student, points in sums.items()}


def still_open(results: dict) -> int:
    """Return how many steps have no mark yet, each of which counts as 0 in the totals."""
    return sum(result["status"] in OPEN for result in results.values())


def of_student(name: str, results: dict, student: handin.Student) -> list[tuple]:
    """Return each step that has a result of a student, and the result."""
    pairs = [(s, results.get((student.student, s.name))) for s in marking.module(name).STEPS]
    return [(step, result) for step, result in pairs if result]


def figure(files: dict[str, bytes]) -> str:
    """Return the handed-in figure as an address, "" where there is none that is a PNG."""
    for name, content in sorted(files.items()):
        if name.endswith(".png") and content.startswith(b"\x89PNG\r\n") and len(content) <= PICTURE:
            return "data:image/png;base64," + base64.b64encode(content).decode()
    return ""


def page(name: str, results: dict, student: handin.Student, files: dict[str, bytes]) -> str:
    """Return the page of one student."""
    laws, steps = marking.module(name), of_student(name, results, student)
    return pages.page(
        "feedback",
        title=laws.TITLE,
        total=sum(result["points"] for _, result in steps),
        of=sum(step.points for step in laws.STEPS),
        student=student,
        foreign=next((r["foreign"] for _, r in steps if r.get("foreign")), ""),
        nobody=variant.NOBODY,
        when=max((result["time"] for _, result in steps), default=""),
        steps=steps,
        waits=OPEN,
        figure=figure(files),
    )


def reading(
    name: str, students: list[handin.Student], folder: Path, collected: Path
) -> tuple[Path, Path, int]:
    """Write the page of all texts that a teacher reads, and a table for points.

    Return both, and how many lines the table has got. A table that is there is kept, since it may
    hold points: what was handed in later is added below.
    """
    steps = [step for step in marking.module(name).STEPS if step.kind == "manual"]
    works = []
    lines = []
    for student, submission in handin.works(collected, students):
        texts = [(step, submission.answer(step)) for step in steps]
        texts = [(step, text) for step, text in texts if not handin.blank(text)]
        if texts:
            works.append((student.student, texts, figure(submission.files)))
            for step, _ in texts:
                own = marking.digest(step, submission, name, student.variant)
                line = {"student": student.student, "step": step.name}
                lines.append(line | {"work": marking.work_of(own)})
    folder.mkdir(parents=True, exist_ok=True)
    page, table = folder / "reading.html", folder / "manual.csv"
    title = f"{marking.module(name).TITLE}: to be read"
    page.write_text(pages.page("reading", title=title, works=works), "utf-8")
    return page, table, marking.add_by_hand(table, lines)


def write(
    name: str,
    results: dict,
    students: list[handin.Student],
    folder: Path,
    collected: Path | None = None,
) -> list[Path]:
    """Write the page of each student who handed in; return the pages.

    collected: the folder of hand-ins, from which figures come.
    """
    folder.mkdir(parents=True, exist_ok=True)
    theirs = handin.collected(collected, students).latest if collected else {}
    written = []
    for student in students:
        if of_student(name, results, student):
            files = handin.read(theirs[student], student.variant).files if student in theirs else {}
            path = folder / f"{student.student}.html"
            path.write_text(page(name, results, student, files), "utf-8")
            written.append(path)
    return written
