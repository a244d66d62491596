"""The kept counts of words are those of the corpus."""

import numpy as np
import pytest

from course_lab import corpora
from course_lab.corpora.frequencies import kept_counts, rows_of
from course_lab.corpora.registry import DOWNLOADS
from course_lib.errors import CourseError


def test_rows_say_how_many_words_come_how_often():
    table = rows_of("mine", np.array([1, 7, 1, 0, 7, 1]))
    assert table.to_numpy().tolist() == [["mine", 7, 2], ["mine", 1, 3], ["mine", 0, 1]]


def test_the_kept_counts_have_as_many_words_and_tokens_as_is_published():
    counts = kept_counts("wikitext-2")
    published = DOWNLOADS["wikitext-2"]
    assert len(counts) == published.words and counts.sum() == published.sizes[0]
    assert (np.diff(counts) <= 0).all()
    with pytest.raises(CourseError, match="wikitext-2"):
        kept_counts("wikitext-3")


def test_the_kept_counts_are_those_of_the_corpus():
    try:
        corpus = corpora.load("wikitext-2")
    except CourseError as error:
        pytest.skip(f"WikiText-2 is not here: {error}")
    assert (kept_counts("wikitext-2") == np.sort(corpus.counts.numpy())[::-1]).all()
