"""The command line `python -m tools course | site | test | lab | progress | notebooks …`."""

import ast
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from course_lab import notebook_source
from course_lib.errors import CourseError, unknown
from tools import lesson_linter

Profile = Annotated[str, typer.Option(help="smoke, quick, standard or full.")]
Workers = Annotated[int, typer.Option(help="Notebooks executed at the same time.")]
Names = Annotated[list[str] | None, typer.Argument(help="Notebooks; all when none is named.")]


def build_folder(*parts: str) -> Path:
    """Return a folder under `build/`, where everything made by the course goes."""
    return notebook_source.ROOT.joinpath("build", *parts)


def check_profile(profile: str) -> str:
    """Return the profile; raise CourseError with near matches for an unknown one."""
    if profile not in notebook_source.PROFILES:
        raise unknown("profile", profile, notebook_source.PROFILES)
    return profile


def parameter_value(text: str):
    """Return a parameter's value as Python reads it; what is no literal is a string.

    Raises CourseError for a literal that JSON cannot write down.
    """
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, TypeError, ValueError):
        return text
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise CourseError(
            f"a parameter is a number, True, None, a string, or a list or table of such, not {text}"
        ) from None
    return value


# --- the commands --------------------------------------------------------------------------------


def course(
    names: Names = None,
    profile: Profile = "quick",
    workers: Workers = 2,
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", help="NAME=VALUE, repeatable.")
    ] = None,
    site: Annotated[bool, typer.Option(help="Build the website from the result.")] = True,
):
    """Execute the notebooks and build the website.

    Several notebooks run at a time. Only what changed or failed is executed again.
    """
    from tools.run_lessons import run_course, table

    # The parameters of the command line.
    parameters = {"PROFILE": check_profile(profile)}
    for assignment in parameter or ():
        name, equals, text = assignment.partition("=")
        if not equals:
            raise CourseError(f"a parameter is given as NAME=VALUE, not {assignment!r}")
        if name == "PROFILE":
            raise CourseError(f"the profile is given by --profile {text}")
        parameters[name] = parameter_value(text)

    # The execution and its summary.
    begin = time.perf_counter()
    executed = build_folder("course", profile)
    outcomes = run_course(notebook_source.select(names or []), executed, parameters, workers)
    print(f"\n{table(outcomes)}\n")
    print(f"notebooks: {(time.perf_counter() - begin) / 60:.1f} minutes, in {executed}")
    failed = [outcome.name for outcome in outcomes if outcome.status == "failed"]
    if failed:
        print(f"failed: {', '.join(failed)}; with their output in {executed / 'failed'}")

    # The website, of whatever succeeded.
    if site and len(failed) < len(outcomes):
        build_site(profile)
    raise typer.Exit(1 if failed else 0)


def build_site(profile: Profile = "quick"):
    """Build the website from the notebooks that `course` executed."""
    from tools.site import build

    begin = time.perf_counter()
    executed = build_folder("course", check_profile(profile))
    index = build(executed, build_folder("site"), command_lines())
    print(f"website:   {time.perf_counter() - begin:.1f} seconds, open {index}")


def publish(
    folder: Annotated[Path, typer.Argument(help="What the web server shows.")],
    version: Annotated[str, typer.Argument(help="A tag such as v0.2.0, or a branch.")],
    address: Annotated[str, typer.Option(help="The address of that folder on the web.")],
    profile: Profile = "quick",
):
    """Build the website of one version beside the others, with a menu that changes between them.

    It shows the notebooks that `course` executed.
    """
    from tools.published import publish

    executed = build_folder("course", check_profile(profile))
    print(f"published: {publish(executed, folder, version, address, command_lines())}")


def links():
    """Follow the links of the website to other places; print those that lead nowhere.

    The lessons are taken as they are committed. Exits with status 1 where there are such links.
    """
    from tools.site import doubtful_links

    report(doubtful_links(notebook_source.FOLDER, command_lines()))


def lock():
    """Write `uv.lock`: the versions of constraints.txt with the checksums of their files.

    It asks the package registry.
    """
    from tools.lock import write

    print(f"wrote {write(notebook_source.ROOT)}")


