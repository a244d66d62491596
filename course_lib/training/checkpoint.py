"""Checkpoints: one safetensors file each, its JSON inside, replaced atomically.

Weights and progress lie in one file because two files cannot be replaced at one instant: a run
killed in between would pair one step's weights with another's progress. The progress contains a
SHA-256 of both, so that a bit which rots on a disk is not trained on. Only safetensors and JSON are
read; nothing is unpickled.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from course_lib.errors import CourseError
from course_lib.protocols import Sharded

# What of a run is plain data: the names are attributes of the training loop's run.
PROGRESS = ("step", "epoch", "row", "nll", "tokens", "seconds", "epochs", "best")
DIGEST = "digest"  # the name of the SHA-256 in the JSON, absent from checkpoints of old versions


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` under its final name all at once, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:  # a full disk, say, which the part would keep full
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a failed write does not say of which file
        raise


def write_json(path: Path, content: dict) -> None:
    """Write `content` as readable JSON, atomically."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


def save_checkpoint(path: Path, tensors: dict[str, Tensor], progress: dict) -> None:
    """Write `tensors`, the JSON object `progress` and the SHA-256 of both to one file."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    # One entry of metadata: safetensors writes several in an order that changes from run to run.
    head = json.dumps(progress | {DIGEST: digest(tensors, progress)})
    write_atomically(Path(path), save(tensors, {"progress": head}))


def digest(tensors: dict[str, Tensor], progress: dict) -> str:
    """Return the SHA-256 of named tensors, their types and shapes, and a JSON object."""
    sha256 = hashlib.sha256(json.dumps(progress).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        sha256.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        sha256.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return sha256.hexdigest()


def is_pickle(path: Path) -> bool:
    """Return whether the first bytes are a pickle's, or those of the zip file of torch.save.

    A safetensors file begins with the length of its header, any eight bytes, which may look like
    them; the ninth is the header's `{`.
    """
    with open(path, "rb") as file:
        head = file.read(9)
    pickled = head[:2] in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
    return pickled and head[8:] != b"{"


def read_progress(path: Path) -> dict:
    """Return the progress of a checkpoint; its tensors are not read, and no digest is checked.

    What `safe_open` and `json.loads` raise of a damaged file is the caller's.
    """
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["progress"])


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict]:
    """Return (tensors, progress) of a file written by `save_checkpoint`.

    CourseError where there is none, and for a file that is a pickle, truncated, damaged or another
    program's. A checkpoint of an old version has no digest and is taken as it is.
    """
    path = Path(path)
    if not path.is_file():
        raise CourseError(f"there is no checkpoint {path}; train a model into this folder first")
    if is_pickle(path):
        raise CourseError(
            f"{path} is a pickle (torch.save), which can run any code when opened; it is not read. "
            "Save the weights as safetensors instead"
        )
    tensors: dict[str, Tensor] = {}
    try:
        with safe_open(path, framework="pt") as file:
            # Copies: views of the mapped file would keep Windows from replacing it.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            progress = json.loads((file.metadata() or {})["progress"])
    except SafetensorError as error:
        raise CourseError(f"{path} is truncated or not a safetensors file ({error})") from None
    except (KeyError, json.JSONDecodeError):
        progress = None
    if not isinstance(progress, dict):
        raise CourseError(f"{path} holds weights but no progress of a run of this course")
    saved = progress.pop(DIGEST, None)
    if saved is not None and saved != digest(tensors, progress):
        raise CourseError(
            f"{path} is damaged: its content is not what was saved (another SHA-256). Put a copy "
            "in its place, or remove it and train again"
        )
    return tensors, progress


def check_progress(head: object, path: Path) -> None:
    """Raise CourseError for a checkpoint that no training goes on from, as of a best epoch."""
    has = head if isinstance(head, dict) else ()
    if missing := [name for name in PROGRESS if name not in has]:
        raise CourseError(
            f"{path} is no checkpoint of a run to go on with (it has no {missing[0]}, as the best "
            "epoch's has not); remove it"
        )


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor that is sharded over processes, put together; all of them must call it."""
    return tensor.full_tensor() if isinstance(tensor, Sharded) else tensor


def sharded_as(tensor: Tensor, like: Tensor) -> Tensor:
    """Return a tensor on the device of `like`, and sharded as that is: the inverse of `whole`.

    A tensor of another shape, such as a second moment that rows share, is whole in every process.
    """
    tensor = tensor.to(like.device)
    if isinstance(like, Sharded):
        from torch.distributed.tensor import distribute_tensor  # seconds that few runs need

        of: Any = like
        placements = of.placements if tensor.shape == like.shape else None
        tensor = distribute_tensor(tensor, of.device_mesh, placements)
    return tensor


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name; a tied matrix occurs once."""
    return dict(model.named_parameters()) | dict(model.named_buffers())


def restore(model: nn.Module, tensors: dict[str, Tensor], where: str) -> None:
    """Copy a checkpoint's weights into the model.

    model: receives the weights in its parameters and buffers.
    tensors: of the checkpoint, by name; those of the weights begin with "model.".
    where: the checkpoint's name in an error.

    CourseError where a weight is missing, has another shape or is not the model's.
    """
    parameters = parameters_of(model)
    other = f"{where} belongs to another model"
    for name in tensors:
        if name.startswith("model.") and name.removeprefix("model.") not in parameters:
            raise CourseError(f"{other}: this one has no {name.removeprefix('model.')}")
    with torch.no_grad():
        for name, parameter in parameters.items():
            saved = tensors.get(f"model.{name}")
            if saved is None or saved.shape != parameter.shape:
                shape = "missing" if saved is None else tuple(saved.shape)
                raise CourseError(f"{other}: {name} should be {tuple(parameter.shape)}, is {shape}")
            parameter.copy_(sharded_as(saved, parameter))


def difference(saved: object, expected: object) -> str | None:
    """Return the first of the `differences` of two nested settings; None where they are alike."""
    return next(differences(saved, expected), None)


def differences(saved: object, expected: object, name: str = "") -> Iterator[str]:
    """Yield every place where two nested settings differ, in words.

    A setting that one of them does not name is None in it: a library that has learned a new one
    still knows what was trained before.

    saved, expected: plain data; a sentence calls the first "there" and the second "here".
    name: the dotted name of the place that both stand in.
    """
    if isinstance(saved, dict) and isinstance(expected, dict):
        for key in sorted(saved.keys() | expected.keys()):
            yield from differences(saved.get(key), expected.get(key), f"{name}.{key}".strip("."))
    elif saved != expected:
        yield f"{name or 'it'} is {saved!r} there, {expected!r} here"


def flatten(state: Any, name: str = "state") -> dict[str, Tensor]:
    """Return {"state.0.1": tensor, …}; `unflatten` is the inverse where no inner part is empty."""
    if isinstance(state, tuple | list):
        parts = [flatten(part, f"{name}.{i}") for i, part in enumerate(state)]
        return {k: v for part in parts for k, v in part.items()}
    return {name: state} if isinstance(state, Tensor) else {}


def unflatten(tensors: dict[str, Tensor], name: str = "state") -> Any:
    """Return the nested tuples that `flatten` took apart; None when there are none of that name."""
    if name in tensors:
        return tensors[name]
    parts = {key[len(name) + 1 :].split(".")[0] for key in tensors if key.startswith(name + ".")}
    return tuple(unflatten(tensors, f"{name}.{i}") for i in sorted(map(int, parts))) or None
