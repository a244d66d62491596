"""Known wrong answers to A4, and what the student is told: after “not yet:”."""

import numpy as np

from tools.assignments.laws import a4
from tools.assignments.laws.common import Catalogue, Mistake

CATALOGUE = Catalogue()
known = CATALOGUE.enter


# --- 4.1 -----------------------------------------------------------------------------------------


@known(
    "4.1", "V transposed", "right for symmetric V only: which index of V meets σ, which meets h?"
)
def transposed(U, s, V, m, ids, H):
    return a4.read_and_predict(U, s, V.T, m, ids, H)


@known("4.1", "σ squared", "σ belongs to the matrix once, not once to U and once to V")
def squared(U, s, V, m, ids, H):
    return a4.read_and_predict(U, s**2, V, m, ids, H)


@known("4.1", "rows without σ", "the logits are right; the rows have not been stretched by σ")
def rows_not_stretched(U, s, V, m, ids, H):
    rows = a4.read_and_predict(U, np.ones_like(s), V, m, ids, H)[0]
    return rows, a4.read_and_predict(U, s, V, m, ids, H)[1]


@known("4.1", "logits without σ", "the rows are right; the logits have not been stretched by σ")
def logits_not_stretched(U, s, V, m, ids, H):
    logits = a4.read_and_predict(U, np.ones_like(s), V, m, ids, H)[1]
    return a4.read_and_predict(U, s, V, m, ids, H)[0], logits


@known(
    "4.1",
    "logits without m",
    "m changes no probability, but it does change the logits: each is higher by hᵀm",
)
def logits_not_shifted(U, s, V, m, ids, H):
    logits = a4.read_and_predict(U, s, V, 0 * m, ids, H)[1]
    return a4.read_and_predict(U, s, V, m, ids, H)[0], logits


@known("4.1", "rows without m", "the logits are right; the rows are not shifted by m")
def rows_not_shifted(U, s, V, m, ids, H):
    rows = a4.read_and_predict(U, s, V, 0 * m, ids, H)[0]
    return rows, a4.read_and_predict(U, s, V, m, ids, H)[1]


@known("4.1", "m left out", "both are those of U Σ Vᵀ alone: where is m?")
def not_shifted(U, s, V, m, ids, H):
    return a4.read_and_predict(U, s, V, 0 * m, ids, H)


@known("4.1", "m before V", "m is added to the words, not to their coordinates along V")
def shifted_before(U, s, V, m, ids, H):
    W = (U * s + m) @ V.T
    return W[ids], H @ W.T


@known("4.1", "all rows", "asked are the rows that ids names, in its order")
def all_rows(U, s, V, m, ids, H):
    return a4.read_and_predict(U, s, V, m, np.arange(len(U)), H)


# --- 4.2 -----------------------------------------------------------------------------------------


def by_size(s, c, over, slope):
    """Return Σ over(σ_(k) − c_k) and its gradient, with σ_(k) by falling size."""
    order = np.argsort(-np.abs(s))
    excess = np.abs(s[order]) - c
    gradient = np.empty_like(s)
    gradient[order] = slope(excess) * np.sign(s[order])
    return over(excess).sum(), gradient


def positive(x):
    return np.maximum(0, x)


@known("4.2", "two-sided", "it also punishes values *below* the ceiling; the class does not")
def two_sided(s, c):
    return by_size(s, c, np.square, lambda x: 2 * x)


@known("4.2", "a floor", "max(0, c − σ) is a floor: what is below pays, what is above does not")
def floor(s, c):
    return by_size(s, c, lambda x: positive(-x) ** 2, lambda x: -2 * positive(-x))


@known("4.2", "not sorted", "the k-th bound is for the k-th largest value")
def not_sorted(s, c):
    excess = positive(np.abs(s) - c)
    return (excess**2).sum(), 2 * excess * np.sign(s)


@known("4.2", "rising", "sorted the wrong way round: the bounds fall, the values rise")
def rising(s, c):
    return by_size(s, c[::-1], lambda x: positive(x) ** 2, lambda x: 2 * positive(x))


@known(
    "4.2",
    "gradient in sorted order",
    "the value is right, the gradient belongs to other entries: undo the sort",
)
def sorted_gradient(s, c):
    order = np.argsort(-np.abs(s))
    value, gradient = a4.ceiling(s, c)
    return value, gradient[order]


@known("4.2", "size of the gradient", "a negative s_k has the size −s_k: its slope turns round")
def unsigned(s, c):
    value, gradient = a4.ceiling(s, c)
    return value, np.abs(gradient)


