"""A3, words that must win, in any ball: the laws of its steps, with naive oracles (wang2019).

The oracles are what the questions define: all corners of a ball, derivatives by a table of
all steps, a table of all pairs. They end where the answers must still work.
"""

import itertools

import numpy as np

from tools.assignments.laws.common import (
    Step,
    apart,
    array,
    candidates,
    drawn,
    number,
    told_apart,
)

# --- the definitions -----------------------------------------------------------------------------


def log_softmax(x):
    """Return log softmax over the last axis; complex numbers pass through."""
    x = x - x.real.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def worst(h, r, ball):
    """Return the corner of the ball, or its point along −h, at which δᵀh is least."""
    corners = {
        "l1": np.concatenate([np.eye(len(h)), -np.eye(len(h))]),
        "linf": np.array(np.meshgrid(*[[-1.0, 1.0]] * len(h))).reshape(len(h), -1).T,
        "l2": -h[None] / np.sqrt(h @ h),
    }[ball]
    return r * corners[(corners @ h).argmin()]


def worst_in_ellipsoid(h, A, r):
    """Return the worst δ with δᵀA⁻¹δ ≤ r²: minus the gradient of r √(hᵀAh), the most it can reach.

    Each derivative is the imaginary part of a tiny complex step, by a table of all products.
    """
    steps = h + 1e-30j * np.eye(len(h))
    squares = (steps[:, :, None] * A * steps[:, None]).sum((1, 2))
    return -r * np.sqrt(squares).imag / 1e-30


def adversarial_log_prob(h, W, y, radii):
    """Return log P(y) after each word has moved within its radius, y away from h, others to it."""
    towards = np.ones(len(W))
    towards[y] = -1
    unit = np.tile(h / np.sqrt(h @ h), (len(W), 1))
    moved = W + np.diag(towards * radii) @ unit
    return log_softmax(moved @ h)[y]


def mixture(contexts, prior, W, y):
    """Return P(y) of a mixture of softmaxes; complex numbers pass through."""
    return prior @ np.exp(log_softmax(contexts @ W.T)[:, y])


def shared_worst(contexts, prior, W, y, r):
    """Return the δ of length r along minus the gradient of P(y) in w_y, by a table of all steps.

    A derivative is the imaginary part of a tiny complex step.
    """
    d = W.shape[1]
    steps = np.tile(W.astype(complex), (d, 1, 1))
    steps[range(d), y, range(d)] += 1e-30j
    gradient = np.array([mixture(contexts, prior, step, y).imag / 1e-30 for step in steps])
    return worst(gradient, r, "l2")


def certificate(W, i, h):
    """Return the least (w_i − w_j)ᵀh/‖h‖ over all other words j, from a table of all pairs."""
    margins = (W[:, None] - W) @ h / np.sqrt(h @ h)
    return min(margins[i, j] for j in range(len(W)) if j != i)


# --- 3.1 and 3.2 ---------------------------------------------------------------------------------

NORMS = {"l2": 2, "linf": np.inf, "l1": 1}
DUAL = {"l2": 2, "linf": 1, "l1": np.inf}


def inside(f, rng):
    """The perturbation lies in its ball."""
    h, r = drawn(rng, 5), round(float(rng.uniform(0.5, 3)), 2)
    for ball, norm in NORMS.items():
        length = np.linalg.norm(array(f(h, r, ball), (5,)), norm)
        if length > r * (1 + 1e-9):
            return f'ball = "{ball}": its norm is {length:.4g}, allowed is {r:g}'
    return ""


def lowest(f, rng):
    """The product falls by r times the dual norm: no one in the ball does more harm."""
    h, r = drawn(rng, 5), round(float(rng.uniform(0.5, 3)), 2)
    h[rng.integers(5)] = -4.0
    for ball, norm in DUAL.items():
        for side in (h, -h):  # the largest in size is negative, and positive
            value, least = array(f(side, r, ball), (5,)) @ side, -r * np.linalg.norm(h, norm)
            if value - least > 1e-9 * abs(least):
                return f'ball = "{ball}": δᵀh = {value:.4g}, but {least:.4g} can be reached'
    return ""


