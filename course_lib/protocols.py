"""Optional methods of a module, and when training or evaluation calls them.

The training loop, the evaluation and the laboratory ask `isinstance(module, Annealed)` and the
like. A module of the reader's own takes part by having the methods; it inherits nothing. The
members must be the module's own attributes: a wrapper that only forwards them, as a compiled module
does, is not recognised by Python 3.12 and later. Wrap the whole model instead.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn


@runtime_checkable
class Annealed(Protocol):
    """A module that changes over a run, such as noise that fades out.

    The training loop calls `anneal(progress)` before every step, without gradients. `progress` is
    the share of the run that is done, in [0, 1).
    """

    def anneal(self, progress: float) -> None: ...


@runtime_checkable
class Constrained(Protocol):
    """A module whose parameters obey a constraint, such as rows of norm 1.

    The training loop calls `after_step()` after every step of the optimiser, without gradients;
    then the constraint holds again.
    """

    def after_step(self) -> None: ...


@runtime_checkable
class Accumulating(Protocol):
    """A module that needs to know how many calls make one update.

    Before training begins, the training loop sets `micro_batches` to the number of parts into
    which each batch is cut. The gradients of all parts are added before the optimiser's step.
    """

    micro_batches: int


@runtime_checkable
class Blocked(Protocol):
    """An encoder that consists of modules which are called whole, one after the other.

    Where parameters are sharded over processes (FSDP), each of the `blocks` is put together for
    its own call alone. All other parameters are put together for the whole step.
    """

    @property
    def blocks(self) -> Sequence[nn.Module]: ...


@runtime_checkable
class Unrolled(Protocol):
    """An encoder that launches small operations for every word, one word after the other.

    Where `unrolled` is true, the training loop runs the encoder as CUDA graphs on one GPU
    (course_lib.training.graphs). Then the encoder may not look at numbers on the host.
    """

    unrolled: bool


@runtime_checkable
class WithMemory(Protocol):
    """An encoder that remembers `memory` tokens before its segment.

    `with_memory(memory, clamp)` returns an encoder that shares all parameters and remembers
    another number of tokens; distances above `clamp` tokens count as `clamp`. The encoder itself
    stays as it is, but for the training mode of the modules that both share.
    """

    memory: int
    clamp: int | None

    def with_memory(self, memory: int, clamp: int | None = None) -> nn.Module: ...


@runtime_checkable
class Translator(Protocol):
    """An encoder that reads a source and then a target: the encoder of a translation model.

    `encode` reads the source (S, B, d). `decode` continues the target (T, C, d) from a state.
    `select` picks columns of a state, as a beam search does with its hypotheses. The protocol has
    methods alone, so that `issubclass` can ask a class before one is built.
    """

    def encode(self, x: Tensor, padding: Tensor) -> Tensor: ...

    def decode(
        self, y: Tensor, memory: Tensor | None, padding: Tensor, state: Any = None
    ) -> tuple[Tensor, Any]: ...

    def select(self, state: Any, columns: Tensor, sources: Tensor | None = None) -> Any: ...


@runtime_checkable
class SpectrumPrior(Protocol):
    """A penalty that knows which singular values a word matrix should have.

    `values(d)` returns them in decreasing order, (d,). Where `start` is true, the builder of a
    model gives them to the word matrix that predicts, before training begins.
    """

    start: bool

    def values(self, size: int, device: Any = None) -> Tensor: ...


@runtime_checkable
class Learning(Protocol):
    """A penalty that learns, such as a layer that decodes the word just read.

    The model calls `prepare(output_layer)` once, when it is built. The penalty then gives the
    output layer its own parameters, so that the optimiser and every checkpoint have them.
    """

    def prepare(self, output_layer: Any) -> None: ...


@runtime_checkable
class Spectral(Protocol):
    """Words held as W = U Σ Vᵀ: they have `U` (N, d), `sigma` (d,) and `V` (d, d).

    `singular_values()` returns σ in decreasing order and `start_at(sigma)` replaces it. The
    buffers `warm_U` and `warm_V` (d,) are where the power iterations of spectral-norm penalties
    begin; a penalty writes into them where its last iteration of a training step ended. Only the
    methods are asked for: parameters and buffers are no attributes that `isinstance` sees.
    """

    def singular_values(self) -> Tensor: ...

    def start_at(self, sigma: Tensor) -> None: ...


@runtime_checkable
class Resharded(Protocol):
    """A model whose parameters are sharded over processes by PyTorch (FSDP).

    `reshard()` frees what a forward pass has put together. It is needed after a forward pass that
    no backward pass follows, as in evaluation.
    """

    def reshard(self) -> None: ...


@runtime_checkable
class Sharded(Protocol):
    """A tensor of which each process holds a part (PyTorch's DTensor, whose import takes seconds).

    `full_tensor()` puts it together; all processes must call it.
    """

    def full_tensor(self) -> Tensor: ...