def command_lines() -> dict[str, typer.Typer]:
    """Return the three command lines by the words that start them, for the website's page."""
    from benchmarks.cli import app as benchmarks
    from course_lab.cli import application as course_lab

    return {
        "python -m course_lab": course_lab(),
        "python -m tools": application(),
        "python -m benchmarks": benchmarks,
    }


def test(
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Handed to pytest, after `--`.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Test processes at the same time.")] = 3,
):
    """Run the tests, and then every notebook as a smoke copy with its exercises solved.

    What the checked cells print must hold, and every check of an exercise must say right. Many
    tests wait for processes that they have started, so two cores are kept busy by three workers.
    """
    parallel = ["-n", str(workers), "--dist", "loadfile"]
    cells = smoke_copies([])
    tests = ["tests", *parallel, "--no-loadscope-reorder", "--durations", "10"]
    failed = pytest([*tests, *(arguments or ())], workers)
    raise typer.Exit(pytest([*cells, *parallel], workers) or failed)


def smoke_copies(names: list[str]) -> list[str]:
    """Write the smoke copies of the named notebooks, of all without names.

    Returns the arguments with which pytest executes them.
    """
    from tools import notebooks

    copies = build_folder("smoke", *names)  # named ones apart: several can run at a time
    notebooks.smoke_copies(copies, notebook_source.select(names))
    sockets = ["-p", "tools.nbval_sockets"]
    return [str(copies), *sockets, "--nbval-lax", "--nbval-cell-timeout", "300"]


