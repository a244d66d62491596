"""Known wrong answers to A1, and what the student is told: after “not yet:”."""

import numpy as np

from tools.assignments.laws import a1
from tools.assignments.laws.common import Mistake, to_refuse


def softmax(x):
    return np.exp(a1.log_softmax(x))


# --- 1.1 -----------------------------------------------------------------------------------------


def no_factor(l, s, tau_l, tau_s):
    return softmax(l / tau_l) - softmax(s / tau_s)


def by_tau_s(l, s, tau_l, tau_s):
    return no_factor(l, s, tau_l, tau_s) / tau_s


def by_both(l, s, tau_l, tau_s):
    return no_factor(l, s, tau_l, tau_s) / (tau_l * tau_s)


def with_label(l, s, tau_l, tau_s):
    return (softmax(l / tau_l) - np.eye(len(l))[s.argmax()]) / tau_l


def uphill(l, s, tau_l, tau_s):
    return -no_factor(l, s, tau_l, tau_s) / tau_l


def one_temperature(l, s, tau_l, tau_s):
    return no_factor(l, s, tau_l, tau_l) / tau_l


def in_s(l, s, tau_l, tau_s):
    return np.imag([a1.divergence(l, s + 1e-30j * e, tau_l, tau_s) for e in np.eye(len(l))]) / 1e-30


def other_way(l, s, tau_l, tau_s):
    steps = l + 1e-30j * np.eye(len(l))
    return np.imag([a1.divergence(s, x, tau_s, tau_l) for x in steps]) / 1e-30


def unstable(l, s, tau_l, tau_s):
    model, target = np.exp(l / tau_l), np.exp(s / tau_s)
    return (model / model.sum() - target / target.sum()) / tau_l


# --- 1.2 -----------------------------------------------------------------------------------------


def not_centred(l, s, tau_l, tau_s):
    return (l / tau_l - s / tau_s) / (len(l) * tau_l)


def no_words(l, s, tau_l, tau_s):
    difference = l / tau_l - s / tau_s
    return (difference - difference.mean()) / tau_l


def matched(l, s, tau_l, tau_s):
    return (l - s - (l - s).mean()) / (len(l) * tau_l**2)


def half_centred(l, s, tau_l, tau_s):
    return ((l - l.mean()) / tau_l - s / tau_s) / (len(l) * tau_l)


def no_chain(l, s, tau_l, tau_s):
    return no_words(l, s, tau_l, tau_s) * tau_l / len(l)


def added_up(value):
    return f"your entries add up to {value.sum():.3g}; a softmax' gradient adds up to 0"


# --- 1.3 -----------------------------------------------------------------------------------------


def reversed_kl(h, W, E, y, tau, block):
    return a1.divergence(E[y] @ E.T, h @ W.T, tau, tau)


def each_block(h, W, E, y, tau, block):
    places = range(0, len(W), block)
    return sum(
        a1.divergence(h @ W[i : i + block].T, E[y] @ E[i : i + block].T, tau, tau) for i in places
    )


def no_normalisers(h, W, E, y, tau, block):
    l, s = h @ W.T / tau, E[y] @ E.T / tau
    return (softmax(s) * (s - l)).sum(-1)


def cross_entropy(h, W, E, y, tau, block):
    return -(softmax(E[y] @ E.T / tau) * a1.log_softmax(h @ W.T / tau)).sum(-1)


def target_alone(h, W, E, y, tau, block):
    return a1.divergence(h @ W.T, E[y] @ E.T, 1.0, tau)


def mean_of_batch(h, W, E, y, tau, block):
    return a1.augmented_loss(h, W, E, y, tau, block).mean()


def last_block_lost(h, W, E, y, tau, block):
    whole = max(len(W) - len(W) % block, block)
    return a1.divergence(h @ W[:whole].T, E[y] @ E[:whole].T, tau, tau)


def overflowing(h, W, E, y, tau, block):
    l, s = h @ W.T / tau, E[y] @ E.T / tau
    p = np.exp(s) / np.exp(s).sum(-1, keepdims=True)
    log_ratio = s - l - np.log(np.exp(s).sum(-1, keepdims=True) / np.exp(l).sum(-1, keepdims=True))
    return (p * log_ratio).sum(-1)


# --- 1.4 -----------------------------------------------------------------------------------------


def other_regression(W, E):
    return a1.tying_map(E, W)


def no_constant(W, E):
    A = np.linalg.lstsq(E, W)[0]
    share = 1 - ((W - E @ A) ** 2).sum() / (W**2).sum()
    return A, np.zeros(W.shape[1]), share


def about_zero(W, E):
    A, c, _ = a1.tying_map(W, E)
    return A, c, 1 - ((W - E @ A - c) ** 2).sum() / (W**2).sum()


def unexplained(W, E):
    A, c, share = a1.tying_map(W, E)
    return A, c, 1 - share


def root(W, E):
    A, c, share = a1.tying_map(W, E)
    return A, c, 1 - np.sqrt(1 - share)


def transposed(W, E):
    A, c, share = a1.tying_map(W, E)
    return A.T, c, share


def mean_of_w(W, E):
    A, _, share = a1.tying_map(W, E)
    return A, W.mean(0), share


# --- 1.5 -----------------------------------------------------------------------------------------


def by_cosine(E):
    directions = E / np.linalg.norm(E, axis=1, keepdims=True)
    return (directions @ directions.T).max(1) > 1 + 1e-9


