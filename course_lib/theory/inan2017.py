"""inan2017, sections 3 and 4: at a high temperature the augmented loss ties the word matrices.

L_aug = KL(ỹ ‖ ŷ) with ỹ = softmax(s / τ), s = E E_y the soft target's logits, and ŷ =
softmax(l / τ), l = W h the model's. Arrays or tensors in, float64 inside.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.errors import CourseError
from course_lib.metrics.inputs import Numbers, as_matrix, double
from course_lib.ranges import Positive, checked


@checked
def augmented_gradient(logits: Numbers, soft_logits: Numbers, tau: Positive) -> Tensor:
    """Return ∂L_aug/∂l = (ŷ − ỹ) / τ, (…, N), of logits l and soft_logits s (inan2017, eq. 9).

    CourseError unless τ is above 0, towards which the gradient may grow without bound.
    """
    model, soft = ((double(x) / tau).softmax(-1) for x in (logits, soft_logits))
    return (model - soft) / tau


@checked
def matched_gradient(logits: Numbers, soft_logits: Numbers, tau: Positive) -> Tensor:
    """Return (l − s − their mean) / (N τ²), the limit of `augmented_gradient` as τ → ∞ (eq. 15).

    That is the gradient of half the mean squared difference of centred logits, over τ²: a high
    temperature makes the model match the logits of ỹ up to a constant. The relative error falls as
    1/τ. (The paper assumes the mean to be 0.)
    """
    difference = double(logits) - double(soft_logits)
    difference = difference - difference.mean(-1, keepdim=True)
    return difference / (difference.shape[-1] * tau**2)


class Tying(NamedTuple):
    """A (d, d) with W ≈ E A, and the relative residual of the least squares that it solves."""

    A: Tensor
    residual: float


def tying_map(E: Numbers, W: Numbers) -> Tying:
    """Return the linear map A (d, d) that turns the input matrix E into the output matrix, W = E A.

    Zero augmented loss at a high temperature means W h_t = E E_{y_t} for every t, and with d
    linearly independent targets that W and E have the same column space (inan2017, eq. 16, 17).
    Then W h = E (A h): the network can do A itself and share E. A is the least-squares solution,
    the residual ‖W − E A‖_F / ‖W‖_F its certificate, 0 where the spaces are the same. CourseError
    unless both have the same N and W is not 0.
    """
    E, W = as_matrix(E), as_matrix(W)
    if len(E) != len(W) or not W.any():
        shapes = f"{(*E.shape,)} and {(*W.shape,)}"
        raise CourseError(f"tying compares rows of the same words, not all 0, got {shapes}")
    A = torch.linalg.lstsq(E.cpu(), W.cpu(), driver="gelsd").solution
    return Tying(A, float((W.cpu() - E.cpu() @ A).norm() / W.norm()))


def zero_loss_map(E: Numbers, H: Numbers, targets: Numbers) -> Tying:
    """Return the A of W = E A with zero augmented loss at a high temperature: W h_t = E E_{y_t}.

    E (N, d), contexts H (M, d), targets (M,) ids. A = argmin Σ_t ‖A h_t − E_{y_t}‖²; the residual,
    relative to ‖E_y‖_F, is 0 where a linear map takes every context to its target's vector, so that
    zero loss can be reached at all (inan2017, section 4, whose assumption this is).
    CourseError unless each context has a target that is a row of E: leave out those of −100.
    """
    E, H = double(E).detach().cpu(), double(H).detach().cpu()
    targets = torch.as_tensor(targets).cpu()
    if len(targets) != len(H) or ((targets < 0) | (targets >= len(E))).any():
        raise CourseError(f"{len(H)} contexts need as many words below {len(E)}; leave out others")
    wanted = E[targets]
    A = torch.linalg.lstsq(H, wanted, driver="gelsd").solution.T
    return Tying(A, float((H @ A.T - wanted).norm() / wanted.norm()))