@known("4.2", "signed values", "−3 is as large as 3: a singular value is the size of s_k")
def signed(s, c):
    order = np.argsort(-s)
    excess = positive(s[order] - c)
    gradient = np.empty_like(s)
    gradient[order] = 2 * excess
    return (excess**2).sum(), gradient


@known("4.2", "no 2", "the value is right, the gradient is half of its own")
def half(s, c):
    value, gradient = a4.ceiling(s, c)
    return value, gradient / 2


@known("4.2", "downhill", "the value is right, the gradient points downhill: it is minus its own")
def downhill(s, c):
    value, gradient = a4.ceiling(s, c)
    return value, -gradient


@known("4.2", "no square", "this is the sum of the excesses; asked is the sum of their squares")
def no_square(s, c):
    return by_size(s, c, positive, lambda x: 1.0 * (x > 0))


@known("4.2", "mean", "a mean over all values; asked is the sum")
def mean(s, c):
    value, gradient = a4.ceiling(s, c)
    return value / len(s), gradient / len(s)


# --- 4.3 -----------------------------------------------------------------------------------------


def iterated(X, tol, most=60):
    """Return X after the iteration, and the number of its steps, wherever it leads."""
    steps, one = 0, np.eye(X.shape[1])
    while np.linalg.norm(X.T @ X - one) > tol and steps < most:
        X, steps = 1.5 * X - 0.5 * X @ (X.T @ X), steps + 1
    return X, steps


@known("4.3", "not scaled", "it diverges where ‖X‖ > √5: divide X by its norm first")
def not_scaled(X, tol):
    return iterated(X, tol)


@known(
    "4.3",
    "QR",
    "orthonormal, but not the nearest: the first column has kept its direction, and QᵀX is not "
    "symmetric",
)
def triangular(X, tol):
    return np.linalg.qr(X)[0], 1


@known(
    "4.3",
    "left singular vectors",
    "the nearest, turned: the singular vectors on the right are missing",
)
def left_vectors(X, tol):
    return np.linalg.svd(X, full_matrices=False)[0], 1


@known(
    "4.3",
    "no iteration",
    "the right Q, from a decomposition: asked is the iteration, with the number of its steps",
)
def decomposed(X, tol):
    left, _, right = np.linalg.svd(X, full_matrices=False)
    return left @ right, 1


@known(
    "4.3",
    "column by column",
    "orthonormal, but not the nearest: divide all of X by one number, not each column by its own",
)
def column_by_column(X, tol):
    return iterated(X / np.linalg.norm(X, axis=0) / np.sqrt(X.shape[1]), tol)


@known("4.3", "ten steps", "always ten steps: tol says how many are enough")
def ten_steps(X, tol):
    return iterated(X / np.linalg.norm(X), 0, 10)


@known("4.3", "tol squared", "it ends too early: tol bounds ‖QᵀQ − I‖, not its square")
def early(X, tol):
    return iterated(X / np.linalg.norm(X), np.sqrt(tol))


# --- 4.4 -----------------------------------------------------------------------------------------


def along(W, p, axes):
    """Return log Z_p(a) for each row a of axes."""
    exponents = W @ axes.T
    top = exponents.max(0)
    return top + np.log(p @ np.exp(exponents - top))


def both(axes):
    return np.concatenate([axes.T, -axes.T])


def axes_of(W, p):
    return np.linalg.eigh((W.T * p) @ W)[1]


def two_measures(log_z):
    Z = np.exp(log_z - log_z.max())
    return Z.min() / Z.max(), Z.std() / Z.mean()


@known("4.4", "overflow", "right for short words, but exp(1,000) overflows: stay in logarithms")
def overflowing(W, p):
    Z = p @ np.exp(W @ both(axes_of(W, p)).T)
    return Z.min() / Z.max(), Z.std() / Z.mean()


@known("4.4", "p left out", "right for equal shares only: p belongs to Z and to the axes")
def no_shares(W, p):
    equal = np.full(len(W), 1 / len(W))
    return two_measures(along(W, equal, both(axes_of(W, equal))))


@known("4.4", "axes without p", "Z is weighted, but the axes still count every word once")
def axes_without_shares(W, p):
    return two_measures(along(W, p, both(axes_of(W, np.ones(len(W))))))


@known("4.4", "Z without p", "the axes are weighted, but Z still counts every word once")
def sums_without_shares(W, p):
    return two_measures(along(W, np.ones(len(W)), both(axes_of(W, p))))


@known("4.4", "one sign", "an eigenvector's sign is the solver's choice, and Z changes with it")
def one_sign(W, p):
    return two_measures(along(W, p, axes_of(W, p).T))


