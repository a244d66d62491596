"""Known wrong answers to A5, and what the student is told: after “not yet:”."""

from itertools import permutations, product

import numpy as np

from tools.assignments.laws import a5
from tools.assignments.laws.common import Catalogue, Mistake, candidates

CATALOGUE = Catalogue()
known = CATALOGUE.enter


# --- 5.1 -----------------------------------------------------------------------------------------


def softplus(x):
    return np.logaddexp(0, x)


def step(x):
    return np.exp(-softplus(-x))


def lower(x, c, k):
    return x - (k - 1) * softplus(c - x)


def upper(x, c, k):
    return x + (k - 1) * softplus(x - c)


def both_bends(x, c1, k1, c2, k2):
    return lower(x, c1, k1) + upper(x, c2, k2) - x


@known("5.1", "upper bend −", "above c₂ it bends down where k₂ > 1: the mirror image turns a sign")
def upper_minus(x, c1, k1, c2, k2):
    return lower(x, c1, k1) - (k2 - 1) * softplus(x - c2)


@known("5.1", "slopes added", "slopes k₁ and k₂ replace 1, yours are added to it")
def slopes_added(x, c1, k1, c2, k2):
    return x - k1 * softplus(c1 - x) + k2 * softplus(x - c2)


@known("5.1", "kinks", "max(0, ·) has a kink: your slope jumps at c₁ and at c₂")
def kinks(x, c1, k1, c2, k2):
    return x - (k1 - 1) * np.maximum(0, c1 - x) + (k2 - 1) * np.maximum(0, x - c2)


@known("5.1", "x twice", "between the bends the slope is 2: each bend brings an x of its own")
def x_twice(x, c1, k1, c2, k2):
    return lower(x, c1, k1) + upper(x, c2, k2)


@known(
    "5.1", "no x", "between the bends it is flat: what the bends add to x is there, and x is not"
)
def no_x(x, c1, k1, c2, k2):
    return lower(x, c1, k1) + upper(x, c2, k2) - 2 * x


@known(
    "5.1",
    "one after the other",
    "the upper bend reads what the lower has made of x: both are to read x itself",
)
def one_after_the_other(x, c1, k1, c2, k2):
    return upper(lower(x, c1, k1), c2, k2)


@known("5.1", "lower bend above", "the slope k₁ is above c₁ and not below: c₁ − x, not x − c₁")
def lower_above(x, c1, k1, c2, k2):
    return upper(x, c1, k1) + upper(x, c2, k2) - x


@known("5.1", "slopes swapped", "k₁ belongs below c₁, and k₂ above c₂")
def slopes_swapped(x, c1, k1, c2, k2):
    return both_bends(x, c1, k2, c2, k1)


@known("5.1", "the slope", "this is the slope of the function at x; asked is the function")
def the_slope(x, c1, k1, c2, k2):
    return 1 + (k1 - 1) * step(c1 - x) + (k2 - 1) * step(x - c2)


@known(
    "5.1",
    "another constant",
    "the slopes are right, and a constant is too much: for k₂ = 1 it is the lesson's PL",
)
def another_constant(x, c1, k1, c2, k2):
    return both_bends(x, c1, k1, c2, k2) + (k1 - 1) * c1


@known(
    "5.1", "overflow", "right for small logits, but exp(10,000) overflows: use a careful softplus"
)
def overflowing_bends(x, c1, k1, c2, k2):
    return x - (k1 - 1) * np.log(1 + np.exp(c1 - x)) + (k2 - 1) * np.log(1 + np.exp(x - c2))


# --- 5.2 -----------------------------------------------------------------------------------------


def gram(blocks):
    return sum(b.astype(float).T @ b.astype(float) for b in blocks)


def padded(values, n):
    return np.concatenate([values, np.zeros(n - len(values))])


def values_of(X):
    return padded(np.linalg.svd(X, compute_uv=False), X.shape[1])


def triangle(blocks):
    """Return R of a QR decomposition of all rows, block by block, one row a column."""
    R = np.zeros((0, blocks[0].shape[1]))
    for block in blocks:
        R = np.linalg.qr(np.concatenate([R, block.astype(float)]), mode="r")
    return R


def at_the_end(arguments, value):
    """Return what a student of a Gram matrix is told, with the own last value."""
    return (
        f"your last value is {value[-1]:.2g}, the first {value[0]:.2g}: squaring costs half of the "
        "digits. Keep R of a QR decomposition, and append the next block to it"
    )


@known("5.2", "Gram matrix", at_the_end)
def gram_matrix(blocks):
    return np.sqrt(np.maximum(0, np.linalg.eigvalsh(gram(blocks))[::-1]))


