"""The spectrum of log P: against NumPy's decomposition, on matrices whose ranks are known."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks import rank as rank_benchmark
from benchmarks.cli import app
from course_lib.errors import CourseError
from course_lib.evaluation.log_prob import log_prob_blocks
from course_lib.evaluation.perplexity import perplexity
from course_lib.metrics import rank
from course_lib.metrics.rank import (
    effective_rank,
    press_rank,
    spectrum,
)
from course_lib.models import AWDLSTM, LanguageModel, TransformerXL
from course_lib.output_layers import FullWords, MixtureOfSoftmaxes, Softmax
from course_lib.theory import bottleneck, hidden_size

pytestmark = pytest.mark.usefixtures("device")

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=25, deadline=None)
EPSILONS = (1e-3, 1e-4, 1e-5)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def of_spectrum(seed, m, n, values):
    """A matrix (m, n) with these singular values."""
    left, right = (np.linalg.qr(normal(seed + i, k, len(values)))[0] for i, k in enumerate((m, n)))
    return left * values @ right.T


def softmax_table(seed, m, N, d, bias=True, components=1, dtype=torch.float32):
    """log P (m, N) of random contexts: one softmax, or the mean of several."""
    W, b = torch.from_numpy(normal(seed, N, d)), torch.from_numpy(normal(seed + 1, N))
    h = torch.from_numpy(normal(seed + 2, components, m, d))
    parts = (h @ W.T + bias * b).to(dtype).log_softmax(-1)
    return parts.logsumexp(0) - math.log(components)


def svd(matrix):
    return np.linalg.svd(np.asarray(matrix, np.float64), compute_uv=False)


def assert_close(found, matrix):
    """Singular values as NumPy's: 1e-9 σ_1 where they are large, `RESOLVED` where they are not."""
    expected = svd(matrix)
    assert found.shape == matrix.shape and found.singular_values.shape == expected.shape
    assert (np.diff(found.singular_values) <= 0).all()
    error = np.abs(found.singular_values - expected) / max(expected[0], 1e-300)
    assert error.max() < rank.RESOLVED
    assert error[expected > 1e-4 * expected[0]].max(initial=0) < 1e-9


@few
@given(seeds, st.integers(1, 80), st.integers(1, 80), st.integers(1, 30), st.floats(-20, 0))
def test_spectrum_is_numpys(seed, m, N, block, shift):
    matrix = normal(seed, m, N) + shift
    assert_close(spectrum(matrix[i : i + block] for i in range(0, m, block)), matrix)
    assert_close(spectrum(torch.from_numpy(matrix)), matrix)