@known("4.4", "rows of the eigenvectors", "eigh returns eigenvectors in the columns, not in rows")
def rows_as_axes(W, p):
    return two_measures(along(W, p, both(axes_of(W, p).T)))


@known(
    "4.4", "coordinates", "these are the coordinates' axes: a rotation of W changes your numbers"
)
def along_coordinates(W, p):
    return two_measures(along(W, p, both(np.eye(W.shape[1]))))


@known(
    "4.4",
    "ratio of log Z",
    "I₁ is a ratio of Z, not of log Z: take the difference, then exp",
)
def ratio_of_logarithms(W, p):
    log_z = along(W, p, both(axes_of(W, p)))
    return log_z.min() / log_z.max(), two_measures(log_z)[1]


@known("4.4", "upside down", "I₁ is at most 1: the least Z stands above")
def upside_down(W, p):
    low, spread = a4.isotropy(W, p)
    return 1 / low, spread


@known("4.4", "n − 1", "I₁ is right; I₂ divides by the number of directions, not by one less")
def of_a_sample(W, p):
    low, spread = a4.isotropy(W, p)
    directions = 2 * W.shape[1]
    return low, spread * np.sqrt(directions / (directions - 1))


@known("4.4", "not relative", "I₁ is right; I₂ is the standard deviation *over the mean* of Z")
def not_relative(W, p):
    log_z = along(W, p, both(axes_of(W, p)))
    return two_measures(log_z)[0], np.exp(log_z).std()


# --- 4.5 -----------------------------------------------------------------------------------------


def fool(W):
    """Return W, halved until it is called round: the oracle, which the laws do not show."""
    equal = np.full(len(W), 1 / len(W))
    while two_measures(along(W, equal, both(axes_of(W, equal))))[0] <= 0.99:
        W = W / 2
    return W


@known("4.5", "unchanged", "this is W itself, whose I₁ is nearly 0")
def unchanged(W):
    return W


@known("4.5", "centred", "without the mean it is another cloud: the cosines change")
def centred(W):
    return W - W.mean(0)


@known("4.5", "whitened", "it is round now, but the cosines have changed")
def whitened(W):
    centre = W - W.mean(0)
    return np.linalg.svd(centre, full_matrices=False)[0] / 1e3


@known("4.5", "nothing left", "a word of length 0 has no direction, and no cosine")
def nothing_left(W):
    return 0 * W


@known("4.5", "a thousandth", "right for short words only: look how long these are")
def a_thousandth(W):
    return W / 1_000


@known("4.5", "unit rows", "rows of length 1 are still too long: I₁ can be as low as e⁻²")
def unit_rows(W):
    return W / np.linalg.norm(W, axis=1, keepdims=True)


@known("4.5", "by its norm", "the direction is right: shorter, but not short enough")
def by_norm(W):
    return W / np.linalg.norm(W)


# --- 4.7: what only looks like it -----------------------------------------------------------------


# Wrong functions misjudge one value above its bound. A third of them have a wrong value, a third a
# wrong gradient; the last third raise the bound, so that value and gradient agree. They err for
# any value, for a negative one, for one that is out of its place, or only for one that is both. So
# no special case and no comparison of one part alone gives more than two thirds of them away.
PICKED = {"largest": lambda k: k[0], "middle": lambda k: k[len(k) // 2], "last": lambda k: k[-1]}
WHERE = {
    "any": lambda negative, moved: negative | ~negative,
    "negative": lambda negative, moved: negative,
    "out of place": lambda negative, moved: moved,
    "both": lambda negative, moved: negative & moved,
}


def misjudged(part: str, which: str, where: str) -> Mistake:
    """Return a wrong function: one value's part is a hundredth larger than it should be."""

    def penalty(s, c):
        value, gradient = a4.ceiling(s, c)
        order = np.argsort(-np.abs(s))
        excess = np.abs(s[order]) - c
        possible = (excess > 0) & WHERE[where](s[order] < 0, order != np.arange(len(s)))
        if possible.any():
            k = PICKED[which](np.flatnonzero(possible))
            if part == "value":
                value += 0.01 * excess[k] ** 2
            elif part == "gradient":
                gradient[order[k]] *= 1.01
            else:
                raised = positive(excess[k] - 0.01 * c[k])
                value += raised**2 - excess[k] ** 2
                gradient[order[k]] *= raised / excess[k]
        return value, gradient

    return Mistake(f"{part}, {which}, {where}", penalty, "")


KINDS = (("middle", "any"), ("largest", "negative"), ("last", "out of place"))
KINDS += (("largest", "both"), ("last", "both"))
WRONG = {
    "4.7": tuple(
        misjudged(part, *kind) for part in ("value", "gradient", "bound") for kind in KINDS
    )
}
