"""A1, one matrix, two jobs: the laws of its steps, with naive oracles (inan2017).

The oracles are what the questions define: a divergence and its derivative entry by entry, tables of
all pairs, projections of size N × N. They end where the answers must still work.
"""

import numpy as np

from tools.assignments.laws.common import (
    Limits,
    Step,
    apart,
    array,
    candidates,
    drawn,
    parts,
    told_apart,
)

# --- the definitions -----------------------------------------------------------------------------


def log_softmax(x):
    """Return log softmax over the last axis; complex numbers pass through."""
    x = x - x.real.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def divergence(l, s, tau_l, tau_s):
    """Return KL(softmax(s / τ_s) ‖ softmax(l / τ_l)) over the last axis."""
    target = log_softmax(s / tau_s)
    return (np.exp(target) * (target - log_softmax(l / tau_l))).sum(-1)


def softened_gradient(l, s, tau_l, tau_s):
    """Return ∂KL/∂l entry by entry: the derivative is the imaginary part of a tiny complex step."""
    steps = l + 1e-30j * np.eye(len(l))
    return np.array([divergence(x, s, tau_l, tau_s).imag / 1e-30 for x in steps])


def augmented_loss(h, W, E, y, tau, block):
    """Return KL(softmax(E e_y / τ) ‖ softmax(W h / τ)) of each context, by (b, N) tables."""
    return divergence(h @ W.T, E[y] @ E.T, tau, tau)


def tying_map(W, E):
    """Return A, c and the share, by the N × N projection onto the columns of E and 1."""
    X = np.column_stack([E, np.ones(len(E))])
    projection = X @ np.linalg.pinv(X)
    solution = np.linalg.pinv(X) @ W
    spread = W - W.mean(0)
    share = 1 - ((W - projection @ W) ** 2).sum() / (spread**2).sum()
    return solution[:-1], solution[-1], share


def contradicted(E):
    """Return, for each word, whether another has a larger inner product with it, by a table."""
    table = E @ E.T
    return table.max(1) > np.diag(table)


# --- 1.1 and 1.2 ---------------------------------------------------------------------------------


def two_temperatures(rng):
    """Draw two temperatures that are well apart."""
    pair = round(rng.uniform(0.5, 0.9), 2), round(rng.uniform(2, 4), 2)
    return tuple(float(t) for t in rng.permutation(pair))


def derivative(f, rng):
    """It is the derivative of the divergence, with two different temperatures."""
    n = int(rng.integers(4, 12))
    l, s = 2 * drawn(rng, 2, n)
    taus = two_temperatures(rng)
    value, expected = array(f(l, s, *taus), (n,)), softened_gradient(l, s, *taus)
    if apart(value, expected) > 1e-7:
        i = int(np.abs(value - expected).argmax())
        yours, right = told_apart(value[i], expected[i])
        return (
            f"entry {i} is {yours}, but moving l[{i}] alone changes the divergence at the rate "
            f"{right}"
        )
    return ""


def overflow(f, rng):
    """Logits of ±10⁴ are finite, the entries add up to 0, and none is above 1/τ_l."""
    n = 20
    l, s = rng.choice([-1e4, 1e4], (2, n)) + drawn(rng, 2, n)
    tau_l, tau_s = two_temperatures(rng)
    value = array(f(l, s, tau_l, tau_s), (n,))
    if abs(value.sum()) > 1e-5 or np.abs(value).max() > 1.01 / tau_l:
        return f"for logits of ±10,000 the entries add up to {value.sum():.3g}, not to 0"
    return ""


def vanishes(f, rng):
    """N = 100,000: it is 0 where l = (τ_l/τ_s) s + c, and moves where l moves."""
    n = 100_000
    s = rng.normal(size=n)
    tau_l, tau_s = two_temperatures(rng)
    value = array(f(tau_l / tau_s * s + rng.normal(), s, tau_l, tau_s), (n,))
    if np.abs(value).max() > 1e-12:
        return "at l = (τ_l/τ_s) s + c both distributions are equal, and the gradient must be 0"
    return ""


def order(f, rng):
    """The relative distance to the gradient halves when both temperatures double."""
    n = 25
    l, s = (2 * drawn(rng, 2, n) + 5 * drawn(rng, 2, 1)).round(2)
    taus = (60 * np.array(two_temperatures(rng))).round(1)
    distances = []
    for tau_l, tau_s in (taus, 2 * taus):
        value = array(f(l, s, float(tau_l), float(tau_s)), (n,))
        distances.append(apart(value, softened_gradient(l, s, tau_l, tau_s)))
    first, second = distances
    if first < 1e-9:
        return "this is the gradient itself; asked is its leading term for large temperatures"
    if first > 0.3 or not 0.4 < second / first < 0.6:
        return (
            f"its distance from the gradient is {first:.2%}, and {second:.2%} when both "
            "temperatures double: the distance of a leading term is small and halves"
        )
    return ""