def pytest(arguments: list[str], workers: int) -> int:
    """Run pytest with its part of the machine's threads; return its exit code.

    Kernels inherit the path, by which solved notebooks import `tools` from any folder.
    """
    from joblib import cpu_count

    root = str(notebook_source.ROOT)
    paths = [root, os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "OMP_NUM_THREADS": str(max(1, cpu_count() // workers)),
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "COURSE_EXERCISES": "strict",
    }
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.call(command, env=environment, cwd=root)


def progress():
    """Print the exercises of every lesson, which are right, and since when."""
    from course_lab.progress import progress_file, recorded
    from tools import exercises
    from tools.lesson_page import heading

    right = recorded()
    every = []
    for source in notebook_source.sources():
        cells = notebook_source.read(source).cells
        asked = exercises.find(source.stem, cells)
        if asked:
            print(f"{heading(cells, source.stem)[0]} ({exercises.count(asked, right)} right)")
        for exercise in asked:
            print(
                f"  {exercise.name:<6}{exercise.title:<54}  {exercises.standing(exercise, right)}"
            )
        every += asked
    if not every:
        raise CourseError(f"there are no lessons in {notebook_source.FOLDER}; take the repository")
    print(f"{exercises.count(every, right)} exercises are right; the record is {progress_file()}")


def lab_log():
    """Print what was tried and did not help, computed from the kept results."""
    from course_lab import evidence
    from tools import lab_log

    print(lab_log.page(evidence.read()))


def frequencies(
    names: Annotated[list[str], typer.Argument(help="Corpora of words that are at hand.")],
):
    """Write data/frequencies.csv: how many words of each corpus come how often."""
    import pandas as pd

    from course_lab import corpora
    from course_lab.corpora.frequencies import rows_of

    tables = [rows_of(name, corpora.load(name).counts.numpy()) for name in names]
    path = notebook_source.ROOT / "data" / "frequencies.csv"
    pd.concat(tables).to_csv(path, index=False, lineterminator="\n")
    print(f"{path} has {', '.join(names)}")


def picture():
    """Make the README's pictures anew, from the kept results and the executed lessons."""
    from tools import pictures

    print(*pictures.draw(notebook_source.ROOT), sep="\n")


def lab():
    """Open the lessons in JupyterLab."""
    command = [sys.executable, "-m", "jupyterlab", "--LabApp.default_url=/lab/tree/notebooks"]
    command += [f"--ServerApp.root_dir={notebook_source.ROOT}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command += ["--allow-root"]  # in a container, where Jupyter would refuse to start
    raise typer.Exit(subprocess.call(command))


# --- the lessons' files --------------------------------------------------------------------------

group = typer.Typer(no_args_is_help=True, help="The lessons' files: pairs, contract, outputs.")


@group.command()
def new(
    name: Annotated[str, typer.Argument(help="NN_name; the number decides the lesson's part.")],
    title: Annotated[str, typer.Argument(help="The lesson's title.")],
    question: Annotated[str, typer.Argument(help="The one question that the lesson answers.")],
):
    """Write a new lesson's skeleton, its notebook and its solutions, to be filled in."""
    from tools.new_lesson import write_lesson

    for path in write_lesson(name, title, question):
        print(f"wrote {path.relative_to(notebook_source.ROOT)}")
    print(f"what is to be filled in: python -m tools notebooks lint {name}")


@group.command()
def pair(names: Names = None):
    """Bring each .ipynb up to date with its .py; outputs of unchanged cells stay."""
    from tools import notebooks

    for source in notebook_source.select(names or []):
        print(f"{source.stem}: {'updated' if notebooks.pair(source) else 'up to date'}")


@group.command()
def link():
    """Write the foot of every lesson anew: links to the lessons before and after it."""
    from tools import lesson_way, notebooks

    for source in lesson_way.link():
        notebooks.pair(source)
        print(f"{source.stem}: {len(lesson_way.around(source))} links")


@group.command()
def outputs(names: Names = None, profile: Profile = "quick"):
    """Take over the outputs of the executed notebooks, to be committed with the lessons."""
    from tools import notebooks

    for source in notebook_source.select(names or []):
        executed = build_folder("course", check_profile(profile)) / f"{source.stem}.ipynb"
        if not executed.is_file():
            raise CourseError(f"{source.stem} was not executed; run `python -m tools course`")
        notebooks.pair(source, executed)
        print(f"{source.stem}: outputs of the {profile} profile")


@group.command()
def solve(names: Names = None):
    """Execute notebooks as `test` does: smoke copies with their exercises solved."""
    raise typer.Exit(pytest(smoke_copies(names or []), 2))


@group.command()
def slides(
    names: Names = None,
    to: Annotated[Path | None, typer.Option(help="The folder; build/slides by default.")] = None,
):
    """Write the decks of slides of lessons, of the core lessons when none is named."""
    from tools import slides

    for source in notebook_source.select(names or []):
        if names or re.match(r"[01]\d_", source.name):
            page = slides.write(source.with_suffix(".ipynb"), to or build_folder("slides"))
            print(f"wrote {page}")


@group.command()
def draw():
    """Draw the model of each lesson anew, as SVG, into `notebooks/images`."""
    from course_lab.plots import schematic

    folder = notebook_source.FOLDER / "images"
    folder.mkdir(exist_ok=True)
    for name, drawing in schematic.drawings().items():
        (folder / name).write_text(drawing, "utf-8")
        print(f"drew {name}")


@group.command()
def check(names: Names = None):
    """Compare the sources, cell kinds and tags of every pair."""
    from tools import notebooks

    report([p for source in notebook_source.select(names or []) for p in notebooks.check(source)])


@group.command()
def lint(names: Names = None):
    """Check the lessons against the contract of CONTRIBUTING.md."""
    chosen = notebook_source.select(names or [])
    report([problem for source in chosen for problem in lesson_linter.lint(source)])


def report(problems: list[str]) -> None:
    """Print the problems; exit with status 1 when there are any."""
    print("\n".join(problems) or "no problems")
    raise typer.Exit(1 if problems else 0)


def application() -> typer.Typer:
    """Return the application with every command mounted."""
    from tools.assignments.cli import app as assignments

    app = typer.Typer(
        name="tools",
        help="The making of the course: lessons, tests, website, exercises.",
        epilog="Besides, `setup` makes the environment, `clean [--all]` removes what was built.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.command()(course)
    app.command("site")(build_site)
    app.command()(publish)
    app.command()(links)
    app.command()(lock)
    app.command()(test)
    app.command()(lab)
    app.command()(progress)
    app.command("lab-log")(lab_log)
    app.command()(frequencies)
    app.command()(picture)
    app.add_typer(group, name="notebooks")
    app.add_typer(assignments, name="assignments")
    return app
