"""`python -m course_lab export RUN FOLDER`: a run as a Hugging Face folder with a model card."""

from pathlib import Path
from typing import Annotated

import typer

from course_lab.cli.model import Text
from course_lab.cli.own_files import With, load


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command()(export)


def export(
    run: Annotated[Path, typer.Argument(help="A finished run's folder, or its name below runs.")],
    folder: Annotated[Path, typer.Argument(help="The new folder.")],
    licence: Annotated[
        str | None,
        typer.Option("--license", help="Of the weights, by Hugging Face's name: cc-by-4.0."),
    ] = None,
    language: Annotated[str | None, typer.Option(help="Of a text of your own: en, de, …")] = None,
    corpus: Text = None,
    own: With = None,
):
    """Write a finished run as a Hugging Face folder: weights, configuration, tokenizer, model card.

    `score`, `next`, `generate`, `translate` and `examine` read the folder, and so does transformers
    where it is installed, if the run is a language model. The card has the run's measured figures.
    """
    from course_lab.hugging_face.export import export as write

    load(own)
    written = write(run, folder, licence, language, corpus)
    print(f"exported to {written}: {', '.join(sorted(path.name for path in written.iterdir()))}")
