"""Known wrong answers to A6, and what the student is told: after “not yet:”."""

from functools import partial

import numpy as np

from tools.assignments.laws import a6_examination, a6_layer
from tools.assignments.laws.a6_layer import TAU, Definition, log_softmax
from tools.assignments.laws.common import Catalogue

CATALOGUE = Catalogue()
known = CATALOGUE.enter

# --- 6.1 -----------------------------------------------------------------------------------------


def about(differences, factor: float, sign: int = 1):
    """Return mean and interval of the differences, `factor` standard errors to both sides."""
    mean = sign * differences.mean()
    half = factor * differences.std(ddof=1) / np.sqrt(len(differences))
    return mean, mean - half, mean + half


def t_value(n: int, share: float) -> float:
    """Return Student's t of n − 1 degrees below which a share lies."""
    from scipy.stats import t

    return float(t.ppf(share, n - 1))


@known("6.1", "unpaired", "the two runs of a seed belong together: use their differences")
def unpaired(layer, baseline):
    n = len(layer)
    half = t_value(n, 0.95) * np.sqrt((layer.var(ddof=1) + baseline.var(ddof=1)) / n)
    mean = (layer - baseline).mean()
    return mean, mean - half, mean + half


@known(
    "6.1",
    "of the runs",
    "this is the interval of the *runs*, not of their mean difference: divide by √n",
)
def of_the_runs(layer, baseline):
    return about(layer - baseline, t_value(len(layer), 0.95) * np.sqrt(len(layer)))


@known("6.1", "normal", "1.645 is for many seeds; with few of them take Student's t")
def normal(layer, baseline):
    return about(layer - baseline, 1.6448536269514722)


@known("6.1", "95 %", "this is the interval of 95 %; asked are 90 %")
def wider(layer, baseline):
    return about(layer - baseline, t_value(len(layer), 0.975))


@known("6.1", "one side", "10 % on each side leave 80 %: a 90 % interval leaves 5 % on each")
def one_side(layer, baseline):
    return about(layer - baseline, t_value(len(layer), 0.9))


@known("6.1", "n", "the spread is too small: the variance of a sample divides by n − 1")
def by_n(layer, baseline):
    n = len(layer)
    return about(layer - baseline, t_value(n, 0.95) * np.sqrt((n - 1) / n))


@known("6.1", "n degrees", "Student's t has n − 1 degrees of freedom here, not n")
def of_n_degrees(layer, baseline):
    return about(layer - baseline, t_value(len(layer) + 1, 0.95))


@known("6.1", "baseline less layer", "the sign: asked is layer less baseline")
def other_sign(layer, baseline):
    return about(layer - baseline, t_value(len(layer), 0.95), -1)


@known("6.1", "median", "asked is the mean difference, not the median")
def median(layer, baseline):
    mean, low, high = about(layer - baseline, t_value(len(layer), 0.95))
    middle = np.median(layer - baseline)
    return middle, low - mean + middle, high - mean + middle


# --- 6.2 -----------------------------------------------------------------------------------------