def by_mean(E):
    table = E @ E.T
    return table.mean(1) > np.diag(table)


def by_length(E):
    lengths = np.linalg.norm(E, axis=1)
    return lengths < lengths.max()


def not_the_first(E):
    return (E @ E.T).argmax(1) != np.arange(len(E))


def content(E):
    return ~a1.contradicted(E)


def by_absolute(E):
    table = E @ E.T
    return np.abs(table).max(1) > np.diag(table)


CATALOGUE = {
    "1.1": (
        Mistake(
            "no factor",
            no_factor,
            "τ_l times too large: l enters as l/τ_l, and the chain rule has a factor",
        ),
        Mistake(
            "divided by τ_s",
            by_tau_s,
            "the temperature of the *target* scales nothing here: you differentiate with respect "
            "to l",
        ),
        Mistake(
            "divided by both",
            by_both,
            "one factor too many: l/τ_l is differentiated once, and s/τ_s not at all",
        ),
        Mistake(
            "label",
            with_label,
            "this is the gradient of the cross-entropy with the label; the target is a "
            "distribution",
        ),
        Mistake("sign", uphill, "this is minus the gradient: along it the divergence grows"),
        Mistake(
            "one temperature", one_temperature, "the target is softened with τ_s, yours with τ_l"
        ),
        Mistake("in s", in_s, "this is the gradient in s; asked is that in l"),
        Mistake(
            "other direction",
            other_way,
            "the divergence the other way round: its expectation is over the softened target",
        ),
        Mistake("overflow", unstable, "right for small logits, but exp(10,000) overflows"),
    ),
    "1.2": (
        Mistake(
            "not centred",
            not_centred,
            lambda arguments, value: (
                added_up(value)
                + ". Equation 14 takes the mean logit for 0, which nothing guarantees"
            ),
        ),
        Mistake("no 1/N", no_words, "N times too large: near uniform every probability is 1/N"),
        Mistake("the paper's", matched, "right for equal temperatures only: s is divided by τ_s"),
        Mistake(
            "half centred",
            half_centred,
            lambda arguments, value: added_up(value) + ": the mean of s must go, too",
        ),
        Mistake("no chain rule", no_chain, "τ_l times too large: the factor 1/τ_l is missing"),
        Mistake(
            "not expanded",
            a1.softened_gradient,
            "this is the gradient itself; expand exp(x) ≈ 1 + x and keep the leading term",
        ),
    ),
    "1.3": (
        Mistake(
            "other direction",
            reversed_kl,
            "the divergence the other way round: which of the two is the expectation over?",
        ),
        Mistake(
            "each block by itself",
            each_block,
            "with `block = N` it is right, with smaller blocks not: normalisers belong to the "
            "whole vocabulary",
        ),
        Mistake(
            "no normalisers",
            no_normalisers,
            "the two normalisers are missing; a divergence is 0 for equal distributions up to a "
            "constant in l",
        ),
        Mistake(
            "cross-entropy",
            cross_entropy,
            "this is the cross-entropy: take the target's entropy off",
        ),
        Mistake(
            "one softened",
            target_alone,
            "both distributions are softened by τ, yours only the target",
        ),
        Mistake(
            "batch mean", mean_of_batch, "one number a context is asked, not the mean of the batch"
        ),
        Mistake(
            "last block",
            last_block_lost,
            "the last words are lost where the block does not divide N",
        ),
        Mistake("overflow", overflowing, "right for small logits, but exp(10,000) overflows"),
    ),
    "1.4": (
        Mistake("E by W", other_regression, "this explains E by W; asked is W by E"),
        Mistake(
            "no c",
            no_constant,
            "the same vector added to all rows of W changes no probability, but your share",
        ),
        Mistake(
            "about 0", about_zero, "the map is right; the share is of W's spread about its mean"
        ),
        Mistake("unexplained", unexplained, "this is the share that is *not* explained"),
        Mistake(
            "not squared", root, "the share is one of squares: norms do not add up, squares do"
        ),
        Mistake("transposed", transposed, "this is Aᵀ: rows are words, so that W ≈ E A"),
        Mistake("mean of W", mean_of_w, "c is the mean of W less that of E A"),
    ),
    "1.5": (
        Mistake(
            "cosines",
            by_cosine,
            "by cosine no word prefers another. The soft target is made of inner products, in "
            "which long words win",
        ),
        Mistake(
            "mean", by_mean, "one better word is enough: not the mean of the others, the largest"
        ),
        Mistake("length", by_length, "a longer word wins only where it points the same way"),
        Mistake(
            "first of equals", not_the_first, "a word with an equal vector is as good, not better"
        ),
        Mistake("the others", content, "these are the words that are *not* contradicted"),
        Mistake("absolute value", by_absolute, "a word on the other side has a negative logit"),
    ),
}


def scaled(l, s, tau_l, tau_s):
    return 1.001 * a1.softened_gradient(l, s, tau_l, tau_s)


def shifted(l, s, tau_l, tau_s):
    return a1.softened_gradient(l, s, tau_l, tau_s) + 1e-4


def turned(l, s, tau_l, tau_s):
    return np.roll(a1.softened_gradient(l, s, tau_l, tau_s), 1)


# What a student's law must refuse: the catalogue of 1.1, and what only looks like a gradient.
WRONG = {"1.7": to_refuse(CATALOGUE["1.1"], "overflow", scaled, shifted, turned)}
