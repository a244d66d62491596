"""The continuous cache: words of the recent past become likelier (Grave et al. 2017)."""

from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from course_lib.evaluation.perplexity import best_first, evaluating, scored
from course_lib.models import LanguageModel
from course_lib.ranges import Count, Share, checked


class Predictions(NamedTuple):
    """How a model predicted each token of a split (L,), in order."""

    log_prob: Tensor  # (L,), of the token that came
    hidden: Tensor  # (L, d), the context that it was predicted from
    target: Tensor  # (L,), the token


@torch.no_grad()
def predictions(model: LanguageModel, tokens: Tensor, eos: int, length: int = 512) -> Predictions:
    """Return what a model makes of a split in one pass at batch 1, state carried.

    model: a language model.
    tokens: the split, (L,); its first token is predicted from eos.
    eos: the id of the line end.
    length: how many tokens go through the encoder at once.
    """
    with evaluating(model):
        parts = zip(*scored(model, tokens, eos, length), strict=True)
        nll, hidden, target = map(torch.cat, parts)
    return Predictions(-nll, hidden, target)


@checked
@torch.no_grad()
def cache_probability(
    predictions: Predictions, window: Count, theta: float, block: Count = 128
) -> Tensor:
    """Return p_cache(y_t) (L,): the weight of those contexts before h_t that y_t followed, too.

        p_cache(y_t) = Σ_i [y_i = y_t] exp(θ h_tᵀh_i) / Σ_i exp(θ h_tᵀh_i),  t − window ≤ i < t

    predictions: of the split, as `predictions` returns them.
    window, theta: how many contexts before count, and θ.
    block: positions of one product with the contexts before; it costs 2 L (window + block) d.

    It is 0 at t = 0, where nothing has been seen. Before the window is full it holds what there is,
    as in the formula; the released code has the model alone until then.
    """
    target = predictions.target
    hidden = predictions.hidden
    if hidden.dtype != torch.float64:
        hidden = hidden.float()
    probability = hidden.new_zeros(len(target))
    outside = torch.empty(0, 0)
    for start in range(0, len(target), block):
        first = max(0, start - window)
        stop = min(start + block, len(target))
        scores = theta * hidden[start:stop] @ hidden[first:stop].T
        if scores.shape != outside.shape:  # blocks that see a whole window share one band
            before = start - first
            band = torch.ones_like(scores, dtype=torch.bool)
            outside = ~band.tril_(before - 1).triu_(before - window)
        attention = scores.masked_fill_(outside, -torch.inf).softmax(-1)
        other = target[start:stop, None] != target[first:stop]
        probability[start:stop] = attention.masked_fill_(other, 0).sum(-1)
    probability[:1] = 0
    return probability


@checked
def mixed_perplexity(predictions: Predictions, cached: Tensor, weight: Share) -> float:
    """Return exp(mean −log((1−λ) p_model + λ p_cache)), λ = `weight`.

    The first token, before which nothing has been seen, has p_model alone.
    """
    shares = torch.full_like(cached, weight).double()
    shares[:1] = 0
    model = torch.log1p(-shares) + predictions.log_prob.double()
    return (-torch.logaddexp(model, (shares * cached.double()).log()).mean()).exp().item()


def search(predictions: Predictions, windows, thetas, weights) -> list[dict]:
    """Return the perplexity of every combination of settings, best first.

    windows, thetas, weights: the settings that `cache_probability` and `mixed_perplexity` take.
    """
    rows = []
    weights = list(weights)  # each combination of the others goes through all of them
    for window, theta in product(windows, thetas):
        cached = cache_probability(predictions, window, theta)
        for weight in weights:
            value = mixed_perplexity(predictions, cached, weight)
            rows.append({"window": window, "theta": theta, "weight": weight, "perplexity": value})
    return best_first(rows)
