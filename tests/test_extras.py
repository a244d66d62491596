"""What each extra of the package promises, with nothing importable but what it installs."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from course_lab import extras

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# What of `course_lib` needs the extra `core`: texts, the training loop, evaluation, word pairs.
NEED_CORE = ("data", "evaluation", "training.batches", "training.checkpoint", "training.loop")
NEED_CORE += ("training.run_state", "metrics.similarity")

# Runs first in a process: of the installed packages only the allowed ones can be imported.
ONLY = """
import sys
from importlib.machinery import PathFinder

class Only(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if path is None and name not in ALLOWED and not name.startswith("_sysconfigdata"):
            return None
        return super().find_spec(name, path, target)

sys.meta_path = [f for f in sys.meta_path if f.__module__ == "_frozen_importlib"] + [Only]
"""


def requirements(extra: str | None) -> Iterator[Requirement]:
    """Yield what `pip install course-lib[extra]` asks for, those of the extras it names, too."""
    listed = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    for requirement in map(Requirement, listed):
        if requirement.name != PROJECT["name"]:
            yield requirement
        for named in requirement.extras if requirement.name == PROJECT["name"] else ():
            yield from requirements(named)


def brought(extra: str | None) -> set[str]:
    """Return the names of all packages that an extra installs, with what those need in turn."""
    waiting = [*requirements(None), *(requirements(extra) if extra else ())]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        for chosen in {"", *requirement.extras}:
            if (requirement.name.lower(), chosen) in seen:
                continue
            seen.add((requirement.name.lower(), chosen))
            try:
                needed = metadata.requires(requirement.name) or []
            except metadata.PackageNotFoundError:  # of another build of PyTorch
                continue
            for inner in map(Requirement, needed):
                if inner.marker is None or inner.marker.evaluate({"extra": chosen}):
                    waiting.append(inner)
    return {re.sub(r"[-_.]+", "-", name) for name, _ in seen}


def allowed(extra: str | None) -> set[str]:
    """Return the modules that may be imported where only this extra is installed."""
    names = brought(extra)
    modules = {"course_lib", "course_lab", "tools", "benchmarks", *sys.stdlib_module_names}
    for module, packages in metadata.packages_distributions().items():
        if names & {re.sub(r"[-_.]+", "-", package).lower() for package in packages}:
            modules.add(module)
    return modules


def run(extra: str | None, code: str) -> subprocess.CompletedProcess:
    """Run Python that finds only what an extra installs."""
    code = f"ALLOWED = {allowed(extra)!r}\n{ONLY}\n{code}"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )


def modules(package: str) -> list[str]:
    """Return the names of all modules of a package."""
    paths = sorted((ROOT / package).rglob("*.py"))
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


LIGHT = [
    name
    for name in modules("course_lib")
    if not name.removeprefix("course_lib.").startswith(NEED_CORE)
]
MAKING = [n for n in modules("tools") if n != "tools.nbval_sockets" and ".laws" not in n]
# The one module that is for transformers itself; `export` imports it when it is called.
FOR_TRANSFORMERS = "course_lab.hugging_face.model"
CLAIMS = {
    None: LIGHT,
    "core": modules("course_lib"),
    "lab": [name for name in modules("course_lab") if name != FOR_TRANSFORMERS],
    "course": [*MAKING, *modules("benchmarks"), "ipywidgets", "jupyterlab", "myst_nb", "sphinx"],
}


@pytest.mark.parametrize("extra", CLAIMS, ids=str)
def test_an_extra_installs_what_its_modules_import(extra):
    assert len(CLAIMS[extra]) > 10
    done = run(extra, f"import {', '.join(CLAIMS[extra])}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra, module", [(None, "accelerate"), ("core", "seaborn")])
def test_what_an_extra_does_not_install_is_not_found(extra, module):
    assert f"No module named '{module}'" in run(extra, f"import {module}").stderr


TRAIN = """
import torch
from torch import nn

import course_lib
from course_lib.metrics.registry import summary
from course_lib.output_layers import MixtureOfSoftmaxes, Softmax
from course_lib.regularizers import CosineRegularizer
from course_lib.training import CoupledAdam

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 8)
        self.decoder = nn.Linear(8, 40)

    def forward(self, tokens):
        return self.decoder(self.embedding(tokens).tanh())

torch.manual_seed(0)
tokens = torch.arange(24).view(2, 12)
for layer in (Softmax, MixtureOfSoftmaxes):
    attached = course_lib.attach(Model(), output_layer=layer)
    first = attached(tokens, labels=tokens).loss
    optimizer = CoupledAdam(attached.parameters(), lr=0.05)
    penalty = CosineRegularizer(0.01)
    for _ in range(20):
        optimizer.zero_grad()
        (attached(tokens, labels=tokens).loss + penalty(attached.output_layer.words)).backward()
        optimizer.step()
    assert attached(tokens, labels=tokens).loss < first
print(len(summary(attached.model.decoder.weight, torch.arange(40, 0, -1))))
"""


def test_the_library_alone_attaches_trains_and_measures():
    done = run(None, TRAIN)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5


# --- a laboratory without its packages -----------------------------------------------------------


def declared(folder: Path, *requirements: str) -> None:
    """Write what an installed `course-lib` says of itself into a folder."""
    information = folder / f"course_lib-{PROJECT['version']}.dist-info"
    information.mkdir()
    lines = ["Metadata-Version: 2.4", "Name: course-lib", f"Version: {PROJECT['version']}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requirements]
    (information / "METADATA").write_text("\n".join(lines) + "\n")


def test_the_laboratory_names_the_packages_that_it_lacks(tmp_path, monkeypatch):
    declared(
        tmp_path,
        "no-such-base",
        "no-such-core>=2; extra == 'core'",
        'course-lib[core]; extra == "lab"',
        "no_such.lab[more]<3; python_version > '3' and extra == 'lab'",
        "numpy; extra == 'lab'",
        "no-such-notebook; extra == 'course'",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert extras.absent() == ["no-such-core", "no_such.lab"]
    sentence = "the laboratory needs a, b; pip install 'course-lib[lab]'"
    assert extras.refusal(["a", "b"]) == sentence


def test_a_checkout_that_is_not_installed_declares_nothing(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(extras.metadata, "requires", missing)
    assert extras.absent() == []


def test_python_is_told_what_to_install_as_well():
    done = run("core", "from course_lab import run")
    assert re.search(
        r"ModuleNotFoundError: the laboratory needs \w+; pip install 'course-lib\[lab\]'\n$",
        done.stderr,
    ), done.stderr
