"""The regularizers against their naive formulas, in value and gradient, and the papers' claims."""

import copy
import dataclasses
import inspect
import itertools
import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch.nn import functional as F

from course_lib.errors import CourseError
from course_lib.models import LanguageModel, VariationalLSTM
from course_lib.output_layers import (
    IGNORE,
    FullWords,
    MixtureOfSoftmaxes,
    SoftCappedSoftmax,
    Softmax,
    SpectralWords,
    naive,
)
from course_lib.output_layers.scratch import BlockScratch
from course_lib.regularizers import (
    REGULARIZERS,
    ActivationRegularizer,
    Activations,
    ContextDispersion,
    CosineRegularizer,
    DOptimal,
    ExponentialPrior,
    MuLoss,
    Orthogonality,
    PastDecode,
    PolynomialPrior,
    TemporalActivationRegularizer,
)

pytestmark = pytest.mark.usefixtures("device")

PRIORS = {
    "exponential": ExponentialPrior(0.7, 2.0, 0.3, 0.8),
    "polynomial": PolynomialPrior(1.3, 1.5, 0.6),
}
shapes = given(
    rows=st.integers(0, 20), d=st.integers(1, 7), seed=st.integers(0, 999)
)  # N = d + rows, as spectral words need N ≥ d


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def full(n, d, seed=0):
    """Plain words with any rows."""
    words = FullWords(n, d).double()
    with torch.no_grad():
        words.weight.copy_(draw(n, d, seed=seed) + 0.3)
    return words


def spectral(n, d, seed=0, normalise=False):
    """Spectral words as they are amid training: U, V not orthonormal, σ in any order and sign."""
    words = SpectralWords(n, d, normalise=normalise).double()
    with torch.no_grad():
        words.U.copy_(draw(n, d, seed=seed) + 0.3)
        words.V.copy_(draw(d, d, seed=seed + 1))
        words.free.copy_(draw(d, seed=seed + 2))
        for k, warm in enumerate((words.warm_U, words.warm_V)):
            warm.copy_(F.normalize(draw(d, seed=seed + 3 + k), dim=0))
    return words


def orthonormal(n, d, seed=0):
    """Spectral words with U'U = I and V'V = I and some spectrum."""
    words = spectral(n, d, seed)
    with torch.no_grad():
        words.U.copy_(torch.linalg.qr(words.U).Q)
        words.V.copy_(torch.linalg.qr(words.V).Q)
    return words


def agrees(words, ours, naive):
    """Value and all gradients of two scalars are the same to ten digits."""
    parameters = list(words.parameters())
    found = torch.autograd.grad(ours, parameters, allow_unused=True)
    expected = torch.autograd.grad(naive, parameters, allow_unused=True)
    torch.testing.assert_close(ours, naive, rtol=1e-10, atol=1e-12)
    for a, b in zip(found, expected, strict=True):
        a, b = (torch.zeros(()) if g is None else g for g in (a, b))
        scale = max(1.0, b.abs().max().item())
        torch.testing.assert_close(a.expand(b.shape), b.to(a), rtol=1e-10, atol=1e-10 * scale)


def mean_cosine(W):
    """The one-liner of gao2019's equation 6, N × N."""
    unit = F.normalize(W, dim=1, eps=1e-300)  # the default, 1e-12, would shorten small rows
    cosines = unit @ unit.T
    return (cosines.sum() - cosines.trace()) / len(W) ** 2


def deviation(M):
    return M.T @ M - torch.eye(M.shape[1], dtype=M.dtype)


KINDS = [full, spectral, lambda n, d, seed: spectral(n, d, seed, normalise=True)]


@shapes
@settings(max_examples=60, deadline=None)
def test_cosine_is_the_mean_over_all_pairs(rows, d, seed):
    for kind in KINDS:
        words = kind(d + rows, d, seed)
        agrees(words, CosineRegularizer(0.7)(words), 0.7 * mean_cosine(words.matrix()))


def test_cosine_of_known_matrices():
    """0 for orthogonal rows, −1/N where the directions cancel, 1 − 1/N where they are one."""
    words = full(6, 6)
    for rows, expected in (
        (torch.diag(torch.arange(1.0, 7)), 0.0),
        (torch.cat([torch.eye(6)[:3], -torch.eye(6)[:3] * 4]), -1 / 6),
        (torch.arange(1.0, 7)[:, None] * torch.ones(6), 1 - 1 / 6),
    ):
        with torch.no_grad():
            words.weight.copy_(rows)
        assert CosineRegularizer()(words).item() == pytest.approx(expected, abs=1e-12)


