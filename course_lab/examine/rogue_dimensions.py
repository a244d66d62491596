"""A few rogue dimensions: coordinates that hold far more of the energy than chance explains."""

import numpy as np
import torch
from scipy.special import gammaln
from scipy.stats import beta
from torch import Tensor

from course_lab.examine.findings import NAMED, Finding, directions

# At most 1 coordinate in 20 (Timkey & van Schijndel 2021 find 1 to 5 of 768), but up to three in
# small matrices. More than that is a spectrum, and belongs to low rank.
FEW = 3
FEW_SHARE = 20
CHANCE = 1e-3  # how often a cloud that is turned at random may show so rogue a set
SHOWN = 8  # coordinates in a sentence


def rogue_dimensions(rows: Tensor, stretched: float) -> tuple[Finding, list[int]]:
    """Return the finding, and the coordinates that hold far more than their 1/d of the energy.

    rows (N, d): the words. stretched: 1 if their common direction is a cone's axis, which is no
    rogue dimension and is taken out first; 0 if it is a drift.

    Sets of coordinates that stand out are taken away one after the other until none remains; if
    that takes more than a few coordinates it is a spectrum along the axes, and belongs to low rank.
    """
    unit = directions(rows)
    size = rows.shape[1]
    mean = unit.mean(0)
    moment = unit.T @ unit / len(unit) - stretched * mean[:, None] * mean
    # the sets that stand out
    others = np.arange(size)
    rogue = []
    most = max(FEW, size // FEW_SHARE)
    while len(rogue) <= most:
        index = torch.as_tensor(others, device=rows.device)
        set_apart = others[outstanding(moment[index][:, index], most)]
        if not len(set_apart):
            break
        rogue += set_apart.tolist()
        others = np.setdiff1d(others, set_apart)
    # few, and enough energy to be named
    share = moment.diagonal()
    if len(rogue) > most or share[rogue].sum() - len(rogue) / size < NAMED:
        rogue = []
    rogue = sorted(rogue, key=lambda j: -float(share[j]))
    held = float(share[rogue].sum())
    severity = max(0.0, held - len(rogue) / size)
    offset = float(mean[rogue].square().sum() / held) if rogue else 0.0
    # in words
    seen = "No few coordinates stand out."
    if rogue:
        names = ", ".join(map(str, rogue[:SHOWN])) + ("…" if len(rogue) > SHOWN else "")
        seen = (
            f"{len(rogue)} of {size} coordinates (number {names}) hold {held:.0%} of the energy, "
            f"{offset:.0%} of that as an offset common to all words."
        )
    finding = Finding(
        "rogue",
        "a few rogue dimensions",
        severity,
        seen,
        f"Each coordinate's fair share is 1/{size}. Rogue is what a cloud of the same effective "
        "rank, turned at random, would put into so few coordinates in fewer than 1 case of 1,000 "
        "(a Beta distribution).",
        "Standardise or drop these coordinates before comparing words; if they are an offset, "
        "centring is enough. In training look at weight decay and at the layer norm's gains.",
        {"coordinates": rogue, "share": held, "offset": offset},
    )
    return finding, rogue


def outstanding(moment: Tensor, most: int) -> np.ndarray:
    """Return the smallest set of coordinates, up to `most`, that chance does not explain.

    moment (d, d): second moments of the directions. The set may be empty.

    Of a cloud that fills r of d dimensions evenly and is turned at random, k given coordinates hold
    a share of the energy of mean k/d and variance 2k(d−k)(d−r) / (r d² (d−1)(d+2)), the trace of
    a corner of a random projection; a Beta distribution with these is exact for r = 1. Any k of
    them hold as much at most C(d, k) times as often. r is the participation rank (Σ λ)²/Σ λ² of
    the second moments, at most d/2, so that in a flat cloud the noise of few words is no finding.
    Each must hold half as much again as the average.
    """
    d = len(moment)
    energy = float(moment.trace())
    if d <= most or energy <= 1e-12:
        return np.arange(0)
    rank = min(energy**2 / float(moment.square().sum()), d / 2)
    # what the k largest coordinates hold
    share = moment.diagonal().cpu().numpy() / energy
    order = np.argsort(-share, kind="stable")
    k = np.arange(1, most + 1)
    held = np.cumsum(share[order])[:most]
    # how often any k hold as much by chance, in logarithms
    size = rank * (d - 1) * (d + 2) / (2 * (d - rank)) - 1  # of the Beta: its two parameters' sum
    log_sets = gammaln(d + 1) - gammaln(k + 1) - gammaln(d - k + 1)
    by_chance = log_sets + beta.logsf(held, size * k / d, size * (d - k) / d)
    sets = k[(by_chance < np.log(CHANCE)) & (share[order][:most] > 1.5 / d)]
    return order[: sets[0]] if len(sets) else np.arange(0)
