"""Quasi-recurrent networks (Bradbury et al. 2017): all products before the recurrence."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.dropout import locked_dropout


class _Pool(torch.autograd.Function):
    """c_t = f_t z_t + (1 − f_t) c_{t−1} over T steps: the only sequential part, elementwise.

    f, z (T, B, u); c_0 (B, u) → c (T, B, u). Autograd would record three operations a step, each
    with a tensor of its own; here a step is one in-place operation forward and one backward.
    """

    @staticmethod
    def forward(ctx, f, z, start):
        c = z.new_empty(len(z) + 1, *z.shape[1:])
        c[0], before, after = start, c[:-1].unbind(), c[1:].unbind()
        for f_t, z_t, c_before, c_t in zip(f.unbind(), z.unbind(), before, after, strict=True):
            torch.lerp(c_before, z_t, f_t, out=c_t)
        ctx.save_for_backward(f, z, c)
        return c[1:]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        f, z, c = ctx.saved_tensors
        keep, d = 1 - f, gradient.clone()  # becomes dL/dc, from the last step to the first
        rows, kept = d.unbind(), keep.unbind()
        for t in range(len(rows) - 1, 0, -1):
            rows[t - 1].addcmul_(rows[t], kept[t])
        return d * (z - c[:-1]), d * f, d[0] * keep[0]


class QRNN(nn.Module):
    """Layers of  z = tanh(W_z x̃), f = σ(W_f x̃), o = σ(W_o x̃),  c_t = f z + (1−f) c_{t−1},  h = o c
    (fo-pooling), x̃ the inputs of `window` steps, the last of them the present one.

    The first layer looks at two steps, the others at one, as in the AWD-QRNN whose tables the
    papers quote (1550 units in four layers, 2500 for WikiText-103; the last layer as wide as a word
    vector). In training entries of the matrices are dropped once a call (`weight_drop`), entries of
    word vectors and between layers once a sequence, and with `zoneout` a unit keeps its c.
    """

    def __init__(
        self,
        input_size: int,
        units: tuple[int, ...] = (1550, 1550, 1550, 400),
        weight_drop: float = 0.1,
        input_dropout: float = 0.4,
        hidden_dropout: float = 0.25,
        zoneout: float = 0.0,
    ):
        super().__init__()
        self.weight_drop, self.zoneout = weight_drop, zoneout
        self.input_dropout, self.hidden_dropout = input_dropout, hidden_dropout
        self.output_size, sizes = units[-1], [2 * input_size, *units]
        self.layers = nn.ModuleList(
            nn.Linear(size, 3 * width) for size, width in zip(sizes, sizes[1:], strict=False)
        )

    def forward(self, x: Tensor, state: tuple | None = None) -> tuple[Tensor, tuple]:
        """x (T, B, input_size), state → hidden (T, B, u), state: (x_T, (c_T of each layer, …))."""
        if state is None:
            zeros = [x.new_zeros(x.shape[1], layer.out_features // 3) for layer in self.layers]
            state = torch.zeros_like(x[0]), tuple(zeros)
        before, cells = state
        if self.training:
            x = locked_dropout(x, self.input_dropout)
        last, new = x[-1], []
        x = torch.cat([torch.cat([before[None], x[:-1]]), x], dim=-1)
        for number, (layer, cell) in enumerate(zip(self.layers, cells, strict=True)):
            if number and self.training:
                x = locked_dropout(x, self.hidden_dropout)
            weight = F.dropout(layer.weight, self.weight_drop, self.training)
            z, f, o = F.linear(x, weight, layer.bias).to(cell.dtype).chunk(3, dim=-1)
            f = f.sigmoid()
            if self.training and self.zoneout:
                f = f * torch.empty_like(f).bernoulli_(1 - self.zoneout)
            c = _Pool.apply(f, z.tanh(), cell)
            x = o.sigmoid() * c
            new.append(c[-1])
        return x, (last, tuple(new))
