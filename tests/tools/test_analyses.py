"""The analyses 30 to 35 work with whatever results are kept, and with none."""

import re
import runpy
import shutil

import pytest

from course_lab import claims, evidence, results
from course_lab.notebook_source import FOLDER, sources

ANALYSES = [path for path in sources(FOLDER) if re.match(r"3[0-5]_", path.name)]


@pytest.mark.parametrize("path", ANALYSES, ids=lambda path: path.stem)
def test_an_analysis_runs_without_any_kept_result(path, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    monkeypatch.delenv("COURSE_EXERCISES", raising=False)  # nobody solves them here
    runpy.run_path(str(path))


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
        for run in of.settings[deciding.method].values():
            shutil.rmtree(run.folder)
        of = evidence.read()
    assert claims.ledger(of, [claim]).loc[name, "verdict"] == "untested"
