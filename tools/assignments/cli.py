"""The commands `python -m tools assignments …`."""

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


def standing(name: str) -> dict:
    """Return the results that count, with the marks given by hand."""
    results = marking.latest(marking.read_results(results_file(name)))
    results = marking.by_hand(BUILD / name / "manual.csv", results, name)
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
    if not secret.is_file():
        secret.write_text(secrets.token_hex(16) + "\n", "utf-8")
        secret.chmod(0o600)
        print(f"wrote {secret}: keep it, and keep it to yourself")
    key = secret.read_text("utf-8").strip()
    lines = handin.table(classlist)
    if not lines or not {"name", "id"} <= lines[0].keys():
        raise CourseError(f"{classlist} needs the columns name and id, and a line a student")
    rows = [handin.Student._fields]
    for line in lines:
        who = line["id"].strip()
        letters = variant.code(key, who)
        rows.append((variant.pseudonym(key, who), line["name"].strip(), who, letters))
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
    verdicts = marking.check(notebook, notebook.stem[:2])
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
    experiment: Annotated[bool, typer.Option(help="Train a run of each experiment again.")] = True,
):
    """Mark what is new in a folder of collected work; write results and a page a student."""
    students = handin.roster(roster)
    used = sandbox.strongest(trust, level)
    theirs, strangers = handin.collected(collected, students)
    print(f"sandbox level {used}, {len(theirs)} of {len(students)} students handed in")
    if strangers:
        print(f"nobody's in {roster}: {', '.join(strangers)}")
    begin, count = time.perf_counter(), 0
    options = {"level": used, "workers": workers, "experiment": experiment}
    for result in marking.mark(name, collected, students, results_file(name), **options):
        count += 1
        if result["status"] == "ask":
            print(f"{result['student']} {result['step']}: the grader failed, see the dashboard")
    print(f"{count} steps marked in {(time.perf_counter() - begin) / 60:.1f} minutes")
    pages = feedback.write(name, standing(name), students, BUILD / name / "feedback", collected)
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
    path = exports.write(form, name, standing(name), students, BUILD / name, fill, output)
    print(f"wrote {path}")


@app.command()
def dashboard(name: Name, roster: Roster = ROSTER):
    """Write the teacher's page: marks by step, commonest mistakes, who is stuck, what failed."""
    every, students = marking.read_results(results_file(name)), handin.roster(roster)
    path = board.write(name, standing(name), every, students, BUILD / name / "dashboard.html")
    print(f"wrote {path}")


@app.command()
def reading(name: Name, collected: Collected, roster: Roster = ROSTER):
    """Write a page of all texts and figures that you read, and manual.csv for the points."""
    for path in feedback.reading(name, handin.roster(roster), BUILD / name, collected):
        print(f"{path}: here are the texts" if path.suffix == ".html" else f"{path}: for points")


@app.command()
def similar(name: Name, collected: Collected, roster: Roster = ROSTER):
    """List pairs of students whose work is too much alike: a signal, never a verdict."""
    for line in alike.report(name, collected, handin.roster(roster), standing(name)):
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
