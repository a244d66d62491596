"""The option `--with`: files of the reader's own, whose parts a run is made of."""

from pathlib import Path
from typing import Annotated

import typer

With = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="FILE",
        help="A file of yours whose encoder or other part the run has, as my_recipes.py.",
    ),
]


def load(files: list[Path] | None) -> None:
    """Import the files, which enter their parts; nothing is imported that is not named."""
    from course_lab.recipes import elsewhere

    for file in files or ():
        elsewhere.load(file)
