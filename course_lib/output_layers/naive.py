"""The plain PyTorch form of every output layer, with each logit in one tensor.

The forms follow the papers' formulas on whole tables, without the kernel. No hook of a layer is
called but `logit_bias`; `gated` asks for the gates, too, and counts the targets as the layer does.
Tests compare the layers with them, benchmarks time them, and a reader may train with them:
`layer.reference(hidden, target)` in the place of `layer(hidden, target)[0]`.

A form takes a layer, hidden states (n, h) and, as in training, their targets (n,) or None. Targets
of `IGNORE` have a row like all others, which does not count.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.errors import CourseError, unknown
from course_lib.output_layers.products import type_of_sums
from course_lib.targets import IGNORE


class Table(NamedTuple):
    """The table of log P that a plain form makes, and its logits."""

    log_prob: Tensor  # (n, N)
    logits: Tensor  # (n, K, N'), whose normalisers the z-loss regularises


def loss(layer: Any, hidden: Tensor, target: Tensor) -> Tensor:
    """Return the mean cross-entropy of the counted targets; NaN where none counts.

    layer: one of the classes in `NAIVE`; hidden: (n, h); target: (n,), `IGNORE` allowed.
    """
    log_prob = table(layer, hidden, target if layer.training else None).log_prob
    return F.nll_loss(log_prob, target, ignore_index=IGNORE)


def table(layer: Any, hidden: Tensor, target: Tensor | None = None) -> Table:
    """Return the table of a layer by its plain form.

    layer: one of the classes in `NAIVE`; hidden: (n, h); target: (n,), given in training.
    Raises CourseError for a layer without a form: a subclass may compute something else.
    """
    name = type(layer).__name__
    if "transform" in vars(layer):
        raise CourseError("a layer whose logits `attach` scales or caps has no plain form")
    if name not in NAIVE:
        raise unknown("plain form of the output layer", name, NAIVE)
    return NAIVE[name](layer, hidden, target)


def of_logits(logits: Tensor) -> Table:
    """Return the softmax of logits (n, N)."""
    return Table(logits.log_softmax(-1), logits[:, None])


def plain_logits(layer: Any, contexts: Tensor) -> Tensor:
    """Return W h + b (…, N) of contexts (…, d)."""
    return F.linear(contexts, layer.words.matrix(), layer.logit_bias())


def perturbed(layer: Any, contexts: Tensor, target: Tensor | None) -> Tensor:
    """Return the logits of an adversarial layer: in training W h + b − ε ‖h‖ onehot(y).

    layer: an `Adversarial` one; contexts: (n, d) or (n, K, d); target: (n,) or None.
    Raises CourseError for a layer whose perturbation is drawn at random.
    """
    logits = plain_logits(layer, contexts)
    return logits if target is None else logits - margin(layer, contexts, target)


def margin(layer: Any, contexts: Tensor, target: Tensor) -> Tensor:
    """Return ε ‖h‖ onehot(y) (n, …, N), differentiated as the layer does."""
    if layer.random:
        raise CourseError("a perturbation in a random direction has no plain form to compare with")
    words = layer.words.matrix()
    target = target.clamp(min=0)
    h = contexts.detach() if layer.gradient == "none" else contexts
    rows = words[target] if layer.gradient == "full" else words[target].detach()
    per_row = (-1,) + (1,) * (contexts.dim() - 2)
    epsilon = layer.alpha * rows.norm(dim=-1) if layer.epsilon is None else layer.epsilon
    size = h.norm(dim=-1)
    size = size * (epsilon.view(per_row) if torch.is_tensor(epsilon) else epsilon)
    if layer.gated:  # only targets with cos(h, w_y) > 0 are perturbed
        size = size * (torch.einsum("n...d,nd->n...", contexts, words[target]) > 0)
    onehot = F.one_hot(target, len(words)).view(*per_row, len(words))
    return size[..., None] * onehot


def softmax(layer: Any, hidden: Tensor, target: Tensor | None) -> Table:
    return of_logits(plain_logits(layer, hidden))


def adversarial(layer: Any, hidden: Tensor, target: Tensor | None) -> Table:
    return of_logits(perturbed(layer, hidden, target))


def sigsoftmax(layer: Any, hidden: Tensor, target: Tensor | None) -> Table:
    x = plain_logits(layer, hidden)
    return of_logits(x + F.logsigmoid(x))


def generalized_sigsoftmax(layer: Any, hidden: Tensor, target: Tensor | None) -> Table:
    x = plain_logits(layer, hidden)
    return of_logits(x - (layer.k - 1) * F.softplus(layer.c - x, threshold=40))


def soft_capped(layer: Any, hidden: Tensor, target: Tensor | None) -> Table:
    x = plain_logits(layer, hidden)
    return of_logits(layer.cap * torch.tanh((x + layer.shift) / layer.width))


def piecewise_linear(layer: Any, hidden: Tensor, target: Tensor | None) -> Table:
    x = plain_logits(layer, hidden)
    x = x.to(type_of_sums(x))
    slopes = F.softplus(layer.free_slopes)
    width = (layer.high - layer.low) / len(slopes)
    i = ((x - layer.low) / width).long().clamp(0, len(slopes) - 1)
    start = layer.low + width * i.to(x)
    before = width * (slopes.cumsum(0) - slopes)
    return of_logits((x - start) * slopes[i] + before[i])


def components(layer: Any, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Return h_k = tanh(U_k h + c_k) (n, K, d) and π = softmax(Q h) (n, K).

    Raises CourseError in training with dropout, whose masks are drawn at random.
    """
    if layer.training and layer.dropout:
        raise CourseError("a mixture with dropout has no plain form in training; set dropout to 0")
    latent = layer.latent(hidden).tanh().view(len(hidden), layer.components, -1)
    return latent, layer.prior(hidden).softmax(-1)


