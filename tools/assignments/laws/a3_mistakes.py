"""Known wrong answers to A3, and what the student is told: after “not yet:”."""

import numpy as np

from tools.assignments.laws import a3
from tools.assignments.laws.common import Catalogue, Mistake, candidates

CATALOGUE = Catalogue()
known = CATALOGUE.enter


def unit(x):
    return x / np.linalg.norm(x)


# --- 3.1 -----------------------------------------------------------------------------------------


@known("3.1", "l2 for linf", "inside the cube but not in its corner: each coordinate may move by r")
def round_cube(h, r, ball):
    return -r * unit(h) if ball == "linf" else a3.worst(h, r, ball)


@known("3.1", "always l2", "−r h/‖h‖ is the worst of the round ball only")
def always_round(h, r, ball):
    return -r * unit(h)


@known("3.1", "one coordinate", "with linf you move one coordinate: that is l1")
def one_coordinate(h, r, ball):
    return a3.worst(h, r, "l1") if ball == "linf" else a3.worst(h, r, ball)


@known("3.1", "sign", "it helps the word: δᵀh grows")
def helping(h, r, ball):
    return -a3.worst(h, r, ball)


@known("3.1", "no unit", "h itself may be long: divide by ‖h‖")
def not_unit(h, r, ball):
    return -r * h if ball == "l2" else a3.worst(h, r, ball)


@known("3.1", "swapped", "l1 and linf are the wrong way round")
def names_swapped(h, r, ball):
    return a3.worst(h, r, {"l1": "linf", "linf": "l1"}.get(ball, ball))


@known("3.1", "largest", "with l1 the coordinate that is largest *in size* moves")
def signed_largest(h, r, ball):
    return -r * np.eye(len(h))[h.argmax()] if ball == "l1" else a3.worst(h, r, ball)


@known(
    "3.1",
    "most negative",
    "with l1 you move the most negative coordinate; a positive may be larger",
)
def most_negative(h, r, ball):
    if ball != "l1":
        return a3.worst(h, r, ball)
    i = h.argmin()
    return -r * np.sign(h[i]) * np.eye(len(h))[i]


# --- 3.2 -----------------------------------------------------------------------------------------


@known(
    "3.2",
    "A⁻¹",
    "stretched where the ellipsoid is thin: which of A, A⁻¹ is long where the cloud is?",
)
def by_inverse(h, A, r):
    inner = np.linalg.solve(A, h)
    return -r * inner / np.sqrt(h @ inner)


@known(
    "3.2",
    "length",
    lambda arguments, value: (
        f"δᵀA⁻¹δ = {value @ np.linalg.solve(arguments[1], value):.4g} instead of "
        f"r² = {arguments[2] ** 2:.4g}: length is measured in A⁻¹"
    ),
)
def by_length(h, A, r):
    return -r * unit(A @ h)


@known("3.2", "along h", "on the surface, but along h: a long axis does more harm")
def not_stretched(h, A, r):
    return -r * h / np.sqrt(h @ np.linalg.solve(A, h))


@known("3.2", "sign", "it helps the word: δᵀh grows")
def friendly(h, A, r):
    return -a3.worst_in_ellipsoid(h, A, r)


@known("3.2", "no root", "hᵀAh is a square: take its root")
def no_root(h, A, r):
    return -r * A @ h / (h @ A @ h)


@known(
    "3.2",
    "outside",
    "the right δᵀh, but reached outside of the ellipsoid: go along Ah, not along h",
)
def no_root_right_value(h, A, r):
    return -r * np.sqrt(h @ A @ h) * h / (h @ h)


# --- 3.3 -----------------------------------------------------------------------------------------


@known("3.3", "overflow", "right for small logits, but exp(1,000) overflows")
def overflowing(h, W, y, radii):
    powers = np.exp(moved(h, W, y, radii, opposite(W, y)))
    return np.log(powers[y] / powers.sum())


def moved(h, W, y, radii, signs):
    return W @ h + signs * radii * np.linalg.norm(h)


def opposite(W, y):
    return np.where(np.arange(len(W)) == y, -1.0, 1.0)


