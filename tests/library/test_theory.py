"""The papers' theorems, on random numbers and with certificates."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch.nn import functional as F

from course_lib.errors import CourseError
from course_lib.metrics import inputs
from course_lib.output_layers import AugmentedLoss, FullWords, Softmax
from course_lib.theory import (
    adversarial_probability,
    augmented_gradient,
    energy,
    generalisation_gap,
    layer_norm_condition,
    layer_norm_direction,
    log_rest,
    margin_witness,
    matched_gradient,
    merikoski,
    non_appearing_loss,
    rank_bound,
    rare_word_bound,
    recognition_bound,
    tying_map,
    uniformly_negative_direction,
    worst_perturbation,
    zero_loss_map,
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
    for bad, said in (
        (torch.ones(1, 3), "at least two rows, got 1"),
        (torch.ones(3), r"one vector a row is needed, got shape \(3,\)"),
        (torch.full((2, 2), torch.nan), "row 0 of the matrix holds a number that is not finite"),
    ):
        with pytest.raises(CourseError, match=said):
            margin_witness(bad, 0)


def assert_certified(H, found):
    """Exactly one of the two answers, each checked on all contexts."""
    H = torch.as_tensor(H, dtype=torch.float64)
    assert (found.weights >= 0).all() and found.weights.sum() == pytest.approx(1)
    assert found.residual == pytest.approx(float((found.weights @ H).norm()), abs=1e-12)
    assert found.margin <= found.residual + 1e-12
    if found.margin > 0:
        assert found.direction.norm() == pytest.approx(1)
        assert float((H @ found.direction).max()) == pytest.approx(-found.margin)
    else:
        assert (found.direction == 0).all()
        assert found.residual < 1e-6 * H.norm(dim=1).max()


@few
@given(seeds, st.integers(1, 60), st.integers(1, 6), st.floats(0, 2), st.floats(1e-3, 1e3))
def test_a_uniformly_negative_direction_or_convex_weights(seed, M, d, shift, scale):
    """gao2019, theorem 2, against the nearest point of the hull by non-negative least squares."""
    H = draw(seed, M, d)
    H[:, 0] += shift
    H *= scale
    found = uniformly_negative_direction(H)
    assert_certified(H, found)
    # The nearest point of the hull of the rows to 0 is that of the rows and −0, seen from a word 0.
    exact = margin_witness(torch.cat([torch.zeros(1, d, dtype=H.dtype), -H]), 0)
    if exact.margin > 1e-6 * scale:
        assert 0 < found.margin <= exact.bound + 1e-9 * scale
    elif exact.bound < 1e-9 * scale:
        assert found.margin == 0


def test_hulls_that_are_known():
    inside = uniformly_negative_direction([[1.0, 0], [-1, 1], [-1, -2]])
    assert inside.margin == 0 and inside.weights.tolist() == pytest.approx([0.5, 1 / 3, 1 / 6])
    outside = uniformly_negative_direction([[1.0, 1], [1, -1], [3, 0]])
    assert outside.margin > 0 and outside.direction[0] < -0.7
    for edge in ([[1.0, 0], [-2, 0]], [[0.0, 0], [1, 1]]):  # 0 on the hull's boundary
        found = uniformly_negative_direction(edge)
        assert_certified(edge, found)
        assert found.margin == 0
    assert 0 < uniformly_negative_direction([[2.0, 0, 0]]).margin <= 2 + 1e-12


@pytest.mark.parametrize("shift, exists", [(0.0, False), (4.5, True)])
def test_many_contexts_enter_the_programme_bit_by_bit(shift, exists):
    H = draw(5, 6000, 8)
    H[:, 3] -= shift
    H[17] = torch.zeros(8) + torch.eye(8)[3] * (-1e-3 if exists else 1.0)
    found = uniformly_negative_direction(H)
    assert_certified(H, found)
    assert (found.margin > 0) == exists
    assert (found.weights > 0).sum() <= 9  # Carathéodory: a vertex of the dual has d + 1


def test_a_context_with_a_small_margin_joins_the_programme_too():
    """In the plane, unit contexts within 70° on both sides of −v have the margin cos 70°."""
    angles = torch.tensor([120.0, 120, 240, 240] * 100, dtype=torch.float64)
    angles[101] = 100  # not among the first 200; v of the others has a margin of cos 80° there
    angles = angles.deg2rad()
    found = uniformly_negative_direction(torch.stack([angles.cos(), angles.sin()], 1))
    assert found.margin == pytest.approx(np.cos(np.deg2rad(70)))


def test_rare_contexts_decide_too():
    """One context among thousands, which the first linear programme has not seen."""
    H = draw(6, 5000, 4).abs() + 0.1
    assert uniformly_negative_direction(H).margin > 0
    H[1234] = -H.mean(0)
    found = uniformly_negative_direction(H)
    assert_certified(H, found)
    assert found.margin == 0 and found.weights[1234] > 0


@few
@given(seeds, st.integers(2, 40), st.integers(1, 5), st.floats(0, 1))
def test_uniformly_negative_directions_are_convex(seed, M, d, share):
    """Theorem 1A: between two of them lie more."""
    H = draw(seed, M, d).abs()  # −1 is one, and what the programme finds another
    first, second = uniformly_negative_direction(H).direction, -torch.ones(d, dtype=H.dtype)
    assert (H @ (share * first + (1 - share) * second) < 0).all()


@few
@given(seeds, st.integers(2, 40), st.integers(3, 8))
def test_layer_norm_has_its_direction_in_closed_form(seed, M, d):
    """Appendix C: every context has the same product with −sign(c)/g, whatever the text."""
    gain, bias = draw(seed, d) + 2 * torch.sign(draw(seed, d)), draw(seed + 1, d)
    H = gain * F.layer_norm(draw(seed + 2, M, d), (d,)) + bias
    condition = layer_norm_condition(gain, bias)
    assert condition == pytest.approx(float((bias / gain).sum()))
    v = layer_norm_direction(gain, bias)
    assert (H @ v).numpy() == pytest.approx(-abs(condition), abs=1e-9)
    if abs(condition) > 1e-3:
        found = uniformly_negative_direction(H)
        assert_certified(H, found)
        assert found.margin > 0
    balanced = bias - gain * condition / d  # 1ᵀ(b/g) = 0: now the text decides
    assert layer_norm_condition(gain, balanced) == pytest.approx(0, abs=1e-9)
    both = torch.cat([draw(seed + 3, M, d), -draw(seed + 3, M, d)])
    centre = gain * F.layer_norm(both, (d,))
    assert uniformly_negative_direction(centre).margin == 0
    assert not layer_norm_direction(gain, torch.zeros(d)).any()


@few
@given(seeds, st.integers(2, 30), st.integers(1, 6))
def test_a_word_that_never_comes_runs_to_infinity(seed, M, d):
    """Theorem 1B: along v the loss falls for ever, to a bound it does not reach."""
    H, W = draw(seed, M, d).abs() + 0.1, draw(seed + 1, 7, d)
    rest = log_rest(W, H, 2)
    naive = torch.stack([sum((W[j] @ h).exp() for j in range(7) if j != 2).log() for h in H])
    torch.testing.assert_close(rest, naive)
    v = uniformly_negative_direction(H).direction
    losses = non_appearing_loss(torch.linspace(0, 3, 10)[:, None] * v, H, rest)
    assert (losses.diff() < 0).all() and (losses > rest.mean()).all()
    far = non_appearing_loss(1e6 * v, H, rest)
    assert far == pytest.approx(float(rest.mean()))
    # it is the cross-entropy of the other words, up to what does not depend on w
    y = torch.randint(3, 7, (M,), generator=torch.Generator().manual_seed(seed % 99))
    for w in draw(seed + 3, 3, d):
        V = torch.cat([W[:2], w[None], W[3:]])
        entropy = F.cross_entropy(H @ V.T, y) + (H * V[y]).sum(1).mean()
        torch.testing.assert_close(non_appearing_loss(w, H, rest), entropy)


def test_inside_the_hull_the_loss_has_its_minimum():
    """Without a uniformly negative direction every way to infinity is uphill in the end."""
    H = torch.cat([draw(0, 20, 3), -draw(0, 20, 3)])
    ways = F.normalize(draw(1, 50, 3), dim=1)
    near, far = (non_appearing_loss(k * ways, H, torch.zeros(40)) for k in (0.0, 50.0))
    assert (far > near + 1).all()


@few
@given(seeds, st.floats(0.01, 0.9), st.floats(0.05, 2), st.integers(1, 5))
def test_a_rare_word_ends_near_one_that_never_comes(seed, share, alpha, d):
    """Theorem 3 on numbers: f of a word that never comes, g of wrong guesses where it does come.

    |g| ≤ 1, and the logistic function's σ'' is 1/(6√3) at most, which gives g's Hessian its bound.
    """
    H, there = draw(seed, 25, d) + 1, draw(seed + 1, 8, d)
    rest, rest_there = draw(seed + 2, 25).abs(), draw(seed + 3, 8).abs()
    beta = float(torch.linalg.eigvalsh(there.T @ there / 8)[-1]) / (6 * 3**0.5)
    epsilon = share * alpha / (alpha + beta)

    def value_and_gradient(w, weight):
        w = torch.as_tensor(w).requires_grad_()
        f = non_appearing_loss(w, H, rest) + alpha / 2 * w.square().sum()
        g = -((there @ w - rest_there).sigmoid()).mean()
        assert -1 <= g <= 0
        loss = (1 - weight) * f + weight * g
        (gradient,) = torch.autograd.grad(loss, w)
        return loss.item(), gradient.numpy()

    minima = []
    options = {"gtol": 1e-10, "ftol": 0, "maxiter": 10_000}
    for weight in (0.0, epsilon):
        solution = minimize(
            value_and_gradient, np.zeros(d), weight, "L-BFGS-B", jac=True, options=options
        )
        assert np.abs(solution.jac).max() < 1e-6
        minima.append(torch.from_numpy(solution.x))
    never, rare = minima
    bound = rare_word_bound(epsilon, alpha, beta, 1.0)
    assert (never - rare).square().sum() <= bound
    for point in minima:
        hessian = torch.autograd.functional.hessian(
            lambda x: -((there @ x - rest_there).sigmoid()).mean(), point
        )
        assert torch.linalg.eigvalsh(hessian)[0] >= -beta - 1e-9


def test_the_rare_word_bound_by_hand_and_in_its_limits():
    assert rare_word_bound(0.1, 1.0, 2.0, 3.0) == pytest.approx(1.2 / 0.7)
    assert rare_word_bound(0.0, 1.0, 2.0, 3.0) == 0
    bounds = [rare_word_bound(e, 1.0, 2.0, 1.0) for e in (1e-4, 1e-3, 1e-2, 0.3, 0.333)]
    assert bounds == sorted(bounds) and bounds[-1] > 1000
    # scalar f = α x²/2, g = B sin(√(β/B) x): both minima by search
    alpha, beta, B, epsilon = 1.0, 0.5, 0.8, 0.2
    x = np.linspace(-3, 3, 600_001)
    mixed = (1 - epsilon) * alpha * x**2 / 2 + epsilon * B * np.sin(np.sqrt(beta / B) * x)
    assert x[mixed.argmin()] ** 2 <= rare_word_bound(epsilon, alpha, beta, B)
    for bad in (
        (1 / 3, 1, 2, 1),
        (-0.1, 1, 2, 1),
        (0.1, 0, 2, 1),
        (0.1, 1, -1, 1),
        (0.1, 1, 2, -1),
    ):
        with pytest.raises(CourseError, match="the rare-word bound needs"):
            rare_word_bound(*bad)


@few
@given(seeds, shapes, st.floats(0, 5))
def test_merikoskis_bound(seed, shape, shift):
    """Theorem 4 where all cosines are positive; the mean row sum is below the eigenvalue always."""
    W = draw(seed, *shape) + shift
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inputs, "BLOCK", 7 * len(W))  # seven rows at a time
        found = merikoski(W)
    unit = F.normalize(W, dim=1)
    C = unit @ unit.T
    assert found.eigenvalue == pytest.approx(float(torch.linalg.eigvalsh(C)[-1]))
    assert found.total == pytest.approx(float(C.sum()), abs=1e-9)
    assert found.smallest_cosine == pytest.approx(float(C.min()), abs=1e-12)
    assert found.total / len(W) <= found.eigenvalue + 1e-9
    positive = merikoski(W.abs())
    assert positive.smallest_cosine >= 0 and positive.eigenvalue <= positive.total + 1e-9
    assert merikoski(3 * W) == pytest.approx(found)


def test_merikoskis_bound_needs_positive_cosines():
    plane = merikoski(torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]]))
    assert plane.smallest_cosine == -1 and plane.total == pytest.approx(0)
    assert plane.eigenvalue == pytest.approx(2)
    line = merikoski(torch.ones(5, 3))  # one direction: the bound is far
    assert line.eigenvalue == pytest.approx(5) and line.total == pytest.approx(25)


@few
@given(seeds, st.integers(2, 30), st.floats(0.51, 3), st.floats(0.1, 3))
def test_the_gap_of_theorem_4_1_term_by_term(seed, d, gamma, A):
    values = draw(seed, d).abs().numpy()
    found = generalisation_gap(values, gamma, 50, 400, A, B=2.0, delta=0.1, C1=3.0, C2=0.5)
    falling = sorted(values, reverse=True)
    naive = []
    for i, m in enumerate(range(2, d + 1)):
        head = 3 * A * 50 * np.sqrt(sum(v**2 for v in falling[: m - 1])) / 20
        tail = 3 * A * 50 * np.sqrt(m ** (1 - 2 * gamma) / (2 * gamma - 1)) / 20
        assert (found.m[i], found.head[i], found.tail[i]) == pytest.approx((m, head, tail))
        naive.append(head + tail)
    assert found.confidence == pytest.approx(0.5 * 2 * np.sqrt(np.log(10)) / 20)
    assert found.least == pytest.approx(min(naive) + found.confidence)
    assert found.least_m == 2 + int(np.argmin(naive))
    assert (np.diff(found.head) >= 0).all() and (np.diff(found.tail) < 0).all()
    shuffled = np.random.default_rng(seed).permutation(values)
    assert generalisation_gap(shuffled, gamma, 50, 400, A, 2.0, 0.1, 3.0, 0.5).least == found.least


def test_faster_decay_and_more_text_narrow_the_gap():
    """Remark 4.2, on spectra that are exactly k^−γ."""
    k = np.arange(1, 201)
    gaps = [generalisation_gap(k**-g, g, 1000, 10**6).least for g in (0.6, 0.8, 1.0, 2.0)]
    assert gaps == sorted(gaps, reverse=True)
    short, long = (generalisation_gap(1 / k, 1.0, 1000, n).least for n in (100, 10_000))
    assert short == pytest.approx(10 * long)
    A = 2.0 * np.sqrt(np.log(200))
    more = generalisation_gap(1 / k, 1.0, 1000, 100, A)
    assert more.head[0] == pytest.approx(A * generalisation_gap(1 / k, 1.0, 1000, 100).head[0])
    for bad in ({"gamma": 0.5}, {"n": 0}, {"delta": 0.0}, {"singular_values": [1.0]}):
        usual = {"singular_values": 1 / k, "gamma": 1.0, "N": 10, "n": 10}
        with pytest.raises(CourseError, match="theorem 4.1 needs"):
            generalisation_gap(**usual | bad)
    for bad in (np.eye(3), [1.0, np.nan]):
        with pytest.raises(CourseError, match="singular values: a list of finite numbers"):
            generalisation_gap(bad, 1.0, 10, 10)


@few
@given(seeds, st.integers(2, 20), st.floats(0.5, 50))
def test_the_gradient_of_the_augmented_loss(seed, N, tau):
    logits, soft = draw(seed, 3, N).requires_grad_(), draw(seed + 1, 3, N)
    loss = F.kl_div(
        (logits / tau).log_softmax(-1),
        (soft / tau).log_softmax(-1),
        log_target=True,
        reduction="sum",
    )
    (expected,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(augmented_gradient(logits.detach(), soft, tau), expected)


@pytest.mark.parametrize("tau", [0, 0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("gradient", [augmented_gradient, matched_gradient])
def test_a_gradient_at_no_temperature_is_refused(gradient, tau):
    with pytest.raises(CourseError, match="^tau must be a number above 0, not "):
        gradient(draw(0, 3, 5), draw(1, 3, 5), tau)


def test_towards_no_temperature_the_gradient_has_no_limit():
    """Unless both have their largest entry at one word, where it vanishes."""
    logits, other, tau = torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0.0, 2.0, 1.0]), 1e-3
    assert augmented_gradient(logits, other, tau).abs().max() == pytest.approx(1 / tau)
    assert augmented_gradient(logits, 3 * logits, tau).abs().max() == 0


@few
@given(seeds, st.integers(2, 20))
def test_at_high_temperature_the_logits_are_matched(seed, N):
    """inan2017, eq. 15, with an error that falls as 1/τ."""
    logits, soft = draw(seed, N), draw(seed + 1, N) + 3  # a constant is no difference
    errors = []
    for tau in (1e2, 1e3, 1e4):
        exact, limit = (f(logits, soft, tau) for f in (augmented_gradient, matched_gradient))
        errors.append(float((exact - limit).norm() / limit.norm()))
    assert errors[1] < 0.15 * errors[0] + 1e-12 and errors[2] < 0.15 * errors[1] + 1e-8
    assert errors[2] < 1e-2
    same = matched_gradient(logits + 7, logits, 10.0)
    assert same.abs().max() < 1e-12


@few
@given(seeds, st.floats(0.3, 2), st.booleans())
def test_a_tied_soft_target_needs_its_gradient(seed, c, through):
    """One matrix makes l = W h and s = W w_y. At w_y = c h, a step of gradient descent takes c
    away from 1, where s = l, if the soft target is a constant, and towards it if it is not."""
    assume(abs(c - 1) > 0.05)
    h, N = draw(seed, 1, 8), 200
    layer = Softmax(FullWords(N, 8), bias=False).double()
    layer.words.weight.data = draw(seed + 1, N, 8)
    layer.words.weight.data[0] = c * h[0]
    W, y = layer.words.weight, torch.tensor([0])
    loss, _ = layer(h, y, AugmentedLoss(1.0, 1000.0, gradient=through), (W[y], W))
    (slope,) = torch.autograd.grad(loss, W)
    moved = -float(slope[0] @ h[0])
    assert moved * (1 - c) * (1 if through else -1) > 0


@few
@given(seeds, st.integers(1, 6), st.integers(8, 20))
def test_zero_loss_ties_the_matrices(seed, d, N):
    """inan2017, eq. 16 and 17: W h_t = E E_{y_t} for d targets makes W = E A."""
    E, A = draw(seed, N, d), draw(seed + 1, d, d)
    assume(torch.linalg.cond(A) < 1e4 and torch.linalg.cond(E) < 1e4)
    targets = torch.arange(N)
    H = E[targets] @ torch.linalg.inv(A).T  # A h_t = E_{y_t}
    W = E @ A
    torch.testing.assert_close(H @ W.T, E[targets] @ E.T, rtol=1e-6, atol=1e-8)
    assert augmented_gradient(H @ W.T, E[targets] @ E.T, 5.0).abs().max() < 1e-7
    for found in (tying_map(E, W), zero_loss_map(E, H, targets)):
        torch.testing.assert_close(found.A, A, rtol=1e-5, atol=1e-6)
        assert found.residual < 1e-6


def test_matrices_that_are_not_tied():
    E, W = draw(0, 40, 3), draw(1, 40, 3)
    found = tying_map(E, W)
    Q = torch.linalg.qr(E).Q
    assert found.residual == pytest.approx(float((W - Q @ (Q.T @ W)).norm() / W.norm()))
    assert 0.9 < found.residual < 1 and tying_map(E, torch.cat([E, E], 1)).residual < 1e-12
    assert zero_loss_map(E, draw(2, 30, 3), range(30)).residual > 0.5
    for bad in (draw(0, 39, 3), torch.zeros(40, 3), torch.ones(40)):
        with pytest.raises(CourseError, match="tying compares|one vector a row"):
            tying_map(E, bad)


@pytest.mark.parametrize("bias", [True, False])
def test_the_rank_of_log_p_is_bounded_and_the_bound_reached(bias):
    for d in (1, 5, 12):
        logits = draw(0, 60, d) @ draw(1, 50, d).T + bias * draw(2, 50)
        assert torch.linalg.matrix_rank(logits.log_softmax(1)) == rank_bound(d, bias)
    assert rank_bound(400) == 402


def test_impossible_contexts_are_refused():
    for bad in (torch.ones(3), torch.ones(0, 3), torch.full((2, 2), torch.inf)):
        with pytest.raises(CourseError, match="one vector a row|not finite"):
            uniformly_negative_direction(bad)
    with pytest.raises(CourseError, match="entry 1 of the layer norm's gain is 0"):
        layer_norm_condition([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(CourseError, match="must both be"):
        layer_norm_condition([1.0, 2.0, 4.0], torch.ones(3, 1))
    w, H = draw(0, 3), draw(1, 5, 3)
    with pytest.raises(CourseError, match=r"5 contexts need as many log C_i, got \(5, 1\)"):
        non_appearing_loss(w, H, torch.zeros(5, 1))


def test_what_is_no_word_is_refused():
    W, H = draw(0, 6, 3), draw(1, 5, 3)
    assert torch.equal(log_rest(W, H, -1), log_rest(W, H, 5))  # as Python counts
    with pytest.raises(IndexError):
        log_rest(W, H, 6)
    for targets in ([0, 1, 2, 3, -100], [0, 1, 2, 3, 6], [0, 1, 2, 3]):
        with pytest.raises(CourseError, match="5 contexts need as many words below 6"):
            zero_loss_map(W, H, targets)


@pytest.mark.parametrize("scale", [1e-100, 1e-14, 1.0, 1e100])
def test_directions_do_not_depend_on_the_unit(scale):
    h = torch.tensor([0.6, -0.8], dtype=torch.float64)
    torch.testing.assert_close(worst_perturbation(scale * h, 0.1), -0.1 * h)
    assert not worst_perturbation(0 * h, 0.1).any()
    W = draw(0, 6, 3)
    found, scaled = (margin_witness(W * unit, 1) for unit in (1.0, scale))
    assert scaled.margin == pytest.approx(scale * found.margin, abs=1e-7 * scale)
    assert merikoski(scale * W).total == pytest.approx(merikoski(W).total)
