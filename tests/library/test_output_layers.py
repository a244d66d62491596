"""Every output layer: its loss equals the naive formula, its probabilities sum to one, its limits.

The naive formulas, `course_lib.output_layers.naive`, are written from the papers on whole tables.
"""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import nn
from torch.nn import functional as F

from course_lib import output_layers
from course_lib.errors import CourseError
from course_lib.output_layers import (
    IGNORE,
    OUTPUT_LAYERS,
    AdaptiveSoftmax,
    Adversarial,
    AdversarialMixtureOfSoftmaxes,
    AdversarialSoftmax,
    AugmentedLoss,
    CrossEntropy,
    FullWords,
    GatedSoftmax,
    GeneralizedSigSoftmax,
    GradientGating,
    LabelSmoothing,
    MixtureOfContexts,
    MixtureOfSoftmaxes,
    OutputLayer,
    PiecewiseLinearSoftmax,
    SigSoftmax,
    SoftCappedSoftmax,
    Softmax,
    SpectralWords,
    ZLoss,
    mixtures,
    naive,
)
from course_lib.output_layers.kernel import chunked_loss

pytestmark = pytest.mark.usefixtures("branches")

OPTIONS = {
    AdaptiveSoftmax: {"cutoffs": (5, 9)},
    PiecewiseLinearSoftmax: {"pieces": 37, "low": -3.0, "high": 3.0},
    MixtureOfSoftmaxes: {"components": 3},
    MixtureOfContexts: {"components": 3},
    AdversarialMixtureOfSoftmaxes: {"components": 3, "alpha": 0.1, "gradient": "full"},
    AdversarialSoftmax: {"alpha": 0.1, "gradient": "full"},
    SoftCappedSoftmax: {"cap": 2.0, "width": 3.0, "shift": 0.5},
}
# Layers whose log P has rank d + 2 at most; all others bend or mix it.
LOW_RANK = (Softmax, AdversarialSoftmax, MixtureOfContexts, GatedSoftmax)
N, D, T, B = 23, 4, 5, 2
OBJECTIVES = {
    "cross-entropy": CrossEntropy(),
    "smoothing": LabelSmoothing(0.1),
    "z-loss": CrossEntropy() + ZLoss(0.1),
    "augmented": CrossEntropy() + AugmentedLoss(0.5, 2.0),
    "all": LabelSmoothing(0.2, 0.7) + ZLoss(0.05) + AugmentedLoss(0.3, 3.0, gradient=True),
}


def build(kind, words=FullWords, bias=True, dtype=torch.float64, seed=0, **options):
    """A layer with weights large enough for every nonlinearity to act."""
    torch.manual_seed(seed)
    layer = kind(words(N, D, init=1.0), bias=bias, **OPTIONS.get(kind, {}) | options).to(dtype)
    for name, parameter in layer.named_parameters():
        if not name.startswith("words.") and "slopes" not in name:
            nn.init.normal_(parameter, std=0.7)
    return layer


def naive_loss(layer, hidden, target, objective, soft, table=naive.table):
    """Mean over counted targets of the objective, from log P of the layer's plain form."""
    y = target.clamp(min=0)
    log_prob, logits = table(layer, hidden, target)
    total = 0
    for term in getattr(objective, "terms", (objective,)):
        at = log_prob.gather(1, y[:, None])[:, 0]
        if isinstance(term, CrossEntropy):
            total = total - term.weight * at
        elif isinstance(term, LabelSmoothing):
            e = term.epsilon
            total = total - term.weight * ((1 - e) * at + e * log_prob.mean(-1))
        elif isinstance(term, ZLoss):
            total = total + term.weight * logits.logsumexp(-1).square().sum(-1)
        else:
            q = F.log_softmax(soft[0] @ soft[1].T / term.temperature, -1)
            q = q if term.gradient else q.detach()
            p = F.log_softmax(log_prob / term.temperature, -1)  # as of l, which differs by a shift
            total = total + term.weight * F.kl_div(p, q, log_target=True, reduction="none").sum(-1)
    counted = (target != IGNORE).to(total)
    return (total * counted).sum() / counted.sum()


def buffers(layer, values=None):
    """The layer's buffers; with `values`, brought back to them."""
    if values is not None:
        for name, buffer in layer.named_buffers():
            buffer.copy_(values[name])
    return {name: buffer.clone() for name, buffer in layer.named_buffers()}


def gradients(loss, leaves):
    found = torch.autograd.grad(loss, leaves, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(t) if g is None else g for g, t in zip(found, leaves, strict=True)]


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("words", [FullWords, SpectralWords])
@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
def test_every_layer_on_every_words_with_every_loss_is_the_naive_formula(kind, words, objective):
    """In value and in the gradients of all parameters and of the hidden states, to 1e-10."""
    layer, objective = build(kind, words), OBJECTIVES[objective]
    hidden = torch.randn(T, B, D, dtype=torch.float64, requires_grad=True)
    target = torch.randint(N, (T, B))
    target[1, 0] = IGNORE
    soft = None
    if objective.needs_soft_targets:
        soft = layer.words.factors(layer.words(target.flatten().clamp(min=0)))
    fresh = buffers(layer)
    loss, nll = layer(hidden, target, objective, soft)
    buffers(layer, fresh)  # the plain form counts the targets itself
    expected = naive_loss(layer, hidden.flatten(0, 1), target.flatten(), objective, soft)
    leaves = [hidden, *layer.parameters()]
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-12)
    pairs = zip(gradients(loss, leaves), gradients(expected, leaves), strict=True)
    for ours, theirs in pairs:
        scale = theirs.abs().max().clamp(min=1e-3)
        assert (ours - theirs).abs().max() <= 1e-10 * scale
    plain = naive_loss(layer, hidden.flatten(0, 1), target.flatten(), CrossEntropy(), None)
    torch.testing.assert_close(nll, plain.detach(), rtol=1e-10, atol=1e-12)


def test_every_layer_has_a_plain_form_and_no_other_borrows_it():
    exported = {x for x in vars(output_layers).values() if isinstance(x, type)}
    layers = {kind for kind in exported if issubclass(kind, OutputLayer)}
    assert layers - {OutputLayer, Adversarial, GradientGating} == set(OUTPUT_LAYERS)

    class Mine(Softmax):
        pass

    with pytest.raises(CourseError, match="plain form of the output layer 'Mine'"):
        Mine(FullWords(5, 3)).reference(torch.randn(2, 3), torch.tensor([0, 1]))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
def test_the_reference_of_a_layer_is_its_loss(kind, training):
    """In either mode; positions that do not count, and any leading shape."""
    layer = build(kind).train(training)
    hidden, target = torch.randn(T, B, D, dtype=torch.float64), torch.randint(N, (T, B))
    target[2, 1] = IGNORE
    torch.testing.assert_close(layer.reference(hidden, target), layer(hidden, target)[0])


