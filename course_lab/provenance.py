"""Where a number comes from: commit, packages, device, time and memory."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from course_lib.data import folders
from course_lib.machine import peak_memory
from course_lib.training.checkpoint import load_checkpoint

PACKAGES = ("torch", "numpy", "accelerate", "safetensors")


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


def describe_origin(contents: list[dict]) -> str:
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