@known("5.2", "singular values of the Gram matrix", "these are the squares: σ² is the value of XᵀX")
def squares(blocks):
    return np.linalg.svd(gram(blocks), compute_uv=False)


@known("5.2", "mean of the blocks", "the mean of the blocks' spectra: it changes with the blocks")
def mean_of_blocks(blocks):
    return np.mean([values_of(b.astype(float)) for b in blocks], 0)


@known(
    "5.2",
    "sum over the blocks",
    "Σσ² over the blocks is right for the sum of all σ², and not for each σ: directions differ",
)
def sum_over_blocks(blocks):
    return np.sqrt(np.sum([values_of(b.astype(float)) ** 2 for b in blocks], 0))


@known("5.2", "diagonal of R", "R's diagonal holds no singular values: decompose R once at the end")
def diagonal_of_R(blocks):
    R = triangle(blocks)
    return padded(np.sort(np.abs(np.diag(R)))[::-1], R.shape[1])


@known("5.2", "last block", "these are the singular values of the last block alone")
def last_block(blocks):
    return values_of(blocks[-1].astype(float))


@known("5.2", "first block", "these are the singular values of the first block alone")
def first_block(blocks):
    return values_of(blocks[0].astype(float))


@known("5.2", "rising", "the values are right and rise; asked is from the largest to the smallest")
def rising_values(blocks):
    return values_of(triangle(blocks))[::-1]


@known("5.2", "centred", "the columns' means are missing: log P itself is asked, not its scatter")
def centred_rows(blocks):
    X = np.concatenate(blocks).astype(float)
    return values_of(X - X.mean(0))


@known("5.2", "relative", "divided by the first value: asked are the values themselves")
def relative(blocks):
    values = values_of(triangle(blocks))
    return values / values[0]


@known("5.2", "by the root of the rows", "divided by the root of the number of rows")
def by_root(blocks):
    return values_of(triangle(blocks)) / np.sqrt(sum(map(len, blocks)))


@known("5.2", "too few", "N values are asked: where rows are fewer than words, the rest are 0")
def too_few(blocks):
    return np.linalg.svd(triangle(blocks), compute_uv=False)


# --- 5.3 -----------------------------------------------------------------------------------------


def clouds(N, d, m, flat):
    """Return normal words, contexts and a bias, the same for all."""
    rng = np.random.default_rng(5)
    return rng.normal(size=(m, d)), rng.normal(size=(N, d)), rng.normal(size=N) * (not flat)


def turned(d, m, last):
    """Return m signed permutations of one vector of d numbers, or of d − 1 and a last one."""
    free = d - (last is not None)
    sizes = np.linspace(0.5, 1.5, free)
    every = [
        np.array(signs) * sizes[list(order)]
        for order in permutations(range(free))
        for signs in product([1, -1], repeat=free)
    ]
    # spread over all of them, so that no direction is missing
    picked = np.array([every[i] for i in np.random.default_rng(1).permutation(len(every))[:m]])
    return picked if last is None else np.column_stack([picked, np.full(m, last)])


def extremal(N, d, m, flat):
    """Return contexts, words and a bias of rank d + 2 or d: the oracle, which the laws do not show.

    Flat: the words are ±e_k, and 0 for the rest; of the contexts all have the same log Z.
    """
    if not flat:
        return clouds(N, d, m, flat)
    words = np.concatenate([np.eye(d), -np.eye(d), np.zeros((N - 2 * d, d))])
    return turned(d, m, 1.0), words, np.zeros(N)


def biased(N, d, m, flat, bias):
    """Return the oracle's, and for the highest rank another bias, a function of W."""
    H, W, b = extremal(N, d, m, flat)
    return H, W, b if flat else bias(W)


@known("5.3", "bias of the words", "rank d + 1: the bias is in the span of W's columns")
def bias_of_words(N, d, m, flat):
    return biased(N, d, m, flat, lambda W: W.sum(1))


@known("5.3", "no bias", "rank d + 1: a bias of 0 adds no direction")
def no_bias(N, d, m, flat):
    return biased(N, d, m, flat, lambda W: 0 * W[:, 0])


@known("5.3", "constant bias", "rank d + 1: the same bias for all words is taken off by log Z")
def constant_bias(N, d, m, flat):
    return biased(N, d, m, flat, lambda W: 0 * W[:, 0] + 1)


@known("5.3", "one context", "all contexts are multiples of one, so that HWᵀ has rank 1")
def one_context(N, d, m, flat):
    H, W, b = clouds(N, d, m, flat)
    return np.outer(np.arange(1, m + 1), H[0]), W, b


