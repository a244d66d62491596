"""`python -m course_lab train RECIPE`, `recipes` and `results`."""

import gc
from pathlib import Path
from typing import Annotated

import typer

from course_lab import overrides


def train(
    recipe: Annotated[str, typer.Argument(help="A recipe's name, or a file experiment.json.")],
    profile: Annotated[
        str | None, typer.Option(help="smoke, quick, standard or full.", show_default="standard")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Initialisation, dropout and shuffling.", show_default="1")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(help="A setting that differs, encoder.dropout=0.4, or several."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Default: runs/RECIPE/PROFILE-seedN, with --change also what differs."),
    ] = None,
    starts: Annotated[
        bool,
        typer.Option(
            "--starts",
            help="First train what it begins with the weights of, each in its default folder.",
        ),
    ] = False,
    device: Annotated[str, typer.Option(help="auto, or cpu to leave a GPU alone.")] = "auto",
    checkpoint_seconds: Annotated[float, typer.Option(help="Time between checkpoints.")] = 60.0,
    deadline: Annotated[
        float | None, typer.Option(help="Pause after this time, in seconds since 1970.")
    ] = None,
):
    """Train a recipe, or go on with it where it was interrupted.

    Under `accelerate launch` or `torchrun` the same command trains on several GPUs. Exit code 0,
    and no result, where it paused at the deadline that it was given.
    """
    import json

    import course_lab
    from course_lab.planned import Planned
    from course_lib.errors import CourseError, Paused

    if recipe.endswith(".json"):
        try:
            plain = json.loads(Path(recipe).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:  # not there, not JSON, not UTF-8
            raise CourseError(f"{recipe} is not a readable experiment: {error}") from None
        experiment = course_lab.Experiment.from_dict(plain)
        given = {"--change": change or None, "--profile": profile, "--seed": seed}
        for option, value in given.items():
            if value is not None:
                raise CourseError(f"{option} goes with a recipe's name; change {recipe} itself")
    else:
        changes, seed = overrides.settings(change or []), 1 if seed is None else seed
        experiment = Planned(recipe, profile or "standard", seed, changes).experiment()
    options = {"device": device, "checkpoint_seconds": checkpoint_seconds, "deadline": deadline}
    runs = course_lab.with_starts(experiment, folder) if starts else [experiment]
    paused = None
    try:
        for run in runs[:-1]:  # in the folders where the next one looks for them
            result = course_lab.run(run, **options)
            if _in_step():
                print(f"{run.name} is trained, in {result.folder}")
        run = experiment
        result = course_lab.run(run, folder, **options)
    except Paused as pause:  # as it was asked to; torchrun knows of no other code than 0 and 1
        # without its traceback, which holds the model and so its connections
        paused = f"{run.name} {pause}"
    if not _together():
        return
    if paused:
        print(paused)
        return
    print(f"{experiment.name}, profile {experiment.profile}, seed {experiment.seed}")
    shape = result.metrics.get("geometry", {})  # results of older versions have none
    for name, value in (result.metrics | shape).items():
        if isinstance(value, dict | list | None):
            continue
        text = f"{value:,.2f}".removesuffix(".00") if isinstance(value, int | float) else value
        print(f"  {name.replace('_', ' '):<24} {text}")
    print(f"  result in {result.folder}")


def _in_step() -> bool:
    """Waits for the other processes. Whether this is the first of them, which speaks for all."""
    from accelerate import PartialState

    state = PartialState()
    if state.num_processes > 1:
        state.wait_for_everyone()
    return state.is_main_process


def _together() -> bool:
    """Several processes end as one: who leaves first would take a connection from the others."""
    from accelerate import PartialState

    first = _in_step()
    if PartialState().num_processes > 1:
        gc.collect()  # of a sharded model, whose connections would outlive their group
        PartialState().destroy_process_group()
    return first


def recipes(
    pattern: Annotated[
        str, typer.Argument(help="Names with this in them, or a glob: 'ptb/*/mos*'.")
    ] = "*",
    paper: Annotated[str | None, typer.Option(help="Of one paper's tables: gao2019.")] = None,
    corpus: Annotated[str | None, typer.Option(help="On one corpus: ptb.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Names only.")] = False,
):
    """List the recipes: parameters, operations, memory and time on this machine, published row.

    Time is that of the recipe's whole training here, at half the rate of matrix products, and at
    most that where a run may end sooner; memory and time are estimates, for one process. Memory is
    that of tensors: on a processor that multiplies bf16 in tiles, segments of drawn lengths add
    several GB, for oneDNN keeps compiled code for each length. ONEDNN_PRIMITIVE_CACHE_CAPACITY=100
    in the environment keeps less of it, and compiles more often.
    """
    from fnmatch import fnmatchcase

    import course_lab
    from course_lab import cost, published
    from course_lib.errors import CourseError, unknown

    papers = {p for r in course_lab.recipes.values() for p, _ in published.cited(r.source)}
    corpora = {r.corpus.kind for r in course_lab.recipes.values()}
    for kind, given, known in (("paper", paper, papers), ("corpus", corpus, corpora)):
        if given is not None and given not in known:
            raise unknown(kind, given, known)
    chosen = {
        name: recipe
        for name, recipe in sorted(course_lab.recipes.items())
        if (fnmatchcase(name, pattern) or pattern in name)
        and (paper is None or paper in dict(published.cited(recipe.source)))
        and (corpus is None or corpus == recipe.corpus.kind)
    }
    if not chosen:
        raise CourseError(f"no recipe matches {pattern!r}; `recipes --plain` lists all names")
    if plain:
        print("\n".join(chosen))
        return
    rates, width = cost.rates(), max(map(len, chosen))
    print(f"{'recipe':<{width}} {'parameters':>12} {'PFLOP':>9} {'GB':>6} {'time':>9}  source")
    for name, recipe in chosen.items():
        try:
            c = cost.cost(recipe, rates)
            cells = f"{c.parameters:,}", f"{c.flops / 1e15:,.2f}", f"{c.memory / 2**30:.1f}"
            cells += (_duration(c.seconds),)
        except CourseError:  # the reader's own text, which nobody has counted
            cells = ("–",) * 4
        print("{:<{}} {:>12} {:>9} {:>6} {:>9}  {}".format(name, width, *cells, recipe.source))


def _duration(seconds: float) -> str:
    """In the largest unit of which there are two."""
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s"


def results(
    recipe: Annotated[
        str, typer.Argument(help="Names of recipes; * stands for any letters.")
    ] = "*",
    keep: Annotated[
        Path | None, typer.Option(help="A finished run's folder: add its result to data/results.")
    ] = None,
):
    """List the results kept under data/results, each checked against its own checksum.

    Columns: the corpus (of quick runs an embedded one, whatever the recipe's name says);
    perplexities of the validation and the test split; and how a run differs from its recipe: the
    settings, or a digest of several (`experiment` in its result.json has them all).
    """
    from fnmatch import fnmatchcase

    import course_lab
    from course_lib.errors import CourseError

    if keep is not None:
        print(f"kept {course_lab.keep_result(keep)}")
    rows = [course_lab.read_result(folder) for folder in course_lab.kept_results()]
    shown = [row for row in rows if fnmatchcase(row["experiment"]["name"], recipe)]
    if rows and not shown:
        raise CourseError(f"no kept result is of a recipe like {recipe!r}; try {recipe + '*'!r}")
    width = max((len(row["experiment"]["name"]) for row in shown), default=6)
    head = f"{'recipe':<{width}} {'profile':<9} {'corpus':<12} {'seed':>4} {'valid':>8} {'test':>8}"
    print(f"{head}  {'commit':<10}  differs in")
    for row in shown:
        experiment, metrics = row["experiment"], row["metrics"]
        print(
            f"{experiment['name']:<{width}} {experiment['profile']:<9}"
            f" {Path(experiment['corpus']['kind']).name:<12} {experiment['seed']:>4}"
            f" {metrics['valid_perplexity']:>8.2f} {metrics['test_perplexity']:>8.2f}"
            f"  {row['provenance']['commit'][:10]}  {experiment.get('variant', '')}".rstrip()
        )


def register(app: typer.Typer) -> None:
    """Mount the commands."""
    app.command()(train)
    app.command()(recipes)
    app.command()(results)
