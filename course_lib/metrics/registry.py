"""The metrics that every result has of a word matrix, by name.

A metric is a function of the matrix W (N, d), a finite tensor in float64, and the training counts
(N,), which are None where nobody knows them, as of a matrix that comes from elsewhere. It returns
its figures by name; those that need counts are None without them. To add one, write the function,
here if it is one line and else in its own file, and enter it in `METRICS`: `summary` and with it
every result's `geometry` then have its figures, and so has the table of `examine`.
"""

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from course_lib.errors import CourseError
from course_lib.metrics import geometry
from course_lib.metrics.inputs import Numbers, as_matrix, as_numbers

SAMPLED = 40_000  # words of each of 10 draws, where there are more (wang2020, Table 3)
COMPARED = 4_000  # words whose pairs are all compared, at most
DIGITS = 6  # significant ones that are kept of a singular value
Figures = dict[str, Any]  # by name: a number, a list of numbers, or None


class Figure(NamedTuple):
    """The meaning of a figure, in a sentence, and the range [low, high] in which it lies."""

    meaning: str
    low: float = 0
    high: float = 1


class Metric(NamedTuple):
    """compute(W, counts) -> {name: number, list of numbers, or None}; figures: what each means."""

    compute: Callable[[Tensor, Numbers | None], Figures]
    figures: dict[str, Figure]


def sigmas(W: Tensor, counts: Numbers | None) -> Figures:
    """Return the singular values of W, falling, to six digits."""
    return {"singular_values": [float(f"{s:.{DIGITS}g}") for s in geometry.singular_values(W)]}


def cosines(W: Tensor, counts: Numbers | None) -> Figures:
    """Return the mean cosine of all pairs of words, of rare ones, and of frequent ones.

    The groups are those of `geometry.by_frequency`; one of fewer than two words has None.
    """
    figures: Figures = {"mean_cosine": geometry.mean_cosine(W)}
    if counts is None:
        return figures | {"mean_cosine_rare": None, "mean_cosine_frequent": None}
    for name, group in geometry.by_frequency(counts)._asdict().items():
        alone = len(group) < 2
        figures[f"mean_cosine_{name}"] = None if alone else geometry.mean_cosine(W[group])
    return figures


def positive_share(W: Tensor, counts: Numbers | None) -> Figures:
    """Return the share of positive cosines among at most 4,000 words, drawn once."""
    words = np.random.default_rng(0).permutation(len(W))[:COMPARED]
    return {"positive_share": geometry.positive_share(W[words])}


def isotropy(W: Tensor, counts: Numbers | None) -> Figures:
    """Return I1 and I2, with more than 40,000 words also the means over draws of so many."""
    whole = geometry.isotropy(W)
    figures = {"I1": whole.I1, "I2": whole.I2}
    if len(W) > SAMPLED:
        drawn = geometry.sampled_isotropy(W, SAMPLED)
        figures |= {"sampled_I1": drawn.I1, "sampled_I2": drawn.I2}
    return figures


def drift(W: Tensor, counts: Numbers | None) -> Figures:
    """Return the share of the words' energy that is their common vector's."""
    return {"drift": geometry.common_drift(W).share}


def mean_norm(W: Tensor, counts: Numbers | None) -> Figures:
    """Return the mean length of a word vector."""
    return {"mean_norm": float(W.norm(dim=1).mean())}


_ALIKE = "1 where all point one way, about 0 where they point anywhere"

METRICS = {
    "spectrum": Metric(
        sigmas, {"singular_values": Figure("The lengths of the cloud along its axes.", high=inf)}
    ),
    "cosines": Metric(
        cosines,
        {
            "mean_cosine": Figure(f"The mean cosine of two words: {_ALIKE}.", -1, 1),
            "mean_cosine_rare": Figure(f"That of two rare words: {_ALIKE}.", -1, 1),
            "mean_cosine_frequent": Figure(f"That of two frequent words: {_ALIKE}.", -1, 1),
        },
    ),
    "positive_share": Metric(
        positive_share, {"positive_share": Figure("The share of pairs at less than a right angle.")}
    ),
    "isotropy": Metric(
        isotropy,
        {
            "I1": Figure("The least over the greatest Z: 1 in an isotropic cloud."),
            "I2": Figure("The spread of Z over its mean: 0 in an isotropic cloud.", high=inf),
            "sampled_I1": Figure("I1 as the mean over 10 draws of words."),
            "sampled_I2": Figure("I2 as the mean over 10 draws of words.", high=inf),
        },
    ),
    "drift": Metric(drift, {"drift": Figure("The share of energy in all words' common vector.")}),
    "mean_norm": Metric(mean_norm, {"mean_norm": Figure("The mean length of a vector.", high=inf)}),
}


def summary(W: Numbers, counts: Numbers | None) -> Figures:
    """Return the figures of every metric of `METRICS`, ready for JSON.

    W: (N, d); counts: (N,), how often each word comes in training.
    """
    matrix = as_matrix(W)
    if counts is not None and len(as_numbers(counts, "counts")) != len(matrix):
        raise CourseError(f"a count is needed for each of the {len(matrix)} words")
    figures = {}
    for metric in METRICS.values():
        figures |= metric.compute(matrix, counts)
    return figures
