"""The pictures of an examination: each with a title, what to look for, and alternative text."""

from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from course_lab import plots, statistics
from course_lab.examine.blocks import moments
from course_lab.examine.groups import fair
from course_lab.examine.measures import few, nearest_distances
from course_lab.examine.record import Examination
from course_lib.metrics import geometry, subspaces

POINTS = 4000  # drawn in one cloud


class Picture(NamedTuple):
    """A figure and what is said about it."""

    title: str
    figure: Figure
    alt: str
    caption: str


def pictures(examination: Examination) -> list[Picture]:
    """Return every picture that the numbers at hand allow."""
    drawings = (spectrum, cosines, cloud, lengths, neighbour_distances, mean_share, dimensions)
    return [draw(examination) for draw in drawings]


def _by_group(examination: Examination) -> dict[str, Tensor]:
    """Return the rows of all words and, where they are known, of the rare and frequent ones."""
    rows = {"all words": fair(examination.W, examination.groups)}
    if examination.groups:
        rows["rare"] = examination.W[examination.groups.rare]
        rows["frequent"] = examination.W[examination.groups.frequent]
    return rows


def spectrum(examination: Examination) -> Picture:
    """Singular values over the largest, linear and logarithmic, beside a random matrix's."""
    curves = {"this matrix": examination.spectrum, "random matrix": examination.random}
    if examination.against:
        curves["compared with"] = examination.against.spectrum
    # None of a value that is 0 but for rounding, which a logarithmic axis would be made of
    curves = {name: s[s > 1e-9 * max(s)] for name, s in curves.items() if s.any()}
    shares = {n: (np.arange(1, len(s) + 1) / len(s), s / s[0]) for n, s in curves.items()}
    figure, (above, below) = plots.panels(2, 1, height=2.5)
    plots.lines(shares, "", "σₖ / σ₁", ax=above)
    plots.lines(shares, "rank of the singular value / d", "the same, logarithmic", "y", ax=below)
    below.legend_.remove()
    half = examination.spectrum[len(examination.spectrum) // 2] / (examination.spectrum[0] or 1)
    chance = examination.random[len(examination.random) // 2] / examination.random[0]
    return Picture(
        "Singular values", figure,
        f"Singular values divided by the largest. Half-way they are at {half:.2f} of it, in a "
        f"random Gaussian matrix of the same shape at {chance:.2f}.",
        "A healthy matrix follows the random one. A curve that drops at once and then runs level "
        "has one direction that dwarfs the others; one that goes on falling has low rank.",
    )  # fmt: skip


def cosines(examination: Examination) -> Picture:
    """Histogram of the cosines of random pairs: all words, and rare and frequent ones."""
    values = {name: geometry.pair_cosines(rows) for name, rows in _by_group(examination).items()}
    means = ", ".join(f"{name} {v.mean():z.2f}" for name, v in values.items())
    return Picture(
        "Cosines of pairs of words", plots.cosine_histogram(values),
        f"Densities of the cosines of pairs of words; their means are: {means}.",
        "A round cloud gives a narrow bell about 0. A bell that stands to the right of it is a "
        "common direction; groups with bells at different places live in places of their own.",
    )  # fmt: skip


def cloud(examination: Examination) -> Picture:
    """Draw the words on the plane of the two largest singular values.

    Its axes are eigenvectors of the second moments, which have d rows where W has N.
    """
    random = np.random.default_rng(0)
    W = examination.W
    rows = np.arange(len(W))
    if len(W) > POINTS:
        rows = np.sort(random.choice(len(W), POINTS, replace=False))
    mean, second = moments(W)
    energy, axes = torch.linalg.eigh(second)
    axes = subspaces.oriented(mean[None], axes[:, -2:].flip(1))
    points = (W[torch.from_numpy(rows)].double() @ axes).numpy()
    share = None
    names = {}
    if examination.counts is not None and examination.counts.any():
        share = examination.counts[rows] / examination.counts.sum()
        if not share.any():
            share = None
    if share is not None and examination.words:
        for row in np.argsort(-share)[[0, 4, 9]]:
            names[int(row)] = examination.words[rows[row]].strip("Ġ▁ ") or "blank"
    title = "" if len(rows) == len(W) else f"{len(rows):,} of the words"
    figure = plots.cloud(points, share, names, title)
    centre = float((mean @ axes).norm() / energy[-2:].sum().sqrt())
    return Picture(
        "The cloud", figure,
        "Word vectors as points on the plane of the two largest singular values, the origin "
        f"marked; their centre lies {centre:.2f} of their typical distance away from it.",
        "Not centred: where is the origin? In a healthy cloud it is in the middle. A tongue to one "
        "side is a cone, two clumps of different colour are a frequency split.",
    )  # fmt: skip


def lengths(examination: Examination) -> Picture:
    """Norms against frequency, or, without counts, against the number of the row."""
    norms = examination.W.double().norm(dim=1).numpy()
    if examination.counts is not None and (examination.counts > 0).sum() > 2:
        figure = plots.against_frequency(norms, examination.counts, "length of the word vector")
        ends = [norms[ids].mean() for ids in examination.groups[:2]] if examination.groups else []
        means = "; mean {:.3g} of rare, {:.3g} of frequent words".format(*ends) if ends else ""
        return Picture(
            "Lengths against frequency", figure,
            f"Length of each word vector against how often the word occurs{means}.",
            "A line that is nearly level is healthy. Lengths that fall with the count, or that "
            "come to nothing, say how training treated words it seldom saw.",
        )  # fmt: skip
    parts = [part.mean() for part in np.array_split(norms, min(50, len(norms)))]
    middle = (np.arange(len(parts)) + 0.5) * len(norms) / len(parts)
    figure = plots.lines({"mean": (middle, parts)}, "number of the row", "mean length")
    figure.axes[0].set_ylim(0, 1.1 * max(parts) or 1)
    return Picture(
        "Lengths by row", figure,
        f"Mean length of neighbouring rows, from {min(parts):.3g} to {max(parts):.3g}.",
        "There are no counts, so the rows are in the order of the file. Many tokenizers number "
        "frequent pieces first.",
    )  # fmt: skip


def neighbour_distances(examination: Examination) -> Picture:
    """Return the density of the distance to the nearest word, in root mean square lengths.

    Beside it stands the density for as many Gaussian vectors of the same size.
    """
    words = few(examination.W).double().numpy()
    random = np.random.default_rng(0).standard_normal(words.shape)
    clouds = {"this matrix": words, "random matrix": random}
    if examination.against:
        clouds["compared with"] = few(examination.against.W).double().numpy()
    curves = {}
    medians = {}
    for name, rows in clouds.items():
        scale = np.sqrt((rows**2).sum(1).mean()) or 1.0
        distance = nearest_distances(rows) / scale
        medians[name] = np.median(distance)
        if np.ptp(distance) > 0:
            places, heights = statistics.density(distance)
            curves[name] = places[places >= 0], heights[places >= 0]  # a kernel reaches below
    figure = plots.lines(curves, "distance to the nearest word / root mean square length",
                         "density")  # fmt: skip
    listed = ", ".join(f"{name} {median:.2f}" for name, median in medians.items())
    return Picture(
        "Nearest neighbours", figure,
        f"Density of the distance from a word to its nearest other word; medians: {listed}.",
        "Words much nearer to each other than random ones are easily confused (Wang et al. 2019). "
        "A heap at 0 is rows that are all alike, often of padding or of words never trained.",
    )  # fmt: skip


def mean_share(examination: Examination) -> Picture:
    """Share of the energy that is the mean vector: of all words, the rare and the frequent."""
    groups = _by_group(examination)
    shares = {name: geometry.common_drift(rows).share for name, rows in groups.items()}
    figure, ax = plots.panels(height=0.9 + 0.7 * len(shares))
    bars = ax.barh(list(shares), list(shares.values()), color=plots.COLOURS[0], hatch="//",
                   edgecolor=plots.PAPER, height=0.6)  # fmt: skip
    ax.bar_label(bars, [f" {share:.0%}" for share in shares.values()])
    ax.invert_yaxis()
    ax.set(xlim=(0, 1.12), xlabel="share of the mean vector in the energy, ‖m‖² / mean ‖w‖²")
    ax.grid(False, axis="y")
    listed = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return Picture(
        "Share of the mean", figure,
        f"Bars: share of the energy that is the mean vector of the group; {listed}.",
        "Chance alone gives 1/n in a group of n words. What all words have in common says nothing "
        "about any of them, and as an output matrix it changes no probability.",
    )  # fmt: skip


def dimensions(examination: Examination) -> Picture:
    """Energy of each coordinate over the average one, sorted; logarithmic."""
    energy = examination.W.double().square().mean(0).numpy()
    energy = np.sort(energy)[::-1] / (energy.mean() or 1)
    flat = np.random.default_rng(0).chisquare(len(examination.W), len(energy)) / len(examination.W)
    curves = {"this matrix": energy.clip(1e-6), "random matrix": np.sort(flat)[::-1]}
    figure = plots.lines(curves, "coordinate, largest first", "energy / average", "y")
    figure.axes[0].yaxis.set_major_formatter("{x:g}")
    figure.axes[0].yaxis.set_minor_formatter("{x:g}")
    return Picture(
        "Coordinates", figure,
        f"Energy of each of the {len(energy)} coordinates relative to their average, largest "
        f"first; the first holds {energy[0]:.1f} times the average.",
        "A few points far above the rest are rogue dimensions: they decide every cosine.",
    )  # fmt: skip
