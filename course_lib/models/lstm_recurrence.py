"""One layer of an LSTM over all time steps, forward and backward, and its fused form on a GPU."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor


def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return h and c' after one step: c' = σ(f) c + σ(i) tanh(g),  h = σ(o) tanh(c').

    gates: (B, 4u) before their nonlinearities, in the order o i f g.
    cell: c, (B, u).

    The tests compare `LSTMRecurrence` with this definition, and they compare `fused_layer` with
    `LSTMRecurrence`.
    """
    o, i, f, g = gates.chunk(4, dim=-1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


class LSTMRecurrence(torch.autograd.Function):
    """All T steps of one layer, with a backward written out.

    Autograd would record about fifteen small operations a step; at batch 20 their bookkeeping
    costs more than their arithmetic. Here only the product with the hidden state is sequential:
    the inputs' products and the gradients of all weights are one product over all steps each, and
    the factors that do not depend on the recurrence are computed for all steps at once. The gates'
    order o i f g puts the three sigmoids side by side, and the three gates that act through the
    cell.
    """

    @staticmethod
    def forward(ctx, x, weight, bias, recurrent, mask, hidden, cell, dtype):
        """Return masked outputs (T, B, u), the last unmasked hidden state, the last cell state.

        x: (T, B, size).
        weight, bias, recurrent: (4u, size), (4u,) and (4u, u), the gates in the order o i f g.
        mask: (B, u), multiplies the hidden state wherever it goes; or None.
        hidden, cell: (B, u), the state at the start.
        dtype: of the matrix products; the states stay in the type of `cell`.
        """
        steps, batch, _ = x.shape
        units = cell.shape[-1]

        # The inputs' part of all gates, of all steps at once.
        x = x.to(dtype)
        same = dtype == cell.dtype
        if same:
            rows = torch.addmm(bias.to(dtype), x.flatten(0, 1), weight.to(dtype).T)
        else:  # widened, then added to: a sum of two types takes thrice as long
            rows = torch.mm(x.flatten(0, 1), weight.to(dtype).T).to(cell.dtype)
            rows.add_(bias.to(cell.dtype))
        gates = rows.view(steps, batch, 4 * units)

        # Where every step writes: cells, their tanh, and outputs, which the next step's product
        # reads. The first rows of cells and outputs are the state at the start.
        matrix, times, width = _arranged(recurrent.to(dtype).T, steps, batch)
        cells = cell.new_empty(steps + 1, batch, units)
        cells[0] = cell
        tanhs = cell.new_empty(steps, batch, units)
        wider, outputs = _padded(cell.new_empty, (steps + 1, batch, units), width, dtype)
        outputs[0] = hidden if mask is None else hidden * mask

        # A view for each step, all made at once, which is quicker than one by one in the loop.
        before, after = wider[:-1].unbind(), outputs[1:].unbind()
        c_before, c_after = cells[:-1].unbind(), cells[1:].unbind()
        sigmoids = gates[..., : 3 * units].unbind()
        tangents = gates[..., 3 * units :].unbind()
        o, i, f = (gates[..., k * units : (k + 1) * units].unbind() for k in range(3))

        # The recurrence: gates, c' = σ(f) c + σ(i) tanh(g), h = σ(o) tanh(c'). h is written into
        # one tensor, then copied: an output of another type would cost a fresh tensor a step.
        last = torch.empty_like(cell)
        masked = torch.empty_like(cell)
        for t, (gate, tanh) in enumerate(zip(gates.unbind(), tanhs.unbind(), strict=True)):
            if same:
                gate.addmm_(before[t], matrix)
            else:
                gate.add_(times(before[t]))
            sigmoids[t].sigmoid_()
            tangents[t].tanh_()
            torch.mul(f[t], c_before[t], out=c_after[t])
            c_after[t].addcmul_(i[t], tangents[t])
            torch.tanh(c_after[t], out=tanh)
            torch.mul(o[t], tanh, out=last)
            if mask is None:
                after[t].copy_(last)
            else:
                after[t].copy_(torch.mul(last, mask, out=masked))
        ctx.save_for_backward(x, weight, bias, gates, cells, tanhs, outputs, recurrent, mask)
        ctx.dtype = dtype
        return outputs[1:], last, cells[steps]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_outputs, grad_last, grad_cell):
        """Return the gradients of the tensors that `forward` takes, and None for the others."""
        x, weight, bias, gates, cells, tanhs, outputs, recurrent, mask = ctx.saved_tensors
        steps, batch, units = tanhs.shape

        # The local slopes come first, for all steps at once. They say how h changes with c and with
        # o before its nonlinearity, and how c changes with i, f and g before theirs. The mask is no
        # part of them: it multiplies each gradient that reaches h through a masked output.
        by_gate = gates.view(steps, batch, 4, units)
        o, i, f, g = by_gate.unbind(2)
        slopes = torch.empty_like(by_gate)
        to_o, to_i, to_f, to_g = slopes.unbind(2)
        sigmoid = torch.ops.aten.sigmoid_backward
        tanh = torch.ops.aten.tanh_backward
        sigmoid(tanhs, o, grad_input=to_o)  # tanh(c) · o (1 − o)
        sigmoid(g, i, grad_input=to_i)
        sigmoid(cells[:-1], f, grad_input=to_f)
        tanh(i, g, grad_input=to_g)  # i (1 − g²)
        to_cell = tanh(o, tanhs)

        # The loop overwrites the slopes with the gates' gradient, which is `wide`, in the states'
        # type. Where the products have another type, `flat` is a copy in that type, and `wider` is
        # the same copy with the columns of zeros that `times` needs.
        matrix, times, width = _arranged(recurrent.to(ctx.dtype), steps, batch)
        wide = slopes.view(steps, batch, 4 * units)  # becomes the gates' gradient, step by step
        wider = flat = wide
        if wide.dtype != ctx.dtype:
            wider, flat = _padded(wide.new_empty, wide.shape, width, ctx.dtype)
        d_outputs = grad_outputs.to(gates.dtype, copy=True)
        if mask is not None:
            d_outputs *= mask
        d_outputs[-1] += grad_last
        d_cell = grad_cell[:, None].clone()  # (B, 1, u): one for the three gates i, f and g

        # A view for each step.
        through_h = slopes[:, :, 0].unbind()
        through_c = slopes[:, :, 1:].unbind()
        cell_slopes = to_cell.unbind()
        forget = f.unbind()
        d_hidden = d_outputs.unbind()
        wides, flats, widers = wide.unbind(), flat.unbind(), wider.unbind()

        # The loop goes from the last step to the first. The gradient of h comes from the output and
        # from the next step's gates. The gradient of c comes from h and from the next cell. Both
        # then multiply the slopes of this step's gates.
        in_place = flat is wide and mask is None
        for t in range(steps - 1, -1, -1):
            d = d_hidden[t]
            if t < steps - 1 and in_place:
                d.addmm_(flats[t + 1], matrix)
            elif t < steps - 1:
                from_next = times(widers[t + 1])
                d.add_(from_next) if mask is None else d.addcmul_(from_next, mask)
            d_cell[:, 0].addcmul_(d, cell_slopes[t])
            through_h[t].mul_(d)
            through_c[t].mul_(d_cell)
            if flat is not wide:
                flats[t].copy_(wides[t])
            d_cell[:, 0].mul_(forget[t])

        # The gradients of the state at the start, of the weights, and of the inputs.
        d_first = None
        if ctx.needs_input_grad[5]:  # not of a state that was detached
            d_first = times(widers[0]).to(gates.dtype)
            d_first = d_first if mask is None else d_first * mask
        rows = flat.flatten(0, 1)
        # oneDNN arranges a transposed matrix of a half type by itself, but takes as long as for the
        # product, and anew for each.
        columns = rows.T if rows.is_cuda or rows.element_size() > 2 else _in_rows(rows.T)
        d_recurrent = columns @ outputs[:-1].flatten(0, 1)
        d_weight = columns @ x.flatten(0, 1)
        d_x = (rows @ weight.to(ctx.dtype)).view_as(x) if ctx.needs_input_grad[0] else None
        return (
            d_x,
            d_weight.to(weight.dtype),
            wide.flatten(0, 1).sum(0, dtype=bias.dtype),
            d_recurrent.to(recurrent.dtype),
            None,
            d_first,
            d_cell[:, 0],
            None,
        )


