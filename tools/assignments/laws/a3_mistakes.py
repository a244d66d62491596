"""Known wrong answers to A3, and what the student is told: after “not yet:”."""

import numpy as np

from tools.assignments.laws import a3
from tools.assignments.laws.common import Mistake, to_refuse


def unit(x):
    return x / np.linalg.norm(x)


# --- 3.1 -----------------------------------------------------------------------------------------


def round_cube(h, r, ball):
    return -r * unit(h) if ball == "linf" else a3.worst(h, r, ball)


def always_round(h, r, ball):
    return -r * unit(h)


def one_coordinate(h, r, ball):
    return a3.worst(h, r, "l1") if ball == "linf" else a3.worst(h, r, ball)


def helping(h, r, ball):
    return -a3.worst(h, r, ball)


def not_unit(h, r, ball):
    return -r * h if ball == "l2" else a3.worst(h, r, ball)


def names_swapped(h, r, ball):
    return a3.worst(h, r, {"l1": "linf", "linf": "l1"}.get(ball, ball))


def signed_largest(h, r, ball):
    return -r * np.eye(len(h))[h.argmax()] if ball == "l1" else a3.worst(h, r, ball)


# --- 3.2 -----------------------------------------------------------------------------------------


def by_inverse(h, A, r):
    inner = np.linalg.solve(A, h)
    return -r * inner / np.sqrt(h @ inner)


def by_length(h, A, r):
    return -r * unit(A @ h)


def not_stretched(h, A, r):
    return -r * h / np.sqrt(h @ np.linalg.solve(A, h))


def friendly(h, A, r):
    return -a3.worst_in_ellipsoid(h, A, r)


def no_root(h, A, r):
    return -r * A @ h / (h @ A @ h)


def no_root_right_value(h, A, r):
    return -r * np.sqrt(h @ A @ h) * h / (h @ h)


# --- 3.3 -----------------------------------------------------------------------------------------


def moved(h, W, y, radii, signs):
    return W @ h + signs * radii * np.linalg.norm(h)


def opposite(W, y):
    return np.where(np.arange(len(W)) == y, -1.0, 1.0)


def old_normaliser(h, W, y, radii):
    return moved(h, W, y, radii, opposite(W, y))[y] - np.log(np.exp(W @ h).sum())


def all_down(h, W, y, radii):
    return a3.log_softmax(moved(h, W, y, radii, -1.0))[y]


def target_alone(h, W, y, radii):
    return a3.log_softmax(moved(h, W, y, 2 * radii, -1.0 * (np.arange(len(W)) == y)))[y]


def rivals_alone(h, W, y, radii):
    return a3.log_softmax(moved(h, W, y, radii, 1.0 * (np.arange(len(W)) != y)))[y]


def no_length(h, W, y, radii):
    return a3.log_softmax(W @ h + opposite(W, y) * radii)[y]


def on_our_side(h, W, y, radii):
    return a3.log_softmax(moved(h, W, y, radii, -opposite(W, y)))[y]


def no_logarithm(h, W, y, radii):
    return np.exp(a3.adversarial_log_prob(h, W, y, radii))


def overflowing(h, W, y, radii):
    powers = np.exp(moved(h, W, y, radii, opposite(W, y)))
    return np.log(powers[y] / powers.sum())


# --- 3.4 -----------------------------------------------------------------------------------------


def chances(contexts, W, y):
    return np.exp(a3.log_softmax(contexts @ W.T)[:, y])


def mean_context(contexts, prior, W, y, r):
    return -r * unit(prior @ contexts)


def without_rest(contexts, prior, W, y, r):
    return -r * unit(prior * chances(contexts, W, y) @ contexts)


def without_prior(contexts, prior, W, y, r):
    p = chances(contexts, W, y)
    return -r * unit(p * (1 - p) @ contexts)


def without_chance(contexts, prior, W, y, r):
    return -r * unit(prior * (1 - chances(contexts, W, y)) @ contexts)


def helping_all(contexts, prior, W, y, r):
    return -a3.shared_worst(contexts, prior, W, y, r)


def strongest_component(contexts, prior, W, y, r):
    return -r * unit(contexts[(prior * chances(contexts, W, y)).argmax()])


def not_scaled(contexts, prior, W, y, r):
    p = chances(contexts, W, y)
    return -r * (prior * p * (1 - p)) @ contexts


def overflowing_chances(contexts, prior, W, y, r):
    powers = np.exp(contexts @ W.T)
    p = powers[:, y] / powers.sum(1)
    return -r * unit(prior * p * (1 - p) @ contexts)


# --- 3.5 -----------------------------------------------------------------------------------------


def nearest(W, i, h):
    return np.linalg.norm(np.delete(W, i, 0) - W[i], axis=1).min()


def with_itself(W, i, h):
    return min(0.0, a3.certificate(W, i, h))


