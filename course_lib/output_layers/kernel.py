"""The chunk kernel: loss and all gradients of any output layer, one block of positions at a time.

Two numbers decide its shape. A softmax over N words of n contexts of size d costs 6 n d N
operations forward and backward, and the plain formula writes and reads about ten tensors of n N
numbers. The operations cannot be saved; the tensors can: a block of positions small enough for the
cache holds its logits, turns them into their gradient, and adds the block's share to the gradients
of the contexts and of the matrix before the next block overwrites it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.output_layers.objectives import Block, CrossEntropy, Objective, log_normaliser
from course_lib.output_layers.products import add_product, add_rest, rows_at_once, with_bias
from course_lib.output_layers.scratch import _memory, block_memory

IGNORE = -100  # targets with this value do not count, as in torch's cross_entropy
# Logits per block: 16 MB in float32, which a last-level cache can hold; more where launching
# a kernel costs more than a trip to memory.
BLOCK = {"cpu": 1 << 22, "cuda": 1 << 27}


@dataclass
class Group:
    """Positions that choose among the same range of words, by the same objective.

    One group is a softmax; a hierarchy of clusters has several, whose losses add where they share
    positions.
    """

    columns: tuple[int, int]  # the words' range in the matrix: first, last + 1
    objective: Objective
    nll: Objective = CrossEntropy()  # the plain cross-entropy's share
    positions: Tensor | None = None  # their numbers; None: all
    weighted: bool = True  # whether log_weights are theirs
    holds_target: bool = True  # or the targets lie outside: no offset belongs to these words


def chunked_loss(
    x: Tensor,
    matrix: Tensor,
    target: Tensor,
    *,
    bias: Tensor | None = None,
    log_weights: Tensor | None = None,
    offset: Tensor | None = None,
    transform: Callable[..., Tensor] | None = None,
    parameters: tuple[Tensor, ...] = (),
    objective: Objective | None = None,
    soft: tuple[Tensor, Tensor] | None = None,
    gate: Callable[[Tensor, Tensor], Tensor] | None = None,
    groups: list[Group] | None = None,
    reduction: str = "mean",
    block: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The loss of n positions, and its plain cross-entropy part without gradient.

    For cross-entropy and one component the contract is the naive one-liner

        F.cross_entropy(transform(x[:, 0] @ matrix.T + bias + offset * onehot, *parameters), target)

    and in general `objective` of the block's logits, with

        logits (n, K, N) = transform(x @ matrix.T + bias + offset[..., None] * onehot, *parameters)
        log P (n, N)     = logsumexp_k(log_weights + log_softmax(logits))

    x: (n, K, d); matrix: (N, d); target: (n,), `IGNORE` allowed; bias: (N,);
    log_weights, offset: (n, K); soft: ((n, e), (N, e)), whose product are the soft targets' logits;
    transform: an elementwise function of logits and `parameters`;
    gate(gradient (b·K, N), target (b·K,)): the logits' gradient as the rows of `matrix` receive it
    (the contexts receive the true one);
    groups: in the place of `objective`, several over ranges of words, see `Group`;
    reduction: "mean" over counted targets, "sum", or "none".
    Under autocast the products are computed in its type, everything else in float32.
    Returns (loss, nll): scalars, or (n,) with reduction "none", where backward recomputes.
    Raises ValueError on shapes that do not fit, an unknown reduction or a target that is no word.
    """
    if x.dim() != 3 or matrix.dim() != 2 or x.shape[-1] != matrix.shape[-1]:
        raise ValueError(
            f"x {tuple(x.shape)} must be (n, K, d) and matrix {tuple(matrix.shape)} (N, d)"
        )
    if target.shape != x.shape[:1]:
        raise ValueError(
            f"target {tuple(target.shape)} must hold one word for each of {len(x)} positions"
        )
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction {reduction!r} must be 'mean', 'sum' or 'none'")
    check_targets(target, len(matrix))
    soft_x, soft_matrix = soft if soft is not None else (None, None)
    if groups is None:
        objective = objective or CrossEntropy()
        nll = objective if objective == CrossEntropy() else CrossEntropy()
        groups = [Group((0, len(matrix)), objective, nll)]
    elif gate is not None:
        raise ValueError("a gate looks at all words and cannot act on groups of them")
    walk = _BlockedLoss(groups, transform, gate, reduction, block)
    walk.dtype = _product_type(x)
    walk.differentiate = torch.is_grad_enabled() and reduction != "none"
    return _ChunkedLoss.apply(
        walk, target, x, matrix, bias, log_weights, offset, soft_x, soft_matrix, *parameters
    )


