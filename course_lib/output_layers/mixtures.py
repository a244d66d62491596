"""Mixtures: several contexts for each position (Yang et al. 2018; parthiban2021, section 2)."""

import torch
from torch import Tensor, nn

from course_lib.output_layers.softmax import OutputLayer


class MixtureOfSoftmaxes(OutputLayer):
    """P(y | h) = Σ_k π_k softmax(W h_k + b)_y, π = softmax(Q h), h_k = tanh(U_k h + c_k).

    Its log-probabilities are not bound to rank d + 1. Everything stays in logarithms:

        log P = logsumexp_k(log π_k + log_softmax(W h_k + b))

    where the released codes take log(Σ …), one of them with 1e-8 added, which changes the
    perplexity. K = `components`.
    """

    def __init__(
        self,
        words,
        hidden_size: int | None = None,
        bias: bool = True,
        components: int = 15,
        dropout: float = 0.0,
    ):
        """`dropout`: share of the contexts' entries dropped, one mask a sequence ("latent")."""
        super().__init__(words, hidden_size, bias)
        self.components, self.dropout = components, dropout
        self.prior = nn.Linear(self.hidden_size, components, bias=False)
        self.latent = nn.Linear(self.hidden_size, components * words.shape[1])

    def contexts(self, hidden):
        """hidden (T, …, h) → h_k (T, …, K, d), log π (T, …, K)."""
        latent = self.latent(hidden).tanh_()
        if self.training and self.dropout:
            keep = 1 - self.dropout
            latent = latent * torch.empty_like(latent[:1]).bernoulli_(keep).div_(keep)
        log_weights = self.prior(hidden).log_softmax(-1, torch.promote_types(hidden.dtype, _WIDE))
        return latent.unflatten(-1, (self.components, -1)), log_weights


_WIDE = torch.float32


class MixtureOfContexts(MixtureOfSoftmaxes):
    """One softmax of the mixed context Σ_k π_k h_k: a mixture's parameters with a softmax' rank."""

    def contexts(self, hidden):
        """hidden (T, …, h) → Σ_k π_k h_k (T, …, 1, d), None."""
        latent, log_weights = super().contexts(hidden)
        return _mix(log_weights.exp(), latent), None


def _mix(weights: Tensor, latent: Tensor) -> Tensor:
    """weights (…, K), latent (…, K, d) → (…, 1, d)."""
    return weights.to(latent.dtype).unsqueeze(-2) @ latent
