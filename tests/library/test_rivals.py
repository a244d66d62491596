"""On a GPU another implementation may be taken: only one that computes the same."""

import gc
import math
import sys
import warnings
import weakref
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from course_lib import machine, rivals
from course_lib.evaluation.perplexity import float32_products
from course_lib.models import lstm_recurrence
from course_lib.output_layers import (
    AdaptiveSoftmax,
    Adversarial,
    AdversarialSoftmax,
    FullWords,
    GatedSoftmax,
    GeneralizedSigSoftmax,
    GradientGating,
    MixtureOfContexts,
    MixtureOfSoftmaxes,
    PiecewiseLinearSoftmax,
    SigSoftmax,
    SoftCappedSoftmax,
    Softmax,
)

BENT = GeneralizedSigSoftmax, SigSoftmax, SoftCappedSoftmax, PiecewiseLinearSoftmax


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    monkeypatch.setattr(rivals, "_EQUAL", {})
    monkeypatch.setattr(machine, "CHOICES", {})


def take(monkeypatch, name):
    """Let the way `name` win each race that it is allowed to start in; return the starters."""
    starters = []

    def quickest(question, ways):
        starters.append(list(ways))
        machine.CHOICES[question] = name
        return name

    monkeypatch.setattr(rivals, "quickest", quickest)
    return starters


def square(x):
    return x.square()


