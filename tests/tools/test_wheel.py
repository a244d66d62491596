"""The package that is installed from a wheel works in any folder, without the repository."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tools import bootstrap

ROOT = Path(__file__).parents[2]
CONSTRAINTS = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
PLAN = """title = "a plan of one's own"
[[runs]]
recipes = ["docstrings/transformer-128/tied"]
profile = "smoke"
corpus = "novel.txt"
change = {"corpus.pieces" = 60}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return a folder that holds what a wheel installs, and nothing of the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder]
    subprocess.run([*command, ROOT], check=True)
    (wheel,) = folder.glob("course_lib-*.whl")
    site = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def call(installed, folder, *words):
    """Run a command of the laboratory from another folder, on the wheel's code."""
    environment = os.environ | {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, "-m", "course_lab", *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_a_wheel_has_types_scripts_plans_and_notebooks(installed):
    assert (installed / "course_lib/py.typed").exists()
    assert (installed / "course_lab/py.typed").exists()
    (scripts,) = installed.glob("course_lib-*.dist-info/entry_points.txt")
    assert "course-lab = course_lab.__main__:main" in scripts.read_text()
    plans = {path.name for path in (ROOT / "data/plans").glob("*.toml")}
    assert {path.name for path in (installed / "course_lab/shipped/data/plans").iterdir()} == plans
    notebooks = {path.name for path in (ROOT / "notebooks").glob("2*.py")}
    shipped = installed / "course_lab/shipped/notebooks"
    assert {path.name for path in shipped.iterdir()} == notebooks


def test_a_plan_runs_without_the_repository(installed, tmp_path):
    text = "It was a dark night; the rain fell, and nobody came.\n" * 2_000
    (tmp_path / "novel.txt").write_text(text, encoding="utf-8")
    (tmp_path / "mine.toml").write_text(PLAN, encoding="utf-8")
    before = set(installed.rglob("*"))
    done = call(installed, tmp_path, "batch", "run", "mine.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 run: 1 done" in done.stdout
    folder = tmp_path / "runs/novel/docstrings/transformer-128/tied"
    assert list(folder.glob("smoke-seed1-*/result.json"))
    table = call(installed, tmp_path, "batch", "table", "mine.toml")
    assert "Kneser-Ney 5" in table.stdout, table.stdout + table.stderr
    after = {path for path in installed.rglob("*") if path.suffix != ".pyc"}
    assert {path for path in after - before if path.name != "__pycache__"} == set()


def test_a_plan_of_the_course_is_found(installed, tmp_path):
    status = call(installed, tmp_path, "batch", "status", "smoke")
    assert status.returncode == 0, status.stderr
    assert "waiting" in status.stdout


def test_without_its_packages_the_laboratory_says_what_to_install(installed, tmp_path):
    """In an environment that has the wheel and nothing else."""
    venv.create(tmp_path / ".venv", with_pip=False)
    python = bootstrap.environment_python(tmp_path)
    environment = {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    script = "import sys; from course_lab.__main__ import main; sys.exit(main())"
    for words in (["-m", "course_lab", "recipes"], ["-c", script, "recipes"]):
        done = subprocess.run(
            [python, *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 2 and done.stdout == ""
        sentence, end = done.stderr.split("\n")
        assert re.fullmatch(
            r"error: the laboratory needs accelerate, .*typer; pip install 'course-lib\[lab\]'",
            sentence,
        )
        assert end == ""


TRIED = {
    "": "import course_lib, torch; course_lib.attach(torch.nn.Sequential("
    "torch.nn.Embedding(9, 4), torch.nn.Linear(4, 9)))",
    "core": "import course_lib.training.loop, course_lib.evaluation.translation",
    "lab": "import course_lab; course_lab.run",
}


@pytest.mark.nightly
@pytest.mark.parametrize("extra", TRIED)
def test_an_extra_installs_from_the_registry_what_it_promises(installed, tmp_path, extra):
    """Into an environment of its own, with the pinned versions."""
    venv.create(tmp_path / ".venv", with_pip=True)
    python = bootstrap.environment_python(tmp_path)
    (wheel,) = installed.parent.glob("course_lib-*.whl")
    install = [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt"]
    torch = next(pin for pin in CONSTRAINTS if pin.startswith("torch=="))
    subprocess.run([*install, torch], check=True)  # as `setup`, so that a local build is taken
    subprocess.run([*install, f"{wheel}[{extra}]" if extra else wheel], check=True)
    environment = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
    subprocess.run([python, "-c", TRIED[extra]], cwd=tmp_path, env=environment, check=True)
    command = [python, "-m", "course_lab", "batch", "status", "smoke"]
    status = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    if extra == "lab":
        assert status.returncode == 0 and "waiting" in status.stdout, status.stderr
    else:
        assert "pip install 'course-lib[lab]'" in status.stderr
