"""The variational LSTM against its equations written out step by step."""

import copy
from functools import partial

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import course_lab
from course_lib.dropout import entry_dropout, keep_mask
from course_lib.machine import arranges
from course_lib.models import AWDLSTM, LanguageModel, VariationalLSTM, detach, lstm, lstm_recurrence
from course_lib.models.lstm_recurrence import fused_layer, run_layer
from course_lib.models.state import map_state
from course_lib.output_layers import (
    FullWords,
    MixtureOfSoftmaxes,
    PiecewiseLinearSoftmax,
    Softmax,
)
from course_lib.training.checkpoint import flatten, unflatten

pytestmark = pytest.mark.usefixtures("branches")


def lstm_step(gates, cell):
    """Return h and c' after one step: c' = σ(f) c + σ(i) tanh(g),  h = σ(o) tanh(c').

    gates: (B, 4u) before their nonlinearities, in the order o i f g; cell: c, (B, u). It is the
    definition that every way of `run_layer` is compared with.
    """
    o, i, f, g = gates.chunk(4, dim=-1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def reference(model, x, state, masks):
    """One mask for the input, one a layer: recurrence, next layer and output share it."""
    masks = iter(masks)
    x, new = x * next(masks), []
    layers = zip(
        model.input, model.recurrent, model.input_bias, model.recurrent_bias, state, strict=True
    )
    for weight, recurrent, bias, other, (h, c) in layers:
        mask, outputs = next(masks), []
        for t in range(len(x)):
            h, c = lstm_step(x[t] @ weight.T + bias + (h * mask) @ recurrent.T + other, c)
            outputs.append(h * mask)
        x = torch.stack(outputs)
        new.append((h, c))
    return x, tuple(new)


@given(
    steps=st.integers(1, 6), batch=st.integers(1, 4), size=st.integers(1, 5),
    units=st.integers(1, 5), layers=st.integers(1, 3), seed=st.integers(0, 99),
    dropout=st.sampled_from([0.0, 0.4]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_equals_the_equations_gradients_included(steps, batch, size, units, layers, seed, dropout):
    with pytest.MonkeyPatch.context() as monkeypatch:
        equals_the_equations(monkeypatch, steps, batch, size, units, layers, seed, dropout)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_many_steps_of_many_units_equal_the_equations_too(monkeypatch, dropout):
    """From so many steps on the recurrent matrix is copied, here in two parts."""
    assert lstm_recurrence._MANY <= 33
    equals_the_equations(monkeypatch, 33, 2, 3, 65, 1, 0, dropout)


def equals_the_equations(monkeypatch, steps, batch, size, units, layers, seed, dropout):
    torch.manual_seed(seed)
    model = VariationalLSTM(size, units, layers, dropout, dropout, init=0.7).double()
    x = torch.randn(steps, batch, size, dtype=torch.double, requires_grad=True)
    state = tuple(
        tuple(torch.randn(batch, units, dtype=torch.double, requires_grad=True) for _ in "hc")
        for _ in range(layers)
    )
    sizes = [size] + [units] * layers
    drawn = [torch.empty(batch, n, dtype=torch.double).bernoulli_(0.6) / 0.6 for n in sizes]
    masks = drawn if dropout else [torch.ones_like(m) for m in drawn]
    queue = iter(drawn)
    if dropout:
        monkeypatch.setattr(lstm, "keep_mask", lambda like, share: next(queue))
        model.layer_input = lambda layer, x: x if layer else x * next(queue)
    leaves = [x, *(t for pair in state for t in pair), *model.parameters()]

    def gradients(output, new):
        loss = output.square().sum() + sum((1.3 * h + c.sin()).sum() for h, c in new)
        return torch.autograd.grad(loss, leaves)

    output, new = model(x, state)
    expected, expected_new = reference(model, x, state, masks)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(new, expected_new)
    for ours, theirs in zip(gradients(output, new), gradients(expected, expected_new), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def copied(ours, plain):
    """Our weights in nn.LSTMs, whose gates come in the order i f g o."""
    with torch.no_grad():
        for layer, theirs in enumerate(plain):
            names = {"ih": ours.input, "hh": ours.recurrent}
            biases = {"ih": ours.input_bias, "hh": ours.recurrent_bias}
            for kind in ("ih", "hh"):
                for source, prefix in ((names[kind], "weight"), (biases[kind], "bias")):
                    o, i, f, g = source[layer].chunk(4)
                    getattr(theirs, f"{prefix}_{kind}_l0").copy_(torch.cat([i, f, g, o]))


@pytest.mark.parametrize(
    "build",
    [
        lambda: VariationalLSTM(4, 6, 2, dropout=0.5),
        lambda: AWDLSTM(4, (6, 5, 3), weight_drop=0.5),
    ],
    ids=["variational", "awd"],
)
def test_evaluation_equals_torch_lstms(build):
    """Whole weights and no masks, whatever was dropped in training before."""
    ours = build()
    ours.train()(torch.randn(3, 2, 4))
    plain = [torch.nn.LSTM(*pair) for pair in zip(ours.sizes, ours.sizes[1:], strict=False)]
    copied(ours, plain)
    x = expected = torch.randn(7, 3, 4)
    output, state = ours.eval()(x)
    for lstm_layer, (h, c) in zip(plain, state, strict=True):
        expected, (last, cell) = lstm_layer(expected)
        torch.testing.assert_close((h, c), (last[0], cell[0]))
    torch.testing.assert_close(output, expected)


@pytest.mark.parametrize("bf16", [False, True])
def test_the_fused_layer_is_the_written_out_one(bf16):
    """What runs on a GPU where nothing is masked, here on the CPU: values and gradients."""
    torch.manual_seed(0)
    model = AWDLSTM(4, (6,), weight_drop=0.0, input_dropout=0.0)
    x, h, c = torch.randn(7, 3, 4), torch.randn(3, 6), torch.randn(3, 6)
    leaves = [t.requires_grad_() for t in (x, h, c)] + list(model.parameters())
    weights = model.input[0], model.recurrent[0], (model.input_bias[0], model.recurrent_bias[0])
    dtype = torch.bfloat16 if bf16 else torch.float32
    with torch.autocast(torch.get_default_device().type, torch.bfloat16, enabled=bf16):
        output, last, cell = run_layer(x, *weights, None, h, c, dtype, "loop")
        fused = fused_layer(x, *weights, h, c, dtype)
    tolerance = {"rtol": 0.1, "atol": 0.02} if bf16 else {"rtol": 1e-4, "atol": 1e-5}
    assert fused[1].dtype == fused[2].dtype == torch.float32 and fused[0].dtype == output.dtype
    torch.testing.assert_close(fused, (output, last, cell), **tolerance)
    gradients = [
        torch.autograd.grad(y.float().sum() + a.sum() + b.square().sum(), leaves)
        for y, a, b in (fused, (output, last, cell))
    ]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance)


def test_autocast_leaves_float64_alone():
    """In every way of a layer, also in that which a GPU takes."""
    model = AWDLSTM(4, (6, 5)).double().eval()
    x = torch.randn(7, 3, 4, dtype=torch.float64)
    with torch.autocast(x.device.type, torch.bfloat16):
        narrow = model(x)
    torch.testing.assert_close(narrow, model(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("steps", [1, 7, lstm_recurrence._MANY + 1])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("way", ["loop", "packed", "torch"])
def test_every_way_of_a_layer_is_the_definition_gradients_included(way, masked, steps):
    """In float32, against the equations in float64 of the same numbers."""
    if way == "torch" and masked:
        pytest.skip("torch's layer takes no mask")
    on_cpu = torch.get_default_device().type == "cpu"
    if way == "packed" and not (on_cpu and arranges(torch.float32)):
        pytest.skip("oneDNN is a CPU's, and not in every build of PyTorch")
    torch.manual_seed(steps)
    batch, size, units = 3, 5, 17
    shapes = (steps, batch, size), (4 * units, size), (4 * units, units), *[(4 * units,)] * 2
    leaves = [torch.randn(s).mul_(0.4).requires_grad_() for s in (*shapes, *[(batch, units)] * 2)]
    mask = keep_mask(torch.ones(batch, units), 0.5) if masked else None
    x, weight, recurrent, *biases, h, c = leaves
    ours = run_layer(x, weight, recurrent, biases, mask, h, c, torch.float32, way)

    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    x, weight, recurrent, *biases, h, c = exact
    outputs = []
    for row in x:
        read = h if mask is None else h * mask
        h, c = lstm_step(row @ weight.T + sum(biases) + read @ recurrent.T, c)
        outputs.append(h if mask is None else h * mask)
    theirs = torch.stack(outputs), h, c
    held = ours[2].untyped_storage().nbytes()  # a carried state keeps no other step's alive
    assert held <= 2 * ours[2].nbytes
    tolerance = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(ours, tuple(t.float() for t in theirs), **tolerance)
    gradients = [
        torch.autograd.grad(y.square().sum() + 1.3 * last.sum() + cell.sin().sum(), of)
        for (y, last, cell), of in ((ours, leaves), (theirs, exact))
    ]
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two.float(), **tolerance)


def test_the_quickest_way_is_measured_once_and_then_used(monkeypatch):
    """Nothing else is drawn or left behind by it, and the model takes the way that was chosen."""
    asked = []

    def quickest(question, ways):
        asked.append((question, list(ways)))
        for way in ways.values():
            way()
        return "torch" if "torch" in ways else "packed"

    monkeypatch.setattr(lstm_recurrence, "quickest", quickest)
    monkeypatch.setattr(lstm_recurrence, "arranges", lambda dtype: dtype != torch.float64)
    assert lstm_recurrence.quickest_way(70, 2, 3, 4) == "loop" and not asked  # a small layer
    monkeypatch.setattr(lstm_recurrence, "SMALL", 0)
    state = torch.get_rng_state()
    assert lstm_recurrence.quickest_way(70, 2, 3, 4) == "torch"
    assert lstm_recurrence.quickest_way(9, 2, 3, 4, masked=True) == "packed"
    with torch.no_grad():
        lstm_recurrence.quickest_way(1, 2, 3, 4)
    assert torch.equal(state, torch.get_rng_state())
    assert asked == [
        ("LSTM layer, 32 × 2 × 3 → 4, trained", ["loop", "packed", "torch"]),
        ("LSTM layer, 8 × 2 × 3 → 4, masked, trained", ["loop", "packed"]),
        ("LSTM layer, 1 × 2 × 3 → 4", ["loop", "packed", "torch"]),
    ]
    assert lstm_recurrence.quickest_way(70, 2, 3, 4, dtype=torch.float64) == "loop"
    assert lstm_recurrence.quickest_way(70, 2, 3, 4, dtype=torch.bfloat16) == "packed"
    assert lstm_recurrence.quickest_way(7, 2, 3, 4, dtype=torch.bfloat16) == "loop"
    assert len(asked) == 3
    # for an answer that is known nothing is made
    monkeypatch.setattr(lstm_recurrence, "quickest", lambda question, ways: "packed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "full", None)
        assert lstm_recurrence.quickest_way(70, 2, 3, 4) == "packed"
    monkeypatch.setattr(lstm_recurrence, "quickest", lambda question, ways: list(ways)[-1])
    calls = []
    monkeypatch.setattr(
        lstm_recurrence, "fused_layer", lambda *a: calls.append(a) or fused_layer(*a)
    )
    AWDLSTM(3, (4, 4))(torch.randn(5, 2, 3))
    assert len(calls) == 2
    VariationalLSTM(3, 4, 2, dropout=0.5)(torch.randn(5, 2, 3))
    assert len(calls) == 2


def test_dropconnect_drops_entries_of_the_recurrence_and_leaves_the_parameter_whole():
    torch.manual_seed(0)
    model = AWDLSTM(4, (32, 24), weight_drop=0.5, input_dropout=0.0, hidden_dropout=0.0)
    before = [w.clone() for w in model.recurrent]
    output, _ = model(torch.randn(9, 3, 4))
    output.square().sum().backward()
    for weight, whole in zip(model.recurrent, before, strict=True):
        assert torch.equal(weight, whole)
        dropped = (weight.grad == 0).float().mean()
        assert 0.4 < dropped < 0.6
    again = model(torch.randn(9, 3, 4))[0]
    assert not torch.equal(output, again)
    dropped_twice = [model.recurrent_weight(0) for _ in range(2)]
    assert not torch.equal(*dropped_twice)
    kept = dropped_twice[0] != 0
    torch.testing.assert_close(dropped_twice[0][kept], 2 * model.recurrent[0][kept])


def test_awd_lstm_trains_as_its_equations_with_every_mask_known(monkeypatch):
    """The whole language model over two segments, loss and all gradients, in float64: rows of the
    word matrix, its vectors, recurrent weights, what layers hand on and the last output dropped;
    AR on what is predicted from, TAR on what the LSTM gave."""
    drawn = {"masks": [], "matrices": []}

    def mask(like, dropout):
        drawn["masks"].append(keep_mask(like, dropout))
        return drawn["masks"][-1]

    def matrix(weight, dropout):
        drawn["matrices"].append(entry_dropout(torch.ones_like(weight), dropout))
        return weight * drawn["matrices"][-1]

    monkeypatch.setattr("course_lib.dropout.keep_mask", mask)
    monkeypatch.setattr("course_lib.models.input_embedding.keep_mask", mask)
    monkeypatch.setattr("course_lib.models.awd_lstm.entry_dropout", matrix)
    experiment = course_lab.recipes["ptb/awd-lstm/softmax"].change(
        size=6, words={"init": 0.8}, encoder={"units": [9, 7, 6], "init": 0.6}
    )
    model = experiment.build(40).double().train()
    tokens = torch.randint(40, (12, 3))
    state, losses, plain = None, [], []
    E, b = model.words.weight, model.output_layer.bias
    b.data.normal_()
    states = [(E.new_zeros(3, u), E.new_zeros(3, u)) for u in (9, 7, 6)]
    for segment in (tokens[:6], tokens[5:]):
        read, target = segment[:-1], segment[1:]
        step = model(read, state, target)
        losses.append(step.loss)
        state = step.state
        rows, *masks, last = drawn["masks"]
        x = E[read] * rows[read][..., None]
        for layer, (m, dropped) in enumerate(zip(masks, drawn["matrices"], strict=True)):
            (h, c), outputs, x = states[layer], [], x * m
            weights = (model.encoder.input, model.encoder.recurrent, model.encoder.input_bias)
            W, U, a = (w[layer] for w in weights)
            for t in range(len(x)):
                gates = x[t] @ W.T + a + model.encoder.recurrent_bias[layer] + h @ (U * dropped).T
                h, c = lstm_step(gates, c)
                outputs.append(h)
            x, states[layer] = torch.stack(outputs), (h, c)
        h = x * last
        nll = torch.nn.functional.cross_entropy((h @ E.T + b).flatten(0, 1), target.flatten())
        plain.append(nll + 2 * h.square().mean() + (x[1:] - x[:-1]).square().mean())
        shapes = [list(m.shape) for m in drawn["masks"]]
        assert shapes == [[40], [1, 3, 6], [1, 3, 9], [1, 3, 7], [1, 3, 6]]
        for dropped in (rows, masks[0], drawn["matrices"][0]):
            assert 0 in dropped and len(dropped.unique()) == 2
        drawn["masks"], drawn["matrices"] = [], []
    torch.testing.assert_close(torch.stack(losses), torch.stack(plain))
    named = dict(model.named_parameters())
    ours, theirs = (torch.autograd.grad(sum(x), list(named.values())) for x in (losses, plain))
    for name, one, two in zip(named, ours, theirs, strict=True):
        torch.testing.assert_close(one, two, msg=name)


def test_locked_dropout_of_awd_lstm_is_one_mask_a_sequence():
    torch.manual_seed(0)
    model = AWDLSTM(64, (32, 8), weight_drop=0.0, input_dropout=0.5, hidden_dropout=0.25)
    for layer, share in ((0, 0.5), (1, 0.25)):
        dropped = model.layer_input(layer, torch.ones(6, 5, 64)) == 0
        assert torch.equal(dropped[0], dropped[-1]) and not torch.equal(
            dropped[:, 0], dropped[:, 1]
        )
        assert abs(dropped.float().mean() - share) < 0.1


@pytest.mark.parametrize(
    ("words", "size", "units", "output_layer", "expected"),
    [
        (10_000, 400, (1150, 1150, 400), Softmax, 24_221_600),
        (33_278, 400, (1150, 1150, 400), Softmax, 33_556_078),
        (10_000, 400, (1150, 1150, 400), PiecewiseLinearSoftmax, 24_321_600),
        *(
            (10_000, 280, (960, 960, 620), partial(MixtureOfSoftmaxes, components=k), n)
            for k, n in {1: 19_057_620, 3: 19_406_620, 5: 19_755_620, 10: 20_628_120,
                         15: 21_500_620, 20: 22_373_120}.items()
        ),
        (33_278, 300, (1150, 1150, 650), MixtureOfSoftmaxes, 34_909_528),
        (10_000, 280, (960, 960, 280), Softmax, 16_350_800),
        (10_000, 340, (960, 960, 340), Softmax, 17_560_880),
        (10_000, 280, (960, 960, 280), MixtureOfSoftmaxes, 17_535_200),
    ],
)  # fmt: skip
def test_published_parameter_counts(words, size, units, output_layer, expected):
    """On the meta device, tied."""
    with torch.device("meta"):
        matrix, encoder = FullWords(words, size), AWDLSTM(size, units)
        model = LanguageModel(matrix, encoder, output_layer(matrix, units[-1]))
    assert sum(p.numel() for p in model.parameters()) == expected


def test_one_sequence_in_two_calls_equals_one_call():
    model = VariationalLSTM(3, 5, 2, dropout=0.5).eval()
    x = torch.randn(9, 2, 3)
    whole, last = model(x)
    first, state = model(x[:4])
    second, state = model(x[4:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    torch.testing.assert_close(state, last)


def test_the_mask_is_one_a_sequence_and_shared_by_what_the_paper_ties():
    torch.manual_seed(0)
    model = VariationalLSTM(64, 64, 2, dropout=0.5)
    output, _ = model(torch.randn(5, 3, 64))
    dropped = output == 0
    assert torch.equal(dropped[0], dropped[-1])  # the same units at every step
    assert 0.3 < dropped.float().mean() < 0.7
    again, _ = model(torch.randn(5, 3, 64))
    assert not torch.equal(dropped, again == 0)  # drawn anew at the next call
    assert (model.eval()(torch.randn(5, 3, 64))[0] == 0).sum() == 0


def test_word_vectors_have_a_mask_of_their_own_only_if_asked():
    """With all but the input dropout off, training equals evaluation until some of it is asked."""
    torch.manual_seed(0)
    x = torch.randn(4, 3, 8)
    model = VariationalLSTM(8, 8, 1)
    assert torch.equal(model(x)[0], model.eval()(x)[0])
    model = VariationalLSTM(8, 8, 1, input_dropout=0.5)
    assert not torch.equal(model(x)[0], model.eval()(x)[0])


def test_bfloat16_autocast_stays_near_float32():
    torch.manual_seed(0)
    model = VariationalLSTM(16, 24, 2)
    x = torch.randn(12, 4, 16)
    exact = model(x)[0]
    with torch.autocast(torch.get_default_device().type, torch.bfloat16):
        rounded, state = model(x)
    assert rounded.dtype == torch.bfloat16 and state[0][1].dtype == torch.float32
    torch.testing.assert_close(rounded.float(), exact, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("units", [24, 20, 32])
def test_the_arranged_recurrent_matrix_gives_the_same_products(monkeypatch, units):
    """In bfloat16, over many steps: forward and all gradients as with the matrix as it is, packed
    by oneDNN, with u or 4u filled up to a multiple of 32, or, where that cannot, copied."""
    torch.manual_seed(0)
    model = VariationalLSTM(16, units, 2, dropout=0.0)
    x = torch.randn(lstm_recurrence._MANY + 3, 4, 16, requires_grad=True)
    first = torch.randn(2, 2, 4, units).requires_grad_()
    found = []
    for many, packs in (
        (lstm_recurrence._MANY, arranges(torch.bfloat16)),
        (lstm_recurrence._MANY, False),
        (10**9, False),
    ):
        monkeypatch.setattr(lstm_recurrence, "_MANY", many)
        monkeypatch.setattr(lstm_recurrence, "arranges", lambda dtype, packs=packs: packs)
        with torch.autocast(torch.get_default_device().type, torch.bfloat16):
            out, state = model(x, tuple(layer.unbind() for layer in first))
        loss = out.float().square().sum() + state[0][0].sum()
        found.append((out, *torch.autograd.grad(loss, [x, first, *model.parameters()])))
    for *arranged, two in zip(*found, strict=True):
        for one in arranged:
            atol = 0.01 * two.detach().abs().max().item()
            torch.testing.assert_close(one, two, rtol=0.02, atol=atol)


def test_states_survive_flattening_and_lose_their_graph():
    a, b = torch.ones(2, requires_grad=True) * 2, torch.zeros(3)
    state = ((a, b), (b,))
    back = unflatten(flatten(state))
    assert back[0][0] is a and back[1][0] is b and len(back) == 2
    assert unflatten({}) is None and flatten(None) == {}
    assert not detach(state)[0][0].requires_grad and a.requires_grad
    assert map_state(lambda t: t + 1, state)[1][0].sum() == 3


@pytest.mark.parametrize("kind", ["awd", "variational"])
def test_a_model_trains_and_evaluates_on_either_device(kind):
    """Trained, evaluated, moved, trained, evaluated and moved back: every output and gradient that
    of a copy that stayed. Without masks, which each device draws for itself."""
    torch.manual_seed(0)
    off = {"weight_drop": 0.0, "input_dropout": 0.0, "hidden_dropout": 0.0}
    encoder = AWDLSTM(6, (9, 9, 6), **off) if kind == "awd" else VariationalLSTM(6, 6, 2)
    words = FullWords(30, 6, init=0.5)
    stays = LanguageModel(words, encoder, Softmax(words)).cpu()
    moves = copy.deepcopy(stays)
    tokens, target = torch.randint(30, (2, 7, 3))
    states = [None, None]
    for place in ("cpu", torch.get_default_device().type, "cpu"):
        moves.to(place)
        states[1] = map_state(lambda t, place=place: t.to(place), states[1])
        for training in (True, False):
            steps = []
            for i, (model, where) in enumerate(((stays, "cpu"), (moves, place))):
                model.train(training).zero_grad()
                steps.append(model(tokens.to(where), states[i], target.to(where)))
                if training:
                    steps[-1].loss.backward()
                states[i] = detach(steps[-1].state)
            for a, b in zip(*(s[:2] for s in steps), strict=True):
                torch.testing.assert_close(b.cpu(), a, rtol=1e-4, atol=1e-5)
            if training:
                for a, b in zip(stays.parameters(), moves.parameters(), strict=True):
                    torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("init", [0.05, None])
def test_weights_begin_uniform(init):
    """Of the half-width that the recipe says; without one, that of PyTorch."""
    torch.manual_seed(1)
    for model in (VariationalLSTM(60, 50, 2, init=init), AWDLSTM(60, [50, 50], init=init)):
        assert len(list(model.parameters())) == 8
        for name, parameter in model.named_parameters():
            width = init or 50**-0.5
            assert 0.9 * width < parameter.max() <= width, name
            assert -width <= parameter.min() < -0.9 * width, name


def test_input_dropout_is_of_the_word_vectors_alone():
    """The layers behind the first read what is masked already, by `dropout`."""
    torch.manual_seed(0)
    plain = VariationalLSTM(6, 6, layers=3)
    model = VariationalLSTM(6, 6, layers=3, input_dropout=0.5)
    model.load_state_dict(plain.state_dict())
    x = torch.randn(4, 2, 6)
    torch.manual_seed(1)
    hidden, _ = model.train()(x)
    torch.manual_seed(1)
    dropped = x * keep_mask(x[:1], 0.5)
    assert (dropped == 0).any()
    assert torch.equal(hidden, plain.eval()(dropped)[0])
