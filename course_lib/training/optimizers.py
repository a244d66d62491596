"""Optimisers beyond PyTorch's: two with fewer second moments for words, and several at once."""

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from course_lib.errors import CourseError


class _OneByOne(Optimizer):
    """An optimiser that moves one parameter after the other; a variant says how, by `move`."""

    def move(self, W: Tensor, g: Tensor, group: dict[str, Any], state: dict[str, Any]) -> None:
        """Move W, already decayed, by its gradient g; `state` is empty at the first call."""
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Move every parameter that has a gradient."""
        with torch.enable_grad():
            loss = closure() if closure else None
        for group in self.param_groups:
            for W in group["params"]:
                if W.grad is not None:
                    W.mul_(1 - group["lr"] * group["weight_decay"])
                    self.move(W, W.grad, group, self.state[W])
        return loss


class CoupledAdam(_OneByOne):
    """AdamW whose second moment is the mean over the rows of a matrix W (N, d).

    m ← β₁ m + (1−β₁) g,  v ← β₂ v + (1−β₂) mean_i g_i²,  both divided by 1 − βᵗ,
    W ← (1 − η λ) W − η m̂ / (√v̂ + ε), with v (d,) shared by all rows.

    An output layer's gradients of W sum to zero over the words. Adam divides those of each word by
    its own √v̂_i, which is smaller the rarer the word, so that its updates do not sum to zero, and
    the mean of W drifts. With one v̂ for all words they do (Stollenwerk & Stollenwerk 2025, "Better
    Embeddings with Coupled Adam"). It is meant for word matrices; a vector's v is one number.

    Naive: AdamW's formulas with `v_hat.mean(0, keepdim=True)` in place of v_hat.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def move(self, W: Tensor, g: Tensor, group: dict[str, Any], state: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        square = g.square().mean(0)
        if not state:  # the count lies on the device, so that no step waits for it
            state["step"] = torch.zeros((), dtype=torch.float64, device=W.device)
            state["exp_avg"] = torch.zeros_like(W)
            state["exp_avg_sq"] = torch.zeros_like(square)
        t = state["step"].add_(1)
        m = state["exp_avg"].lerp_(g, 1 - beta1)
        v = state["exp_avg_sq"].lerp_(square, 1 - beta2)
        deviation = (v / (1 - beta2**t)).sqrt() + group["eps"]
        W.addcdiv_(m, deviation * (1 - beta1**t), value=-group["lr"])


class Ember(_OneByOne):
    """Adam without a first moment, whose second moment of a matrix (N, d) is a row times a column.

        r_i ← β₂ r_i + (1−β₂) mean_j g_ij²                over all rows
        c_j ← β₂ c_j + (1−β₂) mean_i g_ij²                over the rows whose gradient is not 0
        v̂_ij = ĉ_j r_i / mean r,    W ← (1 − η λ) W − η g / (√v̂ + ε),    ĉ = c / (1 − β₂ᵗ)

    A batch reads few words. Adam's v of all others falls with each step, entry by entry, and the
    author of Ember finds that Adam's steps are far too large where a rare word returns. Ember keeps
    one falling number for a row; the proportions of the row's entries come from the rows in use.
    Its author takes it for both matrices. One that predicts has a gradient in every row; the rule
    is then that of Adafactor (Shazeer & Stern 2018).
    Naive: `v = r[:, None] * c / r.mean(); W - lr * g / (v**0.5 + eps)`.
    Source: "Token Geometry" (arXiv 2607.01455), whose code is github.com/katop1234/ember.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, dict(lr=lr, beta2=beta2, eps=eps, weight_decay=weight_decay))

    def move(self, W: Tensor, g: Tensor, group: dict[str, Any], state: dict[str, Any]) -> None:
        beta2 = group["beta2"]
        square = g.square()
        in_use = (square.sum(1) > 0).sum().clamp(min=1)
        row, column = square.mean(1), square.sum(0) / in_use
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float64, device=W.device)
            state["row"] = torch.zeros_like(row)
            state["column"] = torch.zeros_like(column)
        t = state["step"].add_(1)
        r = state["row"].lerp_(row, 1 - beta2)
        c = state["column"].lerp_(column, 1 - beta2) / (1 - beta2**t)
        # A row without a gradient so far has r = 0, and does not move.
        scale = r.mean().clamp(min=torch.finfo(r.dtype).tiny)
        deviation = (r[:, None] / scale * c).sqrt() + group["eps"]
        W.addcdiv_(g, deviation, value=-group["lr"])


class Together(Optimizer):
    """Several optimisers of different parameters, stepped as one.

    `param_groups` and `state` show those of all, so that schedules and checkpoints see one.
    """

    def __init__(self, optimizers: list[Optimizer]):
        self.optimizers: list[Optimizer] = list(optimizers)
        self.defaults: dict = {}  # it has none of its own

    @property
    def param_groups(self) -> list[dict]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the groups of all, in order."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    @property
    def state(self) -> dict:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The slots by parameter, those of its optimiser themselves, so they can be filled."""
        return {
            parameter: optimizer.state[parameter]
            for optimizer in self.optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }

    def state_dict(self) -> dict:
        """Return the states of all optimisers, in order."""
        return {"optimizers": [optimizer.state_dict() for optimizer in self.optimizers]}

    def load_state_dict(self, state_dict: dict) -> None:
        """Restore what `state_dict` returned."""
        for optimizer, state in zip(self.optimizers, state_dict["optimizers"], strict=True):
            optimizer.load_state_dict(state)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict) -> None:
        """Refuse: nobody knows which of them is meant."""
        raise CourseError("give the group to one of `optimizers`: together they have none")

    def step(self, closure: Any = None) -> Any:
        """Step each."""
        loss = closure() if closure else None
        for optimizer in self.optimizers:
            optimizer.step()
        return loss
