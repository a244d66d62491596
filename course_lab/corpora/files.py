"""Corpora read from text files: the downloaded ones, and the reader's own."""

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from course_lab.corpora.archives import blocks
from course_lab.corpora.download import absent, expected, fetch, file_digest, here, record
from course_lab.corpora.piece_text import from_pieces
from course_lab.corpora.registry import DOWNLOADS, Download, File
from course_lib.data import folders
from course_lib.data.corpus import (
    SPLITS,
    Corpus,
    blocks_of,
    digest,
    from_texts,
    with_line_feeds,
)
from course_lib.errors import CourseError
from course_lib.ranges import Count, Positive, checked

GLUED = 0.02  # share of words that end in punctuation, from which on a text is called untokenised


def read_text(path: Path) -> str:
    """Return the text of a file, every line ended by `\\n`.

    `CourseError` names the file, and the line where it matters, if it is missing, not UTF-8, empty.
    Letters of UTF-16 are UTF-8, too, with a NUL beside each of them.
    """
    text = with_line_feeds("".join(blocks(path)).removeprefix("\ufeff"))
    if "\0" in text:
        raise CourseError(
            f"{path} holds NUL characters, as UTF-16 does; save the file as UTF-8, without them"
        )
    if not text.strip():
        raise CourseError(f"{path} has no words; every split needs some text")
    return text


@checked
def load_folder(
    folder: Path,
    words: Count | None = None,
    by_frequency: bool = False,
    pieces: Count | None = None,
) -> Corpus:
    """Load the reader's own folder with train.txt, valid.txt and test.txt.

    folder: has the three files.
    words: the largest size of the vocabulary; rarer words become `<unk>`. None: all words.
    pieces: the most pieces of a byte-pair encoding that take the place of words. None: words.
    by_frequency: whether ids fall with the count in train, as an adaptive softmax needs.
    """
    missing = [f"{split}.txt" for split in SPLITS if not (folder / f"{split}.txt").is_file()]
    if missing:
        raise CourseError(
            f"{folder} has no {' and no '.join(missing)}; a corpus folder needs train.txt, "
            "valid.txt and test.txt (one text file can be given instead and is split; sentence "
            'pairs, train.fr and train.en, need the option direction = "fr-en")'
        )
    texts = {split: read_text(folder / f"{split}.txt") for split in SPLITS}
    return own(folder, texts, words, by_frequency, pieces)


@checked
def load_file(
    path: Path,
    words: Count | None = None,
    split: tuple[Positive, Positive, Positive] = (0.8, 0.1, 0.1),
    by_frequency: bool = False,
    pieces: Count | None = None,
) -> Corpus:
    """Load the reader's own text file, its lines cut in order into train, valid and test.

    path: of the text file.
    words, by_frequency, pieces: as `load_folder` takes them.
    split: the shares of lines in train, valid and test, which sum to 1.
    """
    if len(split) != 3 or abs(sum(split) - 1) > 1e-6:
        raise CourseError(f"split={split} must be three positive shares that sum to 1")
    rows = list(blocks_of(read_text(path), 0))
    first = round(len(rows) * split[0])
    second = round(len(rows) * (split[0] + split[1]))
    cuts = (rows[:first], rows[first:second], rows[second:])
    texts = {name: "".join(cut) for name, cut in zip(SPLITS, cuts, strict=True)}
    for name, text in texts.items():
        if not text.strip():
            lines = f"{len(rows)} line" + "s" * (len(rows) > 1)
            raise CourseError(
                f"{path} has {lines}, and only whole lines are cut, so the shares {split} leave "
                f"the {name} split without words. End each sentence with a line end, give other "
                "shares, or a folder with train.txt, valid.txt and test.txt"
            )
    return own(path, texts, words, by_frequency, pieces)


def own(
    path: Path, texts: dict[str, str], words: int | None, by_frequency: bool, pieces: int | None
) -> Corpus:
    """Return the corpus of the reader's own texts, in words or in pieces.

    CourseError where both `words` and `pieces` are given.
    """
    if words is not None and pieces is not None:
        raise CourseError(f"{path} is read in words or in pieces; give words or pieces, not both")
    sha256 = {split: digest(text) for split, text in texts.items()}
    origin = {"sha256": sha256, "licence": "the reader's own", "source": str(path)}
    if pieces is not None:
        return from_pieces(path.stem, texts, pieces, by_frequency, **origin)
    _warn_of_punctuation(path, texts["train"])
    return from_texts(path.stem, texts, words, by_frequency, **origin)


