"""The LSTM translator against its equations as loops, and its laws."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.errors import CourseError
from course_lib.models import LSTMTranslator

pytestmark = pytest.mark.usefixtures("branches")


def build(size=5, units=6, layers=3, **options):
    """A small translator in float64 whose every parameter matters."""
    torch.manual_seed(0)
    model = LSTMTranslator(size, units, layers, **{"dropout": 0.0, "init": 0.6} | options).double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.normal_(0, 0.3)
    return model


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def padded(lengths):
    """(S, B): True behind the end of each column."""
    return torch.arange(max(lengths))[:, None] >= torch.tensor(lengths)


def step(layer, x, h, c, suffix=""):
    """One step of an LSTM with the weights of a direction of `layer`."""
    W, U, a, b = (getattr(layer, f"{name}_l0{suffix}") for name in
                  ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))  # fmt: skip
    i, f, g, o = (W @ x + a + U @ h + b).chunk(4)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def along(layer, xs, units, suffix=""):
    h = c = torch.zeros(units, dtype=torch.float64)
    outputs = []
    for x in xs:
        h, c = step(layer, x, h, c, suffix)
        outputs.append(h)
    return outputs


def naive(model, source, target, drop=1.0):
    """Contexts of one target (T, d) for one source (S, d), step by step; `drop` multiplies what is
    dropped."""
    u = model.output_size
    source, target = [drop * x for x in source], [drop * y for y in target]
    forth = along(model.both_ways, source, u // 2)
    back = along(model.both_ways, reversed(source), u // 2, "_reverse")[::-1]
    memory = [torch.cat(pair) for pair in zip(forth, back, strict=True)]
    for number, layer in enumerate(model.source_layers):
        above = along(layer, [drop * m for m in memory], u)
        memory = [a + (m if number else 0) for a, m in zip(above, memory, strict=True)]
    W_K, W_V = model.attention.key_value.weight[:u], model.attention.key_value.weight[u:]
    x, answers = along(model.first, target, u), []
    for h in x:
        scores = [(model.attention.query.weight @ h) @ (W_K @ m) / math.sqrt(u) for m in memory]
        total = sum(score.exp() for score in scores)
        answer = sum(s.exp() / total * (W_V @ m) for s, m in zip(scores, memory, strict=True))
        answers.append(model.attention.output.weight @ answer)
    for number, layer in enumerate(model.target_layers):
        above = along(layer, [torch.cat([drop * h, a]) for h, a in zip(x, answers, strict=True)], u)
        x = [a + (h if number else 0) for a, h in zip(above, x, strict=True)]
    return torch.stack(x)


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3), T=st.integers(1, 4),
    layers=st.integers(2, 4), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_it_equals_its_equations_column_by_column(lengths, T, layers, seed):
    """Values and all gradients; what a source is padded with does not count."""
    model = build(layers=layers)
    torch.manual_seed(seed)
    x, y = draw(max(lengths), len(lengths), 5), draw(T, len(lengths), 5)
    contexts, _ = model(x, y, padded(lengths))
    expected = torch.stack([naive(model, x[:n, b].unbind(), y[:, b].unbind())
                            for b, n in enumerate(lengths)], 1)  # fmt: skip
    torch.testing.assert_close(contexts, expected, rtol=1e-9, atol=1e-11)
    leaves = [x, y, *model.parameters()]
    ours, theirs = (torch.autograd.grad(z.sin().sum(), leaves) for z in (contexts, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_targets_piece_by_piece_give_what_they_give_at_once():
    model, x, y, padding = build(), draw(4, 2, 5), draw(6, 2, 5), padded([4, 2])
    whole, last = model(x, y, padding)
    pieces, state = [], None
    for piece in y.split([1, 3, 2]):
        contexts, state = model(x if state is None else None, piece, padding, state)
        pieces.append(contexts)
    torch.testing.assert_close(torch.cat(pieces), whole)
    torch.testing.assert_close(state, last)


def test_hypotheses_share_their_source_and_can_be_chosen():
    """Columns one after the other belong to a source; `select` puts states into another order."""
    model, x, y, padding = build(), draw(4, 2, 5), draw(3, 6, 5), padded([4, 2])
    together, state = model(x, y, padding)
    for b in range(2):
        own = x[:, [b] * 3], y[:, 3 * b : 3 * b + 3], padding[:, [b] * 3]
        torch.testing.assert_close(model(*own)[0], together[:, 3 * b : 3 * b + 3])
    more, columns = draw(2, 2, 5), torch.tensor([5, 3])
    chosen = model.select(state, columns, torch.tensor([1]))
    went_on, _ = model(None, more, padding[:, [1]], chosen)
    whole, _ = model(x[:, [1]], torch.cat([y[:, columns], more]), padding[:, [1]])
    torch.testing.assert_close(went_on, whole[3:])
    kept = model.select(state, torch.arange(6))
    torch.testing.assert_close(kept, state)


def test_what_is_dropped(monkeypatch):
    """Word vectors and what each layer hands to the next, not the answers of the attention: with a
    mask that is 1.5 everywhere, known in every place."""
    monkeypatch.setattr(torch.nn.Dropout, "forward", lambda self, x: 1.5 * x)
    model, x, y = build(layers=3), draw(4, 1, 5), draw(3, 1, 5)
    expected = naive(model, x[:, 0].unbind(), y[:, 0].unbind(), drop=1.5)
    torch.testing.assert_close(model(x, y, padded([4]))[0][:, 0], expected)


def test_it_begins_with_the_uniform_distribution_and_no_biases():
    for name, parameter in LSTMTranslator(64, 64, 3, init=0.3).named_parameters():
        if parameter.dim() == 1:
            assert not parameter.any(), name
        else:
            assert 0.29 < parameter.max() <= 0.3 and -0.3 <= parameter.min() < -0.29, name


def test_dropout_acts_in_training_only():
    model, x, y, padding = build(dropout=0.5), draw(4, 2, 5), draw(3, 2, 5), padded([4, 2])
    assert not torch.equal(model(x, y, padding)[0], model(x, y, padding)[0])
    model.eval()
    expected = naive(model, x[:2, 1].unbind(), y[:, 1].unbind())
    torch.testing.assert_close(model(x, y, padding)[0][:, 1], expected)


@pytest.mark.parametrize("device", ["cpu", *["cuda"] * torch.cuda.is_available()])
def test_bf16_autocast_agrees_roughly_and_trains(device):
    model = build(32, 32, init=0.2).float().to(device)
    x, y = (torch.randn(n, 3, 32, device=device) for n in (9, 7))
    padding = padded([9, 5, 2]).to(device)
    exact, _ = model(x, y, padding)
    with torch.autocast(device, torch.bfloat16):
        rough, _ = model(x, y, padding)
    assert torch.cosine_similarity(exact, rough.float(), dim=-1).min() > 0.99
    rough.float().square().sum().backward()
    gradients = [p.grad for p in model.parameters()]
    assert all(g.isfinite().all() and g.any() for g in gradients)


@pytest.mark.parametrize("units, layers", [(6, 1), (7, 2)])
def test_impossible_sizes_are_refused_with_the_reason(units, layers):
    with pytest.raises(CourseError, match=f"got {layers} layers of {units}"):
        LSTMTranslator(5, units, layers)
