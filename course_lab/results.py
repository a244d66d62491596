"""A result is a folder: the experiment, its figures per epoch, final metrics, provenance.

All of it is in `result.json`, with its checksum. What is too long for that, such as the singular
values of log P, is in `arrays.npz`, whose checksums are in `result.json`, too.
"""

import hashlib
import io
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from course_lab.corpora.download import file_digest
from course_lab.experiment import Experiment
from course_lib.data import Corpus, SentencePairs, folders
from course_lib.errors import DAMAGED, CourseError
from course_lib.models import OutputModel
from course_lib.models.kneser_ney import KneserNey, Ngrams
from course_lib.training.checkpoint import difference, write_atomically, write_json

if TYPE_CHECKING:
    import pandas as pd

# What every result.json has beside its checksum, and of which type.
PARTS = {"experiment": dict, "metrics": dict, "epochs": list, "provenance": dict}


@dataclass
class Result:
    """A run leaves the model at its best epoch and every figure."""

    model: OutputModel | KneserNey
    corpus: Corpus | SentencePairs
    experiment: Experiment
    folder: Path
    epochs: list[dict]
    metrics: dict
    provenance: dict


# Folders -----------------------------------------------------------------------------------------


def runs_folder() -> Path:
    """Return the folder of all runs, which git ignores."""
    return folders.home() / "runs"


def key_of(experiment: Experiment) -> str:
    """Return a run's name, equal on every machine: its folder below `runs`."""
    name = f"{experiment.name}/{experiment.profile}-seed{experiment.seed}"
    return f"{name}-{experiment.variant}" if experiment.variant else name


def run_folder(experiment: Experiment) -> Path:
    """Return the folder of a run's checkpoints and result."""
    return runs_folder() / key_of(experiment)


def is_done(folder: Path) -> bool:
    """Return whether a folder has a result."""
    return (Path(folder) / "result.json").exists()


def run_or_path(name: Path) -> Path:
    """Return a path that is there, else the folder of the run of that name below `runs`.

    CourseError where neither is there; it lists finished runs. A folder that only holds other
    folders, as that of a recipe, is no run.
    """
    for path in (Path(name).expanduser(), runs_folder() / name):
        if path.is_file() or (path.is_dir() and any(inner.is_file() for inner in path.iterdir())):
            return path
    raise no_run(name)


def no_run(name: Path) -> CourseError:
    """Return the error for the name of a run that is not there; it lists finished runs."""
    below = runs_folder()
    known = sorted(path.parent.relative_to(below).as_posix() for path in below.rglob("result.json"))
    if not known:
        return CourseError(
            f"there is no run or checkpoint {name}, and no run is finished below {below}; train "
            "one with: python -m course_lab train RECIPE"
        )
    more = ", …" if len(known) > 8 else ""
    return CourseError(
        f"there is no run or checkpoint {name}; finished runs below {below}: "
        f"{', '.join(known[:8])}{more}"
    )


def kept_folder() -> Path:
    """Return the folder where results that lessons read are committed, one folder a run."""
    return folders.home() / "data" / "results"


def read_kept(key: str) -> dict:
    """Return the content of the kept result of a run, whose key is its folder below `runs`.

    CourseError if no such result is kept, or if it was changed by hand.
    """
    return read_result(kept_folder() / key)


def kept_results() -> list[Path]:
    """Return the folders of all kept results, in the order of their names."""
    return sorted(path.parent for path in kept_folder().rglob("result.json"))


