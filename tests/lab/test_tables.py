"""Plans as tables: what stands there is what the kept results say."""

import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from course_lab import evidence, plans, plots, results, tables
from course_lab.cli import application
from course_lab.comparison import compare
from course_lab.planned import Planned
from course_lib.data import folders
from course_lib.errors import CourseError
from course_lib.models.kneser_ney import KneserNey


@pytest.fixture
def plan():
    """A plan that names no baseline, so that the first model is it."""
    return replace(plans.read_plan("lessons-06"), baselines=())


def undeclared(plan):
    """The text of a plan's file without its baseline and margin."""
    return re.sub(r"(?m)^(baseline|margin) = .*\n", "", plan.path.read_text("utf-8"))


def by_hand(plan):
    """The perplexities of the cosine weights by seed, read from the files alone."""
    scores = {}
    for planned in plan.runs:
        content = json.loads((results.kept_folder() / planned.key / "result.json").read_text())
        scores.setdefault(planned.variant + planned.recipe, {})
        scores[planned.variant + planned.recipe][planned.seed] = content["metrics"][
            "test_perplexity"
        ]
    return scores


def test_a_table_is_the_comparison_of_what_the_files_say(plan):
    table = tables.table_of(plan)
    scores = by_hand(plan)
    expected = compare(scores, next(iter(scores)))
    assert len(table.models) == len(expected)
    pd.testing.assert_frame_equal(
        table.models.reset_index(drop=True), expected.reset_index(drop=True)
    )
    assert not table.missing


def test_the_family_is_the_plans_and_pairs_of_two_kinds_of_devices_are_told(plan, monkeypatch):
    """The least p is the same while a model of the plan has no run yet."""
    whole = tables.table_of(plan)
    last = whole.models.p.idxmax()
    read = tables.done_result
    runs = [planned.experiment() for planned in plan.runs]

    def part(experiment):
        content = read(experiment)
        if experiment == runs[0]:
            content["provenance"]["device"] = "NVIDIA H200"
        name = tables.models_of(plan)[runs.index(experiment)]
        return None if name == last else content

    monkeypatch.setattr(tables, "done_result", part)
    table = tables.table_of(plan)
    least = whole.models.p.idxmin()
    assert table.models.p[least] == pytest.approx(whole.models.p[least])
    assert last not in table.models.index
    assert any("one run is of a GPU" in note for note in table.notes)


def test_a_plan_says_before_the_first_run_what_is_compared(plan, tmp_path):
    """Its baseline and margin are the table's, unless the reader names others."""
    text = undeclared(plan)
    declared = tmp_path / "declared.toml"
    declared.write_text(
        text.replace("[[runs]]", 'baseline = "cosine weight=10.0"\nmargin = 5.0\n[[runs]]', 1)
    )
    table = tables.table_of(plans.read_plan(declared))
    expected = tables.table_of(plan, "cosine weight=10.0", 5.0)
    pd.testing.assert_frame_equal(table.models, expected.models)
    assert table.models.loc["cosine weight=10.0", "verdict"] == "baseline"
    other = tables.table_of(plans.read_plan(declared), "tied", 2.0)
    pd.testing.assert_frame_equal(other.models, tables.table_of(plan).models)
    declared.write_text(text.replace("[[runs]]", "margin = -1.0\n[[runs]]", 1))
    with pytest.raises(CourseError, match="margin"):
        plans.read_plan(declared)


def test_a_plan_of_several_texts_may_name_a_baseline_for_each():
    """And says how it was tuned where its runs and its table are shown."""
    plan = plans.read_plan("lessons-05")
    first, second = tables.by_text(plan)
    for part, baseline in zip((first, second), plan.baselines, strict=True):
        verdicts = tables.table_of(part).models.verdict
        assert verdicts[baseline] == "baseline" and [*verdicts].count("baseline") == 1
    reordered = replace(first, baselines=plan.baselines[::-1])
    assert tables.table_of(reordered).models.verdict["untied"] == "baseline"
    with pytest.raises(CourseError, match="unknown baseline 'tide'; did you mean tied?"):
        tables.check_baseline(replace(plan, baselines=("untied", "tide")))
    for command in ("status", "table"):
        done = CliRunner().invoke(application(), ["batch", command, "lessons-05"])
        assert done.exit_code == 0 and f"how it was tuned: {plan.tuned}" in done.output


