"""QRNN and RHN against their equations step by step, gradients included."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from course_lib.dropout import entry_dropout, keep_mask
from course_lib.errors import CourseError
from course_lib.models import AWDLSTM, QRNN, RHN, LanguageModel, VariationalLSTM, qrnn
from course_lib.output_layers import FullWords, Softmax

pytestmark = pytest.mark.usefixtures("branches")

SHAPES = {
    "steps": st.integers(1, 6), "batch": st.integers(1, 3), "size": st.integers(1, 4),
    "units": st.integers(1, 4), "depth": st.integers(1, 3), "seed": st.integers(0, 99),
}  # fmt: skip


def qrnn_by_steps(model, x, state):
    """Every unit of every step written out; the state after the last step."""
    before, cells = state
    rows, last = [], x[-1]
    for x_t in x:
        rows.append(torch.cat([before, x_t], -1))
        before = x_t
    new = []
    for layer, c in zip(model.layers, cells, strict=True):
        outputs = []
        for row in rows:
            z, f, o = (row @ layer.weight.T + layer.bias).chunk(3, -1)
            f = f.sigmoid()
            c = f * z.tanh() + (1 - f) * c
            outputs.append(o.sigmoid() * c)
        rows = outputs
        new.append(c)
    return torch.stack(rows), (last, tuple(new))


ENCODERS = {
    "LSTM": lambda: VariationalLSTM(4, 6),
    "AWD": lambda: AWDLSTM(4, (6, 6, 4)),
    "RHN": lambda: RHN(4, 6, depth=2),
    "QRNN": lambda: QRNN(4, (6, 4)),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_a_state_of_other_columns_and_an_empty_segment_are_refused(name):
    encoder = ENCODERS[name]().eval()
    x = torch.randn(5, 3, 4)
    for batch in (1, 2):
        _, state = encoder(x[:, :batch])
        with pytest.raises(CourseError, match=f"the state has {batch} columns, the words 3"):
            encoder(x, state)
    _, state = encoder(x)
    for before in (None, state):
        with pytest.raises(CourseError, match="one time step or more"):
            encoder(x[:0], before)


@pytest.mark.parametrize("name", ["LSTM", "AWD"])
def test_a_state_of_other_layers_is_refused(name):
    encoder = ENCODERS[name]().eval()
    x = torch.randn(5, 3, 4)
    _, state = encoder(x)
    for wrong in (state[:-1], (*state, state[-1])):
        with pytest.raises(ValueError, match="zip"):
            encoder(x, wrong)


def test_an_rhn_begins_with_closed_transform_gates():
    torch.manual_seed(1)
    model = RHN(40, units=50, depth=3, init=0.3, transform_bias=-2.5)
    for matrix in (model.input, *model.recurrent):
        assert 0.29 < matrix.max() <= 0.3 and -0.3 <= matrix.min() < -0.29
    assert not model.bias[:, :50].any() and (model.bias[:, 50:] == -2.5).all()


def rhn_by_steps(model, x, s):
    outputs, units = [], model.output_size
    for x_t in x:
        for layer in range(len(model.recurrent)):
            total = s @ model.recurrent[layer].T + model.bias[layer]
            if layer == 0:
                total = total + x_t @ model.input.T
            h, t = total[:, :units].tanh(), total[:, units:].sigmoid()
            s = h * t + s * (1 - t)
        outputs.append(s)
    return torch.stack(outputs), s


def leaves_of(state):
    return [state] if isinstance(state, torch.Tensor) else [t for s in state for t in leaves_of(s)]


def compare(model, x, state, reference):
    """Values and all gradients to 1e-9, of outputs and of the state handed on."""
    leaves = [x, *leaves_of(state), *model.parameters()]
    results = []
    for output, new in (model(x, state), reference(model, x, state)):
        total = output.square().sum() + sum(s.sin().sum() for s in leaves_of(new))
        grads = torch.autograd.grad(total, leaves)
        results.append([output, *leaves_of(new), *grads])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@given(**SHAPES)
@settings(max_examples=40, deadline=None)
def test_qrnn_equals_its_equations(steps, batch, size, units, depth, seed):
    torch.manual_seed(seed)
    model = QRNN(size, (units,) * depth).double().eval()
    draw = {"dtype": torch.float64, "requires_grad": True}
    cells = tuple(torch.randn(batch, units, **draw) for _ in range(depth))
    state = torch.randn(batch, size, **draw), cells
    compare(model, torch.randn(steps, batch, size, **draw), state, qrnn_by_steps)


@given(**SHAPES)
@settings(max_examples=40, deadline=None)
def test_rhn_equals_its_equations(steps, batch, size, units, depth, seed):
    torch.manual_seed(seed)
    model = RHN(size, units, depth, init=0.8).double().eval()
    draw = {"dtype": torch.float64, "requires_grad": True}
    state = torch.randn(batch, units, **draw)
    compare(model, torch.randn(steps, batch, size, **draw), state, rhn_by_steps)


@pytest.mark.parametrize("build", [lambda: QRNN(16, (24, 16)), lambda: RHN(16, 16, 3)])
def test_in_bfloat16_the_state_stays_wide(build):
    """Word vectors come in bfloat16 from `SpectralWords`."""
    torch.manual_seed(0)
    model, x = build().eval(), torch.randn(40, 4, 16)
    exact = model(x)[0]
    with torch.autocast(torch.get_default_device().type, torch.bfloat16):
        rounded, state = model(x.bfloat16())
    cells = state[1] if isinstance(state, tuple) else [state]
    assert all(cell.dtype == torch.float32 for cell in cells)
    torch.testing.assert_close(rounded.float(), exact, rtol=0.05, atol=0.03)


@pytest.mark.parametrize("dropout", [0.1, 0.25, 0.4])
def test_an_rhn_of_a_half_type_reads_the_mean_of_its_state(dropout):
    """1/(1 − p) itself is 0.16 to 0.2 % off in bf16. Here R = [1; 0] and t = 1, so s' = tanh(s)."""
    torch.manual_seed(0)
    model = RHN(1, 128, 1, 0.0, dropout, 0.0, init=0.0, transform_bias=100.0)
    with torch.no_grad():
        model.recurrent[0, :128].fill_diagonal_(1.0)
        start = (torch.rand(2000, 128) + 1).mul(1e-3).bfloat16()
        _, state = model.bfloat16().train()(torch.zeros(1, 2000, 1).bfloat16(), start)
    kept = state != 0
    share = state.double()[kept].sum() / start.double()[kept].sum()
    assert state.dtype == torch.bfloat16 and 0 < kept.double().mean() < 1
    assert share.item() * (1 - dropout) == pytest.approx(1, abs=2e-4)


