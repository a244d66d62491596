"""The measures of a word matrix with every word as often as it occurs.

A mean over the vocabulary is a mean over words that hardly ever occur. Here each word has the
weight p of its share of the tokens, in the mean row, in the second moments, and in the pairs (Yokoi
et al. 2024, whose whitening by frequency rests on the same moments).

All words count, however many there are: the matrix is gone through in blocks of rows. Only the
measures of single pairs are of pairs that are drawn by p.
"""

import numpy as np
import torch
from torch import Tensor

from course_lab.examine.blocks import blocks, moments
from course_lab.examine.measures import PAIRED, SEED, drawn
from course_lib.metrics import geometry, inputs, rank

BY = ", by frequency"
PAIRS = 1 << 16  # drawn: a share among them is known to 0.002


def weighted_measures(W: Tensor, counts: np.ndarray) -> dict[str, float]:
    """Return the geometric measures of W (N, d) under p = counts / their sum, by name.

    The mean cosine is that of two different words drawn by p. The singular values are those of
    √p W, and for IsoScore of √p (W − m) with m the mean under p. The isotropy is that of
    Z(a) = Σ p exp(wᵀa) along the axes of these. None where no word has a count.
    """
    if not counts.sum() > 0:
        return {}
    p = torch.as_tensor(counts / counts.sum())
    mean, moment = moments(W, p)
    energy = float(moment.trace())
    scale = energy**0.5
    # cosines: what each coordinate contributes to their mean
    together = torch.zeros_like(mean)
    same = torch.zeros_like(mean)
    norm = 0.0
    for part, rows in blocks(W):
        unit = inputs.unit_rows(rows)
        together += p[part] @ unit
        same += p[part].square() @ unit.square()
        norm += float(p[part] @ rows.norm(dim=1))
    apart = 1 - float(p.square().sum())
    by_dimension = (together.square() - same) / apart if apart > 0 else torch.zeros_like(mean)
    figures = {
        "mean cosine": float(by_dimension.sum()),
        "largest part of one dimension in the mean cosine": float(by_dimension.max()),
    }
    # lengths
    figures["share of the mean vector"] = float(mean.square().sum()) / energy if energy else 0.0
    figures["root mean square norm"] = scale
    figures["mean norm"] = norm
    # moments
    values, axes = torch.linalg.eigh(moment)
    sigma = values.flip(0).clamp_min(0).sqrt().numpy()
    if sigma[0] > 0:
        figures["σ₂/σ₁"] = float(sigma[1] / sigma[0])
        figures["stable rank"] = geometry.stable_rank(sigma)
        figures["rank for 99 % of the energy"] = rank.effective_rank(sigma, 0.01)
    spread = torch.linalg.eigvalsh(moment - torch.outer(mean, mean)).flip(0).clamp_min(0).sqrt()
    if spread[0] > 0:
        size = W.shape[1]
        figures["IsoScore"] = (geometry.participation_rank(spread.numpy()) - 1) / (size - 1)
    # isotropy
    log_z = torch.full((2, W.shape[1]), -torch.inf, dtype=torch.float64)
    for part, rows in blocks(W):
        along = rows @ axes
        log_p = p[part, None].log()
        more = torch.stack([(along + log_p).logsumexp(0), (log_p - along).logsumexp(0)])
        log_z = torch.logaddexp(log_z, more)
    z = torch.exp(log_z - log_z.max())
    figures["isotropy I₁"] = float(z.min())
    figures["isotropy I₂"] = float(z.std(correction=0) / z.mean())
    figures |= _of_pairs(W, p.numpy(), scale)
    return {f"{name}{BY}": value for name, value in figures.items()}


def _of_pairs(W: Tensor, p: np.ndarray, scale: float) -> dict[str, float]:
    """Return the share of positive cosines and the distance to the nearest word, of drawn words.

    W: (N, d). p: (N,), how often a word is drawn. scale: the unit of length. The nearest word is
    sought among the same words as in the measure that counts every word once.
    """
    random = np.random.default_rng(SEED)
    figures = {}
    # the angle of two different words
    pairs = torch.from_numpy(random.choice(len(W), (PAIRS, 2), p=p))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    if len(pairs):
        positive = 0
        for some in pairs.split(inputs.rows_at_once(2 * W.shape[1])):
            first, second = W[some].double().unbind(1)
            positive += int(((first * second).sum(1) > 0).sum())
        figures["positive pairs"] = positive / len(pairs)
    # the way to the nearest word
    if scale:
        tokens, times = np.unique(random.choice(len(W), PAIRED, p=p), return_counts=True)
        others = drawn(len(W))
        apart = torch.cdist(W[tokens].double(), W[others].double())
        apart[torch.from_numpy(tokens[:, None] == others)] = torch.inf
        nearest = apart.min(1).values.numpy().repeat(times)
        figures["distance to the nearest word"] = float(np.median(nearest)) / scale
    return figures
