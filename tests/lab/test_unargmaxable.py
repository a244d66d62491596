"""Words that can never win: known configurations, and certificates checked by themselves."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from course_lab.examine import unargmaxable
from course_lab.examine.unargmaxable import Verdicts, argmaxable_words, ceiling
from course_lib.errors import CourseError

pytestmark = pytest.mark.usefixtures("device")

few = settings(max_examples=10, deadline=None)
seeds = st.integers(0, 2**32 - 1)
CORNERS = [[1.0, 1], [1, -1], [-1, 1], [-1, -1]]


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def lead_of(W, i, h, bias=None):
    """The lead by its definition, in plain NumPy."""
    logits = np.asarray(W) @ h + (0 if bias is None else bias)
    return logits[i] - np.delete(logits, i).max()


def lead(W, i, h, bias=None):
    """The lead, less what rounding can have added."""
    b = np.zeros(len(W)) if bias is None else np.asarray(bias)
    size = np.linalg.norm(W, axis=1).max() * np.linalg.norm(h) + np.abs(b).max()
    return lead_of(W, i, h, b) - 2 * (len(h) + 4) * np.finfo(float).eps * size


def check(W, bias=None) -> Verdicts:
    """Verdicts whose every certificate holds; all words are decided, each once."""
    W = np.asarray(W, dtype=float)
    verdicts = argmaxable_words(W, bias)
    for i, h, ahead in zip(verdicts.words, verdicts.contexts, verdicts.leads, strict=True):
        if i in verdicts.argmaxable:
            assert lead_of(W, i, h, bias) >= ahead > 0 and lead(W, i, h, bias) > 0
        else:
            assert np.isnan(h).all() and np.isnan(ahead)
            slope, offset = ceiling(W, i, verdicts.weights[int(i)], bias)
            assert slope < 1e-8 and offset < 1e-8
    assert not len(verdicts.undecided)
    both = np.concatenate([verdicts.argmaxable, verdicts.unargmaxable])
    np.testing.assert_array_equal(np.sort(both), verdicts.words)
    return verdicts


@pytest.fixture(params=["both solvers", "_nearest", "_deepest"])
def solvers(request, monkeypatch):
    """Each solver alone decides what both do together, from a first step without an answer."""
    if request.param != "both solvers":
        solver = getattr(unargmaxable, request.param)
        monkeypatch.setattr(unargmaxable, "SOLVERS", (solver,))
        monkeypatch.setattr(unargmaxable, "ROWS", 2)


@pytest.mark.parametrize(
    "point, name",
    [((0.2, 0.3), "inside"), ((1.0, 0.3), "on an edge"), ((1.0, 1.0), "a twin of a corner")],
)
def test_a_point_of_the_hull_that_is_no_corner_never_wins(solvers, monkeypatch, point, name):
    monkeypatch.setattr(unargmaxable, "STEPS", 1)
    verdicts = check([*CORNERS, point])
    twin = name.startswith("a twin")
    assert verdicts.unargmaxable.tolist() == ([0, 4] if twin else [4])
    others, weights = verdicts.weights[4]
    np.testing.assert_allclose(weights @ np.array(CORNERS)[others], point, atol=1e-9)


def test_length_does_not_decide_but_the_hull_does():
    """The shortest row wins where it is a corner; a longer one loses where it is none."""
    W = [[0.1, 0.0], [5, 5], [5, -5], [4, 0], [5.0, 0.0]]
    assert check(W).unargmaxable.tolist() == [3, 4]


@few
@given(seeds, st.integers(5, 60), st.integers(2, 3))
def test_without_a_bias_the_corners_of_the_hull_win(seed, n, d):
    W = draw(seed, n, d)
    np.testing.assert_array_equal(check(W).argmaxable, np.sort(ConvexHull(W).vertices))


@few
@given(seeds, st.integers(5, 40))
def test_with_a_bias_the_upper_hull_of_rows_and_biases_wins(seed, n):
    """Word i wins somewhere if (w_i, b_i) is a corner of the hull seen from above: a corner of the
    facets whose normal points up."""
    W, bias = draw(seed, n, 2), draw(seed + 1, n)
    hull = ConvexHull(np.c_[W, bias])
    upper = np.unique(hull.simplices[hull.equations[:, 2] > 0])
    np.testing.assert_array_equal(check(W, bias).argmaxable, upper)


def test_solvers_agree_with_a_bias(solvers, monkeypatch):
    monkeypatch.setattr(unargmaxable, "STEPS", 1)
    W, bias = draw(3, 40, 3), draw(4, 40)
    assert check(W, bias).argmaxable.tolist() == by_definition(W, bias)


def by_definition(W, bias, bound=1e4):
    """The words that win, by a linear programme for each word over all its rivals at once."""
    n, d = W.shape
    winners = []
    for i in range(n):
        rivals = np.arange(n) != i
        programme = unargmaxable.linprog(
            [0.0] * d + [-1.0],
            A_ub=np.c_[W[rivals] - W[i], np.ones(n - 1)],
            b_ub=bias[i] - bias[rivals],
            bounds=[(-bound, bound)] * d + [(None, 1.0)],
        )
        if programme.x[-1] > 1e-7:
            winners.append(i)
    return winners


def test_a_bias_changes_the_answer():
    W = [*CORNERS, [0.0, 0.0]]
    assert check(W).unargmaxable.tolist() == [4]
    assert check(W, [0, 0, 0, 0, 1.0]).unargmaxable.tolist() == []
    assert check(W, [0, 0, 0, 0, -1.0]).unargmaxable.tolist() == [4]
    assert check(W, [-9.0, 0, 0, 0, 0]).unargmaxable.tolist() == [4]
    assert check([*CORNERS, [0.3, 0.1]], np.full(5, 0.1)).unargmaxable.tolist() == [4]


def test_of_twins_the_larger_bias_wins_and_equal_ones_never():
    W = [[1.0, 0], [1, 0], [-1, 0], [-1, 0], [0, 1]]
    assert check(W, [1.0, 0, 2, 2, 0]).unargmaxable.tolist() == [1, 2, 3]
    assert check(W).unargmaxable.tolist() == [0, 1, 2, 3]
    assert len(check(np.ones((4, 3))).unargmaxable) == 4


@few
@given(seeds, st.floats(1e-3, 1e3), st.booleans())
def test_moving_turning_and_scaling_the_rows_changes_nothing(seed, scale, biased):
    W, bias = draw(seed, 16, 3), draw(seed + 1, 16) if biased else None
    turn = np.linalg.qr(draw(seed + 2, 3, 3))[0]
    moved = scale * W @ turn + draw(seed + 3, 3) * 5
    first = check(W, bias)
    np.testing.assert_array_equal(check(moved, bias).argmaxable, first.argmaxable)
    if biased:  # a constant more for every word
        np.testing.assert_array_equal(check(W, bias + 7).argmaxable, first.argmaxable)


@few
@given(seeds, st.integers(2, 4), st.integers(3, 8))
def test_a_mixture_of_other_rows_never_wins_in_any_dimension(seed, hidden, d):
    """Also where the cloud is flat: rows in a subspace of lower dimension."""
    corners = draw(seed, 12, d)
    shares = np.random.default_rng(seed).dirichlet(np.ones(12), size=hidden)
    verdicts = check(np.r_[corners, shares @ corners])
    assert set(range(12, 12 + hidden)) <= set(verdicts.unargmaxable)
    flat = np.r_[corners, shares @ corners] @ np.diag(np.arange(d) % 2)
    assert set(range(12, 12 + hidden)) <= set(check(flat).unargmaxable)


def test_a_narrow_lead_is_found_and_a_narrow_gap_proved():
    """A point 1e-6 outside an edge wins, 1e-6 inside it never does."""
    assert check([*CORNERS, [1 + 1e-6, 0.3]]).unargmaxable.tolist() == []
    assert check([*CORNERS, [1 - 1e-6, 0.3]]).unargmaxable.tolist() == [4]


def test_many_words_in_few_directions_in_blocks(monkeypatch):
    """Rows in two halves of very different spread, where most need a programme of their own."""
    monkeypatch.setattr(unargmaxable, "BLOCK", 1000)
    W = np.r_[draw(0, 100, 6), 0.4 * draw(1, 60, 6) + 0.5]
    many = check(W)
    monkeypatch.setattr(unargmaxable, "STEPS", 1)
    few_steps = check(W)
    np.testing.assert_array_equal(few_steps.argmaxable, many.argmaxable)
    assert 0 < len(many.unargmaxable) < 100


def test_only_the_words_asked_for_are_decided_and_tensors_are_taken(capsys):
    W = torch.tensor([*CORNERS, [0.2, 0.1]], requires_grad=True)
    verdicts = argmaxable_words(W, words=[4, 2], progress=True)
    assert verdicts.words.tolist() == [2, 4] and verdicts.contexts.shape == (2, 2)
    assert verdicts.argmaxable.tolist() == [2] and verdicts.unargmaxable.tolist() == [4]
    assert lead(W.detach().numpy(), 2, verdicts.contexts[0]) > 0
    assert "2/2" in capsys.readouterr().err
    assert len(argmaxable_words(W, words=[]).words) == 0
    assert capsys.readouterr().err == ""


def test_what_time_does_not_allow_is_listed_as_undecided():
    W = np.r_[draw(0, 50, 4), draw(1, 50, 4) * 0.1]
    none = argmaxable_words(W, time_limit=0)
    assert none.undecided.tolist() == list(range(100))
    assert not none.weights and np.isnan(none.contexts).all()


def test_time_runs_out_between_programmes(monkeypatch):
    """Each look at the clock takes a second: the early words are decided, the rest are listed."""
    W = np.r_[draw(0, 50, 4), draw(1, 50, 4) * 0.1]
    seconds = iter(range(10**6))
    monkeypatch.setattr(unargmaxable.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(unargmaxable, "STEPS", 3)
    verdicts = argmaxable_words(W, time_limit=60)
    assert len(verdicts.argmaxable) and len(verdicts.unargmaxable) and len(verdicts.undecided)
    assert set(verdicts.undecided) < set(range(100))


@few
@given(seeds, st.booleans())
def test_leads_deduct_what_rounding_may_have_added(seed, biased):
    W, h = draw(seed, 5, 3), draw(seed + 1, 3)
    bias = draw(seed + 2, 5) if biased else None
    found = unargmaxable._Problem(W, bias).leads(h[None], [0])[0]
    assert found == pytest.approx(lead(W, 0, h, bias), rel=1e-9, abs=1e-15)
    twins = unargmaxable._Problem([[1.0, 0], [1.0, 0]], None)  # equal to rounding
    assert twins.leads(np.array([[1e6, 0]]), [0])[0] < 0


@few
@given(seeds)
def test_no_context_leads_by_more_than_the_ceiling(seed):
    W, bias = draw(seed, 8, 3), draw(seed + 1, 8)
    others = np.arange(1, 8)
    weights = np.random.default_rng(seed).dirichlet(np.ones(7))
    slope, offset = ceiling(W, 0, (others, weights), bias)
    assert offset == pytest.approx(bias[0] - weights @ bias[1:])
    for h in 3 * draw(seed + 2, 200, 3):
        assert lead_of(W, 0, h, bias) <= offset + slope * np.abs(h).max() + 1e-9
    corner = np.sign(W[0] - weights @ W[1:])  # where the bound on the mean rival is attained
    assert (W[0] - weights @ W[1:]) @ corner == pytest.approx(slope)


@pytest.mark.parametrize(
    "others, weights", [([0, 1], [0.5, 0.5]), ([1, 2], [1.5, -0.5]), ([1, 2], [0.5, 0.4])]
)
def test_what_is_no_certificate_is_refused(others, weights):
    with pytest.raises(CourseError, match="certificate of word 0 needs convex weights over other"):
        ceiling(np.eye(3), 0, (np.array(others), np.array(weights)))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"W": np.ones(3)}, "one vector a row"),
        ({"W": [[np.inf, 1.0], [0, 0]]}, "row 0"),
        ({"W": np.ones((1, 3))}, "at least two rows"),
        ({"bias": [1.0, 2.0]}, "a bias of 3 numbers is needed, one a row, got 2"),
        ({"bias": [1.0, 2.0, np.nan]}, "bias: a list of finite numbers"),
        ({"words": [3]}, "numbers from 0 to 2"),
        ({"words": [-1]}, "numbers from 0 to 2"),
    ],
)
def test_what_cannot_be_decided_is_named(arguments, message):
    with pytest.raises(CourseError, match=message):
        argmaxable_words(**{"W": np.eye(3), **arguments})


def test_a_solver_that_gives_up_leaves_the_word_to_the_next(monkeypatch):
    W = [*CORNERS, [0.2, 0.3]]
    monkeypatch.setattr(unargmaxable, "SOLVERS", (lambda A, seconds: None, unargmaxable._deepest))
    monkeypatch.setattr(unargmaxable, "STEPS", 1)
    assert check(W).unargmaxable.tolist() == [4]
    monkeypatch.setattr(unargmaxable, "SOLVERS", (lambda A, seconds: None,))
    assert argmaxable_words(W).undecided.tolist() == [4]