def test_the_desk_declares_its_family_and_its_budget():
    """Every model of such a plan has a place in it, and the baseline is one of them."""
    desks = [name for name in plans.plans() if name.startswith("desk")]
    assert len(desks) >= 4
    for name in desks:
        plan = plans.read_plan(name)
        assert plan.hours > len(plan.runs) * 0.1
        if name in ("desk", "desk-sgd", "desk-wikitext-2"):  # the others are no table
            assert {*plan.baselines} <= {*tables.models_of(plan)} and plan.baselines


def test_names_leave_out_what_all_runs_share(plan):
    names = tables.models_of(plan)
    assert len(set(names)) == len({p.recipe + p.variant for p in plan.runs})
    assert names[0] == "tied" and "cosine weight=10.0" in names


def test_settings_that_end_alike_have_their_whole_path():
    changes = [{"regularizers.0.weight": 2.0}, {"regularizers.1.weight": 2.0}]
    changes += [{"encoder.dropout": 0.4}, {}]
    runs = [
        SimpleNamespace(recipe="a/spectrum", profile="full", change=change) for change in changes
    ]
    assert tables.models_of(SimpleNamespace(runs=runs)) == [
        "spectrum regularizers.0.weight=2.0",
        "spectrum regularizers.1.weight=2.0",
        "spectrum dropout=0.4",
        "spectrum",
    ]


def test_runs_of_two_profiles_are_two_models(plan):
    runs = [Planned("ptb/vd-lstm-200/tied", profile) for profile in ("desk", "standard")]
    both = replace(plan, runs=(*runs, Planned("ptb/vd-lstm-200/baseline", "desk")))
    assert tables.models_of(both) == ["tied desk", "tied standard", "baseline"]
    twice = replace(plan, runs=(runs[0], runs[0]))
    with pytest.raises(CourseError, match="2 runs of .* as tied, seed 1; put them into plans"):
        tables.table_of(twice)


def test_a_mistyped_baseline_is_told_before_any_run(plan, tmp_path):
    file = tmp_path / "mine.toml"
    text = undeclared(plan)
    file.write_text(text.replace("[[runs]]", 'baseline = "tide"\n[[runs]]', 1), "utf-8")
    for command in ("run", "status"):
        done = CliRunner().invoke(application(), ["batch", command, str(file)])
        assert "unknown baseline 'tide'; did you mean tied?" in str(done.exception)
    # a table is refused before anything of it is printed
    wrong = {"--baseline": "tide", "--margin": "-1", "--split": "train", "--plot": "picture.jpg"}
    for option, value in wrong.items():
        done = CliRunner().invoke(application(), ["batch", "table", plan.path.stem, option, value])
        assert value in str(done.exception) and not done.output
    with pytest.raises(CourseError, match="unknown baseline 'tied'"):
        tables.check_baseline(plans.read_plan("desk-multi30k"), "tied")


def test_a_table_tells_a_models_seeds_from_its_pairs_with_the_baseline(plan, monkeypatch):
    """The baseline lacks one of the seeds that the others have."""
    read, first = tables.done_result, plan.runs[0].experiment()
    monkeypatch.setattr(tables, "done_result", lambda e: None if e == first else read(e))
    table = tables.table_of(plan, baseline="tied")
    written = tables.worded(table)
    others = [name for name in table.models.index if name != "tied"]
    assert (written.n["tied"], written.pairs["tied"]) == ("2", "")
    assert set(written.n[others]) == {"3"} and set(written.pairs[others]) == {"2"}
    ax = plots.differences(table.models, 2.0).axes[0]
    assert ax.get_xlabel().endswith("(2 pairs each)")


def test_the_n_grams_are_those_of_the_same_text(plan):
    corpus = plan.runs[0].experiment().load_corpus()
    model = KneserNey.fit(corpus.train, corpus.eos, len(corpus), 3)
    table = tables.table_of(plan, split="valid")
    assert table.ngrams["Kneser-Ney 3"] == pytest.approx(model.perplexity(corpus.valid))
    assert list(table.ngrams) == ["unigram", "Kneser-Ney 3", "Kneser-Ney 5"]
    assert "n-gram" in tables.printed(table)


