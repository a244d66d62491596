"""Decay laws: exact on their own spectra, least squares on others."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.errors import CourseError
from course_lib.metrics.decay import (
    Exponential,
    Fit,
    Polynomial,
    fit_exponential,
    fit_polynomial,
)

pytestmark = pytest.mark.usefixtures("device")

few = settings(max_examples=30, deadline=None)
sizes, scales = st.integers(10, 400), st.floats(1e-2, 1e3)


@few
@given(sizes, scales, st.floats(0.05, 4), st.floats(0.3, 3))
def test_an_exponential_spectrum_gives_back_its_law(n, c1, depth, gamma):
    """`depth` is log σ_1/σ_n, so that no value is lost in rounding."""
    law = Exponential(c1, depth / n**gamma, gamma)
    fit = fit_exponential(torch.as_tensor(law(np.arange(1, n + 1))))
    assert (fit.law.c1, fit.law.c2, fit.law.gamma) == pytest.approx(
        (law.c1, law.c2, law.gamma), rel=1e-4
    )
    assert fit.error < 1e-7 and fit.r2 == pytest.approx(1) and fit.used == n


@few
@given(sizes, scales, st.floats(0.01, 3))
def test_a_polynomial_spectrum_gives_back_its_law(n, c1, gamma):
    fit = fit_polynomial(Polynomial(c1, gamma)(np.arange(1, n + 1)))
    assert fit.r2 == pytest.approx(1)
    assert (fit.law.c1, fit.law.gamma) == pytest.approx((c1, gamma), rel=1e-9)


def test_laws_are_their_formulas():
    assert Exponential(2.0, 0.5, 2.0)([1, 3]) == pytest.approx(2 * np.exp([-0.5, -4.5]))
    assert Polynomial(6.0, 2.0)([1, 2]) == pytest.approx([6, 1.5])


@few
@given(st.integers(0, 2**32 - 1), st.integers(20, 100))
def test_no_neighbouring_law_fits_a_noisy_spectrum_better(seed, n):
    random = np.random.default_rng(seed)
    values = np.sort(np.exp(random.normal(size=n)))[::-1]
    k, logs = np.arange(1, n + 1), np.log(values)

    def loss(law):
        return np.sqrt(np.mean((logs - np.log(law(k))) ** 2))

    for fit in (fit_exponential(values), fit_polynomial(values)):
        assert fit.error == pytest.approx(loss(fit.law))
        assert fit.r2 == pytest.approx(1 - fit.error**2 / logs.var())
        parameters = vars(fit.law)
        for name, value in parameters.items():
            for factor in (0.999, 1.001):
                moved = type(fit.law)(**{**parameters, name: value * factor})
                assert loss(moved) >= fit.error * (1 - 1e-9)
    assert fit_exponential(values).error <= fit_polynomial(values).error * 1.001


@few
@given(st.floats(1e-3, 1e3))
def test_scaling_a_spectrum_scales_c1_alone(scale):
    values = np.sort(np.random.default_rng(0).gamma(1.0, size=50))[::-1]
    fit, scaled = fit_exponential(values), fit_exponential(scale * values)
    assert scaled.law.c1 == pytest.approx(scale * fit.law.c1, rel=1e-5)
    assert (scaled.law.c2, scaled.law.gamma) == pytest.approx((fit.law.c2, fit.law.gamma), rel=1e-5)
    assert scaled.error == pytest.approx(fit.error, rel=1e-9)


def test_a_flat_spectrum_is_explained_whole():
    flat = fit_polynomial(np.full(20, 3.0))
    assert isinstance(flat, Fit) and flat.r2 == 1
    assert flat.law.gamma == pytest.approx(0, abs=1e-12) and flat.law.c1 == pytest.approx(3)


def test_what_rounding_leaves_of_zeros_is_left_out():
    values = Polynomial(1, 0.5)(np.arange(1, 31))
    fit = fit_polynomial(np.r_[values, np.full(10, 1e-17), np.zeros(10)])
    assert fit.used == 30 and fit.law.gamma == pytest.approx(0.5)


@pytest.mark.parametrize("fit", [fit_exponential, fit_polynomial])
def test_rounding_grows_with_the_number_of_values(fit):
    """Of 21 values those below 21 · 2⁻⁵² σ_1 are left out."""
    values = Polynomial(3.0, 0.5)(np.arange(1, 21))
    for factor, used in ((2, 20), (20, 20), (22, 21)):
        assert fit(np.r_[values, factor * np.finfo(float).eps * values[0]]).used == used


def test_a_law_that_overflows_is_refused():
    values = np.arange(1.0, 6) ** -20
    with pytest.raises(CourseError, match="fit_polynomial"):
        fit_exponential(values)
    assert fit_polynomial(values).law.gamma == pytest.approx(20)


@pytest.mark.parametrize("fit", [fit_exponential, fit_polynomial])
@pytest.mark.parametrize(
    "values, message",
    [
        (np.eye(3), r"got shape \(3, 3\)"),
        ([3.0, 2.0, np.nan, 1.0], "finite numbers"),
        ([3.0, 2.0, 1.0, 0.5, -1.0], "0 or more"),
        ([1.0, 2.0, 1.0, 1.0], "decreasing order"),
        ([3.0, 2.0, 1.0, 0.0], "four singular values above 0 or more, got 3"),
        ([], r"got shape \(0,\)"),
    ],
)
def test_what_is_no_spectrum_is_named(fit, values, message):
    with pytest.raises(CourseError, match=message):
        fit(values)