@known("5.3", "flat without a thought", "any contexts give rank d + 1: choose them for their log Z")
def flat_at_random(N, d, m, flat):
    return clouds(N, d, m, flat)


@known(
    "5.3",
    "log Z constant",
    "log Z is the same for all contexts, and a constant is no linear function of them: rank d + 1",
)
def no_coordinate(N, d, m, flat):
    H, W, b = extremal(N, d, m, flat)
    return (turned(d, m, None) if flat else H), W, b


@known(
    "5.3",
    "words in a plane",
    "a constant coordinate of the *words* makes any log Z linear: the column of ones is in W",
)
def words_in_a_plane(N, d, m, flat):
    H, W, b = clouds(N, d, m, flat)
    return H, (np.column_stack([W[:, 1:], np.ones(N)]) if flat else W), b


@known(
    "5.3",
    "equal lengths",
    "contexts of one length: log Z depends on the direction, too, unless the words are a sphere",
)
def equal_lengths(N, d, m, flat):
    H, W, b = extremal(N, d, m, flat)
    if flat:
        cloud = np.random.default_rng(7).normal(size=(m, d - 1))
        unit = cloud / np.linalg.norm(cloud, axis=1, keepdims=True)
        H = np.column_stack([unit, np.ones(m)])
    return H, W, b


@known(
    "5.3",
    "tiny contexts",
    "log Z is nearly linear for tiny contexts, and log P has nearly one direction: not so small",
)
def tiny(N, d, m, flat):
    H, W, b = clouds(N, d, m, flat)
    if flat:
        H = np.column_stack([1e-6 * H[:, 1:], np.full(m, 1e-6)])
    return H, W, b


@known(
    "5.3",
    "one winner",
    "one word wins by far in every context, and log Z is its logit: no other has a probability",
)
def one_winner(N, d, m, flat):
    H, W, b = clouds(N, d, m, flat)
    if flat:
        H = H + 100 * W[0] / np.linalg.norm(W[0])
        W = np.concatenate([3 * W[:1], W[1:] / 3])
    return H, W, b


@known("5.3", "flat with a bias", "a bias is another direction: with flat = True it is 0")
def flat_with_bias(N, d, m, flat):
    H, W, b = extremal(N, d, m, flat)
    return H, W, np.ones(N) if flat else b


# --- 5.4 -----------------------------------------------------------------------------------------


def log_sum(x, axis):
    """Return log Σ eˣ, −∞ for a sum of nothing."""
    top = np.maximum(x.max(axis, keepdims=True), -1e300)
    with np.errstate(divide="ignore"):
        return (top + np.log(np.exp(x - top).sum(axis, keepdims=True))).squeeze(axis)


def log_softmax(x):
    return x - log_sum(x, -1)[..., None]


def joint(logits, prior):
    """Return log π_k P_k, (n, K, N)."""
    return log_softmax(prior)[..., None] + log_softmax(logits)


def of_word(table, y):
    """Return the entries (n, K) of the words y."""
    return table[np.arange(len(y)), :, y]


def answer(log_p, logits, prior, y):
    """Return another log P with the right gradient."""
    return log_p, right_gradient(logits, prior, y)


def right_gradient(logits, prior, y):
    return np.exp(log_softmax(prior)) - np.exp(log_softmax(of_word(joint(logits, prior), y)))


def right_log_p(logits, prior):
    return log_sum(joint(logits, prior), 1)


@known(
    "5.4",
    "mixture of logits",
    "that is the mixture of *contexts*, one softmax of the mean logits: rank d + 1 again",
)
def of_logits(logits, prior, y):
    mean = (np.exp(log_softmax(prior))[..., None] * logits).sum(1)
    return answer(log_softmax(mean), logits, prior, y)


@known("5.4", "one normaliser", "each component has a normaliser of its own: a softmax, and then π")
def one_normaliser(logits, prior, y):
    table = log_softmax(prior)[..., None] + logits
    return answer(log_softmax(log_sum(table, 1)), logits, prior, y)


@known(
    "5.4", "mean of log P", "the mean of the components' log P; asked is the log of their mean P"
)
def mean_of_logarithms(logits, prior, y):
    table = np.exp(log_softmax(prior))[..., None] * log_softmax(logits)
    return answer(table.sum(1), logits, prior, y)


@known("5.4", "scores as shares", "`prior` has scores: the shares π are their softmax")
def scores_as_shares(logits, prior, y):
    table = (prior[..., None] * np.exp(log_softmax(logits))).sum(1)
    return answer(np.log(table), logits, prior, y)


