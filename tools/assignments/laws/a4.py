"""A4, choose a spectrum, or only a ceiling: laws of its steps, with naive oracles (wang2020)."""

import numpy as np

from tools.assignments.laws.common import (
    Step,
    apart,
    array,
    candidates,
    drawn,
    number,
    parts,
    shares,
)

# --- the definitions -----------------------------------------------------------------------------


def read_and_predict(U, s, V, m, ids, H):
    """Return the rows of W = U Σ Vᵀ + 1 mᵀ that ids name, and H Wᵀ, with W written out."""
    W = U @ np.diag(s) @ V.T + np.outer(np.ones(len(U)), m)
    return W[ids], H @ W.T


def above(s, c):
    """Return Σ max(0, |s_k| − c_k)² in the order of both; complex numbers pass through."""
    over = s * np.sign(s.real) - c
    return (np.where(over.real > 0, over, 0) ** 2).sum()


def ceiling(s, c):
    """Return the least of `above` over all pairings of values with bounds, and its gradient.

    The gradient is taken entry by entry: the imaginary part of a tiny complex step.
    """
    from scipy.optimize import linear_sum_assignment

    costs = np.maximum(0, np.subtract.outer(np.abs(s), c)) ** 2
    paired = c[linear_sum_assignment(costs)[1]]
    gradient = [above(step, paired).imag / 1e-30 for step in s + 1e-30j * np.eye(len(s))]
    return above(s, paired), np.array(gradient)


def orthonormalise(X, tol):
    """Return what the iteration makes of X: it moves the singular values, each by itself."""
    left, values, right = np.linalg.svd(X)
    values, steps = values / np.sqrt(values @ values), 0
    while np.sqrt(((values**2 - 1) ** 2).sum()) > tol:
        values, steps = values * (3 - values**2) / 2, steps + 1
    return left[:, : len(values)] @ np.diag(values) @ right, steps


def isotropy(W, p):
    """Return I₁ and I₂ word by word, in decimal numbers, whose exponents are large enough."""
    from decimal import Decimal

    axes = np.linalg.eigh(sum(share * np.outer(w, w) for share, w in zip(p, W, strict=True)))[1]
    Z = []
    for a in (*axes.T, *-axes.T):
        powers = [Decimal(float(w @ a)).exp() for w in W]
        Z.append(sum(Decimal(float(x)) * e for x, e in zip(p, powers, strict=True)))
    mean = sum(Z) / len(Z)
    variance = sum((z - mean) ** 2 for z in Z) / len(Z)
    return float(min(Z) / max(Z)), float(variance.sqrt() / mean)


# --- 4.1 -----------------------------------------------------------------------------------------


def factors(rng, n: int, r: int, d: int):
    """Draw U (n, r), s, V (d, r) and m, numbers of words with a repetition, and two contexts."""
    ids = rng.permutation(n)[:3][[2, 0, 1, 0]]
    return drawn(rng, n, r), drawn(rng, r), drawn(rng, d, r), drawn(rng, d), ids, drawn(rng, 2, d)


def compared(f, instance) -> str:
    """Return what is wrong with rows and logits, compared with those of the whole matrix."""
    U, s, V, m, ids, H = instance
    rows, logits = parts(f(*instance), 2)
    rows = array(rows, (len(ids), len(m)), "the rows")
    logits = array(logits, (len(H), len(U)), "the logits")
    expected = read_and_predict(*instance)
    for what, value, right in zip(("row", "logit"), (rows, logits), expected, strict=True):
        if apart(value, right) > 1e-10:
            i, k = np.unravel_index(np.abs(value - right).argmax(), right.shape)
            return (
                f"{what}s[{i}, {k}] is {value[i, k]:.4g}; of the whole matrix it is "
                f"{right[i, k]:.4g}"
            )
    return ""


def whole(f, rng):
    """With as many directions as the words have coordinates: V is square, and nothing else."""
    return compared(f, factors(rng, 6, 3, 3))


def thin(f, rng):
    """With fewer directions than coordinates."""
    return compared(f, factors(rng, 6, 2, 4))


