"""A result is a folder: the experiment, its figures per epoch, final metrics, provenance.

All of it is in `result.json`, with its checksum; what is too long for that, as the singular values
of log P, in `arrays.npz`, whose checksums are in `result.json`, too.
"""

import hashlib
import io
import json
import math
import os
import platform
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch

from course_lab.experiment import Experiment
from course_lib.data import folders
from course_lib.data.download import file_digest
from course_lib.errors import CourseError
from course_lib.training.checkpoint import difference, load_checkpoint, write_atomically, write_json

PACKAGES = ("torch", "numpy", "accelerate", "safetensors")


def run_folder(experiment: Experiment) -> Path:
    """Where a run keeps its checkpoints and its result; ignored by git."""
    e = experiment
    last = f"{e.profile}-seed{e.seed}" + f"-{e.variant}" * bool(e.variant)
    return folders.home() / "runs" / e.name / last


def kept() -> Path:
    """Where results that lessons read are committed, one folder a run."""
    return folders.home() / "data" / "results"


def kept_results() -> list[Path]:
    """The folders of all kept results, in the order of their names."""
    return sorted(path.parent for path in kept().rglob("result.json"))


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
    path = kept() / f"{name}.json"
    write_json(path, content | {"sha256": _digest(content)})
    return path


def read_table(name: str) -> dict:
    """What `write_table` kept; CourseError if it is missing or was changed by hand."""
    return _checked(kept() / f"{name}.json", f"no table {name} is kept in {kept()}; measure it")


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


def made(contents: list[dict]) -> str:
    """A sentence on where results come from: all their devices, threads, versions and commits."""
    last = [content["provenance"] for content in contents]
    sources = last + [start for source in last for start in source.get("earlier_starts", ())]

    def each(*values) -> str:
        *most, last = sorted(dict.fromkeys(map(str, values)))
        return f"{', '.join(most)} and {last}" if most else last

    threads = each(*(s["threads"] for s in sources))
    commits = each(*(s["commit"][:7] for s in sources))
    return (
        f"{len(contents):,} kept results, made on {each(*(s['device'] for s in sources))}, "
        f"{threads} thread{'s' * (threads != '1')}, with PyTorch "
        f"{each(*(s['packages']['torch'] for s in sources))} at commit"
        f"{'s' * (' ' in commits)} {commits}."
    )


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


def origin(device: torch.device) -> dict:
    """What runs here and now: the commit of the code, packages, device."""
    cuda = device.type == "cuda"
    return {
        "commit": commit(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "device": torch.cuda.get_device_name(device) if cuda else processor(),
        "threads": torch.get_num_threads(),
    }


def starts(last: Path, now: dict) -> list[dict]:
    """The origins of a run's earlier starts, of its checkpoint, where they differ from this one's;
    and this one's."""
    before = load_checkpoint(last)[1].get("starts", []) if last.exists() else []
    return [start for start in before if start != now] + [now]


def provenance(starts: list[dict], corpus, device, wall_seconds: float, tokens: int) -> dict:
    """Where a number comes from: the `origin` of its last start, with those of earlier ones that
    differ as `earlier_starts`; corpus, time, memory, tokens seen."""
    *before, last = starts
    return (
        last
        | ({"earlier_starts": before} if before else {})
        | {
            "corpus_sha256": corpus.sha256,
            "wall_seconds": round(wall_seconds, 1),
            "peak_memory_mb": round(peak_memory(device)),
            "tokens_seen": tokens,
        }
    )


def peak_memory(device: torch.device) -> float:
    """The most MB this process has held: of the GPU's memory on a GPU, else resident."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    try:  # getrusage would count what the parent held when it started this process
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        pass
    try:
        import resource
    except ImportError:  # on Windows
        import psutil

        return psutil.Process().memory_info().peak_wset / 2**20
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def reset_peak_memory(device: torch.device) -> float:
    """Forget the peak; MB held now. Where the system cannot forget it, later peaks count from the
    highest so far."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device) / 2**20
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass
    return peak_memory(device)


def total_memory(device: torch.device) -> int:
    """Bytes of memory of the GPU, or of this machine."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30  # Windows does not say; what a small laptop has


def _digest(content: dict) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def commit() -> str:
    """The commit of the code, marked when the library differs from it; without a repository of
    its own, the release. One that the working folder happens to lie in says nothing of the code."""

    def git(*arguments):
        done = subprocess.run(
            ["git", *arguments], cwd=folders.REPOSITORY, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() == folders.REPOSITORY:
            changed = git("status", "--porcelain", "--", "course_lib", "course_lab")
            return git("rev-parse", "HEAD") + (" (library changed since)" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        pass
    try:
        return f"release {version('course-lib')}"
    except PackageNotFoundError:
        return "unknown"


def processor() -> str:
    """This machine's processor and the vector instructions that PyTorch uses of it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    return f"{model}, {torch.backends.cpu.get_cpu_capability()}"
