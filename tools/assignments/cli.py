"""The commands `python -m tools assignments …`."""

import re
import secrets
import time
from pathlib import Path
from typing import Annotated

import typer

from course_lab.notebook_source import ROOT
from course_lib.errors import CourseError
from tools.assignments import dashboard as board
from tools.assignments import edition as editions
from tools.assignments import exports, feedback, handin, marking, sandbox, variant
from tools.assignments import similar as alike

BUILD = ROOT / "build" / "assignments"
app = typer.Typer(no_args_is_help=True, help="Assignments: editions, marking, feedback, exports.")
Name = Annotated[str, typer.Argument(help="A0, A1, …")]
Collected = Annotated[Path, typer.Argument(help="A notebook, zip or folder a student.")]
Roster = Annotated[Path, typer.Option(help="CSV: student, name, id, variant.")]
Secret = Annotated[Path, typer.Option(help="The term's secret, which `roster` makes.")]
Output = Annotated[Path | None, typer.Option(help="What is written: file, folder or gradebook.db.")]
Trust = Annotated[bool, typer.Option(help="Accept a sandbox below level 3.")]
ROSTER, SECRET = Path("roster.csv"), Path("term-secret.txt")


def results_file(name: str) -> Path:
    """Return the file to which the results of an assignment are appended."""
    return BUILD / name / "results.jsonl"


def standing(name: str, students: list[handin.Student]) -> dict:
    """Return the results that count, with the marks given by hand."""
    results = marking.latest(marking.read_results(results_file(name)))
    results = marking.by_hand(BUILD / name / "manual.csv", results, name, students)
    if not results:
        raise CourseError(
            f"nothing of {name} is marked yet; run `python -m tools assignments mark`"
        )
    return results


@app.command()
def roster(
    classlist: Annotated[Path, typer.Argument(help="CSV with the columns name and id.")],
    secret: Secret = SECRET,
    output: Annotated[Path, typer.Option(help="Where the roster is written.")] = ROSTER,
):
    """Write the roster: a pseudonym and six letters for each student of a class list."""
    lines = handin.table(classlist)
    if not lines or not {"name", "id"} <= lines[0].keys():
        raise CourseError(
            f"{classlist} needs the columns name and id, with commas between them, and a line a "
            "student; save it as CSV with commas"
        )
    lines_of: dict[str, int] = {}
    for number, line in enumerate(lines, 2):
        who = (line["id"] or "").strip()
        if not who or who in lines_of:
            same = f"has the id {who!r} of line {lines_of[who]}" if who else "has no id"
            raise CourseError(f"{classlist}, line {number}, {same}: every line needs its own id")
        lines_of[who] = number
    if not secret.is_file():
        secret.write_text(secrets.token_hex(16) + "\n", "utf-8")
        secret.chmod(0o600)
        print(f"wrote {secret}: keep it, and keep it to yourself")
    key = secret.read_text("utf-8").strip()
    rows = [handin.Student._fields]
    for line in lines:
        who = line["id"].strip()
        letters = variant.code(key, who)
        rows.append((variant.pseudonym(key, who), line["name"].strip(), who, letters))
    handin.unlike(map(handin.Student._make, rows[1:]), output)
    handin.write_table(output, rows)
    print(f"{len(lines)} students in {output}")


@app.command()
def edition(
    name: Name,
    pack: Annotated[Path | None, typer.Option(help="The instructor's folder of solutions.")] = None,
    output: Output = None,
):
    """Write what students get, the solution and Gradescope's zip; refuse a leak."""
    if pack and not (pack / f"{name}.py").is_file():
        raise CourseError(f"the pack {pack} has no {name}.py")
    for path in editions.write(name, output or BUILD / name / "edition", pack):
        print(f"wrote {path}")


@app.command()
def check(notebook: Annotated[Path, typer.Argument(help="Your own notebook, A1.ipynb.")]):
    """Try your own notebook by the public laws, without a sandbox."""
    named = re.search(r"A\d", notebook.stem)
    if not named:
        raise CourseError(f"{notebook.name} names no assignment: call the notebook A1.ipynb, say")
    verdicts = marking.check(notebook, named[0])
    for step, verdict in verdicts:
        print(f"{step.name} {step.title}: {verdict.sentence or 'obeys its laws'}")
    raise typer.Exit(0 if all(verdict.share == 1 for _, verdict in verdicts) else 1)