@pytest.mark.parametrize("objective", ["cross-entropy", "augmented, gradient"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
def test_a_layer_held_in_half_precision_trains(kind, bias, objective):
    """Without autocast, as a model that was loaded so: the loss and gradients of float32 up to its
    precision, in its type; log P in float32, as the loss has it.

    The slope of a piecewise linear function jumps from piece to piece, by as much as its slopes
    differ. A logit that rounding carries over an edge therefore has another gradient, in whatever
    precision the rest is. With slopes drawn at random one seed in ten differed by more than the
    tolerance; here neighbouring slopes differ little, as in a curve that is seen in detail.
    """
    objective = {"cross-entropy": None, "augmented, gradient": AugmentedLoss(1.0, 2.0, True)}[
        objective
    ]
    hidden, target = 0.3 * torch.randn(T, B, D), torch.randint(N, (T, B))
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        layer = build(kind, bias=bias, dtype=torch.float32)
        if kind is PiecewiseLinearSoftmax:
            with torch.no_grad():
                layer.free_slopes.copy_(torch.linspace(-3, 3, len(layer.free_slopes)).sin())
        layer = layer.to(dtype)
        h = hidden.detach().to(dtype, copy=True).requires_grad_()
        soft = layer.words.factors(layer.words(target.flatten()))
        loss, _ = layer(h, target, objective, soft if objective else None)
        loss.backward()
        grads = [h.grad, *(p.grad for p in layer.parameters() if p.grad is not None)]
        assert all(g.dtype == dtype and g.isfinite().all() for g in grads)
        found[dtype] = [loss.detach().float(), *(g.float() for g in grads)]
        assert layer.log_prob(h).dtype == torch.float32
    for one, half in zip(*found.values(), strict=True):
        assert (one - half).norm() <= 0.06 * one.norm() + 1e-3


@pytest.mark.parametrize("objective", [None, LabelSmoothing(0.1)])
@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
@pytest.mark.parametrize("outside", [-1, N])
def test_a_target_that_is_no_word_is_refused(kind, objective, outside, branches):
    """Another library's sign for what does not count is not word 0."""
    if branches == "cuda":
        pytest.skip("an assertion that fails on a GPU ends the use of it in this process")
    target = torch.randint(N, (T, B))
    target[1, 1] = outside
    expected = ValueError, f"targets must be words, 0 to {N - 1}, or {IGNORE}"
    if branches == "rehearsed":
        expected = RuntimeError, "nonzero value"
    with pytest.raises(expected[0], match=expected[1]):
        build(kind)(torch.randn(T, B, D, dtype=torch.float64), target, objective)


@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
def test_not_a_number_stays_one(kind):
    """So that the training loop can say so."""
    hidden = torch.randn(T, B, D, dtype=torch.float64)
    hidden[0, 0, 0] = torch.nan
    loss, _ = build(kind)(hidden, torch.randint(N, (T, B)))
    assert loss.isnan()


@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
def test_log_prob_can_be_differentiated_twice(kind):
    """Twice from one graph, with the gradient of the naive table."""
    layer = build(kind).eval()
    hidden = torch.randn(4, D, dtype=torch.float64, requires_grad=True)
    leaves = [hidden, *layer.parameters()]
    options = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    log_prob = layer.log_prob(hidden)
    first, again = (torch.autograd.grad(log_prob[0, 3], leaves, **options) for _ in "12")
    expected = torch.autograd.grad(naive.table(layer, hidden).log_prob[0, 3], leaves, **options)
    for one, two, plain in zip(first, again, expected, strict=True):
        assert torch.equal(one, two)
        torch.testing.assert_close(one, plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
def test_an_expectation_is_the_table_of_probabilities_times_the_values(kind):
    """With the gradients of contexts, values and everything that is learned."""
    layer = build(kind)
    hidden = torch.randn(T, B, D, dtype=torch.float64, requires_grad=True)
    values, weights = torch.randn(N, 3, dtype=torch.float64), torch.randn(T, B, 3).double()
    values.requires_grad_()
    ours = layer.expectation(hidden, values)
    expected = layer.log_prob(hidden).exp() @ values
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)
    leaves = [hidden, values, *layer.parameters()]
    found, wanted = (gradients((e * weights).sum(), leaves) for e in (ours, expected))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_an_expectation_under_autocast_is_that_in_float32_to_the_digits_of_its_products(dtype):
    layer = build(MixtureOfSoftmaxes, dtype=torch.float32)
    hidden, values = torch.randn(T, B, D, requires_grad=True), torch.randn(N, 3, requires_grad=True)
    found = {}
    for narrow in (True, False):
        with torch.autocast(hidden.device.type, dtype, enabled=narrow):
            expected = layer.expectation(hidden, values)
        found[narrow] = [expected, *gradients(expected.float().square().sum(), [hidden, values])]
    for half, whole in zip(*found.values(), strict=True):
        assert 0 < (half - whole).norm() <= 0.03 * whole.norm()


def test_an_expectation_rounds_logits_that_are_a_product_alone_once():
    """They keep the product's type, and so does their gradient: a table is not copied twice."""
    layer = build(Softmax, bias=False, dtype=torch.float32)
    hidden, values = torch.randn(T, B, D, requires_grad=True), torch.randn(N, 3)
    tables = []

    def keep(table):
        tables.append(table)
        return table

    with torch.autocast(hidden.device.type, torch.bfloat16):
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda table: table):
            mean = layer.expectation(hidden, values)
        wide = layer.logits(hidden)[0]
        wanted = wide.softmax(-1).bfloat16() @ values.bfloat16()
    assert wide.dtype == torch.float32
    assert torch.equal(mean, wanted.squeeze(-2))
    assert {t.dtype for t in tables if t.numel() == T * B * N} == {torch.bfloat16}


@pytest.mark.parametrize("normal", [True, False])
def test_a_start_whose_singular_values_fall_keeps_the_largest_and_all_directions(normal):
    torch.manual_seed(1)
    plain = FullWords(30, 6, normal=normal).weight.detach()
    torch.manual_seed(1)
    fallen = FullWords(30, 6, normal=normal, decay=0.5).weight.detach()
    U, sigma, Vh = torch.linalg.svd(plain, full_matrices=False)
    wanted = sigma[0] / torch.arange(1, 7).sqrt()
    torch.testing.assert_close(U.T @ fallen @ Vh.T, torch.diag(wanted), atol=1e-6, rtol=1e-5)
    with pytest.raises(CourseError, match="decay"):
        FullWords(30, 6, decay=-1.0)


def test_a_mixture_is_evaluated_without_its_backward_pass(monkeypatch):
    layer, target = build(MixtureOfSoftmaxes).eval(), torch.randint(N, (T, B))
    hidden = torch.randn(T, B, D, dtype=torch.float64)
    whole = layer(hidden, target)
    monkeypatch.setattr(mixtures, "SEGMENT", dict.fromkeys(mixtures.SEGMENT, 8 * 3 * D * T))
    monkeypatch.setattr(mixtures._Segments, "apply", None)
    with torch.no_grad():
        parts = layer(hidden, target)
    with torch.inference_mode():
        layer(hidden, target)
    torch.testing.assert_close(parts, tuple(x.detach() for x in whole))
    with pytest.raises(ValueError, match="reduction 'avg' must be"):  # in segments as in one
        layer(hidden, target, reduction="avg")


@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
def test_a_layer_trains_after_it_was_evaluated_in_inference_mode(kind):
    """Memory made there may not be written into later; nothing is differentiated for nothing."""
    layer, target = build(kind).eval(), torch.randint(N, (T, B))
    hidden = torch.randn(T, B, D, dtype=torch.float64)
    with torch.no_grad():
        expected = layer(hidden, target)[0]
    with torch.inference_mode():
        torch.testing.assert_close(layer(hidden, target)[0], expected)
    layer.train()
    layer(hidden, target)[0].backward()
    assert all(p.grad is not None for p in layer.parameters() if p.requires_grad)


@pytest.mark.parametrize("kind", [AdversarialSoftmax, AdversarialMixtureOfSoftmaxes])
def test_the_plain_form_has_the_gate_and_refuses_chance(kind):
    layer, target = build(kind, alpha=0.4), torch.randint(N, (T * B,))
    hidden = torch.randn(T * B, D, dtype=torch.float64)
    plain = layer.reference(hidden, target)
    layer.gated = True
    gated = layer(hidden.view(T, B, D), target.view(T, B))[0]
    torch.testing.assert_close(layer.reference(hidden, target), gated)
    assert gated.item() != pytest.approx(plain.item(), rel=1e-6)
    layer.random = True
    with pytest.raises(CourseError, match="random direction"):
        layer.reference(hidden, target)


def test_the_plain_form_of_a_mixture_refuses_dropout_in_training():
    layer, target = build(MixtureOfSoftmaxes, dropout=0.5), torch.randint(N, (T * B,))
    hidden = torch.randn(T * B, D, dtype=torch.float64)
    with pytest.raises(CourseError, match="set dropout to 0"):
        layer.reference(hidden, target)
    layer.eval().reference(hidden, target)


@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
@pytest.mark.parametrize("bias", [True, False])
def test_probabilities_sum_to_one_and_are_those_of_the_loss(kind, bias):
    layer = build(kind, bias=bias).eval()
    hidden, target = torch.randn(T, B, D, dtype=torch.float64), torch.randint(N, (T, B))
    log_prob = layer.log_prob(hidden)
    torch.testing.assert_close(log_prob.exp().sum(-1), torch.ones(T, B, dtype=torch.float64))
    expected = naive.table(layer, hidden.flatten(0, 1)).log_prob.view(T, B, N)
    torch.testing.assert_close(log_prob, expected, rtol=1e-10, atol=1e-12)
    loss, nll = layer(hidden, target, reduction="none")
    torch.testing.assert_close(loss, -log_prob.gather(-1, target[..., None])[..., 0])
    assert torch.equal(loss, nll)


@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
def test_gradcheck(kind):
    layer = build(kind)
    hidden, target = torch.randn(3, 2, D, dtype=torch.float64), torch.randint(N, (3, 2))
    names, values = zip(*layer.named_parameters(), strict=True)
    if kind is GatedSoftmax:
        names, values = names[:1], values[:1]  # the bias; the matrix' gradient is gated
        assert names == ("bias",)

    def loss(h, *parameters):
        changed = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, changed, (h, target))[0]

    leaves = [v.detach().requires_grad_() for v in values]
    # sums of a GPU are in no order, so that their last digit may differ from call to call
    inputs, unequal = (hidden.requires_grad_(), *leaves), 1e-12 * hidden.is_cuda
    assert torch.autograd.gradcheck(loss, inputs, nondet_tol=unequal)


