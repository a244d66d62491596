"""Exercises that check themselves: what is said, what is recorded, and what a damaged file does."""

import json
import math
import os
import re
from datetime import datetime, timedelta

import numpy as np
import pytest
import torch

from course_lab import progress
from course_lib.errors import CourseError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A reader with a record of their own."""
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "mine"))
    monkeypatch.delenv("COURSE_EXERCISES", raising=False)
    return tmp_path / "mine"


@pytest.fixture
def strict(monkeypatch):
    monkeypatch.setenv("COURSE_EXERCISES", "strict")


def said(capsys, answer, right, exercise="06.1"):
    assert progress.check(exercise, answer, right) is None
    return capsys.readouterr().out


def half(answer):
    """Right at one half, with a sentence for what is twice as large."""
    return "twice as large: and the two?" if answer == 1 else answer == 0.5


def boom(answer):
    raise ValueError("no such angle")


@pytest.mark.parametrize(
    ("answer", "right", "sentence"),
    [
        (None, boom, "Exercise 06.1 is not tried yet."),
        (0.5, half, "Exercise 06.1 is right."),
        (3, half, "Exercise 06.1 is not right yet."),
        (1, half, "Exercise 06.1 is not right yet: twice as large: and the two?"),
        (1, boom, "Exercise 06.1 is not right yet: trying it ended in ValueError: no such angle"),
    ],
)
def test_one_sentence_says_how_the_answer_is(capsys, folder, answer, right, sentence):
    assert said(capsys, answer, right) == sentence + "\n"
    assert list(progress.recorded()) == (["06.1"] if sentence.endswith("is right.") else [])
    assert (folder / "progress.json").exists() == (answer == 0.5)


@pytest.mark.parametrize(
    "answer",
    [math.nan, np.nan, torch.tensor([1.0, math.nan]), {"a": [0.5, (np.array(math.nan), 1)]}],
)
def test_what_is_not_a_number_is_never_right(capsys, answer):
    """Though it is not wrong either by any comparison."""
    assert "NaN, or has one in it" in said(capsys, answer, lambda _: True)
    finite = (0.5, [1, torch.ones(2)], {"a": "nan"}, int, "nan", lambda: math.nan)
    assert "is right." in said(capsys, finite, lambda _: True)


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_numpy_and_pytorch_may_judge(capsys, kind):
    assert "is right." in said(capsys, 1, lambda _: kind([2.0]) == 2)
    assert "is right." in said(capsys, 1, lambda _: kind(2.0) == 2)
    assert "not right yet." in said(capsys, 1, lambda _: kind(2.0) == 3)


def test_an_answer_of_the_wrong_shape_is_not_right(capsys):
    text = said(capsys, torch.ones(3), lambda answer: answer == 1)
    assert text.startswith("Exercise 06.1 is not right yet: trying it ended in RuntimeError")
    assert "3 elements" in text


@pytest.mark.parametrize("verdict", [None, (True, "a message"), [True]])
def test_a_check_that_gives_no_verdict_never_says_right(capsys, verdict):
    assert "not right yet" in said(capsys, 1, lambda _: verdict)


@pytest.mark.parametrize("name", ["6.1", "06", "06.0", "06.1 ", "06-1", "", 6.1, None])
def test_a_bad_name_is_refused(name):
    with pytest.raises(CourseError, match=r"as '06\.1', not"):
        progress.check(name, 1, lambda _: True)


def test_the_first_date_stays_and_the_file_is_sorted(capsys, folder):
    first = datetime(2026, 3, 1, 12, 30).astimezone()
    folder.mkdir()
    (folder / "progress.json").write_text(json.dumps({"06.1": first.isoformat()}))
    for name in ("06.1", "11.2", "01.1"):
        assert said(capsys, 1, lambda _: True, name) == f"Exercise {name} is right.\n"
    right = progress.recorded()
    assert list(right) == ["01.1", "06.1", "11.2"] and right["06.1"] == first
    now = datetime.now().astimezone()
    assert now - timedelta(minutes=2) < right["11.2"] <= now
    assert re.search(r'"06.1": "2026-03-01T12:30', (folder / "progress.json").read_text())


def test_an_answer_that_is_wrong_later_stays_recorded(capsys):
    said(capsys, 0.5, half)
    said(capsys, 3, half)
    assert list(progress.recorded()) == ["06.1"]


@pytest.mark.parametrize(
    "content", ["", '{"06.1": ', "[1]", '"text"', '{"06.1": "yesterday"}', '{"06.1": 3}', "\0\xff"]
)
def test_a_damaged_file_is_set_aside_and_told_once(capsys, folder, content):
    folder.mkdir()
    (folder / "progress.damaged-1.json").write_text("an older one")
    (folder / "progress.json").write_bytes(content.encode("latin-1"))
    lines = said(capsys, 1, lambda _: True).splitlines()
    assert lines[0] == "Exercise 06.1 is right."
    assert re.fullmatch(r".*progress\.json was damaged; it is now progress\.damaged-2\.json,.*",
                        lines[1])  # fmt: skip
    assert (folder / "progress.damaged-1.json").read_text() == "an older one"
    assert (folder / "progress.damaged-2.json").read_bytes() == content.encode("latin-1")
    assert list(progress.recorded()) == ["06.1"]
    assert capsys.readouterr().out == ""


def test_a_write_that_is_cut_off_leaves_the_old_record(capsys, folder, monkeypatch):
    said(capsys, 1, lambda _: True)
    before = (folder / "progress.json").read_bytes()

    def cut_off(*files):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", cut_off)
    text = said(capsys, 1, lambda _: True, "06.2")
    assert text.startswith("Exercise 06.2 is right.\nIt could not be recorded in ")
    assert "No space left on device; set COURSE_PROGRESS" in text
    assert (folder / "progress.json").read_bytes() == before


def test_a_record_that_cannot_be_made_does_not_hide_that_the_answer_is_right(capsys, folder):
    folder.write_text("a file where the folder should be")
    text = said(capsys, 1, lambda _: True)
    assert text.startswith("Exercise 06.1 is right.\nIt could not be recorded in ")


def test_without_a_setting_the_record_lies_with_the_runs(monkeypatch):
    from course_lib.data import folders

    monkeypatch.delenv("COURSE_PROGRESS")
    assert progress.progress_file() == folders.home() / "runs" / "progress.json"


@pytest.mark.parametrize(("answer", "right"), [(None, half), (3, half), (1, half), (1, boom)])
def test_strictly_all_but_right_is_an_error_and_nothing_is_recorded(strict, folder, answer, right):
    with pytest.raises(progress.NotRight, match="Exercise 06.1 is not"):
        progress.check("06.1", answer, right)
    progress.check("06.1", 0.5, half)
    assert not folder.exists()


def test_strictly_the_reason_is_kept(strict):
    with pytest.raises(progress.NotRight) as raised:
        progress.check("06.1", 1, boom)
    assert isinstance(raised.value.__cause__, ValueError)
