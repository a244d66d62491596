"""Encoders as CUDA graphs: what a graph may and may not be handed, and that nothing changes."""

import pytest
import torch

from course_lib.models import AWDLSTM, QRNN, RHN, VariationalLSTM, detach, lstm
from course_lib.training.graphs import PLAIN, SHAPES, Replayed, fits, replaying

ENCODERS = {
    "vd-lstm": lambda: VariationalLSTM(6, 5, 2, dropout=0.3),
    "rhn": lambda: RHN(6, 5, depth=3),
    "qrnn": lambda: QRNN(6, (5, 4)),
}
unrolled = pytest.mark.parametrize("kind", ENCODERS)


def trained(encoder, steps=6, device="cpu", lengths=(7,)):
    """Train on random segments with the state carried on; return losses and parameters."""
    encoder.to(device).train()
    torch.manual_seed(1)
    segments = [torch.randn(lengths[i % len(lengths)], 3, 6) for i in range(steps)]
    optimizer = torch.optim.SGD(encoder.parameters(), 0.1)
    state, losses = None, []
    for x in segments:
        hidden, state = encoder(x.to(device).requires_grad_(), state)
        loss = hidden.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        state = detach(state)
        losses.append(loss.item())
        del hidden, loss  # the step's graph goes, as in the training loop: see `Replayed`
    return losses, [p.detach().cpu() for p in encoder.parameters()]


class Read(torch.autograd.Function):
    """What is given, as a graph reads it: from a place of its own, with the gradient handed on."""

    @staticmethod
    def forward(ctx, given, place):
        return place.detach()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Graphs:
    """Stands for `make_graphed_callables` on a CPU, with all that it asks and all that it breaks.

    A call must have the shapes of the recording, and overwrites the outputs of the call before.
    """

    def __init__(self):
        self.made = 0
        self.replays = 0

    def __call__(self, module, sample):
        assert not (torch.is_autocast_enabled("cpu") and torch.is_autocast_cache_enabled())
        leaves = torch.utils._pytree.tree_leaves(sample)
        assert all(isinstance(leaf, torch.Tensor) for leaf in leaves)
        assert list(module.parameters())
        torch.rand(100)  # recording draws random numbers
        module(*sample)
        self.made += 1
        before = []
        places = [leaf.detach().clone() for leaf in leaves]

        def replay(*call):
            self.replays += 1
            given = torch.utils._pytree.tree_leaves(call)
            assert [g.shape for g in given] == [leaf.shape for leaf in leaves]
            assert [g.requires_grad for g in given] == [leaf.requires_grad for leaf in leaves]
            for place, value in zip(places, given, strict=True):  # one after the other
                place.data.copy_(value)
            static = list(map(Read.apply, given, places))
            spec = torch.utils._pytree.tree_structure(call)
            out = module(*torch.utils._pytree.tree_unflatten(static, spec))
            for old in before:
                old.data.fill_(float("nan"))
            before[:] = torch.utils._pytree.tree_leaves(out)
            return out

        return replay


@pytest.fixture
def graphs(monkeypatch):
    graphs = Graphs()
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", graphs)
    return graphs


def without_dropout(encoder):
    for name in ("dropout", "input_dropout", "hidden_dropout", "output_dropout", "weight_drop"):
        if hasattr(encoder, name):
            setattr(encoder, name, 0.0)
    return encoder


@unrolled
@pytest.mark.parametrize("whole", [False, True])
def test_a_replayed_encoder_trains_to_the_same_weights(kind, whole, graphs):
    """Dropout included: the recording gives back the random numbers that it draws. Without, the
    last word of a segment is a part of x, and of the state that a QRNN hands on."""
    torch.manual_seed(0)
    plain = ENCODERS[kind]()
    torch.manual_seed(0)
    encoder = ENCODERS[kind]()
    if whole:
        without_dropout(plain), without_dropout(encoder)
    encoder.forward = Replayed(encoder)
    losses, weights = trained(plain)
    again, weights_again = trained(encoder)
    assert graphs.made == 1 and graphs.replays == 6 - 1 - PLAIN  # the first call has no state
    assert losses == again
    assert all(map(torch.equal, weights, weights_again))