@given(
    kind=st.sampled_from(OUTPUT_LAYERS), time=st.integers(0, 4), batch=st.integers(1, 3),
    seed=st.integers(0, 50), reduction=st.sampled_from(["sum", "none"]), missing=st.booleans(),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_any_batch_even_an_empty_one(kind, time, batch, seed, reduction, missing):
    """The sum over positions is the sum of the positions' losses, each computed alone."""
    layer = build(kind, seed=seed).eval()
    hidden, target = (
        torch.randn(time, batch, D, dtype=torch.float64),
        torch.randint(N, (time, batch)),
    )
    if missing and target.numel():
        target[0, 0] = IGNORE
    loss, _ = layer(hidden, target, reduction=reduction)
    total = loss.sum()
    alone = [
        layer(hidden[t : t + 1, b : b + 1], target[t : t + 1, b : b + 1], reduction="sum")[0]
        for t in range(time)
        for b in range(batch)
    ]
    torch.testing.assert_close(total, sum(alone, torch.zeros((), dtype=torch.float64)))
    if reduction == "none":
        assert loss.shape == target.shape


@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_finite_and_near_float64_under_autocast_at_logits_of_ten_thousand(kind, dtype):
    """Word vectors and hidden states that half precision holds exactly, with logits up to 1e4."""
    layer = build(kind, dtype=torch.float32)
    with torch.no_grad():
        g = torch.Generator().manual_seed(0)
        layer.words.weight.copy_(torch.randint(-4, 5, (N, D), generator=g) * 625.0)
        layer.bias.zero_()
    hidden = (torch.randint(-4, 5, (T, B, D), generator=g) / 4).requires_grad_()
    target = torch.randint(N, (T, B), generator=g)
    with torch.autocast(torch.get_default_device().type, dtype, enabled=dtype != torch.float32):
        loss, nll = layer(hidden, target)
    loss.backward()
    exact = build(kind)
    exact.load_state_dict(layer.state_dict())
    expected, _ = exact(hidden.detach().double(), target)
    tolerance = 1e-5 if dtype == torch.float32 else 0.02
    assert abs(loss.item() - expected.item()) <= tolerance * max(1, abs(expected.item()))
    tensors = [loss, nll, hidden.grad, *(p.grad for p in layer.parameters() if p.grad is not None)]
    assert all(torch.isfinite(t).all() for t in tensors)


@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
def test_float32_is_as_exact_as_the_naive_form(kind):
    layer = build(kind, dtype=torch.float32)
    hidden, target = torch.randn(40, 5, D), torch.randint(N, (40, 5))
    flat = hidden.flatten(0, 1), target.flatten(), CrossEntropy(), None
    exact = build(kind)
    exact.load_state_dict(layer.state_dict())  # a bias drawn in float64 would be another one
    truth = naive_loss(exact, flat[0].double(), *flat[1:])
    plain = naive_loss(layer, *flat)
    ours, _ = layer(hidden, target)
    assert abs(plain - truth) < 1e-3  # they are of one layer
    assert abs(ours - truth) <= abs(plain - truth) + 1e-6


# Limits, where one method becomes another ---------------------------------------------------


def same(layer, other, **shared):
    """Both layers give equal probabilities with the same words and bias."""
    other.load_state_dict(layer.state_dict(), strict=False)
    hidden = torch.randn(7, D, dtype=torch.float64)
    torch.testing.assert_close(layer.eval().log_prob(hidden), other.eval().log_prob(hidden))


def test_gss_with_slope_one_is_the_softmax_and_sigsoftmax_is_gss():
    same(build(Softmax), build(GeneralizedSigSoftmax, c=0.3, k=1.0))
    layer = build(SigSoftmax)
    same(layer, build(GeneralizedSigSoftmax, c=0.0, k=2.0))
    hidden = torch.randn(7, D, dtype=torch.float64)
    logits = layer.logits(hidden)[0].squeeze(1)
    raw = hidden @ layer.words.matrix().T + layer.bias
    weights = raw.exp() * torch.sigmoid(raw)  # Kanai et al., as they write it
    torch.testing.assert_close(logits.softmax(-1), weights / weights.sum(-1, keepdim=True))


def test_piecewise_linear_function_of_unit_slopes_is_the_softmax():
    same(build(Softmax), build(PiecewiseLinearSoftmax, pieces=1000, spread=0.0))


def test_piecewise_linear_function_increases_and_is_continuous():
    layer = build(PiecewiseLinearSoftmax)
    x = torch.linspace(-5, 5, 4001, dtype=torch.float64)
    y = layer.transform(x, *layer.transform_parameters())
    rises = y.diff() / x.diff()
    slopes = F.softplus(layer.free_slopes)
    assert rises.min() >= slopes.min() - 1e-6 and rises.max() <= slopes.max() + 1e-6


def test_a_large_cap_is_the_softmax_and_a_small_one_bounds_the_logits():
    same(build(Softmax), build(SoftCappedSoftmax, cap=1e9, width=None, shift=0.0))
    layer = build(SoftCappedSoftmax, cap=0.5)
    assert layer.logits(100 * torch.randn(9, D, dtype=torch.float64))[0].abs().max() <= 0.5


@pytest.mark.parametrize(("a", "b", "shift"), [(30.0, 7.5, 0.0), (23.0, 7.5, 5.0)])
def test_the_sigmoid_caps_of_the_speed_runs_are_caps(a, b, shift):
    """a σ((l + shift) / b) has the probabilities and gradients of cap a/2 and width 2b."""
    layer = build(SoftCappedSoftmax, cap=a / 2, width=2 * b, shift=shift)
    hidden = 9 * torch.randn(7, D, dtype=torch.float64)
    target = torch.randint(N, (7,))
    expected = a * torch.sigmoid((naive.plain_logits(layer, hidden) + shift) / b)
    torch.testing.assert_close(layer.log_prob(hidden), expected.log_softmax(-1))
    leaves = list(layer.parameters())
    pairs = zip(
        gradients(layer(hidden, target)[0], leaves),
        gradients(F.cross_entropy(expected, target), leaves),
        strict=True,
    )
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs)


