"""Geometry: against naive one-liners in float64, and laws that hold for every cloud."""

from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from course_lib.errors import CourseError
from course_lib.metrics import geometry, inputs, neighbours, subspaces
from course_lib.theory import hulls

pytestmark = pytest.mark.usefixtures("device")

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
    d, e = (neighbours.nearest_neighbours(M)[0] for M in (W, turned))
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
        patch.setattr(inputs, "BLOCK", 3 * len(W) + 1)  # three rows at a time
        distance, index = neighbours.nearest_neighbours(W)
    np.testing.assert_allclose(distance, naive.values.cpu(), rtol=1e-9)
    np.testing.assert_array_equal(index, naive.indices.cpu())


def test_twins_are_at_distance_zero_exactly():
    W = 1e3 * cloud(0, (6, 4))
    W[5] = W[2]
    distance, index = neighbours.nearest_neighbours(W)
    assert distance[2] == distance[5] == 0 and (index[2], index[5]) == (5, 2)
    distance, index = neighbours.nearest_neighbours(np.ones((4, 2)))
    assert distance.tolist() == [0] * 4 and index.tolist() == [1, 0, 0, 0]


def test_nearest_neighbours_in_a_process_that_has_used_both_interfaces_to_precision():
    """PyTorch's older one then refuses to tell: float64 it is, where float32 is not whole."""
    matmul = torch.backends.mkldnn.matmul
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    sieve = Mock(side_effect=neighbours._Sieve)
    try:
        matmul.fp32_precision = "tf32"
        with pytest.raises(RuntimeError, match="mix"):
            torch.get_float32_matmul_precision()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(neighbours, "_Sieve", sieve)
            assert neighbours.nearest_neighbours(cloud(0, (9, 3)))[0].min() > 0
    finally:
        matmul.fp32_precision = "ieee"
        torch.set_float32_matmul_precision(before)
    assert sieve.call_args_list[0].args[0].dtype == torch.float64


@pytest.mark.parametrize("precision", ["highest", "medium"])
@pytest.mark.parametrize("crowd", [0, neighbours.CROWD, 10**9])
def test_nearest_neighbours_are_right_where_float32_sees_no_difference(crowd, precision):
    """A drift of 1e6 and two clumps whose inner distances are 1e-5 of their separation."""
    n = 120
    W = 1e-5 * cloud(0, (n, 6)) + np.sign(np.arange(n) - n / 2)[:, None] + 1e6
    naive = np.linalg.norm(W[:, None] - W, axis=2) + np.diag(np.full(n, np.inf))
    before = torch.get_float32_matmul_precision()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "CROWD", crowd)
        patch.setattr(inputs, "BLOCK", 24 * 7)  # in which a row's candidates do not fit
        sieve = Mock(side_effect=neighbours._Sieve)
        patch.setattr(neighbours, "_Sieve", sieve)
        torch.set_float32_matmul_precision(precision)
        try:
            distance, index = neighbours.nearest_neighbours(W)
        finally:
            torch.set_float32_matmul_precision(before)
    np.testing.assert_array_equal(index, naive.argmin(1))
    np.testing.assert_allclose(distance, naive.min(1), rtol=1e-12)
    products = torch.float32 if precision == "highest" else torch.float64
    assert sieve.call_args_list[0].args[0].dtype == products


def test_nearest_neighbours_are_right_under_autocast(device):
    W = cloud(0, (300, 16)) + 3
    plain = neighbours.nearest_neighbours(W)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = neighbours.nearest_neighbours(W)
    np.testing.assert_array_equal(narrow[1], plain[1])
    np.testing.assert_allclose(narrow[0], plain[0], rtol=1e-12)


@few
@given(seeds, st.integers(1, 300), st.floats(1e-3, 1e3))
def test_the_bounds_of_a_sieve_hold_every_distance(seed, d, scale):
    """What float32 products say of ‖x_i − x_j‖² is within c (‖x_i‖² + ‖x_j‖²)."""
    x = torch.as_tensor(cloud(seed, (12, d), 1) * scale ** cloud(seed + 1, (12, 1)).clip(-1, 1))
    sieve = neighbours._Sieve(x.float())
    exact = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist") ** 2
    product = torch.addmm(sieve.floor, sieve.x, sieve.x.T, alpha=-2).double()
    own = sieve.squares[:, None]
    assert (product + (1 - sieve.c) * own <= exact).all()
    assert (exact <= product + (1 + sieve.c) * own + 2 * sieve.c * sieve.squares).all()