def many_words(f, rng):
    """N = 200,000 words of 512 coordinates in 8 directions: 200 words, a thousand times."""
    U, s, V, m, ids, H = factors(rng, 200, 8, 512)
    rows, logits = parts(f(np.tile(U, (1_000, 1)), s, V, m, ids + 200 * 999, H[:1]), 2)
    expected = read_and_predict(U, s, V, m, ids, H[:1])
    if apart(array(rows, expected[0].shape, "the rows"), expected[0]) > 1e-10:
        return "at N = 200,000 the rows differ from those of the whole matrix"
    logits = array(logits, (1, 200_000), "the logits").reshape(1_000, 200)
    if apart(logits, np.tile(expected[1], (1_000, 1))) > 1e-10:
        return "at N = 200,000 the logits differ from those of the whole matrix"
    return ""


# --- 4.2 -----------------------------------------------------------------------------------------


def spectrum(rng, d: int = 6):
    """Draw values in any order and of any sign, two at least above their bound, two below."""
    c = (np.arange(d, 0, -1) * 0.6 + rng.uniform(0, 0.1, d)).round(2)
    side = rng.permutation([1, 1, -1, -1, *rng.choice([-1, 1], d - 4)])
    sign = rng.choice([-1.0, 1.0], d)
    sign[np.flatnonzero(side > 0)[:2]] = rng.permutation([-1, 1])
    s = sign * (c + side * rng.uniform(0.05, 0.24, d)).round(2)
    order = np.roll(np.arange(d), rng.integers(1, d))
    return s[order], c


def pairings(f, rng):
    """No other pairing of values with bounds costs less, and the gradient is that of the value."""
    s, c = spectrum(rng)
    value, gradient = parts(f(s, c), 2)
    value, gradient = number(value), array(gradient, s.shape, "the gradient")
    expected, slopes = ceiling(s, c)
    if abs(value - expected) > 1e-9 * expected:
        return f"you give {value:.5f}; the cheapest pairing with the bounds costs {expected:.5f}"
    if apart(gradient, slopes) > 1e-8:
        i = int(np.abs(gradient - slopes).argmax())
        return (
            f"entry {i} of the gradient is {gradient[i]:.4g}, but moving s[{i}] alone changes the "
            f"value at the rate {slopes[i]:.4g}"
        )
    return ""


def inside(f, rng):
    """Value and gradient are exactly 0 for the paper's class, its edge and a σ of 0 included."""
    s, c = spectrum(rng)
    s[np.abs(s).argmin()] = 0
    ranks = np.argsort(np.argsort(-np.abs(s)))
    s = np.sign(s) * np.minimum(np.abs(s), c[ranks])
    value, gradient = parts(f(s, c), 2)
    gradient = array(gradient, s.shape, "the gradient")
    if number(value) or gradient.any():
        return f"no value is above its bound, but you give {number(value):.3g} and {gradient}"
    return ""


def many_values(f, rng):
    """20,000 values, where a table of all pairings has no place."""
    c = np.linspace(3, 1, 20_000)
    over = np.linspace(0.5, -0.5, 20_000)
    value, gradient = parts(f(rng.permutation(c + over), c), 2)
    value, gradient = number(value), array(gradient, c.shape, "the gradient")
    expected = (over[over > 0] ** 2).sum()
    if abs(value - expected) > 1e-9 * expected or abs(gradient @ gradient - 4 * value) > 1e-6:
        return f"for 20,000 values you give {value:.5f}; the right value is {expected:.5f}"
    return ""


# --- 4.3 -----------------------------------------------------------------------------------------

LOOSE = (0.3, 1e-1, 1e-2, 1e-3, 1e-4, 1e-6)


def off(Q) -> float:
    """Return ‖QᵀQ − I‖_F."""
    return float(np.linalg.norm(Q.T @ Q - np.eye(Q.shape[1])))


def falling(rng, n: int, values):
    """Draw a matrix with these singular values."""
    left, right = (np.linalg.qr(rng.normal(size=(k, len(values))))[0] for k in (n, len(values)))
    return left * values @ right.T


def orthonormal(f, X, tol):
    """Return an answer's Q and its number of steps."""
    Q, steps = parts(f(X, tol), 2)
    return array(Q, X.shape, "Q"), int(number(steps))


