"""An output layer is a word matrix, a bias and four small hooks; the softmax overrides none."""

import torch
from torch import Tensor, nn

from course_lib.output_layers.kernel import check_targets, chunked_loss
from course_lib.output_layers.objectives import Objective
from course_lib.output_layers.scratch import FRESH, BlockScratch


class OutputLayer(nn.Module):
    """P(y | h) over the rows of a word matrix.

    A variant overrides what it changes:

    * `contexts(hidden)` → contexts (…, K, d) and log-weights (…, K) or None: one context for a
      softmax, K for a mixture;
    * `transform(logits, *parameters)`, with `transform_parameters()`: an elementwise monotone
      function of the logits, or None;
    * `target_offset(contexts, target)` → (n, K) added to the target's logit in training, or None;
    * `gate(gradient, target)`: the logits' gradient as the word matrix's rows receive it, or None.

    Loss (`forward`) and probabilities (`log_prob`) follow from them. Variants combine by
    inheritance, left before right: `class Mine(Adversarial, MixtureOfSoftmaxes)`.
    """

    transform = None
    gate = None

    def __init__(self, words: nn.Module, hidden_size: int | None = None, bias: bool = True):
        """`words`: a word matrix of N rows of size d; `bias`: one number a word.

        `hidden_size`: what the encoder hands over, d if None. Only a layer that maps hidden
        states to contexts takes another size; ValueError if this one does not.
        """
        super().__init__()
        self.words = words
        self.hidden_size = hidden_size or words.shape[1]
        if type(self).contexts is OutputLayer.contexts and self.hidden_size != words.shape[1]:
            raise ValueError(
                f"the encoder makes contexts of {hidden_size} numbers, the words {words.shape[1]}"
            )
        self.bias = nn.Parameter(torch.zeros(words.shape[0])) if bias else None
        self.scratch = BlockScratch()

    def contexts(self, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """hidden (…, d) → contexts (…, K, d), log-weights (…, K) or None."""
        return hidden.unsqueeze(-2), None

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
        """hidden (T, B, h), target (T, B) → loss and its cross-entropy part in nats.

        Any leading shape will do; the first of two is taken for time, along which a mixture's
        dropout mask stays the same. See the kernel for objectives and reductions.
        """
        shape, target = target.shape, target.flatten()
        check_targets(target, self.words.shape[0])
        contexts, log_weights = self.contexts(hidden)
        contexts = contexts.flatten(0, -3)
        x, matrix = self.words.factors(contexts)
        loss, nll = chunked_loss(
            x,
            matrix,
            target,
            bias=self.bias,
            log_weights=None if log_weights is None else log_weights.flatten(0, -2),
            offset=self.target_offset(contexts, target.clamp(min=0)) if self.training else None,
            transform=self.transform,
            parameters=self.transform_parameters(),
            objective=objective,
            soft=soft,
            gate=self.gate if self.training else None,
            reduction=reduction,
            scratch=self.scratch,
        )
        return (loss.view(shape), nll.view(shape)) if reduction == "none" else (loss, nll)

    def logits(self, hidden: Tensor, target: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """hidden (…, h) → logits (…, K, N), log-weights (…, K) or None.

        Given the targets (…) of hidden (n, h), with what training adds to their logits.
        """
        contexts, log_weights = self.contexts(hidden)
        x, matrix = self.words.factors(contexts)
        logits = x @ matrix.T
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # as in the kernel
        logits = logits if self.bias is None else logits + self.bias
        offset = None if target is None else self.target_offset(contexts, target)
        if offset is not None:
            at = target[:, None, None].expand(*offset.shape, 1)
            logits = logits.scatter_add(-1, at, offset.unsqueeze(-1).to(logits))
        if self.transform is not None:
            logits = self.transform(logits, *self.transform_parameters(), scratch=FRESH)
        return logits, log_weights

    def log_prob(self, hidden: Tensor) -> Tensor:
        """hidden (…, h) → log P (…, N), in nats; forms the whole table."""
        logits, log_weights = self.logits(hidden)
        log_prob = logits.log_softmax(-1)
        if log_weights is None:
            return log_prob.squeeze(-2)
        return torch.logsumexp(log_weights[..., None] + log_prob, dim=-2)


class Softmax(OutputLayer):
    """P(y | h) = exp(w_yᵀh + b_y) / Σ_j exp(w_jᵀh + b_j)."""