def report(W, counts, split=True, centred=True, chance=True, by=None):
    """Return shares of the energy: the oracle, which the laws do not show, and its faults.

    split: use the counts; centred: before rogue coordinates and the spectrum are looked at; chance:
    less what a round cloud has; by: what orders the words.
    """
    N, d = W.shape
    rare = np.argsort(np.argsort(-counts if by is None else by, kind="stable")) >= N // 2
    m_rare, m_often = W[rare].mean(0), W[~rare].mean(0)
    energy = (W * W).sum() / N
    apart = m_rare - m_often if split else np.zeros(d)
    common = m_rare @ m_often if split else W.mean(0) @ W.mean(0)
    gap = apart @ apart
    rest = W - np.where(rare[:, None], m_rare, m_often) if split else W - W.mean(0)
    inner = rest if centred else W
    # rogue coordinates
    held = (inner * inner).mean(0)
    high = np.sort(np.flatnonzero(held > 3.2 * held.mean()))
    rogue = 0.0
    if 0 < len(high) <= 4:
        rogue = held[high].sum() / held.sum() - len(high) / d
        inner = np.delete(inner, high, 1)
    # the spectrum of what is left
    values = np.linalg.eigvalsh(inner.T @ inner)
    values = np.sort(values)[::-1] / values.sum()
    ratio = np.sqrt(len(values) / N)
    ranks = np.arange(len(values)) / (len(values) - 1)
    round_cloud = (1 + ratio * (1 - 2 * ranks)) ** 2
    fair = round_cloud / round_cloud.sum()
    low_rank = (np.cumsum(values) - np.cumsum(fair) * chance).max()
    if not chance:
        low_rank = values[: len(values) // 4].sum()
    low_rank *= 1 - rogue
    own = (rest[rare] ** 2).sum() / rare.sum()
    return np.array(
        [max(0.0, common / energy), gap / (gap + own), rogue, max(0.0, low_rank)], float
    )


@known("6.2", "without counts", a6_examination.COUNTS)
def without_counts(W, counts):
    return report(W, counts, split=False)


@known("6.2", "by coordinate", a6_examination.TURNED)
def by_coordinate(W, counts):
    severities = report(W, counts)
    push = W.mean(0) ** 2  # of the longest coordinate, as if there were six like it
    return severities * np.array([6 * push.max() / push.sum(), 1, 1, 1])


@known(
    "6.2",
    "not centred",
    "a vector that all words share is longer along some coordinates: take the means out before you "
    "look for rogue ones",
)
def not_centred(W, counts):
    return report(W, counts, centred=False)


@known("6.2", "no chance", "a round cloud has a largest singular value, too: subtract what it has")
def no_chance(W, counts):
    return report(W, counts, chance=False)


@known("6.2", "order of the rows", "the rows stand in no order: counts says which word is rare")
def by_order(W, counts):
    return report(W, counts, by=np.arange(len(W)))


@known("6.2", "yes or no", "a name is right, but a severity has to rise with the dose")
def yes_or_no(W, counts):
    return 0.5 * (report(W, counts) == report(W, counts).max()) * (report(W, counts).max() > 0.1)


@known("6.2", "not divided", "an energy is no share of it: W × 1,000 has other severities")
def not_divided(W, counts):
    severities = report(W, counts)
    return severities * min(1.0, np.sqrt((W * W).mean()))


# --- 6.3 -----------------------------------------------------------------------------------------

BEND, AUGMENTED = ("adversarial", "bend"), ("augmented", "cosine")


def bend_first(self, logits, margin, y):
    bent = self.bent(logits)
    bent[np.arange(len(y)), y] -= margin
    return log_softmax(bent)[np.arange(len(y)), y]


def held_fixed(self, W, h, y):
    W0, h0, _ = self.given
    return np.linalg.norm(W0[y], axis=1) * (h * h0).sum(1) / np.linalg.norm(h0, axis=1)


def in_each_block(self, W, p):
    _, h, block = self.given
    return -(-len(h) // block) * Definition.penalty(self, W, p)


def mean_of_means(self, W, bias, h, y):
    cuts = [slice(i, i + self.given[2]) for i in range(0, len(h), self.given[2])]
    return np.mean([Definition.data_loss(self, W, bias, h[cut], y[cut]) for cut in cuts])


# By name: the methods with which it shows, what is told, and the parts of the definition that are
# replaced.
FAULTS = {
    "helps the word": (
        BEND,
        "the margin helps the word: subtract it from the word's logit",
        {"margin": lambda self, W, h, y: -Definition.margin(self, W, h, y)},
    ),
    "equal radii": (
        BEND,
        "the margin is s‖w_y‖‖h‖: your words all have the same radius",
        {"margin": lambda self, W, h, y: np.linalg.norm(h, axis=1)},
    ),
    "not times ‖h‖": (
        BEND,
        "the margin is s‖w_y‖‖h‖: where is the length of h?",
        {"margin": lambda self, W, h, y: np.linalg.norm(W[y], axis=1)},
    ),
    "bend first": (
        BEND,
        "with both, the margin comes off the logit *before* it is bent",
        {"attacked": bend_first},
    ),
    "upwards": (
        BEND,
        "bent the wrong way: the slope grows below 0, and stays 1 far above it",
        {"bent": lambda self, x: x + self.s["bend"] * np.logaddexp(0, x)},
    ),
    "perturbation held fixed": (
        BEND,
        "the loss is right; the lengths in the margin have a gradient, too: nothing is held fixed",
        {"margin": held_fixed},
    ),
    "soft target held fixed": (
        AUGMENTED,
        "the loss is right; the soft target is made of W and has a gradient, too",
        {"target": lambda self, W, y: Definition.target(self, self.given[0], y)},
    ),
    "other way round": (
        AUGMENTED,
        "the divergence the other way round: its mean is over ỹ",
        {"divergence": lambda self, target, model: Definition.divergence(self, model, target)},
    ),
    "target not softened": (
        AUGMENTED,
        "the soft target has the temperature 2, too",
        {"target": lambda self, W, y: log_softmax(W[y] @ W.T)},
    ),
    "prediction not softened": (
        AUGMENTED,
        "the prediction has the temperature 2, too",
        {"model": lambda self, logits: log_softmax(self.bent(logits))},
    ),
    "soft target not bent": (
        ("augmented", "bend"),
        "the divergence is from the layer's own prediction: its logits are bent, too",
        {"model": lambda self, logits: log_softmax(logits / TAU)},
    ),
    "equal shares": (
        AUGMENTED,
        "every word is counted once; p says how often it is",
        {"cosines": lambda self, W, p: Definition.cosines(self, W, 0 * p + 1 / len(p))},
    ),
    "pairs with themselves": (
        AUGMENTED,
        "the pairs of a word with itself are still in it: Σ p_i² too much",
        {"cosines": lambda self, W, p: Definition.cosines(self, W, p) + (p**2).sum()},
    ),
    "two-sided": (
        ("adversarial", "ceiling"),
        "it punishes singular values *below* the ceiling, too",
        {"excess": lambda self, W: a6_layer.over_the_ceiling(W)},
    ),
    "sum": (
        BEND,
        "the sum over the contexts; asked is their mean",
        {"loss": lambda self, *x: len(x[-1]) * Definition.loss(self, *x)},
    ),
    "strengths exchanged": (
        BEND,
        "the first strength is that of the first of METHODS",
        {"__init__": lambda self, names, *x: Definition.__init__(self, names[::-1], *x)},
    ),
    "log P not bent": (
        BEND,
        "the bend belongs to log_prob, too, and not to the loss alone",
        {"log_prob": lambda self, W, bias, h: log_softmax(h @ W.T + bias)},
    ),
    "logits": (
        BEND,
        "these are logits; log_prob is their log-softmax",
        {"log_prob": lambda self, W, bias, h: self.bent(h @ W.T + bias)},
    ),
    "no bias": (
        BEND,
        "it differs from the plain layer at weight 0: the bias is left out",
        {"logits": lambda self, W, bias, h: h @ W.T},
    ),
    "penalty in each block": (
        AUGMENTED,
        "the penalty is added once a block; it belongs to the loss once",
        {"penalty": in_each_block},
    ),
    "mean of means": (
        BEND,
        "the last block is smaller: weigh the blocks by their contexts",
        {"data_loss": mean_of_means},
    ),
}
for fault, (_, message, parts) in FAULTS.items():
    definition = type(fault, (Definition,), parts)
    known("6.3", fault, message)(partial(a6_layer.layer, definition=definition))
