"""GGUF's blocks of quantised numbers, turned into float32.

A block holds 32 or 256 numbers of one row: small integers and the scales that they are multiplied
by. Each function takes the bytes of whole blocks (n, bytes) and returns the numbers (n, numbers).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Kind(NamedTuple):
    """A type of tensor: its name, numbers and bytes of a block, and how a block is read."""

    name: str
    numbers: int
    size: int
    read: Callable[[np.ndarray], np.ndarray]


def _halves(blocks: np.ndarray, start: int, count: int = 1) -> np.ndarray:
    """Return the half-precision numbers (n, count) that begin at byte `start` of each block."""
    part = np.ascontiguousarray(blocks[:, start : start + 2 * count])
    return part.view("<f2").astype(np.float32)


def _nibbles(quants: np.ndarray) -> np.ndarray:
    """Return the low halves of all bytes (n, k), then the high halves: (n, 2 k)."""
    return np.concatenate([quants & 0x0F, quants >> 4], axis=1)


def _fifth_bits(blocks: np.ndarray, start: int) -> np.ndarray:
    """Return the 32 bits that lie in four bytes of each block, as 0 or 16: (n, 32)."""
    bits = np.unpackbits(blocks[:, start : start + 4], axis=1, bitorder="little")
    return bits << 4


def q8_0(blocks: np.ndarray) -> np.ndarray:
    """Read d and 32 signed bytes q: d q."""
    return np.ascontiguousarray(blocks[:, 2:]).view(np.int8) * _halves(blocks, 0)


def q4_0(blocks: np.ndarray) -> np.ndarray:
    """Read d and 32 half bytes q: d (q − 8)."""
    return (_nibbles(blocks[:, 2:]).astype(np.float32) - 8) * _halves(blocks, 0)


def q4_1(blocks: np.ndarray) -> np.ndarray:
    """Read d, m and 32 half bytes q: d q + m."""
    return _nibbles(blocks[:, 4:]) * _halves(blocks, 0) + _halves(blocks, 2)


def q5_0(blocks: np.ndarray) -> np.ndarray:
    """Read d, 32 fifth bits and 32 half bytes, together q: d (q − 16)."""
    quants = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks, 2)
    return (quants.astype(np.float32) - 16) * _halves(blocks, 0)


def q5_1(blocks: np.ndarray) -> np.ndarray:
    """Read d, m, 32 fifth bits and 32 half bytes, together q: d q + m."""
    quants = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks, 4)
    return quants * _halves(blocks, 0) + _halves(blocks, 2)


def q4_k(blocks: np.ndarray) -> np.ndarray:
    """Read eight groups of 32: d s q − d' m, with scale s and minimum m of six bits a group."""
    n = len(blocks)
    packed = blocks[:, 4:16].reshape(n, 3, 4)
    first, second, third = packed[:, 0], packed[:, 1], packed[:, 2]
    scales = np.concatenate([first & 0x3F, (third & 0x0F) | ((first >> 2) & 0x30)], axis=1)
    minima = np.concatenate([second & 0x3F, (third >> 4) | ((second >> 2) & 0x30)], axis=1)
    # the low halves of 32 bytes are one group, their high halves the next
    bytes_ = blocks[:, 16:].reshape(n, 4, 32)
    quants = np.stack([bytes_ & 0x0F, bytes_ >> 4], axis=2).reshape(n, 8, 32)
    steps = _halves(blocks, 0) * scales
    floors = _halves(blocks, 2) * minima
    return (steps[:, :, None] * quants - floors[:, :, None]).reshape(n, 256)


def q6_k(blocks: np.ndarray) -> np.ndarray:
    """Read sixteen groups of 16: d s (q − 32), with a signed byte s a group and q of six bits."""
    n = len(blocks)
    low = blocks[:, :128].reshape(n, 2, 64)
    high = blocks[:, 128:192].reshape(n, 2, 32)
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
    # of each half, 32 numbers a quarter: the halves of its bytes, and two bits of each high byte
    fours = np.stack([low[:, :, :32] & 15, low[:, :, 32:] & 15, low[:, :, :32] >> 4,
                      low[:, :, 32:] >> 4], axis=2)  # fmt: skip
    twos = np.stack([(high >> shift) & 3 for shift in (0, 2, 4, 6)], axis=2)
    quants = (fours | (twos << 4)).astype(np.float32) - 32
    steps = _halves(blocks, 208) * scales
    return (quants.reshape(n, 16, 16) * steps[:, :, None]).reshape(n, 256)


def _plain(dtype: str) -> Callable[[np.ndarray], np.ndarray]:
    return lambda blocks: np.ascontiguousarray(blocks).view(dtype)


def bf16(blocks: np.ndarray) -> np.ndarray:
    """Read the upper halves of numbers in float32."""
    return (np.ascontiguousarray(blocks).view("<u2").astype(np.uint32) << 16).view(np.float32)


# By the number that stands for the type in a file.
KINDS = {
    0: Kind("F32", 1, 4, _plain("<f4")),
    1: Kind("F16", 1, 2, _plain("<f2")),
    2: Kind("Q4_0", 32, 18, q4_0),
    3: Kind("Q4_1", 32, 20, q4_1),
    6: Kind("Q5_0", 32, 22, q5_0),
    7: Kind("Q5_1", 32, 24, q5_1),
    8: Kind("Q8_0", 32, 34, q8_0),
    12: Kind("Q4_K", 256, 144, q4_k),
    14: Kind("Q6_K", 256, 210, q6_k),
    28: Kind("F64", 1, 8, _plain("<f8")),
    30: Kind("BF16", 1, 2, bf16),
}
