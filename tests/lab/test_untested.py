"""Kept results that may be missing: blanks in their place, and a sentence that says so."""

import math
import shutil

import numpy as np
import pandas as pd
import pytest

from course_lab import plans, results, side_by_side, statistics, tables, untested
from course_lab.statistics import mean_interval
from course_lib.errors import CourseError


@pytest.fixture
def said(monkeypatch):
    sentences = []
    monkeypatch.setattr(untested, "say", sentences.append)
    return sentences


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """The plan of lesson 6, of which the kept results lie in a folder of their own."""
    plan = plans.read_plan("lessons-06")
    shutil.copy(results.kept_folder() / "ngrams.json", tmp_path)
    for planned in plan.runs:
        shutil.copytree(results.kept_folder() / planned.key, tmp_path / planned.key)
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    return plan


def test_a_blank_is_no_number_whatever_is_asked_of_it():
    blank = untested.Blank()
    assert math.isnan(blank["metrics"]["geometry"].get("drift")) and list(blank) == []
    assert {"seed": 1} | blank == {"seed": 1}
    frame = pd.DataFrame({"p": [blank, 2.0]})
    assert frame.p.dtype == float and frame.p.mean() == 2.0
    assert np.array([blank, 1.0]).shape == (2,)


def test_a_run_that_is_not_kept_is_blank_and_is_told(plan, said):
    whole = untested.read(plan.runs)
    assert whole[0] == results.read_kept(plan.runs[0].key) and not said
    shutil.rmtree(results.kept_folder() / plan.runs[1].key)
    first, second, *_ = untested.read(plan.runs)
    assert first == whole[0] and math.isnan(second["metrics"]["test_perplexity"])
    (sentence,) = said
    assert sentence.startswith(f"Of {len(plan.runs)} runs") and sentence.endswith("untested.")
    damaged = results.kept_folder() / plan.runs[0].key / "result.json"
    damaged.write_text(damaged.read_text().replace("perplexity", "perplexitas"))
    with pytest.raises(CourseError, match="checksum"):
        untested.read(plan.runs)


def test_a_table_keeps_the_rows_of_models_without_results(plan, said):
    whole = tables.table_of(plan, "tied").models
    pd.testing.assert_frame_equal(untested.table_of(plan, "tied").models, whole)
    for planned in plan.runs:
        if planned.recipe.endswith("centred"):
            shutil.rmtree(results.kept_folder() / planned.key)
    models = untested.table_of(plan, "tied").models
    assert list(models.index) == list(whole.index)
    assert models.verdict["centred"] == untested.UNTESTED and math.isnan(models.p["centred"])
    kept = models.index[~models.index.str.startswith("centred")]
    pd.testing.assert_frame_equal(models.loc[kept, ["perplexity"]], whole.loc[kept, ["perplexity"]])
    assert "untested" in said[0]
    for planned in plan.runs:
        shutil.rmtree(results.kept_folder() / planned.key, ignore_errors=True)
    table = untested.table_of(plan, "tied")
    assert set(table.models.verdict) == {untested.UNTESTED} and "Kneser-Ney 5" in table.ngrams
    assert untested.drawn(table.models, 2.0, "none").axes[0].get_title() == untested.UNTESTED
    with pytest.raises(CourseError, match="unknown baseline 'tide'"):
        untested.table_of(plan, "tide")


def test_a_mean_leaves_blanks_out():
    values = [1.0, 2.0, 4.0]
    assert untested.mean([*values, untested.Blank()]) == mean_interval(values)
    assert untested.mean([3.0]) == (3.0, 3.0, 3.0, 0.0, 1)
    assert untested.interval([]) == untested.UNTESTED
    assert untested.interval([3.0], 1) == "3.0"
    assert untested.interval(values, 1).startswith("2.3 [")


def test_pairs_and_methods_are_rows_of_the_plans_table(plan):
    model, baseline = "cosine weight=10.0", "tied init=0.1"
    rows = untested.compared(plan, {"pair": (model, baseline)})
    expected = tables.table_of(plan, baseline).models.loc[model]
    assert rows.loc["pair", "p"] == expected.p
    mean, low, high = (expected[f"difference{end}"] for end in ("", " low", " high"))
    assert untested.difference(rows.loc["pair"]) == f"{mean:+.1f} % [{low:+.1f}, {high:+.1f}]"
    best = pd.DataFrame({"method": ["a", "a", "b"], "model": [baseline, baseline, model]})
    judged = side_by_side.judged(best, "lessons-06", "a")
    assert judged.p["b"] == expected.p and judged.verdict["a"] == "baseline"


def test_a_rank_correlation_leaves_out_what_is_not_known():
    x, y = [1.0, 2.0, math.nan, 3.0, 4.0], [2.0, 1.0, 5.0, 3.0, 4.0]
    known = untested.spearman(x, y)
    assert known == statistics.spearman([1.0, 2.0, 3.0, 4.0], [2.0, 1.0, 3.0, 4.0])
    few = untested.spearman(x[:4], y[:4])
    assert few.n == 3 and math.isnan(few.r)
