"""The theorems of wang2019, on random numbers and with certificates."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from course_lib.errors import CourseError
from course_lib.theory import (
    adversarial_probability,
    energy,
    margin_witness,
    recognition_bound,
    worst_perturbation,
)

seeds = st.integers(0, 2**32 - 1)
shapes = st.tuples(st.integers(2, 30), st.integers(1, 8))
epsilons = st.floats(0, 2)
few = settings(max_examples=40, deadline=None)


def draw(seed, *shape):
    """Standard normal numbers in float64."""
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def ball(seed, epsilon, *shape):
    """Vectors (…, d) of norm at most epsilon."""
    vectors = F.normalize(draw(seed, *shape), dim=-1)
    radii = torch.from_numpy(np.random.default_rng(seed).uniform(size=shape[:-1]))
    return epsilon * radii[..., None] * vectors


def softmax(i, W, h):
    return (W @ h).softmax(0)[i]


@few
@given(seeds, shapes, epsilons)
def test_adversarial_probability_is_the_softmax_with_the_moved_row(seed, shape, epsilon):
    W, h, i = draw(seed, *shape).requires_grad_(), draw(seed + 1, shape[1]), seed % shape[0]
    h.requires_grad_()
    V = torch.cat([W[:i], W[i : i + 1] + worst_perturbation(h, epsilon), W[i + 1 :]])
    naive, fast = softmax(i, V, h), adversarial_probability(W, h, i, epsilon)
    torch.testing.assert_close(fast, naive, rtol=1e-10, atol=0)
    for ours, theirs in zip(*(torch.autograd.grad(p, (W, h)) for p in (fast, naive)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-14)


@few
@given(seeds, shapes, epsilons)
def test_no_perturbation_of_the_ball_is_worse(seed, shape, epsilon):
    """Theorem 3.1, both forms: the target row alone by ε, or every row by ε/2."""
    W, h, i = draw(seed, *shape), draw(seed + 1, shape[1]), seed % shape[0]
    least = adversarial_probability(W, h, i, epsilon)
    worst = worst_perturbation(h, epsilon)
    assert worst.norm() == pytest.approx(epsilon)
    assert (W[i] + worst) @ h == pytest.approx(float(W[i] @ h - epsilon * h.norm()), abs=1e-12)
    for moved in ball(seed + 2, epsilon, 200, shape[1]):
        assert (W[i] + moved) @ h >= (W[i] + worst) @ h - 1e-12
    for moved in ball(seed + 3, epsilon / 2, 200, *shape):
        assert softmax(i, W + moved, h) >= least * (1 - 1e-12)


@settings(max_examples=10, deadline=None)
@given(seeds, shapes, st.floats(0.01, 2))
def test_projected_gradient_finds_the_closed_form(seed, shape, epsilon):
    """Descent over all rows' perturbations, kept in their balls, ends where theorem 3.1 says."""
    W, h, i = draw(seed, *shape), draw(seed + 1, shape[1]), seed % shape[0]
    assume(h.norm() > 0.1)
    moved = ball(seed + 2, epsilon / 2, *shape).requires_grad_()
    for _ in range(200):
        loss = (W + moved) @ h
        (gradient,) = torch.autograd.grad(loss.log_softmax(0)[i], moved)
        with torch.no_grad():  # any step along it, back onto the ball
            moved -= epsilon * F.normalize(gradient, dim=-1)
            moved *= (epsilon / 2 / moved.norm(dim=-1, keepdim=True)).clamp(max=1)
    least = adversarial_probability(W, h, i, epsilon)
    torch.testing.assert_close(softmax(i, W + moved.detach(), h), least, rtol=1e-6, atol=0)
    ends = worst_perturbation(h, epsilon / 2).expand(shape) * torch.where(
        torch.arange(shape[0]) == i, 1.0, -1.0
    ).unsqueeze(1)
    torch.testing.assert_close(moved.detach(), ends, rtol=0, atol=1e-4)


def test_limits_of_the_adversarial_probability():
    W, h = draw(0, 9, 4), draw(1, 4)
    assert adversarial_probability(W, h, 3, 0) == pytest.approx(float(softmax(3, W, h)))
    falling = adversarial_probability(W, h.expand(50, 4), torch.full((50,), 3), torch.arange(50.0))
    assert (falling.diff() < 0).all() and falling[-1] < 1e-30
    # without a context nothing can be moved against it
    assert adversarial_probability(W, torch.zeros(4), 3, 7.0) == pytest.approx(1 / 9)
    assert (worst_perturbation(torch.zeros(4), 7.0) == 0).all()


def test_every_position_has_its_own_word_context_and_radius():
    W, h, target = draw(0, 7, 3), draw(1, 2, 4, 3), torch.tensor([[0, 1, 2, 6], [5, 5, 0, 3]])
    adaptive = 0.3 * W[target].norm(dim=-1)  # ε = α ‖w_y‖
    probability = adversarial_probability(W.numpy(), h.numpy(), target.numpy(), adaptive.numpy())
    bound = recognition_bound(W, target, h.norm(dim=-1), adaptive)
    phi = energy(W, target, h.norm(dim=-1), adaptive)
    assert probability.shape == bound.shape == phi.shape == (2, 4)
    for at in np.ndindex(2, 4):
        i, epsilon, norm = int(target[at]), adaptive[at], h[at].norm()
        one = adversarial_probability(W, h[at], i, epsilon)
        torch.testing.assert_close(probability[at], one, rtol=1e-12, atol=0)
        others = [(W[i] - W[j]).norm() - epsilon for j in range(7) if j != i]
        naive = -torch.log(sum(torch.exp(-norm * gap) for gap in others))
        torch.testing.assert_close(phi[at], naive, rtol=1e-12, atol=0)
        torch.testing.assert_close(bound[at], 1 / (1 + torch.exp(-naive)), rtol=1e-12, atol=0)