@pytest.mark.parametrize("build", [lambda: QRNN(3, (5, 4)), lambda: RHN(3, 4, 3)])
def test_one_sequence_in_two_calls_equals_one_call(build):
    model, x = build().eval(), torch.randn(9, 2, 3)
    whole, last = model(x)
    first, state = model(x[:4])
    second, state = model(x[4:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    torch.testing.assert_close(leaves_of(state), leaves_of(last))


def test_a_carried_state_of_a_qrnn_keeps_no_other_step_alive():
    _, state = QRNN(3, (4, 2))(torch.randn(50, 2, 3))
    for part in torch.utils._pytree.tree_leaves(state):
        assert part.untyped_storage().nbytes() == part.nbytes


def test_what_is_dropped_in_training():
    torch.manual_seed(0)
    off = {"input_dropout": 0.0, "hidden_dropout": 0.0, "weight_drop": 0.0}
    x = torch.randn(6, 3, 8)
    plain = QRNN(8, (16, 8), **off)
    torch.testing.assert_close(plain(x)[0], plain.eval()(x)[0])
    for name, share in (*((key, 0.5) for key in off), ("zoneout", 0.5)):
        model = QRNN(8, (16, 8), **off | {name: share})
        model.load_state_dict(plain.state_dict())
        assert not torch.allclose(model(x)[0], plain(x)[0])
        if name != "zoneout":
            torch.testing.assert_close(model.eval()(x)[0], plain(x)[0])
    kept = QRNN(8, (4,), **off, zoneout=1.0)
    state = torch.zeros(3, 8), (torch.randn(3, 4),)
    torch.testing.assert_close(kept(x, state)[1][1][0], state[1][0])  # every unit keeps its c
    off = {"input_dropout": 0.0, "dropout": 0.0, "output_dropout": 0.0}
    plain = RHN(8, 6, 3, **off)
    torch.testing.assert_close(plain(x)[0], plain.eval()(x)[0])
    for name in off:
        model = RHN(8, 6, 3, **off | {name: 0.5})
        model.load_state_dict(plain.state_dict())
        assert not torch.allclose(model(x)[0], plain(x)[0])
    dropped = RHN(8, 6, 3, **off | {"output_dropout": 0.5})(x)[0] == 0
    assert dropped.any() and torch.equal(dropped[0], dropped[-1])


def test_zoneout_is_in_evaluation_what_it_is_on_average():
    """The steps draw independently of each other, so the mean of c is that of the mean f."""
    torch.manual_seed(0)
    off = {"input_dropout": 0.0, "hidden_dropout": 0.0, "weight_drop": 0.0}
    model, x = QRNN(8, (5,), **off, zoneout=0.4).double(), torch.randn(6, 3, 8).double()
    model.layers[0].weight.data.mul_(3)  # gates far from ½
    many = x.repeat(1, 20_000, 1)
    drawn = model(many)[1][1][0].view(20_000, 3, 5)
    expected = model.eval()(x)[1][1][0]
    error = (drawn.mean(0) - expected).abs() / (drawn.std(0) / 20_000**0.5)
    assert error.max() < 5


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 13])
def test_the_scan_equals_the_loop(steps, monkeypatch):
    torch.manual_seed(steps)
    draw = {"dtype": torch.float64}
    f, z = torch.rand(steps, 3, 4, **draw), torch.randn(steps, 3, 4, **draw)
    f[f < 0.1], f[f > 0.9] = 0.0, 1.0  # gates that are shut or open
    leaves = [t.requires_grad_() for t in (f, z, torch.randn(3, 4, **draw))]
    results = []
    for scan in (False, True):
        monkeypatch.setattr(qrnn, "accelerated", lambda _, scan=scan: scan)
        c = qrnn.pool(*leaves)
        results.append([c, *torch.autograd.grad(c.sin().sum(), leaves)])
    for loop, scanned in zip(*results, strict=True):
        torch.testing.assert_close(scanned, loop, rtol=1e-12, atol=1e-12)


