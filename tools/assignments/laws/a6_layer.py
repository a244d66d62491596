"""Step 6.3: a layer of two methods, its definition in NumPy, and its laws."""

from pathlib import Path

import numpy as np

from tools.assignments.laws.common import (
    Failed,
    apart,
    array,
    drawn,
    number,
    parts,
    shares,
    told_apart,
)

METHODS = ("bend", "adversarial", "augmented", "cosine", "ceiling")
TAU = 2.0  # of the augmented loss
CLOSE = 1e-6  # a constant in float32, as PyTorch makes them, is no fault
HARNESS = Path(__file__).with_name("a6_harness.py").read_text("utf-8")

# --- the definitions -----------------------------------------------------------------------------


def log_softmax(z):
    """Return the logarithm of the softmax of each row."""
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def over_the_ceiling(W):
    """Return σ_k − c_k by falling singular value, with c_k = √(N / (d k))."""
    sigma = np.linalg.svd(W, compute_uv=False)
    return sigma - np.sqrt(W.shape[0] / W.shape[1] / np.arange(1, len(sigma) + 1))


class Definition:
    """A layer of some methods with their strengths, part by part; a known mistake replaces a part.

    given: W, h and the block of a call, for the mistakes that hold something fixed.
    """

    def __init__(self, methods, strengths, given=()):
        self.s = dict.fromkeys(METHODS, 0.0) | dict(zip(methods, strengths, strict=True))
        self.given = given

    def bent(self, x):
        """Return x − s softplus(−x): below 0 the slope grows to 1 + s."""
        return x - self.s["bend"] * np.logaddexp(0, -x)

    def logits(self, W, bias, h):
        return h @ W.T + bias

    def log_prob(self, W, bias, h):
        """Return log P (n, N); of all methods only the bend changes it."""
        return log_softmax(self.bent(self.logits(W, bias, h)))

    def margin(self, W, h, y):
        return np.linalg.norm(W[y], axis=1) * np.linalg.norm(h, axis=1)

    def attacked(self, logits, margin, y):
        """Return log P of the words y, whose logits lose a margin."""
        rows = np.arange(len(y))
        lower = logits.copy()
        lower[rows, y] -= margin
        return log_softmax(self.bent(lower))[rows, y]

    def target(self, W, y):
        """Return the logarithm of the soft targets of the words y, (n, N)."""
        return log_softmax(W[y] @ W.T / TAU)

    def model(self, logits):
        return log_softmax(self.bent(logits) / TAU)

    def divergence(self, target, model):
        return (np.exp(target) * (target - model)).sum(1).mean()

    def data_loss(self, W, bias, h, y):
        """Return the mean loss of the contexts: −log P with a margin, and of the soft target."""
        logits = self.logits(W, bias, h)
        divergence = self.divergence(self.target(W, y), self.model(logits))
        chance = self.attacked(logits, self.s["adversarial"] * self.margin(W, h, y), y).mean()
        return self.s["augmented"] * divergence - chance

    def cosines(self, W, p):
        """Return Σ p_i p_j cos(w_i, w_j) over pairs of different words."""
        U = W / np.linalg.norm(W, axis=1, keepdims=True)
        return ((p @ U) ** 2).sum() - (p**2).sum()

    def excess(self, W):
        return np.maximum(0, over_the_ceiling(W))

    def penalty(self, W, p):
        """Return the penalties on the word matrix: p-weighted cosines, and a ceiling."""
        over = (self.excess(W) ** 2).sum()
        return self.s["cosine"] * self.cosines(W, p) + self.s["ceiling"] * over

    def loss(self, W, bias, p, h, y):
        return self.data_loss(W, bias, h, y) + self.penalty(W, p)


def slope(f, x, step=2e-3):
    """Return the gradient of f at x, by central differences of fourth order."""
    gradient = np.empty_like(x)
    for i in np.ndindex(x.shape):
        there = np.zeros_like(x)
        there[i] = step
        near, far = f(x + there) - f(x - there), f(x + 2 * there) - f(x - 2 * there)
        gradient[i] = (8 * near - far) / (12 * step)
    return gradient


def layer(methods, W, bias, p, strengths, h, y, block, definition=Definition):
    """Return what the harness returns, from the definition: log P, the loss, three gradients."""
    own = definition(methods, strengths, (W, h, block))
    return (
        own.log_prob(W, bias, h[:4]),
        own.loss(W, bias, p, h, y),
        slope(lambda x: own.loss(x, bias, p, h, y), W),
        slope(lambda x: own.loss(W, x, p, h, y), bias),
        slope(lambda x: own.loss(W, bias, p, x, y), h),
    )


# --- 6.3 -----------------------------------------------------------------------------------------


