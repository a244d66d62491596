"""`python -m course_lab claims`: the ledger of what the papers claim and what our runs say."""

from pathlib import Path
from typing import Annotated

import typer

Own = Annotated[
    list[Path] | None,
    typer.Argument(help="Finished runs that count as kept ones do, by folder or by name."),
]


def register(app: typer.Typer) -> None:
    """Mount the command."""
    app.command()(claims)


def claims(
    own: Own = None,
    count: Annotated[
        bool, typer.Option("--count", help="First count the n-grams of texts that are new.")
    ] = False,
) -> None:
    """Print each claim of the five papers, our number beside it, and a verdict.

    A claim without two runs of both sides that share their seeds is untested. Kept results that
    cannot be read are named below the table, and the exit code is then 1.
    """
    from course_lab import claims, evidence
    from course_lab.results import run_or_path

    own = [run_or_path(run) for run in own or ()]
    if count:
        print(f"counted {evidence.count_ngrams(own)}")
    of = evidence.read(own)
    table = claims.ledger(of)
    print(claims.printed(table))
    total = ", ".join(f"{number} {kind}" for kind, number in claims.counts(table).items())
    print(f"\n{len(table)} claims: {total}; {claims.interim(table)} of the verdicts are interim")
    if not of.runs:
        print("No result is kept here. Those of the course come with a clone of it.")
    for sentence in of.damaged:
        print(f"not read: {sentence}")
    if of.damaged:
        raise typer.Exit(1)
