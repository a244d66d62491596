"""Known wrong answers to A1, and what the student is told: after “not yet:”."""

import numpy as np

from tools.assignments.laws import a1
from tools.assignments.laws.common import Catalogue, Mistake, candidates

CATALOGUE = Catalogue()
known = CATALOGUE.enter


def softmax(x):
    return np.exp(a1.log_softmax(x))


# --- 1.1 -----------------------------------------------------------------------------------------


@known(
    "1.1", "no factor", "τ_l times too large: l enters as l/τ_l, and the chain rule has a factor"
)
def no_factor(l, s, tau_l, tau_s):
    return softmax(l / tau_l) - softmax(s / tau_s)


@known(
    "1.1",
    "divided by τ_s",
    "the temperature of the *target* scales nothing here: you differentiate with respect to l",
)
def by_tau_s(l, s, tau_l, tau_s):
    return no_factor(l, s, tau_l, tau_s) / tau_s


@known(
    "1.1",
    "divided by both",
    "one factor too many: l/τ_l is differentiated once, and s/τ_s not at all",
)
def by_both(l, s, tau_l, tau_s):
    return no_factor(l, s, tau_l, tau_s) / (tau_l * tau_s)


@known(
    "1.1",
    "label",
    "this is the gradient of the cross-entropy with the label; the target is a distribution",
)
def with_label(l, s, tau_l, tau_s):
    return (softmax(l / tau_l) - np.eye(len(l))[s.argmax()]) / tau_l


@known("1.1", "sign", "this is minus the gradient: along it the divergence grows")
def uphill(l, s, tau_l, tau_s):
    return -no_factor(l, s, tau_l, tau_s) / tau_l


@known("1.1", "one temperature", "the target is softened with τ_s, yours with τ_l")
def one_temperature(l, s, tau_l, tau_s):
    return no_factor(l, s, tau_l, tau_l) / tau_l


@known("1.1", "swapped", "τ_l and τ_s are the wrong way round in the two distributions")
def swapped(l, s, tau_l, tau_s):
    return no_factor(l, s, tau_s, tau_l) / tau_l


@known("1.1", "times τ_l", "multiplied by τ_l: l enters as l/τ_l, so that the chain rule divides")
def times_tau(l, s, tau_l, tau_s):
    return no_factor(l, s, tau_l, tau_s) * tau_l


@known("1.1", "in s", "this is the gradient in s; asked is that in l")
def in_s(l, s, tau_l, tau_s):
    return np.imag([a1.divergence(l, s + 1e-30j * e, tau_l, tau_s) for e in np.eye(len(l))]) / 1e-30


@known(
    "1.1",
    "other direction",
    "the divergence the other way round: its expectation is over the softened target",
)
def other_way(l, s, tau_l, tau_s):
    steps = l + 1e-30j * np.eye(len(l))
    return np.imag([a1.divergence(s, x, tau_s, tau_l) for x in steps]) / 1e-30


@known("1.1", "overflow", "right for small logits, but exp(10,000) overflows")
def unstable(l, s, tau_l, tau_s):
    model, target = np.exp(l / tau_l), np.exp(s / tau_s)
    return (model / model.sum() - target / target.sum()) / tau_l


# --- 1.2 -----------------------------------------------------------------------------------------


@known(
    "1.2",
    "not centred",
    lambda arguments, value: (
        added_up(value) + ". Equation 14 takes the mean logit for 0, which nothing guarantees"
    ),
)
def not_centred(l, s, tau_l, tau_s):
    return (l / tau_l - s / tau_s) / (len(l) * tau_l)


@known("1.2", "no 1/N", "N times too large: near uniform every probability is 1/N")
def no_words(l, s, tau_l, tau_s):
    difference = l / tau_l - s / tau_s
    return (difference - difference.mean()) / tau_l


@known("1.2", "the paper's", "right for equal temperatures only: s is divided by τ_s")
def matched(l, s, tau_l, tau_s):
    return (l - s - (l - s).mean()) / (len(l) * tau_l**2)


@known(
    "1.2", "half centred", lambda arguments, value: added_up(value) + ": the mean of s must go, too"
)
def half_centred(l, s, tau_l, tau_s):
    return ((l - l.mean()) / tau_l - s / tau_s) / (len(l) * tau_l)


@known("1.2", "no chain rule", "τ_l times too large: the factor 1/τ_l is missing")
def no_chain(l, s, tau_l, tau_s):
    return no_words(l, s, tau_l, tau_s) * tau_l / len(l)


@known("1.2", "sign", "this is minus the leading term: the prediction less the target")
def target_first(l, s, tau_l, tau_s):
    return -no_words(l, s, tau_l, tau_s) / len(l)


@known("1.2", "by τ_s", "the factor outside is that of the chain rule in l: 1/τ_l")
def by_the_targets(l, s, tau_l, tau_s):
    return no_words(l, s, tau_l, tau_s) * tau_l / (len(l) * tau_s)


