"""A2, push the cone apart, by weight: the laws of its steps, with naive oracles (gao2019)."""

import itertools

import numpy as np

from tools.assignments.laws.common import (
    Limits,
    Step,
    apart,
    array,
    candidates,
    drawn,
    number,
    parts,
    shares,
    told_apart,
)

# --- the definitions -----------------------------------------------------------------------------


def cosines(W):
    """Return the N × N table of cosines; complex numbers pass through."""
    directions = W / np.sqrt((W * W).sum(1, keepdims=True))
    return directions @ directions.T


def weighted_cosine(W, p):
    """Return Σ_{i≠j} p_i p_j cos(w_i, w_j), by the table of all pairs."""
    table = cosines(W) * p * p[:, None]
    return (table * (1 - np.eye(len(W)))).sum()


def weighted_cosine_gradient(W, p):
    """Return the gradient entry by entry: the imaginary part of a tiny complex step."""
    gradient = np.empty(W.shape)
    for i, k in np.ndindex(W.shape):
        step = W.astype(complex)
        step[i, k] += 1e-30j
        gradient[i, k] = weighted_cosine(step, p).imag / 1e-30
    return gradient


def mean_cosine(W):
    """Return the paper's R, the sum over pairs of two words divided by N²."""
    return weighted_cosine(W, np.full(len(W), 1 / len(W)))


def estimate(W, rows):
    """Return (N − 1)/N times the mean cosine of the sampled pairs, by their table."""
    m = len(rows)
    pairs = cosines(W[rows])[~np.eye(m, dtype=bool)]
    return pairs.mean() * (len(W) - 1) / len(W)


def eigenvalue_bracket(W):
    """Return the largest eigenvalue of the table of cosines, twice."""
    largest = np.linalg.eigvalsh(cosines(W))[-1]
    return largest, largest


# --- 2.1 and 2.2 ---------------------------------------------------------------------------------


def cloud(rng, n: int = 12, d: int = 4):
    """Draw rows off the origin, and weights that add up to 1."""
    W = (drawn(rng, n, d) + drawn(rng, d)).round(2)
    return W, shares(rng, n)


def table(f, rng):
    """As the table of all pairs says, for weights that differ."""
    W, p = cloud(rng)
    value, expected = number(f(W, p)), weighted_cosine(W, p)
    if abs(value - expected) > 1e-7 * (p @ p + abs(expected)):
        yours, right = told_apart(value, expected)
        return f"you give {yours}, the sum over all pairs of two words is {right}"
    return ""


def lengths(f, rng):
    """Rows of any length: the cosine knows directions only."""
    W, p = cloud(rng)
    scale = 10.0 ** rng.integers(-12, 13, (len(W), 1))
    if abs(number(f(scale * W, p)) - weighted_cosine(W, p)) > 1e-8:
        return "rows of length 10⁻¹² or 10¹² must count as all others"
    return ""


def many_words(f, rng):
    """N = 200,000: a hundred copies of 2,000 words."""
    W, p = cloud(rng, 2_000, 8)
    value = number(f(np.tile(W, (100, 1)), np.tile(p / 100, 100)))
    expected = weighted_cosine(W, p) + p @ p - p @ p / 100
    if abs(value - expected) > 1e-8:
        return "at N = 200,000 it differs from the sum over all pairs"
    return ""


def derivative(f, rng):
    """It is the derivative of 2.1, entry by entry."""
    W, p = cloud(rng, 6, 3)
    value, expected = array(f(W, p), W.shape), weighted_cosine_gradient(W, p)
    if apart(value, expected) > 1e-8:
        i, k = np.unravel_index(np.abs(value - expected).argmax(), W.shape)
        yours, right = told_apart(value[i, k], expected[i, k])
        return (
            f"entry ({i}, {k}) is {yours}, but moving W[{i}, {k}] alone changes the sum "
            f"at the rate {right}"
        )
    return ""


def scaled(f, rng):
    """The gradient at c W is that at W, divided by c, however small c is."""
    W, p = cloud(rng, 6, 3)
    for c in (1e-11, 1e11):
        if apart(array(f(c * W, p), W.shape) * c, array(f(W, p), W.shape)) > 1e-8:
            return f"at {c:g} W the gradient must be that at W, divided by {c:g}"
    return ""


def balanced(f, rng):
    """N = 200,000: 0 where the weighted directions add up to 0."""
    half = rng.normal(size=(100_000, 6))
    W = np.concatenate([half, -half * rng.uniform(0.5, 2, (100_000, 1))])
    value = array(f(W, np.full(len(W), 1 / len(W))), W.shape)
    if np.abs(value).max() > 1e-9:
        return "where the weighted directions add up to 0, no word feels anything"
    return ""


