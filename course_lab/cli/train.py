"""`python -m course_lab train RECIPE`."""

import gc
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from course_lab.cli.own_files import With, load


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command()(train)


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
        if isinstance(value, float):
            value = f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"
        text = f"{value:,}" if isinstance(value, int) else value
        print(f"  {name.replace('_', ' '):<24} {text}")
    print(f"  result in {result.folder}")