WRONG = {
    "its value": lambda x: x.square() * 1.1,
    "its gradient": lambda x: x * x.detach(),
    "no number": lambda x: x.square() * float("nan"),
    "no number in its gradient": lambda x: x.square() + 0 * (x - x.detach()).sqrt(),
    "an error": lambda x: x.no_such_method(),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_way_that_computes_something_else_is_left_out_with_a_warning(monkeypatch, fault):
    starters = take(monkeypatch, "rival")
    x = torch.tensor([[3.0, 1.0]], requires_grad=True)
    ways = {"own": square, "rival": WRONG[fault]}
    with pytest.warns(UserWarning, match="rival is not used for squares"):
        way = rivals.quickest_equal("squares", ways, x.dtype, x)
    assert way is square and starters == [["own"]]


@pytest.mark.parametrize(
    ("dtype", "off", "taken"),
    [
        (torch.bfloat16, 0.01, True),
        (torch.float32, 0.01, False),
        (torch.float32, 5e-4, True),
        (torch.float64, 5e-4, False),
    ],
)
def test_rounding_is_that_of_the_type(monkeypatch, dtype, off, taken):
    """TF32 may stand in for float32, bfloat16 may not."""
    take(monkeypatch, "rival")
    ways = {"own": square, "rival": lambda x: x.square() * (1 + off)}
    x = torch.ones(5, 2, dtype=torch.float64, requires_grad=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        way = rivals.quickest_equal("squares", ways, dtype, x)
    assert (way is ways["rival"]) is taken and len(told) == (not taken)


def test_the_quickest_of_the_equal_is_taken_and_asked_for_once(monkeypatch):
    starters = take(monkeypatch, "rival")
    x = torch.ones(5, 2, requires_grad=True)
    ways = {"own": square, "rival": lambda x: x * x}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rivals.quickest_equal("squares", ways, x.dtype, x) is ways["rival"]
        assert (
            rivals.quickest_equal("squares", ways, x.dtype, x[:4]) is ways["rival"]
        )  # 4 to 7 rows
    assert starters == [["own", "rival"]]
    rivals.quickest_equal("squares", ways, x.dtype, x[:3])
    assert len(starters) == 2


def test_a_rehearsal_without_numbers_takes_our_own_and_warns_of_nothing():
    x = torch.ones(5, 2, device="meta", requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        way = rivals.quickest_equal("squares", {"own": square, "rival": square}, x.dtype, x)
    assert way is square


def test_all_that_has_a_number_for_each_row_counts_as_the_power_of_two(monkeypatch):
    """Random lengths would otherwise be compared anew in every step."""
    starters = take(monkeypatch, "rival")
    ways = {"own": lambda x, m, w: (x @ m * w).sum(), "rival": lambda x, m, w: (w * (x @ m)).sum()}
    matrix = torch.randn(2, 3, requires_grad=True)
    for rows in (5, 7, 4):
        rivals.quickest_equal("sums", ways, matrix.dtype, torch.ones(rows, 2), matrix, matrix[:1])
        weights = torch.ones(rows, 3)
        rivals.quickest_equal("sums", ways, matrix.dtype, torch.ones(rows, 2), matrix, weights)
    assert len(starters) == 2  # weights of one row are another question


def test_a_choice_with_all_bits_is_not_that_of_tf32(monkeypatch):
    starters = take(monkeypatch, "rival")
    x = torch.ones(5, 2, requires_grad=True)
    for products in ("ieee", "tf32", "ieee"):
        with float32_products(products):
            rivals.quickest_equal("squares", {"own": square, "rival": square}, x.dtype, x)
    assert len(starters) == 2


def test_a_checkpoint_s_choice_counts_after_others_were_taken(monkeypatch):
    starters = take(monkeypatch, "rival")
    x = torch.ones(5, 2, requires_grad=True)
    ways = {"own": square, "rival": lambda x: x * x}
    assert rivals.quickest_equal("squares", ways, x.dtype, x) is ways["rival"]
    machine.CHOICES.update(dict.fromkeys(machine.CHOICES, "own"))  # as a resumed run does
    assert rivals.quickest_equal("squares", ways, x.dtype, x) is square
    assert len(starters) == 1


def test_a_choice_that_is_not_here_gives_way_to_our_own(monkeypatch):
    """A checkpoint may name a kernel that another machine had."""
    take(monkeypatch, "QuACK")
    x = torch.ones(2)
    assert rivals.quickest_equal("squares", {"own": square}, x.dtype, x) is square


def problem(bias=True, dtype=torch.float64):
    torch.manual_seed(3)
    layer = Softmax(FullWords(13, 6), bias=bias).to(dtype)
    if bias:
        torch.nn.init.normal_(layer.bias)
    hidden = torch.randn(7, 2, 6, dtype=dtype, requires_grad=True)
    target = torch.randint(13, (7, 2))
    target[2, 1] = -100
    return layer, hidden, target


def with_gradients(layer, hidden, target):
    loss = layer(hidden, target)[0]
    return loss, *torch.autograd.grad(loss, [hidden, *layer.parameters()])


class QuACK(SimpleNamespace):
    """In the place of QuACK: what its function computes, and the sizes that it was given."""

    def chunked_linear_cross_entropy(self, x, weight, target, ignore_index):
        self.sizes = x.shape, weight.shape
        return F.cross_entropy(x @ weight.T, target, ignore_index=ignore_index)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ["table", "torch", "QuACK"])
def test_a_softmax_by_another_kernel_is_the_same_softmax(monkeypatch, rehearsed, name, bias):
    if name == "torch" and not hasattr(F, "linear_cross_entropy"):
        pytest.skip("PyTorch has its own kernel from version 2.13 on")
    layer, hidden, target = problem(bias)
    expected = with_gradients(layer, hidden, target)
    monkeypatch.setattr(rivals, "LARGE", 1)
    quack = QuACK()
    monkeypatch.setitem(sys.modules, "quack.linear_cross_entropy", quack)
    starters = take(monkeypatch, name)
    ways = {"table": rivals.by_table, "torch": rivals.by_torch, "QuACK": rivals.by_quack}
    contexts = hidden.flatten(0, 1)[:, None]
    given = [contexts, layer.words.weight, layer.bias, None, target.flatten(), torch.float64]
    loss = rivals.computed(ways[name], *given)
    made = loss, *torch.autograd.grad(loss, [hidden, *layer.parameters()])
    torch.testing.assert_close(made, expected)
    if name == "QuACK":
        assert quack.sizes[0][1] == quack.sizes[1][1] == 8  # 6 and the bias are 7
    else:
        torch.testing.assert_close(with_gradients(layer, hidden, target), expected)
        has_torch = hasattr(F, "linear_cross_entropy")
        assert starters == [["course", "table"] + ["torch"] * has_torch]


@pytest.mark.parametrize("name", ["table", "torch", "course"])
def test_without_any_target_the_loss_is_0_by_every_kernel(monkeypatch, rehearsed, name):
    """A mean over no position would be 0 / 0, and one such batch would end a training."""
    monkeypatch.setattr(rivals, "LARGE", 1)
    take(monkeypatch, name if name != "torch" or hasattr(F, "linear_cross_entropy") else "table")
    layer, hidden, target = problem()
    layer.bias.data[0] = -torch.inf  # a word that is forbidden stands for no target
    with_gradients(layer, hidden, target.where(target != 0, 1))  # makes the choice
    for tensor in with_gradients(layer, hidden, torch.full_like(target, -100)):
        assert (tensor == 0).all()


def test_a_choice_made_without_gradients_is_not_that_of_training(monkeypatch):
    ways = {"own": square, "wrong when learning": lambda x: x.detach().square() + 0 * x}
    take(monkeypatch, "wrong when learning")
    x = torch.ones(4)
    assert rivals.quickest_equal("squares", ways, x.dtype, x) is ways["wrong when learning"]
    with pytest.warns(UserWarning, match="of the largest off"):
        taken = rivals.quickest_equal("squares", ways, x.dtype, x.requires_grad_())
    assert taken is square


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("components", [1, 3])
def test_a_mixture_by_its_table_is_the_same_mixture(monkeypatch, rehearsed, components, bias):
    """Its loss and all gradients; an ignored position gives none, nor does a batch of them."""
    torch.manual_seed(3)
    layer = MixtureOfSoftmaxes(FullWords(13, 6), components=components, bias=bias).double()
    if bias:
        torch.nn.init.normal_(layer.bias)
    _, hidden, target = problem()
    expected = with_gradients(layer, hidden, target)
    torch.testing.assert_close(expected[0], layer.reference(hidden, target))
    monkeypatch.setattr(rivals, "LARGE", 1)
    starters = take(monkeypatch, "table")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as where a kernel of one softmax is tried and fails
        torch.testing.assert_close(with_gradients(layer, hidden, target), expected)
    assert starters == [["course", "table"]]
    for tensor in with_gradients(layer, hidden, torch.full_like(target, -100)):
        assert (tensor == 0).all()


def test_a_mixture_s_table_under_autocast_is_about_the_mixture(monkeypatch, rehearsed):
    """Products in bfloat16; the sums, the loss and what learns stay in float32."""
    torch.manual_seed(3)
    layer = MixtureOfSoftmaxes(FullWords(13, 6, init=1.0), components=3)
    hidden, target = torch.randn(7, 2, 6, requires_grad=True), torch.randint(13, (7, 2))
    expected = with_gradients(layer, hidden, target)
    monkeypatch.setattr(rivals, "LARGE", 1)
    monkeypatch.setitem(sys.modules, "quack.linear_cross_entropy", QuACK())
    monkeypatch.setattr(rivals.importlib.util, "find_spec", lambda name: name == "quack")
    starters = take(monkeypatch, "table")
    with torch.autocast("cpu", torch.bfloat16), warnings.catch_warnings():
        warnings.simplefilter("error")  # as where QuACK is tried and fails
        loss = layer(hidden, target)[0]
    made = loss, *torch.autograd.grad(loss, [hidden, *layer.parameters()])
    assert starters == [["course", "table"]] and loss.dtype == torch.float32
    for one, two in zip(made, expected, strict=True):
        assert one.dtype == two.dtype and (one - two).abs().max() <= 0.03 * two.abs().max()


def test_a_mixture_s_table_stays_in_logarithms(rehearsed):
    """Where all softmaxes have the probability 0 in float32, the loss and its slopes are finite."""
    x = torch.zeros(2, 3, 1)
    x[0] = 1.0
    x.requires_grad_()
    matrix = torch.tensor([[200.0], [0.0]])
    log_weights = torch.full((2, 3), -math.log(3))
    loss = rivals.by_table(x, matrix, None, log_weights, torch.tensor([1, -100]))
    assert loss.item() == pytest.approx(200.0)
    (slope,) = torch.autograd.grad(loss, x)
    torch.testing.assert_close(slope[0], torch.full((3, 1), 200 / 3), rtol=1e-5, atol=0)
    assert (slope[1] == 0).all()


@pytest.mark.parametrize("components", [1, 3])
@pytest.mark.parametrize("short", [0, 1])
def test_the_table_is_asked_for_where_there_is_room_for_it(
    monkeypatch, rehearsed, components, short
):
    """For its logits and their slopes, of all contexts."""
    room = 3 * 8 * 14 * components * 13 - short
    monkeypatch.setattr(rivals, "LARGE", 1)
    monkeypatch.setattr(rivals, "total_memory", lambda device: room / rivals.ROOM)
    monkeypatch.delattr(F, "linear_cross_entropy", raising=False)
    starters = take(monkeypatch, "table")
    layer, hidden, target = problem()
    if components > 1:
        layer = MixtureOfSoftmaxes(layer.words, components=components).double()
    layer(hidden, target)
    assert starters == ([] if short else [["course", "table"]])


def test_quack_is_asked_for_half_precision_only(monkeypatch, rehearsed):
    monkeypatch.setattr(rivals, "LARGE", 1)
    monkeypatch.setitem(sys.modules, "quack.linear_cross_entropy", QuACK())
    monkeypatch.setattr(rivals.importlib.util, "find_spec", lambda name: name == "quack")
    monkeypatch.delattr(F, "linear_cross_entropy", raising=False)
    monkeypatch.setattr(rivals, "ROOM", 0)
    starters = take(monkeypatch, "QuACK")
    layer, hidden, target = problem(dtype=torch.float32)
    expected = layer.reference(hidden, target)
    assert layer(hidden, target)[0].item() == pytest.approx(expected.item()) and not starters
    with torch.autocast("cpu", torch.bfloat16):
        made = layer(hidden, target)[0]
    assert starters == [["course", "QuACK"]]
    assert made.item() == pytest.approx(expected.item(), rel=0.01)


@pytest.mark.parametrize("kind", [Softmax, MixtureOfSoftmaxes])
@pytest.mark.parametrize("what", ["small", "on a CPU", "objective", "sum", "none"])
def test_our_own_kernel_keeps_what_no_other_computes(monkeypatch, what, kind):
    """Nor is another looked for where a launch takes longer than the work, or on a CPU."""
    from course_lib.output_layers import LabelSmoothing

    monkeypatch.setattr(machine, "REHEARSED", what != "on a CPU")
    monkeypatch.setattr(rivals, "LARGE", 1000 if what == "small" else 1)
    starters = take(monkeypatch, "torch")
    layer, hidden, target = problem()
    layer = kind(layer.words, **({} if kind is Softmax else {"components": 2})).double()
    objective = LabelSmoothing(0.1) if what == "objective" else None
    layer(hidden, target, objective, reduction=what if what in ("sum", "none") else "mean")
    assert not starters


class BentMixture(SigSoftmax, MixtureOfSoftmaxes):
    pass


class AdversarialMixture(Adversarial, MixtureOfSoftmaxes):
    pass


class GatedMixture(GradientGating, MixtureOfSoftmaxes):
    pass


@pytest.mark.parametrize("kind", [BentMixture, AdversarialMixture, GatedMixture])
def test_a_mixture_that_does_more_than_mix_keeps_its_own_loss(monkeypatch, rehearsed, kind):
    torch.manual_seed(3)
    layer = kind(FullWords(13, 6)).double()
    _, hidden, target = problem()
    expected = with_gradients(layer, hidden, target)
    monkeypatch.setattr(rivals, "LARGE", 1)
    monkeypatch.setattr(rivals, "_compiled", lambda formula: formula)
    starters = take(monkeypatch, "table")
    made = with_gradients(layer, hidden, target)
    assert starters == ([["written", "compiled"]] if kind is BentMixture else [])
    if kind is GatedMixture:  # which counts its targets at every call
        made, expected = made[:1], expected[:1]
    torch.testing.assert_close(made, expected)


@pytest.mark.parametrize(
    "kind", [AdversarialSoftmax, GatedSoftmax, AdaptiveSoftmax, MixtureOfContexts]
)
def test_a_layer_that_is_no_plain_softmax_keeps_its_own_loss(monkeypatch, rehearsed, kind):
    """Whatever else is quicker: each computes what its plain form computes."""
    torch.manual_seed(3)
    options = {"cutoffs": [5]} if kind is AdaptiveSoftmax else {}
    layer = kind(FullWords(13, 6), **options).double()
    hidden = torch.randn(7, 2, 6, dtype=torch.float64, requires_grad=True)
    target = torch.randint(13, (7, 2))
    expected = layer.reference(hidden, target)
    expected = expected, *torch.autograd.grad(expected, [hidden, layer.words.weight])
    monkeypatch.setattr(rivals, "LARGE", 1)
    starters = take(monkeypatch, "torch")
    loss = layer(hidden, target)[0]
    made = loss, *torch.autograd.grad(loss, [hidden, layer.words.weight])
    assert not starters or kind is MixtureOfContexts  # which is one softmax of one context
    if kind is GatedSoftmax:  # which counts its targets at every call
        made, expected = made[:1], expected[:1]
    torch.testing.assert_close(made, expected)


@pytest.mark.parametrize("kind", BENT)
def test_a_layer_computes_the_same_with_its_function_compiled(monkeypatch, rehearsed, kind):
    """By the compiler's tracing and differentiation; the code that it makes needs a GPU."""
    torch.manual_seed(0)
    layer = kind(FullWords(13, 6, init=1.0), **({"pieces": 9} if "Piece" in kind.__name__ else {}))
    layer.double()
    hidden = 3 * torch.randn(7, 2, 6, dtype=torch.float64)
    hidden.requires_grad_()
    target = torch.randint(13, (7, 2))
    expected = with_gradients(layer, hidden, target)
    monkeypatch.setattr(rivals, "LARGE", 1)
    made = []

    def traced(formula):
        made.append(formula)
        return torch.compile(formula, backend="aot_eager")

    monkeypatch.setattr(rivals, "_compiled", traced)
    starters = take(monkeypatch, "compiled")
    torch.testing.assert_close(with_gradients(layer, hidden, target), expected)
    assert made == [layer.formula] and starters == [["written", "compiled"]]


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=9))
def test_a_formula_is_the_function_that_is_written_out(numbers):
    x = torch.tensor(numbers, dtype=torch.float64)
    words = FullWords(4, 3)
    layers = [GeneralizedSigSoftmax(words, c=0.7, k=0.4), SoftCappedSoftmax(words, cap=5.0)]
    layers += [PiecewiseLinearSoftmax(words, pieces=7, low=-3.0, high=2.0)]
    for layer in layers:
        parameters = [p.double() for p in layer.transform_parameters()]
        written = layer.transform(x, *parameters)
        torch.testing.assert_close(layer.formula(x, *parameters), written, rtol=1e-12, atol=1e-9)


