"""A5, what rank is worth: the laws of its steps, with naive oracles (parthiban2021)."""

import numpy as np

from tools.assignments.laws.common import (
    Step,
    apart,
    array,
    candidates,
    drawn,
    parts,
    told_apart,
)

# --- the definitions -----------------------------------------------------------------------------


def lower_bend(x, c, k):
    """Return the lesson's PL(x; c, k) of one number, in decimals, whose exponents are large enough.

    x, c, k: decimals.
    """
    return x - (k - 1) * (1 + (c - x).exp()).ln()


def two_bends(x, c1, k1, c2, k2):
    """Return what the lower bend and its mirror image make of x, number by number."""
    from decimal import Decimal

    c1, k1, c2, k2 = (Decimal(float(a)) for a in (c1, k1, c2, k2))
    bent = []
    for number in map(Decimal, x.ravel().tolist()):
        mirrored = -lower_bend(-number, -c2, k2)
        bent.append(float(lower_bend(number, c1, k1) + mirrored - number))
    return np.array(bent).reshape(x.shape)


def singular_values(blocks):
    """Return the singular values of all rows at once, and 0s where rows are fewer than words."""
    whole = np.concatenate(blocks).astype(float)
    values = np.zeros(whole.shape[1])
    values[: min(whole.shape)] = np.linalg.svd(whole, compute_uv=False)
    return values


def chances(logits):
    """Return what one component gives the words of one context, in decimals."""
    from decimal import Decimal

    powers = [Decimal(x).exp() for x in logits.tolist()]
    return [power / sum(powers) for power in powers]


def weighed(prior, given):
    """Return one word's chance in one context, a decimal: Σ e^q_k P_k(word) / Σ e^q_k."""
    powers = [q.exp() for q in prior]
    return sum(power * P for power, P in zip(powers, given, strict=True)) / sum(powers)


def mixture(logits, prior, y):
    """Return log P, and the slopes of −log P(y) in the scores of each component, word by word.

    A slope is a difference over a step that decimals of 28 digits can see.
    """
    from decimal import Decimal

    log_p, slopes = [], []
    for table, scores, word in zip(logits, prior.tolist(), y, strict=True):
        columns = list(zip(*map(chances, table), strict=True))
        q = [Decimal(score) for score in scores]
        log_p.append([float(weighed(q, column).ln()) for column in columns])
        slopes.append([])
        for k in range(len(q)):
            there, back = list(q), list(q)
            there[k] += Decimal("1e-10")
            back[k] -= Decimal("1e-10")
            fall = weighed(back, columns[word]).ln() - weighed(there, columns[word]).ln()
            slopes[-1].append(float(fall / (there[k] - back[k])))
    return np.array(log_p), np.array(slopes)


def prior_gradient(logits, prior, y):
    """Return the second of what `mixture` returns, the slopes alone."""
    return mixture(logits, prior, y)[1]


# --- 5.1 -----------------------------------------------------------------------------------------


def bends(rng) -> tuple:
    """Draw two places, c₁ below c₂, and two slopes, the one below 1 and the other above."""
    k1, k2 = rng.permutation([round(rng.uniform(0, 0.7), 2), round(rng.uniform(1.5, 4), 2)])
    c1, c2 = round(rng.uniform(-3, -0.5), 1), round(rng.uniform(0.5, 3), 1)
    return c1, float(k1), c2, float(k2)


def bent(f, x, settings):
    """Return what is wrong with the bent logits, compared with the definition."""
    value, expected = array(f(x, *settings), x.shape), two_bends(x, *settings)
    if apart(value, expected) > 1e-11:
        i, j = np.unravel_index(np.abs(value - expected).argmax(), x.shape)
        return (
            f"at x = {x[i, j]:g} you give {value[i, j]:.6g}; the lower bend, its mirror image and "
            f"their sum give {expected[i, j]:.6g}"
        )
    return ""


def by_definition(f, rng):
    """Logits below, between and above both places."""
    return bent(f, 4 * drawn(rng, 3, 4), bends(rng))