@known(
    "3.3",
    "old normaliser",
    "the probabilities do not add up to 1: moved logits change the sum, too",
)
def old_normaliser(h, W, y, radii):
    return moved(h, W, y, radii, opposite(W, y))[y] - np.log(np.exp(W @ h).sum())


@known("3.3", "all down", "the rivals are the adversary's friends: their logits go up")
def all_down(h, W, y, radii):
    return a3.log_softmax(moved(h, W, y, radii, -1.0))[y]


@known(
    "3.3",
    "target alone",
    "right with ε for 2 · ε/2 where the radii are equal; with these radii not",
)
def target_alone(h, W, y, radii):
    return a3.log_softmax(moved(h, W, y, 2 * radii, -1.0 * (np.arange(len(W)) == y)))[y]


@known(
    "3.3",
    "target alone, once",
    "only the target moves; each rival moves within its own radius, too",
)
def target_once(h, W, y, radii):
    return a3.log_softmax(moved(h, W, y, radii, -1.0 * (np.arange(len(W)) == y)))[y]


@known("3.3", "all up", "the target moves with the rivals; the adversary moves it the other way")
def all_up(h, W, y, radii):
    return a3.log_softmax(moved(h, W, y, radii, 1.0))[y]


@known("3.3", "rivals alone", "the target moves, too")
def rivals_alone(h, W, y, radii):
    return a3.log_softmax(moved(h, W, y, radii, 1.0 * (np.arange(len(W)) != y)))[y]


@known("3.3", "no ‖h‖", "a radius is a length in the space of words: times ‖h‖")
def no_length(h, W, y, radii):
    return a3.log_softmax(W @ h + opposite(W, y) * radii)[y]


@known("3.3", "other side", "this adversary helps: the target goes down, others up")
def on_our_side(h, W, y, radii):
    return a3.log_softmax(moved(h, W, y, radii, -opposite(W, y)))[y]


@known("3.3", "no logarithm", "this is the probability; take its logarithm")
def no_logarithm(h, W, y, radii):
    return np.exp(a3.adversarial_log_prob(h, W, y, radii))


# --- 3.4 -----------------------------------------------------------------------------------------


@known("3.4", "overflow", "right for small logits, but exp overflows")
def overflowing_chances(contexts, prior, W, y, r):
    powers = np.exp(contexts @ W.T)
    p = powers[:, y] / powers.sum(1)
    return -r * unit(prior * p * (1 - p) @ contexts)


def chances(contexts, W, y):
    return np.exp(a3.log_softmax(contexts @ W.T)[:, y])


@known("3.4", "mean context", "this mixes contexts: components that do not expect y do not matter")
def mean_context(contexts, prior, W, y, r):
    return -r * unit(prior @ contexts)


@known(
    "3.4",
    "no 1 − p",
    "a component that is sure of y cannot be hurt to first order: (1 − p_k) is missing",
)
def without_rest(contexts, prior, W, y, r):
    return -r * unit(prior * chances(contexts, W, y) @ contexts)


@known("3.4", "no prior", "a component that hardly takes part does little: π_k")
def without_prior(contexts, prior, W, y, r):
    p = chances(contexts, W, y)
    return -r * unit(p * (1 - p) @ contexts)


@known("3.4", "no p", "a component that gives y nothing has nothing to lose")
def without_chance(contexts, prior, W, y, r):
    return -r * unit(prior * (1 - chances(contexts, W, y)) @ contexts)


@known("3.4", "sign", "it helps the word: P(y) grows")
def helping_all(contexts, prior, W, y, r):
    return -a3.shared_worst(contexts, prior, W, y, r)


@known("3.4", "strongest alone", "the other components are hurt, too")
def strongest_component(contexts, prior, W, y, r):
    return -r * unit(contexts[(prior * chances(contexts, W, y)).argmax()])


@known("3.4", "not scaled", "the direction is right, its length is not r")
def not_scaled(contexts, prior, W, y, r):
    p = chances(contexts, W, y)
    return -r * (prior * p * (1 - p)) @ contexts


# --- 3.5 -----------------------------------------------------------------------------------------