_MANY = 32  # steps from which a copy of the recurrent matrix, arranged for its products, pays


@functools.cache
def _packs() -> bool:
    """Return whether this build has the operations used below, and the processor what they need."""
    onednn = torch.ops.mkldnn
    needed = "_is_mkldnn_bf16_supported", "_reorder_linear_weight", "_linear_pointwise"
    return all(hasattr(onednn, name) for name in needed) and onednn._is_mkldnn_bf16_supported()


def _arranged(
    matrix: Tensor, steps: int, batch: int
) -> tuple[Tensor, Callable[[Tensor], Tensor], int]:
    """Arrange a matrix for a product with another x at every step.

    matrix: (k, n).
    steps: how many products there will be.
    batch: rows of each x (batch, k).

    Returns the matrix, the function x → x @ matrix, and the width of the x that it takes, which
    has zeros behind its k columns.

    For bfloat16 oneDNN arranges the matrix anew at every product, which at batch 20 takes as long
    as the product itself. Its operations for linear layers, which `torch.compile` uses, take a
    matrix that was arranged once. AMX multiplies 32 columns at once. A last group of fewer columns
    costs up to half of the time again, so the width is filled up to a multiple of 32.
    """
    if steps < _MANY:
        return matrix, matrix.__rmatmul__, len(matrix)
    if matrix.dtype == torch.bfloat16 and not matrix.is_cuda and _packs():
        onednn = torch.ops.mkldnn
        width = -(-len(matrix) // 32) * 32
        rows = matrix.new_zeros(matrix.shape[1], width)
        _copied(matrix.T, rows[:, : len(matrix)])
        packed = onednn._reorder_linear_weight(rows, batch)
        return matrix, lambda x: onednn._linear_pointwise(x, packed, None, "none", [], ""), width
    matrix = _aligned(matrix)
    return matrix, matrix.__rmatmul__, len(matrix)


def _padded(new: Callable[..., Tensor], shape, width: int, dtype) -> tuple[Tensor, Tensor]:
    """Return a tensor whose last dimension is `width`, and the part of it that has the shape.

    new: makes an uninitialised tensor.
    shape: of the part.
    width: of the whole; what lies behind the part is zero.
    dtype: of both.
    """
    *others, columns = shape
    wider = new(*others, width, dtype=dtype)
    wider[..., columns:] = 0
    return wider, wider[..., :columns]


def _aligned(matrix: Tensor) -> Tensor:
    """Return a copy in row-major order whose rows begin at multiples of 64 bytes."""
    rows, columns = matrix.shape
    unit = 64 // matrix.element_size()
    return _copied(matrix, matrix.new_empty(rows, -(-columns // unit) * unit)[:, :columns])


def _in_rows(matrix: Tensor) -> Tensor:
    """Return the matrix in row-major order."""
    return matrix if matrix.is_contiguous() else _copied(matrix, matrix.new_empty(matrix.shape))


def _copied(matrix: Tensor, to: Tensor) -> Tensor:
    """Copy a matrix, a few columns at a time, into another and return that.

    Where columns are rows in memory, copying all at once takes thrice as long.
    """
    width = matrix.shape[1] if matrix.is_contiguous() else 256
    for column, part in zip(to.split(width, 1), matrix.split(width, 1), strict=True):
        column.copy_(part)
    return to


def fused_layer(x, weight, recurrent, biases, h, c) -> tuple[Tensor, Tensor, Tensor]:
    """Run one layer by PyTorch's own LSTM.

    On a GPU that is cuDNN, which is the fastest way where no hidden state is masked.

    x: (T, B, size).
    weight, recurrent, biases: (4u, size), (4u, u) and two of (4u,), the gates in the order o i f g.
    h, c: (B, u), the state at the start.

    Returns outputs (T, B, u), h and c. The outputs have the type of the products; h and c keep the
    type that they came with.
    """

    def reorder(gates):  # as cuDNN wants them
        o, i, f, g = gates.chunk(4)
        return torch.cat([i, f, g, o])

    weights = [reorder(w) for w in (weight, recurrent, *biases)]
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weights = x.to(dtype), [w.to(dtype) for w in weights]
    start = (h[None].to(x.dtype), c[None].to(x.dtype))
    with torch.autocast(x.device.type, enabled=False):
        y, new_h, new_c = torch.lstm(x, start, weights, True, 1, 0.0, True, False, False)
    return y, new_h[0].to(h.dtype), new_c[0].to(c.dtype)