@pytest.fixture
def drawn(monkeypatch):
    """Every mask that a model draws from here on, in order."""
    masks = []

    def mask(like, dropout):
        masks.append(keep_mask(like, dropout))
        return masks[-1]

    for place in ("course_lib.dropout", "course_lib.models.rhn"):
        monkeypatch.setattr(f"{place}.keep_mask", mask)
    return masks


def test_an_rhn_trains_as_its_equations_with_every_mask_known(drawn):
    """One mask a sequence for the word vectors, one for the state wherever it is read, at every
    depth and every step, one for what leaves."""
    torch.manual_seed(0)
    model = RHN(5, 6, 3, 0.3, 0.4, 0.5, init=0.8).double().train()
    x, start = torch.randn(7, 2, 5).double(), torch.randn(2, 6).double()
    output, new = model(x, start)
    into, state, out = drawn
    assert [m.numel() for m in drawn] == [2 * 5, 2 * 6, 2 * 6]
    s, outputs = start, []
    for x_t in x * into:
        for depth, (R, b) in enumerate(zip(model.recurrent, model.bias, strict=True)):
            read = (s * state) @ R.T + b + (x_t @ model.input.T if depth == 0 else 0)
            a, gate = read[:, :6].tanh(), read[:, 6:].sigmoid()
            s = gate * a + (1 - gate) * s
        outputs.append(s)
    expected = torch.stack(outputs) * out
    torch.testing.assert_close((output, new), (expected, s), rtol=1e-9, atol=1e-12)
    grads = [torch.autograd.grad(y.sin().sum(), list(model.parameters()), retain_graph=True)
             for y in (output, expected)]  # fmt: skip
    torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-12)


