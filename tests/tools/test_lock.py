"""`uv.lock` says what pyproject.toml and constraints.txt say, with the public registry's files."""

import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from course_lib.errors import CourseError
from tools import lock

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "uv.lock").read_text("utf-8")
LOCK = tomllib.loads(TEXT)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_lock_has_the_pinned_versions_from_the_public_registry():
    assert lock.faults(TEXT, ROOT) == [], "run `python -m tools lock`"
    assert {address for address in lock.ADDRESS.findall(TEXT)} > {lock.REGISTRY}


def test_every_file_has_a_checksum():
    for package in LOCK["package"]:
        files = [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
        assert bool(files) == ("registry" in package["source"])
        assert all(f["hash"].startswith("sha256:") and len(f["hash"]) == 71 for f in files)


def test_the_lock_asks_for_what_the_project_asks_for():
    """uv writes each requirement as a table of name, extras, range and marker."""
    (project,) = [p for p in LOCK["package"] if p["name"] == PROJECT["name"]]
    locked = {
        (
            entry["name"],
            frozenset(entry.get("extras", [])),
            SpecifierSet(entry.get("specifier", "")),
            entry.get("marker"),
        )
        for entry in project["metadata"]["requires-dist"]
    }
    wanted = set()
    for extra, listed in {
        None: PROJECT["dependencies"],
        **PROJECT["optional-dependencies"],
    }.items():
        for requirement in map(Requirement, listed):
            marker = f"extra == '{extra}'" if extra else None
            extras = frozenset(requirement.extras)
            wanted.add((requirement.name, extras, requirement.specifier, marker))
    assert locked == wanted, "run `python -m tools lock`"
    assert set(project["metadata"]["provides-extras"]) == set(PROJECT["optional-dependencies"])
    low, high = PROJECT["requires-python"].split(",")
    assert LOCK["requires-python"].replace(" ", "") == f"{low},{high}"
    assert "manifest" not in LOCK


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("https://pypi.org/simple", "https://mirror.example/simple", "mirror.example is not"),
        ("https://files.pythonhosted.org/", "https://files.example/", "files.example is not"),
        ('name = "numpy"\nversion = "', 'name = "numpy"\nversion = "9', "numpy is 9"),
        ('name = "numpy"', 'name = "nompy"', "numpy is pinned and no package needs it"),
        ('name = "numpy"', 'name = "nompy"', "nompy has no version in constraints.txt"),
    ],
)
def test_a_lock_of_other_files_or_versions_is_refused(old, new, said):
    assert old in TEXT
    assert any(line.startswith(said) for line in lock.faults(TEXT.replace(old, new), ROOT))


def test_without_uv_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "uv", None)
    with pytest.raises(CourseError, match="pip install uv"):
        lock.uv(tmp_path, "lock")


@pytest.mark.nightly
def test_uv_finds_the_lock_in_order(tmp_path):
    """It asks the registry whether the lock is what it would write."""
    for name in ("pyproject.toml", "uv.lock"):
        shutil.copy(ROOT / name, tmp_path)
    lock.uv(tmp_path, "lock", "--check")