def nearest(f, rng):
    """Q is the nearest matrix with orthonormal columns, however long or short X is."""
    for scale in (1_000, 0.001):
        X = (drawn(rng, 7, 3) * scale).round(5)
        left, _, right = np.linalg.svd(X, full_matrices=False)
        Q = orthonormal(f, X, 1e-11)[0]
        turned = Q.T @ X
        if off(Q) > 1.1e-11:
            return f"‖QᵀQ − I‖ is {off(Q):.3g}, asked is 1e-11 at most"
        if apart(turned, turned.T) > 1e-7:
            return "orthonormal, but not the nearest: QᵀX is not symmetric"
        if apart(Q, left @ right) > 1e-9:
            return (
                f"orthonormal, but at a distance of {np.linalg.norm(X - Q):.4g} from X; the "
                f"nearest is at {np.linalg.norm(X - left @ right):.4g}"
            )
    return ""


def enough(f, rng):
    """Whatever tol is, ‖QᵀQ − I‖_F is at most that at the end."""
    X = drawn(rng, 6, 3)
    for tol in LOOSE:
        distance = off(orthonormal(f, X, tol)[0])
        if distance > tol * (1 + 1e-9):
            return f"tol = {tol:g}: ‖QᵀQ − I‖_F is {distance:.3g} at the end"
    return ""


def few_steps(f, rng):
    """From a condition of 10⁴, as many steps as the iteration needs; its error squares."""
    X = falling(rng, 8, np.array([1, 0.3, 0.01, 0.0001])) * 50
    # It begins below √5, or it diverges, and a step makes no value more than 3/2 times as large.
    least = int(np.ceil(np.log(1e4 / np.sqrt(5)) / np.log(1.5)))
    Q, steps = orthonormal(f, X, 1e-11)
    if off(Q) > 1.1e-11:
        return f"from a condition of 10⁴: ‖QᵀQ − I‖ is {off(Q):.3g}, asked is 1e-11 at most"
    if not least <= steps <= 40:
        return (
            f"from a condition of 10⁴ you count {steps} steps; the iteration needs {least} or "
            "more, and with a good start 40 at most"
        )
    more = steps - orthonormal(f, X, 1e-3)[1]
    if not 1 <= more <= 3:
        return f"from 10⁻³ to 10⁻¹¹ you take {more} steps; the error squares at each"
    return ""


def many_rows(f, rng):
    """N = 20,000 rows, where the products of all pairs of rows have no place."""
    X = rng.normal(size=(20_000, 6)) + 1
    left, _, right = np.linalg.svd(X, full_matrices=False)
    if apart(orthonormal(f, X, 1e-10)[0], left @ right) > 1e-8:
        return "for 20,000 rows Q is not the nearest"
    return ""


# --- 4.4 and 4.5 ---------------------------------------------------------------------------------


def text(rng, n: int = 8, d: int = 3):
    """Draw words in a cone and their shares in a text."""
    return (0.7 * drawn(rng, n, d) + drawn(rng, d)).round(2), shares(rng, n)


def pair(value) -> tuple[float, float]:
    """Return an answer that is two numbers."""
    I1, I2 = parts(value, 2)
    return number(I1), number(I2)


def by_word(f, rng):
    """As the sums over all words say, for shares that differ."""
    W, p = text(rng)
    values, expected = pair(f(W, p)), isotropy(W, p)
    if apart(np.array(values), np.array(expected)) > 1e-8:
        if apart(np.array(pair(f(-W, p))), np.array(values)) > 1e-8:
            return "−W gives other numbers: an eigenvector's sign is the solver's choice, take both"
        return (
            f"you give I₁ = {values[0]:.5f} and I₂ = {values[1]:.5f}; the sums over all words say "
            f"{expected[0]:.5f} and {expected[1]:.5f}"
        )
    return ""


def long_words(f, rng):
    """Words a thousand and ten thousand times as long have finite numbers, and the right ones."""
    W, p = text(rng)
    for scale in (1e3, 1e4):
        if np.abs(np.subtract(pair(f(scale * W, p)), isotropy(scale * W, p))).max() > 1e-6:
            return f"at {scale:g} W it differs from the definition"
    return ""


def many_copies(f, rng):
    """N = 200,000: a word that is written 400 times, with a 400th of its share, is one word."""
    W, p = text(rng, 500, 8)
    values = pair(f(np.tile(W, (400, 1)), np.tile(p / 400, 400)))
    if apart(np.array(values), np.array(isotropy(W, p))) > 1e-8:
        return "a word that is written 400 times, with a 400th of its share each, is one word"
    return ""


