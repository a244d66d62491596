"""`python -m course_lab batch run | status | merge | keep PLAN`."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Run the plans of data/plans, or your own.")
Name = Annotated[str, typer.Argument(metavar="PLAN", help="A plan of data/plans, or a file.")]


@app.command()
def run(
    plan: Name,
    workers: Annotated[int, typer.Option(help="Runs at the same time.")] = 1,
    budget: Annotated[
        float | None, typer.Option(help="Minutes; then runs pause, to go on at the next call.")
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Try failed runs again.")] = False,
    backend: Annotated[str, typer.Option(help="loky, dask or ray.")] = "loky",
):
    """Do the unfinished runs of a plan, or go on with them; never one twice.

    Exit code 1 when runs failed, were killed or are blocked by what their folder holds.
    """
    from course_lab import batch, plans

    states = batch.run_plan(plans.read_plan(plan), workers, budget, retry, backend)
    print(f"\n{batch.table(states)}\n\n{batch.summary(states)}")
    bad = [s for s in states if s.name in ("failed", "killed", "blocked")]
    for s in bad:
        print(f"{s.name}: {s.folder}")
    raise typer.Exit(1 if bad else 0)


@app.command()
def status(plan: Name):
    """Where each run of a plan stands, and about how long the rest will take."""
    from course_lab import batch, plans

    read = plans.read_plan(plan)
    states = batch.states_of(read)
    print(f"{read.title}\n\n{batch.table(states)}\n\n{batch.summary(states)}")


@app.command()
def merge(
    plan: Name,
    folder: Annotated[Path, typer.Argument(help="The folder `runs` of another machine.")],
):
    """Take over the results of a plan's runs that were done on another machine.

    Exit code 1 when one is refused: damaged, of another experiment, or not what is here already.
    """
    from course_lab import batch, plans

    found = batch.merge(plans.read_plan(plan), folder)
    for key, what in found.items():
        print(f"{key}: {what}")
    raise typer.Exit(1 if any(what.startswith("refused") for what in found.values()) else 0)


@app.command()
def keep(plan: Name):
    """Copy the results of a plan's finished runs to data/results, to be committed."""
    from course_lab import batch, plans

    for folder in batch.keep(plans.read_plan(plan)):
        print(f"kept {folder}")