def chosen(names) -> tuple[str, str]:
    """Return the two methods that a layer names; raise Failed for others."""
    names = names if isinstance(names, tuple | list) else (names,)
    if len(names) != 2 or len({*names}) != 2 or not {*names} <= {*METHODS}:
        listed = ", ".join(METHODS)
        raise Failed("value", f"METHODS names two different methods out of {listed}")
    return tuple(names)


def instance(rng, n: int = 4, N: int = 6, d: int = 3):
    """Draw W, bias, shares, and n contexts with the words that followed, all short to paste.

    A small instance is drawn anew until its differences are exact.
    """
    W, h = drawn(rng, N, d), drawn(rng, n, d)
    while N < 10 and not smooth(W, h):
        W, h = (0.6 * drawn(rng, N, d)).round(2), drawn(rng, n, d)
    return W, drawn(rng, N), shares(rng, N), h, rng.integers(N, size=n)


def smooth(W, h) -> bool:
    """Return whether the loss has no kink nearby, and singular values on both sides of the ceiling.

    Lengths have a kink at 0, the ceiling has one at each bound, and two equal singular values
    change places.
    """
    lengths = np.linalg.norm(np.concatenate([W, h]), axis=1)
    over, sigma = over_the_ceiling(W), np.linalg.svd(W, compute_uv=False)
    near = min(lengths.min() / 4, np.abs(over).min(), -np.diff(sigma).max())
    return near > 0.1 and over.min() < 0 < over.max()


def compared(f, strengths, rng, block: int = 4) -> str:
    """Return how a layer differs from the definition at these strengths."""
    methods = chosen(f.f())
    W, bias, p, h, y = instance(rng)
    value = parts(f(methods, W, bias, p, strengths, h, y, block), 5)
    expected = layer(methods, W, bias, p, strengths, h, y, block)
    got = [array(value[0], (len(h), len(W)), "log P"), number(value[1])]
    total = np.exp(got[0]).sum(1)
    if np.abs(total - 1).max() > CLOSE:
        return f"the probabilities of a context add up to {total[np.abs(total - 1).argmax()]:.6g}"
    what = " with ".join(f"{m} {s:g}" for m, s in zip(methods, strengths, strict=True))
    far = np.abs(got[0] - expected[0]).max()
    if far > CLOSE:
        return f"{what}: log P differs from the definition by {far:.3g}"
    if abs(got[1] - expected[1]) > CLOSE * max(1, abs(expected[1])):
        loss, right = told_apart(got[1], expected[1])
        return f"{what}: the loss is {loss}, by the definition {right}"
    for name, slopes, right in zip(("W", "the bias", "h"), value[2:], expected[2:], strict=True):
        if apart(array(slopes, right.shape, f"the gradient in {name}"), right) > 10 * CLOSE:
            return (
                f"{what}: the loss is right, its gradient in {name} is not: is a part held fixed?"
            )
    return ""


def plain(f, rng):
    """At weight 0 of both methods it is the plain softmax."""
    told = compared(f, (0.0, 0.0), rng)
    return told and f"it differs from the plain layer at weight 0. {told}"


def first_parent(f, rng):
    """With the first method alone it is that method."""
    return compared(f, (round(rng.uniform(0.2, 0.9), 2), 0.0), rng)


def second_parent(f, rng):
    """With the second method alone it is that method."""
    return compared(f, (0.0, round(rng.uniform(0.2, 0.9), 2)), rng)


def both(f, rng):
    """With both it is both, in the stated order."""
    return compared(f, tuple(rng.uniform(0.2, 0.9, 2).round(2)), rng)


def any_block(f, rng):
    """The number of contexts that are read at a time changes nothing."""
    strengths = tuple(rng.uniform(0.2, 0.9, 2).round(2))
    state = rng.bit_generator.state
    for block in (1, 3):
        rng.bit_generator.state = state
        if told := compared(f, strengths, rng, block):
            return f"with block = {block} of 4 contexts: {told}"
    return ""


def no_table(f, rng):
    """1,600 contexts of 12,000 words, where a table of all pairs may not be kept."""
    methods, strengths = chosen(f.f()), (0.3, 0.4)
    W, bias, p, h, y = instance(rng, 1_600, 12_000, 8)
    h = np.tile(h[:200], (8, 1))
    y = np.tile(y[:200], 8)
    loss = parts(f(methods, W, bias, p, strengths, h, y, 40), 5)[1]
    expected = Definition(methods, strengths).loss(W, bias, p, h[:200], y[:200])
    if abs(number(loss) - expected) > CLOSE * abs(expected):
        return f"for 1,600 contexts the loss is {number(loss):.6f}, it should be {expected:.6f}"
    return ""


LAWS = (plain, first_parent, second_parent, both, any_block)