def _warn_of_punctuation(path: Path, text: str) -> None:
    """Warn of a text in which words and punctuation are not separated by blanks."""
    words = text.split()
    ends = [word for word in words if re.fullmatch(r"\w+[.,;:!?]", word)]
    if len(ends) > GLUED * len(words):
        warnings.warn(
            f"{path}: {len(ends):,} of {len(words):,} words end in punctuation, such as "
            f"{ends[0]!r}, and each of them gets a vector of its own; read the text in pieces "
            "(pieces=8000, or --pieces 8000), or separate punctuation by blanks",
            stacklevel=2,
        )


def load_download(name: str, by_frequency: bool = False, download: bool = True) -> Corpus:
    """Load a corpus of three text files, fetched if it is not there; its facts are asserted.

    name: as the registry has it.
    by_frequency: whether ids fall with the count in train, as an adaptive softmax needs.
    download: whether files that are absent are fetched.
    """
    entry, paths = DOWNLOADS[name], verified_files(name, download)
    texts = {path.stem: read_text(path) for path in paths}
    sha256 = {path.stem: file.sha256 for path, file in zip(paths, entry.files, strict=True)}
    return asserted(entry, texts, by_frequency, sha256)


def load_wikitext103(by_frequency: bool = True, download: bool = True) -> Corpus:
    """Load WikiText-103 out of its archive, block by block; ids fall with the count in train."""
    (path,) = verified_files("wikitext-103", download)
    hashes = {split: hashlib.sha256() for split in SPLITS}
    texts = {
        split: hashed(blocks(path, f"wikitext-103/wiki.{split}.tokens"), hashes[split])
        for split in SPLITS
    }
    corpus = asserted(DOWNLOADS["wikitext-103"], texts, by_frequency)
    corpus.sha256 = {split: sha256.hexdigest() for split, sha256 in hashes.items()}
    return corpus


def hashed(blocks: Iterable[str], sha256) -> Iterator[str]:
    """Yield the blocks, each of which enters the hash as it passes."""
    for block in blocks:
        sha256.update(block.encode())
        yield block


def asserted(entry: Download, texts, by_frequency: bool, sha256: dict | None = None) -> Corpus:
    """Return the corpus of these texts; `CourseError` if it has not the published size."""
    corpus = from_texts(
        entry.name, texts, by_frequency=by_frequency, sha256=sha256 or {}, licence=entry.licence,
        source=entry.source,
    )  # fmt: skip
    tokens = tuple(len(getattr(corpus, split)) for split in SPLITS)
    if (tokens, len(corpus)) != (entry.sizes, entry.words):
        raise CourseError(
            f"{entry.name} has {tokens} tokens and {len(corpus)} words, not {entry.sizes} and "
            f"{entry.words}, although its checksums are right; please report this"
        )
    return corpus


def verified_files(name: str, download: bool = True) -> list[Path]:
    """Return where the files of a corpus lie, fetched if absent, their SHA-256 checked."""
    entry, folder = DOWNLOADS[name], folders.corpora() / name
    if download and absent(entry, folder):
        fetch(name)
    return [check(folder, file, entry) for file in entry.files]


def check(folder: Path, file: File, entry: Download) -> Path:
    """Return where a registered file lies.

    `CourseError` says what is wrong with it and what mends it.

    A file without published SHA-256 that was put there by hand is recorded.
    """
    file = here(file, folder)
    path, sha256 = folder / file.name, expected(file, folder)
    if not path.is_file():
        raise CourseError(
            f"{entry.name}/{file.name} (SHA-256 {sha256 or 'not published'}) is missing; run "
            f"`python -m course_lab data fetch {entry.name}`, or put the file into "
            f"{folder.resolve()} by hand"
        )
    arrived = file_digest(path) if sha256 else record(file, folder)
    if sha256 and arrived != sha256:
        size, origin = path.stat().st_size, "published" if file.sha256 else "recorded"
        cut = file.size is not None and size < file.size
        state = f"truncated, {size:,} of {file.size:,} bytes" if cut else "changed"
        raise CourseError(
            f"{path} is not the {origin} file ({state}; SHA-256 {arrived}, expected {sha256}); "
            f"delete it and run `python -m course_lab data fetch {entry.name}`"
        )
    return path
