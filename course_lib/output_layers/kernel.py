"""The chunk kernel: loss and all gradients of any output layer in one differentiable function.

A softmax over N words of n contexts of size d costs 6 n d N operations forward and backward, and
the plain formula writes and reads about ten tensors of n N numbers. The operations cannot be saved;
the tensors can. `BlockedLoss` walks over blocks of positions and makes losses and gradients in one
pass; here stand its contract and its place in automatic differentiation.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from course_lib.first_order import first_order
from course_lib.machine import accelerated
from course_lib.output_layers.blocked_loss import BlockedLoss, Group, Options
from course_lib.output_layers.objectives import CrossEntropy, Objective
from course_lib.output_layers.products import product_type, type_of_sums
from course_lib.output_layers.scratch import BlockScratch
from course_lib.ranges import check
from course_lib.rivals import softmax_loss
from course_lib.targets import IGNORE


def chunked_loss(
    x: Tensor,
    matrix: Tensor,
    target: Tensor,
    *,
    bias: Tensor | None = None,
    log_weights: Tensor | None = None,
    offset: Tensor | None = None,
    transform: Callable[..., Tensor] | None = None,
    formula: Callable[..., Tensor] | None = None,
    parameters: tuple[Tensor, ...] = (),
    objective: Objective | None = None,
    soft: tuple[Tensor, Tensor] | None = None,
    gate: Callable[[Tensor, Tensor], Tensor] | None = None,
    groups: list[Group] | None = None,
    reduction: str = "mean",
    block: int | None = None,
    scratch: BlockScratch | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the loss of n positions, and its plain cross-entropy part without gradient.

    A position has K components, which are the softmaxes of a mixture. A plain softmax has K = 1.
    For the cross-entropy and K = 1 the result equals the naive one-liner

        F.cross_entropy(transform(x[:, 0] @ matrix.T + bias + offset * onehot, *parameters), target)

    In general the result is what `objective` computes from these logits and probabilities:

        logits (n, K, N) = transform(x @ matrix.T + bias + offset[..., None] * onehot, *parameters)
        log P (n, N)     = logsumexp_k(log_weights + log_softmax(logits))

    x: (n, K, d), the contexts; matrix: (N, d); target: (n,), `IGNORE` allowed; bias: (N,);
    log_weights, offset: (n, K); only where K is 1 may log_weights be None;
    transform(logits, *parameters, scratch=…): an elementwise function of the logits, which may take
    memory from `scratch`; formula(logits, *parameters): the same in plain PyTorch, for a compiler;
    objective: what is minimised, the cross-entropy if None;
    soft: ((n, e), (N, e)), whose product are the soft targets' logits;
    gate(gradient (b·K, N), target (b·K,)): returns the logits' gradient that the rows of `matrix`
    receive, while the contexts and the bias receive the ungated one. It is linear in each row of
    the gradient, because the positions' weights may come after it. It may overwrite its argument;
    groups: in the place of `objective`, several over ranges of words, see `Group`;
    reduction: "mean" over counted targets, "sum", or "none": (n,), recomputed in the backward pass;
    block: the most positions that are computed at a time; None: what fits `scratch.limit` bytes,
    but no more than `blocked_loss.ROWS` rows, in half precision a quarter of all if that is more;
    scratch: the memory of a block, which is kept from call to call; new if None.
    Under autocast the products are computed in its type and added up in float32.
    Raises ValueError where the tensors' shapes do not fit, on an unknown reduction, a target
    that is no word, an objective without its soft targets, a gate with groups, or mixed types, and
    CourseError for what is no `Objective`, such as a plain function.
    """
    # What does not fit together is refused before anything is computed.
    if x.dim() != 3 or matrix.dim() != 2 or x.shape[-1] != matrix.shape[-1]:
        raise ValueError(f"x {(*x.shape,)} must be (n, K, d) and matrix {(*matrix.shape,)} (N, d)")
    if x.dtype != matrix.dtype and not torch.is_autocast_enabled(x.device.type):
        raise ValueError(f"contexts are {x.dtype}, words {matrix.dtype}: convert one, or autocast")
    check_targets(target, x.shape[:1], len(matrix), reduction)
    per_word, per_context = matrix.shape[:1], x.shape[:2]
    given = ("bias", bias, per_word), ("log_weights", log_weights, per_context)
    for name, tensor, shape in (*given, ("offset", offset, per_context)):
        if tensor is not None and tensor.shape != shape:
            raise ValueError(f"{name} {tuple(tensor.shape)} must be {tuple(shape)}")
    if x.shape[1] != 1 and log_weights is None:
        raise ValueError(f"{x.shape[1]} contexts a position need their log_weights")
    if groups is None:
        groups = [Group((0, len(matrix)), objective or CrossEntropy())]
    elif gate is not None:
        raise ValueError("a gate looks at all words and cannot act on groups of them")
    check_soft(soft, [group.objective for group in groups], len(x), len(matrix))
    if soft and not any(g.objective.needs_soft_targets and g.objective.gradient for g in groups):
        soft = soft[0].detach(), soft[1].detach()  # else zeros would be made as their gradients
    # The walk over the blocks, as one function of autograd.
    options = Options(
        groups=groups,
        transform=transform,
        formula=formula,
        gate=gate,
        reduction=reduction,
        block=block,
        scratch=scratch or BlockScratch(),
        dtype=product_type(x),
        differentiate=torch.is_grad_enabled() and reduction != "none",
    )
    tensors = x, matrix, bias, log_weights
    others = offset, *(soft or (None, None)), *parameters

    def own(*tensors):
        return _ChunkedLoss.apply(options, target, *tensors, *others)

    # Plain softmaxes on a GPU may have a quicker kernel, one that is installed beside this course.
    plain = reduction == "mean" and all(s is None for s in (offset, transform, gate, soft, block))
    if plain and options.differentiate and groups == [Group((0, len(matrix)), CrossEntropy())]:
        loss = softmax_loss(lambda *given: own(*given)[0], *tensors, target, options.dtype)
        return loss, loss.detach()
    return own(*tensors)


