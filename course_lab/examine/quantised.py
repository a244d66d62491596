"""GGUF's types of numbers, which the format's own library turns into float32.

A block holds 32 or 256 numbers of one row: small integers and the scales that they are multiplied
by. A plain type has blocks of one number.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np

TYPES = ("F32", "F16", "BF16", "F64", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
TYPES += ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")


class Kind(NamedTuple):
    """A type of tensor: its name, numbers and bytes of a block, and how blocks are read."""

    name: str
    numbers: int
    size: int
    read: Callable[[np.ndarray], np.ndarray]  # of bytes (n, size), returns (n, numbers)


@cache
def kinds() -> dict[int, Kind]:
    """Return the types that are read, by the number that stands for each in a file."""
    import gguf  # takes half a second, and only GGUF files need it

    found = {}
    for name in TYPES:
        number = gguf.GGMLQuantizationType[name]
        read = partial(_as_float64 if name == "F64" else _dequantised, qtype=number)
        found[int(number)] = Kind(name, *gguf.GGML_QUANT_SIZES[number], read)
    return found


def name_of(number: int) -> str:
    """Return what a type is called, also one that is not read."""
    import gguf

    try:
        return gguf.GGMLQuantizationType(number).name
    except ValueError:
        return f"type {number}"


def _dequantised(blocks: np.ndarray, qtype) -> np.ndarray:
    """Return the numbers of blocks (n, bytes), a block a row, as the library reads them.

    The library walks 16 rows at a time, and a step costs it as much as thousands of numbers, so it
    is handed all blocks as one row.
    """
    from gguf import quants

    return quants.dequantize(blocks.reshape(1, -1), qtype).reshape(len(blocks), -1)


def _as_float64(blocks: np.ndarray, qtype) -> np.ndarray:
    """Read what the library does not narrow."""
    return np.ascontiguousarray(blocks).view("<f8")


def bf16(raw: np.ndarray) -> np.ndarray:
    """Read the upper halves of numbers in float32."""
    return (np.ascontiguousarray(raw).view("<u2").astype(np.uint32) << 16).view(np.float32)