def test_one_component_is_the_softmax_of_its_context():
    for kind in (MixtureOfSoftmaxes, MixtureOfContexts):
        layer = build(kind, components=1)
        with torch.no_grad():  # tanh of a small identity: the identity, nearly
            layer.latent.weight.copy_(1e-6 * torch.eye(D))
            layer.latent.bias.zero_()
            layer.words.weight.mul_(1e6)
        plain = build(Softmax)
        with torch.no_grad():
            plain.words.weight.copy_(layer.words.weight / 1e6)
            plain.bias.copy_(layer.bias)
        hidden = torch.randn(7, D, dtype=torch.float64)
        torch.testing.assert_close(
            layer.log_prob(hidden), plain.log_prob(hidden), atol=1e-7, rtol=0
        )


def test_equal_components_are_one():
    layer = build(MixtureOfSoftmaxes)
    with torch.no_grad():
        layer.latent.weight.copy_(layer.latent.weight[:D].repeat(3, 1))
        layer.latent.bias.copy_(layer.latent.bias[:D].repeat(3))
    contexts = build(MixtureOfContexts)
    same(layer, contexts)


def test_alpha_zero_is_the_softmax_and_evaluation_is_unperturbed():
    layer, plain = build(AdversarialSoftmax, alpha=0.0), build(Softmax)
    hidden, target = torch.randn(T, B, D, dtype=torch.float64), torch.randint(N, (T, B))
    torch.testing.assert_close(layer(hidden, target)[0], plain(hidden, target)[0])
    layer = build(AdversarialSoftmax, alpha=0.3)
    assert layer(hidden, target)[0] > plain(hidden, target)[0] + 0.01
    torch.testing.assert_close(layer.eval()(hidden, target)[0], plain(hidden, target)[0])


def test_adaptive_softmax_with_equal_tails_is_a_softmax():
    """Cluster entries worth log Z of their words make the hierarchy a plain softmax."""
    layer, plain = build(AdaptiveSoftmax), build(Softmax)
    hidden = torch.randn(1, D, dtype=torch.float64)
    plain.load_state_dict(layer.state_dict(), strict=False)
    logits = plain.logits(hidden)[0][0, 0]
    with torch.no_grad():
        layer.clusters.weight.zero_()
        layer.clusters.bias.copy_(torch.stack([logits[5:9].logsumexp(0), logits[9:].logsumexp(0)]))
    torch.testing.assert_close(layer.log_prob(hidden), plain.log_prob(hidden))


class AdversarialAdaptive(Adversarial, AdaptiveSoftmax):
    """Clusters whose targets are perturbed."""

    @staticmethod
    def plain(layer, hidden, target):
        logits = naive.plain_logits(layer, hidden) - naive.margin(layer, hidden, target)
        return naive.clusters(layer, hidden, logits)


class CappedAdaptive(SoftCappedSoftmax, AdaptiveSoftmax):
    """Clusters whose words' logits are capped."""

    @staticmethod
    def plain(layer, hidden, target):
        return naive.clusters(layer, hidden, naive.soft_capped(layer, hidden, target).logits[:, 0])


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("words", [FullWords, SpectralWords])
def test_offset_and_transform_act_within_clusters(words, objective):
    """The target's logit alone is lowered, wherever its cluster; transforms before the softmax."""
    objective = OBJECTIVES[objective]
    target = torch.tensor([[0, 4, 5, 8, 9, 22], [22, 9, IGNORE, 5, 4, 0]])
    clusters = {"cutoffs": (5, 9)}
    perturbed = build(AdversarialAdaptive, words, alpha=0.4, gradient="full", **clusters)
    capped = build(CappedAdaptive, words, **OPTIONS[SoftCappedSoftmax], **clusters)
    for layer in (perturbed, capped):
        hidden = torch.randn(*target.shape, D, dtype=torch.float64, requires_grad=True)
        soft = None
        if objective.needs_soft_targets:
            soft = layer.words.factors(layer.words(target.flatten().clamp(min=0)))
        loss, _ = layer(hidden, target, objective, soft)
        flat = hidden.flatten(0, 1), target.flatten()
        expected = naive_loss(layer, *flat, objective, soft, table=layer.plain)
        leaves = [hidden, *layer.parameters()]
        torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-12)
        pairs = zip(gradients(loss, leaves), gradients(expected, leaves), strict=True)
        for ours, theirs in pairs:
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
        # an evaluation lowers no logit
        _, nll = layer.eval()(hidden, target, LabelSmoothing(0.1))
        log_prob = layer.log_prob(hidden).flatten(0, 1)
        torch.testing.assert_close(nll, F.nll_loss(log_prob, flat[1], ignore_index=IGNORE))


def test_clusters_of_a_mixture_s_contexts_are_one_distribution():
    """In the loss, which sees the targets' clusters alone, and in the whole table."""

    class Clustered(AdaptiveSoftmax, MixtureOfContexts):
        pass

    layer = build(Clustered, cutoffs=(5, 9), components=3, hidden_size=D + 3)
    hidden, target = torch.randn(T, B, D + 3, dtype=torch.float64), torch.randint(N, (T, B))
    expected = F.nll_loss(layer.log_prob(hidden).flatten(0, 1), target.flatten())
    for objective in (None, LabelSmoothing(0.0)):
        torch.testing.assert_close(layer(hidden, target, objective)[0], expected)


def test_a_mixture_of_bent_softmaxes_bends_each():
    class Bent(MixtureOfSoftmaxes, GeneralizedSigSoftmax):
        pass

    layer = build(Bent, components=2, c=0.3, k=2.0)
    hidden, target = torch.randn(T, B, D, dtype=torch.float64), torch.randint(N, (T, B))
    latent, weights = naive.components(layer, hidden.flatten(0, 1))
    bent = layer.formula(naive.plain_logits(layer, latent)).softmax(-1)
    expected = F.nll_loss((bent * weights[..., None]).sum(1).log(), target.flatten())
    torch.testing.assert_close(layer(hidden, target)[0], expected)


@pytest.mark.parametrize("objective", [None, LabelSmoothing(0.1)])
@pytest.mark.parametrize("kind", OUTPUT_LAYERS)
def test_what_does_not_fit_together_is_refused(kind, objective):
    layer = build(kind)
    hidden, target = torch.randn(T, B, D, dtype=torch.float64), torch.randint(N, (T, B))
    with pytest.raises(ValueError, match="one word for each position"):
        layer(hidden, target.T, objective)
    with pytest.raises(ValueError, match="reduction 'avg' must be"):
        layer(hidden, target, objective, reduction="avg")
    with pytest.raises(ValueError, match="give `soft`"):
        layer(hidden, target, AugmentedLoss())
    with pytest.raises(ValueError, match="soft has the shapes"):
        layer(hidden, target, AugmentedLoss(), soft=(torch.randn(T, 3), torch.randn(N, 3)))
    loss, _ = layer(hidden[:0], target[:0], objective)
    assert loss == 0


