"""Known wrong answers to A2, and what the student is told: after “not yet:”."""

import numpy as np

from tools.assignments.laws import a2
from tools.assignments.laws.common import Catalogue, Mistake, candidates

CATALOGUE = Catalogue()
known = CATALOGUE.enter


def largest_of_rows(arguments, value):
    H, v = arguments[0], value[0]
    worst = int((H @ v).argmax())
    return f"vᵀh = {H[worst] @ v:.3g} ≥ 0 for context {worst}: return None where none was found"


def directions(W):
    return W / np.linalg.norm(W, axis=1, keepdims=True)


# --- 2.1 -----------------------------------------------------------------------------------------


@known("2.1", "not normalised", "it must not change when a row is scaled")
def inner_products(W, p):
    total = p @ W
    return total @ total - (p**2 * (W**2).sum(1)).sum()


@known("2.1", "with itself", "the pairs of a word with itself are still in it: Σ p_i² too much")
def with_itself(W, p):
    total = p @ directions(W)
    return total @ total


@known("2.1", "minus 1/N", "right for equal weights only: what is Σ p_i² for yours?")
def equal_weights_removed(W, p):
    return with_itself(W, p) - 1 / len(W)


@known("2.1", "mean over pairs", "a mean over pairs; the paper divides by N², not by N(N − 1)")
def mean_of_pairs(W, p):
    return a2.weighted_cosine(W, p) / (1 - p @ p)


@known("2.1", "each pair once", "half: (i, j) and (j, i) are both in the sum")
def each_pair_once(W, p):
    return a2.weighted_cosine(W, p) / 2


@known("2.1", "no weights", "this is the paper's R, in which every word counts once")
def unweighted(W, p):
    return a2.mean_cosine(W)


@known("2.1", "guarded", "10⁻⁸ beside the length is not little where rows are short")
def guarded(W, p):
    total = p @ (W / (np.linalg.norm(W, axis=1, keepdims=True) + 1e-8))
    return total @ total - p @ p


# --- 2.2 -----------------------------------------------------------------------------------------


@known("2.2", "not projected", "it has a part along w_i, which the penalty cannot feel")
def not_projected(W, p):
    unit = directions(W)
    pull = p @ unit - p[:, None] * unit
    return 2 * p[:, None] * pull / np.linalg.norm(W, axis=1, keepdims=True)


@known("2.2", "not projected at all", "it has a part along w_i: the Jacobian of w/‖w‖ takes it off")
def whole_sum(W, p):
    return 2 * p[:, None] * (p @ directions(W)) / np.linalg.norm(W, axis=1, keepdims=True)


@known("2.2", "no 2", "half: each pair is counted twice")
def half(W, p):
    return a2.weighted_cosine_gradient(W, p) / 2


@known("2.2", "no length", "short words turn faster: divide by ‖w_i‖")
def no_length(W, p):
    return a2.weighted_cosine_gradient(W, p) * np.linalg.norm(W, axis=1, keepdims=True)


@known("2.2", "no p_i", "the word's own weight is missing in its gradient")
def no_weight(W, p):
    return a2.weighted_cosine_gradient(W, p) / p[:, None]


@known("2.2", "sign", "this is minus the gradient: along it the sum falls")
def downhill(W, p):
    return -a2.weighted_cosine_gradient(W, p)


@known("2.2", "length squared", "divided by ‖w_i‖ once too often")
def by_square(W, p):
    return a2.weighted_cosine_gradient(W, p) / np.linalg.norm(W, axis=1, keepdims=True)


@known("2.2", "guarded", "a small number beside ‖w_i‖ hides short words")
def guarded_gradient(W, p):
    length = np.linalg.norm(W, axis=1, keepdims=True)
    return a2.weighted_cosine_gradient(W, p) * (length / (length + 1e-9))


# --- 2.3 -----------------------------------------------------------------------------------------


@known("2.3", "m²", "a sample of m has m(m − 1) ordered pairs, and you divide by m²")
def square_of_sample(W, rows):
    total = directions(W[rows]).sum(0)
    m = len(rows)
    return (total @ total - m) / m**2


@known(
    "2.3", "N²", "right for the sample of all words only: there are fewer pairs in a smaller one"
)
def square_of_whole(W, rows):
    total = directions(W[rows]).sum(0)
    return (total @ total - len(rows)) / len(W) ** 2


@known("2.3", "mean cosine", "this estimates the mean cosine; R is (N − 1)/N of it")
def mean_over_pairs(W, rows):
    return a2.estimate(W, rows) * len(W) / (len(W) - 1)


@known("2.3", "itself", "each sampled word is paired with itself, too")
def itself_counted(W, rows):
    total = directions(W[rows]).mean(0)
    return total @ total


@known("2.3", "shrunk", "a part of the words has no part of R: R is a mean")
def whole_matrix(W, rows):
    return a2.mean_cosine(W) * len(rows) / len(W)


@known(
    "2.3", "all words", "this is R itself, of all words; an estimate reads the sampled rows alone"
)
def all_words(W, rows):
    return a2.mean_cosine(W)


@known("2.3", "sum", "this is a sum over the sample's pairs, not a mean")
def sum_not_mean(W, rows):
    return a2.estimate(W, rows) * len(rows) * (len(rows) - 1) / 2


# --- 2.4 -----------------------------------------------------------------------------------------


