"""The leaderboard: what a budget says of a first session, and the order of the counted texts."""

import json
from types import SimpleNamespace

from course_lab import evidence, leaderboard
from course_lab.evidence import Setting

TEXT = '{"kind": "ptb", "options": {}}'


def told(tokens: float, start_from: str | None = None) -> SimpleNamespace:
    """Return a run of so many tokens."""
    origin = {"device": "AMD EPYC", "threads": 1, "wall_seconds": 60, "tokens_seen": tokens}
    content = {"provenance": origin, "experiment": {"start_from": start_from}}
    return SimpleNamespace(content=content)


def test_a_budget_names_what_a_first_session_read():
    first, second = (Setting(name, "standard", "", TEXT) for name in ("a", "a/second-session"))
    settings = {first: {1: told(37e6), 2: told(39e6)}, second: {1: told(16e6, "a")}}
    of = SimpleNamespace(settings=settings)
    assert leaderboard.budget(of, first) == "38 M tokens, 1 min × 1"
    said = leaderboard.budget(of, second)
    assert said == "16 M tokens, 1 min × 1, after 38 M tokens of `a`"
    del settings[first]
    said = leaderboard.budget(of, second)
    assert said.endswith("after a first session `a` that is not kept")


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