def test_kept_n_grams_of_the_same_text_are_not_counted_again(plan, tmp_path, monkeypatch):
    """Those of another text, or of another split of it, are."""
    digests = plan.runs[0].experiment().load_corpus().sha256
    kept = {"text": "?", "valid": {"unigram": 1.5}, "test": {"unigram": 2.5}}
    tables_kept = [kept | {"corpus_sha256": digests}, kept | {"corpus_sha256": {"train": "?"}}]
    for rows, expected in ((tables_kept[:1], 2.5), (tables_kept[1:], None), ([], None)):
        monkeypatch.setattr(results, "read_table", lambda name, rows=rows: {"rows": rows})
        counted = tables.table_of(plan).ngrams["unigram"]
        assert counted == expected if expected else counted > 50
    assert tables.kept_ngrams(None, "test") == {}


def test_a_table_of_perplexities_has_the_n_grams_of_its_text(plan):
    """The text is a corpus, or the digests or the name of one; the other columns stay blank."""
    experiment = plan.runs[0].experiment()
    corpus = experiment.load_corpus()
    name = evidence.text_of(experiment.to_dict())
    frame = pd.DataFrame({"test perplexity": [91.25], "cosine": [0.5]}, index=["tied"])
    expected = tables.kept_ngrams(corpus.sha256, "test")
    for text in (corpus, corpus.sha256, name):
        table = tables.with_ngrams(frame, text, digits=2)
        assert list(table.index) == ["tied", "unigram", "Kneser-Ney 3", "Kneser-Ney 5"]
        assert table.loc["tied"].to_list() == [91.25, 0.5]
        assert table["test perplexity"].iloc[1:].to_list() == [
            f"{perplexity:.2f}" for perplexity in expected.values()
        ]
        assert set(table.cosine.iloc[1:]) == {""}
    both = frame.rename(columns={"cosine": "valid"}).set_index([["tied"], [1]])
    table = tables.with_ngrams(both, corpus, valid="valid")
    assert table.loc[("Kneser-Ney 5", ""), "valid"] != table.iloc[-1]["test perplexity"]
    assert both.index.nlevels == table.index.nlevels == 2


def test_n_grams_that_are_not_kept_are_counted_or_said_to_be_missing(plan, monkeypatch):
    corpus = plan.runs[0].experiment().load_corpus()
    frame = pd.DataFrame({"perplexity": [91.25]}, index=["tied"])
    counted = tables.with_ngrams(frame, corpus, test="perplexity")
    monkeypatch.setattr(results, "read_table", lambda name: {"rows": []})
    pd.testing.assert_frame_equal(tables.with_ngrams(frame, corpus, test="perplexity"), counted)
    missing = tables.with_ngrams(frame, "another", test="perplexity")
    assert missing.perplexity.iloc[1:].to_list() == ["not kept"] * 3


def test_the_desk_model_is_within_its_tiers_bounds():
    """At most 25 minutes of one core, 95 in test perplexity, and better than counting."""
    table = tables.table_of(plans.read_plan("desk"))
    tied = table.models.loc["tied"]
    assert tied.perplexity <= 95 < table.ngrams["Kneser-Ney 5"]
    [folder] = [f for f in results.kept_results() if f.match("ptb/desk/tied/standard-seed1")]
    provenance = results.read_result(folder)["provenance"]
    assert provenance["threads"] == 1 and provenance["wall_seconds"] <= 25 * 60


@pytest.fixture
def copied(plan, tmp_path, monkeypatch):
    """The plan's kept results in a folder of their own."""
    for planned in plan.runs:
        shutil.copytree(results.kept_folder() / planned.key, tmp_path / planned.key)
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    return tmp_path