def check_targets(target: Tensor, words: int) -> None:
    """ValueError unless every target is a word or `IGNORE`; on a GPU, which nothing here waits for,
    its own failed assertion."""
    outside = ((target != IGNORE) & ((target < 0) | (target >= words))).any()
    if target.is_cuda:
        torch._assert_async(~outside)
    elif outside:
        raise ValueError(
            f"targets must be words, 0 to {words - 1}, or {IGNORE}, which do not count"
        )


def _product_type(x: Tensor) -> torch.dtype:
    """The type of the matrix products: autocast's, unless the input is in float64."""
    if torch.is_autocast_enabled(x.device.type) and x.dtype != torch.float64:
        return torch.get_autocast_dtype(x.device.type)
    return x.dtype


class _ChunkedLoss(torch.autograd.Function):
    """Loss forward, with the gradients made in the same walk; backward only scales them."""

    @staticmethod
    def forward(ctx, walk, target, *tensors):
        ctx.walk = walk
        needed = [t is not None and t.requires_grad for t in tensors]
        counted = target != IGNORE
        weight = counted.to(_accumulate(tensors[0]))
        if walk.reduction == "mean":
            weight = weight / counted.sum().clamp(min=1)
        grads = walk.buffers(tensors, needed) if walk.differentiate and any(needed) else None
        loss, nll = walk.run(tensors, target, weight, grads)
        ctx.grads, ctx.needed = grads, needed
        ctx.save_for_backward(target, weight, *tensors)
        loss, nll = loss * weight, nll * weight
        if walk.reduction != "none":
            loss, nll = loss.sum(), nll.sum()
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_loss, _):
        grads, ctx.grads = ctx.grads, None
        if grads is None:  # reduction "none", whose weights are known now, or a second backward
            target, weight, *tensors = ctx.saved_tensors
            grads = ctx.walk.buffers(tensors, ctx.needed)
            ctx.walk.run(tensors, target, grad_loss * weight, grads)
            return None, None, *grads
        # Scaled in place: nobody else holds these tensors, and a copy would cost their size again.
        return None, None, *(g if g is None else g.mul_(grad_loss) for g in grads)


