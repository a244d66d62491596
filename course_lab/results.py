"""A result is a folder: the experiment, its figures per epoch, final metrics, provenance.

All of it is in `result.json`, with its checksum; what is too long for that, as the singular values
of log P, in `arrays.npz`, whose checksums are in `result.json`, too.
"""

import hashlib
import io
import json
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn

from course_lab.experiment import Experiment
from course_lib.data import (
    Corpus,
    SentencePairs,
    folders,
)
from course_lib.data.download import file_digest
from course_lib.errors import CourseError
from course_lib.training.checkpoint import (
    difference,
    write_atomically,
    write_json,
)


def run_folder(experiment: Experiment) -> Path:
    """Where a run keeps its checkpoints and its result; ignored by git."""
    e = experiment
    last = f"{e.profile}-seed{e.seed}" + f"-{e.variant}" * bool(e.variant)
    return folders.home() / "runs" / e.name / last


def kept_folder() -> Path:
    """Where results that lessons read are committed, one folder a run."""
    return folders.home() / "data" / "results"


def read_kept(key: str) -> dict:
    """Return the content of the kept result of a run, whose key is its folder below `runs`.

    CourseError if no such result is kept, or if it was changed by hand.
    """
    return read_result(kept_folder() / key)


def kept_results() -> list[Path]:
    """The folders of all kept results, in the order of their names."""
    return sorted(path.parent for path in kept_folder().rglob("result.json"))


def write_result(
    folder: Path, experiment: Experiment, epochs, metrics, provenance, arrays=None
) -> None:
    """result.json, and arrays.npz for `arrays` by name, atomically.

    CourseError for a figure that is not finite.
    """
    for name, value in _figures(metrics):
        if not math.isfinite(value):
            raise CourseError(
                f"{name} is {value} after the training of {experiment.name}, and no result; its "
                f"weights are in {folder}"
            )
    content = {
        "experiment": experiment.to_dict(),
        "metrics": metrics,
        "epochs": epochs,
        "provenance": provenance,
    }
    if arrays:
        content["arrays"] = {name: _array_digest(array) for name, array in arrays.items()}
    content["sha256"] = _digest(content)
    write(Path(folder), content, arrays or {})


def write_table(name: str, content: dict) -> Path:
    """Keep a table of measurements beside the results, with its checksum; returns its file."""
    path = kept_folder() / f"{name}.json"
    write_json(path, content | {"sha256": _digest(content)})
    return path


def read_table(name: str) -> dict:
    """What `write_table` kept; CourseError if it is missing or was changed by hand."""
    return _checked(
        kept_folder() / f"{name}.json", f"no table {name} is kept in {kept_folder()}; measure it"
    )


def write(folder: Path, content: dict, arrays: dict[str, np.ndarray]) -> None:
    """The files of a result, checked before; the arrays first, so that none is missing."""
    if arrays:
        file = io.BytesIO()
        np.savez_compressed(file, **arrays)
        write_atomically(folder / "arrays.npz", file.getvalue())
    write_json(folder / "result.json", content)


def read_arrays(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a result, by name; none for most. CourseError if they are not what it had."""
    path, digests = Path(folder) / "arrays.npz", read_result(folder).get("arrays", {})
    if not digests:
        return {}
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise CourseError(f"{path} is missing; bring it beside its result.json") from None
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise CourseError(f"{path} is damaged ({error}); bring it again, or train again") from None
    if {name: _array_digest(array) for name, array in found.items()} != digests:
        raise CourseError(f"{path} does not match the checksums in its result.json")
    return found


def _array_digest(array: np.ndarray) -> str:
    """Of kind, shape and numbers, not of the file, which knows the time."""
    head = f"{array.dtype.str} {array.shape} ".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()


def _figures(metrics, name: str = ""):
    """(name, number) of all that is inside."""
    if isinstance(metrics, dict):
        for key, value in metrics.items():
            yield from _figures(value, f"{name}.{key}".strip("."))
    elif isinstance(metrics, list | tuple):
        for place, value in enumerate(metrics):
            yield from _figures(value, f"{name}.{place}")
    elif isinstance(metrics, float):
        yield name, metrics


def read_result(folder: Path) -> dict:
    """The content of a result folder; CourseError if it is missing or was changed by hand."""
    return _checked(Path(folder) / "result.json", f"there is no result in {folder}; train it first")


def _checked(path: Path, missing: str) -> dict:
    """The content of a JSON file that has its own checksum in it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CourseError(missing) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{path} is not readable JSON ({error}); restore or retrain it") from None
    if not isinstance(content, dict):
        raise CourseError(f"{path} has no figures by name; restore or retrain it")
    if content.get("sha256") != _digest({k: v for k, v in content.items() if k != "sha256"}):
        raise CourseError(f"{path} does not match its own checksum; it was changed after the run")
    return content


def result_of(folder: Path, experiment: Experiment) -> dict:
    """`read_result`; CourseError if the result is another experiment's."""
    content = read_result(folder)
    found, wanted = Experiment.from_dict(content["experiment"]).identity(), experiment.identity()
    if where := difference(found, wanted):
        raise CourseError(f"{folder} has the result of another experiment ({where}); remove it")
    return content


def weights(folder: Path) -> dict[str, str]:
    """Digests of a run's checkpoints, for `check_weights` to know them by."""
    paths = {name: folder / f"{name}.safetensors" for name in ("last", "best")}
    return {name: file_digest(path) for name, path in paths.items() if path.exists()}


def check_weights(path: Path, result: dict) -> None:
    """CourseError if a checkpoint is there and not the one that a result was measured with."""
    said = result["provenance"].get("weights", {}).get(path.stem)  # nothing by older versions
    if said is not None and path.exists() and said != file_digest(path):
        raise CourseError(
            f"{path} does not hold the weights of the result beside it; bring those, or remove "
            f"{path.parent} to train it again"
        )


def _digest(content: dict) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Result:
    """What a run leaves: the model at its best epoch and every figure."""

    model: nn.Module
    corpus: Corpus | SentencePairs
    experiment: Experiment
    folder: Path
    epochs: list[dict]
    metrics: dict
    provenance: dict