@shapes
@settings(max_examples=40, deadline=None)
def test_cosine_bounds_and_invariances(rows, d, seed):
    """In [−1/N, 1 − 1/N]; rotations of the space and positive scales of the rows do not count."""
    n = d + rows
    words, regularizer = full(n, d, seed), CosineRegularizer()
    value = regularizer(words).item()
    assert -1 / n - 1e-12 <= value <= 1 - 1 / n + 1e-12
    with torch.no_grad():
        rotation = torch.linalg.qr(draw(d, d, seed=seed)).Q
        words.weight.mul_(draw(n, 1, seed=seed).exp()).copy_(words.weight @ rotation)
    assert regularizer(words).item() == pytest.approx(value, abs=1e-12)


@given(n=st.integers(1, 12), d=st.integers(1, 6), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_the_largest_eigenvalue_is_at_most_the_sum_of_the_cosines(n, d, seed):
    """gao2019, theorem 4: what the regularizer lowers bounds the spectrum, if no cosine is < 0."""
    words = full(n, d, seed)
    with torch.no_grad():
        words.weight.abs_()
    unit = F.normalize(words.weight.detach(), dim=1)
    bound = n**2 * CosineRegularizer()(words).item() + n
    assert torch.linalg.eigvalsh(unit @ unit.T)[-1].item() <= bound * (1 + 1e-12)


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_row_of_zeros_has_cosine_0_and_no_gradient(kind):
    words = kind(7, 3, 0)
    rows = next(words.parameters())
    with torch.no_grad():
        rows[2] = 0
    loss = CosineRegularizer()(words)
    torch.testing.assert_close(loss, mean_cosine(words.matrix()))
    loss.backward()
    assert all(p.grad.isfinite().all() for p in words.parameters())
    assert (rows.grad[2] == 0).all() and (rows.grad[[0, 1, 3, 4, 5, 6]] != 0).all()


def test_cosine_of_a_whole_matrix_of_zeros_and_of_tiny_and_huge_rows():
    words = FullWords(5, 3)
    with torch.no_grad():
        words.weight.zero_()
    loss = CosineRegularizer()(words)
    loss.backward()
    assert loss.item() == 0 and (words.weight.grad == 0).all()
    with torch.no_grad():  # norms whose cubes no float32 holds
        words.weight.copy_(torch.tensor([1e-15, 1e-8, 1.0, 1e8, 1e15])[:, None] * draw(5, 3))
    words.zero_grad()
    loss = CosineRegularizer()(words)
    loss.backward()
    assert loss.item() == pytest.approx(mean_cosine(words.weight.double()).item(), abs=1e-6)
    along = words.weight.grad.double() * words.weight.detach().double()
    assert words.weight.grad.isfinite().all()
    assert along.sum(1).abs().max() < 1e-6  # nothing to gain by a longer or shorter row


@shapes
@settings(max_examples=60, deadline=None)
def test_orthogonality_in_the_frobenius_norm(rows, d, seed):
    words = spectral(d + rows, d, seed)
    naive = 0.7 * deviation(words.U).square().sum() + 1.3 * deviation(words.V).square().sum()
    agrees(words, Orthogonality(0.7, 1.3, 0, 0)(words), naive)


@shapes
@settings(max_examples=30, deadline=None)
def test_orthogonality_in_the_spectral_norm(rows, d, seed):
    """Once the power iteration has converged: value and gradient are those of the singular value.

    The gradient passes through U, and only there: v is held fixed.
    """
    words = spectral(d + rows, d, seed)
    regularizer = Orthogonality(0, 0, 0.7, 1.3, iterations=200)
    for M in (words.U, words.V):  # a spectrum of UᵀU − I with one clear leader
        with torch.no_grad():
            L, _, R = torch.linalg.svd(M, full_matrices=False)
            M.copy_(L * torch.linspace(1.9, 0.8, d, dtype=M.dtype) @ R)
    for _ in range(5):
        ours = regularizer(words)
    naive = sum(
        weight * torch.linalg.matrix_norm(deviation(M), 2) ** 2
        for weight, M in ((0.7, words.U), (1.3, words.V))
    )
    agrees(words, ours, naive)


@pytest.mark.parametrize("leader", [3.0, -0.9])
def test_orthogonality_of_a_known_spectrum(leader):
    """‖G‖²_F is the sum of the squared eigenvalues, ‖G‖₂ the largest in size, of either sign."""
    values = torch.tensor([leader, 0.5, 0.2, -0.4], dtype=torch.float64)
    words = orthonormal(9, 4)
    with torch.no_grad():
        words.U.mul_((1 + values).sqrt()).copy_(words.U @ torch.linalg.qr(draw(4, 4, seed=5)).Q)
    frobenius = Orthogonality(1, 0, 0, 0)(words).item()
    assert frobenius == pytest.approx(values.square().sum().item(), rel=1e-12)
    spectral_norm = Orthogonality(0, 0, 1, 0, iterations=100)(words)
    assert spectral_norm.item() == pytest.approx(values[0].item() ** 2, rel=1e-12)
    (gradient,) = torch.autograd.grad(spectral_norm, words.U)
    v = torch.linalg.eigh(deviation(words.U.detach())).eigenvectors
    v = v[:, -1 if leader > 0 else 0]
    expected = words.U.detach() @ (4 * values[0] * torch.outer(v, v))  # U (dG + dGᵀ)
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-9)