def added_up(value):
    return f"your entries add up to {value.sum():.3g}; the gradient through a softmax adds up to 0"


@known(
    "1.2",
    "not expanded",
    "this is the gradient itself; expand exp(x) ≈ 1 + x and keep the leading term",
)
def not_expanded(l, s, tau_l, tau_s):
    return a1.softened_gradient(l, s, tau_l, tau_s)


# --- 1.3 -----------------------------------------------------------------------------------------


@known(
    "1.3",
    "other direction",
    "the divergence the other way round: which of the two is the expectation over?",
)
def reversed_kl(h, W, E, y, tau, block):
    return a1.divergence(E[y] @ E.T, h @ W.T, tau, tau)


@known(
    "1.3",
    "each block by itself",
    "with `block = N` it is right, with smaller blocks not: normalisers belong to the "
    "whole vocabulary",
)
def each_block(h, W, E, y, tau, block):
    places = range(0, len(W), block)
    return sum(
        a1.divergence(h @ W[i : i + block].T, E[y] @ E[i : i + block].T, tau, tau) for i in places
    )


@known(
    "1.3",
    "no normalisers",
    "the two normalisers are missing; a divergence is 0 for equal distributions up to a "
    "constant in l",
)
def no_normalisers(h, W, E, y, tau, block):
    l, s = h @ W.T / tau, E[y] @ E.T / tau
    return (softmax(s) * (s - l)).sum(-1)


@known("1.3", "cross-entropy", "this is the cross-entropy: take the target's entropy off")
def cross_entropy(h, W, E, y, tau, block):
    return -(softmax(E[y] @ E.T / tau) * a1.log_softmax(h @ W.T / tau)).sum(-1)


@known("1.3", "one softened", "both distributions are softened by τ, yours only the target")
def target_alone(h, W, E, y, tau, block):
    return a1.divergence(h @ W.T, E[y] @ E.T, 1.0, tau)


@known("1.3", "nothing softened", "both distributions are softened by τ, yours are not")
def unsoftened(h, W, E, y, tau, block):
    return a1.divergence(h @ W.T, E[y] @ E.T, 1.0, 1.0)


@known("1.3", "target of W", "the target is made of E alone: of e_y and all rows of E")
def target_of_w(h, W, E, y, tau, block):
    return a1.divergence(h @ W.T, W[y] @ W.T, tau, tau)


@known(
    "1.3", "e_y by W", "the target's logits are inner products of e_y with the rows of E, not of W"
)
def target_by_w(h, W, E, y, tau, block):
    return a1.divergence(h @ W.T, E[y] @ W.T, tau, tau)


@known(
    "1.3",
    "sums not rescaled",
    "when the largest logit grows from m to m′, the sums so far are multiplied by exp(m − m′)",
)
def not_rescaled(h, W, E, y, tau, block):
    l, s = h @ W.T / tau, E[y] @ E.T / tau
    sums = np.zeros((3, len(h)))
    for end in range(block, len(W) + block, block):
        part = slice(end - block, end)
        tops = l[:, :end].max(1, keepdims=True), s[:, :end].max(1, keepdims=True)
        model, target = np.exp(l[:, part] - tops[0]), np.exp(s[:, part] - tops[1])
        sums += model.sum(1), target.sum(1), (target * (s - l)[:, part]).sum(1)
    return sums[2] / sums[1] - np.log(sums[1] / sums[0]) + (tops[0] - tops[1])[:, 0]


@known("1.3", "batch mean", "one number a context is asked, not the mean of the batch")
def mean_of_batch(h, W, E, y, tau, block):
    return a1.augmented_loss(h, W, E, y, tau, block).mean()


@known("1.3", "last block", "the last words are lost where the block does not divide N")
def last_block_lost(h, W, E, y, tau, block):
    whole = max(len(W) - len(W) % block, block)
    return a1.divergence(h @ W[:whole].T, E[y] @ E[:whole].T, tau, tau)


@known("1.3", "overflow", "right for small logits, but exp(10,000) overflows")
def overflowing(h, W, E, y, tau, block):
    l, s = h @ W.T / tau, E[y] @ E.T / tau
    p = np.exp(s) / np.exp(s).sum(-1, keepdims=True)
    log_ratio = s - l - np.log(np.exp(s).sum(-1, keepdims=True) / np.exp(l).sum(-1, keepdims=True))
    return (p * log_ratio).sum(-1)


# --- 1.4 -----------------------------------------------------------------------------------------


@known("1.4", "E by W", "this explains E by W; asked is W by E")
def other_regression(W, E):
    return a1.tying_map(E, W)


