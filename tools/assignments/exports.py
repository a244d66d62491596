"""Exports of the marks: a table of all results, Canvas, Moodle, Gradescope, nbgrader."""

import csv
import json
import re
from pathlib import Path

from course_lib.errors import CourseError, unknown
from tools.assignments import feedback, handin, marking
from tools.assignments.gradescope import entry

COLUMNS = ("student", "step", "points", "of", "status", "sentence", "mistake", "seconds", "level")
COLUMNS += ("version", "trial", "hints", "time")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # by which a spreadsheet would run a cell


def write(
    form: str,
    name: str,
    results: dict,
    students: list[handin.Student],
    folder: Path,
    fill: Path | None = None,
    output: Path | None = None,
) -> Path:
    """Write the marks of an assignment in a form; return where.

    form: csv, canvas, moodle, gradescope or nbgrader; folder: where it goes if `output` is None;
    fill: Canvas' own export, whose ids and column names are kept.
    """
    if form not in FORMS:
        raise unknown("form", form, FORMS)
    folder.mkdir(parents=True, exist_ok=True)
    written, target = FORMS[form]
    return written(name, results, students, output or folder / target, fill)


def safe(cell):
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def plain(name, results, students, path, fill) -> Path:
    """Write every result on a line of its own."""
    rows = [[safe(results[key].get(c, "")) for c in COLUMNS] for key in sorted(results)]
    return handin.write_table(path, [COLUMNS, *rows])


def totals(results, students) -> dict[str, float]:
    """Return the points of those who handed in, by the platform's id."""
    points = feedback.totals(results)
    return {s.id: points[s.student] for s in students if s.student in points}


def canvas(name, results, students, path, fill) -> Path:
    """Fill Canvas' own export in: one column, its other columns, rows and ids as they are."""
    if fill is None:
        raise CourseError("give Canvas' own export by --fill: its ids and column names must match")
    points = totals(results, students)
    with fill.open(encoding="utf-8-sig", newline="") as file:
        heads, *rows = list(filter(None, csv.reader(file))) or [[]]
    if "ID" not in heads:
        raise CourseError(f"{fill} is no export of Canvas' gradebook: it has no column ID")
    own = re.compile(rf"{re.escape(name)}( \(\d+\))?")  # "A1 quiz (7)" is another one
    columns = [i for i, head in enumerate(heads) if own.fullmatch(head)]
    if not columns:  # a new assignment: one more column
        columns = [len(heads)]
        heads.append(name)
        of = sum(step.points for step in marking.module(name).STEPS)
        for row in rows:
            row.append(f"{of:g}" if row[0].strip().startswith("Points Possible") else "")
    # The roster's id is one of Canvas' three. A number of another column may be somebody else's id.
    keys = [heads.index(k) for k in ("SIS User ID", "SIS Login ID", "ID") if k in heads]
    ids = {student.id for student in students}
    key = max(keys, key=lambda k: sum(row[k] in ids for row in rows))
    for row in rows:
        if row[key] in points and row[heads.index("ID")]:
            row[columns[0]] = f"{points[row[key]]:g}"
    return handin.write_table(path, [heads, *rows])  # Canvas' cells as they were


def moodle(name, results, students, path, fill) -> Path:
    """Write Moodle's import: id number, grade, and the sentences as feedback."""
    rows = [["ID number", f"Assignment: {name}", f"Feedback: {name}"]]
    points = totals(results, students)
    for student in students:
        if student.id in points:
            told = safe(comments(name, results, student))
            rows.append([safe(student.id), f"{points[student.id]:g}", told])
    return handin.write_table(path, rows)


def comments(name, results, student) -> str:
    """Return a student's sentences, one step after the other."""
    lines = []
    for step, result in feedback.of_student(name, results, student):
        waits = result["status"] in feedback.OPEN
        points = f"{'open' if waits else format(result['points'], 'g')} of {step.points:g}"
        lines.append(f"{step.name}: {points}. {result['sentence']}".strip())
    return " / ".join(lines)


def gradescope(name, results, students, path, fill) -> Path:
    """Write a results.json a student, as Gradescope's autograder would."""
    path.mkdir(parents=True, exist_ok=True)
    for student in students:
        own = feedback.of_student(name, results, student)
        if own:
            tests = [entry(step, result) for step, result in own]
            (path / f"{student.student}.json").write_text(json.dumps({"tests": tests}), "utf-8")
    return path


def nbgrader(name, results, students, path, fill) -> Path:
    """Write score and comment of each step through nbgrader's Gradebook, as formgrader shows them.

    The gradebook must know the assignment (`nbgrader generate_assignment`) and its submissions
    (`nbgrader autograde --no-execute`), whose scores are replaced.
    """
    try:
        from nbgrader.api import Gradebook
    except ImportError:
        raise CourseError("nbgrader is not installed: pip install nbgrader") from None
    if not path.is_file():
        raise CourseError(f"{path} is no gradebook; give nbgrader's by --output gradebook.db")
    with Gradebook(f"sqlite:///{path.resolve()}") as gradebook:
        submitted = {work.student_id for work in gradebook.assignment_submissions(name)}
        for student in students:
            who = next((w for w in (student.id, student.student) if w in submitted), None)
            for step, result in feedback.of_student(name, results, student) if who else ():
                kind = "manual" if step.kind == "manual" else "answer"
                cell = f"{kind}-{step.name.replace('.', '-')}"
                grade = gradebook.find_grade(cell, name, name, who)
                grade.manual_score = float(result["points"])
                grade.needs_manual_grade = result["status"] in feedback.OPEN
                comment = gradebook.find_comment(cell, name, name, who)
                comment.manual_comment = result["sentence"] or "It obeys its laws."
        gradebook.db.commit()
    return path


FORMS = {  # by name: what writes it, and where it goes
    "csv": (plain, "marks.csv"),
    "canvas": (canvas, "canvas.csv"),
    "moodle": (moodle, "moodle.csv"),
    "gradescope": (gradescope, "gradescope"),
    "nbgrader": (nbgrader, "gradebook.db"),
}
