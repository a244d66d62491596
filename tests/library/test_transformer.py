"""The encoder-decoder Transformer against the paper's formulas as loops, and its laws."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_lib.errors import CourseError
from course_lib.models import LSTMTranslator, Transformer

pytestmark = pytest.mark.usefixtures("device")

SMALL = {"layers": 2, "heads": 2, "feedforward": 10, "dropout": 0.0}
SIZES = {
    "small": (256, {"layers": 4, "heads": 4, "feedforward": 1024}, 7_360_512),
    "IWSLT base": (512, {"layers": 6, "heads": 4, "feedforward": 1024}, 31_506_432),
    "WMT base": (512, {"layers": 6, "heads": 8, "feedforward": 2048}, 44_101_632),
    "WMT big": (1024, {"layers": 6, "heads": 16, "feedforward": 4096}, 176_283_648),
}


def without_layers(model):
    """A Transformer that hands its inputs on: scaled, with positions and their dropout."""
    model.encoder_layers = nn.ModuleList()
    model.decoder_layers = nn.ModuleList()
    return model


def build(size=8, **options):
    """A small encoder in float64 whose every parameter matters."""
    torch.manual_seed(0)
    model = Transformer(size, **SMALL | options).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.normal_(1.0 if "norm.weight" in name else 0.0, 0.5)
            else:
                parameter.mul_(2)
    return model


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def padded(lengths):
    """(S, B): True behind the end of each column."""
    return torch.arange(max(lengths))[:, None] >= torch.tensor(lengths)


def naive_attention(attention, x, memory, sees):
    """One head, one query and one key at a time; sees(i, j): whether query i may look at key j."""
    H, d = attention.heads, x.shape[-1]
    K = d // H
    W_Q, W_O = attention.query.weight, attention.output.weight
    W_K, W_V = attention.key_value.weight[:d], attention.key_value.weight[d:]
    outputs = []
    for i in range(len(x)):
        heads = []
        for h in range(H):
            rows = slice(h * K, (h + 1) * K)
            q = W_Q[rows] @ x[i]
            keys = [j for j in range(len(memory)) if sees(i, j)]
            scores = [q @ (W_K[rows] @ memory[j]) / math.sqrt(K) for j in keys]
            total = sum(score.exp() for score in scores)
            terms = zip(scores, keys, strict=True)
            heads.append(sum(s.exp() / total * (W_V[rows] @ memory[j]) for s, j in terms))
        outputs.append(W_O @ torch.cat(heads))
    return torch.stack(outputs)


def naive_norm(norm, x):
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias


def naive_feedforward(network, x):
    first, _, second = network
    return (x @ first.weight.T + first.bias).clamp(min=0) @ second.weight.T + second.bias


def naive_positions(x):
    """Sines in the first half, cosines in the second, of pos / 10000^(2 k / d)."""
    d = x.shape[-1]
    angles = [[p / 10000 ** (2 * k / d) for k in range(d // 2)] for p in range(len(x))]
    rows = [[*map(math.sin, row), *map(math.cos, row)] for row in angles]
    return torch.tensor(rows, dtype=x.dtype)


def naive_layer(layer, x, pre_norm, drop, sees, memory=None, sees_source=None):
    def residual(part, x, sublayer):
        if pre_norm:
            return x + drop * sublayer(naive_norm(part.norm, x))
        return naive_norm(part.norm, x + drop * sublayer(x))

    first, *middle, last = layer.residuals
    x = residual(first, x, lambda h: naive_attention(layer.attention, h, h, sees))
    if middle:
        attention = layer.source_attention
        x = residual(middle[0], x, lambda h: naive_attention(attention, h, memory, sees_source))
    return residual(last, x, lambda h: naive_feedforward(layer.feedforward, h))


def naive(model, x, y, length, pre_norm, drop=1.0):
    """One sentence: x (S, d) of which `length` count, y (T, d) -> contexts (T, d); `drop`
    multiplies what is dropped."""

    def before_the_padding(i, j):
        return j < length

    x, y = (drop * (math.sqrt(z.shape[-1]) * z + naive_positions(z)) for z in (x, y))
    for layer in model.encoder_layers:
        x = naive_layer(layer, x, pre_norm, drop, before_the_padding)
    x = naive_norm(model.encoder_norm, x) if pre_norm else x
    for layer in model.decoder_layers:
        y = naive_layer(layer, y, pre_norm, drop, lambda i, j: j <= i, x, before_the_padding)
    return naive_norm(model.decoder_norm, y) if pre_norm else y


@pytest.mark.parametrize("pre_norm", [False, True])
def test_values_and_gradients_equal_the_formulas_written_as_loops(pre_norm):
    model = build(pre_norm=pre_norm)
    x, y, lengths = draw(4, 2, 8), draw(3, 2, 8), [4, 2]
    found, _ = model(x, y, padded(lengths))
    columns = [naive(model, x[:, b], y[:, b], n, pre_norm) for b, n in enumerate(lengths)]
    wanted = torch.stack(columns, 1)
    torch.testing.assert_close(found, wanted, atol=1e-10, rtol=1e-9)
    direction, leaves = torch.randn_like(found), [x, y, *model.parameters()]
    gradients = [torch.autograd.grad((out * direction).sum(), leaves) for out in (found, wanted)]
    torch.testing.assert_close(*gradients, atol=1e-9, rtol=1e-8)
    assert all(g.any() for g in gradients[0])


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 7), st.booleans(), st.data())
def test_no_output_depends_on_a_later_target(length, pre_norm, data):
    changed = data.draw(st.integers(0, length - 1))
    model, x, y = build(pre_norm=pre_norm), draw(3, 2, 8), draw(length, 2, 8).detach()
    memory, padding = model.encode(x, padded([3, 2])), padded([3, 2])
    before, _ = model.decode(y, memory, padding)
    y[changed] += torch.randn(8)
    after, _ = model.decode(y, memory, padding)
    torch.testing.assert_close(before[:changed], after[:changed], atol=1e-13, rtol=0)
    assert not torch.allclose(before[changed], after[changed])


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.booleans(),
)
def test_piece_by_piece_equals_the_whole(pieces, lengths, pre_norm):
    """Word by word, or in any other pieces, to 1e-12 in float64."""
    model, padding = build(pre_norm=pre_norm), padded(lengths)
    x, y = draw(max(lengths), len(lengths), 8), draw(sum(pieces), len(lengths), 8)
    whole, last = model(x, y, padding)
    for cuts in (pieces, [1] * len(y)):
        state, outputs = None, []
        for piece in y.split(cuts):
            hidden, state = model(x if state is None else None, piece, padding, state)
            outputs.append(hidden)
        torch.testing.assert_close(torch.cat(outputs), whole, atol=1e-12, rtol=0)
        torch.testing.assert_close(state, last, atol=1e-12, rtol=0)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), st.integers(0, 2))
def test_padding_changes_nothing(S, T, rows, columns):
    """More rows of padding, with anything in them, and more columns beside."""
    model, x, y = build(), draw(S, 2, 8), draw(T, 2, 8)
    alone, _ = model(x, y, padded([S, S]))
    wide_x, wide_y = (draw(n + rows, 2 + columns, 8).detach() for n in (S, T))
    wide_x[:S, :2], wide_y[:T, :2] = x.detach(), y.detach()
    padding = torch.zeros(S + rows, 2 + columns, dtype=torch.bool)
    padding[S:, :2] = True
    beside, _ = model(wide_x, wide_y, padding)
    torch.testing.assert_close(beside[:T, :2], alone, atol=1e-12, rtol=0)


def test_what_is_not_padding_is_seen():
    model, x, y = build(), draw(3, 1, 8), draw(2, 1, 8)
    outputs, _ = model(x, y, torch.tensor([[False], [False], [True]]))
    (towards,) = torch.autograd.grad(outputs[0, 0, 0], x)
    assert (towards.abs().sum((1, 2)) > 0).tolist() == [True, True, False]


def test_several_targets_of_one_source_share_its_keys():
    model, lengths = build(), [4, 2, 3]
    x, y, padding = draw(4, 3, 8), draw(5, 6, 8), padded(lengths)
    memory = model.encode(x, padding)
    together, state = model.decode(y, memory, padding)
    repeated = model.decode(y, memory.repeat_interleave(2, 1), padding.repeat_interleave(2, 1))
    torch.testing.assert_close(together, repeated[0], atol=1e-12, rtol=0)
    assert {len(t) for t in state[1][0]} == {3} and {len(t) for t in state[0][0]} == {6}


def test_a_selected_state_goes_on_like_the_columns_it_was_taken_from():
    model, padding = build(), padded([4, 2, 3])
    x, y, more = draw(4, 3, 8), draw(3, 6, 8), draw(1, 6, 8)
    state = model(x, y, padding)[1]
    columns, sources = torch.tensor([5, 5, 0, 1]), torch.tensor([2, 0])
    chosen = Transformer.select(state, columns, sources)
    found, _ = model.decode(more[:, columns], None, padding[:, sources], chosen)
    whole, _ = model(x[:, sources], torch.cat([y, more])[:, columns], padding[:, sources])
    torch.testing.assert_close(found, whole[-1:], atol=1e-12, rtol=0)
    swapped = Transformer.select(state, torch.tensor([1, 0, 3, 2, 5, 4]))
    expected = model.decode(more, None, padding, state)[0]
    turned = more[:, [1, 0, 3, 2, 5, 4]]
    found, _ = model.decode(turned, None, padding, swapped)
    torch.testing.assert_close(found[:, [1, 0, 3, 2, 5, 4]], expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("pre_norm", [False, True])
def test_parameters_of_the_published_sizes(name, pre_norm):
    d, options, stated = SIZES[name]
    with torch.device("meta"):
        model = Transformer(d, **options, pre_norm=pre_norm)
    L, F = options["layers"], options["feedforward"]
    formula = L * (12 * d * d + 4 * d * F + 2 * F + 12 * d)
    assert formula == stated
    assert sum(p.numel() for p in model.parameters()) == stated + 4 * d * pre_norm


def test_the_published_big_model_has_213_million_parameters():
    """Vaswani et al. 2017, Table 3, with a shared vocabulary of about 37,000 pieces."""
    d, _, inside = SIZES["WMT big"]
    assert (inside + 37_000 * d) / 213e6 == pytest.approx(1, abs=0.01)


def test_initialisation_and_input_scale():
    model = Transformer(64, layers=1, heads=4, feedforward=256)
    layer = model.decoder_layers[0]
    for weight, fan in (
        (layer.attention.query.weight, 128),
        (layer.source_attention.key_value.weight[:64], 128),
        (layer.source_attention.key_value.weight[64:], 128),
        (layer.feedforward[0].weight, 320),
    ):
        bound = math.sqrt(6 / fan)
        assert bound * 0.97 < weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(math.sqrt(2 / fan), rel=0.1)
    assert layer.feedforward[0].bias.abs().max() == 0
    assert model.scale == 8 and Transformer(64, layers=1, input_scale=False).scale == 1
    assert model.input_size == model.output_size == 64


@pytest.mark.parametrize("pre_norm", [False, True])
def test_what_is_dropped_is_what_the_paper_drops(pre_norm, monkeypatch):
    """Every sublayer's output and both sums of word vectors and positions: with a mask that is 1.5
    everywhere, known in every place."""
    monkeypatch.setattr(torch.nn.Dropout, "forward", lambda self, x: 1.5 * x)
    model, x, y = build(pre_norm=pre_norm), draw(4, 1, 8), draw(3, 1, 8)
    wanted = naive(model, x[:, 0], y[:, 0], 4, pre_norm, drop=1.5)
    found, _ = model(x, y, padded([4]))
    torch.testing.assert_close(found[:, 0], wanted, atol=1e-10, rtol=1e-9)


def test_dropout_acts_in_training_only():
    x, y, padding = draw(4, 2, 8), draw(3, 2, 8), padded([4, 2])
    plain = build(layers=1)(x, y, padding)[0]
    for name in ("dropout", "attention_dropout"):
        model = build(layers=1, **{name: 0.5})
        assert not torch.allclose(model(x, y, padding)[0], plain)
        torch.testing.assert_close(model.eval()(x, y, padding)[0], plain)
    model = build(layers=1, dropout=0.5)
    without_layers(model)  # the dropout of the inputs remains
    assert (model(x, y, padding)[0] == 0).any()


@pytest.mark.parametrize("device", ["cpu", *["cuda"] * torch.cuda.is_available()])
def test_bf16_autocast_agrees_roughly_and_its_gradients_are_finite(device):
    torch.manual_seed(0)
    model = Transformer(32, 2, 4, 64, dropout=0.0).to(device)
    x, y = torch.randn(9, 3, 32, device=device), torch.randn(7, 3, 32, device=device)
    padding = padded([9, 4, 6]).to(device)
    exact, _ = model(x, y, padding)
    with torch.autocast(device, torch.bfloat16):
        rough, state = model(x, y[:4], padding)
        more, _ = model(None, y[4:], padding, state)
    rough = torch.cat([rough, more]).float()
    assert torch.cosine_similarity(exact, rough, dim=-1).min() > 0.99
    rough.square().sum().backward()
    gradients = [p.grad for p in model.parameters()]
    assert all(torch.isfinite(g).all() for g in gradients)


def test_positions_are_exact_in_a_model_of_bfloat16():
    """Positions 300 and 301 are one number in bfloat16."""
    model = without_layers(Transformer(8, layers=1, input_scale=False).bfloat16().eval())
    nothing = torch.zeros(302, 1, 8, dtype=torch.bfloat16)
    outputs, _ = model(nothing, nothing, torch.zeros(302, 1, dtype=torch.bool))
    expected = naive_positions(torch.zeros(302, 8)).bfloat16()
    torch.testing.assert_close(outputs[:, 0], expected)


@pytest.mark.parametrize("size, heads", [(7, 1), (8, 3)])
def test_impossible_sizes_are_refused_with_the_reason(size, heads):
    with pytest.raises(CourseError, match=f"got {size} and {heads} heads"):
        Transformer(size, layers=1, heads=heads)


@pytest.mark.parametrize("kind", [partial(Transformer, **SMALL), LSTMTranslator])
def test_columns_that_do_not_fit_are_refused(kind):
    """Three columns of targets for two sources, a state of other columns, and no time step."""
    encoder = kind(8)
    x, padding = torch.randn(5, 2, 8), torch.zeros(5, 2, dtype=torch.bool)
    _, state = encoder(x, torch.randn(3, 4, 8), padding)
    for columns in (1, 3):
        told = f"each of 2 sources needs as many targets, not {columns} for all of them"
        with pytest.raises(CourseError, match=told):
            encoder(x, torch.randn(3, columns, 8), padding)
    with pytest.raises(CourseError, match="each of 0 sources needs as many targets, not 4"):
        encoder(x[:, :0], torch.randn(3, 4, 8), padding[:, :0])
    with pytest.raises(CourseError, match="the state has 4 columns, the words 2"):
        encoder(None, torch.randn(1, 2, 8), padding, state)
    with pytest.raises(CourseError, match="the state has 2 columns, the words 4"):
        encoder(None, torch.randn(1, 4, 8), padding[:, [0, 0, 1, 1]], state)
    with pytest.raises(CourseError, match="one time step or more, got the shape .0, 4, 8"):
        encoder(x, torch.randn(0, 4, 8), padding)
    with pytest.raises(CourseError, match="one time step or more, got the shape .0, 2"):
        encoder(x[:0], torch.randn(3, 4, 8), padding[:0])


def test_each_share_is_of_what_its_name_says():
    model = build(dropout=0.25, attention_dropout=0.75)
    assert model.dropout.p == 0.25
    for layer in (*model.encoder_layers, *model.decoder_layers):
        assert {r.dropout.p for r in layer.residuals} == {0.25} and layer.attention.dropout == 0.75
    assert {layer.source_attention.dropout for layer in model.decoder_layers} == {0.75}
