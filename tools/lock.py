"""`uv.lock`: the versions of constraints.txt with the addresses and the checksums of their files.

`constraints.txt` decides; `uv.lock` follows. uv resolves `pyproject.toml` twice: with the pins as
constraints, and then without them, where it keeps the versions that the lock has already. The lock
therefore names no constraints, and `uv lock --check` finds it in order.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from course_lib.errors import CourseError

REGISTRY = "https://pypi.org/simple"
FILES = "https://files.pythonhosted.org/"
ADDRESS = re.compile(r'"(https?://[^"]+)"')


def write(root: Path) -> Path:
    """Write `uv.lock` beside `pyproject.toml`; return its path.

    Raises CourseError where uv is missing or fails, or where the lock would name another registry
    than the public one, or another version than `constraints.txt` has.
    """
    project = (root / "pyproject.toml").read_text("utf-8")
    listed = ", ".join(f'"{name}=={version}"' for name, version in pins(root).items())
    with tempfile.TemporaryDirectory(prefix="course-lock-") as name:
        folder = Path(name)
        for more in (f"constraint-dependencies = [{listed}]\n", ""):
            text = project.replace("[tool.uv]\n", f"[tool.uv]\n{more}")
            (folder / "pyproject.toml").write_text(text, "utf-8")
            uv(folder, "lock")
        text = (folder / "uv.lock").read_text("utf-8")
    if problems := faults(text, root):
        raise CourseError(f"the lock is not written: {'; '.join(problems)}")
    (root / "uv.lock").write_text(text, "utf-8")
    return root / "uv.lock"


def uv(folder: Path, *words: str) -> None:
    """Run a command of uv on a project, with the public registry and none of its own settings."""
    try:
        from uv import find_uv_bin
    except ImportError:
        raise CourseError("uv is not installed; pip install uv") from None
    settings = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    command = [
        find_uv_bin(),
        *words,
        "--project",
        folder,
        "--no-config",
        "--default-index",
        REGISTRY,
    ]
    done = subprocess.run(
        [*command, "--python", sys.executable], env=settings, capture_output=True, text=True
    )
    if done.returncode:
        raise CourseError(f"uv {' '.join(words)} failed:\n{done.stderr.strip()}")


def pins(root: Path) -> dict[str, str]:
    """Return the versions of `constraints.txt` by the names of the packages."""
    lines = (root / "constraints.txt").read_text("utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {name: version for name, version in pairs}


def faults(text: str, root: Path) -> list[str]:
    """Return what a lock says that it must not say, in sentences.

    text: of `uv.lock`
    root: the folder of `constraints.txt`
    """
    wanted = pins(root)
    locked = {package["name"]: package for package in tomllib.loads(text)["package"]}
    places = {address for address in ADDRESS.findall(text) if address != REGISTRY}
    elsewhere = sorted({a.split("/")[2] for a in places if not a.startswith(FILES)})
    said = [f"{host} is not the public registry" for host in elsewhere]
    for name, version in wanted.items():
        if name not in locked:
            said.append(f"{name} is pinned and no package needs it")
        elif locked[name]["version"] != version:
            said.append(f"{name} is {locked[name]['version']} for {version}")
    return said + [
        f"{name} has no version in constraints.txt"
        for name, package in locked.items()
        if name not in wanted and "registry" in package["source"] and not of_torch(name)
    ]


def of_torch(name: str) -> bool:
    """Return whether a package comes with PyTorch's build for CUDA and belongs to its version."""
    return name.startswith(("nvidia-", "cuda-")) or name == "triton"