def far_away(f, rng):
    """Logits of ±10⁴ are finite, and right; where both slopes are 1, all of them stay."""
    x = rng.choice([-1e4, 1e4], (3, 4)) + drawn(rng, 3, 4)
    settings = bends(rng)
    return bent(f, x, settings) or bent(f, x, (settings[0], 1.0, settings[2], 1.0))


def many_logits(f, rng):
    """A million logits, of which a loop over numbers makes minutes."""
    x, settings = 4 * drawn(rng, 5, 20), bends(rng)
    value = array(f(np.tile(x, (100, 100)), *settings), (500, 2_000))
    if apart(value, np.tile(two_bends(x, *settings), (100, 100))) > 1e-11:
        return "for a million logits it differs from the definition"
    return ""


# --- 5.2 -----------------------------------------------------------------------------------------


def cut(rng, X, sizes):
    """Return the rows of X in blocks of these sizes, in any order of sizes; the rest comes last."""
    return tuple(np.split(X, np.cumsum(rng.permutation(sizes))))


def last_digits(f, rng):
    """A spectrum that falls to 10⁻¹² of its first value, of which the last is right within 1 %."""
    n = int(rng.integers(5, 8))
    s = 10.0 ** np.linspace(0, -12, n) * 10.0 ** rng.integers(-3, 4)
    left, right = (np.linalg.qr(rng.normal(size=(k, n)))[0] for k in (4 * n, n))
    value = array(f(cut(rng, (left * s) @ right.T, [1, 3, n + 2])), (n,))
    far = np.abs(value - s)
    if far.max() > 1e-14 * s[0]:
        i = int(far.argmax())
        if far.max() < 1e-6 * s[0]:
            i = int((far / s).argmax())
        return (
            f"value {i + 1} of {n} is {s[i]:.4g}, the first is {s[0]:.4g}; you give {value[i]:.4g}"
        )
    return ""


def few_rows(f, rng):
    """Where there are fewer rows than words, the values beyond are 0."""
    blocks = cut(rng, drawn(rng, 5, 8), [1, 2])
    value, expected = array(f(blocks), (8,)), singular_values(blocks)
    if apart(value, expected) > 1e-13:
        return f"of 5 rows and 8 words you give {value.round(3)}; right is {expected.round(3)}"
    return ""


def many_rows(f, rng):
    """1.7 million rows in half precision: 110 MB, which take 440 MB as float64."""
    rows = rng.normal(size=(64, 32)).astype(np.float16)
    scales = 2.0 ** rng.permutation(np.arange(16) % 4)
    blocks = tuple(np.tile(rows * np.float16(scale), (1_680, 1)) for scale in scales)
    value = array(f(blocks), (32,))
    expected = np.sqrt(1_680 * (scales**2).sum()) * singular_values((rows,))
    if apart(value, expected) > 1e-10:
        return "for 1.7 million rows the values differ from those of all rows at once"
    return ""


# --- 5.3 -----------------------------------------------------------------------------------------

NONE, SOME = 1e-10, 0.01  # of σ₁: what counts as 0, and what a direction has at least
LEAST = 1e-6  # of any word's probability


def layer(f, rng, flat):
    """Return an answer's H, W and b for drawn sizes, log P, and log Z (m, 1); or raise Failed."""
    d = int(rng.integers(3, 6))
    N, m = 2 * d + int(rng.integers(0, 4)), int(rng.integers(d + 3, 2 * d + 3))
    H, W, b = parts(f(N, d, m, flat), 3)
    H, W, b = array(H, (m, d), "H"), array(W, (N, d), "W"), array(b, (N,), "b")
    logits = H @ W.T + b
    top = logits.max(1, keepdims=True)
    log_z = top + np.log(np.exp(logits - top).sum(1, keepdims=True))
    return H, W, b, logits - log_z, log_z


