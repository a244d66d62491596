"""Known wrong answers to A2, and what the student is told: after “not yet:”."""

import numpy as np

from tools.assignments.laws import a2
from tools.assignments.laws.common import Mistake, to_refuse


def directions(W):
    return W / np.linalg.norm(W, axis=1, keepdims=True)


# --- 2.1 -----------------------------------------------------------------------------------------


def inner_products(W, p):
    total = p @ W
    return total @ total - (p**2 * (W**2).sum(1)).sum()


def with_itself(W, p):
    total = p @ directions(W)
    return total @ total


def equal_weights_removed(W, p):
    return with_itself(W, p) - 1 / len(W)


def mean_of_pairs(W, p):
    return a2.weighted_cosine(W, p) / (1 - p @ p)


def each_pair_once(W, p):
    return a2.weighted_cosine(W, p) / 2


def unweighted(W, p):
    return a2.mean_cosine(W)


def guarded(W, p):
    total = p @ (W / (np.linalg.norm(W, axis=1, keepdims=True) + 1e-8))
    return total @ total - p @ p


# --- 2.2 -----------------------------------------------------------------------------------------


def not_projected(W, p):
    unit = directions(W)
    pull = p @ unit - p[:, None] * unit
    return 2 * p[:, None] * pull / np.linalg.norm(W, axis=1, keepdims=True)


def half(W, p):
    return a2.weighted_cosine_gradient(W, p) / 2


def no_length(W, p):
    return a2.weighted_cosine_gradient(W, p) * np.linalg.norm(W, axis=1, keepdims=True)


def no_weight(W, p):
    return a2.weighted_cosine_gradient(W, p) / p[:, None]


def downhill(W, p):
    return -a2.weighted_cosine_gradient(W, p)


def by_square(W, p):
    return a2.weighted_cosine_gradient(W, p) / np.linalg.norm(W, axis=1, keepdims=True)


def guarded_gradient(W, p):
    length = np.linalg.norm(W, axis=1, keepdims=True)
    return a2.weighted_cosine_gradient(W, p) * (length / (length + 1e-9))


# --- 2.3 -----------------------------------------------------------------------------------------


def square_of_sample(W, rows):
    total = directions(W[rows]).sum(0)
    m = len(rows)
    return (total @ total - m) / m**2


def square_of_whole(W, rows):
    total = directions(W[rows]).sum(0)
    return (total @ total - len(rows)) / len(W) ** 2


def mean_over_pairs(W, rows):
    return a2.estimate(W, rows) * len(W) / (len(W) - 1)


def itself_counted(W, rows):
    total = directions(W[rows]).mean(0)
    return total @ total


def whole_matrix(W, rows):
    return a2.mean_cosine(W) * len(rows) / len(W)


def sum_not_mean(W, rows):
    return a2.estimate(W, rows) * len(rows) * (len(rows) - 1) / 2


# --- 2.4 -----------------------------------------------------------------------------------------


def perceptron(H, most, sign, honest):
    v = np.zeros(H.shape[1])
    for update in range(most):
        wrong = np.flatnonzero(sign * (H @ v) <= 0)
        if not len(wrong):
            return v, update
        v = v + sign * H[wrong[0]]
    return (None if honest else v), most


def always_a_direction(H, most):
    return perceptron(H, most, -1, False)


def positive(H, most):
    return perceptron(H, most, 1, True)


def minus_the_mean(H, most):
    return -H.mean(0), 1


def gives_up(H, most):
    return None, most


def never_starts(H, most):
    v, updates = np.zeros(H.shape[1]), 0
    while updates < most and (H @ v > 0).any():
        v, updates = v - H[(H @ v).argmax()], updates + 1
    return v, updates


# --- 2.5 -----------------------------------------------------------------------------------------


def row_sums(W):
    unit = directions(W)
    return unit @ unit.sum(0)


def trace_below(W):
    return 1.0, row_sums(W).max()


def papers_sum(W):
    return row_sums(W).mean(), row_sums(W).sum()


def rows_as_they_are(W):
    sums = W @ W.sum(0)
    return sums.mean(), sums.max()


def the_wrong_way(W):
    return row_sums(W).max(), row_sums(W).mean()


def smallest_row(W):
    return row_sums(W).min(), row_sums(W).max()


