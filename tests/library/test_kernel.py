"""The chunk kernel against the naive formula, in value and in all gradients."""

import copy
import itertools
import pickle
from functools import partial
from math import prod

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch.nn import functional as F

from course_lib import machine
from course_lib.errors import CourseError
from course_lib.machine import arranges
from course_lib.models import LanguageModel, VariationalLSTM
from course_lib.output_layers import (
    FRESH,
    IGNORE,
    AdaptiveSoftmax,
    AdversarialSoftmax,
    AugmentedLoss,
    CrossEntropy,
    FullWords,
    GatedSoftmax,
    GeneralizedSigSoftmax,
    LabelSmoothing,
    Objective,
    PiecewiseLinearSoftmax,
    SigSoftmax,
    SoftCappedSoftmax,
    Softmax,
    ZLoss,
    blocked_loss,
    chunked_loss,
    products,
)
from course_lib.output_layers.blocked_loss import Group
from course_lib.output_layers.scratch import BlockScratch, Frame, _ReusedFrame

pytestmark = pytest.mark.usefixtures("branches")


def naive(x, matrix, target, *, bias=None, log_weights=None, offset=None, transform=None,
          parameters=(), objective=None, soft=None):  # fmt: skip
    """The contract in the kernel's docstring, with every tensor formed whole. Returns (n,)."""
    y = target.clamp(min=0)
    logits = x @ matrix.T if bias is None else x @ matrix.T + bias
    if offset is not None:
        logits = logits + offset[..., None] * F.one_hot(y, len(matrix))[:, None]
    if transform is not None:
        logits = transform(logits, *parameters)
    if log_weights is None:
        log_weights = logits.new_zeros(logits.shape[:2])
    log_prob = torch.logsumexp(log_weights[..., None] + logits.log_softmax(-1), 1)
    single = logits[:, 0] if logits.shape[1] == 1 else log_prob
    at_target = log_prob.gather(1, y[:, None])[:, 0]
    total = 0
    for term in getattr(objective or CrossEntropy(), "terms", (objective or CrossEntropy(),)):
        if isinstance(term, CrossEntropy):
            total = total - term.weight * at_target
        elif isinstance(term, LabelSmoothing):
            e = term.epsilon
            total = total + term.weight * (-(1 - e) * at_target - e * log_prob.mean(-1))
        elif isinstance(term, ZLoss):
            total = total + term.weight * logits.logsumexp(-1).square().sum(-1)
        elif isinstance(term, AugmentedLoss):
            soft_logits = soft[0] @ soft[1].T
            q = F.log_softmax(soft_logits / term.temperature, -1)
            q = q if term.gradient else q.detach()
            p = F.log_softmax(single / term.temperature, -1)
            total = total + term.weight * F.kl_div(p, q, log_target=True, reduction="none").sum(-1)
    return total * (target != IGNORE)


def problem(n, k, d, words, seed=0, dtype=torch.float64):
    """Random inputs of every kind, as leaves."""
    g = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype).requires_grad_()

    target = torch.randint(words, (n,), generator=g)
    if n > 2:
        target[1] = IGNORE
    log_weights = draw(n, k).detach().log_softmax(-1).requires_grad_()
    return {
        "x": draw(n, k, d), "matrix": draw(words, d), "target": target, "bias": draw(words),
        "log_weights": log_weights, "offset": draw(n, k), "soft": (draw(n, 3), draw(words, 3)),
        "parameters": (draw(2),),
    }  # fmt: skip


def bend(logits, slopes, scratch=None):
    """An elementwise transform with parameters, as GSS and PLIF are."""
    return logits + slopes[0] * torch.tanh(logits) + slopes[1] * F.softplus(logits)


OBJECTIVES = {
    "cross-entropy": CrossEntropy(),
    "half cross-entropy": CrossEntropy(0.5),
    "smoothing": LabelSmoothing(0.1),
    "z-loss": CrossEntropy() + ZLoss(0.01),
    "augmented": CrossEntropy(0.7) + AugmentedLoss(0.3, 2.0),
    "augmented, gradient": CrossEntropy() + AugmentedLoss(1.0, 2.0, gradient=True),
    "all": LabelSmoothing(0.2) + ZLoss(0.02) + AugmentedLoss(0.3, 3.0),
}


def gradients(loss, leaves):
    loss.backward()
    found = [torch.zeros_like(t) if t.grad is None else t.grad.clone() for t in leaves]
    for t in leaves:
        t.grad = None
    return found


def compare(inputs, objective, block, reduction="mean", transform=None):
    """Largest difference of value and gradients, relative to the largest of each."""
    names = dict(inputs)
    x, matrix, target = (names.pop(k) for k in ("x", "matrix", "target"))
    if not objective.needs_soft_targets:
        names.pop("soft", None)
    if transform is None:
        names.pop("parameters", None)
    settings = names | {"objective": objective, "transform": transform}
    leaves = [x, matrix] + [v for v in names.values() if isinstance(v, torch.Tensor)]
    leaves += [t for v in names.values() if isinstance(v, tuple) for t in v]
    weight = torch.linspace(0.5, 2, len(target), dtype=x.dtype)
    ours, nll = chunked_loss(x, matrix, target, block=block, reduction=reduction, **settings)
    reference = naive(x, matrix, target, **settings)
    if reduction == "none":
        pairs = [(ours, reference)]
        total, expected = (ours * weight).sum(), (reference * weight).sum()
    else:
        counted = (target != IGNORE).sum().clamp(min=1) if reduction == "mean" else 1
        total, expected = ours, reference.sum() / counted
        pairs = [(total, expected)]
    assert not nll.requires_grad
    pairs += zip(gradients(total, leaves), gradients(expected, leaves), strict=True)
    return max((a - b).abs().max() / b.abs().max().clamp(min=1e-3) for a, b in pairs if b.numel())


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize(("components", "reduction"), [(1, "mean"), (3, "sum"), (1, "none")])
@pytest.mark.parametrize("transform", [None, bend])
def test_chunked_equals_naive(name, components, reduction, transform):
    inputs = problem(11, components, 5, 23)
    assert compare(inputs, OBJECTIVES[name], 4, reduction, transform) < 1e-10


