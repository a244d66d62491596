"""Shared by all tests: few threads, so that results do not depend on the machine's load."""

import functools
import gc
import os
import signal
from contextlib import ExitStack, contextmanager

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from course_lab.corpora import docstrings
from course_lib import machine
from course_lib.data import folders
from course_lib.evaluation.perplexity import float32_products

# The files that take a minute or more, the longest first. Two processes that share the files then
# end at about the same time.
LONG = ("training", "batch", "site_browser", "types", "batch_command", "batches", "course_runner")
LONG += ("site", "experiments", "processes", "benchmark", "failures")


def pytest_collection_modifyitems(items):
    """Begin with the long files; skip `nightly` tests, which have shorter sisters, by default."""
    places = {f"test_{name}.py": place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
    if os.environ.get("COURSE_NIGHTLY") != "1":
        skip = pytest.mark.skip(reason="nightly: COURSE_NIGHTLY=1 asks for it")
        for item in items:
            if item.get_closest_marker("nightly"):
                item.add_marker(skip)


@pytest.fixture(autouse=True, scope="session")
def _threads():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _signals():
    """A suite that a script starts in the background inherits ignored signals, which tests send."""
    for name, handler in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="module")
def _docstrings(request):
    """A test with a home of its own takes the embedded corpus from the repository's cache.

    Else each would parse the source of ten packages. How that is done has tests of its own.
    """
    if request.module.__name__.endswith("test_corpora_docstrings"):
        yield
        return
    extract, cache = docstrings.extract, folders.cache()

    @functools.cache
    def kept():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(docstrings, "extract", extract)
            patch.setattr(folders, "cache", lambda: cache)
            return docstrings.cached_texts(docstrings.installed())

    def taken(packages):
        return extract(packages) if folders.cache() == cache else kept()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(docstrings, "extract", taken)
        yield


@pytest.fixture(autouse=True)
def _process_state():
    """No test leaves PyTorch in another state than it found it in: the next ones' numbers would
    be others, and only in that order."""
    # A module that asks for `device` and for `branches` ends the outer one of them first.
    if torch.get_default_device().type == "cuda":
        assert torch.backends.cudnn.rnn.fp32_precision == "ieee", "fixtures ended out of order"
    before = _state()
    yield
    if _state() != before:
        gc.collect()  # an iterator that ends with the test's own variables
    assert _state() == before


def _state():
    cudnn = torch.backends.cudnn
    precisions = cudnn.rnn.fp32_precision, cudnn.conv.fp32_precision
    return torch.is_autocast_enabled("cpu"), torch.is_grad_enabled(), *precisions


def rehearse(monkeypatch) -> None:
    """Take the branches of a GPU on whatever device there is."""
    monkeypatch.setattr(machine, "REHEARSED", True)


@pytest.fixture
def rehearsed(monkeypatch):
    """A test takes the branches of a GPU on whatever device there is."""
    rehearse(monkeypatch)


no_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU here")


class Drawn(TorchFunctionMode):
    """Draws on the CPU what is to be drawn there: a CPU's generator draws for no other device."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        device = torch.get_default_device()
        generator = kwargs.get("generator")
        if generator is None or generator.device.type == device.type or "device" in kwargs:
            return func(*args, **kwargs)
        tensors = [a for a in pytree.tree_leaves(args) if isinstance(a, torch.Tensor)]
        if not tensors:  # as randn, of a size alone
            return func(*args, **kwargs, device="cpu").to(device)
        given = pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, args)
        found = func(*given, **kwargs)
        if func.__name__.endswith("_"):  # in place
            return tensors[0].copy_(found)
        return found.to(tensors[0].device)


@contextmanager
def on(name):
    """New tensors are made on the device of this name, where float32 has all of its bits."""
    with ExitStack() as stack:
        if name == "cuda":
            stack.enter_context(float32_products("ieee"))
            stack.enter_context(torch.device("cuda"))
            stack.enter_context(Drawn())
        yield name


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=no_gpu)])
def device(request):
    """Where a module's tensors are made.

    A module asks for it by `pytestmark = pytest.mark.usefixtures("device")`. With `-k cuda` all
    those modules are tested on the GPU, and nothing else is.
    """
    with on(request.param) as name:
        yield name


@pytest.fixture(scope="module", params=["cpu", "rehearsed", pytest.param("cuda", marks=no_gpu)])
def branches(request):
    """As `device`, and once more on a CPU with the branches of a GPU taken."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if request.param == "rehearsed":
            rehearse(monkeypatch)
        with on(request.param) as name:
            yield name