def test_power_iteration_goes_on_where_it_ended():
    """One iteration a step is too few from scratch, and enough over many steps."""
    words, regularizer = spectral(30, 12), Orthogonality(0, 0, 1, 0, iterations=1)
    exact = torch.linalg.matrix_norm(deviation(words.U.detach()), 2).item() ** 2
    values = [regularizer(words).item() for _ in range(300)]
    assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(values))  # from below
    assert values[0] < 0.9 * exact and values[-1] == pytest.approx(exact, rel=1e-8)
    with torch.no_grad():
        words.U.add_(1e-3 * draw(30, 12, seed=9))  # a step of training: the leader has moved
    exact = torch.linalg.matrix_norm(deviation(words.U.detach()), 2).item() ** 2
    assert regularizer(words).item() == pytest.approx(exact, rel=1e-4)


def test_power_iteration_of_two_leaders_of_opposite_sign():
    """Eigenvalues 0.6 and −0.6: no vector converges, the value does."""
    words = orthonormal(8, 3)
    with torch.no_grad():
        words.U.mul_((1 + torch.tensor([0.6, -0.6, 0.1])).sqrt())
    value = Orthogonality(0, 0, 1, 0, iterations=50)(words)
    assert value.item() == pytest.approx(0.36, rel=1e-6)


def test_orthonormal_factors_cost_nothing_and_stop_no_later_iteration():
    words = orthonormal(20, 6)
    loss = Orthogonality()(words)
    loss.backward()
    assert loss.item() < 1e-25
    assert words.U.grad.abs().max() < 1e-13 and words.V.grad.abs().max() < 1e-13
    with torch.no_grad():
        words.U.zero_()[:6].copy_(torch.eye(6))  # G exactly 0
    Orthogonality()(words)
    for warm in (words.warm_U, words.warm_V):
        assert warm.norm().item() == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("d", [1, 3])
def test_a_step_that_overflowed_does_not_spoil_the_next(d):
    """One dimension: G v is infinite; three: not a number."""
    words = orthonormal(8, d)
    good = words.U.detach().clone()
    with torch.no_grad():
        words.U[0, 0] = math.inf
    assert not Orthogonality()(words).isfinite()
    with torch.no_grad():
        words.U.copy_(2 * good)  # G = 3 I
    assert Orthogonality(0, 0, 1, 0)(words).item() == pytest.approx(9, rel=1e-12)


def test_the_buffers_move_in_training_only():
    words, regularizer = spectral(12, 5), Orthogonality()
    words.eval()
    before = words.warm_U.clone(), words.warm_V.clone()
    evaluated = regularizer(words)
    assert torch.equal(words.warm_U, before[0]) and torch.equal(words.warm_V, before[1])
    words.train()
    trained = regularizer(words)
    assert not torch.equal(words.warm_U, before[0]) and not torch.equal(words.warm_V, before[1])
    assert not words.warm_U.requires_grad and evaluated.item() == trained.item()
    trained.backward()  # the update in place did not touch what the backward needs