@given(
    n=st.integers(1, 12), k=st.integers(1, 3), d=st.integers(1, 6), words=st.integers(1, 30),
    block=st.integers(1, 14), seed=st.integers(0, 99), objective=st.sampled_from(list(OBJECTIVES)),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_any_shape_and_any_block(n, k, d, words, block, seed, objective):
    assert compare(problem(n, k, d, words, seed), OBJECTIVES[objective], block) < 1e-10


@pytest.mark.parametrize("strip", [1, 3 * 23, 10_000])  # one row, three rows, all rows at a time
def test_softened_loss_in_strips_of_rows(monkeypatch, strip):
    monkeypatch.setattr("course_lib.output_layers.objectives.STRIP", strip)
    for name in ("augmented", "augmented, gradient"):
        assert compare(problem(11, 2, 5, 23), OBJECTIVES[name], 7) < 1e-10
        assert compare(problem(11, 1, 5, 23), OBJECTIVES[name], 7) < 1e-10


def test_without_any_option():
    inputs = {k: v for k, v in problem(9, 1, 4, 13).items() if k in ("x", "matrix", "target")}
    assert compare(inputs, CrossEntropy(), 2) < 1e-10
    x, matrix, target = inputs.values()
    loss, nll = chunked_loss(x, matrix, target)
    expected = F.cross_entropy(x[:, 0] @ matrix.T, target, ignore_index=IGNORE)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, expected)


def test_groups_of_positions_choose_among_ranges_of_words():
    """Two overlapping groups equal two losses on slices of the matrix, gradients included."""
    inputs = problem(9, 2, 4, 20)
    inputs["target"] = torch.randint(5, 12, (9,))
    some = torch.tensor([7, 1, 4])
    first, last = OBJECTIVES["z-loss"], CrossEntropy(0.5)
    leaves = [inputs[k] for k in ("x", "matrix", "bias", "offset", "log_weights")]

    def slices(given, objective, low, high, **changes):
        given = given | {"matrix": given["matrix"][low:high], "bias": given["bias"][low:high]}
        given |= {"target": given["target"] - low, "objective": objective} | changes
        return naive(**{k: v for k, v in given.items() if k not in ("soft", "parameters")})

    for reduction in ("sum", "none"):
        rest = inputs | {k: inputs[k][some] for k in ("x", "target", "log_weights", "offset")}
        whole = slices(inputs, first, 5, 12, log_weights=None)
        expected = whole.index_add(0, some, slices(rest, last, 3, 20))
        groups = [Group((5, 12), first, weighted=False), Group((3, 20), last, positions=some)]
        found, _ = chunked_loss(
            *(inputs[k] for k in ("x", "matrix", "target")), groups=groups, block=2,
            **{k: inputs[k] for k in ("bias", "offset", "log_weights")}, reduction=reduction,
        )  # fmt: skip
        weight = torch.linspace(1, 2, 9).double() if reduction == "none" else torch.ones(9)
        total = (found * weight).sum() if reduction == "none" else found
        pairs = zip(
            gradients(total, leaves), gradients((expected * weight).sum(), leaves), strict=True
        )
        for ours, theirs in pairs:
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradcheck(reduction):
    inputs = problem(4, 2, 3, 6)
    names = ("bias", "log_weights", "offset")
    target, parameters = inputs["target"], inputs["parameters"]

    def function(x, matrix, bias, log_weights, offset, slopes):
        return chunked_loss(
            x, matrix, target, bias=bias, log_weights=log_weights, offset=offset, transform=bend,
            parameters=(slopes,), objective=OBJECTIVES["smoothing"], reduction=reduction, block=3,
        )[0]  # fmt: skip

    leaves = (inputs["x"], inputs["matrix"], *(inputs[k] for k in names), *parameters)
    assert torch.autograd.gradcheck(function, leaves, nondet_tol=1e-12 * inputs["x"].is_cuda)


