"""Word matrices with a known disease, from healthy to fully collapsed: what a verdict is held to.

In all but one the disease takes a stated share s of the energy, mean ‖w‖², of a round Gaussian
cloud; its directions are drawn at random. Words are in the order of their frequency, which is
Zipf's.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

DISEASES = ("drift", "cone", "low_rank", "rogue", "frequency_split", "norm_collapse")


class Graded(NamedTuple):
    """W (N, d), counts (N,) and what is wrong with it; `strength` s is in [0, 1)."""

    disease: str
    strength: float
    W: Tensor
    counts: Tensor


def zipf_counts(N: int, tokens: int = 10_000_000) -> Tensor:
    """Return counts proportional to 1 / rank, (N,) float64."""
    share = 1 / torch.arange(1, N + 1, dtype=torch.float64)
    return (tokens * share / share.sum()).round()


def diseased(disease: str, strength: float, N: int, d: int, seed: int = 0) -> Graded:
    """Return a matrix with one disease; "healthy" is a round cloud whatever the strength.

    drift: one vector added to every row. cone: the same, then every row stretched by a log-normal
    factor, so that lengths differ along the cone. low_rank: a matrix of rank d / 16 added. rogue:
    three coordinates stretched. frequency_split: one vector added to the rarer half of the words.
    norm_collapse: a share s of the rows shrunk to a hundredth.
    """
    random = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    W = normal(N, d)
    push = (d * strength / (1 - strength)) ** 0.5  # its square is s / (1 − s) of the cloud's energy
    common = push * normalize(normal(d), dim=0)
    if disease in ("drift", "cone"):
        W += common
    if disease == "cone":
        W *= normal(N, 1).mul(0.6).exp()
    if disease == "low_rank":
        rank = max(2, d // 16)
        W += push * normal(N, rank) @ torch.linalg.qr(normal(d, rank)).Q.T / rank**0.5
    if disease == "rogue":
        some = torch.randperm(d, generator=random)[:3]
        W[:, some] *= (1 + push**2 / 3) ** 0.5
    if disease == "frequency_split":
        W[N // 2 :] += common
    if disease == "norm_collapse":
        W[torch.randperm(N, generator=random)[: round(strength * N)]] /= 100
    return Graded(disease, strength, W, zipf_counts(N))


def collapsed(N: int, d: int, seed: int = 0) -> Graded:
    """Return a matrix with everything at once: a narrow cone, few directions, unequal lengths."""
    narrow = diseased("cone", 0.99, N, d, seed)
    flat = diseased("low_rank", 0.95, N, d, seed + 1).W
    lengths = narrow.W.norm(dim=1, keepdim=True)
    W = narrow.W + 0.05 * lengths * flat / flat.norm(dim=1, keepdim=True).mean()
    return Graded("collapsed", 0.99, W, narrow.counts)


def graded_series(N: int = 2000, d: int = 64, seed: int = 0) -> list[Graded]:
    """Return twelve matrices: healthy, five diseases weak and strong, and one that collapsed."""
    steps = [(disease, s) for disease in DISEASES[:5] for s in (0.3, 0.8)]
    series = [diseased("healthy", 0.0, N, d, seed)]
    series += [diseased(*step, N, d, seed + i) for i, step in enumerate(steps, 1)]
    return [*series, collapsed(N, d, seed + len(series))]