# --- 2.3 -----------------------------------------------------------------------------------------


def unbiased(f, rng):
    """The mean over *all* samples of 3 of 7 words is R."""
    W, _ = cloud(rng, 7, 3)
    samples = [np.array(rows) for rows in itertools.combinations(range(7), 3)]
    mean, truth = np.mean([number(f(W, rows)) for rows in samples]), mean_cosine(W)
    if abs(mean - truth) > 1e-9:
        yours, right = told_apart(mean, truth)
        return f"the mean over all {len(samples)} samples is {yours}, R is {right}"
    return ""


def sample_alone(f, rng):
    """Words outside of the sample have no say, though their number has."""
    W, _ = cloud(rng, 7, 3)
    rows = rng.permutation(7)[:3]
    others = np.setdiff1d(np.arange(7), rows)
    moved = W.copy()
    moved[others] = -W[others][:, ::-1]
    if abs(number(f(W, rows)) - number(f(moved, rows))) > 1e-9:
        return "it changes with words outside of the sample, which an estimate does not look at"
    return ""


def whole(f, rng):
    """The sample of all words gives R itself."""
    W, _ = cloud(rng, int(rng.integers(5, 10)), 3)
    value, truth = number(f(W, rng.permutation(len(W)))), mean_cosine(W)
    if abs(value - truth) > 1e-9:
        yours, right = told_apart(value, truth)
        return f"all words as the sample give {yours}, R is {right}"
    return ""


def large_sample(f, rng):
    """30,000 words of 40,000, where a table of the sample has no place."""
    W = np.tile(cloud(rng, 400, 8)[0], (100, 1))
    value = number(f(W, rng.permutation(len(W))[:30_000]))
    if abs(value - mean_cosine(W[:400])) > 0.02:
        return "for 30,000 of 40,000 words it is far from R"
    return ""


# --- 2.4 -----------------------------------------------------------------------------------------


def separable(f, rng):
    """A uniformly negative direction is found where one exists, within Novikoff's bound.

    Each context ends in 1, so that the last entry of v counts the updates.
    """
    d = 4
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    side = np.where(rng.random(30) < 0.8, 2.0, -2.0)
    side[:2] = 2.0, -2.0
    H = np.outer(rng.uniform(0.4, 1, 30), axes[0]) + np.outer(side, axes[1])
    H = np.column_stack([(H + 0.1 * drawn(rng, 30, d)).round(2), np.ones(30)])
    v, updates = parts(f(H, 10_000), 2)
    if v is None:
        return "there is a direction with vᵀh < 0 for all contexts, but you found none"
    v, updates = array(v, (d + 1,), "v"), int(number(updates))
    worst = int((H @ v).argmax())
    if H[worst] @ v >= 0:
        return f"vᵀh = {H[worst] @ v:.3g} ≥ 0 for context {worst}"
    if updates != round(-v[-1]) or updates > (H**2).sum(1).max():  # the margin is 1 at least
        return (
            f"every context ends in 1, so that v shows {-v[-1]:g} updates; you counted {updates}. "
            "Begin at 0, and take one context off an update"
        )
    return ""


def last_update(f, rng):
    """Three orthogonal contexts take one update each, in any order: three are enough."""
    H = np.diag(rng.permutation([1.0, 2.0, 3.0]))
    v, _ = parts(f(H, 3), 2)
    if v is None:
        return "3 updates are allowed, and enough here; look once more after the last of them"
    worst = (H @ array(v, (3,), "v")).max()
    return f"vᵀh = {worst:g} for a context, which is not negative" if worst >= 0 else ""


def hull(f, rng):
    """There is no such direction where 0 lies between contexts."""
    H = drawn(rng, 12, 3)
    H[-1] = -H[0] - H[1]
    v, updates = parts(f(H, 100), 2)
    if v is not None:
        v = array(v, (3,), "v")
        worst = int((H @ v).argmax())
        return f"vᵀh = {H[worst] @ v:.3g} ≥ 0 for context {worst}: return None where none was found"
    if int(number(updates)) > 100:
        return f"{updates} updates, asked were at most 100"
    return ""


# --- 2.5 -----------------------------------------------------------------------------------------


def cone(rng, n: int, d: int):
    """Draw rows of which no two have a negative cosine."""
    return np.abs(drawn(rng, n, d)) + 0.01