def test_a_term_of_weight_0_is_left_alone():
    words = spectral(12, 5)
    warm = words.warm_V.clone()
    Orthogonality(1, 0, 1, 0)(words).backward()
    assert words.V.grad is None and torch.equal(words.warm_V, warm)
    assert Orthogonality(0, 0, 0, 0)(words).item() == 0
    terms = torch.eye(4).tolist()
    separate = sum(Orthogonality(*weights, iterations=50)(words).item() for weights in terms)
    assert Orthogonality(1, 1, 1, 1, iterations=50)(words).item() == pytest.approx(separate)


@shapes
@settings(max_examples=40, deadline=None)
def test_priors_pair_by_rank(rows, d, seed):
    k = torch.arange(1, d + 1, dtype=torch.float64)
    naive_values = {
        "exponential": 2.0 * torch.exp(-0.3 * k**0.8),
        "polynomial": 1.5 * k**-0.6,
    }
    words = spectral(d + rows, d, seed)
    for name, prior in PRIORS.items():
        values = prior.values(d)
        torch.testing.assert_close(values, naive_values[name], rtol=1e-12, atol=0)
        naive = prior.weight * (words.singular_values() - values).square().sum()
        agrees(words, prior(words), naive)
        order = torch.randperm(d, generator=torch.Generator().manual_seed(seed))
        value = prior(words)
        with torch.no_grad():
            words.free.copy_(words.free[order])
        torch.testing.assert_close(prior(words), value)


@pytest.mark.parametrize("name", PRIORS)
def test_priors_take_the_nearest_pairing_and_vanish_at_the_prior(name):
    prior, words = PRIORS[name], spectral(8, 5)
    sigma, values = words.sigma.detach(), prior.values(5)
    assert (values.diff() < 0).all()
    pairings = itertools.permutations(range(5))
    least = min((sigma[list(p)] - values).square().sum().item() for p in pairings)
    assert prior(words).item() == pytest.approx(prior.weight * least, rel=1e-12)
    words.start_at(values)
    loss = prior(words)
    loss.backward()
    assert loss.item() < 1e-25 and words.free.grad.abs().max() < 1e-12


def test_d_optimal():
    words = spectral(9, 4)
    agrees(words, DOptimal(0.7)(words), -0.7 * words.sigma.log().sum())
    with torch.no_grad():
        words.free[1] = 0
    loss = DOptimal(0.7)(words)
    loss.backward()
    assert 100 < loss.item() < 1000 and words.free.grad.isfinite().all()
    assert words.free.grad[1] == 0 and (words.free.grad[[0, 2, 3]] != 0).all()
    # with spectral normalisation the smallest loss, 0, is a flat spectrum
    flat = spectral(9, 4, normalise=True)
    assert DOptimal(1.0)(flat).item() > 0.1
    with torch.no_grad():
        flat.free.fill_(-3.0)
    assert DOptimal(1.0)(flat).item() == pytest.approx(0, abs=1e-12)


@shapes
@settings(max_examples=40, deadline=None)
def test_mu_loss(rows, d, seed):
    for kind in KINDS:
        words = kind(d + rows, d, seed)
        agrees(words, MuLoss(0.7)(words), 0.7 * words.matrix().mean(0).square().sum())


