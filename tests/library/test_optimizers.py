"""Coupled Adam and Ember against their formulas, several optimisers as one, groups, tying."""

import copy
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import course_lab
from course_lab import part
from course_lib.errors import CourseError
from course_lib.models import LanguageModel, VariationalLSTM
from course_lib.output_layers import FullWords, Softmax, SpectralWords
from course_lib.training import CoupledAdam, Optimisation
from course_lib.training.optimizers import Ember, Together
from course_lib.training.tying import TiedUntil

pytestmark = pytest.mark.usefixtures("device")

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=30, deadline=None)


def draw(seed, *shape):
    """Standard normal numbers in float64."""
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def walk(optimizer, parameter, gradients):
    """The parameter after one step a gradient."""
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


def naive(W, gradients, lr, betas, eps, weight_decay):
    """AdamW written out, each row with its own second moment, their mean used for all."""
    (b1, b2), m, v = betas, torch.zeros_like(W), torch.zeros_like(W)
    for t, g in enumerate(gradients, 1):
        W = W - lr * weight_decay * W
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        v_hat = (v / (1 - b2**t)).mean(0, keepdim=True)
        W = W - lr * (m / (1 - b1**t)) / (v_hat**0.5 + eps)
    return W


@few
@given(
    seeds,
    st.integers(1, 12),
    st.integers(1, 6),
    st.floats(1e-4, 1),
    st.tuples(st.floats(0, 0.99), st.floats(0, 0.999)),
    st.floats(1e-8, 1e-2),
    st.floats(0, 1),
)
def test_coupled_adam_is_adamw_with_the_mean_second_moment(seed, N, d, lr, betas, eps, decay):
    W, gradients = draw(seed, N, d), draw(seed + 1, 6, N, d)
    parameter = nn.Parameter(W.clone())
    optimizer = CoupledAdam([parameter], lr, betas, eps, decay)
    expected = naive(W, gradients, lr, betas, eps, decay)
    torch.testing.assert_close(
        walk(optimizer, parameter, gradients), expected, rtol=1e-10, atol=1e-12
    )
    shapes = {key: tuple(value.shape) for key, value in optimizer.state[parameter].items()}
    assert shapes == {"step": (), "exp_avg": (N, d), "exp_avg_sq": (d,)}


@few
@given(seeds, st.integers(1, 6), st.floats(0, 0.5))
def test_for_one_word_coupled_adam_is_adamw(seed, d, decay):
    gradients, ours, theirs = draw(seed, 8, 1, d), *(nn.Parameter(draw(1, 1, d)) for _ in "12")
    coupled = CoupledAdam([ours], lr=0.1, weight_decay=decay)
    adam = torch.optim.AdamW([theirs], lr=0.1, weight_decay=decay)
    torch.testing.assert_close(
        walk(coupled, ours, gradients), walk(adam, theirs, gradients), rtol=1e-10, atol=1e-12
    )


def drift(make, seed):
    """How far the mean row of W moves in ten steps on softmax gradients, and how far the rows."""
    W = nn.Parameter(draw(seed, 20, 5))
    start, optimizer = W.detach().clone(), make([W], lr=0.05, weight_decay=0.0)
    for step in range(10):
        hidden = draw(seed + step + 1, 30, 5)
        target = torch.tensor(np.random.default_rng(seed + step).zipf(1.5, 30) % 20)
        optimizer.zero_grad()
        nn.functional.cross_entropy(hidden @ W.T, target).backward()
        assert W.grad.sum(0).abs().max() < 1e-12  # the softmax's gradients sum to zero
        optimizer.step()
    moved = W.detach() - start
    return float(moved.mean(0).norm()), float(moved.norm(dim=1).mean())


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_coupled_adam_does_not_let_the_words_drift(seed):
    """As the sum of the gradients, that of the updates is zero; Adam's is not."""
    mean, rows = drift(CoupledAdam, seed)
    assert mean < 1e-12 < 0.1 < rows
    mean, rows = drift(torch.optim.AdamW, seed)
    assert mean > 0.01 * rows


