"""Many short rows in one array: 4.5 million sentences as lists of tensors would fill the memory."""

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch


class Rows(Sequence):
    """Rows of different lengths, read like a list; row i is `values[starts[i] : starts[i + 1]]`."""

    def __init__(self, values: Any, starts: np.ndarray):
        self.values = values
        self.starts = starts

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Return the length of each row, (n,) int64."""
        return np.diff(self.starts)

    def __getitem__(self: Any, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        i = range(len(self))[i]
        return self.row(self.values[self.starts[i] : self.starts[i + 1]])


class Ids(Rows):
    """Rows of ids, kept as int32; a row reads as a tensor (length,) int64."""

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> "Ids":
        if isinstance(rows, cls):
            return rows
        values = array("i")
        starts = array("q", [0])
        for row in rows:
            values.extend(row.tolist() if isinstance(row, torch.Tensor) else row)
            starts.append(len(values))
        return cls(np.asarray(values), np.asarray(starts))

    @staticmethod
    def row(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values.astype(np.int64))


class Texts(Rows):
    """Rows of text, kept as UTF-8; a row reads as a string."""

    @classmethod
    def of(cls, rows: Iterable[str]) -> "Texts":
        if isinstance(rows, cls):
            return rows
        (texts,) = compact_columns(((row,) for row in rows), 1)
        return texts

    @staticmethod
    def row(values: bytearray) -> str:
        return values.decode()

    def digest(self) -> str:
        """Return the SHA-256 of the rows, each ended by `\\n`, which is that of their file."""
        sha256 = hashlib.sha256()
        for start, stop in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            sha256.update(self.values[start:stop] + b"\n")
        return sha256.hexdigest()


def compact_columns(rows: Iterable[tuple[str, ...]], n: int = 2) -> tuple[Texts, ...]:
    """Return the n columns of rows of n texts, each kept compactly."""
    values = [bytearray() for _ in range(n)]
    starts = [array("q", [0]) for _ in range(n)]
    for row in rows:
        for value, start, text in zip(values, starts, row, strict=True):
            value += text.encode()
            start.append(len(value))
    return tuple(Texts(v, np.asarray(s)) for v, s in zip(values, starts, strict=True))