@app.command()
def mark(
    name: Name,
    collected: Collected,
    roster: Roster = ROSTER,
    workers: Annotated[int, typer.Option(help="Steps marked at the same time.")] = 2,
    level: Annotated[str | None, typer.Option(help="Insist on this sandbox: 3, 2 or 1.")] = None,
    trust: Trust = False,
    experiment: Annotated[bool, typer.Option(help="Begin a run of each experiment again.")] = True,
):
    """Mark what is new in a folder of collected work; write results and a page a student."""
    students = handin.roster(roster)
    used = sandbox.strongest(trust, level)
    theirs = handin.collected(collected, students)
    print(f"sandbox level {used}, {len(theirs.latest)} of {len(students)} students handed in")
    if theirs.strangers:
        print(f"nobody's in {roster}, or may be two students': {', '.join(theirs.strangers)}")
    if theirs.unread:
        print(f"no notebook, zip or folder, and not read: {', '.join(theirs.unread)}")
    if theirs.older:
        print(f"left out, for a later file of the same student: {', '.join(theirs.older)}")
    begin, count, unread = time.perf_counter(), 0, set()
    options = {"level": used, "workers": workers, "experiment": experiment}
    for result in marking.mark(name, collected, students, results_file(name), **options):
        count += 1
        if result["status"] == "ask":
            print(f"{result['student']} {result['step']}: the grader failed, see the dashboard")
        if result.get("changed"):
            told = "the registration is another one than that of the first hand-in"
            print(f"{result['student']} {result['step']}: {told}")
        if result["status"] == "unreadable":
            unread.add(f"{result['student']}: cannot be read: {result['sentence']}")
    print(*sorted(unread), sep="\n", end="\n" * bool(unread))
    print(f"{count} steps marked in {(time.perf_counter() - begin) / 60:.1f} minutes")
    results = standing(name, students)
    pages = feedback.write(name, results, students, BUILD / name / "feedback", collected)
    print(f"{len(pages)} pages in {BUILD / name / 'feedback'}")


@app.command()
def marks(
    name: Name,
    form: Annotated[str, typer.Argument(help=f"One of {', '.join(exports.FORMS)}.")] = "csv",
    roster: Roster = ROSTER,
    fill: Annotated[Path | None, typer.Option(help="Canvas' own export, to be filled in.")] = None,
    output: Output = None,
):
    """Export the marks."""
    students = handin.roster(roster)
    results = standing(name, students)
    path = exports.write(form, name, results, students, BUILD / name, fill, output)
    print(f"wrote {path}")
    if count := feedback.still_open(results):
        print(f"{count} steps are still open and count as 0: read them, or run `mark` again")


@app.command()
def dashboard(name: Name, roster: Roster = ROSTER):
    """Write the teacher's page: marks by step, commonest mistakes, who is stuck, what failed."""
    every, students = marking.read_results(results_file(name)), handin.roster(roster)
    path = board.write(
        name, standing(name, students), every, students, BUILD / name / "dashboard.html"
    )
    print(f"wrote {path}")


@app.command()
def reading(name: Name, collected: Collected, roster: Roster = ROSTER):
    """Write a page of all texts and figures that you read, and manual.csv for the points."""
    page, table, added = feedback.reading(name, handin.roster(roster), BUILD / name, collected)
    print(f"{page}: here are the texts")
    print(f"{table}: for points; {added} lines are new")


@app.command()
def similar(name: Name, collected: Collected, roster: Roster = ROSTER):
    """List pairs of students whose work is too much alike: a signal, never a verdict."""
    students = handin.roster(roster)
    for line in alike.report(name, collected, students, standing(name, students)):
        print(line)


@app.command()
def talk(
    name: Name,
    collected: Collected,
    roster: Roster = ROSTER,
    secret: Secret = SECRET,
    share: Annotated[float, typer.Option(help="Of the students, who are drawn.")] = 0.1,
    trust: Trust = False,
):
    """Draw students for a talk of five minutes, with questions made from their own answers."""
    key = secret.read_text("utf-8").strip()
    level = sandbox.strongest(trust)
    for line in alike.talks(name, collected, handin.roster(roster), key, share, level):
        print(line)


@app.command()
def referees(name: Name, collected: Collected, roster: Roster = ROSTER, secret: Secret = SECRET):
    """Say who referees whom, and compare what two referees of a report say."""
    from tools.assignments.laws import a6_referees  # which imports PyTorch

    works = dict(handin.works(collected, handin.roster(roster)))
    for line in a6_referees.report(works, secret.read_text("utf-8").strip()):
        print(line)