@pytest.mark.parametrize("N", [63, 64, 65, 511, 512, 513, 700])
def test_spectrum_across_the_groups_of_columns(N):
    """Around the widths of band and group, more rows than columns and fewer, float32 inputs."""
    for m in (N // 2, N + 50):
        matrix = (normal(N, m, N) - 9).astype(np.float32)
        assert_close(spectrum(torch.from_numpy(matrix).split(200)), matrix)


@few
@given(seeds, st.integers(1, 90), st.integers(1, 90))
def test_spectrum_of_many_small_groups(seed, m, N):
    """The reduction to a band, where most is done by blocks other than the first."""
    before, rank.WIDTH, rank.BAND = (rank.WIDTH, rank.BAND), 12, 4
    try:
        matrix = normal(seed, m, N)
        matrix[:, N // 2 :] *= seed % 3  # a third of the time of half rank
        assert_close(spectrum([matrix]), matrix)
    finally:
        rank.WIDTH, rank.BAND = before


@few
@given(seeds, st.integers(2, 60), st.integers(2, 60))
def test_laws_of_the_spectrum(seed, m, N):
    matrix = normal(seed, m, N) - 3
    values = spectrum(matrix).singular_values
    assert np.square(values).sum() == pytest.approx(np.square(matrix).sum(), rel=1e-12)
    shuffled = np.random.default_rng(seed).permutation(matrix)
    rotated = matrix @ np.linalg.qr(normal(seed + 1, N, N))[0]
    for other in (shuffled, rotated, -matrix):
        np.testing.assert_allclose(spectrum(other).singular_values, values, atol=1e-6 * values[0])
    twice = spectrum([matrix, matrix]).singular_values[: len(values)]
    np.testing.assert_allclose(twice, math.sqrt(2) * values, atol=1e-6 * values[0])


def test_few_contexts_of_many_words_need_no_square_of_the_vocabulary():
    """400,000 words: half a square would be 640 GB."""
    matrix = normal(0, 20, 400_000).astype(np.float32)
    found = spectrum(matrix[i : i + 7] for i in range(0, 20, 7))
    np.testing.assert_allclose(found.singular_values, svd(matrix @ matrix.T) ** 0.5, rtol=1e-6)


def test_half_of_the_square_is_kept():
    gram = rank._Gram(3000, "cpu")
    assert sum(group.numel() for group in gram.groups) < 0.6 * 3000**2


def test_blocks_may_be_overwritten_once_they_are_read():
    for m in (10, 300):  # kept as they are, and summed up
        matrix, buffer = normal(1, m, 100), np.empty((5, 100))

        def blocks(matrix=matrix, buffer=buffer):
            for start in range(0, len(matrix), 5):
                buffer[:] = matrix[start : start + 5]
                yield buffer

        assert_close(spectrum(blocks()), matrix)


@pytest.mark.parametrize("m, N", [(300, 200), (900, 120), (40, 400)])
def test_ranks_at_press_threshold_are_exact(m, N):
    """A fifth of the singular values 1 % above the threshold, 1e-6 of the largest, the others 1 %
    below it. Sums in float32 cannot tell, and find about half."""
    k, edge = min(m, N), 0.5 * math.sqrt(m + N + 1) * np.finfo(np.float32).eps
    values = np.r_[1.0, np.full(k // 5, 1.01 * edge), np.full(k - 1 - k // 5, 0.99 * edge)]
    matrix = of_spectrum(3, m, N, values)
    found = spectrum(np.array_split(matrix, 7))
    assert found.press_rank() == 1 + k // 5 == press_rank(svd(matrix), (m, N))
    single = matrix.astype(np.float32)
    gram = single.T @ single if m > N else single @ single.T
    coarse = np.sqrt(np.linalg.eigvalsh(gram).clip(0))
    assert abs(press_rank(coarse, (m, N)) - found.press_rank()) > k // 10


@few
@given(seeds, st.integers(1, 30), st.sampled_from([0.0, 1e-9, 1e-7]))
def test_known_rank_under_known_noise(seed, r, noise):
    """Noise of a tenth of the threshold and less changes no rank; NumPy agrees on all four."""
    m, N = 150, 90
    matrix = of_spectrum(seed, m, N, np.geomspace(1, 1e-3, r)) + noise / 12 * normal(seed, m, N)
    found, values = spectrum(np.array_split(matrix, 4)), svd(matrix)
    assert found.press_rank() == press_rank(values, (m, N)) == r
    for epsilon in EPSILONS:
        assert found.effective_rank(epsilon) == effective_rank(values, epsilon) <= r


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_softmax_bottleneck(bias, dtype):
    """One softmax has rank d + 1, with a bias d + 2; a mixture is not bound by it."""
    table = softmax_table(0, 400, 150, 12, bias, dtype=dtype)
    found = spectrum(table.split(64))
    assert found.press_rank() == 13 + bias == press_rank(svd(table), table.shape)
    mixed = softmax_table(0, 400, 150, 12, bias, components=3, dtype=dtype)
    found = spectrum(mixed.split(64))
    assert found.press_rank() == press_rank(svd(mixed), mixed.shape) == 150
    for epsilon in EPSILONS:
        assert found.effective_rank(epsilon) == effective_rank(svd(mixed), epsilon)


def test_certain_and_uniform_predictions():
    uniform = spectrum([torch.full((50, 20), -math.log(20.0))] * 3)
    assert uniform.press_rank() == uniform.effective_rank(1e-5) == 1
    assert uniform.singular_values[0] == pytest.approx(math.log(20) * math.sqrt(150 * 20))
    nothing = spectrum(torch.zeros(30, 20))
    assert nothing.press_rank() == nothing.effective_rank(1e-5) == 0


@few
@given(seeds, st.integers(1, 40), st.floats(0, 0.999))
def test_effective_rank_is_its_definition(seed, k, epsilon):
    values = np.sort(np.abs(normal(seed, k)))[::-1]
    naive = next(
        i
        for i in range(1, k + 1)
        if np.square(values[:i]).sum() >= (1 - epsilon) * np.square(values).sum() * (1 - 1e-12)
    )
    assert effective_rank(values, epsilon) == naive
    assert effective_rank(7.3 * values, epsilon) == naive


def test_thresholds_of_press():
    values = np.array([2.0, 2e-6, 1e-14])
    edge = 0.5 * math.sqrt(201) * 2.0 * np.finfo(np.float32).eps
    assert press_rank([2.0, 1.001 * edge, 0.999 * edge], (100, 100)) == 2
    assert press_rank(values, (100, 100)) == 2
    assert press_rank(values, (100, 100), np.float64) == 3 - (1e-14 < edge * 2**-29)
    assert press_rank(values[:2], (10**8, 10**8)) == 1  # a larger table has a higher one


@pytest.mark.parametrize("epsilon", [-0.1, 1.0, 2])
def test_effective_rank_wants_a_share(epsilon):
    with pytest.raises(CourseError, match="is a share"):
        effective_rank([1.0], epsilon)


def test_ranks_depend_on_neither_unit_nor_order():
    for scale in (1e-170, 1.0, 1e200):
        assert effective_rank([scale, scale], 1e-3) == 2
    assert effective_rank([1e-3, 1.0, 0.5], 1e-3) == effective_rank([1.0, 0.5, 1e-3], 1e-3) == 2
    for measured in (lambda s: effective_rank(s, 1e-3), lambda s: press_rank(s, (4, 4))):
        with pytest.raises(CourseError, match="singular values: a list of finite numbers"):
            measured([2.0, np.nan])


def test_bad_tables_are_refused():
    with pytest.raises(CourseError, match="without rows"):
        spectrum([])
    with pytest.raises(CourseError, match=r"after 3 rows came one of shape \(2, 5\)"):
        spectrum([np.ones((3, 4)), np.ones((2, 5))])
    with pytest.raises(CourseError, match=r"the number of words\), but .* shape \(4,\)"):
        spectrum([np.ones(4)])
    table = np.ones((6, 4))
    table[5, 2] = -np.inf
    with pytest.raises(CourseError, match="row 9 of log P"):
        spectrum([np.ones((4, 4)), table])


@few
@given(seeds, st.integers(1, 12), st.booleans(), st.booleans())
def test_the_hidden_size_shows_in_the_output(seed, d, bias, normalised):
    """From log-probabilities, or logits with any offset, in float32 as an interface returns."""
    table = softmax_table(seed, 60, 80, d, bias)
    if not normalised:
        table = table + torch.from_numpy(normal(seed + 3, 60, 1)).float()
    found = hidden_size(table.split(13))
    assert found.d == d and found.gap >= 10 and len(found.singular_values) == 59


def test_no_gap_no_hidden_size(monkeypatch):
    assert hidden_size(softmax_table(0, 60, 40, 6, components=3)).d is None
    assert hidden_size(softmax_table(0, 12, 40, 30)).d is None  # fewer contexts than d
    coarse = softmax_table(0, 60, 40, 6).round()  # to whole nats
    assert hidden_size(coarse).gap < 10 and hidden_size(coarse).d is None
    monkeypatch.setattr(bottleneck, "LEAST_GAP", 5)
    assert hidden_size(coarse).d == 6
    with pytest.raises(CourseError, match="4 different contexts or more"):
        hidden_size(softmax_table(0, 3, 40, 2))
    with pytest.raises(CourseError, match="4 different contexts or more"):
        hidden_size(softmax_table(0, 1, 40, 2).expand(9, 40))
    with pytest.raises(CourseError, match="4 different contexts or more; got 1"):
        hidden_size(softmax_table(0, 1, 40, 2))
    with pytest.raises(CourseError, match="4 different contexts or more; got 0"):
        hidden_size([])
    with pytest.raises(CourseError, match="3 words"):
        hidden_size(softmax_table(0, 9, 2, 1))


@pytest.mark.parametrize(
    "contexts, words, d", [(6, 40, 4), (40, 6, 4), (5, 40, None), (40, 5, None)]
)
def test_as_many_contexts_and_words_as_the_hidden_size_and_two(contexts, words, d):
    assert hidden_size(softmax_table(0, contexts, words, 4)).d == d


def test_a_direction_that_changes_no_probability_is_not_seen():
    """A column of ones in W adds the same to every logit."""
    W = torch.from_numpy(normal(0, 50, 5))
    W[:, 0] = 1
    table = torch.from_numpy(normal(1, 40, 5)) @ W.T
    assert hidden_size(table).d == hidden_size(table.log_softmax(-1)).d == 4


@pytest.mark.parametrize("kind", rank_benchmark.KINDS)
def test_the_benchmark_compares_like_with_like(kind):
    rows = [
        rank_benchmark.measured(method, kind, 300, 120, 10, 1) for method in rank_benchmark.METHODS
    ]
    ranks = [{k: v for k, v in row.items() if k[0] in "Pε"} for row in rows]
    assert ranks[0] == ranks[1] == ranks[2]
    assert ranks[0]["Press' rank"] == (12 if kind == "softmax" else 120)


def test_the_benchmark_runs_each_method_in_its_own_process():
    (row,) = rank_benchmark.report("softmax", 100, 50, 4, ("course",))
    assert row["Press' rank"] == 6 and row["memory MB"] > 0 and row["seconds"] > 0


def test_the_benchmark_command_prints_a_row_a_method(monkeypatch):
    row = {"method": "course", "seconds": 1.25, "memory MB": 1234.5, "Press' rank": 6}
    asked = []
    monkeypatch.setattr(rank_benchmark, "report", lambda *a: asked.append(a) or [row, row])
    sizes = ["--contexts", "100", "--words", "50", "--size", "4"]
    done = CliRunner().invoke(app, ["rank", "mixture", *sizes])
    assert asked == [("mixture", 100, 50, 4)]
    assert [line.split() for line in done.stdout.splitlines()[2:]] == [
        ["course", "1.2", "1,234", "6"]
    ] * 2
    with pytest.raises(CourseError, match="softmax"):
        CliRunner().invoke(app, ["rank", "sofmax"], catch_exceptions=False)


N, EOS = 23, 4


def build(kind=Softmax, encoder=None):
    torch.manual_seed(0)
    words = FullWords(N, 6, init=1.0)
    return LanguageModel(words, encoder or AWDLSTM(6, (7, 6)), kind(words))


def tokens(count=43):
    return torch.randint(N, (count,), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", [Softmax, MixtureOfSoftmaxes])
def test_blocks_of_log_prob_are_what_the_perplexity_averages(kind):
    model = build(kind).double()
    expected = perplexity(model, tokens(), EOS)
    for block, length in ((1, 43), (5, 7), (100, 100), (8, 1)):
        blocks = list(log_prob_blocks(model, tokens(), EOS, block, length, progress=False))
        assert max(map(len, blocks)) <= block and model.training
        table = torch.cat(blocks)
        assert table.shape == (43, N) and table.dtype == torch.float64
        torch.testing.assert_close(table.exp().sum(1), torch.ones(43, dtype=torch.float64))
        nll = -table.gather(1, tokens()[:, None]).mean()
        assert nll.exp().item() == pytest.approx(expected, rel=1e-10)


def test_the_first_contexts_alone():
    model = build()
    whole = torch.cat(list(log_prob_blocks(model, tokens(), EOS, progress=False)))
    first = torch.cat(list(log_prob_blocks(model, tokens(), EOS, contexts=9, progress=False)))
    torch.testing.assert_close(first, whole[:9])
    assert whole.dtype == torch.float32
    found = spectrum(log_prob_blocks(model, tokens(), EOS, progress=False))
    assert found.press_rank() <= 6 + 2 and found.shape == (43, N)
    summary = found.summary()
    assert (summary["contexts"], summary["words"]) == found.shape
    assert summary["press_rank"] == found.press_rank()
    assert summary["effective_rank"]["0.0001"] == found.effective_rank(1e-4)


def test_a_reader_that_stops_leaves_the_model_as_it_was():
    encoder = TransformerXL(6, 1, 2, 3, 8, memory=4)
    model = build(encoder=encoder)
    blocks = log_prob_blocks(model, tokens(), EOS, 4, 8, memory=16, clamp=9, progress=False)
    row = next(blocks)
    assert not model.training and model.encoder is not encoder and not row.requires_grad
    blocks.close()
    assert model.training and model.encoder is encoder


@pytest.mark.parametrize("wrong", [{"block": 0}, {"length": 0}, {"contexts": 0}])
def test_impossible_blocks_are_refused(wrong):
    with pytest.raises(CourseError, match="at least 1"):
        next(log_prob_blocks(build(), tokens(), EOS, **wrong))