def test_coupled_adam_takes_any_shape_and_skips_what_has_no_gradient():
    parameters = [nn.Parameter(torch.ones(shape)) for shape in ((), (3,), (2, 3, 4), (5, 2))]
    optimizer = CoupledAdam(parameters, lr=0.1)
    for parameter in parameters[:3]:
        parameter.grad = torch.ones_like(parameter)
    assert optimizer.step(lambda: 7.0) == 7.0
    for parameter in parameters[:3]:
        torch.testing.assert_close(parameter.detach(), torch.full_like(parameter, 0.9))
    assert (parameters[3] == 1).all() and parameters[3] not in optimizer.state
    assert optimizer.state[parameters[1]]["exp_avg_sq"].shape == ()


def sparse(seed, steps, N, d):
    """Gradients of a matrix that reads: about half of the rows have none in a step."""
    read = torch.tensor(np.random.default_rng(seed).random((steps, N, 1)) < 0.5)
    return draw(seed + 1, steps, N, d) * read


def ember_by_hand(W, gradients, lr, beta2, eps, decay):
    """The formulas, number by number."""
    N, d = W.shape
    r, c, W = [0.0] * N, [0.0] * d, W.tolist()
    for t, g in enumerate(gradients.tolist(), 1):
        in_use = [i for i in range(N) if any(g[i])]
        for i in range(N):
            r[i] = beta2 * r[i] + (1 - beta2) * sum(x * x for x in g[i]) / d
        for j in range(d):
            seen = sum(g[i][j] ** 2 for i in in_use) / max(1, len(in_use))
            c[j] = beta2 * c[j] + (1 - beta2) * seen
        correct = 1 - beta2**t
        for i in range(N):
            for j in range(d):
                v = r[i] * c[j] / correct / (sum(r) / N) if sum(r) else 0.0
                W[i][j] = (1 - lr * decay) * W[i][j] - lr * g[i][j] / (math.sqrt(v) + eps)
    return torch.tensor(W, dtype=torch.float64)


@few
@given(
    seeds,
    st.integers(1, 9),
    st.integers(1, 5),
    st.floats(1e-4, 1),
    st.just(0.0) | st.floats(0.01, 0.999),
    st.floats(1e-8, 1e-2),
    st.floats(0, 1),
)
def test_ember_is_its_formula(seed, N, d, lr, beta2, eps, decay):
    W, gradients = draw(seed, N, d), sparse(seed, 6, N, d)
    parameter = nn.Parameter(W.clone())
    optimizer = Ember([parameter], lr, beta2, eps, decay)
    expected = ember_by_hand(W, gradients, lr, beta2, eps, decay)
    torch.testing.assert_close(
        walk(optimizer, parameter, gradients), expected.to(W), rtol=1e-9, atol=1e-11
    )
    shapes = {key: tuple(value.shape) for key, value in optimizer.state[parameter].items()}
    assert shapes == {"step": (), "row": (N,), "column": (d,)}


@few
@given(seeds, st.integers(2, 9), st.integers(1, 5), st.floats(0.5, 0.999))
def test_ember_is_adam_without_momentum_where_squares_are_rows_times_columns(seed, N, d, beta2):
    """All rows in use, and g² = s_t a_i b_j: then v is such a product, too."""
    signs = draw(seed, 7, N, d).sign()
    steps, rows, columns = (draw(seed + k, n).exp() for k, n in ((1, 7), (2, N), (3, d)))
    gradients = signs * (steps[:, None, None] * rows[:, None] * columns).sqrt()
    ours, theirs = (nn.Parameter(draw(seed, N, d)) for _ in "12")
    ember = Ember([ours], lr=0.1, beta2=beta2, eps=1e-12)
    adam = torch.optim.AdamW([theirs], 0.1, betas=(0.0, beta2), eps=1e-12, weight_decay=0.0)
    torch.testing.assert_close(walk(ember, ours, gradients), walk(adam, theirs, gradients))