def frame(paths: Iterable[Path] | None = None) -> "pd.DataFrame":
    """Return results as a table: a row each, with its recipe, profile, seed, variant and figures.

    paths: the folders of the results, those of all kept ones if None. They name the rows. The
        figures have dotted names, such as `geometry.mean_cosine`.
    Raises CourseError for a result that is missing or was changed by hand.
    """
    import pandas as pd

    paths = kept_results() if paths is None else list(paths)
    contents = [read_result(path) for path in paths]
    told = [  # the oldest results name no variant
        {"recipe": e["name"], "profile": e["profile"], "seed": e["seed"]}
        | {"variant": e.get("variant", "")}
        for e in (content["experiment"] for content in contents)
    ]
    figures = pd.json_normalize([content["metrics"] for content in contents])
    names = pd.DataFrame(told, columns=["recipe", "profile", "seed", "variant"])
    return pd.concat([names, figures], axis=1).set_index(pd.Index(map(str, paths)))


# Writing -----------------------------------------------------------------------------------------


def write_result(
    folder: Path,
    experiment: Experiment,
    epochs: list[dict],
    metrics: dict,
    provenance: dict,
    arrays: dict[str, np.ndarray] | None = None,
) -> None:
    """Write result.json, and arrays.npz where there are arrays, each atomically; the run is done.

    folder: the run's folder.
    experiment: what was run.
    epochs: the figures of each epoch.
    metrics: the final figures; CourseError for one that is not finite.
    provenance: where the figures come from.
    arrays: by name, what is too long for JSON.
    """
    for name, value in _numbers(metrics):
        if not math.isfinite(value):
            raise CourseError(
                f"{name} is {value} after the training of {experiment.name}, so there is no "
                f"result; remove {folder} and train with a smaller learning rate or a clip"
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
    (Path(folder) / "failed.json").unlink(missing_ok=True)  # of an earlier start, which is mended


def write(folder: Path, content: dict, arrays: dict[str, np.ndarray]) -> None:
    """Write the files of a result that has been checked.

    The arrays come first, so that no result.json names arrays that are missing.
    """
    if arrays:
        file = io.BytesIO()
        np.savez_compressed(file, **arrays)  # pyright: ignore[reportArgumentType] (by name)
        write_atomically(folder / "arrays.npz", file.getvalue())
    write_json(folder / "result.json", content)


def write_table(name: str, content: dict) -> Path:
    """Keep a table of measurements beside the results, with its checksum; return its file."""
    path = kept_folder() / f"{name}.json"
    write_json(path, content | {"sha256": _digest(content)})
    return path


def _numbers(metrics: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield the dotted name and the value of every number inside nested figures."""
    if isinstance(metrics, dict):
        for key, value in metrics.items():
            yield from _numbers(value, f"{name}.{key}".strip("."))
    elif isinstance(metrics, list | tuple):
        for place, value in enumerate(metrics):
            yield from _numbers(value, f"{name}.{place}")
    elif isinstance(metrics, float):
        yield name, metrics


# Reading -----------------------------------------------------------------------------------------


def read_result(folder: Path) -> dict:
    """Return the content of a result folder.

    CourseError if it is missing, damaged, without one of its parts, or was changed by hand, and
    for a figure that is not finite, as a result of an older version may have.
    """
    path = Path(folder) / "result.json"
    missing = f"there is no result in {folder}; train it first"
    content = _checked(path, missing, "restore or retrain it")
    for name, kind in PARTS.items():
        if not isinstance(content.get(name), kind):
            raise CourseError(f"{path} has no {name}, as a result has; restore or retrain it")
    for name, value in _numbers(content["metrics"]):
        if not math.isfinite(value):
            raise CourseError(f"{path} has {name} = {value}, which is no figure; train it again")
    return content


def check_perplexities(content: dict, folder: Path) -> None:
    """Raise CourseError for a result without the perplexities that every run has."""
    for name in ("valid_perplexity", "test_perplexity"):
        value = content["metrics"].get(name)
        if not isinstance(value, int | float) or value <= 0:
            raise CourseError(
                f"{Path(folder) / 'result.json'} has {name} = {value}, which is no perplexity; "
                "train it again"
            )


def result_of(folder: Path, experiment: Experiment) -> dict:
    """Return the content of an experiment's result folder.

    CourseError where `read_result` has one, and if the result is another experiment's.
    """
    content = read_result(folder)
    actual = Experiment.from_dict(content["experiment"]).identity()
    if where := difference(actual, experiment.identity()):
        raise CourseError(
            f"{folder} has the result of another experiment ({where}); move that folder away, or "
            "give a run another one by `train --folder`"
        )
    return content


def read_arrays(folder: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a result by name, none for most; CourseError if they are damaged."""
    path = Path(folder) / "arrays.npz"
    digests = read_result(folder).get("arrays", {})
    if not digests:
        return {}
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise CourseError(f"{path} is missing; bring it beside its result.json") from None
    except DAMAGED as error:
        raise CourseError(f"{path} is damaged ({error}); bring it again, or train again") from None
    if {name: _array_digest(array) for name, array in arrays.items()} != digests:
        raise CourseError(f"{path} does not match the checksums in its result.json")
    return arrays


def read_table(name: str) -> dict:
    """Return what `write_table` kept; CourseError if it is missing or was changed by hand."""
    missing = f"no table {name} is kept in {kept_folder()}; a clone of the course has its own"
    remedy = "restore it from a clone of the course"
    return _checked(kept_folder() / f"{name}.json", missing, remedy)


def tables(folder: str) -> dict[str, dict]:
    """Return the tables that `write_table` kept below a folder, by name, in order."""
    kept = kept_folder()
    paths = sorted((kept / folder).rglob("*.json"))
    return {
        name: read_table(name)
        for name in (p.relative_to(kept).with_suffix("").as_posix() for p in paths)
    }


def _checked(path: Path, missing: str, remedy: str) -> dict:
    """Return the content of a JSON file that has its own checksum in it.

    missing: what is said where there is no such file. remedy: what mends a damaged one.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CourseError(missing) from None
    except DAMAGED as error:
        raise CourseError(f"{path} is not readable JSON ({error}); {remedy}") from None
    if not isinstance(content, dict):
        raise CourseError(f"{path} has no figures by name; {remedy}")
    if content.get("sha256") != _digest({k: v for k, v in content.items() if k != "sha256"}):
        raise CourseError(f"{path} does not match its own checksum; it was changed after the run")
    return content


# Checksums ---------------------------------------------------------------------------------------


def weights(folder: Path) -> dict[str, str]:
    """Return the digests of a run's checkpoints, by which `check_weights` knows them."""
    paths = {name: folder / f"{name}.safetensors" for name in ("last", "best")}
    return {name: file_digest(path) for name, path in paths.items() if path.exists()}


def check_weights(path: Path, result: dict) -> None:
    """Raise CourseError for a checkpoint that is not the one a result was measured with.

    Nothing is said about a checkpoint that is missing, or that an older version's result does not
    name.
    """
    expected = result["provenance"].get("weights", {}).get(path.stem)
    if expected is not None and path.exists() and expected != file_digest(path):
        raise CourseError(
            f"{path} does not hold the weights of the result beside it; bring those, or remove "
            f"{path.parent} to train it again"
        )


def without_weights(folder: Path) -> CourseError:
    """Return the error for a finished run whose weights are not there, or never were."""
    encoder = read_result(folder)["experiment"].get("encoder", {})
    if encoder.get("kind") == Ngrams.__name__:  # the class of another encoder may not be loaded
        return CourseError(f"{folder} counted n-grams and has no weights; name a trained run")
    return CourseError(
        f"{folder} has a result but not its weights; bring best.safetensors as well, or remove "
        f"{folder} to train it again"
    )


def _digest(content: dict) -> str:
    """Return the SHA-256 of plain data, whatever the order of its keys."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _array_digest(array: np.ndarray) -> str:
    """Return the SHA-256 of an array's type, shape and numbers.

    That of its file would depend on the version of the library that compressed it.
    """
    head = f"{array.dtype.str} {array.shape} ".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()