def test_the_gate_changes_only_the_matrix_gradient():
    """Rows whose word is not the target receive nothing; the contexts receive all."""
    inputs = problem(8, 1, 4, 9)
    x, matrix, target = inputs["x"], inputs["matrix"], torch.arange(8)

    def only_target(gradient, y):
        return gradient * F.one_hot(y, gradient.shape[1])

    chunked_loss(x, matrix, target, gate=only_target, block=3)[0].backward()
    p = (x[:, 0] @ matrix.T).softmax(-1).detach() - F.one_hot(target, 9)
    torch.testing.assert_close(x.grad[:, 0], p @ matrix.detach() / 8)
    gated = p * F.one_hot(target, 9)
    torch.testing.assert_close(matrix.grad, gated.T @ x.detach()[:, 0] / 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_finite_and_correct_at_large_logits(dtype, scale):
    """Logits of ±1e4, under autocast in half precision: the loss is the float64 one, rounded."""
    g = torch.Generator().manual_seed(1)
    # values that half precision holds exactly, so that only the kernel's own rounding shows
    x = (torch.randint(-4, 5, (6, 1, 2), generator=g) / 4).requires_grad_()
    matrix = (torch.randint(-4, 5, (12, 2), generator=g) * scale / 8).requires_grad_()
    target = torch.arange(6)
    with torch.autocast(torch.get_default_device().type, dtype, enabled=dtype != torch.float32):
        loss, nll = chunked_loss(x, matrix, target, block=4)
    loss.backward()
    exact = F.cross_entropy(x.detach().double()[:, 0] @ matrix.detach().double().T, target)
    assert abs(loss.item() - exact.item()) <= 0.01 * max(1, exact.item())
    assert all(torch.isfinite(t).all() for t in (loss, nll, x.grad, matrix.grad))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(
    "way", ["bias", "no bias", "label smoothing", "z-loss", "offset", "groups"]
)
def test_gradients_in_half_precision_are_the_exact_ones_rounded(dtype, k, way, monkeypatch):
    """Of inputs that half precision holds exactly, against float64: each to a share of the largest,
    and on the whole to much less, so that nothing is off by a factor. Blocks, products and sums are
    cut as for large sizes; words come more than once, one in eight targets does not count."""
    monkeypatch.setattr(products, "PART", 500)
    monkeypatch.setattr(products, "TALL", 13)
    g = torch.Generator().manual_seed(0)
    n, d, words = 91, 20, 60  # 79 targets count: 1/79 is not near a number of bfloat16

    def leaf(*shape, scale=1.0):
        return (torch.randn(*shape, generator=g) * scale).to(dtype).double().requires_grad_()

    x, matrix = leaf(n, k, d), leaf(words, d, scale=0.5)
    leaves, options = [x, matrix], {}
    if way != "no bias":
        options["bias"] = leaf(words)
    if k > 1:
        options["log_weights"] = leaf(n, k).detach().log_softmax(-1).requires_grad_()
    if way == "offset":
        options["offset"] = leaf(n, k)
    leaves += options.values()
    objectives = {"label smoothing": LabelSmoothing(0.1), "z-loss": CrossEntropy() + ZLoss(1e-2)}
    options["objective"] = objectives.get(way)
    target = torch.randint(8, (n,), generator=g)
    target[::8] = IGNORE
    exact = naive(x, matrix, target, **options).sum() / (target != IGNORE).sum()
    wanted = torch.autograd.grad(exact, leaves)
    narrow = [t.detach().float().requires_grad_() for t in leaves]
    names = [name for name in options if name != "objective"]
    given = dict(zip(names, narrow[2:], strict=True)) | {"objective": options["objective"]}
    if way == "groups":  # one that has all words
        objective = given.pop("objective") or CrossEntropy()
        given["groups"] = [Group((0, words), objective)]
    with torch.autocast(torch.get_default_device().type, dtype):
        loss, _ = chunked_loss(*narrow[:2], target, block=17, **given)
    assert loss.item() == pytest.approx(exact.item(), abs=5e-3)
    found = torch.autograd.grad(loss, narrow)
    for name, one, two in zip(["x", "matrix", *names], found, wanted, strict=True):
        scale, apart = two.abs().max(), one.double() - two
        assert apart.abs().max() < 0.02 * scale, name
        slope = (one.double() * two).sum() / two.square().sum()
        assert slope.item() == pytest.approx(1, abs=1e-3 if name == "bias" else 3e-3), name


@pytest.mark.parametrize("objective", [None, LabelSmoothing(0.1), CrossEntropy(2.0)])
def test_the_weights_of_positions_stay_in_float32(objective):
    """1/255 lies halfway between two numbers of bfloat16, 0.4 % from either.

    The target's row is 0, so that the contexts receive nothing but the softmax's part.
    """
    g = torch.Generator().manual_seed(0)
    leaves = [torch.randn(*shape, generator=g) for shape in ((255, 1, 20), (60, 20))]
    leaves[1][0] = 0
    leaves = [t.bfloat16().double().requires_grad_() for t in leaves]
    target = torch.zeros(255, dtype=torch.long)
    exact = naive(*leaves, target, objective=objective).mean()
    narrow = [t.detach().float().requires_grad_() for t in leaves]
    with torch.autocast(torch.get_default_device().type, torch.bfloat16):
        loss, _ = chunked_loss(*narrow, target, objective=objective)
    pairs = zip(torch.autograd.grad(loss, narrow), torch.autograd.grad(exact, leaves), strict=True)
    for ours, theirs in pairs:
        slope = (ours.double() * theirs).sum() / theirs.square().sum()
        assert slope.item() == pytest.approx(1, abs=1.5e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gate_is_for_the_matrix_alone(dtype):
    """One that lets nothing pass: bias and contexts receive their gradients all the same."""
    torch.manual_seed(0)
    x, matrix, bias = torch.randn(40, 1, 8), torch.randn(30, 8), torch.randn(30)
    target, found = torch.randint(30, (40,)), []
    for gate in (None, lambda gradient, y: torch.zeros_like(gradient)):
        leaves = [t.clone().requires_grad_() for t in (x, matrix, bias)]
        with torch.autocast(torch.get_default_device().type, dtype, enabled=dtype != torch.float32):
            loss, _ = chunked_loss(*leaves[:2], target, bias=leaves[2], gate=gate)
        found.append(torch.autograd.grad(loss, leaves))
    free, gated = found
    for one, two in ((free[0], gated[0]), (free[2], gated[2])):
        torch.testing.assert_close(one, two, rtol=0.05, atol=0.02 * one.abs().max().item())
    assert free[1].abs().max() > 0 and gated[1].abs().max() == 0


def test_log_z_is_found_where_the_target_is_hopeless():
    """A target whose probability underflows, or in float16 has lost its digits."""
    for dtype, gap in ((torch.float32, 200.0), (torch.bfloat16, 150.0), (torch.float16, 15.0)):
        x = torch.tensor([[[gap, 0.0]], [[0.0, 1.0]]], requires_grad=True)
        matrix, target = torch.eye(2), torch.tensor([1, 1])
        with torch.autocast(torch.get_default_device().type, dtype, enabled=dtype != torch.float32):
            loss, nll = chunked_loss(x, matrix, target, reduction="none")
        assert nll[0].item() == pytest.approx(gap, rel=1e-2)
        assert nll[1].item() == pytest.approx(0.3133, rel=1e-2)


class SeesLogits(Objective):
    """The logits' log-sum-exp less the target's logit: the cross-entropy from the logits alone."""

    def __call__(self, block):
        at_target = block.logits.gather(-1, block.target[:, None, None])[..., 0]
        return (block.logits.logsumexp(-1) - at_target)[:, 0]


@pytest.mark.parametrize("declared", [True, False])
def test_an_objective_that_reads_the_logits_finds_them_unharmed(declared):
    """Where it says that it does not, the logits are overwritten and made again."""
    inputs = problem(40, 1, 6, 23)
    objective = SeesLogits()
    objective.needs_logits = declared
    x, matrix, target = (inputs[k] for k in ("x", "matrix", "target"))
    results = []
    for loss_of in (objective, CrossEntropy()):
        loss, nll = chunked_loss(x, matrix, target, objective=loss_of, block=7)
        results.append([loss, nll, *torch.autograd.grad(loss, (x, matrix))])
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain)


def test_a_sum_needs_the_logits_if_a_term_does():
    assert not (CrossEntropy() + ZLoss()).needs_logits
    assert (CrossEntropy() + AugmentedLoss()).needs_logits
    assert (CrossEntropy() + LabelSmoothing()).needs_logits


@pytest.mark.parametrize(
    ("objective", "transform", "tensors"),
    [
        (CrossEntropy(), False, 1),
        (LabelSmoothing(), False, 2),
        (CrossEntropy(), True, 6),
        (AugmentedLoss(), False, 6),
    ],
)
def test_a_block_keeps_within_the_limit_of_its_memory(monkeypatch, objective, transform, tensors):
    """The limit changes the number of blocks, not the result; one row is always allowed.

    A transform is supposed to keep four tensors of its own beside logits and probabilities. Soft
    targets have four: their logits, a gradient for each kind of logits, and one of these weighted.
    On a GPU probabilities do not overwrite the logits.
    """

    def twice(logits, scratch=None):
        return 2 * logits

    settings = {"objective": objective, "transform": twice if transform else None}
    inputs = problem(40, 1, 6, 1000)
    x, matrix, target = (inputs[k] for k in ("x", "matrix", "target"))
    settings["soft"] = inputs["soft"]
    tensors = max(tensors, 2) if machine.accelerated(x) else tensors
    asked = []
    kind = Frame if x.is_cuda else _ReusedFrame
    empty = kind.empty

    def counted(self, name, shape, dtype, device):
        asked.append(prod(shape) * dtype.itemsize)
        return empty(self, name, shape, dtype, device)

    monkeypatch.setattr(kind, "empty", counted)
    row = 8 * 1000
    losses = []
    for limit, blocks in ((1, 40), (10 * tensors * row, 4), (256 << 20, 1)):
        asked.clear()
        scratch = BlockScratch(limit)
        losses.append(chunked_loss(x, matrix, target, scratch=scratch, **settings)[0])
        assert asked == [40 // blocks * row] * min(tensors, 2) * blocks
    for loss in losses[1:]:
        torch.testing.assert_close(loss, losses[0])


def test_float32_is_as_exact_as_the_naive_form():
    inputs = problem(64, 1, 16, 300, dtype=torch.float32)
    x, matrix, target = (inputs[k] for k in ("x", "matrix", "target"))
    exact = naive(x.double(), matrix.double(), target).sum() / (target != IGNORE).sum()
    plain = naive(x, matrix, target).sum() / (target != IGNORE).sum()
    ours = chunked_loss(x, matrix, target, block=7)[0]
    assert abs(ours - exact) <= abs(plain - exact) + 1e-6


def test_no_targets_and_no_positions():
    """Nothing to predict: a loss of zero with zero gradients, not NaN."""
    for n in (0, 3):
        x, matrix = torch.randn(n, 1, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
        loss, nll = chunked_loss(x, matrix, torch.full((n,), IGNORE))
        loss.backward()
        assert loss.item() == nll.item() == 0 and matrix.grad.abs().max() == 0


def test_wrong_shapes_and_reductions_are_refused():
    x, matrix, target = torch.zeros(3, 1, 4), torch.zeros(5, 4), torch.zeros(3, dtype=torch.long)
    with pytest.raises(ValueError, match="must be"):
        chunked_loss(x[:, 0], matrix, target)
    with pytest.raises(ValueError, match="one word for each position"):
        chunked_loss(x, matrix, target[:2])
    with pytest.raises(ValueError, match="reduction 'max'"):
        chunked_loss(x, matrix, target, reduction="max")


def test_an_objective_without_its_soft_targets_is_refused():
    inputs = problem(4, 1, 3, 7)
    with pytest.raises(ValueError, match="needs the logits of soft targets: give `soft`"):
        chunked_loss(inputs["x"], inputs["matrix"], inputs["target"], objective=AugmentedLoss())


def test_soft_targets_of_another_shape_are_refused():
    inputs = problem(4, 1, 3, 7)
    soft = torch.randn(4, 2), torch.randn(6, 2)  # a word too few
    with pytest.raises(ValueError, match=r"which must be \(4, e\) and \(7, e\)"):
        chunked_loss(
            inputs["x"], inputs["matrix"], inputs["target"], objective=AugmentedLoss(), soft=soft
        )


@pytest.mark.parametrize("objective", [F.cross_entropy, lambda block: block.log_z[:, 0], ZLoss])
def test_an_objective_that_is_a_function_or_a_class_is_refused(objective):
    """By the kernel, by layers, also by one that makes its own table, by models and by sums."""
    inputs = problem(4, 1, 3, 7)
    wanted = partial(pytest.raises, CourseError, match="must be .*an instance of Objective")
    with wanted():
        chunked_loss(inputs["x"], inputs["matrix"], inputs["target"], objective=objective)
    words = FullWords(7, 3)
    for layer in (Softmax(words), AdaptiveSoftmax(words, cutoffs=(2, 4))):
        with wanted():
            layer(torch.randn(2, 2, 3), inputs["target"].view(2, 2), objective)
    with wanted():
        LanguageModel(words, VariationalLSTM(3, 3), Softmax(words), objective)
    with wanted():
        CrossEntropy() + objective


def test_an_objective_that_takes_the_mean_is_refused():
    """Its value would be right, and its gradients too small by the size of a block."""

    class Mean(CrossEntropy):
        def __call__(self, block):
            return super().__call__(block).mean()

    inputs = problem(4, 1, 3, 7)
    with pytest.raises(ValueError, match=r"returns a loss a position, not \(\)"):
        chunked_loss(inputs["x"], inputs["matrix"], inputs["target"], objective=Mean())


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_gradient_of_gradients_is_refused(reduction):
    inputs = problem(4, 1, 3, 7)
    x = inputs["x"].requires_grad_()
    loss, _ = chunked_loss(x, inputs["matrix"], inputs["target"], reduction=reduction)
    with pytest.raises(RuntimeError, match="cannot be differentiated again"):
        torch.autograd.grad(loss.sum(), x, create_graph=True)


def test_a_mean_over_many_positions_does_not_underflow_in_float16():
    """A loss is scaled up before its backward pass, but the gradients are made before that."""
    torch.manual_seed(0)
    n, scale = 32_768, 2.0**16
    x = (0.01 * torch.randn(n, 1, 8)).half()
    matrix = torch.randn(16, 8).half().requires_grad_()
    target = torch.randint(16, (n,))
    loss, _ = chunked_loss(x, matrix, target)
    (found,) = torch.autograd.grad(loss.float() * scale, matrix)
    exact = matrix.detach().double().requires_grad_()
    loss, _ = chunked_loss(x.double(), exact, target)
    (expected,) = torch.autograd.grad(loss * scale, exact)
    assert (found - expected).norm() < 1e-3 * expected.norm()


def test_a_second_backward_gives_the_same_gradient_again():
    x, matrix = torch.randn(3, 1, 4, requires_grad=True), torch.randn(5, 4)
    loss, _ = chunked_loss(x, matrix, torch.zeros(3, dtype=torch.long))
    (2 * loss).backward(retain_graph=True)
    once = x.grad.clone()
    (2 * loss).backward()
    torch.testing.assert_close(x.grad, 2 * once)


@pytest.mark.parametrize("bias", [True, False])
def test_softmax_layer(bias):
    """Probabilities sum to one, and the layer's loss is minus their logarithm at the target."""
    torch.manual_seed(0)
    layer = Softmax(FullWords(17, 6, init=1.0), bias=bias).double()
    if bias:
        torch.nn.init.normal_(layer.bias)
    hidden, target = torch.randn(4, 3, 6, dtype=torch.float64), torch.randint(17, (4, 3))
    log_prob = layer.log_prob(hidden)
    torch.testing.assert_close(log_prob.exp().sum(-1), torch.ones(4, 3, dtype=torch.float64))
    loss, _ = layer(hidden, target, reduction="none")
    torch.testing.assert_close(loss, -log_prob.gather(-1, target[..., None])[..., 0])


def test_the_hooks_of_a_variant_reach_the_loss_and_the_probabilities():
    """A mixture with an offset, a transform and a gate, written as an overriding variant."""

    class Variant(Softmax):
        transform = staticmethod(bend)
        gated = 0

        def contexts(self, hidden):
            contexts = torch.stack([hidden, hidden.tanh()], -2)
            return contexts, torch.log(torch.tensor([0.25, 0.75])).expand(*hidden.shape[:-1], 2)

        def transform_parameters(self):
            return (torch.tensor([0.3, 0.7]),)

        def target_offset(self, contexts, target):
            return -0.1 * contexts.norm(dim=-1) * self.words(target).norm(dim=-1)[:, None]

        def gate(self, gradient, target):
            Variant.gated += len(target)
            return gradient

    torch.manual_seed(0)
    layer = Variant(FullWords(11, 4, init=1.0), bias=False)
    hidden, target = torch.randn(5, 4), torch.randint(11, (5,))
    contexts, log_weights = layer.contexts(hidden)
    shared = {
        "log_weights": log_weights,
        "transform": bend,
        "parameters": layer.transform_parameters(),
    }
    for training in (True, False):
        layer.train(training)
        offset = layer.target_offset(contexts, target) if training else None
        expected = naive(contexts, layer.words.weight, target, offset=offset, **shared).mean()
        loss = layer(hidden, target)[0]
        torch.testing.assert_close(loss, expected)
    loss.backward()
    assert Variant.gated >= 10  # two components of five positions
    log_prob = layer.log_prob(hidden)
    torch.testing.assert_close(log_prob.exp().sum(-1), torch.ones(5))
    torch.testing.assert_close(-log_prob.gather(1, target[:, None]).mean(), expected)


class TwoCurves(GeneralizedSigSoftmax):
    """The sum of two bends, each of which keeps tensors for its backward pass."""

    def transform(self, logits, scratch=FRESH):
        first = super().transform(logits, scratch)
        return first + super().transform(first, scratch)


def test_two_curves_in_one_transform_do_not_overwrite_each_other():
    torch.manual_seed(0)
    layer = TwoCurves(FullWords(30, 4, init=1.0), c=0.2, k=1.7).double()
    hidden = torch.randn(40, 4, dtype=torch.float64, requires_grad=True)
    target = torch.randint(30, (40,))

    def curve(x):
        return x - (layer.k - 1) * F.softplus(layer.c - x)

    logits = hidden @ layer.words.weight.T + layer.bias
    first = curve(logits)
    expected = F.cross_entropy(first + curve(first), target)
    leaves = [hidden, *layer.parameters()]
    wanted = torch.autograd.grad(expected, leaves)
    for _ in range(2):  # the second time in memory that is used again
        loss, _ = layer(hidden, target)
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(torch.autograd.grad(loss, leaves), wanted)


@pytest.mark.parametrize("gradient", [False, True])
def test_soft_targets_that_take_no_gradient_get_no_zeros(gradient):
    """They would be as large as all words, and be added to the embedding in each step."""
    x, matrix = torch.randn(7, 1, 3, requires_grad=True), torch.randn(9, 3, requires_grad=True)
    soft = torch.randn(7, 2, requires_grad=True), torch.randn(9, 2, requires_grad=True)
    objective = CrossEntropy() + AugmentedLoss(0.5, 2.0, gradient)
    target = torch.randint(9, (7,))
    chunked_loss(x, matrix, target, objective=objective, soft=soft)[0].backward()
    assert [part.grad is not None for part in soft] == [gradient] * 2
    assert x.grad is not None and matrix.grad is not None


def test_a_gate_with_groups_is_refused():
    x, matrix, target = torch.randn(3, 1, 4), torch.randn(5, 4), torch.zeros(3, dtype=torch.long)
    with pytest.raises(ValueError, match="cannot act on groups of them"):
        chunked_loss(x, matrix, target, groups=[Group((0, 5), CrossEntropy())], gate=lambda g, y: g)


def scratch_of(layer) -> int:
    """The bytes that a layer's blocks have taken."""
    frames = (tensor for frame in layer.scratch._frames for tensor in frame._memory.values())
    return sum(tensor.numel() * tensor.element_size() for tensor in frames)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "kind",
    [
        Softmax,
        AdversarialSoftmax,
        GatedSoftmax,
        SigSoftmax,
        GeneralizedSigSoftmax,
        PiecewiseLinearSoftmax,
    ],
)
def test_a_block_takes_no_more_than_its_memory(kind, dtype, device):
    torch.manual_seed(0)
    layer = kind(FullWords(500, 8)).to(device)
    layer.scratch = BlockScratch(200_000)
    hidden = torch.randn(600, 8, device=device, requires_grad=True)
    target = torch.randint(500, (600,), device=device)
    with torch.autocast(hidden.device.type, dtype, enabled=dtype != torch.float32):
        layer(hidden, target)[0].backward()
    if hidden.device.type == "cpu":  # a GPU's memory is its allocator's
        assert 0.3 * layer.scratch.limit < scratch_of(layer) <= layer.scratch.limit


def test_frames_are_the_same_in_every_block_and_no_two_share_memory():
    scratch, device = BlockScratch(), torch.device("cpu")
    shape = (3, 5), torch.float32, device
    with scratch.walk(device) as memory:
        addresses = []
        for _ in range(2):
            memory.start_block()
            first, second = memory.frame(), memory.frame()
            tensors = [
                first.empty("a", *shape),
                first.empty("b", *shape),
                second.empty("a", *shape),
            ]
            addresses.append([t.data_ptr() for t in tensors])
            assert first.empty("a", (2, 2), *shape[1:]).data_ptr() == tensors[0].data_ptr()
            assert first.empty("a", (9, 9), *shape[1:]).shape == (9, 9)
            first.empty("a", *shape)
        assert len(set(addresses[1])) == 3 and addresses[0][1:] == addresses[1][1:]


def test_memory_is_fresh_outside_the_kernel_and_in_a_walk_within_another():
    """One of another thread, or of an objective that calls the kernel itself."""
    scratch, device = BlockScratch(), torch.device("cpu")
    frame = FRESH.frame()
    held = [frame.empty("a", (4,), torch.float32, device) for _ in range(2)]
    assert held[0].data_ptr() != held[1].data_ptr()
    with scratch.walk(device) as outer:
        with scratch.walk(device) as inner:
            assert inner is not outer
            frame = inner.frame()
            held = [frame.empty("a", (4,), torch.float32, device) for _ in range(2)]
            assert held[0].data_ptr() != held[1].data_ptr()
    with scratch.walk(device) as again:
        assert again is outer
    with scratch.walk(torch.device("meta")) as elsewhere:
        assert elsewhere is not outer


@pytest.mark.parametrize(
    "kind", [SigSoftmax, GeneralizedSigSoftmax, SoftCappedSoftmax, PiecewiseLinearSoftmax]
)
def test_a_monotone_function_takes_its_memory_from_the_scratch(kind):
    """Logits and gradient of the second block lie where those of the first lay."""
    device = torch.device("cpu")
    layer, scratch = kind(FullWords(30, 4)).to(device), BlockScratch()
    addresses, held = [], []
    with scratch.walk(device) as memory:
        for _ in range(2):
            memory.start_block()
            logits = torch.randn(5, 30, device=device).requires_grad_()
            bent = layer.transform(logits, *layer.transform_parameters(), scratch=memory)
            (gradient,) = torch.autograd.grad(bent.sum(), logits)
            addresses.append((bent.data_ptr(), gradient.data_ptr()))
            held.append(gradient)
    assert addresses[0] == addresses[1]


def test_a_copy_of_a_layer_has_memory_of_its_own():
    layer = Softmax(FullWords(30, 4))
    layer(torch.randn(5, 4), torch.randint(30, (5,)))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert other.scratch is not layer.scratch and not other.scratch._frames
        other(torch.randn(5, 4), torch.randint(30, (5,)))


def test_full_words_factors_and_matrix_agree():
    words, x = FullWords(9, 3), torch.randn(2, 5, 3)
    left, matrix = words.factors(x)
    torch.testing.assert_close(left @ matrix.T, x @ words.matrix().T)
    ids = torch.tensor([[0, 8], [3, 3]])
    assert torch.equal(words(ids), words.matrix()[ids]) and words.shape == (9, 3)
    flat = FullWords(2000, 3, init=0.5).weight
    assert 0.49 < flat.max() <= 0.5 and -0.5 <= flat.min() < -0.49
    assert FullWords(2000, 3, init=0.5, normal=True).weight.std().item() == pytest.approx(
        0.5, rel=0.1
    )


def test_objectives_add_in_any_grouping():
    terms = (CrossEntropy(), ZLoss(0.1), LabelSmoothing(0.3))
    inputs = problem(5, 1, 3, 8)
    x, matrix, target = inputs["x"], inputs["matrix"], inputs["target"]
    losses = [
        chunked_loss(x, matrix, target, objective=a + b + c)[0].item()
        for a, b, c in itertools.permutations(terms)
    ]
    assert max(losses) - min(losses) < 1e-12
    with pytest.raises(TypeError, match="does not say"):
        chunked_loss(x, matrix, target, objective=Objective())


@pytest.fixture
def arranging(monkeypatch):
    """Products of any size with the arranged matrix; yields the questions that were measured."""
    asked = []

    def quickest(question, ways):
        asked.append(question)
        for way in ways.values():
            way()
        return "arranged"

    monkeypatch.setattr(products, "LARGE", 0)
    monkeypatch.setattr(products, "quickest", quickest)
    return asked


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("way", ["bias", "no bias", "label smoothing", "offset", "cap"])
def test_an_arranged_matrix_gives_the_same_loss_and_gradients(dtype, k, way, arranging):
    """Against the naive formula in float64, in blocks, of numbers that bfloat16 holds exactly."""
    if torch.get_default_device().type != "cpu" or machine.REHEARSED or not arranges(dtype):
        pytest.skip("oneDNN is a CPU's, and not in every build of PyTorch")
    g = torch.Generator().manual_seed(0)
    n, d, words = 300, 20, 61

    def leaf(*shape, scale=1.0):
        return (torch.randn(*shape, generator=g) * scale).bfloat16().double().requires_grad_()

    x, matrix = leaf(n, k, d), leaf(words, d, scale=0.5)
    options = {} if way == "no bias" else {"bias": leaf(words)}
    if k > 1:
        options["log_weights"] = leaf(n, k).detach().log_softmax(-1).requires_grad_()
    if way == "offset":
        options["offset"] = leaf(n, k)
    leaves = [x, matrix, *options.values()]
    options["objective"] = LabelSmoothing(0.1) if way == "label smoothing" else None

    def cap(logits, scratch=None):
        return 5 * torch.tanh(logits / 5)

    options["transform"] = cap if way == "cap" else None
    target = torch.randint(8, (n,), generator=g)
    target[::8] = IGNORE
    exact = naive(x, matrix, target, **options).sum() / (target != IGNORE).sum()
    wanted = torch.autograd.grad(exact, leaves)
    narrow = [t.detach().float().requires_grad_() for t in leaves]
    named = dict(zip(("bias", "log_weights", "offset"), [None] * 3, strict=True))
    named |= dict(zip([o for o in options if o in named], narrow[2:], strict=True))
    rest = {o: options[o] for o in ("objective", "transform")}
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        loss, _ = chunked_loss(*narrow[:2], target, block=50, **named, **rest)
    assert arranging
    share = 0.02 if dtype == torch.bfloat16 else 1e-5
    assert loss.item() == pytest.approx(exact.item(), rel=share)
    for one, two in zip(torch.autograd.grad(loss, narrow), wanted, strict=True):
        assert (one.double() - two).abs().max() <= share * two.abs().max()


def test_few_rows_and_small_products_are_taken_plainly(arranging, monkeypatch):
    """What would take more memory than it saves time is not even measured."""
    if torch.get_default_device().type != "cpu" or machine.REHEARSED:
        pytest.skip("oneDNN is a CPU's")
    matrix = torch.randn(50, 4)
    made = []
    arrange = products.arranged
    monkeypatch.setattr(products, "arranged", lambda *a: made.append(a) or arrange(*a))
    assert products.arranged_products(matrix, 31, 8) == [] and not arranging
    assert products.arranged_products(matrix.double(), 32, 8) == [] and not arranging
    found = len(products.arranged_products(matrix, 32, 8))
    assert found == (2 if arranges(torch.float32) else 0) == 2 * len(arranging)
    monkeypatch.setattr(products, "LARGE", 32 * 200)
    assert len(products.arranged_products(matrix, 32, 8)) == found
    monkeypatch.setattr(products, "LARGE", 32 * 200 + 1)
    assert products.arranged_products(matrix, 32, 8) == []
    # What is measured has no more rows than a block.
    monkeypatch.setattr(products, "LARGE", 0)
    rows = []
    monkeypatch.setattr(products, "rows_times", lambda g, matrix: rows.append(len(g)))
    monkeypatch.setattr(products, "quickest", lambda question, ways: ways["plain"]() and "plain")
    for block in (8, products.TALL + 1):
        products.arranged_products(matrix, products.TALL + 1, block)
    assert rows == [8, products.TALL]
    # Where the plain way is known to be the quicker, no copy of the matrix is made.
    made.clear()
    monkeypatch.setattr(products, "quickest", lambda question, ways: "plain")
    assert products.arranged_products(matrix, 32, 8) == [] and not made


def test_in_half_precision_a_block_has_a_quarter_of_many_rows(monkeypatch):
    """No less than `ROWS`, no more than the memory allows, and in float32 just `ROWS`."""
    seen = []
    monkeypatch.setattr(blocked_loss, "ROWS", {"cpu": 6, "cuda": 6})
    monkeypatch.setattr(
        blocked_loss.BlockedLoss,
        "_forward_block",
        lambda self, group, positions, scratch: seen.append(len(range(64)[positions])),
    )
    x, matrix = torch.randn(64, 1, 3), torch.randn(10, 3)

    def blocks(n, dtype, **options):
        seen.clear()
        with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
            chunked_loss(x[:n], matrix, torch.zeros(n, dtype=torch.long), **options)
        return list(seen)

    assert blocks(64, torch.bfloat16) == [16] * 4
    assert blocks(12, torch.bfloat16) == [6] * 2
    assert blocks(60, torch.float32) == [6] * 10
    limit = BlockScratch(8 * 10 * (4 if machine.REHEARSED or x.is_cuda else 2))
    assert blocks(64, torch.bfloat16, scratch=limit) == [8] * 8


@pytest.mark.parametrize("size", [13, 16])
@pytest.mark.parametrize("part", [50, 1 << 20])
def test_a_product_is_added_wherever_rows_begin(size, part, monkeypatch):
    monkeypatch.setattr(products, "PART", part)
    a, b, total = torch.randn(40, 7), torch.randn(7, size), torch.randn(40, size)
    expected = (total.double() + a.double() @ b.double()).float()
    products.add_product(total, None, a, b, size)
    torch.testing.assert_close(total, expected)


@pytest.mark.parametrize(
    "rows, size, dtype, aligned",
    [
        (40, 13, torch.float32, False),
        (40, 16, torch.float32, True),
        (40, 13, torch.float64, True),  # whose rows are no quicker
        (7, 13, torch.float32, True),  # too few to matter
    ],
)
def test_large_products_whose_rows_begin_anywhere_get_wider_ones(
    rows, size, dtype, aligned, monkeypatch
):
    monkeypatch.setattr(products, "PART", 50)
    widths = []
    pad = F.pad
    monkeypatch.setattr(F, "pad", lambda x, sides: widths.append(x.shape[1]) or pad(x, sides))
    a, b = torch.randn(rows, 7, dtype=dtype), torch.randn(7, size, dtype=dtype)
    products.add_product(torch.zeros(rows, size, dtype=dtype), None, a, b, size)
    whole = aligned or machine.accelerated(a)  # a GPU takes every product at once
    assert widths == ([] if whole else [size])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_position_that_is_ignored_may_be_nan(reduction):
    """As in `F.cross_entropy`: the padded rows of an attention are NaN in some models."""
    x, matrix = torch.randn(4, 1, 3), torch.randn(7, 3)
    x[1] = torch.nan
    target = torch.tensor([2, IGNORE, 0, 6])
    wanted = F.cross_entropy(x[:, 0] @ matrix.T, target, ignore_index=IGNORE, reduction=reduction)
    with torch.no_grad():
        loss, nll = chunked_loss(x, matrix, target, reduction=reduction)
    torch.testing.assert_close((loss, nll), (wanted, wanted))
