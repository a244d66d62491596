"""Corpora read from text files: the downloaded ones, and the reader's own."""

from pathlib import Path

from course_lib.data import folders
from course_lib.data.corpus import SPLITS, Corpus, digest, from_texts, lines
from course_lib.data.download import absent, fetch
from course_lib.data.registry import DOWNLOADS, Download, File
from course_lib.errors import CourseError


def read_text(path: Path, content: bytes | None = None) -> str:
    """The text of a file; `CourseError` naming file and line if it is missing, not UTF-8, empty."""
    try:
        content = path.read_bytes() if content is None else content
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise CourseError(
            f"{path}, line {line}: byte 0x{content[error.start]:02x} is not UTF-8 text; "
            "save the file as UTF-8"
        ) from None
    except OSError as error:
        raise CourseError(f"{path} cannot be read: {error.strerror or error}") from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text.strip():
        raise CourseError(f"{path} has no words; every split needs some text")
    return text


def load_folder(folder: Path, words: int | None = None) -> Corpus:
    """The reader's own folder with train.txt, valid.txt and test.txt."""
    missing = [f"{split}.txt" for split in SPLITS if not (folder / f"{split}.txt").is_file()]
    if missing:
        raise CourseError(
            f"{folder} has no {' and no '.join(missing)}; a corpus folder needs train.txt, "
            "valid.txt and test.txt (one text file can be given instead and is split)"
        )
    texts = {split: read_text(folder / f"{split}.txt") for split in SPLITS}
    return own(folder, texts, words)


def load_file(
    path: Path,
    words: int | None = None,
    split: tuple[float, float, float] = (0.8, 0.1, 0.1),
) -> Corpus:
    """The reader's own text file, its lines cut in order into train, valid and test."""
    if len(split) != 3 or min(split) <= 0 or abs(sum(split) - 1) > 1e-6:
        raise CourseError(f"split={split} must be three positive shares that sum to 1")
    rows = list(lines(read_text(path)))
    first, second = round(len(rows) * split[0]), round(len(rows) * (split[0] + split[1]))
    texts = {
        name: "".join(part)
        for name, part in zip(
            SPLITS, (rows[:first], rows[first:second], rows[second:]), strict=True
        )
    }
    for name, text in texts.items():
        if not text.strip():
            raise CourseError(
                f"{path} has {len(rows)} lines, which leaves the {name} split without words "
                f"(shares {split}); give a longer file, other shares, or a folder with "
                "train.txt, valid.txt and test.txt"
            )
    return own(path, texts, words)


def own(path: Path, texts: dict[str, str], words: int | None) -> Corpus:
    sha256 = {split: digest(text) for split, text in texts.items()}
    return from_texts(
        path.stem, texts, words, sha256=sha256, licence="the reader's own", source=str(path)
    )


def load_download(name: str, download: bool = True) -> Corpus:
    """A corpus of the registry, fetched if it is not there; its facts are asserted."""
    entry = DOWNLOADS[name]
    folder = folders.corpora() / name
    if download and absent(entry, folder):
        fetch(name)
    contents = {file.name.removesuffix(".txt"): check(folder, file, entry) for file in entry.files}
    texts = {split: read_text(folder / f"{split}.txt", raw) for split, raw in contents.items()}
    sha256 = {file.name.removesuffix(".txt"): file.sha256 for file in entry.files}
    corpus = from_texts(name, texts, sha256=sha256, licence=entry.licence, source=entry.source)
    tokens = tuple(len(getattr(corpus, split)) for split in SPLITS)
    if (tokens, len(corpus)) != (entry.tokens, entry.words):
        raise CourseError(
            f"{name} has {tokens} tokens and {len(corpus)} words, not {entry.tokens} and "
            f"{entry.words}, although its checksums are right; please report this"
        )
    return corpus


def check(folder: Path, file: File, entry: Download) -> bytes:
    """The bytes of a registered file, or a `CourseError` that says what is wrong and what mends."""
    path = folder / file.name
    if not path.is_file():
        raise CourseError(
            f"{entry.name}/{file.name} (SHA-256 {file.sha256}) is missing; run `python -m "
            f"course_lib data fetch {entry.name}`, or put the file into {folder.resolve()} by hand"
        )
    content = path.read_bytes()
    if digest(content) != file.sha256:
        size = len(content)
        state = f"truncated, {size:,} of {file.size:,} bytes" if size < file.size else "changed"
        raise CourseError(
            f"{path} is not the published file ({state}; SHA-256 {digest(content)}, expected "
            f"{file.sha256}); delete it and run `python -m course_lib data fetch {entry.name}`"
        )
    return content
