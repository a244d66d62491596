"""One layer of an LSTM over all time steps, forward and backward, in the quickest of three ways."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.first_order import first_order
from course_lib.machine import accelerated, arranged, arranges, quickest


class LSTMRecurrence(torch.autograd.Function):
    """All T steps of one layer, with a backward written out.

    Autograd would record about fifteen small operations a step, whose bookkeeping costs more than
    their arithmetic at batch 20. Here only the product with the hidden state is done step by step.
    The inputs' part of the gates is one product over all steps, and so is each weight's gradient.
    In the order o i f g the three sigmoid gates lie side by side, and so do the cell's three gates.
    """

    @staticmethod
    def forward(ctx, x, weight, bias, recurrent, mask, hidden, cell, dtype, packed):
        """Return masked outputs (T, B, u), the last unmasked hidden state, the last cell state.

        x: (T, B, size).
        weight, bias, recurrent: (4u, size), (4u,) and (4u, u), the gates in the order o i f g.
        mask: (B, u) or None, multiplies the outputs and what the next step reads of h.
        hidden, cell: (B, u), the state at the start.
        dtype: of the matrix products; the states stay in the type of `cell`.
        packed: whether oneDNN arranges the recurrent matrix once for all steps.
        """
        steps, batch, _ = x.shape
        units = cell.shape[-1]

        # The inputs' part of all gates, of all steps at once.
        ctx.types = weight.dtype, bias.dtype, recurrent.dtype
        x, weight, recurrent = x.to(dtype), weight.to(dtype), recurrent.to(dtype)
        one_type = dtype == cell.dtype
        if one_type:
            rows = torch.addmm(bias.to(dtype), x.flatten(0, 1), weight.T)
        else:  # widened before the sum: a sum of two types takes three times as long
            rows = torch.mm(x.flatten(0, 1), weight.T).to(cell.dtype)
            rows.add_(bias.to(cell.dtype))
        gates = rows.view(steps, batch, 4 * units)

        # Where every step writes: cells, their tanh, and outputs, which the next step's product
        # reads. The first rows of cells and outputs are the state at the start.
        matrix, times, width = _arranged(recurrent.T, steps, batch, packed)
        cells = cell.new_empty(steps + 1, batch, units)
        cells[0] = cell
        tanhs = cell.new_empty(steps, batch, units)
        wider = cell.new_empty(steps + 1, batch, width, dtype=dtype)
        wider[..., units:] = 0
        outputs = wider[..., :units]
        outputs[0] = hidden if mask is None else hidden * mask

        # A view for each step, all made at once, which is quicker than one by one in the loop.
        h_before, h_after = wider[:-1].unbind(), outputs[1:].unbind()
        c_before, c_after = cells[:-1].unbind(), cells[1:].unbind()
        sigmoids = gates[..., : 3 * units].unbind()
        tangents = gates[..., 3 * units :].unbind()
        o, i, f = (gates[..., k * units : (k + 1) * units].unbind() for k in range(3))

        # The recurrence: gates, c' = σ(f) c + σ(i) tanh(g), h = σ(o) tanh(c'). h is written into
        # one tensor, then copied: an output of another type would cost a fresh tensor a step.
        last = torch.empty_like(cell)
        masked = torch.empty_like(cell)
        for t, (gate, tanh) in enumerate(zip(gates.unbind(), tanhs.unbind(), strict=True)):
            if one_type and not packed:
                gate.addmm_(h_before[t], matrix)
            else:
                gate.add_(times(h_before[t]))
            sigmoids[t].sigmoid_()
            tangents[t].tanh_()
            torch.mul(f[t], c_before[t], out=c_after[t])
            c_after[t].addcmul_(i[t], tangents[t])
            torch.tanh(c_after[t], out=tanh)
            torch.mul(o[t], tanh, out=last)
            h_after[t].copy_(last if mask is None else torch.mul(last, mask, out=masked))
        ctx.save_for_backward(x, weight, gates, cells, tanhs, outputs, recurrent, mask)
        ctx.packed = packed
        return outputs[1:], last, cells[steps].clone()  # a view would keep those of all steps

    @staticmethod
    @first_order
    def backward(ctx, grad_outputs, grad_last, grad_cell):
        """Return the gradients of x, weight, bias, recurrent, hidden, cell; None for the rest."""
        x, weight, gates, cells, tanhs, outputs, recurrent, mask = ctx.saved_tensors
        weight_type, bias_type, recurrent_type = ctx.types
        steps, batch, units = tanhs.shape

        # The local slopes come first, for all steps at once: dh/dc and dh/do, dc/di, dc/df and
        # dc/dg, each gate before its nonlinearity. The mask is no part of them: it multiplies each
        # gradient that reaches h through a masked output.
        by_gate = gates.view(steps, batch, 4, units)
        o, i, f, g = by_gate.unbind(2)
        slopes = torch.empty_like(by_gate)
        to_o, to_i, to_f, to_g = slopes.unbind(2)
        sigmoid_slope = torch.ops.aten.sigmoid_backward  # of (a, s): a · s (1 − s)
        tanh_slope = torch.ops.aten.tanh_backward  # of (a, s): a · (1 − s²)
        sigmoid_slope(tanhs, o, grad_input=to_o)
        sigmoid_slope(g, i, grad_input=to_i)
        sigmoid_slope(cells[:-1], f, grad_input=to_f)
        tanh_slope(i, g, grad_input=to_g)
        to_cell = tanh_slope(o, tanhs)

        # The loop overwrites the slopes with the gates' gradient, `d_gates`. Where products have
        # another type, `d_narrow` is a copy in that type, and `d_padded` the same copy with the
        # columns of zeros that `times` needs.
        matrix, times, width = _arranged(recurrent, steps, batch, ctx.packed)
        d_gates = slopes.view(steps, batch, 4 * units)
        d_padded = d_narrow = d_gates
        if d_gates.dtype != x.dtype:
            d_padded = d_gates.new_empty(steps, batch, width, dtype=x.dtype)
            d_padded[..., 4 * units :] = 0
            d_narrow = d_padded[..., : 4 * units]
        d_outputs = grad_outputs.to(gates.dtype, copy=True)
        if mask is not None:
            d_outputs *= mask
        d_outputs[-1] += grad_last  # after the mask: the last hidden state has none
        d_cell = grad_cell[:, None].clone()  # (B, 1, u): one for the three gates i, f and g

        # A view for each step.
        through_h = slopes[:, :, 0].unbind()
        through_c = slopes[:, :, 1:].unbind()
        cell_slopes = to_cell.unbind()
        forget = f.unbind()
        d_hidden = d_outputs.unbind()
        gate_rows, narrow_rows, padded_rows = (d.unbind() for d in (d_gates, d_narrow, d_padded))

        # From the last step to the first. The gradient of h comes from the output and the next
        # step's gates, that of c from h and the next cell. The gradient of h then multiplies the
        # slope of o, that of c the slopes of i, f and g.
        in_place = d_narrow is d_gates and mask is None and not ctx.packed
        for t in range(steps - 1, -1, -1):
            d = d_hidden[t]
            if t < steps - 1 and in_place:
                d.addmm_(narrow_rows[t + 1], matrix)
            elif t < steps - 1:
                from_next = times(padded_rows[t + 1])
                d.add_(from_next) if mask is None else d.addcmul_(from_next, mask)
            d_cell[:, 0].addcmul_(d, cell_slopes[t])
            through_h[t].mul_(d)
            through_c[t].mul_(d_cell)
            if d_narrow is not d_gates:
                narrow_rows[t].copy_(gate_rows[t])
            d_cell[:, 0].mul_(forget[t])

        # The gradients of the state at the start, of the weights, and of the inputs.
        d_first = None
        if ctx.needs_input_grad[5]:  # a detached state needs none
            d_first = times(padded_rows[0]).to(gates.dtype)
            d_first = d_first if mask is None else d_first * mask
        rows = d_narrow.flatten(0, 1)
        columns = rows.T  # in half precision oneDNN would arrange it in each of two products
        if not accelerated(rows) and rows.element_size() == 2:
            columns = _copied(rows.T, rows.new_empty(rows.shape[::-1]))
        d_recurrent = (columns @ outputs[:-1].flatten(0, 1)).to(recurrent_type)
        d_weight = (columns @ x.flatten(0, 1)).to(weight_type)
        d_bias = d_gates.flatten(0, 1).sum(0, dtype=bias_type)
        d_x = (rows @ weight).view_as(x) if ctx.needs_input_grad[0] else None
        return d_x, d_weight, d_bias, d_recurrent, None, d_first, d_cell[:, 0], None, None


SMALL = 1 << 21  # products of a step, below which all ways take about the same time
_MANY = 32  # with fewer steps, copying the recurrent matrix costs more time than it saves


def run_layer(
    x, weight, recurrent, biases, mask, h, c, dtype, way: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one layer in the way that is named, by default the quickest.

    x, weight, recurrent, mask, h, c, dtype: as in `LSTMRecurrence`.
    biases: two of (4u,), which are added.
    way: "loop" is `LSTMRecurrence`, "packed" the same with a recurrent matrix that oneDNN has
        arranged, "torch" is `fused_layer`, which takes no mask.
    """
    if way is None and accelerated(x):
        way = "torch" if mask is None else "loop"
    elif way is None and x.device.type == "cpu":
        steps, batch, size = x.shape
        way = quickest_way(steps, batch, size, h.shape[1], mask is not None, dtype)
    if way == "torch":
        return fused_layer(x, weight, recurrent, biases, h, c, dtype)
    bias = biases[0] + biases[1]
    return LSTMRecurrence.apply(x, weight, bias, recurrent, mask, h, c, dtype, way == "packed")


