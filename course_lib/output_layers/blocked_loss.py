"""The walk over blocks of positions, which makes losses and all gradients in one pass.

A block of positions holds its logits, turns them into their gradient, and adds the block's part to
the gradients of the contexts and of the matrix before the next block overwrites it. The block needs
several hundred rows: each block adds its share to the whole gradient of the matrix, which costs
more than logits that leave the cache.

    logits          l = transform(x Mᵀ + bias + offset · onehot(y))
    statistics      p = softmax(l), log Z, l_y
    loss            objective(log Z, l_y, …), and its slopes s_Z = ∂/∂log Z, s_y = ∂/∂l_y, …
    gradient        g = weight · (s_Z p + s_y onehot(y) + …), then back through the transform
    contributions   dx += g M,  dM += gᵀ x,  dbias += Σ g,  doffset += g_y

Autograd computes the slopes. The symbol g_y stands for the target's entry of g.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.machine import accelerated
from course_lib.output_layers.objectives import Block, CrossEntropy, Objective, log_normaliser
from course_lib.output_layers.products import (
    add_outside_softmax,
    add_product,
    arranged_products,
    rows_times,
    type_of_sums,
    with_bias,
)
from course_lib.output_layers.scratch import BlockScratch, Frame, Scratch
from course_lib.rivals import elementwise

# Rows of logits in a block. On a GPU a launch costs more than a trip to memory. On a CPU more rows
# gain nothing, except in half precision, where each block converts the gradient of the matrix.
ROWS = {"cpu": 1024, "cuda": 8192}


@dataclass
class Group:
    """Positions that choose among the same range of words.

    A plain softmax has one group. A hierarchy of clusters has several groups. Where a position
    belongs to several groups, its losses are added.

    columns: the range of words, as the first row of the matrix and the row after the last.
    objective: what is minimised in this group.
    nll: what this group adds to the plain cross-entropy that is reported.
    positions: the indices of the group's positions; None stands for all positions.
    weighted: whether the objective sees `log_weights`; otherwise it sees zeros.
    holds_target: whether the targets lie in this range. Where they do not, the offset is left out,
        because it belongs to the target's logit.
    """

    columns: tuple[int, int]
    objective: Objective
    nll: Objective = CrossEntropy()
    positions: Tensor | None = None
    weighted: bool = True
    holds_target: bool = True


@dataclass(frozen=True)
class Options:
    """The settings of a loss, most of them arguments of `chunked_loss`."""

    groups: list[Group]
    transform: Callable[..., Tensor] | None
    formula: Callable[..., Tensor] | None
    gate: Callable[[Tensor, Tensor], Tensor] | None
    reduction: str
    block: int | None
    scratch: BlockScratch
    dtype: torch.dtype  # of the matrix products
    differentiate: bool  # whether the forward pass makes the gradients


@dataclass
class Tensors:
    """The inputs of the loss, or their gradients, by name; None where there is none."""

    x: Tensor  # (n, K, d)
    matrix: Tensor  # (N, d)
    bias: Tensor | None  # (N,)
    log_weights: Tensor | None  # (n, K)
    offset: Tensor | None  # (n, K)
    soft_x: Tensor | None  # (n, e)
    soft_matrix: Tensor | None  # (N, e)
    parameters: tuple[Tensor, ...]  # of the transform

    @classmethod
    def named(cls, tensors: Any) -> "Tensors":
        return cls(*tensors[:7], parameters=tuple(tensors[7:]))


@dataclass
class _BlockInputs:
    """The inputs of one block: b positions of K components, in m = b K rows."""

    group: Group
    positions: slice | Tensor
    columns: slice  # the group's words
    x: Tensor  # (m, w), contexts as the product takes them; w > d where it includes the bias
    matrix: Tensor  # (N, w), the rows of the group's N words in the same type
    target: Tensor  # (b,), counted from the group's first word
    row_target: Tensor  # (m,), the same for each row of `x`

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return b, K, N."""
        b = len(self.target)
        return b, len(self.x) // b, len(self.matrix)


@dataclass
class _Transformed:
    """A transform's result, with what it is differentiated by."""

    raw: Tensor  # (m, N), before the transform
    parameters: list[Tensor]
    value: Tensor  # (m, N), after it


