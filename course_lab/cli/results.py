"""`python -m course_lab results`: the kept results, and how one is kept."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from course_lab.cli.own_files import With, load


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command()(results)


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
        str, typer.Argument(help="Names with this in them, or a glob: 'ptb/*'.")
    ] = "*",
    keep: Annotated[
        Path | None,
        typer.Option(
            help="A finished run, by its folder or its name below runs: add its result to "
            "data/results, and list it."
        ),
    ] = None,
    own: With = None,
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
    from course_lab.results import kept_folder, run_or_path

    load(own)
    if keep is not None:
        kept = course_lab.keep_result(run_or_path(keep))
        print(f"kept {kept}")
        _print_rows([_row(kept)])
        return
    rows = [_row(folder) for folder in course_lab.kept_results()]
    shown = [row for row in rows if fnmatchcase(row.name, recipe) or recipe in row.name]
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
            f" {row.valid:>8} {row.test:>8}  {row.commit:<10}  {row.variant}".rstrip()
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
    from course_lab.provenance import short_commit
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
            short_commit(content["provenance"]["commit"], 10),
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
    experiment of no recipe has its variant alone, and so has one of another reader, with a part or
    a text that is not here.
    """
    from course_lab.experiment import Experiment
    from course_lab.planned import changes_of
    from course_lib.errors import CourseError

    try:
        changes = changes_of(Experiment.from_dict(plain))
    except CourseError:
        changes = None
    if changes is None:
        return plain.get("variant", "")
    return ", ".join(f"{path}={_worded(value)}" for path, value in sorted(changes.items()))


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