def _accumulate(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


@dataclass
class _BlockedLoss:
    """One pass over the positions, with what does not change from block to block."""

    groups: list[Group]
    transform: Callable[..., Tensor] | None
    gate: Callable[[Tensor, Tensor], Tensor] | None
    reduction: str
    block: int | None
    dtype: torch.dtype = torch.float32
    differentiate: bool = True
    size: int = 0  # of a context
    narrow: bool = False  # whether the logits stay in half precision, as the product leaves them

    def buffers(self, tensors, needed) -> list[Tensor | None]:
        """Gradients to be filled: zeros like the inputs that need one, in float32 or wider, for
        they are sums over blocks; autograd casts them to the inputs' type."""
        return [
            torch.zeros_like(t, dtype=_accumulate(t)) if n else None
            for t, n in zip(tensors, needed, strict=True)
        ]

    def run(self, tensors, target, weight, grads) -> tuple[Tensor, Tensor]:
        """Losses and cross-entropies (n,); fills `grads` with Σ weight · gradient."""
        x, matrix, bias, _, offset, *_ = tensors
        self.size, nothing = x.shape[-1], self.transform is self.gate is offset is None
        self.narrow = nothing and self.dtype != _accumulate(x)
        matrix = matrix.detach().to(self.dtype)
        if self.narrow and bias is not None:
            matrix = with_bias(matrix, bias.detach())
        losses = x.new_zeros(2, len(x), dtype=_accumulate(x))
        outer, _memory.walking = _memory.walking, True
        try:
            with torch.autocast(target.device.type, enabled=False), torch.no_grad():
                for group in self.groups:
                    for here in self._blocks(group, x):
                        self._forward_block(
                            group, here, tensors, matrix, target, weight, grads, losses
                        )
        finally:
            _memory.walking = outer
        return losses.unbind()

    def _blocks(self, group, x):
        """Slices of positions, or their numbers, a block each."""
        components, words = x.shape[1], group.columns[1] - group.columns[0]
        n = len(x) if group.positions is None else len(group.positions)
        logits = BLOCK.get(x.device.type, BLOCK["cpu"])
        if self.transform is not None:  # which needs about as much memory again
            logits //= 2
        elif self.narrow:
            logits *= 2
        step = self.block or max(1, logits // (words * components))
        # equal blocks: a small rest would cost a whole pass over M's gradient
        step = max(1, -(-n // max(1, -(-n // step))))
        for start in range(0, n, step):
            here = slice(start, min(start + step, n))
            yield here if group.positions is None else group.positions[here]

    def _forward_block(self, group, here, tensors, matrix, target, weight, grads, losses):
        x, _, bias, log_weights, offset, soft_x, soft_matrix, *parameters = tensors
        columns, real = slice(*group.columns), _accumulate(x)
        rows = matrix[columns]
        words, xb = len(rows), x[here]
        (b, components, _), m = xb.shape, xb.shape[0] * xb.shape[1]
        y = (target[here] - columns.start).clamp(0, words - 1)
        y_k = y.repeat_interleave(components) if components > 1 else y
        product_x = xb.reshape(m, -1).to(self.dtype)
        # In half precision the logits leave the product rounded. If only a bias comes between it
        # and the softmax, which accumulates in float32, they need not be widened: half the traffic.
        # The bias is then a term of the product's sums, as in autocast's linear layers.
        if not group.holds_target:
            offset = None
        work = self.dtype if self.narrow else real
        if self.narrow and bias is not None:
            product_x = F.pad(product_x, (0, rows.shape[1] - product_x.shape[1]))
            product_x[:, self.size] = 1
        scores = block_memory("scores", (m, words), self.dtype, x.device)
        l = torch.mm(product_x, rows.T, out=scores)  # noqa: E741 — the papers' letter
        if work != self.dtype:
            l = block_memory("logits", (m, words), work, x.device).copy_(scores)  # noqa: E741
        if bias is not None and not self.narrow:
            l.add_(bias[columns])
        if offset is not None:
            l.scatter_add_(1, y_k[:, None], offset[here].reshape(m, 1).to(work))
        raw, bent = l, None
        if self.transform is not None:
            with torch.enable_grad():
                raw = l.detach().requires_grad_()
                leaves = [p.detach().requires_grad_(p.requires_grad) for p in parameters]
                bent = self.transform(raw, *leaves)
            l = bent.detach()  # noqa: E741
        p = torch.softmax(l, -1, out=block_memory("prob", (m, words), work, x.device))
        log_z = log_normaliser(l, p, y_k).to(real)
        soft_logits = soft_rows = None
        if soft_x is not None:
            soft_rows = soft_matrix[columns]
            soft_logits = (soft_x[here] @ soft_rows.T).to(real)
        weighted = log_weights is not None and group.weighted
        view = Block(
            logits=lambda: l.to(real).view(b, components, words),
            log_z=log_z.view(b, components),
            target_logit=l.gather(1, y_k[:, None]).to(real).view(b, components),
            mean_logit=lambda: l.mean(-1, dtype=real).view(b, components),
            log_weights=log_weights[here].to(real) if weighted else None,
            soft_logits=soft_logits,
            target=y,
        )
        with torch.enable_grad():
            loss = group.objective(view)
        nll = loss if group.nll is group.objective else group.nll(view)
        losses[0, here] += loss.detach()
        losses[1, here] += nll.detach()
        if grads is not None:
            self._backward(
                group, view, loss, weight[here], grads, here, p, y_k,
                (raw, bent, leaves) if bent is not None else None, product_x, rows,
                p if work == self.dtype else scores, soft_x, soft_rows,
            )  # fmt: skip

    def _backward(
        self, group, view, loss, weight, grads, here, p, y_k, bent, product_x, product_rows,
        narrow, soft_x, soft_rows,
    ):  # fmt: skip
        """Turn the probabilities `p` (m, N) into the logits' gradient and pass it on."""
        g_x, g_matrix, g_bias, g_log_weights, g_offset, g_soft_x, g_soft, *g_parameters = grads
        b, components = view.log_z.shape
        (m, words), columns = p.shape, slice(*group.columns)
        leaves = [view.log_z, view.target_logit, view.log_weights]
        asked = {n: view.used(n) for n in ("mean_logit", "logits", "soft_logits")}
        asked = {name: leaf for name, leaf in asked.items() if leaf is not None}
        slopes = torch.autograd.grad(
            loss, [*leaves, *asked.values()], torch.ones_like(loss), allow_unused=True
        )
        s_z, s_y, s_w = (
            torch.zeros_like(leaf) if s is None else s
            for s, leaf in zip(slopes, leaves, strict=False)
        )
        # An objective may look without letting a gradient through: no products with zeros then.
        others = dict(zip(asked, slopes[3:], strict=True))
        others = {name: slope for name, slope in others.items() if slope is not None}
        s_z, s_y, w = s_z.reshape(m, 1), s_y.reshape(m, 1), weight.view(b, 1).expand(b, components)
        w = w.reshape(m, 1)
        s_m = others.get("mean_logit")
        s_m = None if s_m is None else s_m.reshape(m, 1) / words
        # s_z p + s_m + s_y at the target: where nothing else comes in, these slopes go to the small
        # side of the products below, and no walk through the block is left but these.
        plain = bent is None and self.gate is None and "logits" not in others
        if plain:
            gradient, at_target, everywhere = p, s_y * w, None if s_m is None else s_m * w
            w = s_z * w
        else:
            # A slope of 1 is worth a look where looking needs no wait for the device.
            ones = not p.is_cuda and bool((s_z == 1).all())
            gradient, everywhere = p if ones else p.mul_(s_z.to(p.dtype)), None
            if s_m is not None:
                gradient.add_(s_m.to(p.dtype))
            if "logits" in others:
                gradient.add_(others["logits"].reshape(m, words))
            place = torch.arange(m, device=p.device), y_k  # scatter_add_ would widen bfloat16
            gradient.index_put_(place, s_y[:, 0].to(p.dtype), accumulate=True)
        if bent is not None:
            raw, value, leaves = bent
            # A parameter's gradient is a sum over positions, which must be weighted before it.
            free = [leaf for leaf in leaves if leaf.requires_grad]
            scaled = gradient.mul_(w) if free else gradient
            gradient, *g_leaves = torch.autograd.grad(value, [raw, *free], scaled)
            w = torch.ones_like(w) if free else w
            for total, g in zip([g for g in g_parameters if g is not None], g_leaves, strict=True):
                total.add_(g)
        if g_log_weights is not None and group.weighted:
            g_log_weights[here] += s_w * weight[:, None]
        if g_offset is not None and group.holds_target:
            to_offset = gradient.gather(1, y_k[:, None]) * w
            if plain:
                to_offset += at_target if everywhere is None else at_target + everywhere
            g_offset[here] += to_offset.view(b, components)
        # The positions' weights go to the small side of each product: the gradient of the logits
        # stays in [-1, 1], where half precision has most of its numbers.
        small = gradient if gradient.dtype == product_rows.dtype else narrow.copy_(gradient)
        if g_x is not None:
            to_x = torch.cat([part @ product_rows for part in small.split(rows_at_once(small))])
            to_x = to_x[:, : self.size].to(w.dtype) * w
            if plain:
                to_x.addcmul_(product_rows[y_k, : self.size].to(w.dtype), at_target)
            if everywhere is not None:
                to_x.addcmul_(product_rows[:, : self.size].sum(0, dtype=w.dtype), everywhere)
            g_x[here] += to_x.view(b, components, self.size)
        to_matrix, to_bias = (None if g is None else g[columns] for g in (g_matrix, g_bias))
        if to_bias is not None and not self.narrow:
            to_bias.addmv_(gradient.T, w[:, 0])
        if self.gate is not None:
            gradient = self.gate(gradient, y_k)
            small = gradient.to(product_rows.dtype)
        small_x = (product_x * w).to(small.dtype)
        if to_matrix is not None and to_matrix.dtype == small.dtype:
            to_matrix.addmm_(small.T, small_x)
        elif to_matrix is not None or (to_bias is not None and self.narrow):
            if small_x.shape[1] > self.size:  # what rounding took from the bias' weights
                small_x[:, self.size + 1] = w[:, 0] - small_x[:, self.size]
            add_product(to_matrix, to_bias if self.narrow else None, small.T, small_x, self.size)
        if plain:
            x = product_x[:, : self.size].to(w.dtype)
            column = None if to_bias is None else to_bias[:, None]
            for total, inputs in ((to_matrix, x), (column, torch.ones_like(w))):
                if total is not None:
                    add_rest(total, inputs, view.target, at_target, everywhere)
        if "soft_logits" in others and (g_soft_x is not None or g_soft is not None):
            g = others["soft_logits"] * weight[:, None]
            if g_soft_x is not None:
                g_soft_x[here] += g @ soft_rows.to(g.dtype)
            if g_soft is not None:
                g_soft[columns].addmm_(g.T, soft_x[here].to(g.dtype))
