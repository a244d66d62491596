"""The analyses 30 to 35 work with whatever results are kept, and with none."""

import html
import json
import re
import runpy
import shutil

import matplotlib
import pytest

from course_lab import claims, evidence, records, results
from course_lab.notebook_source import FOLDER, sources
from tests import evidence_sample

ANALYSES = [path for path in sources(FOLDER) if re.match(r"3[0-5]b?_", path.name)]


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A folder of kept results that has some runs of every plan of the desk."""
    folder = tmp_path_factory.mktemp("kept")
    patched = pytest.MonkeyPatch()
    patched.setattr(results, "kept_folder", lambda: folder)
    evidence_sample.keep(folder)
    patched.undo()
    return folder


def run(path, folder, monkeypatch) -> dict:
    """Run a notebook with a folder of kept results; return its variables."""
    monkeypatch.setattr(results, "kept_folder", lambda: folder)
    monkeypatch.delenv("COURSE_EXERCISES", raising=False)  # nobody solves them here
    matplotlib.use("agg")
    return runpy.run_path(str(path))


@pytest.mark.parametrize("path", ANALYSES, ids=lambda path: path.stem)
def test_an_analysis_runs_without_any_kept_result(path, tmp_path, monkeypatch):
    run(path, tmp_path, monkeypatch)


@pytest.mark.parametrize("path", ANALYSES, ids=lambda path: path.stem)
def test_an_analysis_reads_the_plans_of_the_desk(path, sample, monkeypatch):
    told = run(path, sample, monkeypatch)
    if path.stem == "31_rank_and_perplexity":
        assert told["done"] == "All 72 runs of the plan `gss-grid` are kept."
        assert told["cells"].perplexity.notna().all()
    if path.stem == "32_word_similarity":
        assert told["best"] == "ptb/desk/mos standard" and told["family"] == "ptb/desk"
        assert (told["kinds"].rho.xs("whitened", level="kind") > 0.99).all()
    if path.stem == "33_predictions":
        assert (told["family"], told["seeds"]) == ("ptb/desk", [1, 2, 3])
        assert [trained.name for trained in told["pair"]] == ["tied", "mos"]
    if path.stem == "33b_second_seed":
        assert set(told["pairs"].index) == set(evidence_sample.METHODS)
        assert (told["pairs"].gain > 0).all() and "mos" in told["beyond"].index
    if path.stem == "34_generalization_bound":
        assert "slope -0.50" in told["falls"] and len(told["trade"]) == 4


def outputs(path) -> str:
    """Return what the cells of a lesson's committed .ipynb show, pictures left out."""
    shown = []
    for cell in json.loads(path.with_suffix(".ipynb").read_text("utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            for kind, text in output.get("data", {}).items():
                shown += ["".join(text)] if kind.startswith("text/") else []
    return "\n".join(shown)


def test_lessons_show_what_the_kept_results_say_today():
    """A kept result changes verdicts in lessons that nobody has touched: execute them anew."""
    of = evidence.read()
    names = [claim.name for table in claims.TABLES for claim in table]
    told = [claims.conclusions(*names, of=kept) for kept in (of, records.desk(of))]
    today = {line for text in told for line in text.splitlines()}
    stale = {
        f"{path.stem}: {line}"
        for path in sources(FOLDER)
        if "claims.conclusions" in path.read_text("utf-8")
        for line in outputs(path).splitlines()
        if line.startswith("- *") and line not in today
    }
    board = html.unescape(outputs(FOLDER / "30_leaderboard.py"))
    stale |= {v for v in claims.ledger(of).verdict if v not in board}
    assert not stale


def test_deleting_its_results_leaves_a_claim_untested(tmp_path, monkeypatch):
    """The next best test takes its place, until there is none."""
    name = next(
        n for n, row in claims.ledger(evidence.read()).iterrows() if row.verdict != "untested"
    )
    claim = claims.claim(name)
    kept = tmp_path / "results"
    shutil.copytree(results.kept_folder(), kept)
    monkeypatch.setattr(results, "kept_folder", lambda: kept)
    of = evidence.read()
    while not (deciding := claims.tests(claim, of)[0]).against:
        assert claims.ledger(of, [claim]).loc[name, "verdict"] != "untested"
        for run_ in of.settings[deciding.method].values():
            shutil.rmtree(run_.folder)
        of = evidence.read()
    assert claims.ledger(of, [claim]).loc[name, "verdict"] == "untested"
