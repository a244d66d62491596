"""Repairs of a trained word matrix: the common direction taken out after the fact.

The functions take W (N, d), one word a row, compute in float64 and return a new tensor of W's type,
without gradient. They raise ValueError if W is not a matrix of finite floating-point numbers.
"""

import torch
from torch import Tensor


@torch.no_grad()
def centred(W: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return W minus its mean row, or minus the mean weighted by `weights` (N,), such as counts.

    As an output matrix W predicts as before: every logit of a context h falls by the same μᵀh, and
    neither a softmax nor a mixture's component sees a common shift. The probabilities do change
    where an elementwise transform follows the logits, where an offset depends on the rows' norms,
    where clusters have logits that stay, as in an adaptive softmax, and where a tied model also
    reads with W: give such a model a matrix of its own to read with.
    Naive: `W - W.mean(0)`.
    Raises ValueError for weights that are not N numbers of at least 0 with a finite sum above 0.
    """
    rows = _rows(W)
    if weights is None:
        return (rows - rows.mean(0)).to(W.dtype)
    weights = torch.as_tensor(weights, dtype=torch.float64, device=W.device)
    total = weights.sum()
    if weights.shape != W.shape[:1] or (weights < 0).any() or not 0 < total < torch.inf:
        raise ValueError(f"weights must be {len(W)} numbers of at least 0, not all of them 0")
    return (rows - (weights @ rows) / total).to(W.dtype)


@torch.no_grad()
def all_but_the_top(W: Tensor, components: int | None = None) -> Tensor:
    """Return W minus its mean row and its first D principal components.

    components: D; the default is the paper's d / 100, rounded, at least 1; 0 only centres.
    The other components keep their directions and variances. Unlike centring this changes the
    probabilities: it is a repair for similarities of words.
    Naive: `C = W - W.mean(0); A = torch.linalg.svd(C).Vh[:D]; C - C @ A.T @ A`.
    Source: Mu & Viswanath 2018, algorithm 1.
    Raises ValueError if D is not between 0 and d.
    """
    rows = _rows(W)
    size = W.shape[1]
    if components is None:
        components = max(1, round(size / 100))
    if not 0 <= components <= size:
        raise ValueError(f"components must be between 0 and d = {size}, not {components}")
    rows = rows - rows.mean(0)
    axes = torch.linalg.eigh(rows.T @ rows).eigenvectors[:, size - components :]
    return (rows - (rows @ axes) @ axes.T).to(W.dtype)


def _rows(W: Tensor) -> Tensor:
    if W.dim() != 2 or not len(W) or not W.is_floating_point():
        raise ValueError(f"W must be a floating-point matrix (N, d), not {W.dtype} {(*W.shape,)}")
    if not W.isfinite().all():
        raise ValueError("W holds numbers that are not finite")
    return W.double()