def long_context(f, rng):
    """D = 100,000: no list of corners, and in each ball the same two laws."""
    h, r = rng.normal(size=100_000), round(float(rng.uniform(0.5, 3)), 2)
    for ball in NORMS:
        delta = array(f(h, r, ball), h.shape)
        length, least = np.linalg.norm(delta, NORMS[ball]), -r * np.linalg.norm(h, DUAL[ball])
        if length > r * (1 + 1e-9) or delta @ h - least > 1e-9 * abs(least):
            return f'ball = "{ball}": at d = 100,000 it is outside of the ball, or not the worst'
    return ""


def cloud(rng, d: int = 4):
    """Draw a context, a positive definite A that is no multiple of I, and a radius."""
    root = drawn(rng, d, d)
    A = (root @ root.T + 0.5 * np.eye(d)).round(2)
    return drawn(rng, d) + 0.1, A, round(float(rng.uniform(0.5, 3)), 2)


def surface(f, rng):
    """The perturbation lies in the ellipsoid."""
    h, A, r = cloud(rng)
    delta = array(f(h, A, r), h.shape)
    size = delta @ np.linalg.solve(A, delta)
    if size > r**2 * (1 + 1e-9):
        return f"δᵀA⁻¹δ = {size:.4g}, allowed is r² = {r**2:.4g}"
    return ""


def deepest(f, rng):
    """No point of the ellipsoid is worse."""
    h, A, r = cloud(rng)
    value, least = array(f(h, A, r), h.shape) @ h, worst_in_ellipsoid(h, A, r) @ h
    if value - least > 1e-9 * abs(least):
        return f"δᵀh = {value:.4g}, but {least:.4g} can be reached inside of the ellipsoid"
    return ""


def wide_ellipsoid(f, rng):
    """D = 1,000: 250 equal ellipsoids, each of which gets an equal part of r²."""
    h, A, r = cloud(rng)
    count = 250
    turn = rng.permutation(count * len(h))
    blocks = np.kron(np.eye(count), A)[np.ix_(turn, turn)]
    value = array(f(np.tile(h, count)[turn], blocks, r), turn.shape)
    expected = np.tile(worst_in_ellipsoid(h, A, r / np.sqrt(count)), count)[turn]
    return "at d = 1,000 it is another point" if apart(value, expected) > 1e-7 else ""


# --- 3.3 -----------------------------------------------------------------------------------------


def words(rng, n: int = 7, d: int = 3):
    """Draw a context, a matrix, a target and a radius for each word."""
    radii = rng.uniform(0.1, 1.5, n).round(2)
    return drawn(rng, d) + 0.1, drawn(rng, n, d), int(rng.integers(n)), radii


def attacked(f, rng):
    """Every word has moved within its own radius, each as badly for the target as it can."""
    h, W, y, radii = words(rng)
    value, expected = number(f(h, W, y, radii)), adversarial_log_prob(h, W, y, radii)
    if abs(value - expected) > 1e-9 * (1 + abs(expected)):
        yours, right = told_apart(value, expected)
        return f"you give log P = {yours}; with all words moved it is {right}"
    return ""


def extreme(f, rng):
    """Logits of ±10³ are finite and right."""
    h, W, y, radii = words(rng)
    h = 2_000 * W[rng.integers(len(W))] + h
    if abs(number(f(h, W, y, radii)) - adversarial_log_prob(h, W, y, radii)) > 1e-6:
        return "for logits of ±1,000 it differs from the definition"
    return ""