@few
@given(seeds, shapes)
def test_positive_share_counts_every_pair(seed, shape):
    W = cloud(seed, shape, 0.2)
    C = W @ W.T
    n = len(W)
    naive = (C[~np.eye(n, dtype=bool)] > 0).mean()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "BLOCK", 2 * n)
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
    points, axes = subspaces.project(W)
    np.testing.assert_allclose(axes.T @ axes, np.eye(2), atol=1e-10)
    np.testing.assert_allclose(points, W @ axes, atol=1e-10)
    assert np.square(points).sum() == pytest.approx(
        np.square(geometry.singular_values(W)[:2]).sum()
    )
    assert (points.sum(0) >= -1e-9).all()


def test_tensors_of_low_precision_and_with_gradients_are_taken():
    W = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
    same = W.detach().double().cpu().numpy()
    assert geometry.mean_cosine(W) == pytest.approx(geometry.mean_cosine(same), abs=1e-12)


def test_views_and_arrays_that_may_not_be_written_are_taken_and_left_as_they_are():
    W = cloud(0, (20, 4))
    W.flags.writeable = False
    before = W.copy()
    assert geometry.mean_cosine(W[::-1, ::-1]) == pytest.approx(geometry.mean_cosine(W))
    V = torch.from_numpy(before.copy())
    for M in (W, V):
        neighbours.nearest_neighbours(M), geometry.cone_angles(M), geometry.common_drift(M)
        np.testing.assert_array_equal(M, before)


def test_extreme_and_zero_rows_have_cosines():
    W = np.array([[1e200, 0], [1e-200, 1e-200], [0, 0]])
    assert geometry.mean_cosine(W) == pytest.approx(2 * np.sqrt(0.5) / 6)
    assert geometry.singular_values(np.zeros((3, 2)), normalised=True).tolist() == [0, 0]


@few
@given(seeds, shapes, st.floats(0.01, 100))
def test_ranks_of_a_spectrum_are_their_formulas(seed, shape, scale):
    W = scale * cloud(seed, shape, 0.5)
    values = geometry.singular_values(W)
    assert geometry.stable_rank(values) == pytest.approx(
        np.linalg.norm(W) ** 2 / np.linalg.norm(W, 2) ** 2
    )
    gram = W.T @ W
    assert geometry.participation_rank(values) == pytest.approx(
        np.trace(gram) ** 2 / np.trace(gram @ gram)
    )
    turned = geometry.singular_values(3 * W @ rotation(seed, shape[1]))
    assert geometry.stable_rank(turned) == pytest.approx(geometry.stable_rank(values))


@few
@given(st.integers(1, 50), st.integers(0, 10))
def test_equal_singular_values_count_themselves(k, zeros):
    values = np.r_[np.full(k, 1e200), np.zeros(zeros)]  # their squares overflow
    for rank in (geometry.stable_rank, geometry.participation_rank):
        assert rank(values) == pytest.approx(k)


@few
@given(seeds, st.integers(1, 5))
def test_a_known_rank_under_noise_stays_the_rank_in_effect(seed, k):
    """Rank k with equal singular values 1 and noise of norm 1e-3: full rank, of which k is seen."""
    n, d = 60, 12
    noise = cloud(seed + 2, (n, d))
    low = np.linalg.qr(cloud(seed, (n, k)))[0] @ np.linalg.qr(cloud(seed + 1, (d, k)))[0].T
    values = geometry.singular_values(low + 1e-3 * noise / np.linalg.norm(noise, 2))
    assert (values > 1e-6).sum() == d
    for rank in (geometry.stable_rank, geometry.participation_rank):
        assert rank(values) == pytest.approx(k, rel=0.01)


@few
@given(st.integers(2, 12), st.integers(1, 12), st.floats(0.1, 10))
def test_isoscore_counts_the_dimensions_that_share_the_variance(d, k, scale):
    """k of d dimensions in equal use score (k − 1) / (d − 1), wherever the cloud lies."""
    k = min(k, d)
    axes = scale * np.eye(d)[:k]
    W = np.concatenate([axes, -axes]) @ rotation(d, d) + cloud(k, (d,), 5)
    assert geometry.isoscore(W) == pytest.approx((k - 1) / (d - 1), abs=1e-9)


