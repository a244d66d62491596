"""What is wrong with a word matrix, in words: numbers → severities → a ranked diagnosis.

Every severity is a share of the cloud's energy, mean ‖w‖² (or mean ‖ŵ‖² = 1 of the directions
ŵ = w/‖w‖), that is not where a random matrix of the same shape would have it: 0 for a round cloud,
1 if nothing of the cloud is left. What chance alone gives is subtracted by a closed form, so that
the same threshold means the same at every shape.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg import eigvalsh_tridiagonal
from scipy.special import gammaln
from scipy.stats import beta, chi2
from torch import Tensor
from torch.nn.functional import normalize

from course_lib.errors import CourseError
from course_lib.metrics import cones, geometry, inputs

# A finding is named when it takes a tenth of the energy. Chance does not reach that: over random
# matrices from 300 × 16 to 50,000 × 768 no severity comes to half of it (tests/test_examine.py).
# Nor does a tenth hurt: a common tenth makes two words stand at 84° on average, not at 90°.
NAMED = 0.1
MARKED = 0.5  # more energy in it than in all the rest of the cloud

# A few rogue dimensions: at most 1 in 20 (Timkey & van Schijndel 2021 find 1 to 5 of 768), but up
# to three in small matrices. More than that is a spectrum, and belongs to low rank.
FEW, FEW_SHARE = 3, 20
CHANCE = 1e-3  # how often a cloud that is turned at random may show so rogue a set


@dataclass(frozen=True)
class Finding:
    """One possible disease: how severe in [0, 1], what was seen, what it means and what to do."""

    name: str
    title: str
    severity: float
    seen: str
    reason: str
    remedy: str
    numbers: dict[str, float | int | list] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether it is severe enough to be named."""
        return self.severity >= NAMED

    @property
    def grade(self) -> str:
        """One word: none, mild or marked."""
        return "marked" if self.severity >= MARKED else "mild" if self.holds else "none"


@dataclass(frozen=True)
class Diagnosis:
    """Every finding, the most severe first."""

    findings: tuple[Finding, ...]

    @property
    def named(self) -> tuple[Finding, ...]:
        """Those that hold; none for a healthy matrix."""
        return tuple(finding for finding in self.findings if finding.holds)

    @property
    def name(self) -> str:
        """The first finding's name, or "healthy"."""
        return self.named[0].name if self.named else "healthy"

    @property
    def severity(self) -> float:
        """1 − Π (1 − severity): the share of the cloud that is lost if each finding takes its share
        of what the others leave."""
        return float(1 - np.prod([1 - finding.severity for finding in self.findings]))

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        if not self.named:
            return "Healthy: the cloud of word vectors is nearly round."
        listed = "; ".join(f"{f.title} ({f.grade}, {f.severity:.2f})" for f in self.named)
        return f"{listed[0].upper()}{listed[1:]}."

    def __getitem__(self, name: str) -> Finding:
        """The finding called `name`."""
        return next(finding for finding in self.findings if finding.name == name)


