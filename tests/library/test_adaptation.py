"""Continuous cache and dynamic evaluation against their definitions written as loops."""

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from course_lib.errors import CourseError
from course_lib.evaluation import cache, dynamic
from course_lib.evaluation.perplexity import best_first, float32_products, perplexity
from course_lib.models import AWDLSTM, LanguageModel, TransformerXL
from course_lib.output_layers import FullWords, MixtureOfSoftmaxes, Softmax

pytestmark = pytest.mark.usefixtures("device")

N, EOS = 13, 4


def build(kind=Softmax):
    torch.manual_seed(0)
    words = FullWords(N, 6, init=1.0)
    layer = kind(words)
    model = LanguageModel(words, AWDLSTM(6, (7, 6)), layer)
    return model.double()


def tokens(count=43):
    return torch.randint(N, (count,), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", [Softmax, MixtureOfSoftmaxes])
@pytest.mark.parametrize("length", [1, 7, 100])
def test_predictions_are_those_of_the_perplexity(kind, length):
    model = build(kind).train()
    found = cache.predictions(model, tokens(), EOS, length)
    assert model.training and torch.equal(found.target, tokens())
    expected = perplexity(model, tokens(), EOS)
    assert math.exp(-found.log_prob.mean()) == pytest.approx(expected, rel=1e-10)
    assert cache.mixed_perplexity(found, torch.rand(43), 0.0) == pytest.approx(expected, rel=1e-10)


@given(
    count=st.integers(1, 40), window=st.integers(1, 50), block=st.integers(1, 50),
    theta=st.floats(0, 3), weight=st.floats(0.01, 0.9), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_cache_is_its_definition_in_a_double_loop(count, window, block, theta, weight, seed):
    g = torch.Generator().manual_seed(seed)
    hidden = torch.randn(count, 3, generator=g, dtype=torch.float64)
    target = torch.randint(5, (count,), generator=g)
    log_prob = -torch.rand(count, generator=g, dtype=torch.float64)
    found = cache.Predictions(log_prob, hidden, target)
    cached, total = [], 0.0
    for t in range(count):
        mass = {}
        for i in range(max(0, t - window), t):
            score = math.exp(theta * float(hidden[t] @ hidden[i]))
            mass[int(target[i])] = mass.get(int(target[i]), 0.0) + score
        p = mass.get(int(target[t]), 0.0) / sum(mass.values()) if mass else 0.0
        cached.append(p)
        model = math.exp(log_prob[t])
        total -= math.log((1 - weight) * model + weight * p if t else model)
    ours = cache.cache_probability(found, window, theta, block)
    torch.testing.assert_close(ours, torch.tensor(cached, dtype=torch.float64))
    value = cache.mixed_perplexity(found, ours, weight)
    assert value == pytest.approx(math.exp(total / count), rel=1e-9)


def test_a_cache_helps_where_words_come_back_and_the_search_finds_it():
    """Each word of the text comes three times in a row; the model knows nothing."""
    text = torch.randperm(N).repeat_interleave(3)
    hidden = torch.nn.functional.one_hot(text, N).double()
    found = cache.Predictions(torch.full((len(text),), -math.log(N)).double(), hidden, text)
    rows = cache.search(found, windows=(2, 10), thetas=(0.0, 5.0), weights=(0.0, 0.3, 0.6))
    assert len(rows) == 12 and rows[0]["weight"] > 0 and rows[0]["theta"] == 5.0
    plain = next(row for row in rows if row["weight"] == 0)
    assert plain["perplexity"] == pytest.approx(N) and rows[0]["perplexity"] < 0.6 * N
    assert rows == sorted(rows, key=lambda row: row["perplexity"])


def written_out(model, text, squares, rate, decay, epsilon, length=5):
    """Krause's algorithm, parameter by parameter, segment by segment."""
    home = [p.detach().clone() for p in model.parameters()]
    roots = [squares[name].sqrt() for name, _ in model.named_parameters()]
    mean = sum(root.mean().item() for root in roots) / len(roots)  # tensors count alike
    state, total, text = None, 0.0, torch.cat([torch.tensor([EOS]), text])
    model.eval()
    for start in range(0, len(text) - 1, length):
        target = text[start + 1 : start + 1 + length, None]
        step = model(text[start : start + len(target), None], state)
        state = tuple((h.detach(), c.detach()) for h, c in step.state)
        log_prob = model.output_layer.log_prob(step.hidden).gather(-1, target[..., None])
        total -= log_prob.sum().item()
        grads = torch.autograd.grad(-log_prob.mean(), list(model.parameters()))
        with torch.no_grad():
            for p, g, start_p, root in zip(model.parameters(), grads, home, roots, strict=True):
                pull = torch.minimum(decay * root / mean, torch.ones(()))
                p += -rate * g / (root + epsilon) + pull * (start_p - p)
    with torch.no_grad():
        for p, start_p in zip(model.parameters(), home, strict=True):
            p.copy_(start_p)
    return math.exp(total / (len(text) - 1))


@pytest.mark.parametrize("part", [dynamic.PART, 7])  # 7: all but the smallest are cut up
@pytest.mark.parametrize("length", [5, 8])
@pytest.mark.parametrize(("rate", "decay"), [(1e-2, 0.0), (1e-2, 0.05), (3e-3, 5.0)])
def test_dynamic_evaluation_is_the_written_out_loop(rate, decay, length, part, monkeypatch):
    monkeypatch.setattr(dynamic, "PART", part)
    model = build().train()
    before = [p.clone() for p in model.parameters()]
    squares = dynamic.mean_squares(model, tokens(300), batch=3, progress=False)
    expected = written_out(model, tokens(), squares, rate, decay, 1e-3, length)
    model.train()
    settings = {"rate": rate, "decay": decay, "epsilon": 1e-3, "length": length}
    value = dynamic.dynamic_perplexity(model, tokens(), EOS, squares, **settings, progress=False)
    assert value == pytest.approx(expected, rel=1e-9)
    assert model.training and all(map(torch.equal, model.parameters(), before))
    assert all(p.grad is None for p in model.parameters())


class Sometimes(torch.nn.Module):
    """A model with a parameter that only the first segment's loss depends on."""

    def __init__(self, model):
        super().__init__()
        self.model, self.calls = model, 0
        self.extra = torch.nn.Parameter(torch.tensor([2.0], dtype=torch.float64))

    def forward(self, tokens, state, target):
        step, self.calls = self.model(tokens, state, target), self.calls + 1
        return step._replace(loss=step.loss + 3 * self.extra.sum()) if self.calls == 1 else step


def test_a_parameter_without_a_gradient_goes_back_alone():
    model = Sometimes(build())
    squares = {name: torch.full_like(p, 4.0) for name, p in model.named_parameters()}
    steps = dynamic.losses(model, tokens(), EOS, squares, rate=0.1, decay=0.25, epsilon=1.0)
    where = [model.extra.item() for _ in zip(range(3), steps, strict=False)]
    steps.close()
    there = 2.0 - 0.1 * 3 / (2.0 + 1.0)
    assert where[:2] == pytest.approx([there, there + 0.25 * (2.0 - there)])
    assert model.extra.item() == 2.0 and not model.extra._post_accumulate_grad_hooks


def test_mean_squares_are_means_over_segments():
    model, text = build().eval(), tokens(101)
    squares = dynamic.mean_squares(model, text, batch=2, length=20, progress=False)
    columns, state, sums = text[:100].view(2, 50).T, None, 0
    for start in (0, 20, 40):
        target = columns[start + 1 : start + 21]
        step = model(columns[start : start + len(target)], state, target)
        state = tuple((h.detach(), c.detach()) for h, c in step.state)
        sums = sums + torch.autograd.grad(step.loss, model.words.weight)[0].square() / 3
    torch.testing.assert_close(squares["words.weight"], sums)


def test_gradients_that_a_caller_left_do_not_count():
    model, text = build(), tokens(60)
    clean = dynamic.mean_squares(model, text, batch=2, progress=False)
    (100 * model(text[:9, None], None, text[1:10, None]).loss).backward()
    left = dynamic.mean_squares(model, text, batch=2, progress=False)
    for name, squares in clean.items():
        assert torch.equal(left[name], squares), name


def test_learning_from_the_test_text_helps_where_it_repeats():
    model, text = build(), torch.tensor([1, 5, 9, 2]).repeat(40)
    squares = dynamic.mean_squares(model, tokens(300), batch=3, progress=False)
    options = {"epsilon": 1e-3, "progress": False}
    still, pulled, learned = (
        dynamic.dynamic_perplexity(model, text, EOS, squares, rate=r, decay=d, **options)
        for r, d in ((0.0, 0.0), (0.0, 1e-3), (1e-2, 1e-3))
    )
    assert still == pulled == pytest.approx(perplexity(model, text, EOS))
    assert learned < 0.5 * still


@pytest.mark.parametrize(
    "bad",
    [
        lambda model, found: perplexity(model, tokens(), EOS, length=-1),
        lambda model, found: perplexity(model, tokens(), EOS, batch=0),
        lambda model, found: cache.cache_probability(found, 0, 1.0),
        lambda model, found: cache.mixed_perplexity(found, torch.rand(43), 1.5),
        lambda model, found: cache.mixed_perplexity(found, torch.rand(43), -0.1),
    ],
)
def test_settings_that_would_give_a_number_without_meaning_are_refused(bad):
    model = build()
    found = cache.predictions(model, tokens(), EOS)
    with pytest.raises(CourseError, match="must be a"):
        bad(model, found)


def test_a_search_goes_through_iterators_as_through_lists():
    found, grid = cache.predictions(build(), tokens(), EOS), ((2, 10), (0.0, 5.0), (0.1, 0.3))
    assert cache.search(found, *map(iter, grid)) == cache.search(found, *grid)
    assert len(cache.search(found, *map(iter, grid))) == 8


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"rate": math.nan}, "rate must be a number at least 0, not nan"),
        ({"decay": -1.0}, "decay must be a number at least 0, not -1"),
        ({"epsilon": math.inf}, "epsilon must be a number at least 0, not inf"),
        ({"length": 0}, "length must be a whole number of at least 1, not 0"),
        ({"tokens": tokens(0)}, "the split has 0 tokens, too few .* .at least 1 are needed"),
        ({"squares": {}}, "the squares are of another model; take the mean_squares of this one"),
    ],
)
def test_dynamic_evaluation_refuses_what_cannot_be_meant(settings, message):
    model = build()
    squares = dynamic.mean_squares(model, tokens(300), batch=3, progress=False)
    usual = {"tokens": tokens(), "squares": squares, "rate": 0.1, "decay": 0.0}
    with pytest.raises(CourseError, match=message):
        dynamic.dynamic_perplexity(model, eos=EOS, progress=False, **usual | settings)
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())
    with pytest.raises(CourseError, match="length must be a whole number of at least 1"):
        dynamic.mean_squares(model, tokens(300), batch=3, length=0, progress=False)


