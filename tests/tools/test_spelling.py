"""Known misspellings in prose, code and lessons (codespell, settings in pyproject.toml)."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "course_lib", "course_lab", "benchmarks", "tools", "notebooks", "solutions")
PLACES = ("README.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md", "data/README.md", *FOLDERS)


def misspelt(*paths) -> str:
    """codespell's findings, one a line."""
    command = [sys.executable, "-m", "codespell_lib", *map(str, paths)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


def test_no_known_misspelling():
    assert misspelt(*PLACES) == ""


def test_a_misspelling_is_noticed(tmp_path):
    (tmp_path / "page.md").write_text("The " + "embed" + "ing of teh words.\n", encoding="utf-8")
    assert "teh ==> the" in misspelt(tmp_path / "page.md")
