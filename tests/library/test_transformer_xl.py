"""TransformerXL against Dai et al.'s formulas as loops, and the laws of causality and memory."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import dropout
from course_lib.errors import CourseError
from course_lib.models import transformer_xl
from course_lib.models.transformer_xl import TransformerXL, sinusoids

pytestmark = pytest.mark.usefixtures("branches")


def build(size=8, layers=2, heads=2, head_size=3, feedforward=10, **options):
    """A small encoder in float64 with weights large enough that every term matters."""
    torch.manual_seed(0)
    options = {"dropout": 0.0, "memory": 5, "init": 0.5} | options
    return TransformerXL(size, layers, heads, head_size, feedforward, **options).double()


def naive(encoder, x, clamp=None, drop=1.0):
    """The whole sequence at once, one score at a time: Dai et al. 2019, section 3.3."""
    return naive_segment(encoder, x, [x[:0]] * len(encoder.layers), clamp, drop=drop)[0]


def naive_segment(encoder, x, memory, clamp=None, reach=None, drop=1.0):
    """The same of a segment x (T, B, d) that also sees `memory`, for each layer the inputs
    (M, B, d) of the tokens before: every pair of positions i, j at its distance i - j. With `reach`
    every token sees so many, itself included; `drop` multiplies what is dropped."""
    (_, B, d), pre = x.shape, isinstance(encoder.norm, torch.nn.LayerNorm)
    x, seen = drop * x * encoder.scale, []
    for layer, before in zip(encoder.layers, memory, strict=True):
        a, past = layer.attention, torch.cat([before, x])
        H, K, M, S = a.heads, a.head_size, len(before), len(past)
        seen.append(past)
        inputs = layer.attention_norm(past) if pre else past
        query = (inputs @ a.query.weight.T).view(S, B, H, K)
        keys, values = (inputs @ a.key_value.weight.T).view(S, B, 2, H, K).unbind(2)
        rows = []
        for i in range(M, S):
            heads, first = [], max(0, i + 1 - (reach or S))
            for h in range(H):
                scores = []
                for j in range(first, i + 1):
                    distance = torch.tensor([min(i - j, clamp or S)])
                    R = sinusoids(distance, d, x.dtype)[0]
                    r = (a.position.weight @ (drop * R)).view(H, K)[h]
                    q, k = query[i, :, h], keys[j, :, h]
                    content = ((q + encoder.content_bias[h]) * k).sum(-1)
                    scores.append((content + (q + encoder.position_bias[h]) @ r) / math.sqrt(K))
                weights = drop * torch.stack(scores).softmax(0)  # (seen, B)
                heads.append((weights[..., None] * values[first : i + 1, :, h]).sum(0))
            rows.append(torch.cat(heads, -1) @ a.output.weight.T)
        x = x + drop * torch.stack(rows)
        x = x if pre else layer.attention_norm(x)
        inputs = layer.feedforward_norm(x) if pre else x
        (first, *_, second) = layer.feedforward
        inner = drop * (inputs @ first.weight.T + first.bias).clamp(min=0)
        x = x + drop * (inner @ second.weight.T + second.bias)
        x = x if pre else layer.feedforward_norm(x)
    return drop * encoder.norm(x), seen


def gradients(encoder, x, output):
    """Gradients of a fixed random projection of the output, for x and every parameter."""
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).double()
    return torch.autograd.grad((output * direction).sum(), [x, *encoder.parameters()])


def in_segments(encoder, x, lengths):
    """Hidden states (T, B, d) of x read in segments of the given lengths, state carried."""
    state, pieces = None, []
    for piece in x.split(lengths):
        hidden, state = encoder(piece, state)
        pieces.append(hidden)
    return torch.cat(pieces)


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("clamp", [None, 2])
def test_equals_the_formulas_written_as_loops(pre_norm, clamp):
    encoder = build(pre_norm=pre_norm, clamp=clamp)
    x = torch.randn(6, 2, 8, dtype=torch.float64, requires_grad=True)
    expected, hidden = naive(encoder, x, clamp), encoder(x)[0]
    torch.testing.assert_close(hidden, expected, atol=1e-10, rtol=1e-9)
    wanted, found = gradients(encoder, x, expected), gradients(encoder, x, hidden)
    torch.testing.assert_close(found, wanted, atol=1e-9, rtol=1e-8)


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize(("memory", "clamp"), [(5, None), (5, 4), (2, 2), (2, None), (9, 3)])
@pytest.mark.parametrize("evaluated", [False, True])
def test_memory_and_clamped_distances_are_the_quadratic_reference(
    pre_norm, memory, clamp, evaluated
):
    """Short segments, distances cut, and for evaluation as many tokens seen by each; gradients too,
    through the memory as well, since nothing here is detached."""
    encoder = build(memory=memory, clamp=clamp, pre_norm=pre_norm)
    if evaluated:
        encoder = build(memory=3, pre_norm=pre_norm).with_memory(memory, clamp)
    x = torch.randn(7, 2, 8, dtype=torch.float64, requires_grad=True)
    past, pieces = [x[:0]] * 2, []
    for piece in x.split([3, 1, 2, 1]):
        hidden, seen = naive_segment(encoder, piece, past, clamp, memory if evaluated else None)
        past = [inputs[max(0, len(inputs) - memory) :] for inputs in seen]
        pieces.append(hidden)
    expected, hidden = torch.cat(pieces), in_segments(encoder, x, [3, 1, 2, 1])
    torch.testing.assert_close(hidden, expected, atol=1e-10, rtol=1e-9)
    wanted, found = gradients(encoder, x, expected), gradients(encoder, x, hidden)
    torch.testing.assert_close(found, wanted, atol=1e-9, rtol=1e-8)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(1, 8), st.integers(1, 4),
    st.booleans(),
)  # fmt: skip
def test_evaluation_does_not_depend_on_how_a_text_is_cut(lengths, memory, clamp, pre):
    """Every token sees as many as every other: the law that holds for an LSTM. In training mode the
    first of a segment sees less far than its last, and it does not."""
    encoder = build(memory=2, pre_norm=pre).with_memory(memory, clamp)
    x = torch.randn(sum(lengths), 1, 8, dtype=torch.float64)
    whole, pieces = encoder(x)[0], in_segments(encoder, x, lengths)
    torch.testing.assert_close(pieces, whole, atol=1e-9, rtol=1e-8)
    if memory < sum(lengths[:-1]):  # which the last segment cannot look back to
        encoder.same_length = False
        assert (in_segments(encoder, x, lengths) - encoder(x)[0]).abs().max() > 1e-6


def test_sinusoids_are_the_published_ones():
    r = sinusoids(torch.tensor([0, 3]), 4, torch.float64)
    angles = [3.0, 3.0 / 10000 ** (2 / 4)]
    torch.testing.assert_close(r[0], torch.tensor([0.0, 0, 1, 1], dtype=torch.float64))
    wanted = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
    torch.testing.assert_close(r[1], torch.tensor(wanted, dtype=torch.float64))


shapes = st.tuples(st.integers(1, 7), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))


@settings(max_examples=25, deadline=None)
@given(shapes, st.lists(st.integers(1, 4), min_size=1, max_size=4), st.booleans())
def test_segments_make_no_difference_when_memory_reaches_back_to_the_start(shape, lengths, pre):
    size, batch, heads, head_size = shape
    encoder = build(2 * size, 2, heads, head_size, memory=sum(lengths), pre_norm=pre)
    x = torch.randn(sum(lengths), batch, 2 * size, dtype=torch.float64, requires_grad=True)
    whole, pieces = encoder(x)[0], in_segments(encoder, x, lengths)
    torch.testing.assert_close(pieces, whole, atol=1e-9, rtol=1e-8)
    wanted, found = gradients(encoder, x, whole), gradients(encoder, x, pieces)
    torch.testing.assert_close(found, wanted, atol=1e-7, rtol=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(0, 6), st.data())
def test_no_output_depends_on_a_later_input(length, memory, data):
    changed = data.draw(st.integers(0, length - 1))
    encoder = build(memory=memory)
    state = encoder(torch.randn(4, 2, 8, dtype=torch.float64))[1]
    x = torch.randn(length, 2, 8, dtype=torch.float64)
    before = encoder(x, state)[0]
    x[changed] += 1
    after = encoder(x, state)[0]
    assert torch.equal(before[:changed], after[:changed])
    assert not torch.allclose(before[changed], after[changed])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 7), st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_the_state_is_the_latest_layer_inputs_and_nothing_else(memory, lengths):
    encoder = build(memory=memory)
    x, state = torch.randn(sum(lengths), 3, 8, dtype=torch.float64), None
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    for piece in x.split(lengths):
        state = encoder(piece, state)[1]
    kept = min(memory, sum(lengths))
    assert len(state) == 2 and all(tensor.shape == (kept, 3, 8) for tensor in state)
    torch.testing.assert_close(state[0], (x * encoder.scale)[len(x) - kept :])
    assert encoder.state_dict().keys() == before.keys()


@pytest.mark.parametrize("memory", [0, 2])
def test_the_state_keeps_nothing_else_alive(memory):
    _, state = build(memory=memory)(torch.randn(9, 2, 8).double())
    for part in state:
        assert part.untyped_storage().nbytes() == part.nbytes


def test_memory_limits_what_is_seen():
    """One layer sees `memory` tokens before its segment, and nothing beyond."""
    encoder = build(layers=1, memory=3)
    x = torch.randn(9, 1, 8, dtype=torch.float64, requires_grad=True)
    hidden = in_segments(encoder, x, [6, 3])
    seen = torch.autograd.grad(hidden[-1].sum() * 2 + hidden[-1, 0, 0], x)[0].abs().sum((1, 2)) > 0
    assert seen.tolist() == [False] * 3 + [True] * 6


def test_without_memory_segments_are_independent():
    encoder = build(memory=0)
    x = torch.randn(6, 2, 8, dtype=torch.float64)
    hidden, state = encoder(x[:3])
    assert [tensor.shape for tensor in state] == [(0, 2, 8)] * 2
    torch.testing.assert_close(encoder(x[3:], state)[0], encoder(x[3:])[0])
    assert hidden.shape == (3, 2, encoder.output_size)


def test_with_memory_shares_the_parameters_and_leaves_the_original_alone():
    encoder = build(memory=0)
    longer = encoder.with_memory(6, clamp=2)
    assert (encoder.memory, encoder.clamp, longer.memory, longer.clamp) == (0, None, 6, 2)
    assert all(p is q for p, q in zip(encoder.parameters(), longer.parameters(), strict=True))
    x = torch.randn(6, 2, 8, dtype=torch.float64)
    torch.testing.assert_close(in_segments(longer, x, [4, 2]), naive(encoder, x, clamp=2))


@given(
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(1, 9),
    st.booleans(),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_parameter_count_of_the_docstring(half, layers, heads, head_size, feedforward, pre_norm):
    d, A, F_ = 2 * half, heads * head_size, feedforward
    encoder = TransformerXL(d, layers, heads, head_size, feedforward, pre_norm=pre_norm)
    expected = layers * (5 * d * A + 2 * d * F_ + F_ + 5 * d) + 2 * A + 2 * d * pre_norm
    assert sum(p.numel() for p in encoder.parameters()) == expected


def test_the_published_wikitext_103_model_has_151_million_parameters():
    with torch.device("meta"):
        encoder = TransformerXL(410, layers=16, heads=10, head_size=41, feedforward=2100)
    words = 267_735 * (410 + 1) + 3 * 410 + 3  # tied adaptive softmax: rows, bias, three clusters
    total = sum(p.numel() for p in encoder.parameters()) + words
    assert round(total / 1e6) == 151


def test_initialisation_and_input_scale():
    encoder = TransformerXL(64, layers=2, heads=4, head_size=16, feedforward=128)
    weights = encoder.layers[0].attention.key_value.weight
    assert weights.std().item() == pytest.approx(0.02, rel=0.1)
    gains = encoder.layers[0].attention_norm
    assert gains.weight.mean().item() == pytest.approx(1, abs=0.02) and gains.bias.abs().max() == 0
    assert encoder.scale == 8 and TransformerXL(64, layers=1, input_scale=False).scale == 1


@pytest.mark.parametrize("pre_norm", [False, True])
def test_what_is_dropped_is_what_the_released_code_drops(pre_norm, monkeypatch):
    """Word vectors, positions, attention weights, the network's inner units, what both sublayers
    give and what leaves: with a mask that is 1.5 everywhere, known in every place."""
    monkeypatch.setattr(dropout.EntryDropout, "forward", lambda self, x: 1.5 * x)
    monkeypatch.setattr(transformer_xl, "entry_dropout", lambda x, rate, training: 1.5 * x)
    attend = torch.nn.functional.scaled_dot_product_attention  # which drops by itself

    def dropped(*inputs, **options):
        return 1.5 * attend(*inputs, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", dropped)
    encoder, x = build(pre_norm=pre_norm), torch.randn(5, 2, 8, dtype=torch.float64)
    torch.testing.assert_close(encoder(x)[0], naive(encoder, x, drop=1.5), atol=1e-10, rtol=1e-9)


def test_dropout_acts_in_training_only():
    encoder = build(dropout=0.5, attention_dropout=0.5)
    x = torch.randn(4, 2, 8, dtype=torch.float64)
    assert not torch.equal(encoder(x)[0], encoder(x)[0])
    encoder.eval()
    assert torch.equal(encoder(x)[0], encoder(x)[0])
    torch.testing.assert_close(encoder(x)[0], naive(encoder, x))


@pytest.mark.parametrize("device", ["cpu", *["cuda"] * torch.cuda.is_available()])
def test_bf16_autocast_agrees_roughly_and_trains(device):
    torch.manual_seed(0)
    encoder = TransformerXL(32, 2, 4, 8, 64, dropout=0.0, memory=8).to(device)
    x = torch.randn(20, 3, 32, device=device)
    exact = in_segments(encoder, x, 10)
    with torch.autocast(device, torch.bfloat16):
        rough = in_segments(encoder, x, 10)
    assert F.cosine_similarity(exact, rough, dim=-1).min() > 0.99
    rough.float().square().sum().backward()
    assert all(torch.isfinite(p.grad).all() and p.grad.any() for p in encoder.parameters())


def test_distances_are_exact_for_word_vectors_of_bfloat16():
    """As a product makes them under autocast (`SpectralWords`); 299 is no number in bfloat16."""
    torch.manual_seed(0)
    encoder = TransformerXL(32, 2, 4, 8, 64, dropout=0.0, memory=0)
    with torch.no_grad():  # attention that counts, and looks at distances
        for weight in encoder.layers.parameters():
            weight.mul_(8 if weight.dim() > 1 else 1)
        encoder.position_bias.normal_()
    x = torch.randn(300, 1, 32).bfloat16()
    with torch.autocast(torch.get_default_device().type, torch.bfloat16):
        rows, vectors = encoder(x.float())[0], encoder(x)[0]
    assert F.cosine_similarity(rows, vectors.float(), dim=-1).min() > 0.999  # else 0.99


@pytest.mark.parametrize(
    "options, words",
    [({"size": 7}, "even"), ({"memory": -1}, "memory"), ({"clamp": 0}, "clamp")],
)
def test_impossible_sizes_are_refused_with_the_reason(options, words):
    with pytest.raises(CourseError, match=words):
        build(**options)


def test_an_empty_segment_is_refused():
    model = TransformerXL(8, layers=1, heads=2, head_size=4, feedforward=8, memory=3).eval()
    _, state = model(torch.randn(5, 2, 8))
    for before in (None, state):
        with pytest.raises(CourseError, match="one time step or more"):
            model(torch.randn(0, 2, 8), before)


def test_each_share_is_of_what_its_name_says():
    encoder = build(dropout=0.25, attention_dropout=0.75)
    assert encoder.dropout.p == 0.25
    for layer in encoder.layers:
        assert (layer.dropout.p, layer.attention.dropout) == (0.25, 0.75)
        inner = [m.p for m in layer.feedforward if isinstance(m, dropout.EntryDropout)]
        assert inner == [0.25]
