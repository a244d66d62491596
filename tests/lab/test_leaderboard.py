"""The leaderboard: what a budget says of a first session, and the order of the counted texts."""

import json
from types import SimpleNamespace

from course_lab import evidence, leaderboard
from course_lab.evidence import Setting
from course_lab.planned import Planned

TIED = "ptb/vd-lstm-200/tied"
SECOND = f"{TIED}/second-session"
TEXT = '{"kind": "ptb", "options": {}}'


def told(tokens: float, setting: Setting, change: dict | None = None) -> SimpleNamespace:
    """Return a run of so many tokens."""
    origin = {"device": "AMD EPYC", "threads": 1, "wall_seconds": 60, "tokens_seen": tokens}
    experiment = Planned(setting.recipe, setting.profile, 1, change or {}).experiment()
    content = {"provenance": origin, "experiment": experiment.to_dict()}
    return SimpleNamespace(content=content)


def test_a_budget_names_what_a_first_session_read():
    first, second = (Setting(name, "standard", "", TEXT) for name in (TIED, SECOND))
    settings = {first: {1: told(37e6, first), 2: told(39e6, first)}}
    settings |= {second: {1: told(16e6, second)}}
    of = SimpleNamespace(settings=settings)
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
    of = SimpleNamespace(settings=settings)
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