def crowded(rng, y: int, n: int, count: int) -> tuple[np.ndarray, int]:
    """Return rows of n words, one of them other than y `count` times, and which one it is."""
    crowd = (y + 1 + int(rng.integers(n - 1))) % n
    return np.repeat(np.arange(n), np.where(np.arange(n) == crowd, count, 1)), crowd


def many_words(f, rng):
    """N = 30,000: equal words are one word whose logit is larger by the log of their number."""
    h, W, y, radii = words(rng)
    rows, crowd = crowded(rng, y, len(W), 30_000)
    value = number(f(h, W[rows], int((rows == y).argmax()), radii[rows]))
    W[crowd] += np.log(30_000) * h / (h @ h)
    if abs(value - adversarial_log_prob(h, W, y, radii)) > 1e-8:
        return "at N = 30,000 it differs from the definition"
    return ""


# --- 3.4 and 3.5 ---------------------------------------------------------------------------------


def components(rng, k: int = 3, n: int = 6, d: int = 4):
    """Draw a mixture: contexts, prior, matrix, target, radius."""
    prior = rng.integers(1, 9, k) / 1.0
    W = drawn(rng, n, d)
    return drawn(rng, k, d), prior / prior.sum(), W, int(rng.integers(n)), 0.001


def steepest(f, rng):
    """No direction of that length lowers P(y) more."""
    instance = components(rng)
    value, expected = array(f(*instance), (4,)), shared_worst(*instance)
    contexts, prior, W, y, r = instance
    if abs(np.linalg.norm(value) - r) > 1e-9 * r:
        return f"its length is {np.linalg.norm(value):.4g}, asked is r = {r:g}"
    if apart(value, expected) > 1e-7:
        moved = [W + np.outer(np.arange(len(W)) == y, delta) for delta in (value, expected)]
        falls = [mixture(contexts, prior, W, y) - mixture(contexts, prior, M, y) for M in moved]
        yours, most = told_apart(*falls)
        return f"P(y) falls by {yours}; another direction makes it fall by {most}"
    return ""


def sure(f, rng):
    """Logits of ±10³: a component that is sure takes no part, whatever exp says."""
    contexts, prior, W, y, r = components(rng)
    contexts[0] += 2_000 * W[y]
    instance = contexts, prior, W, y, r
    if apart(array(f(*instance), (4,)), shared_worst(*instance)) > 1e-6:
        return "with logits of ±1,000 in one component the direction is another"
    return ""


def many_directions(f, rng):
    """N = 10,000 and d = 500: equal words are one word, and most coordinates are no context's."""
    contexts, prior, W, y, r = components(rng)
    rows, crowd = crowded(rng, y, len(W), 10_000)
    # A coordinate that is 1 in all contexts takes the logarithm of how many words are equal.
    contexts = np.column_stack([contexts, np.ones(len(contexts))])
    W = np.column_stack([W, np.zeros(len(W))])
    unused = 500 - W.shape[1]
    wide = np.column_stack([W, rng.normal(size=(len(W), unused))])[rows]
    padded = np.pad(contexts, ((0, 0), (0, unused)))
    value = array(f(padded, prior, wide, int((rows == y).argmax()), r), (500,))
    W[crowd, -1] = np.log(10_000)
    expected = np.pad(shared_worst(contexts, prior, W, y, r), (0, unused))
    if apart(value, expected) > 1e-7:
        return "at N = 10,000 and d = 500 the direction is another"
    return ""


def enumeration(f, rng):
    """The least margin over all other words, per length of the context."""
    h, W, _, _ = words(rng, 9)
    behind = -np.sign(W @ h)[:, None] * W  # all products are negative
    for M, i in itertools.product((W, behind), (int((W @ h).argmin()), int((W @ h).argmax()))):
        value, expected = number(f(M, i, h)), certificate(M, i, h)
        if abs(value - expected) > 1e-9 * (1 + abs(expected)):
            rival = min((j for j in range(9) if j != i), key=lambda j: (M[i] - M[j]) @ h)
            yours, right = told_apart(value, expected)
            return f"word {i}: you give {yours}; word {rival} comes as near as {right}"
    return ""


