"""Where a number comes from: commit, packages, device, time and memory."""

import platform
import subprocess
import warnings
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from course_lab.recipes import elsewhere
from course_lib.data import Corpus, SentencePairs, folders
from course_lib.machine import peak_memory, processor
from course_lib.training.checkpoint import load_checkpoint

PACKAGES = ("torch", "numpy", "accelerate", "safetensors")
GPUS = ("NVIDIA", "AMD Instinct", "AMD Radeon")  # how the names of GPUs begin


def origin(device: torch.device) -> dict:
    """Return what runs now: the commit of the code, packages, the device."""
    is_gpu = device.type == "cuda"
    return {
        "commit": commit(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "device": torch.cuda.get_device_name(device) if is_gpu else processor(),
        "threads": torch.get_num_threads(),
    }


def on_gpu(source: dict) -> bool:
    """Return whether the run of this provenance was trained on a GPU."""
    return source.get("device", "").startswith(GPUS)


def machine(source: dict) -> str:
    """Return what decides the speed of the run of this provenance: its device and threads."""
    return f"{source.get('device')}, {source.get('threads', 1)} threads"


def two_kinds(one: Mapping[int, dict], other: Mapping[int, dict]) -> str:
    """Return a sentence on the seeds whose runs are one of a GPU and one of a CPU; "" for none.

    one, other: the origins of two models' runs, by seed; seeds that both have are pairs.
    """
    shared = sorted(one.keys() & other.keys())
    seeds = [str(seed) for seed in shared if on_gpu(one[seed]) != on_gpu(other[seed])]
    if not seeds:
        return ""
    pairs = "pairs of seeds" if len(seeds) > 1 else "pair of seed"
    return (
        f"in the {pairs} {' '.join(seeds)} one run is of a GPU and the other of a CPU: they "
        "share their start and their batches, but neither dropout masks nor rounding"
    )


def starts(last: Path, now: dict) -> list[dict]:
    """Return the origins of a run's starts, each once, with `now` as the last.

    last: the run's checkpoint, which knows those of earlier starts; it need not exist.
    now: the `origin` of this start.
    """
    earlier = load_checkpoint(last)[1].get("starts", []) if last.exists() else []
    return [start for start in earlier if start != now] + [now]


def starts_of(source: dict) -> list[dict]:
    """Return the origins of all starts of the run of this provenance, the last one first."""
    return [source, *source.get("earlier_starts", ())]


def changed_files(starts: Iterable[dict], now: dict[str, str]) -> list[str]:
    """Return the files of the reader's own that have changed since any start of a run, in order.

    starts: origins, whose `own_files` are digests by name; older ones have none.
    now: the digests of the files that are loaded now.
    """
    before = [start["own_files"] for start in starts if "own_files" in start]
    return sorted({file for files in before for file in elsewhere.changed(files, now)})


def warn_of_changed_files(starts: Iterable[dict], now: dict[str, str], folder: Path) -> None:
    """Warn where a run was begun with other files of the reader's own than are loaded now.

    A file may hold much that does not concern the run, so the run goes on. Its provenance has the
    digests of every start.

    starts, now: as `changed_files` takes them.
    folder: of the run.
    """
    if files := changed_files(starts, now):
        warnings.warn(
            f"{' and '.join(files)} has changed since the run in {folder} was begun; if that "
            "concerns its model, bring the earlier file back, or remove the folder to train again",
            stacklevel=2,
        )


def provenance(
    starts: list[dict],
    corpus: Corpus | SentencePairs,
    device: torch.device,
    wall_seconds: float,
    tokens: int,
) -> dict:
    """Return where a result comes from.

    starts: the origins of the run's starts. The last one's entries stand for the run; earlier ones
        that differ are listed as `earlier_starts`.
    corpus: the text, known by its digests.
    device: whose peak of memory is stated.
    wall_seconds: time of training and validation.
    tokens: how many were seen in training.
    """
    *earlier, last = starts
    source = dict(last)
    if earlier:
        source["earlier_starts"] = earlier
    return source | {
        "corpus_sha256": corpus.sha256,
        "wall_seconds": round(wall_seconds, 1),
        "peak_memory_mb": round(peak_memory(device)),
        "tokens_seen": tokens,
    }


def commit() -> str:
    """Return the commit of the code, marked when the library differs from it.

    Code without a repository of its own has a release instead. A repository that the folder of the
    code happens to lie in says nothing about the code.
    """
    try:
        if Path(_git("rev-parse", "--show-toplevel")).resolve() == folders.REPOSITORY:
            changed = _git("status", "--porcelain", "--", "course_lib", "course_lab")
            return _git("rev-parse", "HEAD") + (" (library changed since)" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        pass
    try:
        return f"release {version('course-lib')}"
    except PackageNotFoundError:
        return "unknown"


def _git(*arguments: str) -> str:
    """Return what git says about the folder of the code."""
    done = subprocess.run(
        ["git", *arguments], cwd=folders.REPOSITORY, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def short_commit(commit: str, digits: int = 7) -> str:
    """Return the first digits of a commit; a release of the package stays whole."""
    return commit if commit.startswith("release ") else commit[:digits]


def describe_origin(contents: list[dict]) -> str:
    """Return a sentence on where results come from: devices, threads, versions and commits."""
    contents = [content for content in contents if isinstance(content, dict)]  # without blanks
    if not contents:
        return "No result is kept here."
    last_starts = [content["provenance"] for content in contents]
    sources = list(last_starts)
    for start in last_starts:
        sources += start.get("earlier_starts", ())
    devices = _listed(source["device"] for source in sources)
    threads = _listed(source["threads"] for source in sources)
    versions = _listed(source["packages"]["torch"] for source in sources)
    commits = _listed(short_commit(source["commit"]) for source in sources)
    return (
        f"{len(contents):,} kept results, made on {devices}, "
        f"{threads} thread{'s' * (threads != '1')}, with PyTorch {versions} at commit"
        f"{'s' * (' and ' in commits)} {commits}."
    )


def _listed(values: Iterable) -> str:
    """Return the different values in order: `a, b and c`."""
    *most, last = sorted({str(value) for value in values})
    return f"{', '.join(most)} and {last}" if most else last
