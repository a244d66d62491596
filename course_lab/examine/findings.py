"""The findings, one function each: how severe, what was seen, what it means, and what to do.

Rogue dimensions, which are looked for first, have a file of their own. W (N, d) is always a matrix
in float64; `unit` holds its directions, `groups` the ids of the rare and the frequent words.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.special import gammaln
from scipy.stats import chi2
from torch import Tensor
from torch.nn.functional import normalize

from course_lab.examine.chance import random_spectrum
from course_lab.examine.groups import Groups, fair
from course_lab.examine.kept import price_of_all_but_the_top
from course_lib.metrics import geometry

# A finding is named when it takes a tenth of the energy. Chance does not reach that: over random
# matrices from 300 × 16 to 50,000 × 768 no severity comes to half of it (test_examine.py).
# Nor does a tenth hurt: a common tenth makes two words stand at 84° on average, not at 90°.
NAMED = 0.1
MARKED = 0.5  # more energy in it than in all the rest of the cloud


@dataclass(frozen=True)
class Finding:
    """One possible disease: how severe in [0, 1], what was seen, what it means and what to do.

    form: which of its forms a finding takes, where it has several.
    """

    name: str
    title: str
    severity: float
    seen: str
    reason: str
    remedy: str
    numbers: dict[str, float | int | str | list] = field(default_factory=dict)
    form: str = ""

    @property
    def holds(self) -> bool:
        """True if the finding is severe enough to be named."""
        return self.severity >= NAMED

    @property
    def grade(self) -> str:
        """Return one word: none, mild or marked."""
        return "marked" if self.severity >= MARKED else "mild" if self.holds else "none"


def directions(rows: Tensor) -> Tensor:
    """Return the rows scaled to length 1; rows of zeros stay."""
    largest = rows.abs().amax(1, keepdim=True)
    return normalize(rows / largest.where(largest > 0, 1.0), dim=1)


# --- common direction ----------------------------------------------------------------------------

CENTRE = (
    "Subtract the mean row: of an output matrix that changes no probability, and cosines become "
    "meaningful again."
)
IN_TRAINING = {
    "drift": " To keep it away in training use centred words.",
    "cone": " To keep it away in training use the cosine regulariser, adversarial softmax or "
    "spectrum control.",
}


def common_direction(
    rows: Tensor,
    unit: Tensor,
    groups: Groups | None,
    stretched: float,
    predicts: bool | None = None,
) -> Finding:
    """Return a direction that all words share: a drift, a cone, or something between.

    rows (N, d): the words. unit (N, d): their directions. groups: rare and frequent words, or None.
    stretched: 0 for a drift, 1 for a cone, and between for some of both; see `stretching`.
    predicts: whether the matrix predicts words, None if unknown.

    The size is the share of energy in the mean row, ‖m‖²/mean ‖w‖² without the 1/N that chance
    gives; for directions that is the mean cosine. A drift is measured by the first, a cone by the
    second, what is between by both in proportion. Where rare and frequent words are known it is
    what both share, m_rᵀm_f, for a place of the rare words alone is no common vector.
    """
    # how much is shared, of the energy and of the directions
    if groups:
        rare = rows[groups.rare]
        frequent = rows[groups.frequent]
        energy = (rare.square().sum(1).mean() + frequent.square().sum(1).mean()) / 2
        share = float(rare.mean(0) @ frequent.mean(0) / energy) if energy > 0 else 0.0
        cosine = geometry.mean_cosine(unit[groups.rare], unit[groups.frequent])
    else:
        N = len(rows)
        common = geometry.common_drift(rows)
        share = (N * common.share - 1) / (N - 1)
        cosine = common.cosine
    share = max(0.0, share)  # what stands opposite shares nothing
    cosine = max(0.0, cosine)
    # how wide the cone is
    everyone = fair(unit, groups)
    mean = everyone.mean(0)
    angles = geometry.cone_angles(everyone) if mean.norm() >= geometry.ROUNDING else [np.pi / 2]
    aperture = float(np.degrees(np.quantile(angles, 0.95)))
    # in words
    who, pairs = "all words", "two words"
    if groups:
        who, pairs = "rare and frequent words alike", "a rare and a frequent word"
    form = "cone" if stretched >= 0.5 else "drift"
    within = ""
    if form == "cone":
        within = f" 95 % of the words are within {aperture:.0f}° of the mean direction."
    return Finding(
        "common_direction",
        f"common direction, a {form}",
        (1 - stretched) * share + stretched * cosine,
        f"One direction that {who} share holds {share:.0%} of the energy; {pairs} have cosine "
        f"{cosine:.2f} on average.{within}",
        "A random cloud of N words has 1/N of its energy in its mean row, which is subtracted, and "
        "mean cosine 0. It is a drift, one vector added to all, if a word's position along the "
        "common vector does not depend on how far the word is from that axis. It is a cone if "
        "words farther along the axis are farther from it in proportion, or if all have the same "
        "length: then subtracting one vector does not make the cloud round.",
        _advice(predicts, form),
        {"share": share, "cosine": cosine, "aperture": aperture, "stretched": stretched},
        form,
    )


def _advice(predicts: bool | None, form: str) -> str:
    """Return what to do about a common direction: it depends on what the matrix is for."""
    if predicts is None and form == "drift":
        return CENTRE + IN_TRAINING[form]
    if not predicts:
        return (
            "To compare words, subtract the mean row; if that is not enough, all-but-the-top takes "
            "principal directions away, too. It is no repair for a matrix that predicts: "
            f"{price_of_all_but_the_top()}.{IN_TRAINING[form]}"
        )
    return (
        f"{CENTRE} All-but-the-top, which takes principal directions away, too, changes the "
        f"probabilities: {price_of_all_but_the_top()}. Use it to compare words, and leave the "
        f"matrix that predicts alone.{IN_TRAINING[form]}"
    )


def stretching(rows: Tensor) -> float:
    """Return 0 if the common direction was added to the rows, 1 if rows stretch along it (cone).

    With t a word's length along the mean direction and p that across, log t has slope 0 on log p
    if one vector was added to all, and 1 if t ∝ p. A slope that the words do not determine to a
    sixth (three standard errors reach half-way) counts as 0, the milder reading. Rows whose
    lengths differ much less than added noise would make them, Var log‖w‖ = (1 − s²)/(2d) with s
    the common share, were put on a sphere: there only directions exist, and it is a cone.
    """
    # t² and p² of the words that lie ahead
    unit = directions(rows)
    mean = unit.mean(0)
    along = rows @ normalize(mean, dim=0)
    squares = rows.square().sum(1)
    across = (squares - along.square()).clamp_min(0)
    ahead = (along > 0) & (across > 1e-12 * squares)
    if ahead.sum() < 16:
        return float(bool((along > 0).all()))  # on the axis itself: a cone of no aperture
    # on a sphere?
    share = float(mean.square().sum())
    size = rows.shape[1]
    if float(squares[squares > 0].log().var() / 4) < (1 - share**2) / (2 * size) / 4:
        return 1.0
    # slope of log t on log p
    x = across[ahead].log() / 2
    y = along[ahead].log()
    x = x - x.mean()
    y = y - y.mean()
    if not x.any():
        return 1.0
    slope = (x @ y) / (x @ x)
    error = ((y - slope * x).square().mean() / (x @ x)).sqrt()
    return float(slope.clamp(0, 1)) if error < 1 / 6 else 0.0


# --- low rank ------------------------------------------------------------------------------------


def low_rank(unit: Tensor, groups: Groups | None) -> tuple[Finding, float]:
    """Return a spectrum that falls too fast, and the participation rank.

    The severity is the largest gap between the energy that the first k directions hold and what
    they hold in a random matrix of the same shape, over all k. Of the centred directions, each
    band of frequency about its own mean and at the same scale: a common direction, a place of the
    rare words and unequal lengths are other findings.
    """
    N, size = unit.shape
    # second moments of the bands, each of energy 1 a word
    bands = groups.bands() if groups else [np.arange(N)]
    moment = unit.new_zeros(size, size)
    words = 0
    for band in bands:
        rows = unit[band]
        rows = rows - rows.mean(0)
        energy = rows.square().sum() / len(rows)
        if energy > 1e-12:  # else the band is one point, and its rounding errors are no spectrum
            moment += rows.T @ rows / energy
            words += len(band)
    if not words:
        return _spectrum_finding(0.0, 0, size, 0.0, 0.0, 1.0), 1.0
    # their spectrum against a random matrix's
    energy = torch.linalg.eigvalsh(moment).flip(0).clamp_min(0).cpu().numpy() / words
    rank = geometry.participation_rank(np.sqrt(energy))
    held = np.cumsum(energy)
    expected = np.ones(size)
    random = np.cumsum(random_spectrum(words, size) ** 2)
    expected[: len(random)] = random / random[-1]
    k = int(np.argmax(held - expected))
    gap = float(held[k] - expected[k])
    return _spectrum_finding(gap, k + 1, size, float(held[k]), float(expected[k]), rank), rank


def _spectrum_finding(
    gap: float, k: int, size: int, held: float, expected: float, rank: float
) -> Finding:
    return Finding(
        "low_rank",
        "low rank",
        max(0.0, gap),
        f"{k} of {size} directions hold {held:.0%} of the energy about the mean; in a random "
        f"matrix of this shape they hold {expected:.0%}.",
        "The severity is the largest such difference over all numbers of directions: the share of "
        "energy that would have to move to make the spectrum a random matrix's.",
        "Spectrum control, or a mixture of softmaxes if the rank of the log-probabilities is what "
        "matters. After training nothing brings back what was not learned.",
        {"directions": k, "held": held, "expected": expected, "participation_rank": rank},
    )


# --- norm collapse -------------------------------------------------------------------------------


def norm_collapse(rows: Tensor, rank: float) -> Finding:
    """Return the finding that words have hardly any length.

    It measures by how much a word falls short of half the root mean square R on average, which is
    the mean of (1 − 2‖w‖/R)₊. What a Gaussian cloud of r = `rank` effective dimensions has is
    subtracted. With F_r the distribution of χ²_r that is F_r(r/4) − 2 E χ_r/√r · F_{r+1}(r/4),
    below 1 in 10,000 from r = 24 on.
    """
    # what is seen
    norms = rows.norm(dim=1)
    scale = norms.square().mean().sqrt()
    short = float((1 - 2 * norms / scale).clamp_min(0).mean()) if scale > 0 else 0.0
    # what chance gives
    half = rank / 2
    mean = float(np.exp(gammaln(half + 0.5) - gammaln(half))) / half**0.5  # E χ_r / √r
    below = chi2.cdf(rank / 4, [rank, rank + 1])
    chance = float(below[0] - 2 * mean * below[1])
    severity = max(0.0, (short - chance) / (1 - chance))
    # in words
    below_half = float((norms < scale / 2).double().mean())
    low, high = np.quantile(norms.cpu().numpy(), [0.05, 0.95])
    return Finding(
        "norm_collapse",
        "norm collapse",
        severity,
        f"Lengths run from {low:.3g} to {high:.3g} (5 % and 95 % of the words); {below_half:.0%} "
        "of the words are shorter than half the root mean square.",
        "By how much a word falls short of half the root mean square, on average: random vectors "
        "in many dimensions have nearly the same length and never fall so short.",
        "Less weight decay on the word matrix, or rows of one length; check that the words are "
        "trained at all (rows of padding, special tokens).",
        {"shortfall": short, "chance": chance, "below_half": below_half},
    )


# --- frequency split -----------------------------------------------------------------------------


def frequency_split(unit: Tensor, groups: Groups) -> Finding:
    """Return rare words in a place of their own: how far they are from the frequent ones' mean.

    The severity is the share ‖δ‖²/(‖δ‖² + v) of the rare directions' energy seen from the mean of
    the frequent words, with δ the difference of the two means and v the rare words' variance.
    ‖δ‖² is what the means are apart less v_r/n_r + v_f/n_f, which chance adds on average, and two
    deviations of it, so that few words drawn alike have none.

    Where frequency begins to matter is not known beforehand: the largest of three cuts counts,
    the usual rare words, the rarer half and the rarest tenth.
    """
    # the three cuts
    N = len(groups.order)
    frequent = unit[groups.frequent]
    cuts = {"the rare words": groups.rare}
    for part, name in ((2, "the rarer half"), (10, "the rarest tenth")):
        cuts[name] = np.setdiff1d(groups.order[N - N // part :], groups.frequent)
    severities = {name: _apart(unit[ids], frequent) for name, ids in cuts.items() if len(ids) > 1}
    cut = max(severities, key=lambda name: severities[name])
    # in words
    rare = unit[groups.rare]
    of_rare = geometry.mean_cosine(rare)
    of_frequent = geometry.mean_cosine(frequent)
    between = geometry.mean_cosine(rare, frequent)
    return Finding(
        "frequency_split",
        "rare words in a place of their own",
        severities[cut],
        f"Mean cosine of two rare words {of_rare:.2f}, of two frequent ones {of_frequent:z.2f}, "
        f"of a rare and a frequent one {between:z.2f}; most apart: {cut}.",
        "The severity is the mean cosine of these words seen from the frequent ones' mean: 0 "
        f"if frequency does not matter. Groups: {groups.rule}.",
        "The cosine regulariser or gradient gating for rare words (lesson 11 compares what they "
        "cost); more data or a smaller vocabulary of pieces.",
        {
            "rare": of_rare,
            "frequent": of_frequent,
            "between": between,
            "cut": cut,
            "rare_words": len(groups.rare),
            "frequent_words": len(groups.frequent),
        },
    )


def _apart(rare: Tensor, frequent: Tensor) -> float:
    """Return ‖δ‖²/(‖δ‖² + v), with δ the difference of the means beyond what chance adds."""
    v_r, v_f = (float(rows.var(0).sum()) for rows in (rare, frequent))
    apart = float((rare.mean(0) - frequent.mean(0)).square().sum())
    by_chance = v_r / len(rare) + v_f / len(frequent)
    if v_r > 0:  # of ‖δ‖² where there is no δ: mean by_chance, deviation by_chance √(2/rank)
        spread = torch.cov(rare.T)
        by_chance *= 1 + 2 * (2 * float(spread.square().sum())) ** 0.5 / v_r
    apart -= by_chance
    return apart / (apart + v_r) if apart > 0 else 0.0
