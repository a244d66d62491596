"""A rehearsal for a GPU where there is none: every family of recipes takes a GPU's branches.

A family is what recipes have in common beside sizes and rates: encoder, word matrices, output
layer, objectives, penalties. Each does training steps twice:

on the meta device, with its full matrices, where tensors have shapes and no numbers. What wants to
see a number there fails, as it would have to wait for a GPU;
on a CPU, in the smoke profile, where operations are refused that would wait for a GPU.
"""

from contextlib import nullcontext

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import course_lab
from course_lab import cost, profile, recipes
from course_lib import machine
from course_lib.machine import moved
from course_lib.models import detach
from course_lib.targets import IGNORE
from course_lib.training import loop


def family(experiment) -> str:
    """Return what decides which code a recipe runs."""
    parts = [experiment.encoder, experiment.words, experiment.output_words]
    parts += [experiment.output_layer, *experiment.objectives, *experiment.regularizers]
    return "+".join(part.kind for part in parts if part) + "-untied" * (not experiment.tied)


FAMILIES = {}
TRAINED = [recipe for recipe in recipes.values() if not recipe.is_counted]
for _recipe in TRAINED:
    FAMILIES.setdefault(family(_recipe), _recipe.name)


class Waited(Exception):
    """An operation would have waited for a GPU."""


def memory(x: torch.Tensor) -> int:
    """Return the identity of the tensor's memory, which views share."""
    return x.untyped_storage()._cdata


class NoWaiting(TorchDispatchMode):
    """Refuses what waits for a GPU: operations whose shape or answer depends on numbers there.

    Tensors that were made of the host's alone are the host's; `given` are such to begin with.
    """

    WAIT = (
        "_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "_unique2",
        "unique_dim", "unique_consecutive", "bincount", "histc",
    )  # fmt: skip

    def __init__(self, *given):
        super().__init__()
        self.hosts = {memory(x): x for x in given}  # kept, so that nothing else takes a memory

    def on_device(self, x) -> bool:
        return memory(x) not in self.hosts

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        flat = torch.utils._pytree.tree_leaves((args, kwargs))
        tensors = [x for x in flat if isinstance(x, torch.Tensor)]
        name = function.name().removeprefix("aten::").partition(".")[0]
        # What `torch.tensor` makes of numbers is the host's; it shows only as this operation.
        on_device = name != "lift_fresh" and any(map(self.on_device, tensors))
        selects = name in ("index", "index_put", "index_put_", "_index_put_impl_") and any(
            isinstance(i, torch.Tensor) and i.dtype == torch.bool for i in args[1]
        )
        if on_device and (name in self.WAIT or selects):
            raise Waited(f"{name} of shapes {[tuple(x.shape) for x in tensors]} waits for a GPU")
        result = function(*args, **kwargs)
        for x in torch.utils._pytree.tree_leaves(result):
            if isinstance(x, torch.Tensor) and on_device:
                self.hosts.pop(memory(x), None)
            elif isinstance(x, torch.Tensor):
                self.hosts[memory(x)] = x
        return result


def steps(experiment, model, words, device, length, batch):
    """Do two training steps, the second from the state of the first; return the last loss."""
    model.train()
    optimizer = experiment.optimisation.build(model.named_parameters())
    state = None
    for _ in range(2):
        tokens, target = torch.randint(2, words, (2, length, batch))
        target[-1, -1] = IGNORE
        inputs = [tokens]
        if experiment.translates:
            source = torch.randint(2, words, (length + 1, batch))
            source[-1, 0] = 0  # padding
            inputs = [source, tokens]
        inputs = [moved(x, device) for x in inputs]
        # On a CPU a copy of its own stands for what the host knows of the targets.
        known = target.clone()
        target = moved(target, device)
        target.host = known
        with nullcontext() if device.type == "meta" else NoWaiting(known):
            result = model(*inputs, state=state, target=target)
            result.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            state = detach(result.state)
        if device.type != "meta":
            optimizer.step()
        model.zero_grad()
    return result.loss