def perceptron(H, most, sign, honest):
    v = np.zeros(H.shape[1])
    for update in range(most + 1):
        wrong = np.flatnonzero(sign * (H @ v) <= 0)
        if not len(wrong):
            return v, update
        if update < most:
            v = v + sign * H[wrong[0]]
    return (None if honest else v), most


@known("2.4", "a direction at any price", largest_of_rows)
def always_a_direction(H, most):
    return perceptron(H, most, -1, False)


@known("2.4", "v + h", "your v makes *all* products positive: the wrong side")
def positive(H, most):
    return perceptron(H, most, 1, True)


@known(
    "2.4", "minus the mean", "the mean is one direction: contexts that are few are outvoted in it"
)
def minus_the_mean(H, most):
    return -H.mean(0), 1


@known(
    "2.4", "last update", "the last update is never looked at: it may be the one that was missing"
)
def last_update_lost(H, most):
    v, updates = perceptron(H, most, -1, True)
    return (None, most) if updates == most else (v, updates)


@known("2.4", "gives up", "None, although there is a direction here")
def gives_up(H, most):
    return None, most


@known(
    "2.4",
    "0 taken for negative",
    "at v = 0 every product is 0, which is not negative: the first update has to come",
)
def never_starts(H, most):
    v, updates = np.zeros(H.shape[1]), 0
    while updates < most and (H @ v > 0).any():
        v, updates = v - H[(H @ v).argmax()], updates + 1
    return v, updates


# --- 2.5 -----------------------------------------------------------------------------------------


def row_sums(W):
    unit = directions(W)
    return unit @ unit.sum(0)


@known("2.5", "trace", "true, but Sum/N is never smaller here: take x = 1/√N in xᵀAx")
def trace_below(W):
    return 1.0, row_sums(W).max()


@known(
    "2.5",
    "the paper's sum",
    "true, but the sum of all cosines is far above: the largest sum of one row is enough",
)
def papers_sum(W):
    return row_sums(W).mean(), row_sums(W).sum()


@known(
    "2.5", "trace above", "true, but N is the trace, whatever the cosines: take the sum of one row"
)
def trace_above(W):
    return row_sums(W).mean(), float(len(W))


@known("2.5", "not normalised", "A holds cosines: normalise the rows first")
def rows_as_they_are(W):
    sums = W @ W.sum(0)
    return sums.mean(), sums.max()


@known("2.5", "turned round", "low and high are the wrong way round")
def the_wrong_way(W):
    return row_sums(W).max(), row_sums(W).mean()


@known("2.5", "smallest row", "true, but the mean of the row sums is larger")
def smallest_row(W):
    return row_sums(W).min(), row_sums(W).max()


@known("2.5", "no diagonal", "the ones on A's diagonal are missing")
def without_diagonal(W):
    return row_sums(W).mean() - 1, row_sums(W).max() - 1


# --- 2.7: what only looks like a gradient ---------------------------------------------------------


def louder(W, p):
    return 1.001 * a2.weighted_cosine_gradient(W, p)


# Most wrong functions err in one word only, and stay orthogonal to it. Half of them turn its
# gradient, half of them lengthen it. They are right where all weights are equal, or all lengths, or
# where there are two words, so that no property and no special case gives most of them away.
WORDS = {
    "heaviest": lambda W, p: p.argmax(),
    "lightest": lambda W, p: p.argmin(),
    "longest": lambda W, p: np.linalg.norm(W, axis=1).argmax(),
    "shortest": lambda W, p: np.linalg.norm(W, axis=1).argmin(),
    "last": lambda W, p: len(p) - 1,
}
DIFFER = {
    "weights": lambda skew, length: skew,
    "lengths": lambda skew, length: length,
    "both": lambda skew, length: skew * length,
}


def turned(g, w, angle: float):
    """Return the gradient of a word turned by an angle, as long as before and orthogonal to it."""
    side = np.arange(1.0, len(w) + 1)
    for axis in (w, g - w * (g @ w) / (w @ w)):
        side = side - axis * (axis @ side) / max(axis @ axis, 1e-300)
    length = np.linalg.norm(side)
    side = side * np.linalg.norm(g) / length if length > 1e-9 else 0 * side
    return np.cos(angle) * g + np.sin(angle) * side


def in_one_word(word: str, turn: float, louder_by: float, where: str) -> Mistake:
    """Return a wrong gradient: one word's is turned by an angle, or longer by a part."""

    def gradient(W, p):
        right, i = a2.weighted_cosine_gradient(W, p), WORDS[word](W, p)
        lengths = np.linalg.norm(W, axis=1)
        skew = ((p / p.mean() - 1) ** 3).mean()  # which is 0 for equal weights, and for two words
        part = DIFFER[where](skew, lengths[i] / lengths.mean() - 1)
        right[i] = (1 + louder_by * part) * turned(right[i], W[i], turn * part)
        return right

    return Mistake(f"{word} word, where {where} differ, {turn:g} {louder_by:g}", gradient, "")


KINDS = ((0.02, 0.0, "weights"), (0.0, 0.02, "weights"))
KINDS += ((0.02, 0.0, "lengths"), (0.0, 0.02, "both"))
WRONG = {
    "2.7": (
        *candidates(half, downhill, no_length, not_projected, louder),
        *(in_one_word(word, *kind) for word in WORDS for kind in KINDS),
    )
}
