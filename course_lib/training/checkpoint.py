"""Checkpoints: one safetensors file each, its JSON inside, replaced atomically.

Weights and progress lie in one file because two files cannot be replaced at one instant: a run
killed in between would pair one step's weights with another's progress. Only safetensors and JSON
are read; nothing is unpickled.
"""

import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from course_lib.errors import CourseError


def write_atomically(path: Path, content: bytes) -> None:
    """`content` under its final name all at once, or not at all."""
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
    """`content` as readable JSON, atomically."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


def save_checkpoint(path: Path, tensors: dict[str, Tensor], progress: dict) -> None:
    """`tensors` and the JSON object `progress` in one file."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    write_atomically(Path(path), save(tensors, {"progress": json.dumps(progress)}))


def is_pickle(path: Path) -> bool:
    """By the first bytes: a pickle's, or the zip archive that torch.save puts one into.

    A safetensors file begins with the length of its header, any eight bytes, which may look like
    them; the ninth is the header's `{`.
    """
    with open(path, "rb") as file:
        head = file.read(9)
    pickled = head[:2] in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
    return pickled and head[8:] != b"{"


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict]:
    """(tensors, progress) of a file written by `save_checkpoint`; CourseError says why not."""
    path = Path(path)
    if not path.is_file():
        raise CourseError(
            f"there is no checkpoint {path}; train one with: python -m course_lab train"
        )
    if is_pickle(path):
        raise CourseError(
            f"{path} is a pickle (torch.save), which can run any code when opened; it is not read. "
            "Save the weights as safetensors instead"
        )
    try:
        with safe_open(path, framework="pt") as file:
            # Copies: views of the mapped file would keep Windows from replacing it.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            progress = json.loads((file.metadata() or {})["progress"])
    except SafetensorError as error:
        raise CourseError(f"{path} is truncated or not a safetensors file ({error})") from None
    except (KeyError, json.JSONDecodeError):
        raise CourseError(f"{path} holds weights but no progress of a run of this course") from None
    return tensors, progress


def whole(tensor: Tensor) -> Tensor:
    """A tensor that is sharded over the processes, put together; all of them must call it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def sharded_as(tensor: Tensor, like: Tensor) -> Tensor:
    """The inverse of `whole`: on the device of `like`, and cut up where that is; a tensor of
    another shape, such as a second moment that rows share, is then whole in every process."""
    tensor = tensor.to(like.device)
    if hasattr(like, "device_mesh"):
        from torch.distributed.tensor import distribute_tensor  # seconds that few runs need

        same = tensor.shape == like.shape
        tensor = distribute_tensor(tensor, like.device_mesh, like.placements if same else None)
    return tensor


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name; a tied matrix once."""
    return dict(model.named_parameters()) | dict(model.named_buffers())


def restore(
    model: nn.Module, tensors: dict[str, Tensor], where: str, prefix: str = "model."
) -> None:
    """Copy the checkpoint's weights into the model; CourseError where they do not fit."""
    with torch.no_grad():
        for name, parameter in parameters_of(model).items():
            saved = tensors.get(prefix + name)
            if saved is None or saved.shape != parameter.shape:
                found = "missing" if saved is None else f"{tuple(saved.shape)}"
                raise CourseError(
                    f"{where} belongs to another model: {name} should be {tuple(parameter.shape)}, "
                    f"is {found}"
                )
            parameter.copy_(sharded_as(saved, parameter))


def difference(found: object, expected: object, name: str = "") -> str | None:
    """The first place where two nested settings differ, for an error message; None if nowhere.

    A setting that one of them does not name is None in it: a library that has learned a new one
    still knows what was trained before.
    """
    if isinstance(found, dict) and isinstance(expected, dict):
        places = sorted(found.keys() | expected.keys())
        inside = (
            difference(found.get(k), expected.get(k), f"{name}.{k}".strip(".")) for k in places
        )
        return next(filter(None, inside), None)
    return None if found == expected else f"{name or 'it'} is {found!r} there, {expected!r} here"