def rank(X, least=NONE) -> int:
    """Return how many singular values are above this share of the first."""
    values = np.linalg.svd(X, compute_uv=False)
    return int((values > least * values[0]).sum())


def beside(X, *columns):
    """Return a matrix with columns of these beside it, and with a column of ones."""
    return np.column_stack([X, *columns, np.ones(len(X))])


def highest(f, rng):
    """The rank of log P is d + 2, which no softmax surpasses."""
    H, W, b, log_p, log_z = layer(f, rng, False)
    d = W.shape[1]
    if rank(log_p, 1e-8) == d + 2:
        return ""
    told = f"log P has rank {rank(log_p, 1e-8)}, asked is d + 2 = {d + 2}: "
    if rank(beside(W, b), 1e-8) < d + 2:
        return f"{told}the bias is in the span of W's columns and the ones"
    if rank(beside(H, log_z), 1e-8) < d + 2:
        return f"{told}log Z is in the span of H's columns and the ones"
    return f"{told}one of the directions is too faint"


def lowest(f, rng):
    """With no bias, log P has rank d only: log Z is linear in h on these contexts."""
    H, W, b, log_p, log_z = layer(f, rng, True)
    m, d = H.shape
    directions = H / np.linalg.norm(H, axis=1, keepdims=True)
    alike = np.abs(directions @ directions.T) - np.eye(m)
    values = np.linalg.svd(log_p, compute_uv=False)
    if b.any():
        return "with flat = True the bias is 0"
    if not alike.max() < 1 - 1e-6:
        return "two of your contexts are parallel, or one is 0"
    if rank(H, SOME) < d or rank(beside(W), SOME) < d + 1:
        return (
            f"your contexts have {rank(H, SOME)} directions of {d}, your words and a column of "
            f"ones {rank(beside(W), SOME)} of {d + 1}: log P has a low rank for lack of directions"
        )
    if log_p.min() < np.log(LEAST):
        return f"a word has a probability of {np.exp(log_p.min()):.2g}, asked is 10⁻⁶ at least"
    if values[d - 1] < SOME * values[0]:
        return f"σ_{d} is {values[d - 1] / values[0]:.2g} σ₁, asked is a hundredth at least"
    if values[d] > NONE * values[0]:
        left = log_z - H @ np.linalg.lstsq(H, log_z, rcond=None)[0]
        return (
            f"log P has a direction more: σ_{d + 1} is {values[d] / values[0]:.2g} σ₁. The linear "
            f"function of h that is nearest to log Z misses it by {np.abs(left).max():.2g}"
        )
    return ""


# --- 5.4 -----------------------------------------------------------------------------------------


def contexts(rng, K: int = 3, N: int = 6):
    """Draw the logits of K components for two contexts, the components' scores, two words."""
    return 2 * drawn(rng, 2, K, N), drawn(rng, 2, K), rng.permutation(N)[:2]


def logarithms(value, expected) -> np.ndarray:
    """Return an answer's log P with 0 in the place of each −∞ that is right; or raise Failed."""
    if np.shape(value) == expected.shape and np.asarray(value).dtype.kind == "f":
        value = np.where(np.isneginf(expected) & np.isneginf(value), 0, value)
    return array(value, expected.shape, "log P")


def compared(f, instance) -> str:
    """Return what is wrong with log P and its gradient, compared with the definition."""
    log_p, gradient = parts(f(*instance), 2)
    expected, slopes = mixture(*instance)
    log_p = logarithms(log_p, expected)
    gradient = array(gradient, slopes.shape, "the gradient")
    expected = np.where(np.isneginf(expected), 0, expected)
    if apart(log_p, expected) > 1e-11:
        i, j = np.unravel_index(np.abs(log_p - expected).argmax(), expected.shape)
        return (
            f"log P[{i}, {j}] is {log_p[i, j]:.8g}; the definition gives {expected[i, j]:.8g}. "
            f"Context {i} has a sum of probabilities of {np.exp(log_p[i]).sum():.6g}"
        )
    if np.abs(gradient - slopes).max() > 1e-8:
        i, k = np.unravel_index(np.abs(gradient - slopes).argmax(), slopes.shape)
        return (
            f"entry [{i}, {k}] of the gradient is {gradient[i, k]:.6g}, but raising prior[{i}, "
            f"{k}] alone changes −log P(y) at the rate {slopes[i, k]:.6g}"
        )
    return ""