def check_targets(
    target: Tensor, positions: Sequence[int], words: int, reduction: str = "mean"
) -> None:
    """Raise ValueError unless each position has a target, which is a word or `IGNORE`.

    positions: their shape; reduction: refused, too, unless it is a known one.
    On a GPU, where a look would wait, an assertion on the device fails later instead.
    """
    if target.shape != positions:
        raise ValueError(
            f"target {tuple(target.shape)} must hold one word for each position, {tuple(positions)}"
        )
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction {reduction!r} must be 'mean', 'sum' or 'none'")
    outside = ((target != IGNORE) & ((target < 0) | (target >= words))).any()
    if accelerated(target):
        torch._assert_async(~outside)  # pyright: ignore[reportPrivateImportUsage] (nothing else)
    elif outside:
        raise ValueError(f"targets must be words, 0 to {words - 1}, or {IGNORE}, which is left out")


def check_soft(
    soft: tuple[Tensor, Tensor] | None, objectives: list[Objective], n: int, words: int
) -> None:
    """Raise ValueError for wrong or missing soft targets, CourseError for no `Objective`."""
    for objective in objectives:
        check("objective", objective, Objective)
    if soft is None:
        if any(objective.needs_soft_targets for objective in objectives):
            raise ValueError("the objective needs the logits of soft targets: give `soft`")
    elif (*soft[0].shape[:-1], len(soft[1])) != (n, words):
        shapes = [tuple(part.shape) for part in soft]
        raise ValueError(f"soft has the shapes {shapes}, which must be ({n}, e) and ({words}, e)")


class _ChunkedLoss(torch.autograd.Function):
    """Forward makes the gradients, too; backward scales them, or makes those not yet made."""

    @staticmethod
    def forward(ctx, options, target, *tensors):
        # Each position's weight in the sum.
        counted = target != IGNORE
        weight = counted.to(type_of_sums(tensors[0]))
        # The mean is taken at the end: in half precision 1/n in every gradient would underflow.
        ctx.scale = 1 / weight.sum().clamp(min=1) if options.reduction == "mean" else 1.0
        # Losses and, unless they are to be recomputed, gradients.
        needed = ctx.needs_input_grad[2:]
        grads = _zeros(tensors, needed) if options.differentiate and any(needed) else None
        loss, nll = BlockedLoss(options, tensors, target, weight, grads).run()
        ctx.options = options
        ctx.grads = grads
        ctx.save_for_backward(target, weight, *tensors)
        # The reduction.
        loss, nll = (part.where(counted, 0) * ctx.scale for part in (loss, nll))
        if options.reduction != "none":
            loss, nll = loss.sum(), nll.sum()
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @first_order
    def backward(ctx, grad_loss, _):
        grad_loss = grad_loss * ctx.scale
        grads, ctx.grads = ctx.grads, None
        if grads is None:  # reduction "none", whose weights are known now, or a second backward
            target, weight, *tensors = ctx.saved_tensors
            grads = _zeros(tensors, ctx.needs_input_grad[2:])
            alone = grad_loss.dim() == 1
            weight = weight * grad_loss if alone else weight
            BlockedLoss(ctx.options, tensors, target, weight, grads).run()
            if alone:
                return None, None, *grads
        # Scaled in place: nobody else holds these tensors, and a copy would cost their size again.
        return None, None, *(g if g is None else g.mul_(grad_loss) for g in grads)


def _zeros(tensors, needed) -> list[Tensor | None]:
    """Return zeros, in the type of sums over blocks, like the tensors that need a gradient."""
    pairs = zip(tensors, needed, strict=True)
    return [torch.zeros_like(t, dtype=type_of_sums(t)) if n else None for t, n in pairs]
