"""The gradient that does not come through the output layer.

The loss has a gradient g with N numbers at the logits, and hands Wᵀg, d numbers, to the network.
What of g is orthogonal to the d columns of W leaves no trace there (Godey & Artzi 2026, who find
95 to 99 % of the norm lost in language models). A random matrix of the same shape keeps d/N of the
squared norm on average, whatever g is.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from course_lab.examine.blocks import blocks, moments
from course_lib.metrics.inputs import as_matrix


class Lost(NamedTuple):
    """The share of the gradient that is lost, of its squared norm and of its norm, and by chance.

    norm: the mean of 1 − ‖Pg‖/‖g‖ over positions; None where no positions are at hand. chance: the
    share of the squared norm that a random matrix of the same shape loses, 1 − r/N with rank r.
    """

    squared: float
    norm: float | None
    chance: float

    @classmethod
    def mean(cls, parts: list[tuple["Lost", int]]) -> "Lost":
        """Return the mean over parts of a text, each with its number of positions."""
        numbers = np.array([lost for lost, _ in parts], float)
        return cls(*np.average(numbers, axis=0, weights=[n for _, n in parts]).tolist())


def column_space(W) -> Tensor:
    """Return an orthonormal basis (N, r) of the span of W's columns (N, d), in float64."""
    rows = as_matrix(W)
    return rows @ to_basis(rows)


def to_basis(W: Tensor) -> Tensor:
    """Return the matrix (d, r) that makes W's columns (N, d) an orthonormal basis of their span.

    Directions with singular values below 1e-7 of the largest, which squaring hides, do not count.
    """
    squares, axes = torch.linalg.eigh(moments(W)[1])
    solid = squares > 1e-14 * squares[-1]
    return axes[:, solid] / (len(W) * squares[solid]).sqrt()


def lost_at_the_start(W: Tensor, counts: np.ndarray) -> Lost:
    """Return what is lost of a model that knows nothing yet but how often each word occurs.

    W: (N, d), the output matrix. counts: (N,), in training.

    With p = counts / their sum, the model predicts p everywhere, and the word y ~ p comes:
    g = p − e_y. Of the mean over y of ‖Pg‖², with P the projection on W's columns,
    Σ p_y P_yy − pᵀPp is kept, of 1 − Σ p².
    """
    factor = to_basis(W)
    p = torch.as_tensor(counts / counts.sum(), dtype=torch.float64)
    alone = 0.0  # Σ p_y P_yy
    together = torch.zeros(factor.shape[1], dtype=torch.float64)
    for part, rows in blocks(W):
        basis = rows @ factor
        alone += float(p[part] @ basis.square().sum(1))
        together += p[part] @ basis
    kept = alone - float(together.square().sum())
    whole = float(1 - p.square().sum())
    return Lost(1 - kept / whole if whole > 0 else 0.0, None, 1 - factor.shape[1] / len(W))


def lost_in_a_text(basis: Tensor, log_prob: Tensor, target: Tensor) -> Lost:
    """Return what is lost of the cross entropy's gradient, softmax − e_y, over a text's positions.

    basis: (N, r), the `column_space` of W. log_prob: (T, N). target: (T,), the words that came.
    """
    # the mean over positions, each of which counts alike
    g = log_prob.double().exp()
    g[torch.arange(len(g)), target] -= 1
    kept = (g @ basis).square().sum(1)
    whole = g.square().sum(1)
    return Lost(
        1 - float((kept / whole).mean()),
        float((1 - (kept / whole).clamp_max(1).sqrt()).mean()),
        1 - basis.shape[1] / len(basis),
    )
