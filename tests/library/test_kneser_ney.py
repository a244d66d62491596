"""Kneser-Ney: probabilities sum to one, equal the formula by hand, and PTB's published figure."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lab import corpora
from course_lib.data import folders
from course_lib.errors import CourseError
from course_lib.models.kneser_ney import KneserNey, Ngrams

EOS, N = 0, 6
texts = st.lists(st.integers(0, N - 1), min_size=1, max_size=60)


def naive(train, history, word, order, discounts):
    """p(word | history) by the formula, with dictionaries; the history begins with <s>."""
    lines, line = [], ["<s>"]
    for token in train:
        line.append(token)
        if token == EOS:
            lines.append(line)
            line = ["<s>"]
    lines += [line] if len(line) > 1 else []
    grams = [Counter() for _ in range(order + 1)]
    for line in lines:
        for end in range(1, len(line)):
            for length in range(1, order + 1):
                if end - length + 1 >= 0:
                    grams[length][tuple(line[end - length + 1 : end + 1])] += 1

    def adjusted(gram):
        if len(gram) == order or gram[0] == "<s>":
            return grams[len(gram)][gram]
        return len({longer[0] for longer in grams[len(gram) + 1] if longer[1:] == gram})

    def probability(context, word):
        lower = probability(context[1:], word) if context else 1 / N
        after = {w: adjusted((*context, w)) for w in range(N)}
        total = sum(after.values())
        if not total:
            return lower
        table = discounts[len(context)]
        taken = {w: min(table[min(a, 3)], a) for w, a in after.items()}
        return (after[word] - taken[word] + sum(taken.values()) * lower) / total

    return probability(tuple(history[-(order - 1) :] if order > 1 else ()), word)


@settings(max_examples=60, deadline=None)
@given(texts, texts, st.integers(1, 4), st.booleans())
def test_it_is_the_formula(train, text, order, modified):
    model = KneserNey.fit(train, EOS, N, order, modified)
    tables = [o.discounts for o in model.orders]
    history, expected = ["<s>"], []
    for token in text:
        expected.append(math.log(naive(train, history, token, order, tables)))
        history = ["<s>"] if token == EOS else [*history, token]
    np.testing.assert_allclose(model.log_prob(text), expected, rtol=1e-12, atol=1e-12)


def distribution(model, context):
    """p(w | context) of every word: the text of all its continuations, a line each."""
    lines = [[*context, word, EOS] for word in range(model.vocabulary)]
    return np.exp(model.log_prob(np.ravel(lines)).reshape(model.vocabulary, -1)[:, -2])


@settings(max_examples=60, deadline=None)
@given(texts, texts, st.integers(1, 5), st.booleans())
def test_probabilities_sum_to_one_and_none_is_zero(train, context, order, modified):
    p = distribution(KneserNey.fit(train, EOS, N, order, modified), context)
    assert p.shape == (N,) and (p > 0).all()
    assert p.sum() == pytest.approx(1, abs=1e-12)


def test_a_line_knows_nothing_of_the_line_before():
    model = KneserNey.fit([1, 2, EOS, 3, 4, EOS] * 5, EOS, N, order=5)
    one, other = model.log_prob([1, 2, EOS, 3]), model.log_prob([5, 5, EOS, 3])
    assert one[-1] == other[-1]


def test_discounts_are_chen_and_goodmans():
    """n₁ = 4, n₂ = 2, n₃ = 1, n₄ = 1 of unigrams: Y = 1/2, D = ½, 1 + ¼, 3 - 2."""
    train = [1, 2, 3, 4, *[5] * 2, *[6] * 2, *[7] * 3, *[8] * 4]
    (order,) = KneserNey.fit(train, EOS, 9, order=1).orders
    np.testing.assert_allclose(order.discounts, [0, 0.5, 1.25, 1.0])
    (plain,) = KneserNey.fit(train, EOS, 9, order=1, modified=False).orders
    np.testing.assert_allclose(plain.discounts, [0, 0.5, 0.5, 0.5])


def test_no_word_is_impossible_where_an_estimated_discount_is_out_of_range():
    """Many n-grams that occur three times make 2 − 3Y n₃/n₂ negative: a discount of 0 would leave
    nothing over for words that have not followed a context of such n-grams."""
    pairs = [(1, 2)] * 2 + [(1 + i % 4, 3 + i // 4) for i in range(12) for _ in range(3)]
    pairs += [(i, 9) for i in range(1, 6)]
    train = [word for pair in pairs for word in (*pair, EOS)]
    model = KneserNey.fit(train, EOS, 12, order=2)
    for context in range(1, 12):
        assert (distribution(model, [context]) > 0).all()


@pytest.mark.parametrize(
    ("tokens", "order", "message"),
    [
        ([], 2, "a list of words"),
        ([[1, 2]], 2, "shape"),
        ([1, N], 2, "words are numbers from 0 to 5"),
        ([-1], 2, "words are numbers from 0 to 5"),
        ([1], 0, "order must be a whole number of at least 1"),
    ],
)
def test_bad_texts_are_refused(tokens, order, message):
    with pytest.raises(CourseError, match=message):
        KneserNey.fit(tokens, EOS, N, order)


@pytest.mark.skipif(
    not (folders.corpora() / "ptb").is_dir(), reason="ptb is not here: data fetch ptb"
)
def test_five_grams_of_the_penn_treebank_have_the_published_perplexity():
    """141.2 (Mikolov et al. 2011, KN5 without cutoffs), and longer contexts never hurt."""
    corpus = corpora.load("ptb")
    values = [
        KneserNey.fit(corpus.train, corpus.eos, len(corpus), n).perplexity(corpus.test)
        for n in (1, 2, 3, 4, 5)
    ]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(141.2, rel=0.01)


def test_the_size_counts_each_ngram_once_and_the_start_of_a_line_as_a_word():
    """Two lines `a b` and `a b`: the words s a b e, then sa ab be, then sab abe."""
    model = KneserNey.fit([0, 1, 2, 0, 1, 2], eos=2, vocabulary=3, order=3)
    assert model.size() == 4 + 3 + 2
    assert Ngrams(2, modified=False).fit([0, 1, 2], eos=2, vocabulary=3).size() == 4 + 3