@few
@given(seeds, shapes, epsilons, st.floats(0.01, 30))
def test_recognition_is_bounded_by_the_distances(seed, shape, epsilon, length):
    """Theorem 3.4, and its energy against the nearest word."""
    W, i = draw(seed, *shape), seed % shape[0]
    contexts = length * F.normalize(draw(seed + 1, 50, shape[1]), dim=-1)
    target = torch.full((50,), i)
    probability = adversarial_probability(W, contexts, target, epsilon)
    bound = recognition_bound(W, target, contexts.norm(dim=-1), epsilon)
    assert (probability <= bound * (1 + 1e-9)).all()
    nearest = min((W[i] - W[j]).norm() for j in range(len(W)) if j != i)
    assert energy(W, i, length, epsilon) <= length * (nearest - epsilon) + 1e-9


@few
@given(seeds, st.integers(1, 8), epsilons, st.floats(0.01, 3))
def test_the_bound_is_reached_by_two_words(seed, d, epsilon, length):
    """With one rival, and the context along the difference, theorem 3.4 is an equation."""
    W = draw(seed, 2, d)
    h = length * F.normalize(W[1] - W[0], dim=0)
    bound = recognition_bound(W, 1, length, epsilon)
    torch.testing.assert_close(adversarial_probability(W, h, 1, epsilon), bound)


@few
@given(seeds, shapes, st.sampled_from([1e-3, 1.0, 1e3]), st.floats(0, 4))
def test_the_witness_certifies_the_margin(seed, shape, scale, shift):
    """From below by its context, from above by a convex combination; nothing in between."""
    W, i = scale * draw(seed, *shape), seed % shape[0]
    W[i] *= 1 + shift  # some far out, some inside the hull of the others
    margin, bound, h, weights = margin_witness(W, i)
    assert 0 <= margin and bound - margin <= 1e-9 * scale
    assert (weights >= 0).all() and weights[i] == 0 and weights.sum() == pytest.approx(1)
    assert bound == pytest.approx(float((W[i] - weights @ W).norm()), abs=1e-9 * scale)
    differences = (W[i] - W)[torch.arange(len(W)) != i]
    if margin > 0:
        assert h.norm() == pytest.approx(1)
        assert margin == pytest.approx(float((differences @ h).min()))
    else:
        assert (h == 0).all()
    directions = F.normalize(draw(seed + 1, 500, shape[1]), dim=1)
    assert (directions @ differences.T).min(1).values.max() <= bound + 1e-12 * scale


@few
@given(seeds, st.integers(2, 12), st.floats(0, 4))
def test_in_the_plane_the_margin_is_that_of_all_angles(seed, N, shift):
    """Against exhaustion: 100,000 directions of the circle."""
    W = draw(seed, N, 2)
    W[0] *= 1 + shift
    angles = torch.linspace(0, 2 * np.pi, 100_001, dtype=torch.float64)[:-1]
    circle = torch.stack([angles.cos(), angles.sin()], 1)
    best = (circle @ (W[0] - W[1:]).T).min(1).values.max()
    assert margin_witness(W, 0).margin == pytest.approx(max(0.0, float(best)), abs=1e-3)


@few
@given(seeds, shapes, st.floats(0.01, 0.99), st.floats(0, 4))
def test_a_recognisable_word_is_far_from_all_others(seed, shape, share, shift):
    """Theorem 3.3, and AdvSoft ≥ 1/N at the witness, however long it is."""
    W, i = draw(seed, *shape), seed % shape[0]
    W[i] *= 1 + shift
    margin, bound, h, _ = margin_witness(W, i)
    epsilon = share * margin
    nearest = min((W[i] - W[j]).norm() for j in range(len(W)) if j != i)
    assert bound <= nearest + 1e-12
    if margin > 0:
        assert epsilon < nearest
        lengths = torch.tensor([1e-3, 1.0, 30.0])
        contexts = lengths[:, None] * h
        assert (contexts @ W[i] - epsilon * lengths > (contexts @ W.T).where(
            torch.arange(len(W)) != i, -torch.inf
        ).max(1).values).all()  # fmt: skip
        sure = adversarial_probability(W, contexts, torch.full((3,), i), epsilon)
        assert (sure >= 1 / len(W)).all() and (sure.diff() >= 0).all()
        certain = adversarial_probability(W, 1e3 / (margin - epsilon) * h, i, epsilon)
        assert certain == pytest.approx(1)
    # and at ε ≥ bound no context has it first
    contexts = draw(seed + 1, 200, shape[1])
    rivals = (contexts @ W.T).where(torch.arange(len(W)) != i, -torch.inf).max(1).values
    assert (contexts @ W[i] - bound * contexts.norm(dim=1) <= rivals + 1e-9).all()


def test_far_from_all_others_is_not_enough():
    """The converse of theorem 3.3 is false: a word in the middle of the others is never first."""
    W = torch.cat([torch.zeros(1, 3), torch.eye(3), -torch.eye(3)])
    middle = margin_witness(W, 0)
    assert middle.margin == 0 and middle.bound == pytest.approx(0, abs=1e-12)
    assert middle.weights @ W.double() == pytest.approx(np.zeros(3))
    assert margin_witness(W, 1).margin == pytest.approx(1)
    double = torch.cat([W, W[1:2]])  # and of two equal words neither is
    assert margin_witness(double, 1).margin == margin_witness(double, -1).margin == 0


def test_a_margin_needs_rivals_and_numbers():
    for bad in (torch.ones(1, 3), torch.ones(3), torch.full((2, 2), torch.nan)):
        with pytest.raises(CourseError, match="two finite rows or more"):
            margin_witness(bad, 0)