@few
@given(seeds, st.floats(-9, 9))
def test_ember_knows_no_unit_and_moves_no_word_that_was_not_read(seed, power):
    """Gradients a thousand times as large make the same steps; a row without one stays."""
    gradients = sparse(seed, 5, 6, 3)
    gradients[:, 2] = 0
    start = draw(seed, 6, 3)
    ends = []
    for scale in (1.0, 10.0**power):
        parameter = nn.Parameter(start.clone())
        ends.append(walk(Ember([parameter], 0.1, 0.9, eps=1e-30), parameter, scale * gradients))
        assert torch.equal(ends[-1][2], start[2]) and ends[-1].isfinite().all()
    torch.testing.assert_close(*ends)


def test_ember_takes_matrices_and_skips_what_has_no_gradient():
    read, other = nn.Parameter(torch.ones(5, 2)), nn.Parameter(torch.ones(5, 2))
    optimizer = Ember([read, other], lr=0.1)
    read.grad = torch.zeros_like(read)
    assert optimizer.step(lambda: 7.0) == 7.0
    assert (read == 1).all() and (other == 1).all() and other not in optimizer.state
    group = {"words.": {"optimizer": "ember", "beta2": 0.9, "eps": 1e-6}}
    optimizer = Optimisation(weight_decay=0.5, groups=group).build(Model().named_parameters())
    (ember,) = [o for o in optimizer.optimizers if isinstance(o, Ember)]
    (settings,) = ember.param_groups
    assert [settings[k] for k in ("beta2", "eps", "weight_decay", "lr")] == [0.9, 1e-6, 0.5, 1.0]
    for name, options, said in (
        ("encoder", {}, r"ember is for matrices; encoder.bias has shape \(4,\)"),
        ("words", {"betas": (0.9, 0.9)}, "group with ember 'betas'; did you mean beta2"),
        ("words", {"beta2": 1.0}, "beta2 of the group 'words' must be a number .* below 1"),
    ):
        with pytest.raises(CourseError, match=said):
            settings = Optimisation(groups={name: {"optimizer": "ember"} | options})
            settings.build(Model().named_parameters())


# Tying that ends ---------------------------------------------------------------------------------


def language_model(tied, kind=FullWords):
    """A small one in float64; where it is not tied, its two matrices begin equal."""
    torch.manual_seed(0)
    words = kind(11, 4, init=0.5)
    predictor = words if tied else copy.deepcopy(words)
    return LanguageModel(words, VariationalLSTM(4, 4, init=0.5), Softmax(predictor)).double()


def backward(model, step):
    tokens, target = torch.randint(11, (2, 5, 3), generator=torch.Generator().manual_seed(step))
    model.zero_grad()
    torch.manual_seed(step)
    model(tokens, target=target).loss.backward()


def matrices(model):
    return [list(w.parameters()) for w in (model.words, model.output_layer.words)]