def test_dynamic_evaluation_learns_where_gradients_are_off():
    def value():
        model = build()
        squares = dynamic.mean_squares(model, tokens(300), batch=3, progress=False)
        settings = {"rate": 0.1, "decay": 0.1, "progress": False}
        return dynamic.dynamic_perplexity(model, tokens(), EOS, squares, **settings)

    with torch.no_grad():
        without = value()
    assert without == value()


def test_a_search_puts_what_diverged_last():
    rows = [{"perplexity": value} for value in (math.nan, math.inf, 48.0, math.nan, 47.0)]
    found = [row["perplexity"] for row in best_first(rows)]
    assert found[:3] == [47.0, 48.0, math.inf] and all(map(math.isnan, found[3:]))


def test_a_perplexity_beyond_every_number_is_infinite():
    """Not an OverflowError, which would end the search."""
    found = cache.Predictions(*(torch.zeros(3) for _ in cache.Predictions._fields))
    found = found._replace(log_prob=torch.full((3,), -1e4))
    assert cache.mixed_perplexity(found, torch.zeros(3), 0.1) == math.inf


def test_autocast_has_no_narrow_copies_of_weights_before_their_update():
    """PyTorch keeps them as long as autocast lasts, and does not see what is changed in place."""
    words = FullWords(N, 8)
    encoder = TransformerXL(8, layers=1, heads=2, head_size=4, feedforward=16, memory=4)
    model = LanguageModel(words, encoder, Softmax(words))
    squares = {name: torch.ones_like(p) for name, p in model.named_parameters()}
    settings = {"squares": squares, "rate": 0.3, "decay": 0.0}
    found = []
    for cached in (True, False):
        with torch.autocast(torch.get_default_device().type, torch.bfloat16, cache_enabled=cached):
            steps = dynamic.losses(model, tokens(), EOS, **settings)
            found.append([nll.item() for nll, _ in steps])
    assert found[0] == found[1] and len(found[0]) > 3


def test_nothing_is_computed_in_tf32():
    """As in `perplexity`, whose figure the model alone must have on a GPU, too."""
    model, cudnn, seen = build(), torch.backends.cudnn, []
    model.register_forward_hook(lambda *_: seen.append(cudnn.allow_tf32))
    with float32_products("ieee"):  # which gives back what was there before
        cudnn.allow_tf32 = True
        cache.predictions(model, tokens(), EOS)
        squares = dynamic.mean_squares(model, tokens(100), batch=2, progress=False)
        list(dynamic.losses(model, tokens(), EOS, squares, rate=1e-3, decay=0.0))
        assert cudnn.allow_tf32
    assert len(seen) > 3 and not any(seen)
