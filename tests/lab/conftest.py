"""Kept results that a test makes up."""

import pytest

from course_lab import results
from course_lab.planned import Planned
from tests.evidence_sample import COUNTED, PTB


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """An empty folder of kept results, and a function that puts a run there."""
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)

    def keep(
        recipe,
        seed,
        perplexity,
        change=None,
        device="AMD EPYC",
        epochs=(),
        tokens=1000,
        profile="full",
        **figures,
    ):
        planned = Planned(recipe, profile, seed, change or {})
        metrics = {"test_perplexity": perplexity, "valid_perplexity": perplexity + 1} | figures
        origin = {"tokens_seen": tokens, "wall_seconds": 60.0, "threads": 1, "device": device}
        folder = tmp_path / planned.key
        results.write_result(folder, planned.experiment(), list(epochs), metrics, origin)
        return folder

    def count():
        results.write_table("ngrams", {"rows": [{"text": PTB, "test": COUNTED}]})

    keep.count = count
    return keep