def word_by_word(f, rng):
    """As the sums over words and components say, for three components and for one."""
    return compared(f, contexts(rng)) or compared(f, contexts(rng, 1))


def unknown_words(f, rng):
    """A component may not know the word that came; a word may be unknown to all of them."""
    logits, prior, y = contexts(rng)
    for i, word in enumerate(y):
        known = rng.integers(3)
        logits[i, (known + 1) % 3, word] = -np.inf
        logits[i, known, (word + 1) % 6] = -np.inf
        logits[i, :, (word + 2) % 6] = -np.inf
    return compared(f, (logits, prior, y))


def large_logits(f, rng):
    """Logits of ±10⁴ and scores near 10⁴, with words that are unknown to all."""
    logits, prior, y = contexts(rng)
    logits += rng.choice([-1e4, 1e4], (2, 1, 6)) + rng.choice([-10.0, 0, 10], (2, 3, 1))
    logits[np.arange(2), :, (y + 1) % 6] = -np.inf
    return compared(f, (logits, prior + 1e4, y))


def many_words(f, rng):
    """N = 200,000: 50 words, each written 4,000 times."""
    logits, prior, y = contexts(rng, 4, 50)
    log_p, gradient = parts(f(np.tile(logits, 4_000), prior, y + 50 * 3_999), 2)
    expected, slopes = mixture(logits, prior, y)
    expected = np.tile(expected - np.log(4_000), 4_000)
    if apart(array(log_p, expected.shape, "log P"), expected) > 1e-10:
        return "for 200,000 words log P differs from the definition"
    if np.abs(array(gradient, slopes.shape, "the gradient") - slopes).max() > 1e-7:
        return "for 200,000 words the gradient differs from the definition"
    return ""


# --- 5.5 -----------------------------------------------------------------------------------------


def correlations(rng) -> np.ndarray:
    """Draw the correlations of three variables, large enough for a selection to change them."""
    while True:
        cloud = rng.normal(size=(3, 5))
        r = np.corrcoef(cloud + 1.5 * cloud[0]).round(2)
        signs = rng.permutation([1, 1, -1])
        sizes = np.abs(r[np.triu_indices(3, 1)])
        if 0.6 < sizes.min() and sizes.max() < 0.9 and np.linalg.eigvalsh(r)[0] > 0.05:
            return r * np.outer(signs, signs)


def kept(r, u) -> np.ndarray:
    """Return the correlations of what a selection by the first of three normal variables keeps.

    Of those whose first number is x, the share exp(−x² (1/u² − 1) / 2) stays, so that what stays is
    again normal in x, and u times as wide. Sums over a grid are exact for normal variables.
    """
    axes = np.arange(-8, 8, 0.08), np.arange(-8, 8, 0.5), np.arange(-8, 8, 0.5)
    grid = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(3, -1)
    stay = np.exp(-(grid**2).sum(0) / 2 - grid[0] ** 2 * (1 / u**2 - 1) / 2)
    cloud = np.linalg.cholesky(r) @ grid
    centred = cloud - (cloud @ stay)[:, None] / stay.sum()
    products = (centred * stay) @ centred.T
    spreads = np.sqrt(np.diag(products))
    return products / np.outer(spreads, spreads)


def selected(f, rng):
    """As a selection by the first variable has it, for correlations of both signs."""
    r, u = correlations(rng), round(rng.uniform(0.3, 0.55), 2)
    turned = r * np.outer([-1, 1, 1], [-1, 1, 1])
    for before in (r, turned):
        value, after = array(f(before, u), (3, 3)), kept(before, u)
        if np.abs(value - after).max() > 1e-8:
            i, j = np.unravel_index(np.abs(value - after).argmax(), (3, 3))
            yours, right = told_apart(value[i, j], after[i, j])
            return (
                f"entry [{i}, {j}] was {before[i, j]:.2f}; cut to {u} of the first one's spread, "
                f"{right} is left, and you give {yours}"
            )
    return ""


