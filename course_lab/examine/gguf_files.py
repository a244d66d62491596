"""GGUF, the file format of llama.cpp: what it says of itself, and its tensors.

A header of keys and values, a table of tensors, and their bytes; nothing in it can run. The
format's own library turns blocks into numbers. It does not read the header, because it believes
every length that a file announces. Here a length is held against the bytes that are left before
anything is made of it.
"""

import mmap
import struct
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from course_lab.examine.quantised import kinds
from course_lib.errors import CourseError

MAGIC = b"GGUF"
BLOCKS = 1 << 16  # read at once: 64 MiB of float32 at most
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}  # by the number of their type  # fmt: skip
TEXT = 8
ARRAY = 9
DIMENSIONS = 4
READING_ONLY = ("bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2",
                "jina-bert-v3", "t5encoder")  # architectures without an output layer  # fmt: skip


class Place(NamedTuple):
    """A tensor's shape, rows first, the number of its type, and where its bytes begin."""

    shape: tuple[int, ...]
    kind: int
    offset: int


class Contents(NamedTuple):
    """The keys and values of a file, and its tensors by name."""

    metadata: dict[str, Any]
    tensors: dict[str, Place]


class _Bytes:
    """The bytes of a file, read one after the other; EOFError where they end too early."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    @property
    def rest(self) -> int:
        return len(self.data) - self.at

    def take(self, layout: str):
        """Return one number of a `struct` layout."""
        size = struct.calcsize("<" + layout)
        self.need(size)
        (value,) = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += size
        return value

    def need(self, size: int) -> None:
        if size > self.rest:
            raise EOFError(f"{size:,} bytes are announced, {self.rest:,} are left")

    def text(self) -> str:
        size = self.take("Q")
        self.need(size)
        content = self.data[self.at : self.at + size]
        self.at += size
        return content.decode("utf-8", errors="replace")

    def value(self, kind: int):
        """Return a value of a type; of an array a list. An array of arrays is refused."""
        if kind == TEXT:
            return self.text()
        if kind != ARRAY:
            return self.take(_layout(kind))
        of = self.take("I")
        count = self.take("Q")
        if of == TEXT:
            self.need(8 * count)  # each has its length, at least
            return [self.text() for _ in range(count)]
        layout = _layout(of)
        self.need(struct.calcsize("<" + layout) * count)
        values = np.frombuffer(self.data, "<" + layout, count, self.at).tolist()
        self.at += struct.calcsize("<" + layout) * count
        return values


def _layout(kind: int) -> str:
    if kind not in SCALARS:
        raise ValueError(f"a value of the unknown type {kind}")
    return SCALARS[kind]


def contents(file: Path) -> Contents:
    """Return what a file says of itself, and the table of its tensors.

    Raises CourseError for a file that is no GGUF of version 2 or 3, that ends too early, or whose
    tensors lie outside it.
    """
    try:
        with open(file, "rb") as stream:
            if stream.read(4) != MAGIC:
                raise ValueError("it does not begin with GGUF")
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _contents(_Bytes(data))
    except (OSError, EOFError, ValueError, struct.error) as error:
        raise CourseError(f"{file} is truncated or not a GGUF file ({error})") from None


def _contents(stream: _Bytes) -> Contents:
    stream.at = len(MAGIC)
    version = stream.take("I")
    if version not in (2, 3):
        raise ValueError(f"version {version}; versions 2 and 3 are read")
    tensors = stream.take("Q")
    keys = stream.take("Q")
    # what the file says of itself
    metadata = {}
    for _ in range(keys):
        key = stream.text()
        metadata[key] = stream.value(stream.take("I"))
    # its tensors: a name, the sizes with the fastest first, the type and the place
    announced = []
    for _ in range(tensors):
        name = stream.text()
        dimensions = stream.take("I")
        if dimensions > DIMENSIONS:
            raise ValueError(f"{name} has {dimensions} dimensions")
        shape = tuple(stream.take("Q") for _ in range(dimensions))[::-1]
        announced.append((name, shape, stream.take("I"), stream.take("Q")))
    # they begin behind the header, at a multiple of the alignment
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
        raise ValueError(f"an alignment of {alignment!r:.40}")
    start = -(-stream.at // alignment) * alignment
    places = {}
    for name, shape, kind, offset in announced:
        if name in places:
            raise ValueError(f"two tensors are called {name}")
        place = Place(shape, kind, start + offset)
        if kind in kinds() and place.offset + _length(place) > len(stream.data):
            raise EOFError(f"{name} of shape {shape} does not fit into the file")
        places[name] = place
    return Contents(metadata, places)


def _length(place: Place) -> int:
    """Return the bytes of a tensor; ValueError where its rows are no whole blocks."""
    kind = kinds()[place.kind]
    numbers = 1
    for size in place.shape:
        numbers *= size
    if place.shape and place.shape[-1] % kind.numbers:
        raise ValueError(f"rows of {place.shape[-1]} numbers are no whole blocks of {kind.name}")
    return numbers // kind.numbers * kind.size


def read_tensor(file: Path, place: Place) -> np.ndarray:
    """Return a tensor in float32, or float64 where it is stored so; CourseError if bytes lack."""
    kind = kinds()[place.kind]
    size = _length(place)
    try:
        # a copy of the bytes, since a mapped file that shrinks ends the process
        raw = np.fromfile(file, np.uint8, size, offset=place.offset)
    except OSError as error:
        raise CourseError(f"{file} cannot be read: {error.strerror or error}") from None
    if len(raw) < size:
        raise CourseError(f"{file} is truncated: {size - len(raw):,} bytes of a tensor are missing")
    blocks = raw.reshape(-1, kind.size)
    wide = np.float64 if kind.name == "F64" else np.float32
    numbers = np.empty((len(blocks), kind.numbers), wide)
    for start in range(0, len(blocks), BLOCKS):
        part = slice(start, start + BLOCKS)
        numbers[part] = kind.read(blocks[part])
    return numbers.reshape(place.shape)


def reader(file: Path, place: Place):
    """Return the function without arguments that reads a tensor."""
    return partial(read_tensor, file, place)


def config(found: Contents) -> dict:
    """Return what `config.json` would say: the number of words, tying, and the architecture.

    llama.cpp predicts with the input embedding where a file has no `output.weight`.
    """
    said: dict[str, Any] = {"tie_word_embeddings": "output.weight" not in found.tensors}
    words = tokens(found)
    if words:
        said["vocab_size"] = len(words)
    architecture = found.metadata.get("general.architecture")
    if architecture in READING_ONLY:
        said["architectures"] = [f"{architecture}Model"]
    return said


def tokens(found: Contents) -> list[str] | None:
    """Return the pieces of the vocabulary in the order of the rows; None where there are none."""
    pieces = found.metadata.get("tokenizer.ggml.tokens")
    if isinstance(pieces, list) and pieces and all(isinstance(piece, str) for piece in pieces):
        return pieces
    return None
