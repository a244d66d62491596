"""An output layer is a word matrix, a bias and a few small hooks; the softmax overrides none."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.first_order import first_order
from course_lib.output_layers import naive
from course_lib.output_layers.kernel import check_targets, chunked_loss
from course_lib.output_layers.objectives import Objective
from course_lib.output_layers.products import product_type, type_of_sums
from course_lib.output_layers.scratch import FRESH, BlockScratch
from course_lib.output_layers.words import Words
from course_lib.ranges import Count, checked


class OutputLayer(nn.Module):
    """P(y | h) over the rows of a word matrix.

    A variant overrides what it changes:

    * the methods `contexts`, `logit_bias` and `target_offset`;
    * `transform(logits, *parameters, scratch=…)`, with `transform_parameters()`: an elementwise
      function of the logits, or None, with memory from `scratch`; `formula(logits, *parameters)`
      is the same in plain PyTorch, which a GPU may compile;
    * `gate(gradient, target)`: the logits' gradient as the word matrix's rows receive it, or None.

    Loss (`forward`), probabilities (`log_prob`) and means (`expectation`) follow from them.
    Variants combine by inheritance, left before right: `class Mine(Adversarial,
    MixtureOfSoftmaxes)`. Each hands the arguments that are not its own to the next. An adaptive
    softmax takes one context a position.
    """

    transform: Callable[..., Tensor] | None = None
    formula: Callable[..., Tensor] | None = None
    gate: Callable[..., Tensor] | None = None
    maps_hidden = False  # whether `contexts` takes hidden states of another size than the words'
    requires: frozenset[str] = frozenset()  # of the corpus, as words sorted "by_frequency"

    @checked
    def __init__(self, words: Words, hidden_size: Count | None = None, bias: bool = True):
        """Make the layer over a word matrix.

        words: the matrix, N rows of size d, see `words`;
        hidden_size: the size of the hidden states, d if None; another only where `maps_hidden`;
        bias: whether each word has one number that is added to its logit.
        Raises ValueError for a size that the layer does not take, or for what is no word matrix.
        """
        super().__init__()
        if not (isinstance(words, nn.Module) and hasattr(words, "factors")):
            raise ValueError(
                f"{type(words).__name__} is no word matrix; FullWords.of(embedding.weight) is one"
            )
        self.words = words
        self.hidden_size = hidden_size or words.shape[1]
        if not self.maps_hidden and self.hidden_size != words.shape[1]:
            raise ValueError(
                f"the encoder makes contexts of {hidden_size} numbers, the words {words.shape[1]}"
            )
        self.bias = nn.Parameter(torch.zeros(words.shape[0])) if bias else None
        self.scratch = BlockScratch()

    def contexts(self, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return contexts (…, K, d) and log-weights (…, K), or None, of hidden states (…, h).

        One context for a softmax, K for a mixture.
        """
        return hidden.unsqueeze(-2), None

    def logit_bias(self) -> Tensor | None:
        """Return what is added to the logits of every position: (N,) or None.

        A word of −∞ is forbidden. A transform may make NaN of −∞, so it gets −1e30, whose P is 0.
        """
        bias = self.bias
        return bias if bias is None or self.transform is None else bias.clamp(min=-1e30)

    def target_offset(self, contexts: Tensor, target: Tensor) -> Tensor | None:
        """Return what training adds to the target's logit: (n, K) or None.

        contexts: (n, K, d); target: (n,).
        """
        return None

    def transform_parameters(self) -> tuple[Tensor, ...]:
        """Return what `transform` takes beside the logits."""
        return ()

    def forward(
        self,
        hidden: Tensor,
        target: Tensor,
        objective: Objective | None = None,
        soft: tuple[Tensor, Tensor] | None = None,
        reduction: str = "mean",
    ) -> tuple[Tensor, Tensor]:
        """Return the loss and its cross-entropy part, in nats.

        hidden: (T, B, h), or another leading shape of one dimension or more; the first is taken for
        time, along which a mixture's dropout mask stays the same;
        target: (T, B), `IGNORE` where a position does not count;
        objective, soft, reduction: as in `chunked_loss`, but "none" gives the target's shape.
        """
        check_targets(target, hidden.shape[:-1], self.words.shape[0])
        shape = target.shape
        target = target.flatten()
        contexts, log_weights = self.contexts(hidden)
        contexts = contexts.flatten(0, -3)
        log_weights = None if log_weights is None else log_weights.flatten(0, -2)
        gate = self.gate if self.training else None
        options = {"log_weights": log_weights, "objective": objective, "soft": soft, "gate": gate}
        loss, nll = self.blocked_loss(contexts, target, reduction=reduction, **options)
        return (loss.view(shape), nll.view(shape)) if reduction == "none" else (loss, nll)

    def blocked_loss(self, contexts: Tensor, target: Tensor, **options) -> tuple[Tensor, Tensor]:
        """Return `chunked_loss` of contexts (n, K, d) and targets (n,), as the hooks have it."""
        offset = self.target_offset(contexts, target.clamp(min=0)) if self.training else None
        hooks = {"transform": self.transform, "formula": self.formula, "scratch": self.scratch}
        hooks |= {"parameters": self.transform_parameters(), "bias": self.logit_bias()}
        x, matrix = self.words.factors(contexts)
        return chunked_loss(x, matrix, target, offset=offset, **hooks, **options)

    def reference(self, hidden: Tensor, target: Tensor) -> Tensor:
        """Return the mean cross-entropy by the layer's plain PyTorch form, see `naive.NAIVE`.

        hidden: (…, h); target: (…), `IGNORE` where a position does not count.
        Raises CourseError for a layer that has no plain form.
        """
        return naive.loss(self, hidden.flatten(0, -2), target.flatten())

    def logits(
        self, hidden: Tensor, target: Tensor | None = None, narrow: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Return logits (…, K, N) and log-weights (…, K) or None.

        hidden: (…, h);
        target: None, or targets (n,) of hidden states (n, h), whose logits get what training adds;
        narrow: whether logits without bias and transform stay in the product's type, as bfloat16.
        """
        contexts, log_weights = self.contexts(hidden)
        x, matrix = self.words.factors(contexts)
        logits = x @ matrix.T
        bias = self.logit_bias()
        if not narrow or bias is not None or self.transform is not None:
            logits = logits.to(type_of_sums(logits))  # as in the kernel
        logits = logits if bias is None else logits + bias
        offset = None if target is None else self.target_offset(contexts, target)
        if target is not None and offset is not None:
            word = target[:, None, None].expand(*offset.shape, 1)
            logits = logits.scatter_add(-1, word, offset.unsqueeze(-1).to(logits))
        if self.transform is not None:
            logits = self.transform(logits, *self.transform_parameters(), scratch=FRESH)
        return logits, log_weights

    def log_prob(self, hidden: Tensor) -> Tensor:
        """Return log P (…, N) of hidden states (…, h), in nats; forms the whole table."""
        logits, log_weights = self.logits(hidden)
        log_prob = logits.log_softmax(-1)
        if log_weights is None:
            return log_prob.squeeze(-2)
        return torch.logsumexp(log_weights[..., None] + log_prob, dim=-2)

    def expectation(self, hidden: Tensor, values: Tensor) -> Tensor:
        """Return Σ_j P(j | h) v_j (…, m) of hidden states (…, h) and values v (N, m)."""
        logits, log_weights = self.logits(hidden, narrow=True)
        means = _Expectation.apply(logits, values)
        if log_weights is None:
            return means.squeeze(-2)
        return (log_weights.exp()[..., None] * means).sum(-2)


class _Expectation(torch.autograd.Function):
    """e = Σ_j p_j v_j of p = softmax(l), written out because it then keeps one table, p.

    With g the gradient of e,  dl_j = p_j (gᵀv_j − gᵀe)  and  dv_j = Σ p_j g  over all contexts.
    """

    @staticmethod
    def forward(ctx, logits, values):
        values = values.to(product_type(values))
        p = logits.softmax(-1).to(values)
        mean = p @ values
        ctx.save_for_backward(p, values, mean)
        return mean

    @staticmethod
    @first_order
    def backward(ctx, grad):
        p, values, mean = ctx.saved_tensors
        shared = (grad * mean).sum(-1, keepdim=True)
        d_logits = (grad @ values.T).sub_(shared).mul_(p)
        d_values = p.flatten(0, -2).T @ grad.flatten(0, -2)
        return d_logits, d_values


class Softmax(OutputLayer):
    """P(y | h) = exp(w_yᵀh + b_y) / Σ_j exp(w_jᵀh + b_j)."""