def homogeneous(f, rng):
    """A leading term is a power: both temperatures times c divide it by c²."""
    l, s = drawn(rng, 2, 15)
    tau_l, tau_s = two_temperatures(rng)
    c = rng.uniform(2, 5)
    value = array(f(l, s, tau_l, tau_s), (15,))
    other = array(f(l, s, c * tau_l, c * tau_s), (15,))
    if apart(other * c**2, value) > 1e-9:
        return "both temperatures times c must divide a leading term by exactly c²"
    return ""


# --- 1.3 -----------------------------------------------------------------------------------------


def small_model(rng, b=5, n=37, d=4):
    """Draw contexts, both matrices, targets and a temperature."""
    h, W, E = drawn(rng, b, d), drawn(rng, n, d), drawn(rng, n, d)
    return h, W, E, rng.integers(n, size=b), round(float(rng.uniform(0.5, 3)), 2)


def any_block(f, rng):
    """It is the divergence, whatever the block size."""
    model = small_model(rng)
    expected = augmented_loss(*model, None)
    # A rest is what most miss: a block that leaves one comes before a block larger than N.
    for block in (37, int(rng.integers(5, 20)), 50, 1):
        value = array(f(*model, block), (5,))
        if apart(value, expected) > 1e-8:
            i = int(np.abs(value - expected).argmax())
            yours, right = told_apart(value[i], expected[i])
            return f"with block = {block} number {i} is {yours}, by the definition {right}"
    return ""


def extreme(f, rng):
    """Logits of ±10⁴ are finite and right."""
    h, W, E, y, tau = small_model(rng)
    h, E = 3_000 * h, 50 * E
    value = array(f(h, W, E, y, tau, 8), (5,))
    if apart(value, augmented_loss(h, W, E, y, tau, None)) > 1e-8:
        return "for logits of ±10,000 it differs from the definition"
    return ""


def wide(f, rng):
    """N = 400,000 within 200 MB; a vocabulary of 100 equal copies has the divergence of one."""
    h, W, E, y, tau = small_model(rng, 64, 4_000, 4)
    value = array(f(h, np.tile(W, (100, 1)), np.tile(E, (100, 1)), y, tau, 4_096), (64,))
    if apart(value, augmented_loss(h, W, E, y, tau, None)) > 1e-7:
        return "at N = 400,000 it differs from the divergence of the same words"
    return ""


# --- 1.4 -----------------------------------------------------------------------------------------


def fit(f, W, E):
    """Return a sentence where W − E A − 1 cᵀ is not the least residual, or the share is another."""
    d = W.shape[1]
    A, c, share = parts(f(W, E), 3)
    A, c, share = array(A, (d, d), "A"), array(c, (d,), "c"), array(share, (), "share")
    residual = W - E @ A - c
    X = np.column_stack([E, np.ones(len(E))])
    scale = np.linalg.norm(X, axis=0) + 1e-300
    left = np.abs(X.T @ residual / scale[:, None]).max() / np.linalg.norm(W - W.mean(0))
    if left > 1e-7:
        return "W − E A − 1 cᵀ still has a part in the columns of E and 1: a better A, c exists"
    expected = 1 - (residual**2).sum() / ((W - W.mean(0)) ** 2).sum()
    if abs(share - expected) > 1e-7:
        return f"the share is {share:.4f}, but 1 − ‖W − E A − 1 cᵀ‖²/‖W − mean‖² is {expected:.4f}"
    return ""


def residual(f, rng):
    """Nothing of E and 1 is left in the residual; the share is of W's spread about its mean."""
    E = drawn(rng, 20, 4) + 2 * drawn(rng, 4)
    W = E @ drawn(rng, 4, 4) + drawn(rng, 4) + drawn(rng, 20, 4)
    return fit(f, W.round(3), E)


def degenerate(f, rng):
    """A dimension that E does not use does no harm, nor does a mean far from 0."""
    E = drawn(rng, 20, 4) + 300 * drawn(rng, 4)
    E[:, rng.integers(4)] = 0
    W = E @ drawn(rng, 4, 4) + drawn(rng, 20, 4)
    return fit(f, W.round(3), E)


def many_words(f, rng):
    """N = 30,000, where a table of N × N has no place."""
    E = rng.normal(size=(30_000, 16))
    return fit(f, E @ rng.normal(size=(16, 16)) + rng.normal(size=(30_000, 16)), E)


# --- 1.5 -----------------------------------------------------------------------------------------


