"""`python -m course_lab train RECIPE`, `recipes` and `results`."""

import gc
import os
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from course_lab.cli.own_files import With, load


def register(app: typer.Typer) -> None:
    """Mount the commands."""
    app.command()(train)
    app.command()(recipes)
    app.command()(results)


# train -------------------------------------------------------------------------------------------


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            help="A recipe's name, my_recipes.py:NAME of a file, or a file experiment.json."
        ),
    ],
    profile: Annotated[
        str | None,
        typer.Option(help="smoke, quick, desk, standard or full.", show_default="standard"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Initialisation, dropout and shuffling.", show_default="1")
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(help="Another text than the recipe's: a name, a folder or a text file."),
    ] = None,
    pieces: Annotated[
        int | None,
        typer.Option(help="Read your own text in so many pieces of words, not in words."),
    ] = None,
    words: Annotated[
        int | None, typer.Option(help="Keep the most frequent words of your own text.")
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
    track: Annotated[
        list[str] | None,
        typer.Option(help="A tracker to log to, tensorboard, wandb, mlflow or aim, or several."),
    ] = None,
    geometry_every: Annotated[
        int | None,
        typer.Option(help="With --track: steps between two looks at the word matrix."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, or cpu to leave a GPU alone.")] = "auto",
    checkpoint_seconds: Annotated[float, typer.Option(help="Time between checkpoints.")] = 60.0,
    deadline: Annotated[
        float | None, typer.Option(help="Pause after this time, in seconds since 1970.")
    ] = None,
    patience: Annotated[
        float,
        typer.Option(help="Seconds that one of several processes waits for another in training."),
    ] = 600.0,
    own: With = None,
):
    """Train a recipe, or go on with it where it was interrupted; a finished run is only shown.

    Under `accelerate launch` or `torchrun` the same command trains on several GPUs. Exit code 0,
    and no result, where it paused at the deadline that it was given.
    """
    import course_lab
    from course_lab.results import run_folder
    from course_lib.errors import CourseError, Paused

    load(own)
    text = {"corpus": corpus, "corpus.pieces": pieces, "corpus.words": words}
    text = {path: value for path, value in text.items() if value is not None}
    if recipe.endswith(".json"):
        given = {"--change": change, "--profile": profile, "--seed": seed}
        given |= {f"--{path.rpartition('.')[2]}": value for path, value in text.items()}
        _refuse_beside_a_file(recipe, given)
        experiment = _experiment_of_file(recipe)
    else:
        experiment = _experiment_of_recipe(recipe, profile, seed, change, text)
    if geometry_every is not None and not track:
        raise CourseError("--geometry-every says how often a tracker is told; add --track")
    options = {
        "trackers": track or [],
        "geometry_every": geometry_every,
        "device": device,
        "checkpoint_seconds": checkpoint_seconds,
        "deadline": deadline,
        "patience": patience,
    }
    runs = course_lab.with_starts(experiment, folder) if starts else [experiment]
    run = experiment
    finished = _day_of_result(folder or run_folder(experiment))
    paused = result = None
    if os.environ.get("RANK", "0") == "0":  # before the first bar there are seconds of silence
        print(f"{run.name}: reading the text and building the model …", file=sys.stderr)
    try:
        for run in runs[:-1]:  # in the folders where the next one looks for them
            result = course_lab.run(run, **options)
            if _in_step():
                print(f"{run.name} is trained, in {result.folder}")
        run = experiment
        result = course_lab.run(run, folder, **options)
    except Paused as pause:
        # torchrun knows of no other exit codes than 0 and 1, and a pause is no failure; what is
        # kept of it is its text, because its traceback holds the model and so the connections
        paused = f"{run.name} {pause}"
    is_first = _together()
    if is_first and paused:
        print(paused)
    elif is_first and result:
        if finished:
            told = f", and nothing was told to {' and '.join(track)}" if track else ""
            print(f"done already, on {finished}; nothing was trained{told}")
        _print_result(result)


def _day_of_result(folder: Path) -> str | None:
    """Return the day on which the result in a folder was written; None where there is none."""
    from datetime import date

    file = folder / "result.json"
    return date.fromtimestamp(file.stat().st_mtime).isoformat() if file.exists() else None


def _refuse_beside_a_file(file: str, options: dict[str, object]) -> None:
    """Raise CourseError for an option that an experiment of one's own states itself."""
    from course_lib.errors import CourseError

    for option, value in options.items():
        if value is not None and value != []:
            raise CourseError(f"{option} goes with a recipe's name; change {file} itself")


def _experiment_of_file(file: str):
    """Return the experiment of a file experiment.json."""
    import json

    import course_lab
    from course_lib.errors import DAMAGED, CourseError

    try:
        plain = json.loads(Path(file).read_text(encoding="utf-8"))
    except DAMAGED as error:
        raise CourseError(f"{file} is not a readable experiment: {error}") from None
    try:
        return course_lab.Experiment.from_dict(plain)
    except CourseError as error:
        raise CourseError(f"{file}: {error}") from None


def _experiment_of_recipe(
    recipe: str, profile: str | None, seed: int | None, change: list[str] | None, text: dict
):
    """Return a recipe's experiment with the settings that differ, those of its text in `text`."""
    from course_lab import overrides
    from course_lab.own_text import absolute
    from course_lab.planned import Planned
    from course_lab.recipes import elsewhere, recipes
    from course_lib.errors import CourseError

    recipe = elsewhere.absolute(recipe, Path.cwd())
    changes = overrides.settings(change or [])
    for path in text.keys() & changes.keys():
        option = f"--{path.rpartition('.')[2]}"
        raise CourseError(f"{path} is given by {option} and by --change; leave one of the two off")
    changes |= text
    if "corpus" in changes:
        changes["corpus"] = absolute(str(changes["corpus"]), Path.cwd())
    else:
        _check_own_text(recipes[recipe].corpus, text)
    seed = 1 if seed is None else seed
    return Planned(recipe, profile or "standard", seed, changes).experiment()


def _check_own_text(corpus, options: dict[str, object]) -> None:
    """Raise CourseError for an option of one's own text that the recipe's text does not have."""
    from course_lab.experiment import corpus_hints
    from course_lib.errors import CourseError

    hints = corpus_hints(corpus)
    for name in (path.removeprefix("corpus.") for path in options):
        if name not in hints:
            raise CourseError(f"--{name} is of your own text; name it with --corpus")


def _in_step() -> bool:
    """Wait for the other processes; return whether this is the first, which speaks for all."""
    from accelerate import PartialState

    state = PartialState()
    if state.num_processes > 1:
        state.wait_for_everyone()
    return state.is_main_process


def _together() -> bool:
    """End all processes as one; return whether this is the first.

    Who left first would take a connection from the others.
    """
    from accelerate import PartialState

    is_first = _in_step()
    if PartialState().num_processes > 1:
        gc.collect()  # of a sharded model, whose connections would outlive their group
        PartialState().destroy_process_group()
    return is_first


def _print_result(result) -> None:
    """Print a result's figures, one a line, and its folder."""
    experiment = result.experiment
    print(f"{experiment.name}, profile {experiment.profile}, seed {experiment.seed}")
    shape = result.metrics.get("geometry", {})  # results of older versions have none
    for name, value in (result.metrics | shape).items():
        if isinstance(value, dict | list | None):
            continue
        text = f"{value:,.2f}".removesuffix(".00") if isinstance(value, int | float) else value
        print(f"  {name.replace('_', ' '):<24} {text}")
    print(f"  result in {result.folder}")


# recipes -----------------------------------------------------------------------------------------


def recipes(
    pattern: Annotated[
        str,
        typer.Argument(
            help="Names with this in them, or a glob: 'ptb/*/mos*'; 'my_recipes.py:*' for a file's."
        ),
    ] = "*",
    paper: Annotated[str | None, typer.Option(help="Of one paper's tables: gao2019.")] = None,
    corpus: Annotated[str | None, typer.Option(help="On one corpus: ptb.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Names only.")] = False,
):
    """List the recipes: parameters, operations, memory and time on this machine, published row.

    Time is that of the recipe's whole training here, at half the rate of matrix products, and at
    most that where a run may end sooner. The rates are measured again when they are a day old, or
    when this machine's own runs took twice or half the time. H100 is a floor, not a measurement:
    the operations at the rate that is stated for one of these GPUs. Memory and time are estimates,
    for one process. Memory is that of tensors: on a processor that multiplies bf16 in tiles,
    segments of drawn lengths add several GB, for oneDNN keeps compiled code for each length.
    ONEDNN_PRIMITIVE_CACHE_CAPACITY=100 in the environment keeps less, and compiles more often.
    """
    from course_lab import rates
    from course_lab.batch_states import duration
    from course_lab.cost import cost
    from course_lib.errors import CourseError

    chosen = _chosen_recipes(pattern, paper, corpus)
    if plain:
        print("\n".join(chosen))
        return
    here = rates.this_machine()
    width = max(map(len, chosen))
    row = "{:<{}} {:>12} {:>9} {:>6} {:>9} {:>9}  {}"
    print(row.format("recipe", width, "parameters", "PFLOP", "GB", "time", "H100", "source"))
    for name, recipe in chosen.items():
        try:
            c = cost(recipe, here.rates)
            cells = [f"{c.parameters:,}", f"{c.flops / 1e15:,.2f}", f"{c.memory / 2**30:.1f}"]
            cells += [duration(c.seconds), duration(rates.floor_on_h100(recipe, c.flops))]
        except CourseError:  # the reader's own text, which nobody has counted
            cells = ["–"] * 5
        print(row.format(name, width, *cells, recipe.source))
    stated = ", ".join(f"{x / 1e12:,.0f} in {p}" for p, x in rates.H100.items())
    print(f"\ntime: estimated at half the rates of {here}")
    print(f"H100: a floor, the operations at the {stated} TFLOP/s that NVIDIA states for one; a")
    print("      recurrent model, which waits for each of its steps, is far from it")


def _chosen_recipes(pattern: str, paper: str | None, corpus: str | None) -> dict:
    """Return the recipes that match all three, by the names that `train` takes.

    CourseError where there is none.
    """
    from fnmatch import fnmatchcase

    import course_lab
    from course_lab import published
    from course_lab.recipes import elsewhere
    from course_lib.errors import CourseError, unknown

    known = course_lab.recipes
    file = ""
    if in_file := elsewhere.split(pattern):
        names = elsewhere.entered_by(in_file[0])
        known = {name: known[name] for name in names}
        file = f"{in_file[0]}:"
        pattern = in_file[1]
    papers = {p for r in known.values() for p, _ in published.cited(r.source)}
    corpora = {r.corpus.kind for r in known.values()}
    for kind, given, possible in (("paper", paper, papers), ("corpus", corpus, corpora)):
        if given is not None and given not in possible:
            raise unknown(kind, given, possible)
    chosen = {
        f"{file}{name}": recipe
        for name, recipe in sorted(known.items())
        if (fnmatchcase(name, pattern) or pattern in name)
        and (paper is None or paper in dict(published.cited(recipe.source)))
        and (corpus is None or corpus == recipe.corpus.kind)
    }
    if not chosen:
        raise CourseError(
            f"no recipe matches {f'{file}{pattern}'!r}; `recipes --plain {file}` lists all names"
            if file
            else f"no recipe matches {pattern!r}; `recipes --plain` lists all names"
        )
    return chosen


# results -----------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A kept result in the list of results; `unreadable` says why it has no figures."""

    name: str
    profile: str = ""
    corpus: str = ""
    seed: int = 0
    valid: str = ""
    test: str = ""
    commit: str = ""
    variant: str = ""
    unreadable: str | None = None


def results(
    recipe: Annotated[
        str, typer.Argument(help="Names of recipes; * stands for any letters.")
    ] = "*",
    keep: Annotated[
        Path | None,
        typer.Option(help="A finished run's folder: add its result to data/results, and list it."),
    ] = None,
):
    """List the results kept under data/results, each checked against its own checksum.

    Columns: the corpus (of quick runs an embedded one, whatever the recipe's name says);
    perplexities of the validation and the test split; and the settings in which a run differs from
    its recipe. Runs of the recipes themselves stand first. A run that was kept before its recipe
    changed differs in that, too. A result that cannot be read is listed with the reason, and the
    exit code is then 1.
    """
    from fnmatch import fnmatchcase

    import course_lab
    from course_lab.results import kept_folder

    if keep is not None:
        kept = course_lab.keep_result(keep)
        print(f"kept {kept}")
        _print_rows([_row(kept)])
        return
    rows = [_row(folder) for folder in course_lab.kept_results()]
    shown = [row for row in rows if fnmatchcase(row.name, recipe)]
    if rows and not shown:
        raise _no_result_of(recipe, {row.name for row in rows})
    if not rows:
        print(f"no result is kept in {kept_folder()} yet; `--keep RUN` adds one")
        return
    _print_rows(shown)


def _print_rows(shown: list[Row]) -> None:
    """Print the list of results; exit with code 1 where one of them cannot be read."""
    shown.sort(key=_place)
    width = max((len(row.name) for row in shown), default=6)
    head = f"{'recipe':<{width}} {'profile':<9} {'corpus':<12} {'seed':>4} {'valid':>8} {'test':>8}"
    print(f"{head}  {'commit':<10}  differs in")
    for row in shown:
        if row.unreadable is not None:
            print(f"{row.name:<{width}} unreadable: {row.unreadable}")
            continue
        print(
            f"{row.name:<{width}} {row.profile:<9} {row.corpus:<12} {row.seed:>4}"
            f" {row.valid:>8} {row.test:>8}  {row.commit}  {row.variant}".rstrip()
        )
    if any(row.unreadable is not None for row in shown):
        raise typer.Exit(1)


def _place(row: Row) -> tuple:
    """Return where a row stands: recipes as they are, their variants, what cannot be read."""
    unreadable = row.unreadable is not None
    return unreadable, bool(row.variant), row.name, row.profile, row.variant, row.seed


def _row(folder: Path) -> Row:
    """Return the row of a kept result; a damaged one is named by its folder below all others."""
    import course_lab
    from course_lab.results import kept_folder
    from course_lib.errors import CourseError

    try:
        content = course_lab.read_result(folder)
        experiment = content["experiment"]
        return Row(
            experiment["name"],
            experiment["profile"],
            Path(experiment["corpus"]["kind"]).name,
            experiment["seed"],
            f"{content['metrics']['valid_perplexity']:.2f}",
            f"{content['metrics']['test_perplexity']:.2f}",
            content["provenance"]["commit"][:10],
            _differs(experiment),
        )
    except CourseError as error:
        reason = str(error)
    except KeyError as error:
        reason = f"{folder / 'result.json'} has no {error}"
    except (TypeError, ValueError, AttributeError) as error:
        reason = f"{folder / 'result.json'} has a value of the wrong kind ({error})"
    # one folder a run lies below the name of its recipe
    return Row(folder.parent.relative_to(kept_folder()).as_posix(), unreadable=reason)


def _differs(plain: dict) -> str:
    """Return in what an experiment differs from today's recipe of its name.

    These are the settings themselves, also where the name of its folder has a checksum of them. An
    experiment of no recipe has its variant alone.
    """
    from course_lab import overrides
    from course_lab.experiment import Experiment
    from course_lab.recipes import profile, recipes

    experiment = Experiment.from_dict(plain)
    if experiment.name not in recipes:
        return experiment.variant
    today = profile(recipes[experiment.name], experiment.profile, experiment.seed)
    changes = sorted(dict(overrides.differences(today, experiment)).items())
    return ", ".join(f"{path}={_worded(value)}" for path, value in changes)


def _worded(value) -> str:
    """Return the value of a setting as `--change` takes it; of a part its name and its options."""
    import json
    from dataclasses import is_dataclass

    from course_lab.parts import Part

    if isinstance(value, Part):
        options = ", ".join(f"{name}={_worded(v)}" for name, v in value.options.items())
        return f"{value.kind}({options})"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_worded, value))}]"
    if value is None or isinstance(value, str):
        return value or "none"
    return repr(value) if is_dataclass(value) else json.dumps(value)


def _no_result_of(recipe: str, names: set[str]):
    """Return the error for a pattern that no result matches, with names near it."""
    from course_lib.errors import CourseError, unknown

    plain = recipe.strip("*")
    if any(plain in name for name in names):
        return CourseError(f"no kept result is of a recipe like {recipe!r}; try {f'*{plain}*'!r}")
    return unknown("recipe of a kept result", recipe, names)
