"""The embedded corpus: what counts as prose, the same text everywhere, its cache."""

import json
import re
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lab import corpora
from course_lab.corpora import docstrings as corpus_of
from course_lab.corpora.prose import sentences
from course_lib import data
from course_lib.data import folders
from course_lib.data.corpus import digest
from course_lib.errors import CourseError

SAMPLE = r'''
"""Compute the *mean* of ``a`` along 2 axes.

The :math:`\alpha`-weighted mean of the values, see :func:`numpy.mean` or `the guide
<https://example.org/x>`_ for more [1]_. It's the default of NumPy's 2-D arrays and
gives, e.g., 1.5e-3 as one would expect here::

    >>> mean([1, 2])

.. versionadded:: 1.2
   Some words that belong to the directive.

Parameters
----------
a : array_like
    Words that describe a parameter are left out.

Notes
-----
- An item of a list of prose
  that goes on in the next line.
- Another item uses ``a[0] + 1`` as its code.

A term on its own line
    Its definition is left out with it.

>>> print("an example that is no prose at all")

Examples
--------
Nothing from the examples is read, neither words nor code.
"""

def f():
    r"""Raw docstring of a function with \d escapes."""

class C:
    def method(self):
        """Method of a class, the words of a nested block.

            An indented block is not read as prose.

        The last words of the method.
        """
    text = """A string that is not a docstring is left out."""
'''

EXPECTED = [
    "compute the mean of a along N axes .",
    "the <math> weighted mean of the values , see numpy.mean or <url> for more .",
    "it 's the default of numpy 's N-d arrays and gives , e.g. , N as one would expect here :",
    "an item of a list of prose that goes on in the next line .",
    "another item uses <code> as its code .",
    "raw docstring of a function with d escapes .",
    "method of a class , the words of a nested block .",
    "the last words of the method .",
]


def test_prose_is_kept_and_everything_else_left_out():
    assert list(sentences(corpus_of.docstrings(SAMPLE))) == EXPECTED


def test_indentation_and_line_ends_do_not_matter():
    """Python 3.13 strips a docstring's indentation itself; the result must be the same."""
    body = '"""First line of a docstring.\n\n{0}Second paragraph of it,\n{0}going on.\n{0}"""\n'
    flat = list(corpus_of.docstrings(body.format("")))
    for indent in ("    ", "\t"):
        source = "def f():\n" + indent + body.format(indent)
        assert list(corpus_of.docstrings(source)) == flat
        assert list(corpus_of.docstrings(source.replace("\n", "\r\n"))) == flat


def test_no_warning_for_the_packages_own_escapes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(corpus_of.docstrings('"""A \\d that no string knows."""')) == [
            "A \\d that no string knows."
        ]


@given(st.text())
def test_any_text_becomes_plain_tokens(text):
    for sentence in sentences([text]):
        for token in sentence.split(" "):
            assert token and re.fullmatch(r"[!-~]+", token)
            assert token.replace("N", "") == token.replace("N", "").lower()


@given(st.from_regex(r"[a-zA-Z_./]{1,30}", fullmatch=True))
def test_a_file_belongs_to_one_split(path):
    assert corpus_of.split_of(path) == corpus_of.split_of(path) in data.SPLITS


def test_the_pins_are_those_of_the_constraints():
    listed = (Path(__file__).parents[2] / "constraints.txt").read_text().lower().split()
    for name, version in corpus_of.pinned().items():
        assert f"{name}=={version}" in listed


def test_the_embedded_corpus_is_the_pinned_one():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corpus = corpora.load("docstrings")
    assert tuple(len(getattr(corpus, split)) for split in data.SPLITS) == corpus_of.TOKENS
    assert len(corpus) == corpus_of.WORDS == 10_000 and corpus.sha256 == corpus_of.SHA256
    assert 1_000_000 < sum(corpus_of.TOKENS) < 1_050_000
    assert corpus.counts[corpus.unk] < 0.02 * len(corpus.train)
    common = corpus.counts.topk(20).indices
    assert {"the", "of", "a", "is", "<eos>"} <= {corpus.words[i] for i in common}


def test_its_frequencies_are_zipfian():
    counts = corpora.load("docstrings").counts.sort(descending=True).values[10:5000].double().log()
    ranks = torch.arange(11, 5001).double().log()
    slope = torch.linalg.lstsq(torch.stack([ranks, torch.ones_like(ranks)], 1), counts[:, None])
    assert -1.5 < slope.solution[0, 0] < -0.8


def test_no_sentence_twice_and_none_in_two_splits():
    texts = corpus_of.cached_texts(corpus_of.installed())
    rows = [row for split in data.SPLITS for row in texts[split].splitlines()]
    assert len(rows) == len(set(rows))


