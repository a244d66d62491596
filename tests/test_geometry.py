"""Geometry: against naive one-liners in float64, and laws that hold for every cloud."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.errors import CourseError
from course_lib.metrics import geometry

seeds = st.integers(0, 2**32 - 1)
shapes = st.tuples(st.integers(3, 40), st.integers(2, 12))
few = settings(max_examples=30, deadline=None)


def cloud(seed, shape, shift=0.0):
    return np.random.default_rng(seed).normal(size=shape) + shift


def rotation(seed, d):
    return np.linalg.qr(cloud(seed, (d, d)))[0]


def unit(W):
    return W / np.linalg.norm(W, axis=1, keepdims=True)


@few
@given(seeds, shapes)
def test_singular_values_are_those_of_the_gram_matrix(seed, shape):
    W = cloud(seed, shape)
    expected = np.sqrt(np.linalg.eigvalsh(W.T @ W).clip(0)[::-1][: min(shape)])
    np.testing.assert_allclose(geometry.singular_values(W), expected, atol=1e-6)
    normalised = geometry.singular_values(W, normalised=True)
    np.testing.assert_allclose(normalised, expected / expected[0], atol=1e-6)


@few
@given(seeds, shapes, st.floats(0, 3))
def test_mean_cosine_equals_the_table_of_all_cosines(seed, shape, shift):
    W, V = cloud(seed, shape, shift), cloud(seed + 1, shape, -shift)
    C, n = unit(W) @ unit(W).T, len(W)
    naive = (C.sum() - C.trace()) / (n * (n - 1))
    assert geometry.mean_cosine(W) == pytest.approx(naive, abs=1e-12)
    assert geometry.mean_cosine(W, V) == pytest.approx((unit(W) @ unit(V).T).mean(), abs=1e-12)


def test_mean_cosine_gives_the_penalty_of_gao2019():
    W = cloud(0, (30, 5), 0.4)
    R = (np.square(unit(W).sum(0)).sum() - 30) / 30**2
    assert geometry.mean_cosine(W) * 29 / 30 == pytest.approx(R)


@few
@given(seeds, shapes, st.floats(1e-3, 1e3))
def test_rotating_and_scaling_change_no_angle(seed, shape, scale):
    W = cloud(seed, shape, 0.5)
    turned = scale * W @ rotation(seed + 1, shape[1])
    assert geometry.mean_cosine(turned) == pytest.approx(geometry.mean_cosine(W), abs=1e-9)
    s, t = (geometry.singular_values(M, normalised=True) for M in (W, turned))
    np.testing.assert_allclose(s, t, atol=1e-9)
    d, e = (geometry.nearest_neighbours(M)[0] for M in (W, turned))
    np.testing.assert_allclose(scale * d, e, rtol=1e-8)
    np.testing.assert_allclose(
        geometry.pair_cosines(W, 50), geometry.pair_cosines(turned, 50), atol=1e-9
    )


@few
@given(seeds, shapes)
def test_rotating_changes_no_isotropy(seed, shape):
    W = cloud(seed, (shape[0] + shape[1], shape[1]), 0.3)
    turned = W @ rotation(seed + 1, shape[1])
    for both in (True, False):
        np.testing.assert_allclose(
            geometry.isotropy(W, both), geometry.isotropy(turned, both), rtol=1e-6
        )


@few
@given(st.floats(0.05, 1.5), st.integers(3, 20))
def test_a_cone_has_the_mean_cosine_of_its_aperture(aperture, n):
    """n vectors evenly on a circular cone about an axis: Σ ŵ lies along the axis, n cos(θ) long."""
    turn = np.linspace(0, 2 * np.pi, n, endpoint=False)
    circle = np.sin(aperture) * np.stack([np.cos(turn), np.sin(turn)])
    W = np.stack([np.full(n, np.cos(aperture)), *circle], axis=1)
    expected = (n**2 * np.cos(aperture) ** 2 - n) / (n * (n - 1))
    assert geometry.mean_cosine(W) == pytest.approx(expected, abs=1e-10)
    across = np.sin(aperture) ** 2 / 2
    squares = sorted([np.cos(aperture) ** 2, across, across], reverse=True)
    np.testing.assert_allclose(geometry.singular_values(W) ** 2 / n, squares, atol=1e-10)


@few
@given(st.integers(2, 10), st.floats(0.1, 2000))
def test_plus_and_minus_the_axes_are_perfectly_isotropic(d, scale):
    """Scale 2000: exp(2000) overflows any float, the logarithms do not."""
    W = scale * np.concatenate([np.eye(d), -np.eye(d)])
    assert geometry.isotropy(W) == pytest.approx((1.0, 0.0), abs=1e-12)


def test_isotropy_is_the_naive_formula_over_both_signs_or_one():
    W = cloud(3, (50, 4), 0.4)
    A = np.linalg.eigh(W.T @ W)[1]
    A = A * np.where((W @ A).sum(0) < 0, -1, 1)
    for both, axes in ((True, np.concatenate([A, -A], 1)), (False, A)):
        Z = np.exp(W @ axes).sum(0)
        assert geometry.isotropy(W, both) == pytest.approx((Z.min() / Z.max(), Z.std() / Z.mean()))


def test_a_cone_is_less_isotropic_than_a_round_cloud():
    W = cloud(0, (200, 8))
    round_cloud, cone = geometry.isotropy(W), geometry.isotropy(W + 2)
    assert cone.I1 < round_cloud.I1 and cone.I2 > round_cloud.I2


@few
@given(seeds, shapes)
def test_nearest_neighbours_equal_the_full_table_in_any_block_size(seed, shape):
    W = torch.as_tensor(cloud(seed, shape))
    naive = torch.cdist(W, W).fill_diagonal_(torch.inf).min(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "BLOCK", 3 * len(W) + 1)  # three rows at a time
        distance, index = geometry.nearest_neighbours(W)
    np.testing.assert_allclose(distance, naive.values, rtol=1e-9)
    np.testing.assert_array_equal(index, naive.indices)


def test_twins_are_at_distance_zero_exactly():
    W = 1e3 * cloud(0, (6, 4))
    W[5] = W[2]
    distance, index = geometry.nearest_neighbours(W)
    assert distance[2] == distance[5] == 0 and (index[2], index[5]) == (5, 2)


@few
@given(seeds, shapes)
def test_positive_share_counts_every_pair(seed, shape):
    W = cloud(seed, shape, 0.2)
    C = W @ W.T
    n = len(W)
    naive = (C[~np.eye(n, dtype=bool)] > 0).mean()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "BLOCK", 2 * n)
        assert geometry.positive_share(W) == pytest.approx(naive)


def test_pair_cosines_never_pair_a_row_with_itself_and_repeat_with_a_seed():
    W = np.eye(3)
    assert (geometry.pair_cosines(W, 1000) == 0).all()
    W = cloud(0, (30, 4), 1)
    np.testing.assert_array_equal(geometry.pair_cosines(W, 9, 5), geometry.pair_cosines(W, 9, 5))
    assert geometry.pair_cosines(W, 50_000).mean() == pytest.approx(
        geometry.mean_cosine(W), abs=0.01
    )


def test_by_frequency_splits_at_the_share_and_ranks_the_frequent():
    counts = torch.tensor([5, 9_000, 0, 900, 1, 94])
    rare, frequent = geometry.by_frequency(counts, rare=5e-4, frequent=2)
    assert rare.tolist() == [2, 4] and frequent.tolist() == [1, 3]


@few
@given(seeds, shapes)
def test_projection_is_the_best_plane_and_points_to_the_cloud(seed, shape):
    W = cloud(seed, shape, 0.3)
    points, axes = geometry.project(W)
    np.testing.assert_allclose(axes.T @ axes, np.eye(2), atol=1e-10)
    np.testing.assert_allclose(points, W @ axes, atol=1e-10)
    assert np.square(points).sum() == pytest.approx(
        np.square(geometry.singular_values(W)[:2]).sum()
    )
    assert (points.sum(0) >= -1e-9).all()


def test_a_reference_keeps_successive_snapshots_from_flipping():
    W = cloud(0, (50, 6)) * np.array([3, 2, 1, 1, 1, 1])
    axes = geometry.project(W).axes
    later = geometry.project(W + 0.05 * cloud(1, W.shape), reference=-axes)
    assert ((later.axes * -axes).sum(0) > 0.9).all()


def test_tensors_of_low_precision_and_with_gradients_are_taken():
    W = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
    same = W.detach().double().numpy()
    assert geometry.mean_cosine(W) == pytest.approx(geometry.mean_cosine(same), abs=1e-12)


def test_extreme_and_zero_rows_have_cosines():
    W = np.array([[1e200, 0], [1e-200, 1e-200], [0, 0]])
    assert geometry.mean_cosine(W) == pytest.approx(2 * np.sqrt(0.5) / 6)
    assert geometry.singular_values(np.zeros((3, 2)), normalised=True).tolist() == [0, 0]


@pytest.mark.parametrize(
    "bad, message",
    [
        (np.zeros(3), r"one vector a row is needed, got shape \(3,\)"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        ([[1.0, 2.0], [np.nan, 1.0]], "row 1 of the matrix holds a number that is not finite"),
    ],
)
def test_what_is_no_finite_matrix_is_named(bad, message):
    with pytest.raises(CourseError, match=message):
        geometry.mean_cosine(bad)


PAIRWISE = ("mean_cosine", "nearest_neighbours", "positive_share", "pair_cosines")


@pytest.mark.parametrize("function", [getattr(geometry, name) for name in PAIRWISE])
def test_one_row_has_no_pair(function):
    with pytest.raises(CourseError, match="at least two rows, got 1"):
        function(np.ones((1, 3)))