def test_a_damaged_or_missing_result_is_told_and_concerns_no_other(plan, copied):
    damaged, gone = plan.runs[0].key, plan.runs[-1].key
    text = (copied / damaged / "result.json").read_text()
    (copied / damaged / "result.json").write_text(text.replace("perplexity", "perplexitas"))
    shutil.rmtree(copied / gone)
    table = tables.table_of(plan)
    count, told = table.missing
    assert count == f"1 of {len(plan.runs)} runs, which are not done yet"
    assert told.startswith(damaged) and "checksum" in told
    assert table.models.loc["tied", "n"] == 2
    assert list(table.models.index) == list(dict.fromkeys(tables.models_of(plan)))


def test_results_that_no_table_can_be_made_of_are_told_each(plan, copied):
    def rewritten(planned, change):
        folder = copied / planned.key
        content = results.read_result(folder)
        del content["sha256"]
        change(content)
        content |= {"sha256": results._digest(content)}
        (folder / "result.json").write_text(json.dumps(content))

    rewritten(plan.runs[0], lambda c: c["metrics"].pop("test_perplexity"))
    rewritten(plan.runs[1], lambda c: c["provenance"].update(own_files=3))
    rewritten(plan.runs[2], lambda c: c["metrics"].update(test_perplexity=float("nan")))
    told = tables.table_of(plan).missing
    assert [line.split(":")[0] for line in told] == [run.key for run in plan.runs[:3]]
    assert "test_perplexity = None" in told[0] and "is not readable" in told[1]
    assert "test_perplexity = nan, which is no figure" in told[2]


def test_a_model_with_one_seed_in_common_has_no_verdict(plan, copied):
    for planned in plan.runs:
        if planned.recipe.endswith("centred") and planned.seed > 1:
            shutil.rmtree(copied / planned.key)
    verdicts = tables.table_of(plan).models["verdict"]
    assert verdicts["centred"] == "too few seeds in common"
    assert list(verdicts.index) == list(dict.fromkeys(tables.models_of(plan)))


def test_what_cannot_be_compared_says_why(plan, copied):
    with pytest.raises(CourseError, match="unknown baseline among the models with a result 'tide'"):
        tables.table_of(plan, baseline="tide")
    with pytest.raises(CourseError, match="margin must be a number above 0"):
        tables.table_of(plan, margin=0.0)
    with pytest.raises(CourseError, match="'valid' or 'test', not 'train'"):
        tables.table_of(plan, split="train")
    for planned in plan.runs:
        if planned.recipe.endswith("/tied"):
            shutil.rmtree(copied / planned.key)
    with pytest.raises(CourseError, match="no run of the baseline tied is done"):
        tables.table_of(plan, baseline="tied")
    for planned in plan.runs:
        shutil.rmtree(copied / planned.key, ignore_errors=True)
    with pytest.raises(CourseError, match=r"no run of .* is done; `batch run` does them"):
        tables.table_of(plan)


def test_each_text_has_its_own_table():
    parts = tables.by_text(plans.read_plan("inan2017-table-1"))
    kinds = [{p.experiment().corpus.kind for p in part.runs} for part in parts]
    assert kinds == [{"ptb"}, {"wikitext-2"}]


def test_translators_are_compared_by_bleu_of_which_more_is_better(tmp_path, monkeypatch):
    plan = plans.read_plan("desk-multi30k")
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    monkeypatch.setattr(folders, "home", lambda: tmp_path / "elsewhere")
    levels = {"softmax": 30.0, "cosine": 33.0, "adversarial": 27.0, "spectrum-control": 30.04}
    for planned in plan.runs:
        method = planned.recipe.split("/")[-1]
        by_seed = -planned.seed if method == "spectrum-control" else planned.seed
        bleu = levels[method] + by_seed / 100
        figures = {"test_bleu": bleu, "valid_bleu": bleu, "best_epoch": 1}
        figures |= {"test_perplexity": 200 - bleu, "valid_perplexity": 200 - bleu}
        results.write_result(tmp_path / planned.key, planned.experiment(), [], figures, {})
    (part,) = tables.by_text(plan)
    table = tables.table_of(part)
    verdicts = table.models.verdict
    assert verdicts["softmax"] == "baseline" and table.figure == "BLEU" and not table.ngrams
    assert (verdicts["cosine"], verdicts["adversarial"]) == ("better", "worse")
    assert verdicts["spectrum-control"] == "no difference larger than 2 %"
    row = table.models.loc["cosine"]
    by_seed = [100 * np.log((33 + s / 100) / (30 + s / 100)) for s in (1, 2, 3)]
    assert row.difference == pytest.approx(np.mean(by_seed))
    assert 0 < row["difference low"] < row.difference < row["difference high"]
    assert "BLEU" in tables.printed(table) and "perplexity" not in tables.printed(table)
    drawn = plots.differences(table.models, 2.0)
    assert drawn.axes[0].get_xlabel().startswith("BLEU against softmax")