def test_gates_count_steps_in_half_precision_too():
    layer = build(GatedSoftmax, dtype=torch.bfloat16)
    for _ in range(300):
        layer.count(torch.tensor([1]))
    assert layer.steps == 300


def test_a_gate_on_clusters_is_refused_rather_than_wrong():
    class Gated(GradientGating, AdaptiveSoftmax):
        pass

    layer = build(Gated, cutoffs=(5, 9))
    hidden, target = torch.randn(T, B, D, dtype=torch.float64), torch.randint(N, (T, B))
    for objective in (None, LabelSmoothing(0.1)):
        with pytest.raises(ValueError, match="a gate looks at all words"):
            layer(hidden, target, objective)
    layer.eval()(hidden, target)


# The adversarial softmax ---------------------------------------------------------------------


@pytest.mark.parametrize("gradient", ["none", "hidden", "full"])
@pytest.mark.parametrize("epsilon", [None, 0.4])
def test_three_gradients_of_the_perturbation(gradient, epsilon):
    """Against the offset written out with what each variant holds constant."""
    layer = build(AdversarialSoftmax, alpha=0.2, gradient=gradient, epsilon=epsilon)
    hidden = torch.randn(6, D, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([3, 3, 0, 5, 3, 1])  # a word that is the target several times
    W = layer.words.weight
    h, w = hidden, W[target]
    if gradient != "full":
        w = w.detach()
    if gradient == "none":
        h = h.detach()
    worst = (0.2 * w.norm(dim=-1) if epsilon is None else epsilon) * h.norm(dim=-1)
    logits = hidden @ W.T + layer.bias - worst[:, None] * F.one_hot(target, N)
    expected = F.cross_entropy(logits, target)
    leaves = [hidden, *layer.parameters()]
    found = gradients(layer(hidden, target)[0], leaves)
    for ours, theirs in zip(found, gradients(expected, leaves), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", [AdversarialSoftmax, AdversarialMixtureOfSoftmaxes])
@pytest.mark.parametrize("epsilon", [None, 0.4])
def test_the_default_gradient_is_that_of_algorithm_1(kind, epsilon):
    """wang2019 fixes δ = −ε h/‖h‖ and ascends the log-likelihood of w_y + δ: here word for word."""
    layer = kind(FullWords(N, D, init=1.0), alpha=0.2, epsilon=epsilon).double()
    hidden = torch.randn(6, D, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([3, 3, 0, 5, 3, 1])  # a word that is the target several times
    W = layer.words.weight
    contexts, log_weights = layer.contexts(hidden)
    radius = 0.2 * W[target].norm(dim=-1) if epsilon is None else hidden.new_full((6,), epsilon)
    delta = (-radius[:, None, None] * F.normalize(contexts, dim=-1)).detach()  # fixed
    perturbed = W[target][:, None] + delta
    logits = contexts @ W.T
    at_target = F.one_hot(target, N).bool()[:, None]
    worst = (perturbed * contexts).sum(-1, keepdim=True)
    log_p = torch.where(at_target, worst, logits) + layer.bias
    log_p = log_p.log_softmax(-1)
    if log_weights is not None:
        log_p = log_p + log_weights[..., None]
    expected = F.nll_loss(log_p.logsumexp(-2), target)
    leaves = [hidden, *layer.parameters()]
    loss, _ = layer(hidden, target)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(gradients(loss, leaves), gradients(expected, leaves), strict=True):
        assert (ours - theirs).abs().max() <= 1e-12


def test_the_gate_spares_targets_that_point_away():
    layer = build(AdversarialSoftmax, alpha=0.5, gated=True)
    hidden, target = torch.randn(8, 1, D, dtype=torch.float64), torch.randint(N, (8,))
    offset = layer.target_offset(hidden, target)
    aligned = (hidden[:, 0] * layer.words.weight[target]).sum(-1) > 0
    assert 0 < aligned.sum() < 8
    assert torch.equal(offset[:, 0] < 0, aligned)


def test_random_noise_has_the_size_of_the_worst_but_any_direction():
    """cos(δ, h) has mean 0 and variance 1/d, and its sign is not the adversary's choice."""
    layer = build(AdversarialSoftmax, alpha=0.5, random=True)
    worst = build(AdversarialSoftmax, alpha=0.5)
    hidden = torch.randn(20_000, 1, D, dtype=torch.float64)
    target = torch.randint(N, (20_000,))
    cosine = layer.target_offset(hidden, target) / worst.target_offset(hidden, target)
    assert cosine.abs().max() <= 1
    assert abs(cosine.mean()) < 4 / (20_000 * D) ** 0.5
    assert abs(cosine.square().mean() * D - 1) < 0.1


def test_zero_contexts_have_finite_gradients():
    layer = build(AdversarialSoftmax, gradient="full")
    hidden = torch.zeros(3, D, dtype=torch.float64, requires_grad=True)
    layer(hidden, torch.tensor([0, 1, 2]))[0].backward()
    assert torch.isfinite(hidden.grad).all()


# Mixtures, gating, parameters ----------------------------------------------------------------


@pytest.mark.parametrize("kind", [MixtureOfSoftmaxes, AdversarialMixtureOfSoftmaxes])
@pytest.mark.parametrize("words", [FullWords, SpectralWords])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_mixture_in_segments_equals_the_whole(kind, words, reduction, monkeypatch):
    layer = build(kind, words)
    layer.bias.requires_grad_(False)
    hidden = torch.randn(T, 5, D, dtype=torch.float64, requires_grad=True)
    target = torch.randint(N, (T, 5))
    target[2, 3] = IGNORE
    leaves = [hidden, *(p for p in layer.parameters() if p.requires_grad)]
    whole, whole_nll = layer(hidden, target, LabelSmoothing(0.1), reduction=reduction)
    expected = torch.autograd.grad(3 * whole, leaves)
    columns = 8 * 2 * T * 3 * D  # two at a time
    monkeypatch.setattr(mixtures, "SEGMENT", dict.fromkeys(mixtures.SEGMENT, columns))
    loss, nll = layer(hidden, target, LabelSmoothing(0.1), reduction=reduction)
    torch.testing.assert_close((loss, nll), (whole, whole_nll))
    total = 3 * loss
    found = torch.autograd.grad(total, leaves, retain_graph=True)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    with pytest.raises(RuntimeError, match="differentiated only once"):
        total.backward()
    loss, _ = layer(hidden, target, LabelSmoothing(0.1), reduction=reduction)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        torch.autograd.grad(loss, hidden, create_graph=True)
    with torch.no_grad():
        torch.testing.assert_close(layer(hidden, target, reduction=reduction)[0], nll)


def test_latent_dropout_is_one_mask_a_sequence():
    layer = build(MixtureOfSoftmaxes, dropout=0.5)
    contexts, _ = layer.contexts(torch.randn(6, B, D, dtype=torch.float64))
    dropped = contexts == 0
    assert torch.equal(dropped[0], dropped[-1]) and 0.1 < dropped.double().mean() < 0.9
    assert not torch.equal(dropped[:, 0], dropped[:, 1])
    assert (layer.eval().contexts(torch.randn(6, B, D, dtype=torch.float64))[0] == 0).sum() == 0


def test_gradient_gating_is_the_detached_form_of_the_paper():
    """g · logits + (1 − g) · logits without gradient, on hidden states without gradient."""
    layer = build(GatedSoftmax, alpha=0.9, horizon=20)
    torch.manual_seed(1)
    others = torch.tensor([v for v in range(4, N) if v not in (12, 20)])
    for _ in range(6):  # words below 4 always, the others every second time, 12 and 20 never
        layer.count(torch.cat([torch.arange(4), others[torch.rand(len(others)) < 0.5]]))
    hidden = torch.randn(9, D, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([0, 1, 2, 3, 11, 12, 20, 0, 11])
    loss, _ = layer(hidden, target)
    a = layer.appearances / (1 - (1 - 1 / 20) ** 7)
    rare = a < 0.9
    assert 3 < rare.sum() < N - 2 and 0 < a[12] < 0.5 * a[rare].mean()
    g = torch.ones(9, N, dtype=torch.float64)
    for i, y in enumerate(target):
        for v in range(N):
            if rare[v] and v != y:
                g[i, v] = min(a[v] / a[rare].mean(), 1) if rare[y] else a[v]
    logits = hidden.detach() @ layer.words.weight.T + layer.bias.detach()
    gated = g * logits + (1 - g) * logits.detach()
    expected = torch.autograd.grad(F.cross_entropy(gated, target), layer.words.weight)[0]
    found = torch.autograd.grad(loss, [layer.words.weight, hidden])
    torch.testing.assert_close(found[0], expected, rtol=1e-6, atol=1e-9)  # counts are float32
    whole = F.cross_entropy(hidden @ layer.words.weight.T + layer.bias, target)
    plain = torch.autograd.grad(whole, [layer.words.weight, hidden])
    torch.testing.assert_close(found[1], plain[1])
    # an evaluation, which counts no target, is not gated
    ungated = torch.autograd.grad(layer.eval()(hidden, target)[0], [layer.words.weight, hidden])
    torch.testing.assert_close(ungated, plain)
    assert (found[0] - plain[0]).abs().max() > 0.01


def test_gates_are_numbers_before_any_rare_word_was_a_target():
    """With positions that do not count, whose target stands for word 0."""
    layer = build(GatedSoftmax, alpha=0.02)
    target = torch.tensor([3, IGNORE, 5])
    loss, _ = layer(torch.randn(3, D, dtype=torch.float64), target)
    loss.backward()
    assert layer.words.weight.grad.isfinite().all()


def test_a_part_of_an_update_counts_as_the_whole():
    """Two halves alike give what the whole gives: the same words are rare, by the same factors."""
    whole, parts = (build(GatedSoftmax, alpha=3.0, horizon=30) for _ in range(2))
    parts.micro_batches = 2
    half = torch.tensor([0, 0, 1, 5, IGNORE])
    for _ in range(4):
        whole.count(torch.cat([half, half]))
        for _ in range(2):
            parts.count(half)
    for one, other in zip(whole.gates(), parts.gates(), strict=True):
        torch.testing.assert_close(one, other)
    rare, to_rare, _ = whole.gates()
    assert not rare[0] and rare[1] and to_rare[7] == 0


def test_a_word_that_comes_alpha_times_a_step_is_not_rare():
    layer = build(GatedSoftmax, alpha=2.0, horizon=1)  # the last step alone counts
    layer.count(torch.tensor([0, 0, 0, 1, 1, 2]))
    rare, to_rare, among_rare = (gate[:4].tolist() for gate in layer.gates())
    assert rare == [False, False, True, True] and to_rare == [1, 1, 1, 0]
    assert among_rare == [1, 1, 1, 0]


def test_the_moving_average_of_appearances_is_unbiased_from_the_first_step():
    layer = build(GatedSoftmax, horizon=50)
    for _ in range(3):
        layer.count(torch.tensor([2, 2, 7, IGNORE]))
    a = layer.appearances / (1 - (1 - 1 / 50) ** 3)
    torch.testing.assert_close(a[torch.tensor([2, 7, 0])], a.new_tensor([2.0, 1.0, 0.0]))


@pytest.mark.parametrize("words", [FullWords, SpectralWords])
def test_rank_of_log_prob(words):
    """At most d + 2 for one softmax and for a mixture of contexts; far above it for the others.

    With unit-scale float64 numbers the rank is unmistakable: the next singular value is 1e-14.
    """
    hidden = torch.randn(200, D, dtype=torch.float64)
    for kind in OUTPUT_LAYERS:
        with torch.no_grad():
            log_prob = build(kind, words).eval().log_prob(hidden)
        sigma = torch.linalg.svdvals(log_prob)
        rank = int((sigma > 1e-9 * sigma[0]).sum())
        if kind is AdaptiveSoftmax:  # one more for each of its two clusters' normalisers
            assert rank <= D + 4
        else:
            assert rank <= D + 2 if kind in LOW_RANK else rank > D + 4, kind.__name__


def test_a_shift_of_all_rows_changes_no_probability():
    for kind in (Softmax, MixtureOfSoftmaxes, MixtureOfContexts, AdversarialSoftmax):
        layer = build(kind).eval()
        hidden = torch.randn(5, D, dtype=torch.float64)
        before = layer.log_prob(hidden)
        with torch.no_grad():
            layer.words.weight.add_(torch.randn(D, dtype=torch.float64))
        torch.testing.assert_close(layer.log_prob(hidden), before)


# Spectral words, constraints, errors ----------------------------------------------------------


def test_spectral_words_are_a_matrix_and_its_decomposition():
    words = SpectralWords(N, D, normal=True).double()
    W = words.matrix().detach()
    # U and V began in float32, and are orthogonal to its digits.
    expected = torch.linalg.svdvals(W)
    torch.testing.assert_close(words.singular_values(), expected, atol=1e-6, rtol=1e-6)
    x, ids = torch.randn(3, D, dtype=torch.float64), torch.tensor([[0, 5], [5, 22]])
    left, right = words.factors(x)
    torch.testing.assert_close(left @ right.T, x @ W.T)
    torch.testing.assert_close(words(ids), W[ids])
    assert words.shape == (N, D)


def test_singular_values_may_cross_and_stay_above_zero():
    words = SpectralWords(N, D).double()
    before = words.matrix().detach()
    with torch.no_grad():
        words.free.copy_(torch.tensor([1.0, -3.0, 2.0, 0.0]))
    assert words.singular_values().tolist() == [3.0, 2.0, 1.0, 0.0]
    torch.testing.assert_close(words.singular_values(), torch.linalg.svdvals(words.matrix()),
                               atol=1e-6, rtol=1e-6)  # fmt: skip
    words.start_at(torch.tensor([0.5, 4.0, 0.25, 1.0]))
    assert words.sigma.tolist() == [0.5, 4.0, 1.0, 0.25]  # by rank: they were 1, 3, 2 and 0
    assert not torch.equal(words.matrix(), before)


def test_spectral_normalisation_has_largest_singular_value_one():
    words = SpectralWords(N, D, normalise=True)
    assert words.singular_values()[0] == 1
    torch.testing.assert_close(torch.linalg.svdvals(words.matrix())[0], torch.tensor(1.0))


def test_constraints_hold_from_the_start_and_after_every_step():
    for constraint, holds in {
        "centred": lambda w: w.mean(0).abs().max() < 1e-6,
        "unit": lambda w: (w.norm(dim=1) - 1).abs().max() < 1e-6,
    }.items():
        words = FullWords(N, D, constraint=constraint)
        assert holds(words.weight)
        with torch.no_grad():
            words.weight.add_(torch.randn(N, D))
        assert not holds(words.weight)
        words.after_step()
        assert holds(words.weight)


def test_errors_name_what_is_wrong():
    with pytest.raises(CourseError, match="gradient of the adversarial softmax 'ful'.*full"):
        AdversarialSoftmax(FullWords(5, 3), gradient="ful")
    with pytest.raises(CourseError, match="constraint of a word matrix 'centered'.*centred"):
        FullWords(5, 3, constraint="centered")
    with pytest.raises(ValueError, match="cutoffs"):
        AdaptiveSoftmax(FullWords(5, 3), cutoffs=(3, 7))
    with pytest.raises(ValueError, match="contexts of 4 numbers, the words 3"):
        Softmax(FullWords(5, 3), hidden_size=4)
    with pytest.raises(ValueError, match="N ≥ d"):
        SpectralWords(3, 5)


REFUSED = {
    "alpha": (AdversarialSoftmax, -5.0, "at least 0"),
    "epsilon": (AdversarialSoftmax, -0.1, "at least 0"),
    "c": (GeneralizedSigSoftmax, float("nan"), "finite"),
    "k": (GeneralizedSigSoftmax, -1.0, "above 0"),
    "cap": (SoftCappedSoftmax, -30.0, "above 0"),
    "width": (SoftCappedSoftmax, 0.0, "above 0"),
    "shift": (SoftCappedSoftmax, float("inf"), "finite"),
    "pieces": (PiecewiseLinearSoftmax, 0, "at least 1"),
    "low": (PiecewiseLinearSoftmax, 20.0, "below high"),
    "high": (PiecewiseLinearSoftmax, float("inf"), "finite"),
    "spread": (PiecewiseLinearSoftmax, -1.0, "at least 0"),
    "components": (MixtureOfSoftmaxes, 0, "at least 1"),
    "dropout": (MixtureOfContexts, 1.0, "below 1"),
    "horizon": (GatedSoftmax, 0, "at least 1"),
    "hidden_size": (MixtureOfSoftmaxes, 0, "at least 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_constant_out_of_its_range_is_refused(name):
    kind, value, reason = REFUSED[name]
    with pytest.raises(CourseError, match=f"{name} of {kind.__name__} must be .*{reason}"):
        kind(FullWords(5, 3), **{name: value})
    with pytest.raises(CourseError, match="alpha of GatedSoftmax .* at least 0"):
        GatedSoftmax(FullWords(5, 3), alpha=-1.0)


@pytest.mark.parametrize("kind", [FullWords, SpectralWords])
def test_a_word_matrix_out_of_range_is_refused(kind):
    for changes in ({"vocabulary": 0}, {"size": 0}, {"init": -0.1}, {"init": float("inf")}):
        (name,) = changes
        with pytest.raises(CourseError, match=f"{name} of {kind.__name__} must be"):
            kind(**{"vocabulary": 5, "size": 3} | changes)


@pytest.mark.parametrize(
    ("kind", "options", "name"),
    [
        (LabelSmoothing, {"epsilon": -1.0}, "epsilon"),
        (LabelSmoothing, {"epsilon": 5.0}, "epsilon"),
        (LabelSmoothing, {"weight": -1.0}, "weight"),
        (AugmentedLoss, {"temperature": -20.0}, "temperature"),
        (AugmentedLoss, {"temperature": 0.0}, "temperature"),
        (AugmentedLoss, {"weight": float("nan")}, "weight"),
        (CrossEntropy, {"weight": -0.5}, "weight"),
        (ZLoss, {"weight": float("inf")}, "weight"),
    ],
)
def test_an_objective_out_of_range_is_refused(kind, options, name):
    with pytest.raises(CourseError, match=f"{name} of {kind.__name__} must be"):
        kind(**options)


def test_hidden_states_of_another_size_are_for_layers_that_map_them():
    """Also where `contexts` is overridden: only its class can say that it maps them."""

    class Stacked(Softmax):
        def contexts(self, hidden):
            return torch.stack([hidden, hidden.tanh()], -2), None

    class Mapped(Softmax):
        maps_hidden = True

        def __init__(self, words, hidden_size):
            super().__init__(words, hidden_size)
            self.map = nn.Linear(hidden_size, words.shape[1])

        def contexts(self, hidden):
            return super().contexts(self.map(hidden))

    words = FullWords(23, 8)
    for kind in (Stacked, Softmax, GatedSoftmax):
        with pytest.raises(ValueError, match="contexts of 12 numbers, the words 8"):
            kind(words, hidden_size=12)
    for layer in (Mapped(words, 12), MixtureOfSoftmaxes(words, 12, components=2)):
        assert layer(torch.randn(3, 12), torch.tensor([0, 1, 2]))[0].isfinite()


@pytest.mark.parametrize("kind", [Softmax, AdaptiveSoftmax])
def test_the_bias_can_be_scaled(kind):
    """In the loss, its gradient and the probabilities alike."""

    class Scaled(kind):
        def logit_bias(self):
            return 0.25 * self.bias

    scaled, plain = build(Scaled, **OPTIONS.get(kind, {})), build(kind)
    plain.load_state_dict(scaled.state_dict())
    with torch.no_grad():
        plain.bias.mul_(0.25)
    hidden, target = torch.randn(T, B, D, dtype=torch.float64), torch.randint(N, (T, B))
    losses = [layer(hidden, target)[0] for layer in (scaled, plain)]
    torch.testing.assert_close(*losses)
    grads = [
        torch.autograd.grad(x, y.bias)[0] for x, y in zip(losses, (scaled, plain), strict=True)
    ]
    torch.testing.assert_close(grads[0], 0.25 * grads[1])
    torch.testing.assert_close(scaled.log_prob(hidden), plain.log_prob(hidden))


def test_a_layer_says_what_it_needs_of_the_corpus():
    for kind in OUTPUT_LAYERS:
        assert kind.requires == ({"by_frequency"} if kind is AdaptiveSoftmax else frozenset())


def test_the_bend_is_exact_where_softplus_is_nearly_linear():
    """e⁻²⁵ is far above float64's rounding, and a softplus that is linear from 20 on drops it."""
    layer = build(GeneralizedSigSoftmax, c=0.0, k=2.0)
    x = torch.tensor([-21.0, -25.0, -30.0, -39.0, -50.0, -800.0], dtype=torch.float64)
    expected = 2 * x - torch.log1p(x.exp())
    torch.testing.assert_close(layer.transform(x), expected, rtol=2e-16, atol=0)


def test_a_new_output_layer_takes_a_few_lines():
    """Soft-capping inside the softmax, on a mixture with adversarial targets: a whole layer."""

    class Capped(Adversarial, MixtureOfSoftmaxes):
        cap = 3.0

        def transform(self, logits, scratch=None):
            return self.cap * torch.tanh(logits / self.cap)

    torch.manual_seed(0)
    layer = Capped(FullWords(N, D, init=5.0), components=2).double()
    hidden, target = torch.randn(T, B, D, dtype=torch.float64), torch.randint(N, (T, B))
    log_prob = layer.eval().log_prob(hidden)
    torch.testing.assert_close(log_prob.exp().sum(-1), torch.ones(T, B, dtype=torch.float64))
    expected = -log_prob.gather(-1, target[..., None]).mean()
    torch.testing.assert_close(layer(hidden, target)[0], expected)
    assert isinstance(layer, OutputLayer) and log_prob.max() < 0


class Seen(AugmentedLoss):
    """Notes in what precision it is asked."""

    def __call__(self, block):
        tensors = block.logits, block.log_prob, block.soft_logits
        narrow = torch.is_autocast_enabled(torch.get_default_device().type)
        DTYPES.append({t.dtype for t in tensors} | {narrow})
        return super().__call__(block)


DTYPES = []


@pytest.mark.parametrize("kind", [Softmax, AdaptiveSoftmax])
def test_an_objective_is_taken_in_float32_whatever_the_products_are_in(kind):
    """KL is a small difference of large numbers. Of the kernel and of the whole table."""
    layer, n = build(kind, dtype=torch.float32), 6
    N, d = layer.words.shape
    hidden, soft = torch.randn(n, d), (torch.randn(n, d), torch.randn(N, d))
    target = torch.randint(N, (n,))
    DTYPES.clear()
    with torch.autocast(torch.get_default_device().type, dtype=torch.bfloat16):
        layer(hidden, target, Seen(), soft)[0].sum().backward()
    assert DTYPES and all(found == {torch.float32, False} for found in DTYPES)


@pytest.mark.parametrize("kind", [k for k in OUTPUT_LAYERS if k is not AdaptiveSoftmax])
def test_a_forbidden_word_and_an_ignored_target_leave_finite_numbers(kind):
    """Word 0 may be `<pad>`, with a bias of −∞, while padded targets do not count."""
    layer = build(kind)
    with torch.no_grad():
        layer.bias[0] = -torch.inf
    hidden = torch.randn(T, B, D, dtype=torch.float64, requires_grad=True)
    target = torch.randint(1, N, (T, B))
    target[0, 0] = IGNORE
    loss, nll = layer(hidden, target)
    loss.backward()
    assert loss.isfinite() and nll.isfinite() and hidden.grad.isfinite().all()
    assert (hidden.grad[0, 0] == 0).all()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name
    layer.eval()
    assert (layer.log_prob(hidden.detach())[..., 0].exp() == 0).all() or kind is SoftCappedSoftmax
    log_prob = layer.log_prob(hidden.detach())
    expected = -log_prob.flatten(0, 1)[1:].gather(1, target.flatten()[1:, None]).mean()
    assert layer(hidden.detach(), target)[0].item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("k", [0.3, 1.0, 2.5])
def test_a_word_is_forbidden_whatever_the_slope_of_the_bend(k):
    layer = GeneralizedSigSoftmax(FullWords(N, D), k=k)
    with torch.no_grad():
        layer.bias[0] = -torch.inf
    hidden, target = torch.randn(5, D, requires_grad=True), torch.tensor([1, 2, 3, IGNORE, 4])
    loss, _ = layer(hidden, target)
    plain = layer.reference(hidden, target)
    torch.testing.assert_close(loss, plain)
    wanted = torch.autograd.grad(plain, [hidden, layer.words.weight, layer.bias])
    found = torch.autograd.grad(loss, [hidden, layer.words.weight, layer.bias])
    torch.testing.assert_close(found, wanted)
    assert found[2][0] == 0 and (layer.log_prob(hidden)[:, 0].exp() == 0).all()


def test_an_adaptive_softmax_does_not_take_a_forbidden_word_in_the_place_of_an_ignored_target():
    layer = build(AdaptiveSoftmax)
    with torch.no_grad():
        layer.bias[0] = -torch.inf
    hidden = torch.randn(3, D, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([IGNORE, 3, N - 1])
    loss, nll = layer(hidden, target, CrossEntropy() + ZLoss())
    (to_hidden,) = torch.autograd.grad(loss, hidden)
    alone, _ = layer(hidden[1:], target[1:], CrossEntropy() + ZLoss())
    assert nll.isfinite() and torch.equal(to_hidden[0], torch.zeros(D, dtype=torch.float64))
    torch.testing.assert_close(loss, alone)
    torch.testing.assert_close(to_hidden, torch.autograd.grad(alone, hidden)[0])


def test_what_is_no_word_matrix_is_refused_and_told_how_it_becomes_one():
    class Plain:  # has the methods, but a mixture's segments could not see its parameters
        shape, factors = (N, D), None

    embedding, draw3 = nn.Embedding(N, D), torch.zeros(2, N, D)
    for words in (embedding, embedding.weight, Plain()):
        with pytest.raises((ValueError, CourseError), match="is no word matrix; FullWords.of"):
            Softmax(words)
    words = FullWords.of(embedding.weight)
    assert words.weight is embedding.weight and words.shape == (N, D)
    for wrong in (embedding.weight * 2, nn.Parameter(torch.zeros(N)), nn.Parameter(draw3)):
        with pytest.raises(CourseError, match=r"must be a parameter \(N, d\); undo weight_norm"):
            FullWords.of(wrong)


def test_counts_of_a_gated_layer_in_half_precision_go_on():
    """In bfloat16, with 8 bits, an average does not move by 1/1600 of a difference."""
    layers = [build(GatedSoftmax, dtype=torch.float32, horizon=1600) for _ in range(2)]
    layers[1].bfloat16()
    assert layers[1].appearances.dtype == torch.float32
    torch.manual_seed(0)
    for _ in range(50):
        target = torch.randint(N, (100,))
        for layer in layers:
            layer.count(target)
    assert torch.equal(layers[0].appearances, layers[1].appearances)


def test_contexts_and_words_of_two_types_are_refused_outside_of_autocast():
    layer = build(Softmax, dtype=torch.float32)
    hidden, target = torch.randn(T, B, D).bfloat16(), torch.randint(N, (T, B))
    with pytest.raises(ValueError, match="contexts are torch.bfloat16, words torch.float32"):
        layer(hidden, target)
    with torch.autocast(hidden.device.type, torch.bfloat16):
        layer(hidden, target)


# --- combinations that would be computed wrongly are refused -------------------------------------


def test_what_changes_the_forward_pass_stands_left_of_a_mixture():
    """To the right, the segments of a large batch would leave it out."""

    class Gated(MixtureOfSoftmaxes, GradientGating):
        pass

    class Right(GradientGating, MixtureOfSoftmaxes):
        pass

    with pytest.raises(ValueError, match="GradientGating must stand left of the mixture"):
        Gated(FullWords(9, 4), components=2)
    layer = Right(FullWords(9, 4), components=2)
    layer(torch.randn(3, 2, 4), torch.randint(9, (3, 2)))
    assert layer.steps == 1


def test_clusters_take_no_mixture():
    class Mixed(AdaptiveSoftmax, MixtureOfSoftmaxes):
        pass

    class OneContext(AdaptiveSoftmax, MixtureOfContexts):
        pass

    hidden, target = torch.randn(3, 2, 4), torch.randint(9, (3, 2))
    layer = Mixed(FullWords(9, 4), components=2, cutoffs=(4,))
    with pytest.raises(ValueError, match="one context a position"):
        layer(hidden, target)
    with pytest.raises(ValueError, match="one context a position"):
        layer.log_prob(hidden)
    layer = OneContext(FullWords(9, 4), components=2, cutoffs=(4,))
    log_prob = layer.log_prob(hidden)
    assert log_prob.exp().sum(-1).flatten().tolist() == pytest.approx([1.0] * 6)
    nll = layer(hidden, target, reduction="none")[0]
    assert torch.allclose(nll, -log_prob.gather(-1, target[..., None])[..., 0], atol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bias": 7}, r"bias \(7,\) must be \(5,\)"),
        ({"log_weights": (4, 3)}, r"log_weights \(4, 3\) must be \(4, 2\)"),
        ({"offset": (3, 2)}, r"offset \(3, 2\) must be \(4, 2\)"),
        ({"log_weights": None}, "2 contexts a position need their log_weights"),
    ],
)
def test_the_kernel_refuses_shapes_that_do_not_fit(wrong, said):
    x, matrix, target = torch.randn(4, 2, 3), torch.randn(5, 3), torch.randint(5, (4,))
    given = {"log_weights": torch.full((4, 2), 0.5).log()}
    given |= {k: v if v is None else torch.zeros(v) for k, v in wrong.items()}
    with pytest.raises(ValueError, match=said):
        chunked_loss(x, matrix, target, **given)
