"""What kept models predict: contexts in print and ours, groups of words, calibration, tokens."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from course_lab import (
    claims,
    evidence,
    families,
    gaps,
    likely_words,
    predicting,
    predictions,
    published,
    ranks,
    results,
    similarities,
    token_gains,
)
from course_lab.planned import Planned
from tests import evidence_sample


@pytest.fixture(scope="module")
def of(tmp_path_factory):
    """The evidence of runs whose truth is known."""
    folder = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(results, "kept_folder", lambda: folder)
        evidence_sample.keep(folder)
        yield evidence.read()


@pytest.fixture(scope="module")
def runs(of):
    return predictions.chosen(of)


def test_the_context_of_most_methods_is_chosen(runs):
    assert predictions.name_of(runs) == "ptb/desk"
    assert {run.method for run in runs} == set(evidence_sample.METHODS)
    assert predictions.name_of([]) == ""


def test_validation_decides_between_two_contexts_of_as_many_runs(runs):
    """Else the split whose predictions are compared would choose what is compared."""

    def of_tokens(tokens, **figures):
        told = [run.content | {"provenance": {"tokens_seen": tokens}} for run in runs]
        told = [one | {"metrics": one["metrics"] | figures} for one in told]
        return [replace(run, content=one) for run, one in zip(runs, told, strict=True)]

    better = of_tokens(5, valid_perplexity=80.0, test_perplexity=99.0)
    both = [*of_tokens(6, valid_perplexity=90.0, test_perplexity=70.0), *better]
    assert predictions.chosen(evidence.Evidence(tuple(both), (), {})) == better


def test_methods_of_another_precision_are_marked(runs):
    assert families.other_precisions(runs) == {}
    options = runs[0].content["experiment"]["optimisation"]
    assert options["precision"] == "bf16"
    told = [run.content | {"experiment": run.content["experiment"] | {
        "optimisation": options | {"precision": "fp32" if run.method == "gss" else "bf16"}
    }} for run in runs]  # fmt: skip
    changed = [replace(run, content=one) for run, one in zip(runs, told, strict=True)]
    assert families.other_precisions(changed) == {"gss": "gss (fp32)"}
    assert families.other_precisions(run for run in changed if run.method != "tied") == {}


def test_a_family_declares_the_methods_of_its_recipes():
    assert families.declared("ptb/transformer-128") == {"sigsoftmax", "gss", "plif", "mos", "moc"}
    assert families.declared("ptb/desk/…/sgd", "untied") == {"tied", "cosine", "spectrum-control"}
    assert families.declared("no such family") == set()


def test_the_correction_counts_methods_that_have_no_runs_yet(runs):
    losses = predictions.by_group(runs)
    noise = np.random.default_rng(0).normal(0, 0.01, len(losses))
    losses = losses.assign(loss=losses.loss + noise)
    few, many = (
        predictions.differences(losses, "group", "loss", "tied", declared=n) for n in (0, 37)
    )
    assert len(few) == 12 and few.index.levshape == (4, 3)
    least = few.p.idxmin()
    assert many.p[least] == pytest.approx(37 * 3 / 12 * few.p[least]) and many.p[least] < 1
    assert (predictions.differences(losses, "group", "loss", "tied", declared=2).p == few.p).all()


def test_the_printed_contexts_are_the_places_that_results_keep():
    places = published.contexts("S2")
    assert set(places.place) < set(predicting.PLACES["ptb"]) and len(places) == 18
    printed = likely_words.printed_words()
    known = dict(zip(places.number, places.place, strict=True))
    assert (printed.context.map(known) == printed.place).all()
    assert (published.contexts("4").phrase != "").all()


def test_shares_of_all_tokens_are_of_the_runs_that_keep_them(runs):
    shares = likely_words.right_of_all(runs)
    assert shares.loc["mos"].tolist() == [3, "20.0 [20.0, 20.0]", "42.0 [42.0, 42.0]"]
    older = {"metrics": {"predictions": {"places": {}}}}
    some = [run if run.seed == 1 else replace(run, content=older) for run in runs]
    some = [run for run in some if run.method != "tied" or run.seed > 1]
    shares = likely_words.right_of_all(some)
    assert shares.loc["mos"].tolist() == [1, "20.0", "42.0"] and "tied" not in shares.index


def test_the_order_over_all_tokens_is_held_against_that_of_the_contexts(runs):
    right = pd.DataFrame({"among five": [0.3, 0.2]}, index=["mos, ours", "tied, ours"])
    told = likely_words.orders_told(runs, right)
    assert told.startswith("Over all tokens of the test split `mos`, the best method by validation")
    assert "42.0 % [42.0, 42.0], and `tied` in 40.0 %" in told
    assert told.endswith("The eighteen contexts have the two in the same order: 30 % and 20 %.")
    assert "in another order: 10 %" in likely_words.orders_told(
        runs, right.assign(**{"among five": [0.1, 0.2]})
    )
    assert likely_words.orders_told(runs, right[:0]).endswith("40.0, 40.0].")
    assert likely_words.orders_told([r for r in runs if r.method == "mos"], right) == ""


def test_the_best_method_among_five_is_that_of_validation(runs):
    """The share among five is of the test split, which must not choose whom it is told of."""
    lucky = {"1": 0.2, "5": 0.9}
    told = [
        replace(
            run, content={"metrics": run.content["metrics"] | {"predictions": {"among": lucky}}}
        )
        if run.method == "gss"
        else run
        for run in runs
    ]
    assert "`mos`, the best method" in likely_words.orders_told(
        told, pd.DataFrame({"among five": []})
    )


def test_a_model_that_loses_to_counting_is_sorted_out(of, runs):
    assert predictions.sort_out(of, runs) == (runs, [])
    unknown = evidence.Evidence(of.runs, (), {})
    assert predictions.sort_out(unknown, runs) == (runs, [])
    counted = {text: {evidence.COUNTING: 1.0} for text in of.ngrams}
    assert predictions.sort_out(evidence.Evidence(of.runs, (), counted), runs) == ([], runs)


def test_right_words_are_counted_by_method_and_source(runs):
    ours, printed = likely_words.own_words(runs), likely_words.printed_words()
    right = likely_words.right_words(ours, printed)
    assert right.loc["mos, ours"].tolist() == [18, 0, 1]
    assert right.loc["tied, ours", "among five"] == 0
    rows = printed[(printed.method == "mos**")]
    words = dict(zip(published.contexts("S2").place, published.contexts("S2").next, strict=True))
    hits = [words[place] in set(g.word) for place, g in rows.groupby("place")]
    assert right.loc["mos**, printed", "among five"] == np.mean(hits)


def test_models_stand_beside_those_in_print(runs):
    ours, printed = likely_words.own_words(runs), likely_words.printed_words()
    table = likely_words.beside(ours, printed, 2700)
    assert table.loc["softmax, printed", 1] == "tons 0.90"
    assert table.loc["mos, ours", 2] == "tons 0.20" and table.shape[1] == 5
    pairs = likely_words.pairs_of_lists(ours, printed)
    shared = likely_words.shared_words(pairs)
    assert shared.loc["two seeds of one method", "shared of five"] == 5
    # Of five methods the mixture alone has another word: 4 pairs of 10 share four, the others five,
    # but for the one place whose right word all models have among theirs.
    assert 4.6 <= shared.loc["two methods of one seed", "shared of five"] < 4.7
    assert shared.pairs["two methods of one seed"] == 18 * 10 * 3
    assert shared.pairs["two methods of two seeds"] == 18 * 10 * 6
    told = likely_words.apart_told(pairs)
    assert "of one method share 5.00. The difference is 0.40" in told
    assert told.endswith("the lists tell methods apart.")
    alike = pairs.assign(shared=pairs.place % 5 + 0.0)
    assert likely_words.apart_told(alike).endswith("the lists do not tell methods apart.")
    alike.loc[alike.kind == "two seeds of one method", "shared"] += 0.1
    assert likely_words.apart_told(alike).endswith("the lists hardly tell methods apart.")
    assert likely_words.apart_told(likely_words.pairs_of_lists(ours[:0], printed)) == ""


def test_two_seeds_stand_on_both_sides_of_the_comparison_of_lists():
    """Methods of one seed share their start, which two seeds of one method do not."""
    places = published.contexts("S2").place[:2]
    rows = []
    for method in ("a", "b"):
        for seed in (1, 2):
            for place in places:
                words = [f"{seed}{i}" for i in range(3)] + ["x", f"{method}{place}"]
                row = {"method": method, "seed": seed, "place": place, "probability": 0.1}
                rows += [row | {"rank": rank, "word": word} for rank, word in enumerate(words, 1)]
    pairs = likely_words.pairs_of_lists(pd.DataFrame(rows), likely_words.printed_words()[:0])
    shared = likely_words.shared_words(pairs)["shared of five"]
    assert shared["two methods of one seed"] == 4 and shared["two seeds of one method"] == 2
    told = likely_words.apart_told(pairs)
    assert told.startswith(
        "Two methods of two seeds share 1.00 of five words, and two seeds of one"
    )
    assert "The difference is 1.00" in told


def test_the_gain_is_found_where_it_is(runs):
    losses = predictions.by_group(runs)
    table = predictions.differences(losses, "group", "loss", "tied")
    row = table.loc[("mos", "1 to 9")]
    assert row.verdict == "lower" and row.n == 3
    assert row.difference == pytest.approx(-100 * (evidence_sample.GAIN - 0.02), abs=3)
    assert table.verdict[("mos", "10,000 and more")] == "no difference larger than 1 hundredth"
    by_frequency = predictions.gaps(losses, "mos", "tied")
    assert by_frequency.shape == (3, 2)
    assert by_frequency.mean(0) == pytest.approx([row.difference, 0])
    assert predictions.occurrences(predictions.decades(losses)) == [1, 10_000]
    tokens = losses.groupby("group", sort=False).tokens.first()
    told = predictions.frequency_told(table.drop("<unk>", level="group", errors="ignore"), tokens)
    assert told.startswith(
        "Losses differ most at words that occur 1 to 9 times: from the tied soft"
    )
    assert told.endswith("0 of 4 methods differ by more than 0.2 nats.")
    nothing = predictions.differences(losses[:0], "group", "loss", "tied")
    assert nothing.empty and nothing.index.names == ["method", "group"]
    assert "no method is compared" in predictions.frequency_told(nothing, tokens)


def test_watched_words_are_compared_elsewhere(runs):
    table = predictions.differences(predictions.watched(runs), "word", "elsewhere", "untied")
    rows = table.loc["tied-augmented"]
    assert rows.difference.tolist() == pytest.approx([-100 * evidence_sample.LESS] * 4)
    assert set(rows.verdict) == {"lower"}


def test_an_undecided_verdict_says_how_many_seeds_would_decide(runs):
    losses = predictions.by_group(runs)
    shaken = losses.assign(loss=losses.loss + losses.seed * (losses.method == "gss"))
    table = predictions.differences(shaken, "group", "loss", "tied")
    assert table.verdict[("gss", "1 to 9")].endswith("seeds would decide")


def test_a_word_that_was_lucky_where_it_was_chosen_gains_nothing_where_it_is_measured():
    blocks = np.arange(40 * token_gains.BLOCK) // token_gains.BLOCK
    tokens = np.where(np.arange(len(blocks)) % 2, "steady", "lucky")
    gain = np.where(tokens == "steady", 0.5, np.where(blocks % 2, 0.0, 1.0))
    table = token_gains.by_word(gain, tokens, most=1)
    assert list(table.index) == ["lucky", "steady"]
    assert table.chosen.tolist() == pytest.approx([0.5, 0.25])
    assert table.gain.tolist() == pytest.approx([0, 0.5])
    assert table.part.tolist() == pytest.approx([0, 0.25])
    assert table.tokens.tolist() == [1000, 1000] and table.loc["lucky", "high"] == 0


def test_the_words_of_a_test_split_are_named_where_the_text_is_here(runs):
    experiment = Planned("docstrings/transformer-128/tied", "smoke", 1, {}).experiment()
    corpus = experiment.load_corpus()
    run = SimpleNamespace(content={"experiment": experiment.to_dict()})
    words = token_gains.tokens_of(run, len(corpus.test))
    assert list(words[:3]) == [corpus.words[i] for i in corpus.test[:3]]
    assert token_gains.tokens_of(run, 5) is None
    run.content["experiment"]["corpus"] = {"kind": "no such text", "options": {}}
    assert token_gains.tokens_of(run, 5) is None


def test_the_calibration_error_is_weighed_by_tokens(runs):
    errors = predictions.calibration_error(predictions.calibration(runs))
    assert errors["mean"]["tied"] == pytest.approx(0.02)
    assert errors.confident["tied"] == pytest.approx(0.02)
    assert errors["mean"]["mos"] == pytest.approx(0) and errors.n["mos"] == 3
    likeliest = predictions.likeliest(predictions.calibration(runs)).set_index("method").T
    assert likeliest["tied"].probability - likeliest["tied"].right == pytest.approx(0.02)
    assert likeliest["tied"].error == pytest.approx(0.02)


def test_bins_of_opposite_sign_do_not_cancel():
    rows = {"method": "m", "seed": 1, "bin": [0, 1], "tokens": [300, 100]}
    rows |= {"probability": [0.1, 0.8], "right": [0.2, 0.5]}
    (error,) = predictions.calibration_error(pd.DataFrame(rows)).itertuples()
    assert error.mean == pytest.approx((300 * 0.1 + 100 * 0.3) / 400)
    assert error.confident == pytest.approx(0)
    of_one = (300 * 0.2 * 0.8 + 100 * 0.5 * 0.5) ** 0.5 / 400
    assert error._asdict()["_6"] == pytest.approx(of_one)  # the standard error
    two = pd.concat([pd.DataFrame(rows), pd.DataFrame(rows | {"seed": 2})])  # of the same tokens
    assert predictions.calibration_error(two)["standard error"].item() == pytest.approx(of_one)


def test_classes_by_both_losses_show_no_regression_to_the_mean():
    rng = np.random.default_rng(0)
    base = rng.gamma(2.0, 2.2, 50_000)
    ours, theirs = ({1: base + np.abs(rng.standard_normal(len(base)))} for _ in range(2))
    table = token_gains.by_likelihood(ours, theirs)
    assert (table.gain.abs() < 0.05).all()  # by one of the two it would be half a nat
    assert ((table.low < 0.02) & (table.high > -0.02)).all()


def test_a_seed_of_another_text_is_left_out_of_every_figure():
    ours, theirs = {1: np.ones(4), 2: np.ones(5)}, {1: np.full(4, 2.0), 2: np.ones(4)}
    assert token_gains.gained(ours, theirs).tolist() == [1.0] * 4
    (row,) = token_gains.by_likelihood(ours, theirs).itertuples()
    assert (row.tokens, row.gain) == (4, 1)


def test_tokens_that_gain_are_told_by_both_losses(runs):
    first, second = token_gains.two(runs)
    assert (first.name, second.name) == ("tied", "mos")
    theirs, ours = (token_gains.token_losses(t.runs.values()) for t in (first, second))
    gain = token_gains.gained(ours, theirs)
    rare = evidence_sample.RARE
    assert len(gain) == evidence_sample.TOKENS
    assert gain[rare:] == pytest.approx(0) and gain[:rare].mean() > 0.5
    low, high = token_gains.bootstrap(gain)
    assert low < gain.mean() < high and low > 0
    table = token_gains.by_likelihood(ours, theirs)
    assert table.part.sum() == pytest.approx(gain.mean())
    assert table.tokens.sum() == evidence_sample.TOKENS
    assert token_gains.concentration(gain, [0, rare / len(gain), 1]) == pytest.approx([0, 1, 1])
    follows = likely_words.next_words(runs)
    place = published.contexts("4").place[0]
    likely = np.mean([np.exp(-x[place]) for x in theirs.values()])
    assert follows.loc["federal", "tied"] == pytest.approx(likely)
    assert predictions.samples(runs)["mos"] == "a sample of mos"


def test_the_best_method_is_compared_even_if_another_has_more_seeds(runs):
    """Else a method that loses would stand where the question is whence a gain comes."""
    fewer = [run for run in runs if (run.method, run.seed) != ("mos", 3)]
    first, second = token_gains.two(fewer)
    assert (first.name, second.name, list(second.runs)) == ("tied", "mos", [1, 2])
    single = [run for run in runs if run.method != "mos" or run.seed == 1]
    assert token_gains.two(single)[1].name != "mos"


def test_the_split_whose_tokens_are_compared_does_not_choose(runs):
    turned = []
    for run in runs:
        metrics = run.content["metrics"] | {"test_perplexity": 1000 if run.method == "mos" else 1}
        turned.append(replace(run, content=run.content | {"metrics": metrics}))
    assert token_gains.two(turned)[1].name == "mos"


def test_a_negative_gain_is_called_a_loss(runs):
    pair = token_gains.two(runs)
    gain = np.full(1_000, 0.25)
    told = token_gains.gain_told(pair, gain, 3)
    assert told.startswith("`mos` gains 0.250 nats a token [0.250, 0.250] against `tied`")
    assert told.endswith("seeds in common: 3")
    assert "loses 0.250 nats a token [0.250" in token_gains.gain_told(pair, -gain, 3)


def test_without_a_second_method_no_tokens_are_compared(runs):
    assert token_gains.two([run for run in runs if run.method == "tied"]) == ()
    assert token_gains.two([]) == ()


def test_a_bootstrap_over_blocks_sees_that_neighbours_hang_together():
    rng = np.random.default_rng(0)
    blocks = rng.standard_normal(200)
    gain = np.repeat(blocks, token_gains.BLOCK)
    low, high = token_gains.bootstrap(gain)
    by_blocks = 2 * 1.96 * blocks.std() / np.sqrt(len(blocks))
    assert high - low == pytest.approx(by_blocks, rel=0.15)
    some = np.where(np.arange(len(gain)) % 2, gain, np.nan)
    assert token_gains.bootstrap(some) == pytest.approx((low, high), abs=0.03)


def test_the_ledger_reads_predictions_and_pairs(of):
    rows = claims.ledger(of)
    words = rows.loc["inan2017-frequent-words"]
    assert words.verdict == "agrees" and words.n == 3
    right, wrong = 100 * np.log([0.04, 0.05])
    assert words.ours == pytest.approx(right - wrong, abs=1)
    assert rows.loc["parthiban2021-similarity", "method"] == "ptb/desk/mos standard"
    figure = next(run for run in of.runs if run.method == "mos").figure
    assert figure("predictions/among/5") == 0.42 and figure("test_perplexity") > 1
    five = rows.loc["parthiban2021-top-5"]
    assert five.n == 3 and five.ours == pytest.approx(100 * np.log(0.42 / 0.4))


def test_the_grid_of_a_plan_has_every_cell(of):
    cells = ranks.grid(of)
    assert len(cells) == 72 and cells.notna().all().all()
    truth = [evidence_sample.grid_truth(row.c, row.k) for row in cells.itertuples()]
    assert cells["rank"].tolist() == [rank for rank, _ in truth]
    over = ranks.over_grid(cells)
    r = np.corrcoef(*np.log(cells[["rank", "perplexity"]]).to_numpy().T)[0, 1]
    assert over.correlation["all cells"].startswith(f"r = {r:+.2f}")
    assert over.spread["all cells"] == 1 and 0.2 < over.spread["the middle 50%"] < 0.9
    some = evidence.Evidence(of.runs[:20], (), {})
    assert ranks.grid(some).perplexity.isna().any() and len(ranks.grid(some)) == 72
    assert "batch run gss-grid" in evidence.done_of(some, "gss-grid")
    assert evidence.done_of(of, "gss-grid").startswith("All 72 runs")


def test_a_gap_that_falls_like_a_root_has_that_slope(of):
    table = gaps.decay(of)
    assert len(table) == 36 and table.n.nunique() == 4 and table["γ"].nunique() == 3
    slopes = gaps.slopes(table)
    assert slopes.slope.tolist() == pytest.approx([-0.5] * 3) and (slopes.seeds == 3).all()
    trade = gaps.remark(table)
    first, last = (
        np.mean([evidence_sample.gap_truth(gamma, 15_000, seed) for seed in (1, 2, 3)])
        for gamma in (table["γ"].min(), table["γ"].max())
    )
    assert trade.gap[15_000] == pytest.approx(100 * (last - first))
    assert (trade["gap high"] < 0).all() and trade.train[15_000] == pytest.approx(
        -trade.gap[15_000]
    )
    assert gaps.slopes(table[table.n < 60_000]).slope.isna().all()  # two sizes make no line


def test_scores_of_pairs_tell_frequency_from_meaning(of):
    lists = similarities.at_hand()
    best = similarities.with_pairs(of)[0]
    assert best.setting.recipe == "ptb/desk/mos"
    pairs = similarities.pairs_of(best, lists)
    table = similarities.by_kind(pairs, resamples=50)
    assert (table.pairs.xs("raw", level="kind") == [353, 999]).all()
    raw, whole = (table.xs(kind, level="kind") for kind in ("raw", "whitened"))
    assert (raw.frequency < -0.99).all() and (raw.rho.abs() < 0.15).all()
    assert (whole.rho > 0.99).all() and (whole.frequency.abs() < 0.15).all()
    assert ((raw.low < raw.rho) & (raw.rho < raw.high)).all()
    other = next(run for run in of.runs if run.setting.recipe == "ptb/desk-part/spectrum-control")
    assert similarities.pairs_of(other, lists).empty
    assert similarities.by_kind(similarities.pairs_of(other, lists)).empty


def test_holding_frequency_fixed_gives_back_what_it_hides():
    rng = np.random.default_rng(0)
    score, often = rng.standard_normal((2, 4_000))
    cosine = 0.5 * score - 3 * often
    assert similarities.rank_correlation(cosine, score) < 0.25
    assert similarities.held_fixed(cosine, score, often) > 0.7
    assert abs(similarities.held_fixed(-often + 1e-3 * score, rng.permutation(score), often)) < 0.1
