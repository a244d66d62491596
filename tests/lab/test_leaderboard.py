"""The leaderboard: budgets, the order of the counted texts, and the board of the desk."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from course_lab import comparison, evidence, leaderboard
from course_lab.evidence import Setting
from course_lab.planned import Planned

TIED = "ptb/vd-lstm-200/tied"
SECOND = f"{TIED}/second-session"
TEXT = '{"kind": "ptb", "options": {}}'


class Results(SimpleNamespace):
    """Runs by setting and seed."""

    first = evidence.Evidence.first


def told(tokens: float, setting: Setting, change: dict | None = None) -> SimpleNamespace:
    """Return a run of so many tokens."""
    origin = {"device": "AMD EPYC", "threads": 1, "wall_seconds": 60, "tokens_seen": tokens}
    experiment = Planned(setting.recipe, setting.profile, 1, change or {}).experiment()
    content = {"provenance": origin, "experiment": experiment.to_dict(), "epochs": []}
    return SimpleNamespace(content=content, figure=lambda _: evidence.minutes(content))


def test_a_budget_names_what_a_first_session_read():
    first, second = (Setting(name, "standard", "", TEXT) for name in (TIED, SECOND))
    settings = {first: {1: told(37e6, first), 2: told(39e6, first)}}
    settings |= {second: {1: told(16e6, second)}}
    of = Results(settings=settings)
    assert leaderboard.budget(of, first) == "38 M tokens, 1 min × 1"
    said = leaderboard.budget(of, second)
    assert said == f"16 M tokens, 1 min × 1, after 38 M tokens of `{TIED}`"
    del settings[first]
    said = leaderboard.budget(of, second)
    assert said.endswith(f"after a first session `{TIED}` that is not kept")


def test_a_first_session_is_that_of_the_same_settings():
    first, small = (Setting(TIED, "standard", variant, TEXT) for variant in ("", "size=300"))
    second = Setting(SECOND, "standard", "size=300", TEXT)
    settings = {first: {1: told(37e6, first)}, second: {1: told(16e6, second, {"size": 300})}}
    of = Results(settings=settings)
    assert leaderboard.budget(of, second).endswith(f"`{TIED} size=300` that is not kept")
    settings[small] = {1: told(5e6, small, {"size": 300})}
    assert leaderboard.budget(of, second).endswith(f"after 5 M tokens of `{TIED} size=300`")
    settings[second][1].content["experiment"]["output_layer"] = {"kind": "Theirs", "options": {}}
    assert leaderboard.budget(of, second).endswith("that is not known here")


def test_every_kept_second_session_has_a_first_one_in_its_budget():
    of = evidence.read()
    rows = leaderboard.rows(of)
    second = rows.run.fillna("").str.contains("second-session")
    assert second.any() and rows.budget[second].str.contains("after .* M tokens of").all()
    assert not rows.budget[~second].fillna("").str.contains("after").any()


def test_the_counted_texts_are_in_the_order_of_their_length():
    of = evidence.read()
    texts = leaderboard.counted_texts(of)
    assert sorted(texts) == sorted(of.ngrams)
    told = [json.loads(text) for text in texts]
    of_corpus: dict[str, list[float]] = {}
    for text in told:
        train = text["options"].get("small", {}).get("train", float("inf"))
        of_corpus.setdefault(text["kind"], []).append(train)
    assert all(lengths == sorted(lengths) for lengths in of_corpus.values())
    rows = leaderboard.rows(of)
    titles = [evidence.title_of(text) for text in texts]
    assert list(dict.fromkeys(rows.text[rows.tier == "counted"])) == titles


def test_the_board_has_each_recipe_of_the_desk_once(kept):
    """A run with another setting is no row, and minutes are those of a core where there is one."""
    for seed, perplexity in enumerate((90.0, 92.0, 94.0), 1):
        kept("ptb/desk/tied", seed, perplexity, profile="standard")
    ranked = {"press_rank": 2490, "contexts": 2500, "words": 10_000}
    kept("ptb/desk/mos", 1, 80.0, profile="standard", log_prob=ranked)
    kept("ptb/desk/mos", 1, 70.0, {"optimisation.epochs": 4}, profile="standard")
    of = evidence.read()
    for run in of.runs:
        run.content["provenance"] |= {"wall_seconds": 600 * run.seed, "peak_memory_mb": 500}
        run.content["provenance"]["device"] = "NVIDIA H200" if run.seed == 3 else "AMD EPYC, AVX512"
    board = leaderboard.board(of)
    assert set(board.index) >= {"tied", "mos", "tied/sgd-alone", "spectrum-mos"}
    assert list(board.index[:2]) == ["mos", "tied"] and board.index.is_unique
    tied = board.loc["tied"]
    assert (tied.n, tied.ours, tied.minutes, tied.MB) == (3, 92.0, 15.0, 500)
    assert tied.low < 90 and tied.high > 94
    assert tied.machine == "2 × AMD EPYC, 1 × NVIDIA H200"
    assert (board.tier.iloc[2:] == "recipe only").all()
    shown = leaderboard.board_shown(board)
    assert list(shown["Press' rank"]) == ["≥ 2490", ""]  # the contexts limit the one
    assert list(shown["test perplexity"])[0] == "80.00" and "[" in shown["test perplexity"]["tied"]


def test_what_seeds_show_is_told_for_the_pairs_with_the_baseline(kept):
    for seed, (tied, cosine) in enumerate([(90.0, 91.0), (90.0, 92.0), (90.0, 92.5)], 1):
        kept("ptb/desk/tied", seed, tied, profile="standard")
        kept("ptb/desk/cosine", seed, cosine, profile="standard")
    kept("ptb/desk/mos", 1, 80.0, profile="standard")
    of = evidence.read()
    table = leaderboard.seeds_of_family(of)
    assert list(table.index) == ["cosine"]
    row = table.loc["cosine"]
    d = 100 * np.log(np.array([91, 92, 92.5]) / 90)
    assert (row.pairs, row.sd) == (3, pytest.approx(d.std(ddof=1)))
    assert comparison.paired_power(row.detectable, row.sd, 3) == pytest.approx(0.8)
    assert row.corrected > row.detectable
    assert row["seeds for 2 %"] == comparison.seeds_for(2.0, row.sd)


def test_a_list_without_a_rho_is_no_score():
    """The cosines of a matrix that has collapsed are all the same."""
    lists = {"WS-353": {"found": 200, "rho": None, "rho_centred": 0.2}}
    content = {"metrics": {"word_similarity": lists}}
    assert evidence.similarity(content) is None
    assert evidence.similarity(content, "rho_centred") == pytest.approx(0.2)