RULES = {
    "adamw": Optimisation(optimizer="adamw", learning_rate=0.1, weight_decay=0.1, tied_until=0.5),
    "sgd": Optimisation(optimizer="sgd", learning_rate=0.1, tied_until=0.5),
    "groups": Optimisation(
        optimizer="adamw", learning_rate=0.1, tied_until=0.5,
        groups={"words.": {"optimizer": "ember", "learning_rate": 0.05}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", [FullWords, SpectralWords])
def test_words_are_tied_and_then_each_goes_on_with_a_copy(rule, kind):
    """Tied, step for step the tied model; then two optimisers that were copied from its one."""
    if rule == "groups" and kind is SpectralWords:
        rule = "adamw"  # Ember is for matrices, and σ is none
    tied, both = language_model(True, kind), language_model(False, kind)
    one = RULES[rule].build(tied.named_parameters())
    two = RULES[rule].build(both.named_parameters())
    tying = TiedUntil(both, two, 0.5)
    for step in range(4):
        backward(tied, step)
        backward(both, step)
        tying.before_step(step / 8)
        assert all(p.grad is None for p in matrices(both)[1])  # clipped once, as the tied is
        for optimizer in (one, two):
            optimizer.step()
        tying.after_step()
        for ours, theirs, copied in zip(*matrices(both), matrices(tied)[0], strict=True):
            assert torch.equal(ours, theirs)
            torch.testing.assert_close(ours, copied, rtol=1e-10, atol=1e-12)
    # From here on each side is by itself. By hand: both have a state, and a step is a step.
    twin = copy.deepcopy(both)
    optimizer = RULES[rule].build(twin.named_parameters())
    optimizer.load_state_dict(copy.deepcopy(two.state_dict()))
    for reader, predictor in zip(*matrices(twin), strict=True):
        copied = {k: v.clone() for k, v in optimizer.state[reader].items()}
        optimizer.state[predictor].update(copied)
    for step in range(4, 8):
        backward(twin, step)
        optimizer.step()
        backward(both, step)
        tying.before_step(step / 8)
        two.step()
        tying.after_step()
    for ours, expected in zip(matrices(both), matrices(twin), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))
    assert all(not torch.equal(a, b) for a, b in zip(*matrices(both), strict=True))


def test_matrices_that_begin_apart_are_one_from_the_first_forward_pass():
    model = language_model(False)
    with torch.no_grad():
        model.output_layer.words.weight.add_(1)
    TiedUntil(model, RULES["sgd"].build(model.named_parameters()), 0.5)
    assert torch.equal(model.output_layer.words.weight, model.words.weight)


def test_what_is_tied_at_first_has_one_name_and_must_be_two():
    model = language_model(True)
    with pytest.raises(CourseError, match="tied_until .* the model must be untied"):
        TiedUntil(model, RULES["sgd"].build(model.named_parameters()), 0.5)
    groups = {"output_layer.words.": {"learning_rate": 0.3}}
    both = language_model(False)
    with pytest.raises(CourseError, match="unknown group of parameters 'output_layer.words.'"):
        Optimisation(tied_until=0.5, groups=groups).build(both.named_parameters())
    Optimisation(groups=groups).build(both.named_parameters())
    group = {"words.": {"learning_rate": 0.3}}
    optimizer = Optimisation(tied_until=0.5, groups=group).build(both.named_parameters())
    rates = {name: g["lr"] for name, g in groups_of(optimizer, both).items()}
    assert rates["words.weight"] == rates["output_layer.words.weight"] == 0.3
    assert rates["output_layer.bias"] == 1.0
    with pytest.raises(CourseError, match="tied_until of Optimisation must be a number .* below 1"):
        Optimisation(tied_until=1.0)


def pair():
    """Two optimisers of one parameter each, and the same alone."""
    first, second = nn.Parameter(draw(1, 4, 3)), nn.Parameter(draw(2, 5))
    return first, second, torch.optim.AdamW([first], lr=0.1), CoupledAdam([second], lr=0.2)


def test_together_is_each_alone():
    first, second, a, b = pair()
    one, two, alone_a, alone_b = pair()
    both = Together([a, b])
    for step in range(4):
        first.grad, second.grad = draw(10 + step, 4, 3), draw(20 + step, 5)
        one.grad, two.grad = first.grad.clone(), second.grad.clone()
        assert both.step(lambda: 3.0) == 3.0
        alone_a.step()
        alone_b.step()
    assert torch.equal(first, one) and torch.equal(second, two)
    assert [group["lr"] for group in both.param_groups] == [0.1, 0.2]
    assert set(both.state) == {first, second}
    assert both.state[first]["exp_avg"] is a.state[first]["exp_avg"]
    both.zero_grad()
    assert first.grad is None and second.grad is None


def test_what_is_set_through_together_arrives():
    """Rates through its groups, slots through its state, everything through its state_dict."""
    first, second, a, b = pair()
    both = Together([a, b])
    both.param_groups[1]["lr"] = 0.7
    both.state[second]["step"] = torch.tensor(4.0)
    assert b.param_groups[0]["lr"] == 0.7 and b.state[second]["step"] == 4
    both.state[second].clear()
    walk(both, second, draw(3, 2, 5))
    saved, (_, third, c, e) = copy.deepcopy(both.state_dict()), pair()
    other = Together([c, e])
    other.load_state_dict(saved)
    assert other.param_groups[1]["lr"] == 0.7
    with torch.no_grad():
        third.copy_(second)
    gradients = draw(4, 3, 5)
    assert torch.equal(walk(other, third, gradients), walk(both, second, gradients))


def test_a_group_is_given_to_one_of_them():
    _, _, a, b = pair()
    with pytest.raises(CourseError, match="give the group to one of `optimizers`"):
        Together([a, b]).add_param_group({"params": [nn.Parameter(draw(1, 2))]})


class Model(nn.Module):
    """Names as those of a language model with tied words and a layer of slopes."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(6, 4)
        self.encoder = nn.Linear(4, 4)
        self.output_layer = nn.Module()
        self.output_layer.words = self.words
        self.output_layer.slopes = nn.Parameter(torch.zeros(9))


def groups_of(optimizer, model):
    """{name: its param_group}."""
    names = {id(p): name for name, p in model.named_parameters()}
    return {names[id(p)]: group for group in optimizer.param_groups for p in group["params"]}


def test_the_longest_prefix_decides_and_the_rest_is_inherited():
    o = Optimisation(
        optimizer="adamw", learning_rate=0.1, weight_decay=0.01, betas=(0.8, 0.9), eps=1e-6,
        groups={
            "": {"weight_decay": 0.02},
            "encoder": {"learning_rate": 0.3},
            "encoder.bias": {"optimizer": "sgd"},
            "words.": {"optimizer": "coupled-adam", "betas": [0.5, 0.6], "weight_decay": 0.0},
        },
    )  # fmt: skip
    model = Model()
    optimizer = o.build(model.named_parameters())
    groups = groups_of(optimizer, model)
    assert sorted(groups) == sorted(name for name, _ in model.named_parameters())  # the tied once
    rates = {name: (g["lr"], g["initial_lr"], g["weight_decay"]) for name, g in groups.items()}
    assert rates == {
        "words.weight": (0.1, 0.1, 0.0),
        "encoder.weight": (0.3, 0.3, 0.01),
        "encoder.bias": (0.1, 0.1, 0.01),
        "output_layer.slopes": (0.1, 0.1, 0.02),
    }
    assert groups["words.weight"]["betas"] == (0.5, 0.6) and groups["words.weight"]["eps"] == 1e-6
    assert groups["output_layer.slopes"]["betas"] == (0.8, 0.9)
    kinds = {id(p): type(m) for m in optimizer.optimizers for p in m.param_groups[0]["params"]}
    assert kinds[id(model.words.weight)] is CoupledAdam
    assert kinds[id(model.encoder.bias)] is torch.optim.SGD
    assert kinds[id(model.encoder.weight)] is torch.optim.AdamW


def test_without_groups_there_is_one_optimiser():
    model = Model()
    for name, kind in (("sgd", torch.optim.SGD), ("coupled-adam", CoupledAdam)):
        optimizer = Optimisation(optimizer=name, learning_rate=3).build(model.named_parameters())
        assert type(optimizer) is kind
        assert [g["initial_lr"] for g in optimizer.param_groups] == [3]


def test_muon_takes_the_word_matrix():
    """With PyTorch's settings where none are given; its step sets every singular value near η."""
    model, lr = Model(), 0.1
    muon = {"optimizer": "muon", "learning_rate": lr, "ns_steps": 6, "adjust_lr_fn": "original"}
    o = Optimisation(weight_decay=0.5, groups={"words.": muon})
    optimizer = o.build(model.named_parameters())
    group = groups_of(optimizer, model)["words.weight"]
    assert group["ns_steps"] == 6 and group["momentum"] == 0.95 and group["weight_decay"] == 0.5
    before, other = model.words.weight.detach().clone(), Model().words
    other.weight.data.copy_(before)
    theirs = torch.optim.Muon(
        other.parameters(), lr=lr, weight_decay=0.5, ns_steps=6, adjust_lr_fn="original"
    )
    gradient = draw(5, 6, 4).float().to(before.device)
    gradient[:, 0] *= 30  # one direction rules
    walk(optimizer, model.words.weight, [gradient])
    assert torch.equal(model.words.weight, walk(theirs, other.weight, [gradient]))
    update = (before * (1 - lr * 0.5) - model.words.weight.detach()) / (lr * (6 / 4) ** 0.5)
    assert torch.linalg.cond(gradient) > 20 and torch.linalg.cond(update) < 2.5


def test_bad_groups_are_refused():
    def build(prefix, **group):
        return Optimisation(groups={prefix: group}).build(Model().named_parameters())

    with pytest.raises(CourseError, match="unknown group of parameters 'word_'; did you mean word"):
        build("word_")
    with pytest.raises(CourseError, match="'output_layer.words.'; did you mean output_layer."):
        build("output_layer.words.")  # tied: its name is words.weight
    with pytest.raises(CourseError, match=r"muon is for matrices; encoder.bias has shape \(4,\)"):
        build("encoder", optimizer="muon")
    with pytest.raises(CourseError, match="unknown optimizer 'muons'; did you mean muon"):
        build("words", optimizer="muons")
    for wrong, said in [
        ({"betas": (0.9, 1.0)}, "betas of Optimisation must be a list of 2, each .* below 1"),
        ({"betas": (0.9,)}, "betas of Optimisation must be a list of 2"),
        ({"eps": 0.0}, "eps of Optimisation must be a number above 0"),
        ({"weight_decay": math.nan}, "weight_decay of Optimisation must be a number at least 0"),
        ({"groups": {"words.": {"betas": [0.9, "x"]}}}, "betas of the group 'words.' must be a"),
        ({"groups": {"words.": {"betas": [0.9]}}}, "group 'words.' must be a list of 2"),
    ]:
        with pytest.raises(CourseError, match=said):
            Optimisation(optimizer="adamw", **wrong)
    with pytest.raises(CourseError, match="group with sgd 'betas'"):
        build("words", betas=(0.9, 0.9))
    with pytest.raises(CourseError, match="group with muon 'momentun'; did you mean momentum"):
        build("words", optimizer="muon", momentun=0.9)
    with pytest.raises(CourseError, match="learning_rate of .* must be a number above 0, not -1"):
        build("words", learning_rate=-1)
    with pytest.raises(CourseError, match="muon refuses its settings: Adjust learning rate"):
        build("words", optimizer="muon", adjust_lr_fn="matched")


def test_groups_round_trip_through_json():
    group = {"optimizer": "coupled-adam", "learning_rate": 0.01, "betas": (0.9, 0.95)}
    experiment = course_lab.Experiment(
        name="test/groups", corpus=part("docstrings"), encoder=part("VariationalLSTM"),
        optimisation=Optimisation(groups={"words.": group}),
    )  # fmt: skip
    plain = json.loads(json.dumps(experiment.to_dict()))
    assert course_lab.Experiment.from_dict(plain) == experiment
    assert experiment.to_dict() == plain
    changed = experiment.change(optimisation={"groups": {"": {"learning_rate": 3}}})
    assert changed.optimisation.groups == {"": {"learning_rate": 3}}
    assert Optimisation().groups == {}