def quickest_way(steps, batch, size, units, masked=False, dtype=torch.float32) -> str:
    """Return the way in which `run_layer` runs a layer of such sizes on this CPU.

    steps, batch, size, units: T, B, the numbers of an input, and u.
    masked: whether the hidden state has a mask.
    dtype: of the products; only float32 has a choice: torch's layer would round bfloat16's states.

    The processor decides which is quicker, so the first call measures a forward pass of each and,
    where gradients are recorded, a backward pass; T is rounded down to a power of two, 32 at most.
    A small layer runs by "loop" without a measurement, so that its last digits are always the same.
    """
    if dtype == torch.float32 and 4 * units * units * batch < SMALL:
        return "loop"
    if dtype != torch.float32 or not arranges(dtype):
        return "packed" if steps >= _MANY and arranges(dtype) else "loop"
    learns = torch.is_grad_enabled()
    steps = min(1 << (steps.bit_length() - 1), _MANY)
    wide = 4 * units
    shapes = (batch, units), (steps, batch, size), (wide, size), (wide, units), (wide,)
    # Nothing is made for an answer that is known.
    made = functools.cache(lambda: [torch.full(s, 0.01, device="cpu") for s in shapes])

    def run(way):
        h, *leaves = made()
        x, weight, recurrent, bias = (leaf.requires_grad_(learns) for leaf in leaves)
        y, *_ = run_layer(x, weight, recurrent, [bias] * 2, h if masked else None, h, h, dtype, way)
        if learns:
            torch.autograd.grad(y.sum(), leaves)

    ways = {way: functools.partial(run, way) for way in ("loop", "packed", "torch")[: 3 - masked]}
    case = f"{', masked' * masked}{', trained' * learns}"
    return quickest(f"LSTM layer, {steps} × {batch} × {size} → {units}{case}", ways)


