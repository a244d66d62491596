"""How fast a spectrum falls: the two laws of wang2020, section 4.2, fitted to singular values.

Fits are least squares in log σ, where a relative error counts the same at every k. In σ itself the
few largest values would decide alone. But for the exponential's γ both laws are linear in their
logarithms, so that the best fit needs no starting values.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from course_lib.errors import CourseError
from course_lib.metrics.inputs import Numbers, as_numbers

GAMMAS = np.geomspace(0.02, 20, 121)  # where the exponential's γ is sought; refined between two


@dataclass(frozen=True)
class Exponential:
    """σ_k = c1 exp(−c2 k^γ), k = 1, 2, … (wang2020, 𝒫_e)."""

    c1: float
    c2: float
    gamma: float

    def __call__(self, k: Numbers) -> np.ndarray:
        return self.c1 * np.exp(-self.c2 * np.asarray(k, dtype=float) ** self.gamma)


@dataclass(frozen=True)
class Polynomial:
    """σ_k = c1 k^(−γ), k = 1, 2, … (wang2020, 𝒫_p)."""

    c1: float
    gamma: float

    def __call__(self, k: Numbers) -> np.ndarray:
        return self.c1 * np.asarray(k, dtype=float) ** -self.gamma


@dataclass(frozen=True)
class Fit:
    """A law, and how well it describes `used` singular values."""

    law: Exponential | Polynomial
    error: float  # root mean square of log σ − log law: 0.1 is a typical error of 10 %
    r2: float  # share of the variance of log σ that the law explains
    used: int


def fit_exponential(values: Numbers) -> Fit:
    """Return the `Exponential` law that fits singular values best, by least squares in log σ.

    For each γ the fit is a line in k^γ; the best γ lies in [0.02, 20]. Towards 0 the law becomes
    the polynomial one. c2 ≥ 0 follows from the order of the values.

    values: (n,), in decreasing order, at least 4; those below n 2⁻⁵² σ_1 are rounding and left out.
    Raises CourseError for what is no such spectrum, or where c1 overflows.
    """
    k, logs = _logarithms(values)

    def line(gamma):
        return _line(k**gamma / k[-1] ** gamma, logs)

    def loss(log_gamma):
        return line(np.exp(log_gamma))[2]

    # the best γ of a grid, refined between its neighbours
    best = int(np.argmin([line(gamma)[2] for gamma in GAMMAS]))
    around = np.log(GAMMAS[[max(best - 1, 0), min(best + 1, len(GAMMAS) - 1)]])
    refined: Any = minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-12})
    gamma = float(min(np.exp(refined.x), GAMMAS[best], key=lambda value: line(value)[2]))

    # its line
    offset, slope, _ = line(gamma)
    if offset > np.log(np.finfo(float).max):
        raise CourseError("c1 overflows: the spectrum is nearer the law of `fit_polynomial`")
    law = Exponential(float(np.exp(offset)), float(-slope / k[-1] ** gamma), gamma)
    return _fit(law, offset + slope * (k / k[-1]) ** gamma, logs)


def fit_polynomial(values: Numbers) -> Fit:
    """Return the `Polynomial` law that fits singular values best: a line in log k.

    values and errors: as `fit_exponential`.
    """
    k, logs = _logarithms(values)
    offset, slope, _ = _line(np.log(k), logs)
    law = Polynomial(float(np.exp(offset)), float(-slope))
    return _fit(law, offset + slope * np.log(k), logs)


def _logarithms(values: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Return k = 1, 2, … and log σ_k, without what rounding makes of zeros."""
    values = as_numbers(values, "singular values")
    if (np.diff(values) > 0).any() or values[-1] < 0:
        raise CourseError("singular values, 0 or more, are needed in decreasing order")
    values = values[values > len(values) * np.finfo(float).eps * values[0]]
    if len(values) < 4:
        raise CourseError(f"a fit needs four singular values above 0 or more, got {len(values)}")
    return np.arange(1.0, len(values) + 1), np.log(values)


def _line(x, y) -> tuple[float, float, float]:
    """Return offset, slope and mean squared error of the line y ≈ offset + slope x."""
    across = x - x.mean()
    slope = across @ (y - y.mean()) / (across @ across)
    offset = y.mean() - slope * x.mean()
    return offset, slope, float(np.mean((y - offset - slope * x) ** 2))


def _fit(law, predicted, logs) -> Fit:
    square = float(np.mean((logs - predicted) ** 2))
    variance = float(np.var(logs))
    # What rounding leaves of a flat spectrum has no variance to explain.
    floor = (8 * np.finfo(float).eps * max(1.0, np.abs(logs).max())) ** 2
    r2 = 1 - square / variance if variance > floor else float(square <= floor)
    return Fit(law, square**0.5, r2, len(logs))
