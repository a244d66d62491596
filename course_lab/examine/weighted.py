"""The measures of a word matrix with every word as often as it occurs.

A mean over the vocabulary is a mean over words that hardly ever occur. Here each word has the
weight p of its share of the tokens, in the mean row, in the second moments, and in the pairs (Yokoi
et al. 2024, whose whitening by frequency rests on the same moments).
"""

import numpy as np
import torch
from torch import Tensor

from course_lib.metrics import geometry, inputs

BY = ", by frequency"


def weighted_measures(W: Tensor, counts: np.ndarray) -> dict[str, float]:
    """Return the geometric measures of W (N, d) under p = counts / their sum, by name.

    The mean cosine is that of two different words drawn by p. The singular values are those of
    √p W, and for IsoScore of √p (W − m) with m the mean under p. The isotropy is that of
    Z(a) = Σ p exp(wᵀa) along the axes of these. None where no word has a count.
    """
    if not counts.sum() > 0:
        return {}
    rows = inputs.as_matrix(W)
    p = torch.as_tensor(counts / counts.sum())
    unit = inputs.unit_rows(rows)
    # cosines
    together = float((p @ unit).square().sum())
    same = float(p.square() @ unit.square().sum(1))
    alone = float(p.square().sum())
    figures = {"mean cosine": (together - same) / (1 - alone) if alone < 1 else 0.0}
    # lengths
    energy = float(p @ rows.square().sum(1))
    mean = p @ rows
    figures["share of the mean vector"] = float(mean.square().sum()) / energy if energy else 0.0
    figures["root mean square norm"] = energy**0.5
    # moments
    moment = rows.T @ (p[:, None] * rows)
    values, axes = torch.linalg.eigh(moment)
    sigma = values.flip(0).clamp_min(0).sqrt().numpy()
    if sigma[0] > 0:
        figures["σ₂/σ₁"] = float(sigma[1] / sigma[0])
        figures["stable rank"] = geometry.stable_rank(sigma)
    spread = torch.linalg.eigvalsh(moment - torch.outer(mean, mean)).flip(0).clamp_min(0).sqrt()
    if spread[0] > 0:
        size = rows.shape[1]
        figures["IsoScore"] = (geometry.participation_rank(spread.numpy()) - 1) / (size - 1)
    # isotropy
    log_p = p.log()[:, None]
    log_z = []
    for some in axes.split(inputs.rows_at_once(len(rows)), dim=1):
        along = rows @ some
        log_z += [(sign + log_p).logsumexp(0) for sign in (along, -along)]
    log_z = torch.cat(log_z)
    z = torch.exp(log_z - log_z.max())
    figures["isotropy I₁"] = float(z.min())
    figures["isotropy I₂"] = float(z.std(correction=0) / z.mean())
    return {f"{name}{BY}": value for name, value in figures.items()}