def _arranged(
    matrix: Tensor, steps: int, batch: int, packed: bool
) -> tuple[Tensor, Callable[[Tensor], Tensor], int]:
    """Arrange a matrix for a product with another x at every step.

    matrix: (k, n), for as many products as there are `steps`, each with an x (batch, k).
    packed: whether oneDNN arranges it.
    Returns the matrix, the function x → x @ matrix, and the width of the x that the function takes,
    which has zeros behind its k columns.

    For bfloat16 at batch 20 arranging takes as long as the product. AMX multiplies 32 columns at
    once. A last group of fewer columns costs up to half of the time again, so bfloat16's width is
    filled up to a multiple of 32.
    """
    if packed:
        width = len(matrix) if matrix.dtype == torch.float32 else -(-len(matrix) // 32) * 32
        rows = matrix.new_zeros(matrix.shape[1], width)
        _copied(matrix.T, rows[:, : len(matrix)])
        return matrix, arranged(rows, batch), width
    if steps >= _MANY:  # in row-major order, each row from a multiple of 64 bytes
        rows, columns = matrix.shape
        unit = 64 // matrix.element_size()
        matrix = _copied(matrix, matrix.new_empty(rows, -(-columns // unit) * unit)[:, :columns])
    return matrix, lambda x: x @ matrix, len(matrix)


def _copied(matrix: Tensor, to: Tensor) -> Tensor:
    """Copy a matrix into another, columns in groups: all at once takes three times as long."""
    width = matrix.shape[1] if matrix.is_contiguous() else 256
    for column, part in zip(to.split(width, 1), matrix.split(width, 1), strict=True):
        column.copy_(part)
    return to


def fused_layer(x, weight, recurrent, biases, h, c, dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Run one layer by PyTorch's own LSTM: cuDNN on a GPU, oneDNN on a CPU in float32.

    The outputs have the products' `dtype`; h and c keep their type, rounded to `dtype`.
    """
    # From the order o i f g to i f g o, one behind the other in one tensor: cuDNN would otherwise
    # copy them there at every call.
    given, units = (weight, recurrent, *biases), h.shape[1]
    flat = torch.cat([w.to(dtype).roll(-units, 0).flatten() for w in given])
    parts = flat.split([w.numel() for w in given])
    weights = [part.view_as(w) for part, w in zip(parts, given, strict=True)]
    x = x.to(dtype)
    start = (h[None].to(x.dtype), c[None].to(x.dtype))
    with torch.autocast(x.device.type, enabled=False):
        y, new_h, new_c = torch.lstm(x, start, weights, True, 1, 0.0, True, False, False)
    return y, new_h[0].to(h.dtype), new_c[0].to(c.dtype)