# First, since on a long context it differs from the right answer by less than a match allows.
@known("3.5", "guarded", "a small number beside ‖h‖ hides short contexts")
def guarded(W, i, h):
    return a3.certificate(W, i, h) * np.linalg.norm(h) / (np.linalg.norm(h) + 1e-10)


@known("3.5", "distance", "an upper bound (theorem 3.3); h may show less")
def nearest(W, i, h):
    return np.linalg.norm(np.delete(W, i, 0) - W[i], axis=1).min()


@known("3.5", "its own rival", "i is among its own rivals: the margin over itself is always 0")
def with_itself(W, i, h):
    return min(0.0, a3.certificate(W, i, h))


@known("3.5", "0 as a rival", "where all products are negative, a 0 in the place of i's own wins")
def zero_as_a_rival(W, i, h):
    products = W @ unit(h)
    return products[i] - np.where(np.arange(len(W)) == i, 0.0, products).max()


@known("3.5", "not per length", "the margin grows with ‖h‖, the ε does not")
def not_per_length(W, i, h):
    return a3.certificate(W, i, h) * np.linalg.norm(h)


@known("3.5", "largest", "one rival that comes near is enough: the least margin counts")
def largest(W, i, h):
    return ((W[i] - np.delete(W, i, 0)) @ unit(h)).max()


@known("3.5", "half", "twice this is shown: only w_i moves")
def half(W, i, h):
    return a3.certificate(W, i, h) / 2


@known("3.5", "cut at 0", "negative where another word wins: do not cut")
def not_negative(W, i, h):
    return max(0.0, a3.certificate(W, i, h))


# --- 3.7: what only looks like it -----------------------------------------------------------------

# Each takes radii in part from other words, and is right where all radii are 0, where they are
# equal, or where no logit differs. Some change the rivals' radii and are right where y alone moves.
# The others change the radius of y and are right where y stays. Some are right for any order of the
# words. The others are wrong for one y in three, so that a law that looks at a single y takes most
# of them for right. Many differ by a little, and most only from a context whose length is not 1.
ANY_ORDER = {
    "rivals' mean": lambda radii, y: among_rivals(radii, y, lambda r: 0 * r + r.mean()),
    "between y's and the least": lambda radii, y: of_target(radii, y, radii.min()),
}
OTHER_RADII = {
    "rivals' rolled": lambda radii, y: among_rivals(radii, y, lambda r: np.roll(r, 1)),
    "between y's and the one before": lambda radii, y: of_target(radii, y, radii[y - 1]),
} | ANY_ORDER


def among_rivals(radii, y, change):
    rivals = np.arange(len(radii)) != y
    changed = radii.copy()
    changed[rivals] = change(radii[rivals])
    return changed


def of_target(radii, y, other):
    """Return radii of which the target's is the geometric mean of its own and another."""
    changed = radii.copy()
    changed[y] = np.sqrt(radii[y] * other)
    return changed


def exchanged(name: str, share: float, any_length: bool = False, third: int | None = None):
    """Return a wrong function with radii of other words in part, for one y in three or all."""

    def function(h, W, y, radii):
        part = share * (1.0 if any_length else min(1.0, abs(np.linalg.norm(h) - 1)))
        part = part * (third is None or y % 3 == third)
        others = OTHER_RADII[name](radii, y)
        return a3.adversarial_log_prob(h, W, y, (1 - part) * radii + part * others)

    where = ", any length" * any_length + f", y = {third} + 3 k" * (third is not None)
    return Mistake(f"{name}, {share:g}{where}", function, "")


def near(h, W, y, radii):
    return a3.adversarial_log_prob(h, W, y, radii) + 1e-3


WRONG = {
    "3.7": (
        *candidates(on_our_side, no_logarithm, near),
        *(exchanged(name, share) for name in ANY_ORDER for share in (1.0, 0.02)),
        *(exchanged(name, 0.02, any_length=True) for name in ANY_ORDER),
        *(
            exchanged(name, share, third=third)
            for name in sorted(OTHER_RADII.keys() - ANY_ORDER.keys())
            for share in (1.0, 0.02)
            for third in range(3)
        ),
    )
}