@few
@given(seeds, st.integers(2, 8))
def test_isoscore_is_the_published_sequence_of_steps(seed, d):
    W = cloud(seed, (30, d)) @ cloud(seed + 1, (d, d))
    variances = np.linalg.eigvalsh(np.cov(W.T))
    scaled = np.sqrt(d) * variances / np.linalg.norm(variances)
    defect = np.linalg.norm(scaled - 1) / np.sqrt(2 * (d - np.sqrt(d)))
    steps = ((d - defect**2 * (d - np.sqrt(d))) ** 2 - d) / (d * (d - 1))
    assert geometry.isoscore(W) == pytest.approx(steps)


@few
@given(seeds, shapes, st.floats(0, 3))
def test_contributions_of_dimensions_add_up_to_the_mean_cosine(seed, shape, shift):
    W = cloud(seed, shape, shift)
    U, n = unit(W), len(W)
    pairs = ~np.eye(n, dtype=bool)
    naive = [np.outer(column, column)[pairs].mean() for column in U.T]
    np.testing.assert_allclose(geometry.cosine_by_dimension(W), naive, atol=1e-12)
    assert sum(naive) == pytest.approx(geometry.mean_cosine(W), abs=1e-12)


def test_a_rogue_dimension_makes_the_mean_cosine():
    W = cloud(0, (500, 50))
    W[:, 7] += 30
    parts = geometry.cosine_by_dimension(W)
    assert parts.argmax() == 7 and parts[7] / parts.sum() > 0.99


@few
@given(seeds, shapes, st.floats(0.1, 5))
def test_drift_is_the_energy_that_centring_removes(seed, shape, shift):
    W = cloud(seed, shape, shift)
    drift = geometry.common_drift(W)
    centred = W - W.mean(0)
    assert 1 - drift.share == pytest.approx(np.square(centred).sum() / np.square(W).sum())
    assert drift.cosine == pytest.approx(geometry.mean_cosine(W), abs=1e-12)
    assert drift.centred == pytest.approx(geometry.mean_cosine(centred), abs=1e-12)
    basis = np.linalg.qr(np.c_[W.mean(0), cloud(seed, (shape[1], shape[1] - 1))])[0]
    assert drift.along == pytest.approx(geometry.cosine_by_dimension(W @ basis)[0], abs=1e-9)
    turned = geometry.common_drift(2 * W @ rotation(seed, shape[1]))
    np.testing.assert_allclose(turned, drift, atol=1e-9)