@known(
    "1.4", "no c", "the same vector added to all rows of W changes no probability, but your share"
)
def no_constant(W, E):
    A = np.linalg.lstsq(E, W)[0]
    share = 1 - ((W - E @ A) ** 2).sum() / (W**2).sum()
    return A, np.zeros(W.shape[1]), share


@known("1.4", "about 0", "the map is right; the share is of W's spread about its mean")
def about_zero(W, E):
    A, c, _ = a1.tying_map(W, E)
    return A, c, 1 - ((W - E @ A - c) ** 2).sum() / (W**2).sum()


@known("1.4", "unexplained", "this is the share that is *not* explained")
def unexplained(W, E):
    A, c, share = a1.tying_map(W, E)
    return A, c, 1 - share


@known("1.4", "not squared", "the share is one of squares: norms do not add up, squares do")
def root(W, E):
    A, c, share = a1.tying_map(W, E)
    return A, c, 1 - np.sqrt(1 - share)


@known("1.4", "transposed", "this is Aᵀ: rows are words, so that W ≈ E A")
def transposed(W, E):
    A, c, share = a1.tying_map(W, E)
    return A.T, c, share


@known("1.4", "mean of W", "c is the mean of W less that of E A")
def mean_of_w(W, E):
    A, _, share = a1.tying_map(W, E)
    return A, W.mean(0), share


# --- 1.5 -----------------------------------------------------------------------------------------


@known(
    "1.5",
    "cosines",
    "by cosine no word prefers another. The soft target is made of inner products, in "
    "which long words win",
)
def by_cosine(E):
    directions = E / np.linalg.norm(E, axis=1, keepdims=True)
    return (directions @ directions.T).max(1) > 1 + 1e-9


@known("1.5", "mean", "one better word is enough: not the mean of the others, the largest")
def by_mean(E):
    table = E @ E.T
    return table.mean(1) > np.diag(table)


@known("1.5", "length", "a longer word wins only where it points the same way")
def by_length(E):
    lengths = np.linalg.norm(E, axis=1)
    return lengths < lengths.max()


@known("1.5", "first of equals", "a word with an equal vector is as good, not better")
def not_the_first(E):
    return (E @ E.T).argmax(1) != np.arange(len(E))


@known("1.5", "the others", "these are the words that are *not* contradicted")
def content(E):
    return ~a1.contradicted(E)


@known("1.5", "absolute value", "a word on the other side has a negative logit")
def by_absolute(E):
    table = E @ E.T
    return np.abs(table).max(1) > np.diag(table)


# --- 1.7: what only looks like a gradient ---------------------------------------------------------


def scaled(l, s, tau_l, tau_s):
    return 1.001 * a1.softened_gradient(l, s, tau_l, tau_s)


# Most wrong functions turn the entries of three words: their sum stays, and their length. They are
# right for two words, and where a distribution is uniform. Half of them feel the two distributions
# only, and pass each law that scales logits with their temperature; at very high temperatures,
# where both are flat, these are right. The others are right where the temperatures are equal, or
# one of them is 1. So no special case gives most of them away.
THREE = {
    "likeliest": lambda model, target: np.argsort(model + target)[-3:],
    "last": lambda model, target: np.arange(len(model))[-3:],
}
ANGLE = {
    "where one is sharper": lambda model, target, tau_l, tau_s: model @ model - target @ target,
    "where temperatures differ": lambda model, target, tau_l, tau_s: (
        np.log(tau_l / tau_s) * np.log(tau_l) * np.log(tau_s)
    ),
}


def turned(g, side, angle: float):
    """Return g turned towards `side` by an angle; its length and its sum stay as they were."""
    centred = g - g.mean()
    side = side - side.mean()
    side = side - centred * (centred @ side) / max(centred @ centred, 1e-300)
    length = np.linalg.norm(side)
    if length < 1e-12:  # there is no such direction
        return g
    across = np.linalg.norm(centred) * side / length
    return g.mean() + np.cos(angle) * centred + np.sin(angle) * across


def of_three(words: str, share: float, where: str) -> Mistake:
    """Return a wrong gradient, whose entries of three words are turned by a share of an angle."""

    def gradient(l, s, tau_l, tau_s):
        right = a1.softened_gradient(l, s, tau_l, tau_s)
        model, target = softmax(l / tau_l), softmax(s / tau_s)
        k = THREE[words](model, target)
        angle = share * ANGLE[where](model, target, tau_l, tau_s)
        right[k] = turned(right[k], (model + target)[k], angle)
        return right

    return Mistake(f"three {words} turned {where}, {share:g}", gradient, "")


KINDS = tuple((share, "where one is sharper") for share in (0.2, 0.1, 0.02))
KINDS += tuple((share, "where temperatures differ") for share in (0.2, 0.02, 0.002))
WRONG = {
    "1.7": (
        *candidates(with_label, uphill, scaled),
        *(of_three(words, *kind) for words in THREE for kind in KINDS),
    )
}