def without_diagonal(W):
    return row_sums(W).mean() - 1, row_sums(W).max() - 1


def largest_of_rows(arguments, value):
    H, v = arguments[0], value[0]
    worst = int((H @ v).argmax())
    return f"vᵀh = {H[worst] @ v:.3g} ≥ 0 for context {worst}: return None where none was found"


CATALOGUE = {
    "2.1": (
        Mistake("not normalised", inner_products, "it must not change when a row is scaled"),
        Mistake(
            "with itself",
            with_itself,
            "the pairs of a word with itself are still in it: Σ p_i² too much",
        ),
        Mistake(
            "minus 1/N",
            equal_weights_removed,
            "right for equal weights only: what is Σ p_i² for yours?",
        ),
        Mistake(
            "mean over pairs",
            mean_of_pairs,
            "a mean over pairs; the paper divides by N², not by N(N − 1)",
        ),
        Mistake("each pair once", each_pair_once, "half: (i, j) and (j, i) are both in the sum"),
        Mistake("no weights", unweighted, "this is the paper's R, in which every word counts once"),
        Mistake("guarded", guarded, "10⁻⁸ beside the length is not little where rows are short"),
    ),
    "2.2": (
        Mistake(
            "not projected",
            not_projected,
            "it has a part along w_i, which the penalty cannot feel",
        ),
        Mistake("no 2", half, "half: each pair is counted twice"),
        Mistake("no length", no_length, "short words turn faster: divide by ‖w_i‖"),
        Mistake("no p_i", no_weight, "the word's own weight is missing in its gradient"),
        Mistake("sign", downhill, "this is minus the gradient: along it the sum falls"),
        Mistake("length squared", by_square, "divided by ‖w_i‖ once too often"),
        Mistake("guarded", guarded_gradient, "a small number beside ‖w_i‖ hides short words"),
    ),
    "2.3": (
        Mistake(
            "m²",
            square_of_sample,
            "a sample of m has m(m − 1) ordered pairs, and you divide by m²",
        ),
        Mistake(
            "N²",
            square_of_whole,
            "right for the sample of all words only: there are fewer pairs in a smaller one",
        ),
        Mistake(
            "mean cosine",
            mean_over_pairs,
            "this estimates the mean cosine; R is (N − 1)/N of it",
        ),
        Mistake("itself", itself_counted, "each sampled word is paired with itself, too"),
        Mistake("shrunk", whole_matrix, "a part of the words has no part of R: R is a mean"),
        Mistake("sum", sum_not_mean, "this is a sum over the sample's pairs, not a mean"),
    ),
    "2.4": (
        Mistake("a direction at any price", always_a_direction, largest_of_rows),
        Mistake("v + h", positive, "your v makes *all* products positive: the wrong side"),
        Mistake(
            "minus the mean",
            minus_the_mean,
            "the mean is one direction: contexts that are few are outvoted in it",
        ),
        Mistake("gives up", gives_up, "None, although there is a direction here"),
        Mistake(
            "0 taken for negative",
            never_starts,
            "at v = 0 every product is 0, which is not negative: the first update has to come",
        ),
    ),
    "2.5": (
        Mistake(
            "trace",
            trace_below,
            "true, but Sum/N is never smaller here: take x = 1/√N in xᵀAx",
        ),
        Mistake(
            "the paper's sum",
            papers_sum,
            "true, but the sum of all cosines is far above: the largest sum of one row is enough",
        ),
        Mistake("not normalised", rows_as_they_are, "A holds cosines: normalise the rows first"),
        Mistake("turned round", the_wrong_way, "low and high are the wrong way round"),
        Mistake("smallest row", smallest_row, "true, but the mean of the row sums is larger"),
        Mistake("no diagonal", without_diagonal, "the ones on A's diagonal are missing"),
    ),
}


def louder(W, p):
    return 1.001 * a2.weighted_cosine_gradient(W, p)


def leaning(W, p):
    return a2.weighted_cosine_gradient(W, p) + 1e-3 * W


def equal_weights(W, p):
    return a2.weighted_cosine_gradient(W, np.full(len(p), 1 / len(p)))


# What a student's law must refuse: the catalogue of 2.2, and what only looks like a gradient.
WRONG = {"2.7": to_refuse(CATALOGUE["2.2"], "guarded", louder, leaning, equal_weights)}