def in_steps(f, rng):
    """Nothing cut changes nothing; cut twice is cut once by the product; what is cut comes back."""
    r = correlations(rng)
    u, v = rng.uniform(0.3, 0.9, 2).round(2).tolist()
    once = array(f(r, u), (3, 3))
    for told, value, expected in (
        ("u = 1 cuts nothing", f(r, 1.0), r),
        (f"first {u} and then {v} is {u} · {v} at once", f(once, v), f(r, u * v)),
        (f"first {u} and then 1/{u} is nothing", f(once, 1 / u), r),
    ):
        far = np.abs(array(value, (3, 3)) - array(expected, (3, 3))).max()
        if far > 1e-9:
            return f"{told}, but your values differ by {far:.2g}"
    return ""


# --- 5.7: functions for a student's law of 5.4's gradient ----------------------------------------


def reordered(logits, prior, y):
    """Return the right answer, computed from the last component to the first."""
    return prior_gradient(logits[:, ::-1], prior[:, ::-1], y)[:, ::-1]


def nothing(logits, prior, y):
    """Return 0, which is right for a single component."""
    return np.zeros_like(prior)


def even(logits, prior, y):
    """Return a gradient that draws all components to equal shares, whatever they know."""
    shares = np.exp(prior) / np.exp(prior).sum(1, keepdims=True)
    return shares - 1 / prior.shape[1]


RIGHT = {"5.7": (prior_gradient, reordered)}
CANDIDATES = {"5.7": candidates(nothing, even)}
STEPS = (
    Step(
        "5.1",
        "two bends",
        "two_bends",
        ("x", "c1", "k1", "c2", "k2"),
        10,
        12,
        (by_definition, far_away),
        (many_logits,),
        "lesson 10, GSS, step by step",
        {
            "finite": "{}: log(1 + eˣ) is nearly x for large x, and a computer must not go by eˣ",
            "late": "{} for a million logits: let NumPy take all of them at once",
        },
    ),
    Step(
        "5.2",
        "the spectrum in one pass",
        "singular_values",
        ("blocks",),
        16,
        20,
        (last_digits, few_rows),
        (many_rows,),
        "lesson 04, How fragile a rank is",
        {
            "memory": "{} for 1.7 million rows: they must not be there together as float64",
            "late": "{} for 1.7 million rows of 32 words",
        },
    ),
    Step(
        "5.3",
        "as much rank as can be, and as little",
        "extremal",
        ("N", "d", "m", "flat"),
        12,
        12,
        (highest, lowest),
        read="lesson 04, The bound",
    ),
    Step(
        "5.4",
        "a mixture that does not know all words",
        "mixture",
        ("logits", "prior", "y"),
        16,
        18,
        (word_by_word, unknown_words, large_logits),
        (many_words,),
        "lesson 09, Who learns from a word?",
        {
            "finite": "{}: stay in logarithms; and −∞ minus −∞ is no number",
            "late": "{} for 200,000 words: let NumPy take all of them at once",
        },
    ),
    Step(
        "5.5",
        "what leaving out does",
        "restricted",
        ("r", "u"),
        12,
        15,
        (selected, in_steps),
        read="lesson 31, What removing outliers does",
    ),
    Step(
        "5.6",
        "what rank is worth",
        "",
        (),
        16,
        25,
        read="lesson 09b, A language that is a mixture",
        kind="experiment",
    ),
    Step("5.7", "a law of your own", "is_right", ("f", "rng"), 8, 8, kind="law"),
    Step("5.8", "discuss", "", (), 10, 12, kind="manual"),
)
TITLE = "A5. What rank is worth"
