"""The rank of a matrix of low rank with noise on it."""

import numpy as np
import pytest

from course_lab.fragility import fragility, noisy_low_rank


def quarter_circle_rank(n, c, rank=10, precision=np.float64):
    """Press' rank of `noisy_low_rank` for large n, without any matrix.

    The noise's singular values fill a quarter of a circle, x = σ √n / (2 √c) in [0, 1] with density
    4/π √(1 − x²) (Marchenko and Pastur 1967), so that of the n − rank of them the share
    1 − 2/π (x √(1 − x²) + arcsin x) exceeds the threshold x.
    """
    threshold = 0.5 * np.sqrt(2 * n + 1) * np.finfo(precision).eps
    x = min(1.0, threshold * np.sqrt(n) / (2 * np.sqrt(c))) if c else 1.0
    return rank + (n - rank) * (1 - 2 / np.pi * (x * np.sqrt(1 - x**2) + np.arcsin(x)))


def test_noise_of_a_known_variance():
    matrix = noisy_low_rank(400, 1e-6, seed=1)
    assert np.array_equal(matrix, noisy_low_rank(400, 1e-6, seed=1))
    assert np.linalg.svd(noisy_low_rank(400, 0.0), compute_uv=False)[:11] == pytest.approx(
        [*np.exp(-np.arange(10) / 2), 0.0]
    )
    off = matrix[20:, 20:]
    assert off.std() == pytest.approx(1e-3 / 400, rel=0.02)


@pytest.mark.parametrize(
    "c, published",
    [(1e-20, 9899), (1e-21, 9681), (1e-22, 9001), (1e-23, 6869), (1e-24, 1159), (1e-25, 10)],
)
def test_published_ranks_of_noise_are_the_quarter_circles(c, published):
    """parthiban2021, Table S15, without a decomposition of 10,000 × 10,000."""
    assert quarter_circle_rank(10_000, c) == pytest.approx(published, abs=8)


def test_press_rank_is_fragile_where_the_effective_rank_is_not():
    """Both precisions' thresholds have variances at which noise fills the rank."""
    n = 300
    edge32, edge64 = (0.5 * np.sqrt(2 * n + 1) * np.finfo(p).eps for p in (np.float32, np.float64))
    variances = [(x * edge) ** 2 * n / 4 for edge in (edge64, edge32) for x in (0.5, 1.5, 3, 30)]
    found = list(fragility(n, variances))
    for row in found:
        for precision, press in ((np.float32, row.press_float32), (np.float64, row.press_float64)):
            assert press == pytest.approx(quarter_circle_rank(n, row.c, precision=precision), abs=3)
        assert row.effective == {1e-3: 7, 1e-4: 9, 1e-5: 10}
    assert [row.c for row in found] == variances
    assert found[0].press_float64 == found[0].press_float32 == 10
    assert found[3].press_float32 == 10 and found[3].press_float64 > 270
    assert found[-1].press_float32 > 270
    assert quarter_circle_rank(n, 0.0) == 10