@dataclass
class _LogitGradient:
    """The gradient of the weighted loss with respect to the logits, in factors.

        dense · weight + at_target · onehot(y) + everywhere        (m, N)

    Each factor has one number a row, (m, 1). It is multiplied into the small operand or the small
    result of a product, which saves a walk through the dense part, unless a transform's parameters
    need it sooner. Where the dense part is the softmax alone, `weight` contains s_Z as well: the
    dense part stays in [0, 1], where half precision has most of its numbers.
    """

    dense: Tensor  # (m, N)
    weight: Tensor  # (m, 1)
    at_target: Tensor | None = None  # (m, 1); None: it is in the dense part already
    everywhere: Tensor | None = None  # (m, 1), or None for zero


class BlockedLoss:
    """One pass over the positions: their losses and, where `grads` are given, the gradients."""

    def __init__(self, options: Options, tensors: Any, target: Tensor, weight: Tensor, grads: Any):
        """Take tensors and grads in the order of `Tensors`; `weight` (n,) is of the gradients."""
        self.options = options
        self.inputs = Tensors.named(tensors)
        self.grads: Any = None if grads is None else Tensors.named(grads)
        self.target = target
        self.weight = weight
        x = self.inputs.x
        self.size = x.shape[-1]
        self.real = type_of_sums(x)
        self.losses = x.new_zeros(2, len(x), dtype=self.real)  # objective and cross-entropy
        # In half precision the product rounds its logits. Where only a bias comes between it and
        # the softmax, which sums in float32 anyway, the logits stay in the narrow type. The bias
        # then enters as one more column of the product, as in autocast's linear layers.
        bare = all(part is None for part in (options.transform, options.gate, self.inputs.offset))
        self.narrow = bare and options.dtype != self.real
        self.matrix = self.inputs.matrix.detach().to(options.dtype)
        if self.narrow and self.inputs.bias is not None:
            self.matrix = with_bias(self.matrix, self.inputs.bias.detach())
        # What multiplies by the matrix and by its transpose; none where products are taken plainly.
        self.arranged: list[Callable[[Tensor], Tensor]] = []
        if grads is not None and [g.columns for g in options.groups] == [(0, len(self.matrix))]:
            rows = self._rows_of_logits(options.groups[0])
            self.arranged = arranged_products(self.matrix, len(x) * x.shape[1], rows)

    def run(self) -> tuple[Tensor, ...]:
        """Return losses and cross-entropies (n,); fill the gradients with Σ weight · gradient."""
        device = self.target.device
        with (
            torch.autocast(device.type, enabled=False),
            torch.no_grad(),
            self.options.scratch.walk(device) as scratch,
        ):
            for group in self.options.groups:
                for positions in self._blocks(group):
                    scratch.start_block()
                    self._forward_block(group, positions, scratch)
        return self.losses.unbind()

    def _blocks(self, group: Group) -> Iterator[slice | Tensor]:
        """Yield the positions of each block: a slice, or their numbers."""
        x = self.inputs.x
        n = len(x) if group.positions is None else len(group.positions)
        step = self.options.block or max(1, self._rows_of_logits(group) // x.shape[1])
        # Equal blocks: a small rest would cost a whole pass over the matrix' gradient.
        blocks = max(1, -(-n // step))
        step = max(1, -(-n // blocks))
        for start in range(0, n, step):
            part = slice(start, min(start + step, n))
            yield part if group.positions is None else group.positions[part]

    def _rows_of_logits(self, group: Group) -> int:
        """Return how many rows of logits a block of the group may have."""
        tensors = 2 - self._in_place(group)  # logits, and probabilities where they have their own
        tensors += 4 * (self.options.transform is not None)  # at most, what its backward pass keeps
        tensors += 4 * group.objective.needs_soft_targets  # their logits and, at most, three others
        number = self.options.dtype if self.narrow else self.real
        wide = tensors * number.itemsize
        if self.options.dtype != number:  # the product itself, and what a gate lets through
            wide += self.options.dtype.itemsize * (1 + (self.options.gate is not None))
        fitting = self.options.scratch.limit // (wide * (group.columns[1] - group.columns[0]))
        rows = ROWS.get(self.target.device.type, ROWS["cpu"])
        if number.itemsize == 2:
            rows = max(rows, self.inputs.x.shape[:2].numel() // 4)  # a quarter of all
        return min(fitting, rows)

    def _in_place(self, group: Group) -> bool:
        """Return whether probabilities may overwrite the logits, see `_logits_again`."""
        read_again = group.objective.needs_logits or group.nll.needs_logits
        return self.options.transform is None and not read_again and not accelerated(self.target)

    def _forward_block(self, group: Group, positions: slice | Tensor, scratch: Scratch) -> None:
        """Add one block's losses and gradients."""
        frame = scratch.frame()
        block = self._block_inputs(group, positions)
        # logits
        scores, logits = self._logits(block, frame)
        transformed = self._transformed(logits, scratch)
        if transformed is not None:
            logits = transformed.value.detach()
        # statistics
        target_logit = logits.gather(1, block.row_target[:, None])
        in_place = self._in_place(group)
        p = logits if in_place else frame.empty_like("probabilities", logits)
        torch.softmax(logits, -1, out=p)
        logits_again = (lambda: self._logits_again(block)) if in_place else (lambda: logits)
        statistics = self._statistics(block, target_logit, p, logits_again)
        # loss
        with torch.enable_grad():
            loss = group.objective(statistics)
        if loss.shape != block.target.shape:
            raise ValueError(f"an objective returns a loss a position, not {tuple(loss.shape)}")
        nll = loss if group.nll == group.objective else group.nll(statistics)
        self.losses[0, positions] += loss.detach()
        self.losses[1, positions] += nll.detach()
        if self.grads is None:
            return
        # gradient with respect to the logits
        slopes = _slopes(statistics, loss)
        gradient = self._logit_gradient(block, slopes, p)
        if transformed is not None:
            gradient = self._through_transform(gradient, transformed)
        # contributions
        self._add_to_log_weights(block, slopes)
        self._add_to_offset(block, gradient)
        dense = gradient.dense
        if dense.dtype != block.matrix.dtype:  # `scores`, of the product's type, are used up
            dense = scores.copy_(dense)
        self._add_to_contexts(block, gradient, dense)
        self._add_to_words(block, gradient, dense)
        self._add_to_soft_targets(block, slopes)

    def _block_inputs(self, group: Group, positions: slice | Tensor) -> _BlockInputs:
        """Return contexts and rows in the product's type, and targets."""
        columns = slice(*group.columns)
        rows = self.matrix[columns]
        contexts = self.inputs.x[positions]
        b, components, _ = contexts.shape
        x = contexts.reshape(b * components, -1).to(self.options.dtype)
        if self.narrow and self.inputs.bias is not None:
            x = F.pad(x, (0, rows.shape[1] - x.shape[1]))
            x[:, self.size] = 1
        # A target that is ignored or outside of the group is replaced by some word: the first has
        # weight 0, and the objective of a group without the targets does not use their logits. The
        # word is one whose bias is not −∞, since its loss would be infinite, and 0 · ∞ is NaN.
        some = 0 if self.inputs.bias is None else self.inputs.bias[columns].argmax()
        target = self.target[positions] - columns.start
        target = torch.where((target >= 0) & (target < len(rows)), target, some)
        row_target = target.repeat_interleave(components) if components > 1 else target
        return _BlockInputs(group, positions, columns, x, rows, target, row_target)

    def _logits(self, block: _BlockInputs, frame: Frame) -> tuple[Tensor, Tensor]:
        """Return x Mᵀ, in the product's type, and the logits x Mᵀ + bias + offset · onehot(y).

        Both are (m, N), and share their memory unless the logits are wider.
        """
        if self.arranged:
            scores = self.arranged[0](block.x)
        else:
            shape = len(block.x), len(block.matrix)
            scores = frame.empty("scores", shape, block.x.dtype, block.x.device)
            torch.mm(block.x, block.matrix.T, out=scores)
        if self.narrow:
            return scores, scores
        logits = scores
        if self.real != scores.dtype:
            logits = frame.empty_like("logits", scores, self.real).copy_(scores)
        if self.inputs.bias is not None:
            logits.add_(self.inputs.bias[block.columns])
        if self.inputs.offset is not None and block.group.holds_target:
            offset = self.inputs.offset[block.positions].reshape(-1, 1)
            logits.scatter_add_(1, block.row_target[:, None], offset.to(logits.dtype))
        return scores, logits

    @torch.no_grad()
    def _logits_again(self, block: _BlockInputs) -> Tensor:
        """Return overwritten logits once more, as after an underflow in `log_normaliser`."""
        return self._logits(block, Frame())[1]

    def _transformed(self, logits: Tensor, scratch: Scratch) -> _Transformed | None:
        """Return transform(logits, *parameters), to be differentiated where that is needed."""
        transform = self.options.transform
        if transform is None:
            return None
        wanted = self.grads is not None
        with torch.set_grad_enabled(wanted):
            raw = logits.detach().requires_grad_(wanted)
            leaves = [p.detach().requires_grad_(p.requires_grad) for p in self.inputs.parameters]
            written = partial(transform, scratch=scratch)
            function = elementwise(written, self.options.formula, raw, *leaves)
            return _Transformed(raw, leaves, function(raw, *leaves))

    def _statistics(
        self, block: _BlockInputs, target_logit: Tensor, p: Tensor, logits: Callable[[], Tensor]
    ) -> Block:
        """Return what an objective may ask for."""
        inputs, real = self.inputs, self.real
        shape = b, components, _ = block.shape
        log_z = log_normaliser(target_logit[:, 0], p, block.row_target, logits).to(real)
        log_weights = soft_logits = None
        if inputs.log_weights is not None and block.group.weighted:
            log_weights = inputs.log_weights[block.positions].to(real)
        if inputs.soft_x is not None and inputs.soft_matrix is not None:
            soft_rows = inputs.soft_matrix[block.columns]
            soft_logits = (inputs.soft_x[block.positions] @ soft_rows.T).to(real)
        return Block(
            logits=lambda: logits().to(real).view(shape),
            log_z=log_z.view(b, components),
            target_logit=target_logit.to(real).view(b, components),
            mean_logit=lambda: logits().mean(-1, dtype=real).view(b, components),
            log_weights=log_weights,
            soft_logits=soft_logits,
            target=block.target,
        )

    def _logit_gradient(self, block: _BlockInputs, slopes: dict, p: Tensor) -> _LogitGradient:
        """Return weight · (s_Z p + s_y onehot(y) + s_m / N + s_l), written over `p` (m, N).

        s_m and s_l are the slopes by the mean logit and by each single logit.
        """
        b, components, words = block.shape
        weight = self.weight[block.positions].view(b, 1).expand(b, components).reshape(-1, 1)
        s_z = slopes["log_z"].reshape(-1, 1)
        s_y = slopes["target_logit"].reshape(-1, 1)
        s_m = slopes["mean_logit"].reshape(-1, 1) / words if "mean_logit" in slopes else None
        # Where only the softmax is dense, the slopes stay outside of the block.
        plain = self.options.transform is None and self.options.gate is None
        if plain and "logits" not in slopes:
            everywhere = None if s_m is None else s_m * weight
            return _LogitGradient(p, s_z * weight, s_y * weight, everywhere)
        # On a CPU it is cheap to see that all slopes are 1, which saves a walk through the block.
        # On a GPU the look would wait for the device, so the product is always computed.
        if accelerated(p) or not bool((s_z == 1).all()):
            p.mul_(s_z.to(p.dtype))
        if s_m is not None:
            p.add_(s_m.to(p.dtype))
        if "logits" in slopes:
            p.add_(slopes["logits"].reshape(p.shape))
        place = torch.arange(len(p), device=p.device), block.row_target
        p.index_put_(place, s_y[:, 0].to(p.dtype), accumulate=True)  # scatter_add_ would widen bf16
        return _LogitGradient(p, weight)

    def _through_transform(self, gradient: _LogitGradient, result: _Transformed) -> _LogitGradient:
        """Return the gradient with respect to the logits before the transform.

        The gradients of the transform's parameters are added to their totals on the way.
        """
        free = [leaf for leaf in result.parameters if leaf.requires_grad]
        dense, weight = gradient.dense, gradient.weight
        if free:  # a parameter's gradient sums over positions, so the weights must come first
            dense = dense.mul_(weight)
            weight = torch.ones_like(weight)
        dense, *to_parameters = torch.autograd.grad(result.value, [result.raw, *free], dense)
        totals = [total for total in self.grads.parameters if total is not None]
        for total, to_parameter in zip(totals, to_parameters, strict=True):
            total.add_(to_parameter)
        return _LogitGradient(dense, weight)

    def _add_to_log_weights(self, block: _BlockInputs, slopes: dict) -> None:
        """Add weight · s_w to the gradient of the log-weights; s_w is the loss's slope by them."""
        if self.grads.log_weights is not None and block.group.weighted:
            weight = self.weight[block.positions][:, None]
            self.grads.log_weights[block.positions] += slopes["log_weights"] * weight

    def _add_to_offset(self, block: _BlockInputs, gradient: _LogitGradient) -> None:
        """Add g_y, the gradient of the target's logit, to the gradient of the offset."""
        if self.grads.offset is None or not block.group.holds_target:
            return
        b, components, _ = block.shape
        to_offset = gradient.dense.gather(1, block.row_target[:, None]) * gradient.weight
        for term in (gradient.at_target, gradient.everywhere):
            if term is not None:
                to_offset += term
        self.grads.offset[block.positions] += to_offset.view(b, components)

    def _add_to_contexts(
        self, block: _BlockInputs, gradient: _LogitGradient, dense: Tensor
    ) -> None:
        """Add g M to the contexts' gradient; `dense` is g's dense part in the product's type."""
        if self.grads.x is None:
            return
        b, components, _ = block.shape
        weight, rows = gradient.weight, block.matrix
        product = self.arranged[1](dense) if self.arranged else rows_times(dense, rows)
        to_x = product[:, : self.size].to(weight.dtype) * weight
        if gradient.at_target is not None:
            target_rows = rows[block.row_target, : self.size].to(weight.dtype)
            to_x.addcmul_(target_rows, gradient.at_target)
        if gradient.everywhere is not None:
            row_sum = rows[:, : self.size].sum(0, dtype=weight.dtype)
            to_x.addcmul_(row_sum, gradient.everywhere)
        self.grads.x[block.positions] += to_x.view(b, components, self.size)

    def _add_to_words(self, block: _BlockInputs, gradient: _LogitGradient, dense: Tensor) -> None:
        """Add gate(g)ᵀ x to the gradient of the matrix, and Σ g to that of the bias."""
        weight = gradient.weight
        totals = self.grads.matrix, self.grads.bias
        to_matrix, to_bias = (None if total is None else total[block.columns] for total in totals)
        # The bias takes the ungated gradient: here, before the gate overwrites anything, or in the
        # narrow form, which has no gate, by its column in the product.
        bias_column = to_bias if self.narrow else None
        if to_bias is not None and not self.narrow:
            to_bias.addmv_(gradient.dense.T, weight[:, 0])
        if self.options.gate is not None:
            dense = self.options.gate(gradient.dense, block.row_target).to(block.matrix.dtype)
        # The dense part.
        weighted_x = (block.x * weight).to(dense.dtype)
        if to_matrix is not None or bias_column is not None:
            # x has two columns more, [x, 1, 0]. Times the weight, the first is the weight, rounded.
            # The second takes what rounding left out, so that both add up to Σ g for the bias.
            if weighted_x.shape[1] > self.size:
                weighted_x[:, self.size + 1] = weight[:, 0] - weighted_x[:, self.size]
            add_product(to_matrix, bias_column, dense.T, weighted_x, self.size)
        # The terms outside of the softmax.
        if gradient.at_target is None:
            return
        terms = block.target, gradient.at_target, gradient.everywhere
        if to_matrix is not None:
            x = block.x[:, : self.size].to(weight.dtype)
            add_outside_softmax(to_matrix, x, *terms)
        if to_bias is not None:
            add_outside_softmax(to_bias[:, None], torch.ones_like(weight), *terms)

    def _add_to_soft_targets(self, block: _BlockInputs, slopes: dict) -> None:
        """Add g S to the gradient of soft_x and gᵀ soft_x to that of the soft targets' matrix S."""
        if "soft_logits" not in slopes:
            return
        inputs: Any = self.inputs
        g = slopes["soft_logits"] * self.weight[block.positions][:, None]
        if self.grads.soft_x is not None:
            soft_rows = inputs.soft_matrix[block.columns].to(g.dtype)
            self.grads.soft_x[block.positions] += g @ soft_rows
        if self.grads.soft_matrix is not None:
            soft_x = inputs.soft_x[block.positions].to(g.dtype)
            self.grads.soft_matrix[block.columns].addmm_(g.T, soft_x)


def _slopes(statistics: Block, loss: Tensor) -> dict[str, Tensor]:
    """Return the gradients of the loss (b,) by the block's statistics, by name.

    Those by log Z, the target's logit and the log-weights are always there, another only where the
    loss depends on it: an objective may read a statistic and detach it.
    """
    always = "log_z", "target_logit", "log_weights"
    made = vars(statistics)  # a statistic that is made on demand lies there once it was asked for
    leaves = {n: made[n] for n in (*always, "mean_logit", "logits", "soft_logits") if n in made}
    slopes = torch.autograd.grad(loss, [*leaves.values()], torch.ones_like(loss), allow_unused=True)
    slopes = {n: slope for n, slope in zip(leaves, slopes, strict=True) if slope is not None}
    return {n: torch.zeros_like(leaves[n]) for n in always} | slopes