class Groups(NamedTuple):
    """Ids of rare and of frequent words, all words in falling frequency, and the rule in words."""

    rare: np.ndarray
    frequent: np.ndarray
    order: np.ndarray
    rule: str

    def bands(self, words: int = 8) -> list[np.ndarray]:
        """The frequent words, and the others in bands of equal size along the frequency."""
        others = self.order[len(self.frequent) :]
        return [self.frequent, *np.array_split(others, min(words, len(others) // 2))]


def frequency_groups(counts, tokens: float | None = None) -> Groups:
    """Rare and frequent words by training counts (N,): gao2019's rare words, below 1e-4 of the
    tokens, and the 500 most frequent, but at most a tenth. In a small vocabulary, of which less
    than a tenth is that rare, the rarer half. tokens: of the corpus, where the counts are those of
    a sample of words. CourseError where counts do not tell words apart."""
    counts = torch.as_tensor(counts).double().cpu().numpy()
    if counts.ndim != 1 or not (np.isfinite(counts) & (counts >= 0)).all() or len(counts) < 16:
        raise CourseError("counts are one finite number, 0 or more, for each of 16 words or more")
    N = len(counts)
    most = max(2, min(500, N // 10))
    limit = 1e-4 * float(tokens or counts.sum()) / max(counts.sum(), 1)
    rare, frequent = geometry.by_frequency(counts, limit, most)
    order = np.argsort(-counts, kind="stable")
    rule = f"rare: below 1 in 10,000 tokens; frequent: the {most} most frequent"
    if len(rare) < N / 10:
        rare = order[N - N // 2 :]
        rule = f"rare: the rarer half; frequent: the {most} most frequent"
    rare = np.setdiff1d(rare, frequent)
    if len(rare) < 2 or counts[rare].mean() >= counts[frequent].mean() / 2:
        raise CourseError("the counts are too equal to tell rare words from frequent ones")
    return Groups(rare, frequent, order, rule)


def diagnose(W, groups: Groups | None = None) -> Diagnosis:
    """Ranked findings for W (N, d), one word a row.

    groups: rare and frequent words; without them nothing is said about a frequency split.

    Rogue dimensions come first: what a few coordinates explain is not blamed on the cloud, so the
    other findings are those of the remaining coordinates, times the share of energy that is
    theirs. CourseError for a matrix that is not finite, has no row but zeros, or is too small.
    """
    rows = inputs.as_matrix(W)
    if len(rows) < 16 or rows.shape[1] < 4:
        raise CourseError(f"{(*rows.shape,)} is too small to judge: 16 words of size 4 at least")
    if not rows.any():
        raise CourseError("every row of the matrix is zero")
    proportional = _proportional(rows)
    rogue, few = _rogue(rows, proportional)
    if few:
        kept = np.setdiff1d(np.arange(rows.shape[1]), few)
        rows = rows[:, torch.as_tensor(kept, device=rows.device)]
    unit = _directions(rows)
    spectrum, directions = _low_rank(unit, groups)
    findings = [
        *_common(rows, unit, groups, proportional),
        spectrum,
        _lengths(rows, directions),
        *([_frequency_split(unit, groups)] if groups else []),
    ]
    left = 1 - rogue.severity
    findings = [rogue, *(_scaled(finding, left) for finding in findings)]
    return Diagnosis(tuple(sorted(findings, key=lambda finding: -finding.severity)))


def random_spectrum(N: int, d: int, seed: int = 0) -> np.ndarray:
    """Singular values of a Gaussian (N, d) matrix, largest first, without making the matrix.

    Householder reflections turn it into a bidiagonal one of independent χ variables, of N, N−1, …
    degrees of freedom on the diagonal and d−1, d−2, … beside it (Dumitriu & Edelman 2002). Its
    singular values are, with both signs, the eigenvalues of a tridiagonal matrix of twice the size
    with both in turn beside a diagonal of zeros (Golub & Kahan 1965): Θ(d²).
    """
    long, short = max(N, d), min(N, d)
    random = np.random.default_rng(seed)
    diagonal = np.sqrt(random.chisquare(long - np.arange(short)))
    beside = np.sqrt(random.chisquare(short - np.arange(1, short)))
    turns = np.zeros(2 * short - 1)
    turns[::2], turns[1::2] = diagonal, beside
    return eigvalsh_tridiagonal(np.zeros(2 * short), turns)[: short - 1 : -1]


# --- one function a disease ----------------------------------------------------------------------


def _common(rows: Tensor, unit: Tensor, groups: Groups | None, proportional: float):
    """Common drift and cone: two forms of one thing, a direction that all words share.

    Its size is the share of energy in the mean row, ‖m‖²/mean ‖w‖² without the 1/N that chance
    gives; for directions that is the mean cosine. Where rare and frequent words are known it is
    what both share, m_rᵀm_f, for a place of the rare words alone is no common vector.
    """
    if groups:
        rare, frequent = rows[groups.rare], rows[groups.frequent]
        energy = (rare.square().sum(1).mean() + frequent.square().sum(1).mean()) / 2
        share = float(rare.mean(0) @ frequent.mean(0) / energy) if energy > 0 else 0.0
        cosine = geometry.mean_cosine(unit[groups.rare], unit[groups.frequent])
    else:
        N, drift = len(rows), geometry.common_drift(rows)
        share, cosine = (N * drift.share - 1) / (N - 1), drift.cosine
    share, cosine = max(0.0, share), max(0.0, cosine)  # what stands opposite shares nothing
    mean = unit.mean(0)
    angles = cones.cone_angles(unit) if mean.any() else [np.pi / 2]
    aperture = float(np.degrees(np.quantile(angles, 0.95)))
    who, pairs = "all words", "two words"
    if groups:
        who, pairs = "rare and frequent words alike", "a rare and a frequent word"
    numbers = {"share": share, "cosine": cosine, "aperture": aperture, "form": proportional}
    drift = Finding(
        "drift", "common drift", (1 - proportional) * share,
        f"One vector that {who} share holds {share:.0%} of the energy; {pairs} have cosine "
        f"{cosine:.2f} on average.",
        "A random cloud of N words has 1/N of its energy in its mean row, which is subtracted. It "
        "is drift, not a cone, if a word's position along the common vector does not depend on "
        "how far it is from that axis.",
        "Subtract the mean row: of an output matrix that changes no probability, and cosines "
        "become meaningful again. To keep it away in training use centred words.",
        numbers,
    )  # fmt: skip
    cone = Finding(
        "cone", "cone", proportional * cosine,
        f"The common direction of {who}: {pairs} have cosine {cosine:.2f} on average, and 95 % of "
        f"the words are within {aperture:.0f}° of the mean direction.",
        "Directions drawn at random have mean cosine 0. It is a cone, not drift, if words farther "
        "along the axis are farther from it in proportion, or if all have the same length: then "
        "subtracting one vector does not undo it.",
        "All-but-the-top after training; in training the cosine regulariser, adversarial softmax "
        "or spectrum control.",
        numbers,
    )  # fmt: skip
    return drift, cone


def _proportional(rows: Tensor) -> float:
    """0 if the common direction was added to the rows (drift), 1 if rows stretch along it (cone).

    With t a word's length along the mean direction and p that across, log t has slope 0 on log p
    if one vector was added to all, and 1 if t ∝ p. A slope that the words do not determine to a
    sixth (three standard errors reach half-way) counts as 0, the milder reading. Rows whose
    lengths differ much less than added noise would make them, Var log‖w‖ = (1 − s²)/(2d) with s
    the common share, were put on a sphere: there only directions exist, and it is a cone.
    """
    unit = _directions(rows)
    mean = unit.mean(0)
    along = rows @ normalize(mean, dim=0)
    squares = rows.square().sum(1)
    across = (squares - along.square()).clamp_min(0)
    ahead = (along > 0) & (across > 1e-12 * squares)
    if ahead.sum() < 16:
        return float(bool((along > 0).all()))  # on the axis itself: a cone of no aperture
    share, size = float(mean.square().sum()), rows.shape[1]
    if float(squares[squares > 0].log().var() / 4) < (1 - share**2) / (2 * size) / 4:
        return 1.0
    x, y = across[ahead].log() / 2, along[ahead].log()
    x, y = x - x.mean(), y - y.mean()
    if not x.any():
        return 1.0
    slope = (x @ y) / (x @ x)
    error = ((y - slope * x).square().mean() / (x @ x)).sqrt()
    return float(slope.clamp(0, 1)) if error < 1 / 6 else 0.0


def _rogue(rows: Tensor, proportional: float) -> tuple[Finding, list[int]]:
    """A few coordinates that hold far more than their 1/d of the directions' energy.

    Sets of coordinates that stand out are taken away one after the other until none is left; if
    that takes more than a few coordinates it is a spectrum along the axes, and belongs to low
    rank. The axis of a cone is no rogue dimension and is taken out first.
    """
    unit = _directions(rows)
    size, mean = rows.shape[1], unit.mean(0)
    moment = unit.T @ unit / len(unit) - proportional * mean[:, None] * mean
    kept, few, most = np.arange(size), [], max(FEW, size // FEW_SHARE)
    while len(few) <= most:
        index = torch.as_tensor(kept, device=rows.device)
        found = kept[_outstanding(moment[index][:, index], most)]
        if not len(found):
            break
        few += found.tolist()
        kept = np.setdiff1d(kept, found)
    share = moment.diagonal()
    if len(few) > most or share[few].sum() - len(few) / size < NAMED:
        few = []
    few = sorted(few, key=lambda j: -float(share[j]))
    held = float(share[few].sum())
    severity = max(0.0, held - len(few) / size)
    offset = float(mean[few].square().sum() / held) if few else 0.0
    names = ", ".join(map(str, few[:8])) + ("…" if len(few) > 8 else "")
    seen = (
        f"{len(few)} of {size} coordinates (number {names}) hold {held:.0%} of the energy, "
        f"{offset:.0%} of that as an offset common to all words."
        if few
        else "No few coordinates stand out."
    )
    return Finding(
        "rogue", "a few rogue dimensions", severity, seen,
        f"Each coordinate's fair share is 1/{size}. Rogue is what a cloud of the same effective "
        "rank, turned at random, would put into so few coordinates in fewer than 1 case of 1,000 "
        "(a Beta distribution).",
        "Standardise or drop these coordinates before comparing words; if they are an offset, "
        "centring is enough. In training look at weight decay and at the layer norm's gains.",
        {"coordinates": few, "share": held, "offset": offset},
    ), few  # fmt: skip


def _outstanding(moment: Tensor, most: int) -> np.ndarray:
    """The smallest set of coordinates, up to `most`, that chance does not explain; it may be empty.

    Of a cloud that fills r of d dimensions evenly and is turned at random, k given coordinates hold
    a share of the energy of mean k/d and variance 2k(d−k)(d−r) / (r d² (d−1)(d+2)), the trace of
    a corner of a random projection; a Beta distribution with these is exact for r = 1. Any k of
    them hold as much at most C(d, k) times as often. r is the participation rank (Σ λ)²/Σ λ² of
    the second moments, at most d/2, so that in a flat cloud the noise of few words is no finding.
    Each must hold half as much again as the average.
    """
    d, energy = len(moment), float(moment.trace())
    if d <= most or energy <= 1e-12:
        return np.arange(0)
    rank = min(energy**2 / float(moment.square().sum()), d / 2)
    share = moment.diagonal().cpu().numpy() / energy
    order = np.argsort(-share, kind="stable")
    k = np.arange(1, most + 1)
    held = np.cumsum(share[order])[:most]
    size = rank * (d - 1) * (d + 2) / (2 * (d - rank)) - 1  # of the Beta: its two parameters' sum
    log_sets = gammaln(d + 1) - gammaln(k + 1) - gammaln(d - k + 1)
    by_chance = log_sets + beta.logsf(held, size * k / d, size * (d - k) / d)
    sets = k[(by_chance < np.log(CHANCE)) & (share[order][:most] > 1.5 / d)]
    return order[: sets[0]] if len(sets) else np.arange(0)


def _low_rank(unit: Tensor, groups: Groups | None) -> tuple[Finding, float]:
    """A spectrum that falls too fast: the largest gap between the energy that the first k
    directions hold and what they hold in a random matrix of the same shape, over all k.

    Of the centred directions, each band of frequency about its own mean and at the same scale: a
    common direction, a place of the rare words and unequal lengths are other findings. Second
    value: the participation rank.
    """
    N, size = unit.shape
    parts = groups.bands() if groups else [np.arange(N)]
    moment, words = unit.new_zeros(size, size), 0
    for part in parts:
        rows = unit[part]
        rows = rows - rows.mean(0)
        energy = rows.square().sum() / len(rows)
        if energy > 1e-12:  # else the group is one point, and its rounding errors are no spectrum
            moment += rows.T @ rows / energy
            words += len(part)
    if not words:
        return _spectrum_finding(0.0, 0, size, 0.0, 0.0, 1.0), 1.0
    energy = torch.linalg.eigvalsh(moment).flip(0).clamp_min(0).cpu().numpy() / words
    rank = geometry.participation_rank(np.sqrt(energy))
    held = np.cumsum(energy)
    expected = np.ones(size)
    random = np.cumsum(random_spectrum(words, size) ** 2)
    expected[: len(random)] = random / random[-1]
    k = int(np.argmax(held - expected))
    gap = float(held[k] - expected[k])
    return _spectrum_finding(gap, k + 1, size, float(held[k]), float(expected[k]), rank), rank


def _spectrum_finding(gap, k, size, held, expected, rank) -> Finding:
    return Finding(
        "low_rank", "low rank", max(0.0, gap),
        f"{k} of {size} directions hold {held:.0%} of the energy about the mean; in a random "
        f"matrix of this shape they hold {expected:.0%}.",
        "The severity is the largest such difference over all numbers of directions: the share of "
        "energy that would have to move to make the spectrum a random matrix's.",
        "Spectrum control, or a mixture of softmaxes if the rank of the log-probabilities is what "
        "matters. After training nothing brings back what was not learned.",
        {"directions": k, "held": held, "expected": expected, "participation_rank": rank},
    )  # fmt: skip


def _lengths(rows: Tensor, directions: float) -> Finding:
    """Words of hardly any length: by how much, on average, a word falls short of half the root
    mean square R, mean of (1 − 2‖w‖/R)₊.

    Subtracted is what a Gaussian cloud of r effective dimensions has: with F_r the distribution
    function of χ²_r, F_r(r/4) − 2 E χ_r/√r · F_{r+1}(r/4), below 1 in 10,000 from r = 24 on.
    """
    norms = rows.norm(dim=1)
    scale = norms.square().mean().sqrt()
    short = float((1 - 2 * norms / scale).clamp_min(0).mean()) if scale > 0 else 0.0
    half = directions / 2
    mean = float(np.exp(gammaln(half + 0.5) - gammaln(half))) / half**0.5  # E χ_r / √r
    below = chi2.cdf(directions / 4, [directions, directions + 1])
    chance = float(below[0] - 2 * mean * below[1])
    severity = max(0.0, (short - chance) / (1 - chance))
    tenth = float((norms < scale / 10).double().mean())
    low, high = np.quantile(norms.cpu().numpy(), [0.05, 0.95])
    return Finding(
        "norm_collapse", "norm collapse", severity,
        f"Lengths run from {low:.3g} to {high:.3g} (5 % and 95 % of the words); {tenth:.0%} of "
        "the words are shorter than a tenth of the root mean square.",
        "By how much a word falls short of half the root mean square, on average: random vectors "
        "in many dimensions have nearly the same length and never fall so short.",
        "Less weight decay on the word matrix, or rows of one length; check that the words are "
        "trained at all (rows of padding, special tokens).",
        {"shortfall": short, "chance": chance, "below_a_tenth": tenth},
    )  # fmt: skip


def _frequency_split(unit: Tensor, groups: Groups) -> Finding:
    """Rare words in a place of their own: of their directions' energy seen from the mean of the
    frequent words, ‖δ‖²/(‖δ‖² + v) with δ the difference of the two means and v the rare words'
    variance. ‖δ‖² is what the means are apart less v_r/n_r + v_f/n_f, which chance adds on
    average, and two deviations of it, so that few words drawn alike have none.

    Where frequency begins to matter is not known beforehand: the largest of three cuts counts,
    the usual rare words, the rarer half and the rarest tenth.
    """
    N, frequent = len(groups.order), unit[groups.frequent]
    cuts = {"the rare words": groups.rare}
    for share, name in ((2, "the rarer half"), (10, "the rarest tenth")):
        cuts[name] = np.setdiff1d(groups.order[N - N // share :], groups.frequent)
    severities = {name: _apart(unit[ids], frequent) for name, ids in cuts.items() if len(ids) > 1}
    cut = max(severities, key=severities.get)
    rare = unit[groups.rare]
    cosines = [geometry.mean_cosine(rare), geometry.mean_cosine(frequent)]
    cosines.append(geometry.mean_cosine(rare, frequent))
    return Finding(
        "frequency_split", "rare words in a place of their own", severities[cut],
        f"Mean cosine of two rare words {cosines[0]:.2f}, of two frequent ones {cosines[1]:z.2f}, "
        f"of a rare and a frequent one {cosines[2]:z.2f}; most apart: {cut}.",
        "The severity is the mean cosine of these words seen from the frequent ones' mean: 0 "
        f"if frequency does not matter. Groups: {groups.rule}.",
        "The cosine regulariser or gradient gating for rare words (lesson 11 compares what they "
        "cost); more data or a smaller vocabulary of pieces.",
        {"rare": cosines[0], "frequent": cosines[1], "between": cosines[2], "cut": cut,
         "rare_words": len(groups.rare), "frequent_words": len(groups.frequent)},
    )  # fmt: skip


def _apart(rare: Tensor, frequent: Tensor) -> float:
    """‖δ‖²/(‖δ‖² + v), δ the difference of the means, beyond two deviations of what chance adds."""
    v_r, v_f = (float(part.var(0).sum()) for part in (rare, frequent))
    apart = float((rare.mean(0) - frequent.mean(0)).square().sum())
    by_chance = v_r / len(rare) + v_f / len(frequent)
    if v_r > 0:  # of ‖δ‖² where there is no δ: mean by_chance, deviation by_chance √(2/rank)
        spread = torch.cov(rare.T)
        by_chance *= 1 + 2 * (2 * float(spread.square().sum())) ** 0.5 / v_r
    apart -= by_chance
    return apart / (apart + v_r) if apart > 0 else 0.0


def _directions(rows: Tensor) -> Tensor:
    """Rows of length 1; rows of zeros stay."""
    largest = rows.abs().amax(1, keepdim=True)
    return normalize(rows / largest.where(largest > 0, 1.0), dim=1)


def _scaled(finding: Finding, left: float) -> Finding:
    """The finding of a part of the coordinates that holds the share `left` of the energy."""
    values = {name: getattr(finding, name) for name in finding.__dataclass_fields__}
    return Finding(**values | {"severity": left * finding.severity})