def test_drift_of_copies_is_everything_and_of_opposites_nothing():
    same = geometry.common_drift(np.ones((5, 3)))
    assert (same.share, same.along, same.cosine) == pytest.approx((1, 1, 1))
    opposite = geometry.common_drift([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    assert opposite.share == opposite.along == 0
    assert geometry.common_drift(np.zeros((3, 2))) == (0, 0, 0, 0)


@pytest.mark.parametrize("n", [3, 7, 1000, 100_001])
@pytest.mark.parametrize("entry", [0.1, 1 / 3, 1e5 / 7])
def test_rounding_is_no_cloud(n, entry):
    """Equal rows whose mean is rounded, and directions that cancel up to rounding."""
    drift = geometry.common_drift(np.full((n, 4), entry))
    assert drift.centred == 0 and drift.share <= 1
    v = cloud(0, (n, 4))
    with pytest.raises(CourseError, match="give the axis"):
        geometry.cone_angles(np.concatenate([v, -v]))


@pytest.mark.parametrize("scale", [1e-100, 1e-13, 1e100])
def test_drift_and_angles_do_not_depend_on_the_unit(scale):
    W = cloud(0, (9, 4)) + 1
    found, scaled = geometry.common_drift(W), geometry.common_drift(scale * W)
    assert scaled == pytest.approx(found)
    axis = np.array([1.0, 2, 0, 1])
    expected = geometry.cone_angles(W, axis)
    np.testing.assert_allclose(geometry.cone_angles(W, scale * axis), expected)


def test_norms_by_frequency_average_each_bin():
    """Zipf's words with norm log(1 + count): the bins' means rise, and the ranks agree wholly."""
    counts = np.r_[0, 0, np.random.default_rng(0).zipf(1.5, 500)]
    W = np.outer(np.log1p(counts), [0.6, 0.8])
    result = geometry.norms_by_frequency(W, counts, bins=6)
    assert result.words.sum() == 502 and (result.words > 0).all() and len(result.words) <= 6
    assert result.spearman == pytest.approx(1)
    edges = np.linspace(0, np.log1p(counts.max()), 7)
    first = np.log1p(counts) < edges[1]
    assert result.words[0] == first.sum()
    assert result.count[0] == pytest.approx(counts[first].mean())
    assert result.norm[0] == pytest.approx(np.log1p(counts[first]).mean())
    assert (np.diff(result.norm) > 0).all() and (np.diff(result.count) > 0).all()
    assert np.isnan(geometry.norms_by_frequency(np.ones((3, 2)), [1, 2, 3]).spearman)
    assert geometry.norms_by_frequency(W[::-1], counts).spearman < 0.5


def test_sampled_isotropy_averages_draws_without_replacement():
    W = cloud(0, (60, 4), 0.3)
    draws = np.random.default_rng(5)
    each = [geometry.isotropy(W[draws.choice(60, 20, replace=False)]) for _ in range(10)]
    sampled = geometry.sampled_isotropy(W, rows=20, seed=5)
    np.testing.assert_allclose(sampled, np.mean(each, 0))
    assert geometry.sampled_isotropy(W) == geometry.isotropy(W)


def test_isotropy_does_not_depend_on_blocks():
    W = cloud(0, (50, 7), 0.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "BLOCK", 100)
        small = geometry.isotropy(W)
    assert small == pytest.approx(geometry.isotropy(W))


@settings(max_examples=150, deadline=None)
@given(seeds, shapes, st.integers(0, 2), st.integers(0, 2), st.floats(1e-3, 1e3))
@example(748286, (26, 2), 0, 2, 1.0)  # the slower solver left a bound by 3e-33
def test_no_row_is_nearer_than_the_point_nearest_0_of_the_hull(seed, shape, digits, kind, scale):
    """a_iᵀp ≥ ‖p‖² for all rows proves it; also for lattices, mirrored rows and copies."""
    A = cloud(seed, shape).round(digits)
    A[:, 0] += kind
    A = scale * np.concatenate([A, *([], [-A + 2 * A[0]], [A[: shape[0] // 2]])[kind]])
    weights = hulls.nearest_in_hull(A)
    assert (weights >= 0).all() and weights.sum() == pytest.approx(1)
    point = weights @ A
    assert (A @ point >= point @ point - 1e-9 * scale**2 * 100).all()


@pytest.mark.parametrize("wrong", [0.0, 1.0])
def test_the_second_solver_takes_over_where_the_first_is_wrong(monkeypatch, wrong):
    A = cloud(0, (30, 5), 0.8)
    expected = hulls.nearest_in_hull(A)

    def nnls(system, target):
        if not wrong:
            raise RuntimeError("too many iterations")
        return np.full(system.shape[1], wrong), 0.0

    monkeypatch.setattr(hulls, "nnls", nnls)
    np.testing.assert_allclose(hulls.nearest_in_hull(A) @ A, expected @ A, atol=1e-7)


@few
@given(seeds, shapes)
def test_cone_angles_are_those_to_the_axis(seed, shape):
    W, axis = cloud(seed, shape, 1), cloud(seed + 1, shape[1:])
    expected = np.arccos((unit(W) @ axis / np.linalg.norm(axis)).clip(-1, 1))
    np.testing.assert_allclose(geometry.cone_angles(W, axis), expected, atol=1e-7)
    mean = unit(W).mean(0)
    np.testing.assert_allclose(geometry.cone_angles(W), geometry.cone_angles(W, mean), atol=1e-12)
    with_zeros = np.vstack([W, np.zeros(shape[1])])
    assert geometry.cone_angles(with_zeros, axis)[-1] == np.pi / 2


@few
@given(st.lists(st.floats(0, np.pi / 2), min_size=1, max_size=4), seeds)
def test_principal_angles_are_found_however_small(angles, seed):
    """Planes (e_k, f_k) turned by known angles, in any bases of the two spaces."""
    k, turn = len(angles), rotation(seed, 2 * len(angles) + 1)
    e, f = turn[:, :k], turn[:, k : 2 * k]
    A = e @ (rotation(seed + 1, k) * 3)
    B = (e * np.cos(angles) + f * np.sin(angles)) @ (rotation(seed + 2, k) * 5)
    expected = np.sort(angles)[::-1]
    np.testing.assert_allclose(subspaces.principal_angles(A, B), expected, atol=1e-7)
    assert subspaces.subspace_distance(A, B) == pytest.approx(
        np.sqrt(np.square(np.sin(angles)).mean()), abs=1e-9
    )


def test_leading_subspaces_ignore_what_follows_and_lie_within_their_matrix():
    left, right = rotation(0, 9), rotation(1, 4)
    A = left[:, :4] * [9, 8, 0.2, 0.1] @ right
    B = left[:, [1, 0, 5, 6]] * [7, 6, 0.2, 0.1] @ right.T
    assert subspaces.subspace_distance(A, B, k=2) == pytest.approx(0, abs=1e-9)
    assert subspaces.subspace_distance(A, B) == pytest.approx(np.sqrt(2 / 4))
    assert subspaces.principal_angles(A, B)[:2] == pytest.approx([np.pi / 2] * 2)
    inside = A @ cloud(0, (4, 2))
    assert subspaces.subspace_distance(inside, A) == pytest.approx(0, abs=1e-9)
    assert subspaces.subspace_distance(A, inside) == pytest.approx(np.sqrt(2 / 4))


BAD_ARGUMENTS = [
    (lambda: geometry.stable_rank(np.eye(2)), r"singular values: .* got shape \(2, 2\)"),
    (lambda: geometry.participation_rank([1.0, -1.0]), "0 or more, and one above 0"),
    (lambda: geometry.stable_rank(np.zeros(3)), "0 or more, and one above 0"),
    (lambda: inputs.as_numbers(["one"], "counts"), "counts: numbers are needed"),
    (lambda: inputs.as_numbers([], "bias"), "bias: a list of finite numbers"),
    (lambda: geometry.isoscore(np.ones((3, 1))), "at least two columns"),
    (lambda: geometry.norms_by_frequency(np.eye(3), [1, 2]), "3 counts, 0 or more"),
    (lambda: geometry.norms_by_frequency(np.eye(2), [1, -2]), "0 or more"),
    (lambda: geometry.cone_angles([[1.0, 0], [-1.0, 0]]), "give the axis"),
    (lambda: subspaces.principal_angles(np.eye(3), np.eye(2)), "same rows, got 3 and 2"),
    (lambda: subspaces.subspace_distance(np.ones((4, 2)), np.eye(4), k=2), "rank 1 has no 2 lead"),
    (lambda: subspaces.principal_angles(np.eye(3), np.eye(3), k=0), "rank 3 has no 0 leading"),
    (lambda: geometry.sampled_isotropy(np.eye(3), rows=0), "rows must be .* at least 1, not 0"),
    (lambda: subspaces.project(np.eye(3), k=-1), "k must be a whole number of at least 1"),
    (lambda: inputs.as_matrix([1.0]), "one vector a row"),
    (lambda: inputs.as_matrix([[1.0], [1.0, 2.0]]), "a matrix of numbers is needed"),
    (lambda: inputs.as_matrix([["one", "two"]]), "a matrix of numbers is needed"),
]


@pytest.mark.parametrize("call, message", BAD_ARGUMENTS)
def test_what_cannot_be_measured_is_named(call, message):
    with pytest.raises(CourseError, match=message):
        call()


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


PAIRWISE = (
    geometry.mean_cosine,
    geometry.positive_share,
    geometry.pair_cosines,
    geometry.cosine_by_dimension,
    geometry.common_drift,
    neighbours.nearest_neighbours,
)


@pytest.mark.parametrize("function", PAIRWISE)
def test_one_row_has_no_pair(function):
    with pytest.raises(CourseError, match="at least two rows, got 1"):
        function(np.ones((1, 3)))