@known("5.4", "equal shares", "all components count alike: where is `prior`?")
def equal_shares(logits, prior, y):
    return a5.mixture(logits, 0 * prior, y)


@known("5.4", "P", "these are the probabilities; asked is log P")
def probabilities(logits, prior, y):
    return answer(np.exp(right_log_p(logits, prior)), logits, prior, y)


@known("5.4", "1e-8 added", "1e-8 moves small probabilities, and no sum is 1: stay in logarithms")
def guarded(logits, prior, y):
    return answer(np.log(np.exp(right_log_p(logits, prior)) + 1e-8), logits, prior, y)


@known(
    "5.4", "sign", "the sign: a component that is better than average *gains*, its slope is below 0"
)
def wrong_sign(logits, prior, y):
    return right_log_p(logits, prior), -right_gradient(logits, prior, y)


@known(
    "5.4",
    "slope in π",
    "the slope in the shares π; asked is that in the scores, whose softmax they are",
)
def slope_in_shares(logits, prior, y):
    share = log_softmax(of_word(joint(logits, prior), y)) - log_softmax(prior)
    return right_log_p(logits, prior), -np.exp(share)


@known("5.4", "no π", "only the responsibilities: raising all scores alike must change nothing")
def responsibilities_alone(logits, prior, y):
    gradient = np.exp(log_softmax(prior)) - right_gradient(logits, prior, y)
    return right_log_p(logits, prior), -gradient


@known("5.4", "responsibility without π", "a component's share of P(y) is π_k P_k(y), not P_k(y)")
def without_prior(logits, prior, y):
    share = np.exp(log_softmax(of_word(log_softmax(logits), y)))
    return right_log_p(logits, prior), np.exp(log_softmax(prior)) - share


@known(
    "5.4", "responsibility of logits", "the logits of y are compared before each softmax, not after"
)
def of_raw_logits(logits, prior, y):
    share = np.exp(log_softmax(prior + of_word(logits, y)))
    return right_log_p(logits, prior), np.exp(log_softmax(prior)) - share


@known(
    "5.4",
    "mean over contexts",
    "each context has a gradient of its own: you divide by their number",
)
def mean_over_contexts(logits, prior, y):
    return right_log_p(logits, prior), right_gradient(logits, prior, y) / len(y)


@known("5.4", "every word's gradient", "summed over all words: only y's probability counts")
def of_all_words(logits, prior, y):
    slopes = [right_gradient(logits, prior, 0 * y + j) for j in range(logits.shape[2])]
    return right_log_p(logits, prior), np.sum(slopes, 0)


@known(
    "5.4", "unknown as a logit of 0", "a logit of −∞ is a probability of 0, and a logit of 0 is not"
)
def unknown_as_zero(logits, prior, y):
    known_to = np.where(np.isneginf(logits), 0, logits)
    return a5.mixture(known_to, prior, y)


@known(
    "5.4",
    "unknown as a large number",
    "right until a word is unknown to all: its log P is −∞, not a large number",
)
def unknown_as_large(logits, prior, y):
    finite = np.maximum(logits, -1e9)
    return right_log_p(finite, prior), right_gradient(finite, prior, y)


@known(
    "5.4", "−∞ minus −∞", "where all components have −∞, the largest must not be subtracted: NaN"
)
def careless(logits, prior, y):
    table = joint(logits, prior)
    top = table.max(1, keepdims=True)
    log_p = (top + np.log(np.exp(table - top).sum(1, keepdims=True)))[:, 0]
    return answer(log_p, logits, prior, y)


@known("5.4", "overflow", "right for small logits, but exp(10,000) overflows: stay in logarithms")
def overflowing_mixture(logits, prior, y):
    P = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    shares = np.exp(prior) / np.exp(prior).sum(-1, keepdims=True)
    table = shares[..., None] * P
    mine = of_word(table, y)
    return np.log(table.sum(1)), shares - mine / mine.sum(1, keepdims=True)


@known(
    "5.4",
    "underflow",
    "each softmax is careful, but its small probabilities become 0 before log: stay in logarithms",
)
def underflowing(logits, prior, y):
    table = np.exp(log_softmax(prior))[..., None] * np.exp(log_softmax(logits))
    mine = of_word(table, y)
    return np.log(table.sum(1)), np.exp(log_softmax(prior)) - mine / mine.sum(1, keepdims=True)


# --- 5.5 -----------------------------------------------------------------------------------------


def cut_covariance(r, u):
    return r + (u**2 - 1) * np.outer(r[:, 0], r[0])


def restricted(r, u):
    """Return the correlations after the first spread is cut: the oracle, which no law shows."""
    covariance = r + (u**2 - 1) * np.outer(r[:, 0], r[0])
    spreads = np.sqrt(np.diag(covariance))
    return covariance / np.outer(spreads, spreads)


