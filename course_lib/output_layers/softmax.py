"""An output layer is a word matrix, a bias and four small hooks; the softmax overrides none."""

import torch
from torch import Tensor, nn

from course_lib.output_layers.kernel import chunked_loss
from course_lib.output_layers.objectives import Objective


class OutputLayer(nn.Module):
    """P(y | h) over the rows of a word matrix.

    A variant overrides what it changes:

    * `contexts(hidden)` → contexts (n, K, d) and log-weights (n, K) or None: one context for a
      softmax, K for a mixture;
    * `transform(logits, *parameters)`, with `transform_parameters()`: an elementwise monotone
      function of the logits, or None;
    * `target_offset(contexts, target)` → (n, K) added to the target's logit in training, or None;
    * `gate(gradient, target)`: the logits' gradient as the word matrix's rows receive it, or None.

    Loss (`forward`) and probabilities (`log_prob`) follow from them.
    """

    transform = None
    gate = None

    def __init__(self, words: nn.Module, bias: bool = True):
        """`words`: a word matrix of N rows of size d; `bias`: one number a word."""
        super().__init__()
        self.words = words
        self.bias = nn.Parameter(torch.zeros(words.shape[0])) if bias else None

    def contexts(self, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """hidden (n, d) → contexts (n, K, d), log-weights (n, K) or None."""
        return hidden[:, None], None

    def target_offset(self, contexts: Tensor, target: Tensor) -> Tensor | None:
        """contexts (n, K, d), target (n,) → (n, K) or None."""
        return None

    def transform_parameters(self) -> tuple[Tensor, ...]:
        """What `transform` takes beside the logits."""
        return ()

    def forward(
        self,
        hidden: Tensor,
        target: Tensor,
        objective: Objective | None = None,
        soft: tuple[Tensor, Tensor] | None = None,
        reduction: str = "mean",
    ) -> tuple[Tensor, Tensor]:
        """hidden (…, d), target (…) → loss and its cross-entropy part in nats (see the kernel)."""
        shape = target.shape
        target = target.flatten()
        contexts, log_weights = self.contexts(hidden.flatten(0, -2))
        x, matrix = self.words.factors(contexts)
        loss, nll = chunked_loss(
            x,
            matrix,
            target,
            bias=self.bias,
            log_weights=log_weights,
            offset=self.target_offset(contexts, target) if self.training else None,
            transform=self.transform,
            parameters=self.transform_parameters(),
            objective=objective,
            soft=soft,
            gate=self.gate,
            reduction=reduction,
        )
        return (loss.view(shape), nll.view(shape)) if reduction == "none" else (loss, nll)

    def logits(self, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """hidden (…, d) → logits (…, K, N), log-weights (…, K) or None."""
        contexts, log_weights = self.contexts(hidden.reshape(-1, hidden.shape[-1]))
        x, matrix = self.words.factors(contexts)
        logits = x @ matrix.T if self.bias is None else x @ matrix.T + self.bias
        if self.transform is not None:
            logits = self.transform(logits, *self.transform_parameters())
        logits = logits.view(*hidden.shape[:-1], *logits.shape[-2:])
        return logits, None if log_weights is None else log_weights.view(logits.shape[:-1])

    def log_prob(self, hidden: Tensor) -> Tensor:
        """hidden (…, d) → log P (…, N), in nats; forms the whole table."""
        logits, log_weights = self.logits(hidden)
        log_prob = logits.log_softmax(-1)
        if log_weights is None:
            return log_prob.squeeze(-2)
        return torch.logsumexp(log_weights[..., None] + log_prob, dim=-2)


class Softmax(OutputLayer):
    """P(y | h) = exp(w_yᵀh + b_y) / Σ_j exp(w_jᵀh + b_j)."""