def not_per_length(W, i, h):
    return a3.certificate(W, i, h) * np.linalg.norm(h)


def largest(W, i, h):
    return ((W[i] - np.delete(W, i, 0)) @ unit(h)).max()


def half(W, i, h):
    return a3.certificate(W, i, h) / 2


def not_negative(W, i, h):
    return max(0.0, a3.certificate(W, i, h))


def guarded(W, i, h):
    return a3.certificate(W, i, h) * np.linalg.norm(h) / (np.linalg.norm(h) + 1e-10)


CATALOGUE = {
    "3.1": (
        Mistake(
            "l2 for linf",
            round_cube,
            "inside the cube but not in its corner: each coordinate may move by r",
        ),
        Mistake("always l2", always_round, "−r h/‖h‖ is the worst of the round ball only"),
        Mistake("one coordinate", one_coordinate, "with linf you move one coordinate: that is l1"),
        Mistake("sign", helping, "it helps the word: δᵀh grows"),
        Mistake("no unit", not_unit, "h itself may be long: divide by ‖h‖"),
        Mistake("swapped", names_swapped, "l1 and linf are the wrong way round"),
        Mistake(
            "largest", signed_largest, "with l1 the coordinate that is largest *in size* moves"
        ),
    ),
    "3.2": (
        Mistake(
            "A⁻¹",
            by_inverse,
            "stretched where the ellipsoid is thin: which of A, A⁻¹ is long where the cloud is?",
        ),
        Mistake(
            "length",
            by_length,
            lambda arguments, value: (
                f"δᵀA⁻¹δ = {value @ np.linalg.solve(arguments[1], value):.4g} instead of "
                f"r² = {arguments[2] ** 2:.4g}: length is measured in A⁻¹"
            ),
        ),
        Mistake(
            "along h", not_stretched, "on the surface, but along h: a long axis does more harm"
        ),
        Mistake("sign", friendly, "it helps the word: δᵀh grows"),
        Mistake("no root", no_root, "hᵀAh is a square: take its root"),
        Mistake(
            "outside",
            no_root_right_value,
            "the right δᵀh, but reached outside of the ellipsoid: go along Ah, not along h",
        ),
    ),
    "3.3": (
        Mistake("overflow", overflowing, "right for small logits, but exp(1,000) overflows"),
        Mistake(
            "old normaliser",
            old_normaliser,
            "the probabilities do not add up to 1: moved logits change the sum, too",
        ),
        Mistake(
            "all down",
            all_down,
            "the rivals are the adversary's friends: their logits go up",
        ),
        Mistake(
            "target alone",
            target_alone,
            "right with ε for 2 · ε/2 where the radii are equal; with these radii not",
        ),
        Mistake("rivals alone", rivals_alone, "the target moves, too"),
        Mistake("no ‖h‖", no_length, "a radius is a length in the space of words: times ‖h‖"),
        Mistake("other side", on_our_side, "this adversary helps: the target goes down, others up"),
        Mistake("no logarithm", no_logarithm, "this is the probability; take its logarithm"),
    ),
    "3.4": (
        Mistake("overflow", overflowing_chances, "right for small logits, but exp overflows"),
        Mistake(
            "mean context",
            mean_context,
            "this mixes contexts: components that do not expect y do not matter",
        ),
        Mistake(
            "no 1 − p",
            without_rest,
            "a component that is sure of y cannot be hurt to first order: (1 − p_k) is missing",
        ),
        Mistake("no prior", without_prior, "a component that hardly takes part does little: π_k"),
        Mistake("no p", without_chance, "a component that gives y nothing has nothing to lose"),
        Mistake("sign", helping_all, "it helps the word: P(y) grows"),
        Mistake("strongest alone", strongest_component, "the other components are hurt, too"),
        Mistake("not scaled", not_scaled, "the direction is right, its length is not r"),
    ),
    "3.5": (
        Mistake("distance", nearest, "an upper bound (theorem 3.3); h may show less"),
        Mistake(
            "its own rival",
            with_itself,
            "i is among its own rivals: the margin over itself is always 0",
        ),
        Mistake("not per length", not_per_length, "the margin grows with ‖h‖, the ε does not"),
        Mistake("largest", largest, "one rival that comes near is enough: the least margin counts"),
        Mistake("half", half, "twice this is shown: only w_i moves"),
        Mistake("cut at 0", not_negative, "negative where another word wins: do not cut"),
        Mistake("guarded", guarded, "a small number beside ‖h‖ hides short contexts"),
    ),
}


def halved(h, W, y, radii):
    return a3.adversarial_log_prob(h, W, y, radii / 2)


def near(h, W, y, radii):
    return a3.adversarial_log_prob(h, W, y, radii) + 1e-3


# What a student's law must refuse: the catalogue of 3.3, and what only looks like it.
WRONG = {"3.7": to_refuse(CATALOGUE["3.3"], "overflow", halved, near)}
