"""The examinations of packaged models that are timed, on a small matrix of our own."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from benchmarks import examining, timing
from benchmarks.cli import app
from course_lab import results
from course_lib.errors import CourseError
from course_lib.metrics import geometry
from tools import site_pages


@pytest.fixture
def packaged(tmp_path, monkeypatch):
    """One model in the place of all: 300 words of 8 numbers, all with one drift."""
    path = tmp_path / "vectors.npy"
    np.save(path, np.random.default_rng(0).standard_normal((300, 8)) + 2)
    monkeypatch.setattr(examining, "PACKAGED", {"toy": SimpleNamespace(path=path)})
    monkeypatch.setattr(examining, "check_packaged", lambda model: None)
    monkeypatch.setattr(examining, "CASES", (("toy",), ("toy", "--first-places", "1")))
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path / "kept")
    return path


def test_each_examination_is_a_row_with_what_it_took_and_found(packaged, tmp_path, monkeypatch):
    monkeypatch.setattr(examining, "BUSY", 2.0)  # whatever else runs here
    done = CliRunner().invoke(app, ["examine", "--keep"])
    assert done.exit_code == 0, done.output
    (table,) = results.tables("benchmarks/examine").values()
    plain, searched = table["rows"]
    assert (plain["model"], searched["model"]) == ("toy", "toy --first-places 1")
    assert (plain["words"], plain["size"]) == (300, 8)
    assert plain["never first"] is None and searched["never first"] >= 0
    assert 1 < plain["seconds"] < 300 and 50 < plain["MB"] < 8192
    assert "Common direction" in plain["verdict"] and plain["advice"]
    assert plain["verdict"] in done.output and plain["advice"][0] in done.output
    site_pages.write_examinations(tmp_path)
    page = (tmp_path / "examinations.md").read_text("utf-8")
    assert "| `toy` | 300 × 8 |" in page and plain["advice"][0] in page
    first, second = (line for line in page.splitlines() if line.startswith("| `toy"))
    assert first.endswith("| not asked |") and second.endswith(f"| {searched['never first']} |")
    assert (tmp_path / "other-tools.md").read_text("utf-8") == "No comparison is kept yet.\n"


def test_the_time_of_our_own_examination_is_no_other_work(packaged):
    watch = timing.Watch()
    examining._row("toy", [])
    own = watch._now()[1]
    assert own - watch.started[1] > 1  # seconds of the examining process


def test_an_examination_that_fails_is_told_and_nothing_is_kept(packaged):
    packaged.write_bytes(b"no array")
    done = CliRunner().invoke(app, ["examine", "--keep"])
    assert isinstance(done.exception, CourseError)
    assert "toy could not be examined" in str(done.exception) and "vectors.npy" in str(
        done.exception
    )
    assert not results.tables("benchmarks/examine")


def test_other_tools_get_the_matrix_whole_and_are_kept_with_their_versions(
    packaged, tmp_path, monkeypatch
):
    """By stand-ins of the two packages, whose numbers are known."""
    W = torch.from_numpy(np.load(packaged))

    class WeightWatcher:
        def __init__(self, log_level):
            self.level = log_level

        def analyze(self, model):
            torch.testing.assert_close(model[0].weight.double(), W, rtol=0, atol=1e-6)
            return SimpleNamespace(
                stable_rank=[geometry.stable_rank(geometry.singular_values(W))], alpha=[2.5]
            )

    scored = SimpleNamespace(IsoScore=lambda points: float(geometry.isoscore(torch.tensor(points))))
    monkeypatch.setitem(sys.modules, "IsoScore", SimpleNamespace(IsoScore=scored))
    module = SimpleNamespace(WeightWatcher=WeightWatcher)
    monkeypatch.setitem(sys.modules, "weightwatcher", module)
    monkeypatch.setattr(examining, "version", lambda tool: "1.2")
    monkeypatch.setattr(examining, "COMPARED", ("toy",))
    done = CliRunner().invoke(app, ["other-tools", "--keep"])
    assert done.exit_code == 0, done.output
    table = results.read_table(examining.BESIDE)
    (row,) = table["rows"]
    assert row["IsoScore"] == pytest.approx(row["their IsoScore"])
    assert row["stable rank"] == pytest.approx(row["their stable rank"], rel=1e-5)
    assert row["alpha"] == 2.5 and "commit" in table["provenance"]
    site_pages.write_examinations(tmp_path)
    page = (tmp_path / "other-tools.md").read_text("utf-8")
    assert "IsoScore 1.2, weightwatcher 1.2" in page and "| `toy` |" in page


def test_without_the_other_tools_the_command_says_how_to_get_them(monkeypatch):
    monkeypatch.setattr(examining, "TOOLS", ("IsoScore", "no-such-package"))
    done = CliRunner().invoke(app, ["other-tools"])
    assert isinstance(done.exception, CourseError)
    assert "pip install IsoScore no-such-package" in str(done.exception)


def test_without_a_table_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    site_pages.write_examinations(tmp_path)
    assert (tmp_path / "examinations.md").read_text("utf-8") == "No examination is kept yet.\n"