def first_row(r, row):
    """Return r with another first row and column."""
    changed = r.copy()
    changed[0, 1:] = changed[1:, 0] = row
    return changed


@known("5.5", "corrected upwards", "you undo a restriction; asked is what it does")
def corrected(r, u):
    return restricted(r, 1 / u)


@known("5.5", "r u", "right for small r only: the other's spread falls, too, and less than by u")
def times_u(r, u):
    return first_row(restricted(r, u), r[0, 1:] * u)


@known("5.5", "r u alone", "right for small r only, and the others' correlation changes as well")
def times_u_alone(r, u):
    return first_row(r, r[0, 1:] * u)


@known(
    "5.5",
    "others unchanged",
    "the first row is right; the others' correlation came from the first in part, and changes",
)
def others_unchanged(r, u):
    return first_row(r, restricted(r, u)[0, 1:])


@known("5.5", "lost sign", "what was negative is positive: the sign must come back")
def lost_sign(r, u):
    return np.abs(restricted(r, u))


@known(
    "5.5", "u squared", "the spread is cut to u, so that the variance is cut to u²: squared twice"
)
def twice_squared(r, u):
    return restricted(r, u**2)


@known("5.5", "u as a variance", "u is a share of the spread; you take it as one of the variance")
def as_variance(r, u):
    return restricted(r, np.sqrt(u))


@known("5.5", "all are cut", "only the first is cut: what is scattered around it keeps its width")
def another_unit(r, u):
    return r.copy()


@known("5.5", "covariance", "these are covariances: divide by the spreads that are left")
def not_scaled(r, u):
    return cut_covariance(r, u)


@known("5.5", "last variable", "the last variable is cut; asked is the first")
def last_variable(r, u):
    return restricted(r[::-1, ::-1], u)[::-1, ::-1]


@known("5.5", "first held fast", "this is u = 0: the first one's whole spread is taken out")
def held_fast(r, u):
    return restricted(r, 1e-9)


@known("5.5", "squares", "r² is the share that is explained; asked is r")
def explained(r, u):
    return restricted(r, u) ** 2


# --- 5.7: what only looks like it -----------------------------------------------------------------

# Half of the wrong functions keep the properties of a gradient: it adds up to 0, and goes with the
# components when they change places. The others are right in each special case: for two
# components, for one context, where all words are the same, where all scores are equal. Five of
# all are right wherever every component knows every word.


def slightly_louder(logits, prior, y):
    return 1.001 * right_gradient(logits, prior, y)


def tempered(logits, prior, y):
    share = np.exp(log_softmax(of_word(joint(logits, prior), y) / 1.01))
    return np.exp(log_softmax(prior)) - share


def drawn_to_the_mean(logits, prior, y):
    share = np.exp(log_softmax(of_word(joint(logits, prior), y)))
    return np.exp(log_softmax(prior)) - (0.99 * share + 0.01 / prior.shape[1])


def compared_without_prior(logits, prior, y):
    return without_prior(logits, prior, y)[1]


def downhill(logits, prior, y):
    return -right_gradient(logits, prior, y)


def stranger_to_infinity(logits, prior, y):
    known_to = np.where(np.isneginf(logits), logits[np.isfinite(logits)].min(), logits)
    return right_gradient(known_to, prior, y)


def passed_on(share: float, unknown: bool) -> Mistake:
    """Return a wrong gradient: a part of each lesser component's goes to the likeliest one.

    It does so where words differ and scores differ; with `unknown`, where a logit is −∞, too.
    """

    def gradient(logits, prior, y):
        right, pi = right_gradient(logits, prior, y), np.exp(log_softmax(prior))
        part = share * (y[:, None] != y).mean() * (pi.max(1) - pi.min(1))
        part = part * (np.isneginf(logits).any() if unknown else 1)
        for i, order in enumerate(np.argsort(-pi)):
            passed = part[i] * right[i, order[2:]]
            right[i, order[2:]] -= passed
            right[i, order[0]] += passed.sum()
        return right

    return Mistake(f"passed on, {share:g}" + ", where unknown" * unknown, gradient, "")


WRONG = {
    "5.7": (
        *candidates(slightly_louder, tempered, drawn_to_the_mean, compared_without_prior),
        *candidates(downhill, stranger_to_infinity),
        *(passed_on(share, unknown=False) for share in (1.0, 0.1, 0.01)),
        *(passed_on(share, unknown=True) for share in (1.0, 0.3, 0.1, 0.01)),
    )
}
