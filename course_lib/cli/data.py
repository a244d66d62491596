"""`python -m course_lib data …`: which corpora there are, fetching them, checking them."""

import json
import warnings
from functools import partial
from typing import Annotated

import typer

from course_lib.errors import CourseError, unknown

app = typer.Typer(help="Corpora: what there is, download, check, describe.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A corpus name, a folder or a text file.")]


def table(head: list[str], rows: list[list[str]]) -> None:
    """Print rows under a head, columns aligned: figures to the right, words to the left."""
    cells = [head, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        aligned = (
            cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        )
        print("  ".join(aligned).rstrip())


@app.command("list")
def list_() -> None:
    """Every corpus that loads by name, and whether it is on this machine."""
    from course_lib.data import folders
    from course_lib.data.docstrings import TOKENS, WORDS
    from course_lib.data.download import absent
    from course_lib.data.registry import DOWNLOADS

    def count(tokens):
        return [f"{n:,}" for n in tokens]

    rows = [
        ["docstrings", *count(TOKENS), f"{WORDS:,}", "embedded", "prose of installed packages"],
        ["zipf", "any", "any", "any", "any", "embedded", "synthetic, the true log P is known"],
    ]
    for name, entry in DOWNLOADS.items():
        state = "to fetch" if absent(entry, folders.corpora() / name) else "here"
        rows.append([name, *count(entry.tokens), f"{entry.words:,}", state, entry.title])
    table(["name", "train", "valid", "test", "words", "state", "what"], rows)
    print(f"\nfolder: {folders.corpora()}  (COURSE_DATA changes it)")
    print("A folder with train.txt, valid.txt, test.txt, or one text file, loads by its path.")


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(help="Corpora to download, or `all`.")],
) -> None:
    """Download corpora, resuming where an earlier download stopped, and verify them."""
    from course_lib import data
    from course_lib.data.download import fetch
    from course_lib.data.registry import DOWNLOADS

    for name in DOWNLOADS if names == ["all"] else names:
        if name in data.names() and name not in DOWNLOADS:
            print(f"{name}: embedded, nothing to download")
            continue
        folder = fetch(name)
        data.load(name, download=False)
        print(f"{name}: verified, in {folder}")


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Corpora to check; all that are here if left out.")
    ] = None,
) -> None:
    """Compare every file with its published SHA-256; exit 1 if one is missing or differs."""
    from course_lib.data import folders
    from course_lib.data.docstrings import load_docstrings
    from course_lib.data.files import check
    from course_lib.data.registry import DOWNLOADS

    for name in names or ():
        if name not in {*DOWNLOADS, "docstrings"}:
            raise unknown("corpus to verify", name, [*DOWNLOADS, "docstrings"])
    rows, problems = [], []

    def row(name, path, size, test):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                test()
            rows.append([name, path, size, "ok"])
        except (CourseError, UserWarning) as error:
            rows.append([name, path, size, "WRONG"])
            problems.append(str(error))

    for name, entry in DOWNLOADS.items():
        folder = folders.corpora() / name
        if name in names if names else folder.is_dir():
            for file in entry.files:
                row(name, file.name, f"{file.size:,}", partial(check, folder, file, entry))
    if not names or "docstrings" in names:
        row("docstrings", "installed packages", "", load_docstrings)
    table(["corpus", "file", "bytes", "SHA-256"], rows)
    for problem in problems:
        print(f"\n{problem}")
    if problems:
        raise typer.Exit(1)


@app.command()
def describe(
    name: Name,
    words: Annotated[
        int | None, typer.Option(help="Cap the vocabulary of docstrings or of your own text.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Tokens, vocabulary, entropy, licence, origin and checksums of a corpus."""
    from course_lib import data

    facts = data.load(name, **({} if words is None else {"words": words})).describe()
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    checksums = {f"SHA-256 {split}": value for split, value in facts.pop("sha256").items()}
    shown = {**facts, **checksums}
    width = max(map(len, shown))
    for key, value in shown.items():
        text = f"{value:,}" if isinstance(value, int) else value
        print(f"{key.ljust(width)}  {f'{text:.4f}' if isinstance(text, float) else text}")