# the cache and other versions, with two small packages in place of the real ones


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Two packages of one file each; returns their folder."""
    for package in ("one", "two"):
        (tmp_path / package / "tests").mkdir(parents=True)
        rows = "".join(f'def f{i}():\n    """Words of {package} {"x" * i}."""\n' for i in range(99))
        for i in range(30):
            (tmp_path / package / f"m{i}.py").write_text(rows.replace(".", f" {'y' * i} number."))
        (tmp_path / package / "tests" / "t.py").write_text('"""Words of a test are not read."""')
    found = {"one": ("one", "1.0"), "two": ("two", "2.0")}
    monkeypatch.setattr(corpus_of, "PACKAGES", found)
    monkeypatch.setattr(corpus_of, "root_of", lambda package: tmp_path / package)
    monkeypatch.setattr(corpus_of, "installed", lambda: {"one": "1.0", "two": "2.0"})
    monkeypatch.setattr(folders, "cache", lambda: tmp_path / "cache")
    texts = corpus_of.extract({package: tmp_path / package for package in found})
    sha256 = {split: corpus_of.digest(text) for split, text in texts.items()}
    monkeypatch.setattr(corpus_of, "SHA256", sha256)
    return tmp_path


def test_a_file_goes_whole_to_one_split(packages):
    texts = corpus_of.cached_texts({"one": "1.0"})
    assert all(texts.values()) and "test" not in texts["train"]
    files = {
        split: {(line.split()[2], line.split()[-3]) for line in text.splitlines() if "yyy" in line}
        for split, text in texts.items()
    }
    assert not files["valid"] & files["test"] and not files["train"] & files["valid"]


def test_the_text_is_cached_and_a_damaged_cache_is_made_anew(packages, monkeypatch):
    texts = corpus_of.cached_texts(corpus_of.installed())
    (path,) = (packages / "cache").glob("*.json")
    assert not list((packages / "cache").glob("*.part"))
    calls = []
    monkeypatch.setattr(corpus_of, "extract", lambda roots: calls.append(1) or texts)
    assert corpus_of.cached_texts(corpus_of.installed()) == texts and not calls
    whole = path.read_text()
    changed = json.loads(whole)
    changed["content"]["train"] += "more\n"
    for damaged in (whole[: len(whole) // 2], "", "{}", "[]", json.dumps(changed)):
        path.write_text(damaged)
        assert corpus_of.cached_texts(corpus_of.installed()) == texts
        assert path.read_text() == whole
    assert len(calls) == 5
    corpus_of.cached_texts({"one": "1.1", "two": "2.0"})
    assert len(calls) == 6  # other versions, another text


def test_a_cache_that_cannot_be_written_is_no_error(packages, monkeypatch):
    (packages / "file").write_text("")
    monkeypatch.setattr(folders, "cache", lambda: packages / "file" / "cache")
    assert all(corpus_of.cached_texts(corpus_of.installed()).values())


def test_other_versions_warn_with_the_hash(packages, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = corpora.load("docstrings").sha256["train"]
    monkeypatch.setattr(corpus_of, "installed", lambda: {"one": "1.0", "two": "2.1"})
    with pytest.warns(UserWarning, match=f"two 2.1 for 2.0 .SHA-256 of train {expected}"):
        corpora.load("docstrings")


def test_an_edited_package_is_noticed(packages):
    for path in (packages / "one").glob("*.py"):
        path.write_text(path.read_text() + '\n\ndef g():\n    """These words are new here."""\n')
    with pytest.raises(CourseError, match="the pinned ones but their text is not .*train.*--all"):
        corpora.load("docstrings")


def test_an_edited_package_that_is_mended_is_read_again(packages):
    """Its text had been kept in the cache, and an error told to install what was there."""
    path = packages / "one" / "m0.py"
    before = path.read_text()
    path.write_text(before + '\n\ndef g():\n    """These words are new here."""\n')
    with pytest.raises(CourseError, match="their text is not"):
        corpora.load("docstrings")
    assert not list((packages / "cache").glob("*.json"))
    path.write_text(before)
    texts = corpus_of.cached_texts(corpus_of.installed())
    assert corpora.load("docstrings").sha256 == corpus_of.digests(texts)
    (kept,) = (packages / "cache").glob("*.json")
    old = {split: text + "more\n" for split, text in texts.items()}  # of an older course
    kept.write_text(json.dumps({"sha256": digest(json.dumps(old)), "content": old}))
    assert corpus_of.cached_texts(corpus_of.installed()) == texts


def test_a_package_that_is_missing(monkeypatch):
    monkeypatch.setitem(corpus_of.PACKAGES, "absent", ("no-such-package-here", "1.0"))
    with pytest.raises(CourseError, match="no-such-package-here is not installed"):
        corpora.load("docstrings")