def cone(rng):
    """Draw long words in a narrow cone, no two equally long."""
    W = drawn(rng, 6, 3) + 3 * np.ones(3)
    return (W * rng.uniform(1, 3, (6, 1))).round(2) * 10.0 ** rng.integers(6, 12)


def fooled(f, W) -> np.ndarray:
    """Return an answer's matrix; raise Failed where it is none."""
    return array(f(W), W.shape)


def cosines(W):
    """Return the N × N table of cosines, for rows of any length but 0."""
    W = W / np.abs(W).max(1, keepdims=True)
    W = W / np.linalg.norm(W, axis=1, keepdims=True)
    return W @ W.T


def same_cosines(f, rng):
    """No cosine of two words has changed."""
    W = cone(rng)
    changed = fooled(f, W)
    if not changed.any(1).all():
        return "a word of length 0 has no direction"
    if apart(cosines(changed), cosines(W)) > 1e-8:
        return f"the mean cosine was {cosines(W).mean():.4f}, it is {cosines(changed).mean():.4f}"
    return ""


def called_round(f, rng):
    """By I₁, at equal shares, the cone is round."""
    W = fooled(f, cone(rng))
    lengths = np.sqrt((W * W).sum(1))
    if lengths.max() > 1e5:  # for which decimal numbers have no exponents
        return f"your longest word has a length of {lengths.max():.3g}: at such lengths I₁ is 0"
    I1 = isotropy(W, np.full(len(W), 1 / len(W)))[0]
    return "" if I1 > 0.99 else f"I₁ is {I1:.4g}, asked is more than 0.99"


# --- 4.7: functions for a student's law of 4.2 ---------------------------------------------------


def reordered(s, c):
    """Return the right answer, computed from the last value to the first."""
    value, gradient = ceiling(s[::-1], c)
    return value, gradient[::-1]


def nothing(s, c):
    """Return 0, and a gradient of 0, which is right for the paper's class."""
    return 0.0, np.zeros_like(s)


def decay(s, c):
    """Return the sum of all squares and its gradient, whatever the bounds are."""
    return s @ s, 2 * s


RIGHT = {"4.7": (ceiling, reordered)}
CANDIDATES = {"4.7": candidates(nothing, decay)}
ROUND = "lesson 08, The two clouds"
STEPS = (
    Step(
        "4.1",
        "never form the matrix",
        "read_and_predict",
        ("U", "s", "V", "m", "ids", "H"),
        14,
        15,
        (whole, thin),
        (many_words,),
        "lesson 08, Never form the matrix",
        {"memory": "{} at N = 200,000, d = 512: multiply H by V first"},
    ),
    Step(
        "4.2",
        "only a ceiling",
        "ceiling",
        ("s", "c"),
        14,
        15,
        (pairings, inside),
        (many_values,),
        "lesson 08, Two priors for the spectrum",
        {"memory": "{} for 20,000 values: sort them", "late": "{}: sort the values"},
    ),
    Step(
        "4.3",
        "back to orthonormal columns",
        "orthonormalise",
        ("X", "tol"),
        16,
        18,
        (nearest, enough, few_steps),
        (many_rows,),
        "lesson 08b, Two penalties for orthogonality",
        {
            "memory": "{} for 20,000 rows: X XᵀX is X (XᵀX)",
            "late": "{}: a value above √3 turns its sign or grows; divide X by its norm first",
        },
    ),
    Step(
        "4.4",
        "the cone as the text sees it",
        "isotropy",
        ("W", "p"),
        12,
        12,
        (by_word, long_words),
        (many_copies,),
        ROUND,
        {
            "finite": "{}: take the logarithm of Z, and subtract the largest exponent before exp",
            "late": "{} for 200,000 words: one product of matrices has all exponents",
        },
    ),
    Step("4.5", "fool it", "fool", ("W",), 8, 8, (same_cosines, called_round), read=ROUND),
    Step(
        "4.6",
        "two-sided, or a ceiling",
        "",
        (),
        18,
        30,
        read="lesson 08, Training with it and without",
        kind="experiment",
    ),
    Step("4.7", "a law of your own", "is_right", ("f", "rng"), 8, 8, kind="law"),
    Step("4.8", "discuss", "", (), 10, 12, kind="manual"),
)
TITLE = "A4. Choose a spectrum, or only a ceiling"