@pytest.mark.parametrize("name", FAMILIES.values(), ids=FAMILIES.keys())
def test_every_family_steps_on_the_meta_device_as_on_a_gpu(name, rehearsed, monkeypatch):
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)  # "meta" is no kind
    monkeypatch.setattr(torch, "autocast", lambda kind, **options: nullcontext())
    experiment = recipes[name]
    words = cost.corpus_size(experiment.corpus).words
    device = torch.device("meta")
    with device:
        model = experiment.build(words)
    loss = steps(experiment, model, words, device, length=6, batch=4)
    assert loss.device.type == "meta" and loss.shape == ()


@pytest.mark.parametrize("name", FAMILIES.values(), ids=FAMILIES.keys())
def test_no_family_waits_for_the_device_within_a_step(name, rehearsed):
    torch.manual_seed(0)
    experiment = profile(recipes[name], "smoke")
    model = experiment.build(300)
    loss = steps(experiment, model, 300, torch.device("cpu"), length=6, batch=4)
    assert loss.isfinite()
    assert all(p.isfinite().all() for p in model.parameters())


class Enough(Exception):
    """Three steps have been done."""


@pytest.mark.parametrize(
    "name",
    [
        "ptb/awd-lstm/mos",
        "docstrings/transformer-128/gated",
        "wikitext-103/transformer-xl-4/softmax",
        "multi30k/lstm-256/softmax",
    ],
)
def test_the_training_loop_does_not_wait_within_a_step(name, rehearsed, monkeypatch, tmp_path):
    """Copies, forward and backward pass, clipping, the optimiser and what follows a step."""
    one_step = loop._Run.one_step
    modes = []

    def watched(run, update):
        modes.append(NoWaiting())
        with modes[-1]:
            return one_step(run, update)

    def crossing(x, device):
        """Stands for a copy to a GPU: what is copied is the host's, the copy is not."""
        hosts = modes[-1].hosts
        hosts[memory(x)] = x
        there = x.clone()
        hosts.pop(memory(there))
        there.host = x
        return there

    def enough(step, model):
        if step == 3:
            raise Enough

    monkeypatch.setattr(loop._Run, "one_step", watched)
    monkeypatch.setattr(machine, "moved", crossing)
    experiment = profile(recipes[name], "smoke").change(start_from=None)
    with pytest.raises(Enough):
        course_lab.run(experiment, tmp_path, progress=False, device="cpu", callback=enough)
    assert len(modes) == 3 and all(mode.hosts for mode in modes)


@pytest.mark.parametrize("name", FAMILIES.values(), ids=FAMILIES.keys())
def test_the_branches_of_a_gpu_compute_the_same(name, rehearsed, monkeypatch):
    """Loss and all gradients in float64 with every dropout off, branches taken and not."""
    experiment = profile(recipes[name], "smoke")
    model = experiment.build(300).double().train()
    for module in model.modules():
        for option in vars(module):
            if "drop" in option and isinstance(getattr(module, option), float):
                setattr(module, option, 0.0)
            if option in ("noise", "zoneout"):
                setattr(module, option, 0.0)
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    tokens, target = torch.randint(2, 300, (2, 6, 4))
    target[0, 0] = IGNORE
    inputs = [tokens]
    if experiment.translates:
        source = torch.randint(2, 300, (7, 4))
        source[-2:, 0] = 0
        inputs = [source, tokens]
    buffers = {k: v.clone() for k, v in model.state_dict().items()}
    results = []
    for taken in (True, False):
        monkeypatch.setattr(machine, "REHEARSED", taken)
        model.load_state_dict(buffers)
        torch.manual_seed(0)
        loss = model(*inputs, target=target).loss
        gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        results.append((loss, [g for g in gradients if g is not None]))
    torch.testing.assert_close(*results, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.sum().item(),
        lambda x: bool((x > 0).any()),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: torch.masked_select(x, x > 0),
        lambda x: torch.unique(x),
        lambda x: x.index_put_((x > 0,), torch.ones(())),
    ],
)
def test_what_looks_at_a_number_is_refused(look):
    x = torch.randn(4)
    with NoWaiting(), pytest.raises(Waited):
        look(x * 2)
    with NoWaiting(x):
        look(x)
        look(x * 2)


def test_the_families_are_those_of_all_recipes():
    assert {family(experiment) for experiment in TRAINED} == set(FAMILIES)
    assert len(FAMILIES) > 40
