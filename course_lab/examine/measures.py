"""The table of numbers of an examination: its own, and those of every registered metric."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from course_lab.examine.groups import Groups, fair
from course_lib.metrics import geometry, inputs, rank
from course_lib.metrics.neighbours import nearest_neighbours
from course_lib.metrics.registry import METRICS

PAIRED = 4000  # words among which all pairs are visited
SEED = 0
# Metrics of the registry that an examination computes in a way of its own: the spectrum once for
# all numbers, cosines of groups that a sample of the words keeps, isotropy without ten more draws.
OWN = ("spectrum", "cosines", "isotropy")
TITLES = {"drift": "share of the mean vector", "positive_share": "positive pairs"}  # of figures


class Spectra(NamedTuple):
    """Singular values of a matrix, and of the same matrix minus its mean row; largest first."""

    whole: np.ndarray
    centred: np.ndarray

    @classmethod
    def of(cls, W: Tensor) -> "Spectra":
        """Return both from one decomposition of W (N, d): of the centred rows, C = Q R.

        C has the singular values of the small R, and since WᵀW = RᵀR + N m mᵀ with the mean row m,
        W has those of R with √N m as one more row.
        """
        rows = W.double()
        mean = rows.mean(0)
        R = torch.linalg.qr(rows - mean, mode="r").R
        longer = torch.cat([R, len(rows) ** 0.5 * mean[None]])
        count = min(W.shape)
        return cls(geometry.singular_values(longer)[:count], geometry.singular_values(R)[:count])

    def without(self, components: int) -> "Spectra":
        """Return those of the centred matrix without its first principal components."""
        zeros = np.zeros(min(components, len(self.centred)))
        rest = np.concatenate([self.centred[components:], zeros])
        return Spectra(rest, rest)


def measures(
    W: Tensor, groups: Groups | None, counts: np.ndarray | None, spectra: Spectra
) -> dict[str, float]:
    """Return the numbers of the table by name; lengths in units of the root mean square norm.

    W: (N, d), one word a row.
    groups: rare and frequent words, None if the counts do not tell them apart.
    counts: (N,), how often each word occurs in training, None if nobody knows.
    spectra: those of the rows that stand for the whole vocabulary, as all means here.
    """
    rows, W = W, fair(W, groups)
    counts = counts if counts is None else fair(counts, groups)
    scale = float(W.double().square().sum(1).mean().sqrt())
    # cosines
    table = {"mean cosine": geometry.mean_cosine(W)}
    if groups:
        rare = rows[groups.rare]
        frequent = rows[groups.frequent]
        table["mean cosine, rare words"] = geometry.mean_cosine(rare)
        table["mean cosine, frequent words"] = geometry.mean_cosine(frequent)
        table["mean cosine, rare with frequent"] = geometry.mean_cosine(rare, frequent)
    # spectrum
    sigma = spectra.whole
    table["σ₂/σ₁"] = float(sigma[1] / sigma[0]) if sigma[0] else 0.0
    table["stable rank"] = geometry.stable_rank(sigma) if sigma.any() else 0.0
    table["rank for 99 % of the energy"] = rank.effective_rank(sigma, 0.01) if sigma.any() else 0
    # isotropy
    isotropy = geometry.isotropy(W)
    table["IsoScore"] = isoscore(spectra.centred, W.shape[1])
    table["isotropy I₁"] = isotropy.I1
    table["isotropy I₂"] = isotropy.I2
    largest = float(geometry.cosine_by_dimension(W).max())
    table["largest part of one dimension in the mean cosine"] = largest
    # lengths
    nearest = float(np.median(nearest_distances(few(W))) / scale) if scale else 0
    table["distance to the nearest word"] = nearest
    table["root mean square norm"] = scale
    return table | registered(W, counts)


def registered(W: Tensor, counts: np.ndarray | None) -> dict[str, float]:
    """Return the numbers of all metrics in the registry but those in OWN.

    A figure is called by its title, or by its name with blanks. Lists, and figures that are None
    without counts, have no place in a table.
    """
    matrix = inputs.as_matrix(W)
    figures: dict[str, Any] = {}
    for name, metric in METRICS.items():
        if name not in OWN:
            figures |= metric.compute(matrix, counts)
    numbers = {name: value for name, value in figures.items() if isinstance(value, int | float)}
    return {TITLES.get(name, name.replace("_", " ")): value for name, value in numbers.items()}


def isoscore(centred: np.ndarray, d: int) -> float:
    """Return IsoScore from the singular values of the centred cloud in d dimensions.

    Naive: `geometry.isoscore(W)`, which computes the singular values.
    """
    return (geometry.participation_rank(centred) - 1) / (d - 1) if centred.any() else 0.0


def few(W: Tensor) -> Tensor:
    """Return at most PAIRED rows, drawn with a fixed seed: those of which all pairs are visited."""
    return W if len(W) <= PAIRED else W[torch.from_numpy(drawn(len(W)))]


def drawn(N: int) -> np.ndarray:
    """Return which of N rows `few` takes, rising."""
    if N <= PAIRED:
        return np.arange(N)
    return np.sort(np.random.default_rng(SEED).choice(N, PAIRED, replace=False))


def nearest_distances(W: Tensor | np.ndarray) -> np.ndarray:
    """Return the distance of every row to its nearest other row, (N,)."""
    return nearest_neighbours(W)[0]
