"""`python -m tools course | site | test | lab | progress | notebooks …`."""

import ast
import json
import os
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
    """A folder under `build/`, where everything made by the course goes."""
    from course_lab.notebook_source import ROOT

    return ROOT.joinpath("build", *parts)


def check_profile(profile: str) -> str:
    """The profile, or CourseError with near matches."""
    from course_lab.notebook_source import PROFILES

    if profile not in PROFILES:
        raise unknown("profile", profile, PROFILES)
    return profile


def value(text: str):
    """A parameter's value as Python reads it; what is no literal is a string. CourseError for a
    literal that JSON has not."""
    try:
        found = ast.literal_eval(text)
    except (SyntaxError, TypeError, ValueError):
        return text
    try:
        json.dumps(found, allow_nan=False)
    except (TypeError, ValueError):
        raise CourseError(
            f"a parameter is a number, True, None, a string, or a list or table of such, not {text}"
        ) from None
    return found


def course(
    names: Names = None,
    profile: Profile = "quick",
    workers: Workers = 2,
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", help="NAME=VALUE, repeatable.")
    ] = None,
    site: Annotated[bool, typer.Option(help="Build the website from the result.")] = True,
):
    """Execute the notebooks, several at a time, only what changed or failed; build the website."""
    from tools.run_lessons import run_course, table

    parameters = {"PROFILE": check_profile(profile)}
    for assignment in parameter or ():
        name, equals, text = assignment.partition("=")
        if not equals:
            raise CourseError(f"a parameter is given as NAME=VALUE, not {assignment!r}")
        if name == "PROFILE":
            raise CourseError(f"the profile is given by --profile {text}")
        parameters[name] = value(text)
    begin, executed = time.perf_counter(), build_folder("course", profile)
    outcomes = run_course(notebook_source.select(names or []), executed, parameters, workers)
    print(f"\n{table(outcomes)}\n")
    print(f"notebooks: {(time.perf_counter() - begin) / 60:.1f} minutes, in {executed}")
    failed = [outcome.name for outcome in outcomes if outcome.status == "failed"]
    if failed:
        print(f"failed: {', '.join(failed)}; with their output in {executed / 'failed'}")
    if site and len(failed) < len(outcomes):
        build_site(profile)
    raise typer.Exit(1 if failed else 0)


def build_site(profile: Profile = "quick"):
    """Build the website from the notebooks that `course` executed."""
    from tools.site import build

    begin = time.perf_counter()
    index = build(build_folder("course", check_profile(profile)), build_folder("site"))
    print(f"website:   {time.perf_counter() - begin:.1f} seconds, open {index}")


def test(
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Handed to pytest, after `--`.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Test processes at the same time.")] = 2,
):
    """Run the tests, and every notebook as a smoke copy, its exercises solved: what the checked
    cells print must hold, and every check must say right."""
    # The notebooks after the tests and one by one: kernels that start at the same moment can
    # take each other's port, and nbval would wait for ever.
    parallel = ["tests", "-n", str(workers), "--dist", "loadfile", "--durations", "10"]
    one_by_one = smoke_copies([])
    failed = pytest(parallel + list(arguments or ()), workers)
    raise typer.Exit(pytest(one_by_one, workers) or failed)


def smoke_copies(names: list[str]) -> list[str]:
    """Write the smoke copies of notebooks, of all without names; pytest's arguments for them."""
    from tools import notebooks

    copies = build_folder("smoke", *names)  # named ones apart: several can run at a time
    notebooks.smoke_copies(copies, notebook_source.select(names))
    return [str(copies), "--nbval-lax", "--nbval-cell-timeout", "300"]


def pytest(arguments: list[str], workers: int) -> int:
    """Run pytest with its share of the threads; its exit code."""
    from joblib import cpu_count

    environment = os.environ | {"OMP_NUM_THREADS": str(max(1, cpu_count() // workers))}
    environment |= {"PYTHONHASHSEED": "0", "COURSE_EXERCISES": "strict"}
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.call(command, env=environment, cwd=build_folder().parent)


def progress():
    """Print the exercises of every lesson, which are right, and since when."""
    from course_lib.progress import count, progress_file, recorded, standing
    from tools import exercises
    from tools.site import heading

    right, every = recorded(), []
    for source in notebook_source.sources():
        cells = notebook_source.read(source).cells
        if found := exercises.find(source.stem, cells):
            print(f"{heading(cells, source.stem)[0]} ({count(found, right)} right)")
            for one in found:
                print(f"  {one.name:<6}{one.title:<54}  {standing(one, right)}")
        every += found
    if not every:
        raise CourseError(f"there are no lessons in {notebook_source.FOLDER}; take the repository")
    print(f"{count(every, right)} exercises are right; the record is {progress_file()}")


def lab():
    """Open the lessons in JupyterLab."""
    command = [sys.executable, "-m", "jupyterlab", "--LabApp.default_url=/lab/tree/notebooks"]
    command += [f"--ServerApp.root_dir={build_folder().parent}"]
    raise typer.Exit(subprocess.call(command))


group = typer.Typer(no_args_is_help=True, help="The lessons' files: pairs, contract, outputs.")


@group.command()
def pair(names: Names = None):
    """Bring each .ipynb up to date with its .py; outputs of unchanged cells stay."""
    from tools import notebooks

    for source in notebook_source.select(names or []):
        print(f"{source.stem}: {'updated' if notebooks.pair(source) else 'up to date'}")


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


def report(problems: list[str]) -> None:
    """Print the problems; exit 1 when there are any."""
    print("\n".join(problems) or "no problems")
    raise typer.Exit(1 if problems else 0)


@group.command()
def check(names: Names = None):
    """Compare the sources, cell kinds and tags of every pair."""
    from tools import notebooks

    report([p for source in notebook_source.select(names or []) for p in notebooks.check(source)])


@group.command()
def lint(names: Names = None):
    """Check the lessons against the contract of CONTRIBUTING.md."""

    report(
        [p for source in notebook_source.select(names or []) for p in lesson_linter.lint(source)]
    )


def application() -> typer.Typer:
    """The application with every command mounted."""
    app = typer.Typer(
        name="tools",
        help="The making of the course: lessons, tests, website, exercises.",
        epilog="Besides: `setup` makes the environment, `clean [--all]` removes what was built.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.command()(course)
    app.command("site")(build_site)
    app.command()(test)
    app.command()(lab)
    app.command()(progress)
    app.add_typer(group, name="notebooks")
    return app
