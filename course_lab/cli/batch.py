"""`python -m course_lab batch run | status | table | merge | keep PLAN`."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, cast

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
    backend: Annotated[
        str, typer.Option(help="loky, or for a cluster dask, ray or slurm.")
    ] = "loky",
):
    """Do the unfinished runs of a plan, or go on with them; never one twice.

    Exit code 1 when runs failed, were killed or are blocked by what their folder holds. A signal
    that ends the command (INT, TERM, HUP) ends its workers and kernels, too; the next call goes on
    from the checkpoints. The exit code is then 128 and the signal's number.
    """
    from course_lab import batch
    from course_lab.batch_states import summary, table
    from course_lib.ranges import Count, check

    check("--workers", workers, Count)
    check("--budget", budget, batch.Minutes | None)
    content = _declared(plan)
    try:
        with ending_signals():
            states = batch.run_plan(content, workers, budget, retry, backend)
    except KeyboardInterrupt as interrupt:
        number = interrupt.args[0] if interrupt.args else signal.SIGINT
        name = signal.Signals(number).name
        print(f"ended by {name}; the same command goes on from the checkpoints", file=sys.stderr)
        raise typer.Exit(128 + number) from None
    print(f"\n{table(states)}\n\n{summary(states)}")
    bad = [s for s in states if s.name in ("failed", "killed", "blocked")]
    for s in bad:
        print(f"{s.name}: {s.folder}")
    raise typer.Exit(1 if bad else 0)


def _declared(name: str):
    """Return a plan whose baseline is one of its models, or its table would fail after all runs."""
    from course_lab import plans, tables

    plan = plans.read_plan(name)
    tables.check_baseline(plan)
    return plan


@contextmanager
def ending_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt(number) on SIGTERM and SIGHUP, which would end the process at once.

    A signal that is ignored stays so, as SIGHUP is under `nohup`.
    """
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [n for n in numbers if signal.getsignal(n) == signal.SIG_DFL]

    def interrupt(number, frame):
        for n in numbers:  # one signal is enough; a second would interrupt the ending
            signal.signal(n, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    for n in numbers:
        signal.signal(n, interrupt)
    try:
        yield
    finally:
        for n in numbers:
            signal.signal(n, signal.SIG_DFL)


@app.command()
def status(plan: Name):
    """Where each run of a plan stands, and about how long the rest will take.

    Runs of a recipe of which no epoch is done yet are estimated by their operations.
    """
    from course_lab.batch_states import estimated, remaining, states_of, summary, table

    content = _declared(plan)
    states = states_of(content)
    print(f"{content.title}\n\n{table(states)}\n\n{summary(states)}")
    _, unknown = remaining(states)
    if unknown and (sentence := estimated(unknown)):
        print(sentence)
    if content.hours:
        print(f"its budget: {content.hours:g} hours of one core, as the plan states")
    if content.tuned:
        print(f"how it was tuned: {content.tuned}")


@app.command()
def table(
    plan: Name,
    baseline: Annotated[
        str | None, typer.Option(help="What to compare with, if not what the plan names.")
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(help="A difference that would not matter, per cent of perplexity or BLEU."),
    ] = None,
    split: Annotated[str, typer.Option(help="valid or test.")] = "test",
    plot: Annotated[Path | None, typer.Option(help="A PNG file for the picture.")] = None,
):
    """Compare the models of a plan by the runs that are done; runs of one seed are pairs.

    Below language models stand the perplexities of n-gram models of the same text: a model that
    does not beat them has learned less than counting does. Translators are compared by BLEU.
    """
    from course_lab import plans, plots, tables
    from course_lib.errors import CourseError
    from course_lib.ranges import Positive, check
    from course_lib.training.checkpoint import write_atomically

    content = plans.read_plan(plan)
    margin = content.margin if margin is None else margin
    texts = tables.by_text(content)
    # whatever was mistyped is told before anything is read and printed
    check("--margin", margin, Positive)
    check("--split", split, tables.Split)
    if plot is not None and plot.suffix.lower() != ".png":
        raise CourseError(f"--plot writes a PNG file; let the name {plot} end in .png")
    tables.check_baseline(content, baseline)
    print(content.title)
    for number, part in enumerate(texts, 1):
        try:
            outcome = tables.table_of(part, baseline, margin, cast(tables.Split, split))
        except CourseError as error:
            if len(texts) == 1:
                raise
            print(f"\n{part.runs[0].experiment().corpus.kind}: {error}")
            continue
        print(f"\n{part.runs[0].experiment().corpus.kind}\n\n{tables.printed(outcome)}")
        for sentence in outcome.missing:
            print(f"missing: {sentence}")
        for sentence in outcome.notes:
            print(f"note: {sentence}")
        if plot is not None and not any(outcome.models["difference"].notna()):
            print("picture: none, for no model has a difference")
        elif plot is not None:
            path = plot if number == 1 else plot.with_stem(f"{plot.stem}-{number}")
            figure = plots.differences(outcome.models, margin, title=content.title)
            write_atomically(path, plots.png(figure))
            print(f"picture: {path}")
    if content.tuned:
        print(f"\nhow it was tuned: {content.tuned}")


@app.command()
def merge(
    plan: Name,
    folder: Annotated[Path, typer.Argument(help="The folder `runs` of another machine.")],
):
    """Take over the results of a plan's runs that were done on another machine.

    Exit code 1 when one is refused: damaged, of another experiment, or not what is here already.
    """
    from course_lab import plans
    from course_lab.merge import REFUSED, merge

    outcomes = merge(plans.read_plan(plan), folder)
    for key, outcome in outcomes.items():
        print(f"{key}: {outcome}")
    raise typer.Exit(1 if any(o.startswith(REFUSED) for o in outcomes.values()) else 0)


@app.command()
def keep(plan: Name):
    """Copy the results of a plan's finished runs to data/results, to be committed.

    Exit code 1 when one is refused: damaged, or another result of that run is kept already. How
    many runs are not done is said below.
    """
    from course_lab import plans
    from course_lab.merge import REFUSED, keep

    content = plans.read_plan(plan)
    outcomes = keep(content)
    for key, outcome in outcomes.items():
        refused = outcome.startswith(REFUSED)
        print(f"{key}: {outcome}" if refused else f"kept {outcome}")
    if waiting := len(content.runs) - len(outcomes):
        print(f"not done, and so not kept: {waiting} of {len(content.runs)} runs")
    raise typer.Exit(1 if any(o.startswith(REFUSED) for o in outcomes.values()) else 0)
