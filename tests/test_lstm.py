"""The variational LSTM against its equations written out step by step."""

import hypothesis.strategies as st
import torch
from hypothesis import given, settings

from course_lib.models import VariationalLSTM, detach
from course_lib.models.lstm import lstm_step
from course_lib.models.state import flatten, map_state, unflatten


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
    model._mask = lambda like, share: next(queue) if share else None
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


def test_equals_torch_lstm_without_dropout():
    torch.manual_seed(0)
    ours, plain = VariationalLSTM(4, 6, 2, dropout=0.5).eval(), torch.nn.LSTM(4, 6, 2)
    with torch.no_grad():
        for layer in range(2):
            names = {"ih": ours.input, "hh": ours.recurrent}
            biases = {"ih": ours.input_bias, "hh": ours.recurrent_bias}
            for kind in ("ih", "hh"):  # torch orders the gates i f g o
                for source, prefix in ((names[kind], "weight"), (biases[kind], "bias")):
                    o, i, f, g = source[layer].chunk(4)
                    getattr(plain, f"{prefix}_{kind}_l{layer}").copy_(torch.cat([i, f, g, o]))
    x = torch.randn(7, 3, 4)
    expected, (h, c) = plain(x)
    output, state = ours(x)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(torch.stack([s[0] for s in state]), h)
    torch.testing.assert_close(torch.stack([s[1] for s in state]), c)


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
    with torch.autocast("cpu", torch.bfloat16):
        rounded, state = model(x)
    assert rounded.dtype == torch.bfloat16 and state[0][1].dtype == torch.float32
    torch.testing.assert_close(rounded.float(), exact, rtol=0.05, atol=0.02)


def test_states_survive_flattening_and_lose_their_graph():
    a, b = torch.ones(2, requires_grad=True) * 2, torch.zeros(3)
    state = ((a, b), (b,))
    back = unflatten(flatten(state))
    assert back[0][0] is a and back[1][0] is b and len(back) == 2
    assert unflatten({}) is None and flatten(None) == {}
    assert not detach(state)[0][0].requires_grad and a.requires_grad
    assert map_state(lambda t: t + 1, state)[1][0].sum() == 3
