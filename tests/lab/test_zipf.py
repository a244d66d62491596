"""The synthetic language against brute force: frequencies, rank, entropy, samples."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lab import corpora
from course_lib.errors import CourseError

LANGUAGES = [{}, {"rank": 5}, {"components": 3}]


def language(**options):
    return corpora.load("zipf", **{"N": 60, "d": 6, "states": 20, "tokens": 3000, **options})


def by_loops(truth) -> torch.Tensor:
    """The naive oracle: P(next | last) for every pair of words, (N, N)."""
    N = len(truth.bias)
    P = torch.zeros(N, N, dtype=torch.float64)
    for word in range(N):
        s = truth.states[word]
        for k in range(truth.contexts.shape[1]):
            logits = truth.word_matrix @ truth.contexts[s, k] + truth.bias
            P[word] += truth.log_weights[s, k].exp() * logits.softmax(0)
    return P


@pytest.mark.parametrize("options", LANGUAGES)
def test_log_prob_is_the_mixture_it_claims(options):
    truth = language(**options).truth
    found = truth.log_prob(torch.arange(60).view(3, 20))
    assert found.shape == (3, 20, 60)
    torch.testing.assert_close(found.exp().view(60, 60), by_loops(truth), rtol=1e-12, atol=0)


@pytest.mark.parametrize("options", LANGUAGES)
def test_stationary_frequencies_are_zipf_and_entropy_is_exact(options):
    truth = language(**options).truth
    P = by_loops(truth)
    system = torch.cat([P.T - torch.eye(60, dtype=torch.float64), torch.ones(1, 60).double()])
    right = torch.zeros(61, 1, dtype=torch.float64)
    right[-1] = 1
    stationary = torch.linalg.lstsq(system, right).solution[:, 0]
    law = 1 / torch.arange(1, 61, dtype=torch.float64)
    torch.testing.assert_close(stationary, law / law.sum(), rtol=1e-9, atol=0)
    entropy = -(stationary[:, None] * P * P.log()).sum()
    assert abs(truth.entropy - entropy.item()) < 1e-10


@given(st.integers(2, 8), st.data())
@settings(max_examples=15, deadline=None)
def test_one_softmax_has_the_rank_asked_for(d, draw):
    rank = draw.draw(st.integers(3, d + 2))
    truth = language(d=d, rank=rank).truth
    singular = np.linalg.svd(truth.matrix.numpy(), compute_uv=False)
    assert truth.rank == rank
    assert singular[rank - 1] > 1e-6 * singular[0] > 1e5 * singular[rank]


def test_a_mixture_exceeds_the_bound_of_a_softmax():
    assert language().truth.rank == 6 + 2
    assert language(components=3).truth.rank == 20


@pytest.mark.parametrize("options", LANGUAGES)
def test_samples_reach_the_entropy_floor(options):
    corpus = language(**options, tokens=60_000)
    assert abs(corpus.truth.nll(corpus.train) - corpus.truth.entropy) < 0.02
    share = corpus.counts.double() / len(corpus.train)
    torch.testing.assert_close(share, corpus.truth.unigram, rtol=0, atol=0.006)
    pairs = torch.zeros(20, 60)
    states = corpus.truth.states[corpus.train[:-1]]
    pairs.index_put_((states, corpus.train[1:]), torch.ones(len(states)), accumulate=True)
    busiest = corpus.truth.stationary.argmax()
    found = pairs[busiest] / pairs[busiest].sum()
    torch.testing.assert_close(found, corpus.truth.matrix[busiest].exp().float(), rtol=0, atol=0.02)


def test_no_model_beats_the_truth():
    corpus = language(tokens=60_000)
    uniform_mix = (0.9 * corpus.truth.matrix.exp() + 0.1 / 60).log()
    states = corpus.truth.states[corpus.train[:-1]]
    other = -uniform_mix[states, corpus.train[1:]].mean().item()
    assert other > corpus.truth.nll(corpus.train)


def test_deterministic_and_seeded():
    first, again, other = language(seed=3), language(seed=3), language(seed=4)
    assert torch.equal(first.train, again.train) and first.sha256 == again.sha256
    assert not torch.equal(first.train, other.train)
    assert (len(first.train), len(first.valid), len(first.test)) == (3000, 300, 300)
    assert first.words[first.eos] == "<eos>" and first.eos == 0


@pytest.mark.parametrize(
    "options, message",
    [
        ({"rank": 9}, "rank 9 is not between 3 and 8 = min"),
        ({"rank": 4, "components": 2}, "the rank of a mixture cannot be chosen"),
        ({"N": 2}, "zipf needs N >= 3 words"),
    ],
)
def test_impossible_languages_are_refused(options, message):
    with pytest.raises(CourseError, match=message):
        language(**options)