def bracket(f, rng):
    """The largest eigenvalue lies inside, and both bounds meet where all rows are parallel."""
    line = np.outer(rng.uniform(1, 3, 9).round(2), np.abs(drawn(rng, 3)) + 0.1)
    for W in (cone(rng, 15, 5), np.eye(6)[rng.integers(6, size=15)], line):
        low, high = (number(x) for x in parts(f(W), 2))
        largest = eigenvalue_bracket(W)[0]
        if not low <= largest * (1 + 1e-9) or not largest <= high * (1 + 1e-9):
            return f"the largest eigenvalue is {largest:.4f}, outside of {low:.4f} and {high:.4f}"
    if high - low > 1e-6 * high:
        return "for parallel rows low and high are the same"
    return ""


def close(f, rng):
    """Above: far below the sum of all cosines, and below N; below: not under their mean."""
    W = cone(rng, 40, 12)
    low, high = (number(x) for x in parts(f(W), 2))
    total = cosines(W).sum()
    if high > total / 20:
        return f"high is {high:.1f}; the sum of all cosines is {total:.1f}, and far less is true"
    if low < total / len(W) * (1 - 1e-9):
        return f"low is {low:.3f}, but xᵀAx at one simple x is already {total / len(W):.3f}"
    apart = np.eye(10)[np.arange(40) % 10] * rng.uniform(1, 3, (40, 1)).round(2)
    high = number(parts(f(apart), 2)[1])
    if high > 20:
        return f"40 rows in ten orthogonal directions: high is {high:.1f}, and far less is true"
    return ""


def many_rows(f, rng):
    """N = 60,000, a hundred copies of 600 rows, where the table has no place."""
    W = cone(rng, 600, 6)
    low, high = (number(x) for x in parts(f(np.tile(W, (100, 1))), 2))
    largest = 100 * eigenvalue_bracket(W)[0]
    if not low <= largest * (1 + 1e-9) <= high * (1 + 2e-9):
        return "at N = 60,000 the largest eigenvalue lies outside"
    return ""


# --- 2.7: functions for a student's law of 2.2 ----------------------------------------------------


def reordered(W, p):
    """Return the right gradient, computed from the last word to the first."""
    return weighted_cosine_gradient(W[::-1], p[::-1])[::-1]


def nothing(W, p):
    """Return zeros, which are orthogonal to everything."""
    return np.zeros_like(W)


def radial(W, p):
    """Return the words themselves, which no cosine feels."""
    return W.copy()


RIGHT = {"2.7": (weighted_cosine_gradient, reordered)}
CANDIDATES = {"2.7": candidates(nothing, radial)}
STEPS = (
    Step(
        "2.1",
        "every pair by weight",
        "weighted_cosine",
        ("W", "p"),
        12,
        12,
        (table, lengths),
        (many_words,),
        "lesson 06, The penalty",
        {"memory": "{} at N = 200,000: a sum over pairs is the square of a sum"},
    ),
    Step(
        "2.2",
        "its gradient",
        "weighted_cosine_gradient",
        ("W", "p"),
        16,
        18,
        (derivative, scaled),
        (balanced,),
        "lesson 06, The push on one word",
        {"memory": "{} at N = 200,000: one sum of directions serves all words"},
        Limits(5, 400),
    ),
    Step(
        "2.3",
        "from a sample",
        "estimate",
        ("W", "rows"),
        14,
        15,
        (unbiased, sample_alone, whole),
        (large_sample,),
        "lesson 06, The penalty",
        {"memory": "{} for 30,000 rows: the sum over a sample's pairs is the square of a sum"},
    ),
    Step(
        "2.4",
        "a uniformly negative direction",
        "negative_direction",
        ("H", "most"),
        16,
        20,
        (separable, last_update, hull),
        (),
        "lesson 03, A word that never comes",
    ),
    Step(
        "2.5",
        "between two sums",
        "eigenvalue_bracket",
        ("W",),
        8,
        10,
        (bracket, close),
        (many_rows,),
        "lesson 06b, The theorem behind it",
        {"memory": "{} at N = 60,000: a row's sum is an inner product"},
    ),
    Step(
        "2.6",
        "which words move",
        "",
        (),
        16,
        25,
        read="lesson 06, With and without",
        kind="experiment",
    ),
    Step("2.7", "a law of your own", "is_right", ("f", "rng"), 8, 10, kind="law"),
    Step("2.8", "discuss", "", (), 10, 12, kind="manual"),
)
TITLE = "A2. Push the cone apart, by weight"
