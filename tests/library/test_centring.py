"""Repairs of a trained word matrix: what they change and what they leave."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from course_lib.output_layers.centring import all_but_the_top, centred

pytestmark = pytest.mark.usefixtures("device")

shapes = given(n=st.integers(1, 25), d=st.integers(1, 8), seed=st.integers(0, 999))


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def equal(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@shapes
@settings(max_examples=40, deadline=None)
def test_centred_keeps_every_probability(n, d, seed):
    """log P of a softmax with a bias, for the plain and for any weighted mean."""
    W, hidden, bias = draw(n, d, seed=seed) + 2, draw(5, d, seed=seed + 1), draw(n, seed=seed + 2)
    before = (hidden @ W.T + bias).log_softmax(-1)
    weights = draw(n, seed=seed + 3).square()
    equal(centred(W), W - W.mean(0))
    equal(centred(W, weights), W - (weights[:, None] * W).sum(0) / weights.sum())
    for repaired in (centred(W), centred(W, weights)):
        equal((hidden @ repaired.T + bias).log_softmax(-1), before)
    equal(centred(W).mean(0), torch.zeros(d, dtype=W.dtype))
    equal(weights @ centred(W, weights), torch.zeros(d, dtype=W.dtype))
    equal(centred(W, torch.full((n,), 3)), centred(W))  # counts may be integers
    equal(centred(centred(W)), centred(W))


@shapes
@settings(max_examples=40, deadline=None)
def test_all_but_the_top_is_the_published_formula(n, d, seed):
    W = draw(n, d, seed=seed) + 2
    for components in range(min(n - 1, d) + 1):  # a cloud of n points has n − 1 components
        C = W - W.mean(0)
        axes = torch.linalg.svd(C, full_matrices=False).Vh[:components]
        equal(all_but_the_top(W, components), C - C @ axes.T @ axes)
    equal(all_but_the_top(W, 0), centred(W))
    equal(all_but_the_top(W, d), torch.zeros_like(W))


@pytest.mark.parametrize(("d", "components"), [(3, 1), (100, 1), (160, 2), (300, 3), (640, 6)])
def test_the_default_is_a_hundredth_of_the_dimensions(d, components):
    W = draw(40, d)
    equal(all_but_the_top(W), all_but_the_top(W, components))
    rank = torch.linalg.matrix_rank(all_but_the_top(W), rtol=1e-10).item()
    assert rank == min(39, d) - components


def test_all_but_the_top_leaves_the_rest_of_the_spectrum_and_any_rotation():
    W, rotation = draw(30, 6) + 1, torch.linalg.qr(draw(6, 6, seed=1)).Q
    repaired = all_but_the_top(W, 2)
    left, before = torch.linalg.svdvals(repaired), torch.linalg.svdvals(centred(W))
    equal(left, torch.cat([before[2:], torch.zeros(2, dtype=W.dtype)]))
    equal(repaired.mean(0), torch.zeros(6, dtype=W.dtype))
    equal(all_but_the_top(W @ rotation, 2), repaired @ rotation)
    equal(all_but_the_top(W + draw(6, seed=2), 2), repaired)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_type_of_the_matrix_precision_of_float64(dtype):
    """A mean far larger than the rows' differences, which sums in W's own type would lose."""
    W = (draw(3000, 4) + 100).to(dtype)
    for repaired, exact in (
        (centred(W), centred(W.double())),
        (all_but_the_top(W, 1), all_but_the_top(W.double(), 1)),
    ):
        assert repaired.dtype == dtype
        assert torch.equal(repaired, exact.to(dtype))


def test_the_matrix_itself_is_left_alone():
    W = torch.nn.Parameter(draw(6, 3))
    before = W.detach().clone()
    for repaired in (centred(W), centred(W, torch.ones(6)), all_but_the_top(W), centred(W * 1)):
        assert not repaired.requires_grad
        repaired.zero_()
    assert torch.equal(W, before)


def test_bad_input_is_refused():
    W = draw(4, 3)
    weights = ([1, 1, 1], [1, 1, 1, -1], [0, 0, 0, 0], [1, 1, 1, float("nan")])
    for bad in map(torch.tensor, weights):
        with pytest.raises(ValueError, match="weights must be 4 numbers"):
            centred(W, bad)
    for components in (-1, 4):
        with pytest.raises(ValueError, match="between 0 and d = 3"):
            all_but_the_top(W, components)
    for repair in (centred, all_but_the_top):
        for bad in (draw(4), torch.ones(4, 3, dtype=torch.long), draw(0, 3)):
            with pytest.raises(ValueError, match="floating-point matrix"):
                repair(bad)
        with pytest.raises(ValueError, match="not finite"):
            repair(W.clone().fill_(torch.inf))
