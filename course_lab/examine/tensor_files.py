"""The tensors of a checkpoint by name, shape and type; none is read before it is asked for.

Six formats: a safetensors file, a set of such files (shards) with an index, GGUF, ONNX, NumPy's
`.npy` and `.npz`. Nothing is unpickled. CourseError names the file that is missing, damaged, or a
pickle.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from course_lab.examine import gguf_files, onnx_files
from course_lab.examine.quantised import kinds, name_of
from course_lib.errors import DAMAGED, CourseError
from course_lib.training.checkpoint import is_pickle

FLOATS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")
PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle")
ARRAYS = (".npy", ".npz")
GGUF = ".gguf"
ONNX = ".onnx"
MODELS = (GGUF, ONNX)  # one file a model, which says what else is to be known of it
SAFETENSORS = ".safetensors"
INDEX = f"{SAFETENSORS}.index.json"
READ = (SAFETENSORS, *MODELS, *ARRAYS)  # the endings of what is read
# A KeyError is a member that an archive lists and does not hold. A MemoryError is a damaged header
# that announces more numbers than fit, a RuntimeError an archive with a password.
UNREADABLE = (*DAMAGED, KeyError, MemoryError, RuntimeError, SafetensorError)


class Entry(NamedTuple):
    """Where a tensor lies, its shape, and its type as the file names it; how it is read."""

    file: Path
    shape: tuple[int, ...]
    dtype: str
    floating: bool
    read: Callable[[], np.ndarray] | None = None  # in formats that this course reads itself

    @property
    def is_matrix(self) -> bool:
        """True if the tensor may hold word vectors, floating-point numbers in two dimensions."""
        return self.floating and len(self.shape) == 2 and min(self.shape) > 1


@dataclass(frozen=True)
class TensorFiles:
    """The table of a checkpoint's tensors. `file` is what was opened, for shards their index.

    model: what else a GGUF or an ONNX file says of itself.
    """

    file: Path
    entries: dict[str, Entry]
    metadata: dict[str, str] = field(default_factory=dict)
    model: gguf_files.Contents | onnx_files.Model | None = None

    @property
    def gguf(self) -> gguf_files.Contents:
        """Return what a GGUF file says of itself; CourseError if this is another file."""
        if not isinstance(self.model, gguf_files.Contents):
            raise CourseError(f"{self.file} is no GGUF file")
        return self.model

    @property
    def onnx(self) -> onnx_files.Model:
        """Return what an ONNX file says of itself; CourseError if this is another file."""
        if not isinstance(self.model, onnx_files.Model):
            raise CourseError(f"{self.file} is no ONNX file")
        return self.model

    def tensor(self, name: str) -> Tensor:
        """Read one tensor. float64 stays; every smaller floating-point type becomes float32."""
        file = self.entries[name].file
        read = self.entries[name].read
        if read is not None:
            return torch.from_numpy(read())
        if file.suffix in ARRAYS:
            return torch.from_numpy(_read_array(file, name))
        with _reading(file), safe_open(file, framework="pt") as tensors:
            tensor = tensors.get_tensor(name)
        return tensor if tensor.dtype == torch.float64 else tensor.float()

    def matrices(self) -> dict[str, Entry]:
        """Return those tensors that may hold word vectors."""
        return {name: entry for name, entry in self.entries.items() if entry.is_matrix}

    def digests(self, name: str) -> dict[str, str]:
        """Return the SHA-256, by file name, of the opened file and of the one that holds `name`."""
        digests = {}
        for file in dict.fromkeys([self.entries[name].file, self.file]):
            with _reading(file), open(file, "rb") as stream:
                digests[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
        return digests


def open_tensors(path: Path) -> TensorFiles:
    """Return the table of the tensors in a file, or in the checkpoint of a folder."""
    file = checkpoint_in(path) if path.is_dir() else path
    if file.suffix in ARRAYS:
        return TensorFiles(file, dict(_array_entries(file)))
    if file.suffix == GGUF:
        model = gguf_files.contents(file)
        is_read = lambda place: place.kind in kinds()  # noqa: E731
        name = lambda place: name_of(place.kind)  # noqa: E731
        return _model_table(file, model, is_read, name, gguf_files.reader)
    if file.suffix == ONNX:
        model = onnx_files.open_model(file)
        is_read = lambda place: place.size >= 0  # noqa: E731
        return _model_table(file, model, is_read, onnx_files.type_of, onnx_files.reader)
    if _is_pickle(file):
        raise CourseError(
            f"{file} is a pickle, which can run any code when opened; it is not read. Save "
            "the weights as safetensors: safetensors.torch.save_model(model, "
            "'model.safetensors')"
        )
    if file.suffix == ".json":
        return _open_shards(file)
    entries, metadata = _safetensors_table(file)
    return TensorFiles(file, entries, metadata)


def checkpoint_in(folder: Path) -> Path:
    """Return a folder's file to begin with: a run's best epoch, an index of shards, or a model."""
    for name in ("best.safetensors", f"model{INDEX}", "model.safetensors"):
        if (folder / name).is_file():
            return folder / name
    models = sorted(folder.glob(f"*{INDEX}")) or sorted(folder.glob("*.safetensors"))
    if len(models) == 1:
        return models[0]
    if not models:
        models = sorted(path for path in folder.iterdir() if path.suffix in MODELS)
    if len(models) == 1:
        return models[0]
    if models:
        raise CourseError(f"{folder} holds several models; name one: {listed(models)}")
    pickles = sorted(path for path in folder.iterdir() if path.suffix in PICKLES)
    if pickles:
        return pickles[0]
    arrays = sorted(path for path in folder.iterdir() if path.suffix in ARRAYS)
    hint = f"; name one of its arrays: {listed(arrays)}" if arrays else ""
    raise CourseError(
        f"{folder} holds no run of this course and no safetensors, GGUF or ONNX file{hint}"
    )


def read_json(file: Path) -> dict:
    """Return the object in a JSON file; an empty one where there is no such file."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except DAMAGED as error:
        raise CourseError(f"{file} is not readable JSON ({error})") from None
    if not isinstance(content, dict):
        raise CourseError(f"{file} should hold a JSON object")
    return content