def test_a_qrnn_trains_as_its_equations_with_every_mask_known(drawn, monkeypatch):
    """One mask a sequence for the word vectors and one between layers, one for each matrix."""
    torch.manual_seed(0)
    matrices = []

    def matrix(weight, share, training):
        matrices.append(entry_dropout(torch.ones_like(weight), share, training))
        return weight * matrices[-1]

    monkeypatch.setattr("course_lib.models.qrnn.entry_dropout", matrix)
    model = QRNN(5, (6, 4), 0.5, 0.3, 0.4).double().train()
    x, cells = torch.randn(7, 2, 5).double(), tuple(torch.randn(2, u).double() for u in (6, 4))
    before = torch.randn(2, 5).double()
    output, (last, new) = model(x, (before, cells))
    into, between = drawn
    assert [m.numel() for m in drawn] == [2 * 5, 2 * 6] and len(matrices) == 2
    inputs = x * into
    torch.testing.assert_close(last, inputs[-1])
    for layer, (weight, c) in enumerate(zip(matrices, cells, strict=True)):
        W, b, outputs = model.layers[layer].weight * weight, model.layers[layer].bias, []
        for t, x_t in enumerate(inputs):
            if layer == 0:
                x_t = torch.cat([inputs[t - 1] if t else before, x_t], -1)
            z, f, o = (x_t @ W.T + b).chunk(3, -1)
            c = f.sigmoid() * z.tanh() + (1 - f.sigmoid()) * c
            outputs.append(o.sigmoid() * c)
        torch.testing.assert_close(new[layer], c)
        inputs = torch.stack(outputs) * (between if layer == 0 else 1)
    torch.testing.assert_close(output, inputs, rtol=1e-9, atol=1e-12)


def test_an_rhn_drops_what_every_layer_reads_of_the_state():
    """One mask a call: with one layer, a new state does not depend on dropped units but its own."""
    torch.manual_seed(0)
    model = RHN(5, 64, 1, input_dropout=0.0, dropout=0.5, output_dropout=0.0, init=0.5)
    x, state = torch.zeros(1, 2, 5), torch.randn(2, 64, requires_grad=True)
    model.train()(x, state)[1][:, 0].sum().backward()
    unread = state.grad[:, 1:] == 0
    assert 0.3 < unread.double().mean() < 0.7


@pytest.mark.parametrize(("tied", "expected"), [(True, 23_472_400), (False, 31_782_400)])
def test_parameters_of_the_published_rhn(tied, expected):
    """In the table 24 and 32 million: (1 + 10) · 2u² of matrices, 10 · 2u of biases, the words."""
    with torch.device("meta"):
        read = FullWords(10_000, 830)
        write = read if tied else FullWords(10_000, 830)
        model = LanguageModel(read, RHN(830), Softmax(write, bias=not tied))
    assert sum(p.numel() for p in model.parameters()) == expected


def test_each_share_of_a_qrnn_is_of_what_its_name_says(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "course_lib.dropout.keep_mask",
        lambda like, share: asked.append((like.shape[-1], share)) or torch.ones_like(like),
    )
    monkeypatch.setattr(
        "course_lib.models.qrnn.entry_dropout",
        lambda weight, share, training: asked.append(("matrix", share)) or weight,
    )
    model = QRNN(5, (6, 4), weight_drop=0.5, input_dropout=0.3, hidden_dropout=0.4)
    model.train()(torch.randn(7, 2, 5))
    assert len(asked) == 4 and set(asked) == {(5, 0.3), (6, 0.4), ("matrix", 0.5)}