def mixture_of_softmaxes(layer: Any, hidden: Tensor, target: Tensor | None) -> Table:
    latent, weights = components(layer, hidden)
    return _mixed(plain_logits(layer, latent), weights)


def adversarial_mixture(layer: Any, hidden: Tensor, target: Tensor | None) -> Table:
    latent, weights = components(layer, hidden)
    return _mixed(perturbed(layer, latent, target), weights)


def _mixed(logits: Tensor, weights: Tensor) -> Table:
    """Log Σ_k π_k softmax(l_k), of logits (n, K, N) and weights (n, K)."""
    prob = (logits.softmax(-1) * weights[..., None]).sum(1)
    prob = prob.to(type_of_sums(prob))
    return Table(prob.log(), logits)


def mixture_of_contexts(layer: Any, hidden: Tensor, target: Tensor | None) -> Table:
    latent, weights = components(layer, hidden)
    return of_logits(plain_logits(layer, (latent * weights[..., None]).sum(1)))


def adaptive(layer: Any, hidden: Tensor, target: Tensor | None) -> Table:
    return clusters(layer, hidden, plain_logits(layer, hidden))


def clusters(layer: Any, hidden: Tensor, logits: Tensor) -> Table:
    """Return a head over the first words and the clusters, and a softmax within each cluster."""
    first = layer.edges[1]
    head = torch.cat([logits[:, :first], layer.clusters(hidden).to(logits)], 1)
    log_head = head.log_softmax(-1)
    pieces = [log_head[:, :first]]
    for c, (low, high) in enumerate(zip(layer.edges[1:], layer.edges[2:], strict=False)):
        pieces.append(log_head[:, first + c, None] + logits[:, low:high].log_softmax(-1))
    return Table(torch.cat(pieces, 1), head[:, None])


def gated(layer: Any, hidden: Tensor, target: Tensor | None) -> Table:
    """Return the softmax's table, and count the targets; gates alone lead to the words' rows."""
    if target is None:
        return softmax(layer, hidden, target)
    with torch.no_grad():
        layer.count(target)
        rare, to_rare, among_rare = layer.gates()
        target = target.clamp(min=0)
        gate = torch.where(rare[target][:, None], among_rare, to_rare)
        gate.scatter_(1, target[:, None], 1.0)
    x, rows = layer.words.factors(hidden)
    logits = F.linear(x, rows.detach(), layer.bias)
    to_rows = gate * F.linear(x.detach(), rows)
    return of_logits(logits + to_rows - to_rows.detach())


# The form of every layer by the name of its class. The file of a new layer enters its own form.
NAIVE = {
    "Softmax": softmax,
    "AdversarialSoftmax": adversarial,
    "GeneralizedSigSoftmax": generalized_sigsoftmax,
    "SigSoftmax": sigsoftmax,
    "PiecewiseLinearSoftmax": piecewise_linear,
    "SoftCappedSoftmax": soft_capped,
    "MixtureOfSoftmaxes": mixture_of_softmaxes,
    "MixtureOfContexts": mixture_of_contexts,
    "AdversarialMixtureOfSoftmaxes": adversarial_mixture,
    "AdaptiveSoftmax": adaptive,
    "GatedSoftmax": gated,
}