@given(t=st.integers(1, 6), b=st.integers(1, 4), d=st.integers(1, 5), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_activation_regularizers(t, b, d, seed):
    hidden, raw = draw(2, t, b, d, seed=seed).requires_grad_()
    activations = Activations(hidden, raw)
    ar = ActivationRegularizer(0.7)(None, activations)
    torch.testing.assert_close(ar, 0.7 * hidden.square().mean(), rtol=1e-12, atol=0)
    (gradient,) = torch.autograd.grad(ar, hidden, retain_graph=True)
    torch.testing.assert_close(gradient, 1.4 * hidden / hidden.numel(), rtol=1e-12, atol=1e-14)
    tar = TemporalActivationRegularizer(0.7)(None, activations)
    (gradient,) = torch.autograd.grad(tar, raw)
    if t == 1:
        assert tar.item() == 0 and (gradient == 0).all()
    else:
        expected = 0.7 * (raw[1:] - raw[:-1]).square().mean()
        torch.testing.assert_close(tar, expected, rtol=1e-12, atol=0)
        # the graph through `raw` alone: an end's gradient pulls it towards its neighbour
        towards = 1.4 * (raw[0] - raw[1]) / raw[1:].numel()
        torch.testing.assert_close(gradient[0], towards, rtol=1e-12, atol=1e-14)


def dispersion(hidden, temperature):
    """The formula pair by pair, for each sequence (T, d) by itself."""
    values = []
    for sequence in hidden.unbind(1):
        unit = [h / h.norm().clamp(min=1e-4) for h in sequence]
        angles = [
            (a @ b).clamp(-1 + 1e-4, 1 - 1e-4).acos() / math.pi
            for i, a in enumerate(unit)
            for j, b in enumerate(unit)
            if i != j
        ]
        values.append(torch.stack([(-x / temperature).exp() for x in angles]).mean().log())
    return torch.stack(values).mean()


@given(
    t=st.integers(2, 6), b=st.integers(1, 4), d=st.integers(1, 5), seed=st.integers(0, 999),
    temperature=st.floats(0.05, 5),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_dispersion_of_contexts(t, b, d, seed, temperature):
    hidden = draw(t, b, d, seed=seed).requires_grad_()
    ours = ContextDispersion(0.7, temperature)(None, Activations(hidden, hidden))
    expected = 0.7 * dispersion(hidden, temperature)
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-11)
    pairs = [torch.autograd.grad(x, hidden)[0] for x in (ours, expected)]
    torch.testing.assert_close(*pairs, rtol=1e-7, atol=1e-9)


@given(t=st.integers(2, 6), d=st.integers(2, 5), seed=st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_dispersion_is_of_directions_within_a_sequence(t, d, seed):
    """In [−1/τ, 0]; no turn, length or order counts, and no other sequence."""
    penalty, hidden = ContextDispersion(1.0, 0.5), draw(t, 3, d, seed=seed)

    def value(h):
        return penalty(None, Activations(h, h)).item()

    before = value(hidden)
    assert -2 <= before <= 0
    turn = torch.linalg.qr(draw(d, d, seed=seed)).Q
    lengths = 1 + draw(t, 3, 1, seed=seed).abs()
    order = torch.randperm(t, generator=torch.Generator().manual_seed(seed))
    assert value((hidden @ turn * lengths)[order]) == pytest.approx(before, abs=1e-9)
    each = [value(hidden[:, k : k + 1]) for k in range(3)]
    assert before == pytest.approx(sum(each) / 3, abs=1e-12)


def test_dispersion_of_known_contexts():
    """−1 at τ = ½ where all are orthogonal, nearly 0 where they are one; one alone has none.

    Contexts far shorter than 10⁻⁴ have no direction, and count as orthogonal.
    """
    penalty = ContextDispersion(1.0, 0.5)
    for rows, expected in (
        (torch.eye(4), -1.0),
        (torch.ones(4, 4), 0.0),
        (1e-6 * torch.ones(4, 4), -1.0),
    ):
        hidden = rows.double()[:, None].requires_grad_()
        loss = penalty(None, Activations(hidden, hidden))
        assert loss.item() == pytest.approx(expected, abs=0.01)
        loss.backward()
        assert hidden.grad.isfinite().all()
    for hidden in (torch.ones(1, 2, 3), torch.zeros(4, 2, 3)):
        hidden.requires_grad_()
        loss = penalty(None, Activations(hidden, hidden))
        loss.backward()
        assert hidden.grad.abs().max() == 0 and (len(hidden) > 1 or loss.item() == 0)


def past_model(kind, layer, **options):
    """A language model whose past is decoded, with parameters that matter, and its penalty."""
    torch.manual_seed(0)
    words = kind(13, 6, init=0.5)
    penalty = PastDecode(0.7)
    layer = layer(words, **options)
    model = LanguageModel(words, VariationalLSTM(6, 6, init=0.5), layer, regularizers=(penalty,))
    torch.nn.init.normal_(layer.past_bias)
    return model.double(), penalty


def test_the_past_is_decoded_in_the_memory_of_the_output_layer(monkeypatch):
    """So `block_memory` of an experiment limits it, too, and no step takes fresh pages."""
    model, penalty = past_model(FullWords, Softmax)
    taken = []
    walk = BlockScratch.walk
    monkeypatch.setattr(BlockScratch, "walk", lambda own, *a: taken.append(own) or walk(own, *a))
    hidden, tokens = draw(4, 3, 6), torch.randint(13, (4, 3))
    penalty(model.output_layer.words, Activations(hidden, hidden, model.output_layer, tokens))
    assert taken == [model.output_layer.scratch]


@pytest.mark.parametrize("kind", [FullWords, SpectralWords])
@pytest.mark.parametrize(
    ("layer", "options"),
    [(Softmax, {}), (SoftCappedSoftmax, {"cap": 2.0}), (MixtureOfSoftmaxes, {"components": 3})],
)
def test_the_past_is_decoded_from_the_prediction(kind, layer, options):
    """From p of each layer's plain form; value and gradients of words, layer and contexts."""
    model, penalty = past_model(kind, layer, **options)
    hidden = draw(4, 3, 6).requires_grad_()
    tokens = torch.randint(13, (4, 3))
    tokens[2, 1] = IGNORE
    layer, words = model.output_layer, model.output_layer.words
    ours = penalty(words, Activations(hidden, hidden, layer, tokens))
    W = words.matrix()
    p = naive.table(layer, hidden.flatten(0, 1)).log_prob.exp()
    past = (p @ W @ layer.past.weight.T + layer.past.bias).tanh()
    log_prob = (past @ W.T + layer.past_bias).log_softmax(-1)
    counted = [(i, y) for i, y in enumerate(tokens.flatten().tolist()) if y != IGNORE]
    expected = -0.7 * sum(log_prob[i, y] for i, y in counted) / len(counted)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)
    leaves = [hidden, *layer.parameters()]
    found = torch.autograd.grad(ours, leaves, retain_graph=True, materialize_grads=True)
    wanted = torch.autograd.grad(expected, leaves, materialize_grads=True)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_a_language_model_decodes_the_words_that_it_has_read():
    """Not those that it predicts; where the target does not count, the past does not either."""
    model, penalty = past_model(FullWords, Softmax)
    tokens, target = torch.randint(13, (2, 5, 3))
    target[3, 1] = IGNORE
    step = model(tokens, target=target)
    read = tokens.clone()
    read[3, 1] = IGNORE
    activations = Activations(step.hidden, step.hidden, model.output_layer, read)
    past = penalty(model.output_layer.words, activations)
    torch.testing.assert_close(step.loss - step.nll, past)
    evaluated = model.eval()(tokens, target=target)
    assert evaluated.loss == evaluated.nll


def test_what_the_past_needs_is_learned_and_kept_with_the_output_layer():
    model, _ = past_model(FullWords, Softmax)
    names = dict(model.named_parameters())
    own = {n: names[n] for n in names if n.startswith("output_layer.past")}
    assert sum(p.numel() for p in own.values()) == 6 * 6 + 6 + 13
    tokens, target = torch.randint(13, (2, 5, 3))
    optimizer = torch.optim.Adam(own.values(), lr=0.1)
    losses = []
    for _ in range(60):  # what is learned lowers the loss, with all words and contexts as they are
        step = model(tokens, target=target)
        losses.append((step.loss - step.nll).item())
        optimizer.zero_grad()
        step.loss.backward()
        optimizer.step()
    assert losses[-1] < 0.8 * losses[0]


def test_a_past_that_nothing_was_prepared_for_is_refused_with_what_to_call():
    """Where the layer has no parameters for it, or the activations lack the layer or tokens."""
    layer, hidden, tokens = Softmax(FullWords(13, 6)), draw(4, 3, 6), torch.randint(13, (4, 3))
    told = r"`output_layer` and `tokens` .*call its prepare\(output_layer\)"
    penalty = PastDecode()
    with pytest.raises(CourseError, match=told):
        penalty(layer.words, Activations(hidden, hidden, layer, tokens))
    penalty.prepare(layer.double())
    for lacking in (Activations(hidden, hidden), Activations(hidden, hidden, layer)):
        with pytest.raises(CourseError, match=told):
            penalty(layer.words, lacking)
    layer.double()
    assert penalty(layer.words, Activations(hidden, hidden, layer, tokens)) > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_past_is_decoded_in_half_precision(dtype):
    """Held in it, and under autocast: about the loss in float32."""
    model, penalty = past_model(FullWords, Softmax)
    model, tokens = model.float(), torch.randint(13, (4, 3))
    hidden = draw(4, 3, 6).float()
    layer = model.output_layer
    plain = penalty(layer.words, Activations(hidden, hidden, layer, tokens)).item()
    with torch.autocast(hidden.device.type, dtype):
        cast = penalty(layer.words, Activations(hidden, hidden, layer, tokens))
    held = layer.to(dtype)
    small = hidden.to(dtype)
    half = penalty(held.words, Activations(small, small, held, tokens))
    for loss in (cast, half):
        assert loss.dtype == torch.float32 and loss.item() == pytest.approx(plain, rel=0.03)


def test_gradcheck():
    words = spectral(6, 3)
    words.eval()  # the same power iteration at every call
    converged = Orthogonality(0.3, 0.7, 0.2, 0.4, iterations=400)
    everything = (
        CosineRegularizer(), converged, MuLoss(1.0), DOptimal(0.1), *PRIORS.values(),
    )  # fmt: skip
    names = [name for name, _ in words.named_parameters()]
    leaves = tuple(p.detach().clone().requires_grad_() for p in words.parameters())

    def total(*values):
        def step(words):
            return sum(regularizer(words) for regularizer in everything)

        return torch.func.functional_call(
            _Call(words, step), {f"words.{n}": v for n, v in zip(names, values, strict=True)}, ()
        )

    assert torch.autograd.gradcheck(total, leaves)
    plain = draw(5, 3).requires_grad_()

    def cosine(W):
        return torch.func.functional_call(
            _Call(full(5, 3), CosineRegularizer()), {"words.weight": W}, ()
        )

    assert torch.autograd.gradcheck(cosine, (plain,))

    def activations(hidden):
        return ContextDispersion(0.7, 0.3)(None, Activations(hidden, hidden))

    assert torch.autograd.gradcheck(activations, (draw(4, 2, 3).requires_grad_(),))


class _Call(torch.nn.Module):
    """A regularizer of words as a module, so that its parameters can be swapped."""

    def __init__(self, words, function):
        super().__init__()
        self.words, self.function = words, function

    def forward(self):
        return self.function(self.words)


def all_of(words, activations):
    """One of each kind that fits the words."""
    spectral_only = (Orthogonality(0.3, 0.7, 0.2, 0.4), DOptimal(0.01), *PRIORS.values())
    return [
        CosineRegularizer(), MuLoss(1.0), ActivationRegularizer(), TemporalActivationRegularizer(),
        ContextDispersion(),
        *(spectral_only if hasattr(words, "sigma") else ()),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS[:2])
def test_autocast_changes_nothing(kind, dtype):
    """Values and gradients of float32 words under autocast, backward inside it included."""
    words = kind(40, 8, 0).float()
    words.eval()
    activations = Activations(*draw(2, 3, 2, 8, dtype=torch.float32))
    for regularizer in all_of(words, activations):
        plain = regularizer(words, activations)
        with torch.autocast(torch.get_default_device().type, dtype):
            cast = regularizer(words, activations)
            assert cast.dtype == torch.float32 and cast.item() == plain.item()
            if plain.requires_grad:
                inside = torch.autograd.grad(cast, list(words.parameters()), allow_unused=True)
        if plain.requires_grad:
            outside = torch.autograd.grad(plain, list(words.parameters()), allow_unused=True)
            for a, b in zip(inside, outside, strict=True):
                assert (a is None and b is None) or torch.equal(a, b)


def test_float32_near_orthonormal_factors_is_accurate():
    """Where G cancels: factors 1e-3 from orthonormal, the penalty to 1 % in float32."""
    words = orthonormal(300, 20)
    with torch.no_grad():
        words.U.add_(1e-3 / 300**0.5 * draw(300, 20))
    exact = Orthogonality(1, 1, 0, 0)(words).item()
    assert Orthogonality(1, 1, 0, 0)(words.float()).item() == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("kind", [full, spectral])
def test_half_precision_words_and_activations_are_widened(kind):
    """Before anything is computed: to the last bit the penalty of the same numbers in float32."""
    words = kind(12, 4).bfloat16().eval()  # evaluation: the power iteration stays where it is
    wide = copy.deepcopy(words).float()
    activations = Activations(*draw(2, 3, 2, 4, dtype=torch.bfloat16))
    widened = Activations(activations.hidden.float(), activations.raw.float())
    for regularizer in all_of(words, activations):
        found = regularizer(words, activations)
        assert found.dtype == torch.float32 and found.isfinite()
        assert found.item() == regularizer(wide, widened).item()


@pytest.mark.parametrize("kind", [FullWords, SpectralWords])
def test_all_of_them_add_to_the_loss_of_a_language_model(kind):
    """The gradient of the sum is the sum of the gradients, and a step along it lowers the sum."""
    torch.manual_seed(0)
    words = kind(13, 6, init=0.5)
    encoder = VariationalLSTM(6, 6, init=0.5, dropout=0.2)
    model = LanguageModel(words, encoder, Softmax(words)).double()
    tokens, target = torch.randint(13, (2, 5, 3))
    parameters = list(model.parameters())

    def terms():
        torch.manual_seed(1)
        words.train()
        step = model(tokens, target=target)
        activations = Activations(step.hidden, step.hidden.tanh())
        read = model.output_layer.words
        return [step.loss, *(r(read, activations) for r in all_of(read, activations))]

    for _ in range(30):  # the power iteration settles
        terms()
    values = terms()
    assert len(values) == (6 if kind is FullWords else 10)
    assert all(v.dim() == 0 and v.requires_grad for v in values)
    separate = [
        torch.autograd.grad(v, parameters, retain_graph=True, materialize_grads=True)
        for v in values
    ]
    for total in separate:
        assert any(g.abs().max() > 0 for g in total)
    total = sum(values)
    total.backward()
    for p, *parts in zip(parameters, *separate, strict=True):
        torch.testing.assert_close(p.grad, sum(parts))
    with torch.no_grad():
        for p in parameters:
            p.sub_(1e-4 * p.grad)
    assert sum(terms()).item() < total.item()


def test_plain_words_are_refused_where_factors_are_needed():
    for regularizer in (Orthogonality(), DOptimal(1.0), *PRIORS.values()):
        with pytest.raises(CourseError, match=f"{type(regularizer).__name__}.*SpectralWords"):
            regularizer(full(5, 3))


SETTINGS = {
    ExponentialPrior: {"weight": 1.0, "c1": 1.0, "c2": 1.0, "gamma": 1.0},
    PolynomialPrior: {"weight": 1.0, "c1": 1.0, "gamma": 1.0},
    DOptimal: {"weight": 1.0},
}


@pytest.mark.parametrize("kind", REGULARIZERS.values())
def test_settings_out_of_range_are_refused(kind):
    """Each number of each regularizer, and NaN."""
    settings = SETTINGS.get(kind, {})
    kind(**settings)
    for field in dataclasses.fields(kind):
        if field.name == "start":
            continue
        positive = field.name in ("c1", "c2", "gamma", "iterations", "temperature")
        for value in (-1, float("nan"), float("inf"), *([0] if positive else [])):
            with pytest.raises(CourseError, match=f"{field.name} of {kind.__name__} must be"):
                kind(**settings | {field.name: value})
    assert not PolynomialPrior(1.0, 1.0, 0.5, start=False).start


@dataclasses.dataclass(frozen=True)
class BiasPenalty:
    """weight · mean of the squared biases of the output layer."""

    weight: float = 1.0

    def __call__(self, words, activations):
        return self.weight * activations.output_layer.bias.square().mean()


def test_a_penalty_may_look_at_the_output_layer():
    torch.manual_seed(0)
    words = FullWords(13, 6)
    layer = Softmax(words)
    torch.nn.init.normal_(layer.bias)
    tokens, target = torch.randint(13, (2, 5, 3))
    losses = []
    for regularizers in ((), (BiasPenalty(3.0),)):
        torch.manual_seed(1)
        encoder = VariationalLSTM(6, 6)
        model = LanguageModel(words, encoder, layer, regularizers=regularizers)
        losses.append(model(tokens, target=target).loss)
    expected = 3.0 * layer.bias.square().mean()
    torch.testing.assert_close(losses[1] - losses[0], expected)


def test_every_class_is_entered_by_its_name():
    import course_lib.regularizers as module

    classes = {
        name: c
        for name, c in vars(module).items()
        if inspect.isclass(c) and c.__module__ == module.__name__ and "__call__" in dir(c)
        and not name.startswith("_") and c is not Activations
    }  # fmt: skip
    assert REGULARIZERS == classes
    assert CosineRegularizer() == CosineRegularizer(1.0)
    with pytest.raises(AttributeError):
        CosineRegularizer().weight = 2.0