def enumeration(f, rng):
    """As a table of all inner products says."""
    n = int(rng.integers(30, 60))
    centre = rng.choice([-1, 1], 5)
    E = (drawn(rng, n, 5) * rng.uniform(0.3, 2, (n, 1)).round(1) + centre).round(3)
    E[0] = 0.3 * centre  # a short word in the middle, which most others beat
    table = E @ E.T
    others = np.where(np.eye(n, dtype=bool), -np.inf, table).max(1)
    sure = np.abs(others - np.diag(table)) > 1e-9  # where no rounding decides
    value, expected = array(f(E), (n,), kind="b"), contradicted(E)
    if (value != expected)[sure].any():
        i = int(np.argmax((value != expected) & sure))
        return (
            f"word {i}: its inner product with itself is {table[i, i]:.3f}, the largest with "
            f"another is {others[i]:.3f}; you say {bool(value[i])}"
            + ": are both numbers from the same table?"
            * bool(value[i])
        )
    return ""


def ties(f, rng):
    """Two words with the same vector do not contradict each other."""
    E = rng.integers(-3, 4, (20, 4)).astype(float)
    E = np.concatenate([E, E])
    value = array(f(E), (40,), kind="b")
    if (value != contradicted(E)).any():
        return "a word with an equal vector is as good, not better: another must be *preferred*"
    return ""


def bunches(f, rng):
    """N = 12,000: in each of 16 orthogonal bunches only the longest word is content."""
    n, d = 12_000, 16
    bunch = rng.integers(d, size=n)
    length = rng.permutation(np.linspace(0.5, 2, n))
    axes, _ = np.linalg.qr(rng.normal(size=(d, d)))
    value = array(f(length[:, None] * axes[bunch]), (n,), kind="b")
    longest = np.array([length[bunch == k].max(initial=0) for k in range(d)])
    if (value != (length < longest[bunch] * (1 - 1e-9))).any():
        return "at N = 12,000 some words are judged wrongly"
    return ""


# --- 1.7: functions for a student's law of 1.1 ----------------------------------------------------


def backwards(l, s, tau_l, tau_s):
    """Return the right gradient, computed from the last word to the first."""
    return softened_gradient(l[::-1], s[::-1], tau_l, tau_s)[::-1]


def nothing(l, s, tau_l, tau_s):
    """Return zeros, which add up to 0."""
    return np.zeros_like(l)


def some_zero_sum(l, s, tau_l, tau_s):
    """Return a gradient of something else: it adds up to 0, too."""
    return (l - l.mean()) / tau_l


RIGHT = {"1.7": (softened_gradient, backwards)}
# What the check at home tries; the marker tries others.
CANDIDATES = {"1.7": candidates(nothing, some_zero_sum)}
GRADIENT = ("l", "s", "tau_l", "tau_s")
AGAIN = "lesson 05, The augmented loss"
STEPS = (
    Step(
        "1.1",
        "two temperatures",
        "softened_gradient",
        GRADIENT,
        12,
        15,
        (derivative, overflow),
        (vanishes,),
        AGAIN,
        {
            "finite": "{}: subtract the largest logit before exp",
            "late": "{} at N = 100,000: a softmax takes Θ(N)",
            "memory": "{} at N = 100,000: a gradient has N entries, and needs no N × N",
        },
    ),
    Step(
        "1.2",
        "far from one-hot",
        "high_temperature",
        GRADIENT,
        12,
        12,
        (order, homogeneous),
        (),
        "lesson 05, High temperature: a softmax becomes a straight line",
    ),
    Step(
        "1.3",
        "the loss, streamed",
        "augmented_loss",
        ("h", "W", "E", "y", "tau", "block"),
        18,
        20,
        (any_block, extreme),
        (wide,),
        "lesson 05, The cost",
        {
            "memory": "{} at N = 400,000: keep running maxima and sums, not logits",
            "finite": "{}: carry the largest logit so far and rescale the sums when it grows",
        },
        Limits(15, 200),
    ),
    Step(
        "1.4",
        "one matrix by the other",
        "tying_map",
        ("W", "E"),
        12,
        15,
        (residual, degenerate),
        (many_words,),
        "lesson 05, From matched logits to tied matrices",
        {"memory": "{} at N = 30,000: a projection is a product of thin matrices, never N × N"},
    ),
    Step(
        "1.5",
        "contradicted words",
        "contradicted",
        ("E",),
        8,
        10,
        (enumeration, ties),
        (bunches,),
        "lesson 05b, What does the soft target know?",
        {"memory": "{} at N = 12,000: take the table in blocks of rows"},
        Limits(20, 400),
    ),
    Step(
        "1.6",
        "Figure 1 anew",
        "",
        (),
        20,
        25,
        read="lesson 05b, In a network: the paper's Figure 1",
        kind="experiment",
    ),
    Step("1.7", "a law of your own", "is_right", ("f", "rng"), 8, 10, kind="law"),
    Step("1.8", "discuss", "", (), 10, 12, kind="manual"),
)
TITLE = "A1. One matrix, two jobs"