def test_a_model_without_a_figure_costs_the_others_nothing(tmp_path, monkeypatch):
    """One seed of the first translator has a BLEU of 0, and one of the second has none."""
    plan = plans.read_plan("desk-multi30k")
    monkeypatch.setattr(results, "kept_folder", lambda: tmp_path)
    monkeypatch.setattr(folders, "home", lambda: tmp_path / "elsewhere")
    names = list(dict.fromkeys(tables.models_of(plan)))
    runs = list(zip(tables.models_of(plan), plan.runs, strict=True))
    for model, planned in runs:
        figures = {"test_perplexity": 9.0, "valid_perplexity": 9.0, "valid_bleu": 9.0}
        first = planned.seed == 1
        if not (model == names[1] and first):
            figures["test_bleu"] = 0.0 if model == names[0] and first else 30.0 + planned.seed
        results.write_result(tmp_path / planned.key, planned.experiment(), [], figures, {})
    table = tables.table_of(plan, baseline=names[2])
    assert names[0] not in table.models.index and table.models.n[names[1]] > 1
    said = " ".join(table.missing)
    assert "test_bleu" in said and f"{names[0]}: it has a BLEU of 0" in said
    # two such models are told in the order of the plan
    for model, planned in runs:
        if model in (names[1], names[3]):
            figures = {"test_perplexity": 9.0, "valid_perplexity": 9.0, "test_bleu": 0.0}
            results.write_result(tmp_path / planned.key, planned.experiment(), [], figures, {})
    missing = tables.table_of(plan, baseline=names[2]).missing
    said = [sentence.split(":")[0] for sentence in missing if "BLEU of 0" in sentence]
    assert said == [names[0], names[1], names[3]]
    with pytest.raises(CourseError, match=f"the baseline {names[0]} has a BLEU of 0"):
        tables.table_of(plan, baseline=names[0])


def test_the_command_prints_the_table_and_draws_it(tmp_path):
    picture = tmp_path / "differences.png"
    command = ["batch", "table", "lessons-06", "--baseline", "tied", "--plot", str(picture)]
    done = CliRunner().invoke(application(), command)
    assert done.exit_code == 0, done.output
    assert "baseline" in done.output and "Kneser-Ney 5" in done.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_picture_without_a_difference_stops_no_other_text(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    path = tmp_path / "two.toml"
    path.write_text(
        'title = "t"\n[[runs]]\nrecipes = ["ptb/vd-lstm-200/tied", "wikitext-2/vd-lstm-200/tied"]\n'
    )
    figures = {"test_perplexity": 9.0, "valid_perplexity": 9.0}
    for planned in plans.read_plan(path).runs:
        folder = results.run_folder(planned.experiment())
        results.write_result(folder, planned.experiment(), [], figures, {})
    picture = str(tmp_path / "picture.png")
    done = CliRunner().invoke(application(), ["batch", "table", str(path), "--plot", picture])
    assert done.exit_code == 0, done.output
    assert done.output.count("picture: none, for no model has a difference") == 2


def test_the_frame_has_every_kept_result_and_its_figures(plan):
    paths = [results.kept_folder() / planned.key for planned in plan.runs[:5]]
    frame = results.frame(paths)
    for path, planned in zip(paths, plan.runs, strict=False):
        row, content = frame.loc[str(path)], results.read_result(path)
        assert (row.recipe, row.seed) == (planned.recipe, planned.seed)
        assert row.test_perplexity == content["metrics"]["test_perplexity"]
        cosine = content["metrics"]["geometry"]["mean_cosine"]
        assert row["geometry.mean_cosine"] == cosine