def test_every_shape_has_a_graph_of_its_own_and_evaluation_none(graphs):
    encoder = ENCODERS["rhn"]()
    encoder.forward = Replayed(encoder)
    losses, _ = trained(encoder, steps=10, lengths=(7, 4))
    assert graphs.made == 2 and all(loss == loss for loss in losses)
    before = graphs.replays
    encoder.eval()
    with torch.no_grad():
        _, state = encoder(torch.randn(7, 3, 6))
        for _ in range(PLAIN + 2):
            _, state = encoder(torch.randn(7, 3, 6), state)
    assert graphs.replays == before


def test_only_so_many_shapes_are_recorded_since_each_holds_its_memory(graphs):
    encoder = ENCODERS["rhn"]()
    encoder.forward = Replayed(encoder)
    lengths = tuple(range(3, 6 + SHAPES))
    losses, _ = trained(encoder, steps=(PLAIN + 2) * len(lengths), lengths=lengths)
    assert graphs.made == SHAPES and all(loss == loss for loss in losses)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_an_encoder_replays_only_meanwhile(error):
    """Else a copy of the encoder trained the original, and a second training recorded a replay."""
    encoder = ENCODERS["rhn"]()
    try:
        with replaying(encoder, torch.device("cuda"), 1, 1):
            assert isinstance(encoder.forward, Replayed)
            if error:
                raise error
    except KeyboardInterrupt:
        pass
    assert "forward" not in vars(encoder)
    with replaying(encoder, torch.device("cpu"), 1, 1):
        assert "forward" not in vars(encoder)


def test_where_recording_fails_the_encoder_goes_on_and_says_so(monkeypatch):
    def fails(module, sample):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", fails)
    torch.manual_seed(0)
    plain = ENCODERS["vd-lstm"]()
    torch.manual_seed(0)
    encoder = ENCODERS["vd-lstm"]()
    encoder.forward = Replayed(encoder)
    with pytest.warns(UserWarning, match="VariationalLSTM runs without a CUDA graph") as warned:
        losses, _ = trained(encoder)
    assert len(warned) == 1 and losses == trained(plain)[0]


def test_a_graph_is_recorded_without_autocasts_cache(graphs):
    encoder = ENCODERS["vd-lstm"]()
    encoder.forward = Replayed(encoder)
    with torch.autocast("cpu", torch.bfloat16):
        trained(encoder)
    assert graphs.made == 1


def test_graphs_are_for_unrolled_encoders_of_one_process_and_undivided_batches_on_a_gpu():
    gpu = torch.device("cuda")
    for make in ENCODERS.values():
        assert fits(make(), gpu, 1, 1)
        assert not fits(make(), torch.device("cpu"), 1, 1)
        assert not fits(make(), gpu, 2, 1) and not fits(make(), gpu, 1, 2)
        assert not fits(make(), gpu, 2, 2)
    for fused in (AWDLSTM(6, (5, 6)), VariationalLSTM(6, 5, 2)):  # PyTorch's layer runs them
        assert not fits(fused, gpu, 1, 1)
    encoder = ENCODERS["rhn"]()
    encoder.unrolled = False
    assert not fits(encoder, gpu, 1, 1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU here")
@unrolled
def test_real_graphs_compute_what_the_plain_encoder_does_on_cuda(kind, monkeypatch):
    """Chance draws other numbers in a graph, so nothing is dropped; a VD-LSTM has masks of ones."""
    monkeypatch.setattr(lstm, "keep_mask", lambda hidden, dropout: torch.ones_like(hidden))
    torch.manual_seed(0)
    encoder = ENCODERS[kind]().cuda()
    if kind != "vd-lstm":
        without_dropout(encoder)
    start = {k: v.clone() for k, v in encoder.state_dict().items()}
    losses, weights = trained(encoder, device="cuda")
    encoder.load_state_dict(start)
    encoder.forward = replayed = Replayed(encoder)
    again, weights_again = trained(encoder, device="cuda")
    assert replayed.graphs and None not in replayed.graphs.values()
    assert losses == pytest.approx(again, rel=1e-5)
    for weight, other in zip(weights, weights_again, strict=True):
        torch.testing.assert_close(weight, other, rtol=1e-4, atol=1e-6)
