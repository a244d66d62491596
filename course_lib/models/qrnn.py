"""Quasi-recurrent networks (Bradbury et al. 2017): all products before the recurrence."""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.dropout import entry_dropout, locked_dropout
from course_lib.errors import CourseError
from course_lib.first_order import first_order
from course_lib.machine import accelerated
from course_lib.models.state import check_segment, zeros
from course_lib.ranges import Count, Dropout, Share, checked


def pool(f: Tensor, z: Tensor, start: Tensor) -> Tensor:
    """Return c (T, B, u) with c_t = f_t z_t + (1 − f_t) c_{t−1}, the only recurrence of a QRNN.

    f, z: (T, B, u), after their nonlinearities.
    start: c before the first step, (B, u).

    On a GPU, where a step is a launch for next to no arithmetic, ⌈log₂ T⌉ rounds do all at once.
    """
    return _Pool.apply(f, z, start, accelerated(f))


def _scan(x: Tensor, keep: Tensor) -> Tensor:
    """Return y with y_t = x_t + k_t y_{t−1}, y_{−1} = 0; x, keep (T, B, u), whose k_0 is not used.

    Hillis and Steele (1986): an entry that has gathered s steps takes in the one s steps before it,
    x_t + k_t x_{t−s}, and its factor becomes k_t k_{t−s}. Factors in [0, 1] cannot overflow.
    """
    step = 1
    while step < len(x):
        x = torch.cat([x[:step], torch.addcmul(x[step:], x[:-step], keep[step:])])
        keep = torch.cat([keep[:step], keep[step:] * keep[:-step]])
        step *= 2
    return x


class _Pool(torch.autograd.Function):
    """fo-pooling with a backward written out: a step is one in-place operation in each direction.

    Autograd would record three operations a step, each with a tensor of its own.
    """

    @staticmethod
    def forward(ctx, f, z, start, scan):
        c = z.new_empty(len(z) + 1, *z.shape[1:])
        c[0] = start
        if scan:
            new = f * z
            new[0].addcmul_(1 - f[0], start)
            c[1:] = _scan(new, 1 - f)
        else:
            for f_t, z_t, c_before, c_t in zip(f, z, c[:-1], c[1:], strict=True):
                torch.lerp(c_before, z_t, f_t, out=c_t)
        ctx.save_for_backward(f, z, c)
        ctx.scan = scan
        return c[1:]

    @staticmethod
    @first_order
    def backward(ctx, gradient):
        f, z, c = ctx.saved_tensors
        keep = 1 - f
        if ctx.scan:  # dL/dc_t = g_t + (1 − f_{t+1}) dL/dc_{t+1}, read from the end
            d = _scan(gradient.flip(0), keep.roll(-1, 0).flip(0)).flip(0)
        else:
            d = gradient.clone()  # becomes dL/dc, from the last step to the first
            rows, factors = d.unbind(), keep.unbind()
            for t in range(len(rows) - 1, 0, -1):
                rows[t - 1].addcmul_(rows[t], factors[t])
        return d * (z - c[:-1]), d * f, d[0] * keep[0], None


class QRNN(nn.Module):
    """Layers of products over a window of inputs x̃, each followed by fo-pooling.

        z = tanh(W_z x̃),  f = σ(W_f x̃),  o = σ(W_o x̃),  c_t = f z + (1 − f) c_{t−1},  h = o c

    x̃ ends with the present step. In the first layer it has two steps, in the others one, as in the
    AWD-QRNN whose tables the papers quote: 1550 units in four layers, 2500 for WikiText-103, the
    last layer as wide as a word vector. In training, entries of the matrices are dropped once a
    call, and one mask a sequence drops entries of word vectors and between layers.
    """

    @checked
    def __init__(
        self,
        input_size: Count,
        units: tuple[Count, ...] = (1550, 1550, 1550, 400),
        weight_drop: Dropout = 0.1,
        input_dropout: Dropout = 0.4,
        hidden_dropout: Dropout = 0.25,
        zoneout: Share = 0.0,
    ):
        """Draw the parameters, as `nn.Linear` does; CourseError where there is no layer.

        input_size: numbers in a word vector.
        units: of each layer.
        weight_drop, input_dropout, hidden_dropout: shares dropped of each matrix, of the word
            vectors, of what a layer hands to the next.
        zoneout: share of the units that keep their c at a step in training. In evaluation f is
            what it is on average.
        """
        super().__init__()
        if not units:
            raise CourseError("QRNN needs at least one layer of units")
        self.weight_drop = weight_drop
        self.input_dropout = input_dropout
        self.hidden_dropout = hidden_dropout
        self.zoneout = zoneout
        self.output_size = units[-1]
        self.unrolled = True
        sizes = pairwise([2 * input_size, *units])
        self.layers: Any = nn.ModuleList(nn.Linear(size, 3 * width) for size, width in sizes)

    def forward(self, x: Tensor, state: tuple | None = None) -> tuple[Tensor, tuple]:
        """Return hidden (T, B, u), state (x_T, (c_T of each layer, …)) of x (T, B, input_size)."""
        check_segment(x, state)
        # The state at the start: the last word vector before, and each layer's c.
        if state is None:
            cells = tuple(zeros(x, layer.out_features // 3) for layer in self.layers)
            state = torch.zeros_like(x[0]), cells
        before, cells = state

        # The first layer looks at two steps: the word vector before, and the present one.
        x = locked_dropout(x, self.input_dropout, self.training)
        last = x[-1].clone()  # a view would keep the whole segment
        x = torch.cat([torch.cat([before[None], x[:-1]]), x], dim=-1)

        # Each layer: one product for all gates of all steps, then the recurrence.
        new = []
        for number, (layer, cell) in enumerate(zip(self.layers, cells, strict=True)):
            if number:
                x = locked_dropout(x, self.hidden_dropout, self.training)
            weight = entry_dropout(layer.weight, self.weight_drop, self.training)
            z, f, o = F.linear(x, weight, layer.bias).to(cell.dtype).chunk(3, dim=-1)
            f = f.sigmoid()
            if self.zoneout:
                moving = 1 - self.zoneout
                f = f * (torch.empty_like(f).bernoulli_(moving) if self.training else moving)
            c = pool(f, z.tanh(), cell)
            x = o.sigmoid() * c
            new.append(c[-1].clone())
        return x, (last, tuple(new))