@given(st.floats(-50, 50), st.floats(-5, 5), st.floats(0.1, 9))
def test_pl_is_the_paper_s(x, c, k):
    """Equation 3 of parthiban2021 as it is printed: k (x − c) + c − (k − 1) softplus(x − c)."""
    layer = GeneralizedSigSoftmax(FullWords(4, 3), c=c, k=k)
    x = torch.tensor(x, dtype=torch.float64)
    printed = k * (x - c) + c - (k - 1) * torch.logaddexp(x - c, x.new_zeros(()))
    torch.testing.assert_close(layer.formula(x), printed, rtol=1e-9, atol=1e-9)


def test_the_weights_of_torch_s_layer_lie_one_behind_the_other(monkeypatch):
    """As cuDNN wants them; else it copies all of them at every call."""
    seen = []
    real = torch.lstm

    def lstm(x, start, weights, *options):
        seen.extend(weights)
        return real(x, start, weights, *options)

    monkeypatch.setattr(torch, "lstm", lstm)
    shapes = (12, 5), (12, 3), (12,), (12,)
    weight, recurrent, *biases = (torch.randn(shape) for shape in shapes)
    h = torch.zeros(2, 3)
    lstm_recurrence.fused_layer(torch.randn(4, 2, 5), weight, recurrent, biases, h, h, h.dtype)
    places = [w.storage_offset() for w in seen]
    assert places == [0, 60, 96, 108] and len({w.untyped_storage().data_ptr() for w in seen}) == 1
    assert seen[0].untyped_storage().nbytes() == 4 * 120


def test_cudnn_finds_the_weights_in_one_piece(device):
    """It warns otherwise, and only where there is a GPU."""
    with torch.device(device), warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*contiguous chunk.*")
        weight, recurrent = torch.randn(12, 5), torch.randn(12, 3)
        biases, h = [torch.randn(12), torch.randn(12)], torch.zeros(2, 3)
        x = torch.randn(4, 2, 5)
        lstm_recurrence.fused_layer(x, weight, recurrent, biases, h, h, h.dtype)


def test_a_layer_whose_function_was_compiled_is_freed():
    """The bound function holds the layer, whose matrix is the model's largest."""
    alive = weakref.WeakSet()
    for _ in range(4):
        layer = GeneralizedSigSoftmax(FullWords(5, 3))
        alive.add(layer)
        rivals._compiled(layer.formula)
        del layer
    gc.collect()
    assert len(alive) <= 2
    rivals._compiled.cache_clear()