def check_finite(path: Path, name: str, tensor: Tensor) -> None:
    """Raise CourseError for NaN, infinite numbers, and numbers whose sum of squares overflows.

    The error names the row.
    """
    if not tensor.is_floating_point() or not tensor.numel():
        return
    extremes = torch.stack(tensor.aminmax())  # isfinite of the tensor would be a copy
    if not extremes.isfinite().all():
        row = int((~tensor.isfinite()).nonzero()[0, 0]) if tensor.ndim else 0
        raise CourseError(f"{path}: row {row} of {name} holds a number that is not finite")
    largest = float(extremes.abs().max())
    if math.isinf(tensor.numel() * largest * largest):
        row = int(tensor.abs().flatten().argmax()) // (tensor.numel() // len(tensor))
        raise CourseError(
            f"{path}: row {row} of {name} holds a number of the size {largest:.3g}, and a sum of "
            "such squares overflows; divide the matrix by a number, which changes no verdict"
        )


def listed(things: Iterable) -> str:
    """Return names separated by commas; of paths the last part."""
    return ", ".join(getattr(thing, "name", str(thing)) for thing in things)


def _is_pickle(file: Path) -> bool:
    with _reading(file):
        return file.suffix in PICKLES or is_pickle(file)


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Turn what a damaged file raises into a sentence that names the file."""
    try:
        yield
    except UNREADABLE as error:
        why = f" ({error})"
        if file.suffix in ARRAYS:
            what = "no array of plain numbers (objects would be a pickle, which is not read)"
            if "pickle" in str(error):  # NumPy advises to open what it takes for a pickle
                why = ""
        else:
            what = "not a safetensors file"
        if isinstance(error, SafetensorError) and file.suffix != SAFETENSORS:
            raise CourseError(
                f"{file} is none of the files that are read: give {listed(READ)} or "
                f"{INDEX.removeprefix('.')}, a run's folder or a Hugging Face folder"
            ) from None
        raise CourseError(f"{file} is truncated or {what}{why}") from None


# --- safetensors ---------------------------------------------------------------------------------


def _safetensors_table(file: Path) -> tuple[dict[str, Entry], dict[str, str]]:
    """Return (entries, metadata) of one file from its header alone."""
    entries = {}
    with _reading(file), safe_open(file, framework="pt") as tensors:
        for name in tensors.keys():  # noqa: SIM118
            header = tensors.get_slice(name)
            dtype = str(header.get_dtype())
            entries[name] = Entry(file, tuple(header.get_shape()), dtype, dtype in FLOATS)
        return entries, tensors.metadata() or {}


def _open_shards(index: Path) -> TensorFiles:
    """Return the tensors that an index names, each from the file that the index names for it.

    A shard may hold more than the index says, such as an older matrix of the same name: what the
    index does not name is not there.
    """
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CourseError(f"{index} is no index of safetensors files: it has no weight_map")
    shards = {name: _shard(index, name) for name in sorted(set(map(str, weight_map.values())))}
    missing = [shard for shard in shards.values() if not shard.is_file()]
    if missing:
        raise CourseError(f"{index} names files that are missing: {listed(missing)}")
    tables = {}
    metadata = {}
    for name, shard in shards.items():
        if _is_pickle(shard):
            raise CourseError(f"{shard} is a pickle; only safetensors files are read")
        tables[name], about = _safetensors_table(shard)
        metadata |= about
    entries = {}
    for tensor, shard in weight_map.items():
        if tensor not in tables[str(shard)]:
            raise CourseError(f"{index} says that {shard} holds {tensor}, but it does not")
        entries[tensor] = tables[str(shard)][tensor]
    return TensorFiles(index, entries, metadata)


def _shard(index: Path, name: str) -> Path:
    """Return the path of a shard beside its index; CourseError for a name that leads elsewhere.

    A link is refused, since it may lead to any file. One exception is the cache of Hugging Face,
    which links every file of `snapshots/REVISION` into the model's own `blobs`.
    """
    folder = index.parent
    path = folder / name
    if name != Path(name).name or "\\" in name or name == "..":
        raise CourseError(
            f"{index} names the file {name!r}, which leads out of its folder; shards lie beside "
            "their index"
        )
    blobs = (folder.parent.parent / "blobs").resolve()
    in_cache = folder.parent.name == "snapshots" and path.resolve().parent == blobs
    if path.is_symlink() and not in_cache:
        raise CourseError(f"{path} is a link, which may lead anywhere; put the file itself there")
    return path


# --- GGUF and ONNX -------------------------------------------------------------------------------


def _model_table(
    file: Path,
    model: gguf_files.Contents | onnx_files.Model,
    readable: Callable[[Any], bool],
    name: Callable[[Any], str],
    reader: Callable[[Path, Any], Callable[[], np.ndarray]],
) -> TensorFiles:
    """Return the tensors of one file; of those that cannot be read only shape and type.

    model: what the file says of itself, with the places of its tensors.
    readable, name, reader: whether the tensor at a place is read, what its type is called, and how.
    """
    entries = {}
    for tensor, place in model.tensors.items():
        read = reader(file, place) if readable(place) else None
        entries[tensor] = Entry(file, place.shape, name(place), read is not None, read)
    return TensorFiles(file, entries, {}, model)


# --- NumPy ---------------------------------------------------------------------------------------


def _array_entries(file: Path) -> Iterator[tuple[str, Entry]]:
    """Yield (name, entry) of every array of a file; an .npy file's is called like the file."""
    with _reading(file):
        if file.suffix == ".npy":
            # mapped, its shape is known and held against the length of the file
            yield file.stem, _array_entry(file, np.load(file, mmap_mode="r", allow_pickle=False))
            return
        with np.load(file, allow_pickle=False) as arrays:
            for name in arrays.files:
                array = arrays[name]
                if isinstance(array, np.ndarray):  # a member of another format comes as bytes
                    yield name, _array_entry(file, array)


def _array_entry(file: Path, array: np.ndarray) -> Entry:
    return Entry(file, array.shape, str(array.dtype), array.dtype.kind == "f")


def _read_array(file: Path, name: str) -> np.ndarray:
    """Return an array in float64 where it is stored in more than four bytes, else in float32."""
    with _reading(file):
        loaded = np.load(file, allow_pickle=False)
        if file.suffix == ".npz":
            with loaded:
                loaded = loaded[name]
    wide = np.float64 if loaded.dtype.itemsize > 4 else np.float32
    return np.ascontiguousarray(loaded.astype(wide, copy=False))