def any_length(f, rng):
    """A context of any length shows the same."""
    h, W, i, _ = words(rng, 9)
    for c in (1e-12, 1e12):
        if abs(number(f(W, i, c * h)) - certificate(W, i, h)) > 1e-6:
            return f"{c:g} h shows the same as h"
    return ""


def many_rivals(f, rng):
    """N = 20,000: each rival comes many times, and word i once."""
    h, W, i, _ = words(rng, 9)
    rows = np.delete(np.arange(9), i)[rng.integers(8, size=20_000)]
    place = int(rng.integers(len(rows)))
    rows[place] = i
    value, expected = number(f(W[rows], place, h)), certificate(W, i, h)
    if abs(value - expected) > 1e-9 * (1 + abs(expected)):
        return "at N = 20,000 it differs from the least margin over all other words"
    return ""


# --- 3.7: functions for a student's law of 3.3 ----------------------------------------------------


def reordered(h, W, y, radii):
    """Return the right value, with the words in the other order."""
    return adversarial_log_prob(h, W[::-1], len(W) - 1 - y, radii[::-1])


def unmoved(h, W, y, radii):
    """Return log P without any adversary."""
    return log_softmax(W @ h)[y]


def certain(h, W, y, radii):
    """Return 0, the logarithm of 1."""
    return 0.0


RIGHT = {"3.7": (adversarial_log_prob, reordered)}
CANDIDATES = {"3.7": candidates(unmoved, certain)}
AGAIN = "lesson 07, The worst perturbation"
STEPS = (
    Step(
        "3.1",
        "the worst in a ball",
        "worst",
        ("h", "r", "ball"),
        12,
        12,
        (inside, lowest),
        (long_context,),
        AGAIN,
        {"memory": "{} at d = 100,000: look at the entries of h, and list no corners"},
    ),
    Step(
        "3.2",
        "the worst in an ellipsoid",
        "worst_in_ellipsoid",
        ("h", "A", "r"),
        10,
        10,
        (surface, deepest),
        (wide_ellipsoid,),
        AGAIN,
        {"memory": "{} at d = 1,000: one product of A and a vector is enough"},
    ),
    Step(
        "3.3",
        "every word moves",
        "adversarial_log_prob",
        ("h", "W", "y", "radii"),
        16,
        18,
        (attacked, extreme),
        (many_words,),
        "lesson 07, A margin, in nats",
        {
            "memory": "{} at N = 30,000: a word that moves changes one logit, no N × N is needed",
            "finite": "{}: subtract the largest logit before exp",
        },
    ),
    Step(
        "3.4",
        "one enemy for all components",
        "shared_worst",
        ("contexts", "prior", "W", "y", "r"),
        18,
        20,
        (steepest, sure),
        (many_directions,),
        "lesson 09, Who learns from a word?",
        {
            "memory": "{} at N = 10,000, d = 500: the gradient is a formula, no table of steps",
            "late": "{}: the gradient is a formula, not one step for each entry",
            "finite": "{}: subtract the largest logit of each component before exp",
        },
    ),
    Step(
        "3.5",
        "a certificate",
        "certificate",
        ("W", "i", "h"),
        8,
        8,
        (enumeration, any_length),
        (many_rivals,),
        "lesson 07b, Must a margin spread the words?",
        {"memory": "{} at N = 20,000: one row of the table of all pairs is asked"},
    ),
    Step(
        "3.6",
        "which ball",
        "",
        (),
        18,
        30,
        read="lesson 07, With and without",
        kind="experiment",
    ),
    Step("3.7", "a law of your own", "is_right", ("f", "rng"), 8, 8, kind="law"),
    Step("3.8", "discuss", "", (), 10, 12, kind="manual"),
)
TITLE = "A3. Words that must win, in any ball"
