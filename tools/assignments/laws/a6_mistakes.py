"""Known wrong answers to A6, and what the student is told: after “not yet:”."""

import numpy as np

from tools.assignments.laws import a6_examination, a6_layer
from tools.assignments.laws.a6_layer import TAU, bent, log_softmax
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

NEEDS = {}  # the methods with which a mistake shows


def loss_of(methods, W, bias, p, strengths, h, y, fault="", held=None):
    """Return the loss of a layer with a fault; `held` is W and h where they are held fixed."""
    s = dict(zip(methods, strengths, strict=True))
    W0, h0 = held if fault == "perturbation held fixed" else (W, h)
    logits, rows = h @ W.T + bias, np.arange(len(y))
    k = s.get("bend", 0.0)
    soft = (logits if fault == "soft target not bent" else bent(logits, k)) / TAU
    soft = soft * TAU if fault == "prediction not softened" else soft
    E = held[0] if fault == "soft target held fixed" else W
    target = log_softmax(E[y] @ E.T / (1 if fault == "target not softened" else TAU))
    other = log_softmax(soft)
    if fault == "other way round":
        target, other = other, target
    divergence = (np.exp(target) * (target - other)).sum(1).mean()
    rate = s.get("adversarial", 0.0)
    length = np.linalg.norm(h0, axis=1)
    if fault == "perturbation held fixed":  # δ of a word is a constant, δᵀh is not
        length = (h * h0).sum(1) / np.linalg.norm(h0, axis=1)
    margin = rate * length * (1 if fault == "equal radii" else np.linalg.norm(W0[y], axis=1))
    if fault == "not times ‖h‖":
        margin = rate * np.linalg.norm(W[y], axis=1)
    margin = -margin if fault == "helps the word" else margin
    if fault == "bend first":
        logits = bent(logits, k)
        logits[rows, y] -= margin
        chance = log_softmax(logits)[rows, y].mean()
    elif fault == "upwards":
        chance = log_softmax(logits + k * np.logaddexp(0, logits))[rows, y].mean()
    else:
        logits[rows, y] -= margin
        chance = log_softmax(bent(logits, k))[rows, y].mean()
    value = s.get("augmented", 0.0) * divergence - chance
    if "cosine" in s:
        U = W / np.linalg.norm(W, axis=1, keepdims=True)
        share = np.full(len(W), 1 / len(W)) if fault == "equal shares" else p
        own = 0 if fault == "pairs with themselves" else (share**2).sum()
        value += s["cosine"] * (((share @ U) ** 2).sum() - own)
    if "ceiling" in s:
        over = a6_layer.over_the_ceiling(W)
        over = over if fault == "two-sided" else np.maximum(0, over)
        value += s["ceiling"] * (over**2).sum()
    return value


def faulty(name: str, message: str, *methods: str) -> None:
    """Enter a layer whose loss has a fault, which shows with these methods."""

    def mistaken(names, W, bias, p, strengths, h, y, block):
        def loss(*arguments):
            return loss_of(*arguments, fault=name, held=(W, h))

        return a6_layer.layer(names, W, bias, p, strengths, h, y, block, loss)

    NEEDS[name] = methods
    known("6.3", name, message)(mistaken)


def entered(name: str, message: str, *methods: str):
    """Enter a layer as it is, which shows with these methods."""
    NEEDS[name] = methods
    return known("6.3", name, message)


BEND, AUGMENTED = ("adversarial", "bend"), ("augmented", "cosine")
faulty("helps the word", "the margin helps the word: subtract it from the word's logit", *BEND)
faulty("equal radii", "the margin is s‖w_y‖‖h‖: your words all have the same radius", *BEND)
faulty("not times ‖h‖", "the margin is s‖w_y‖‖h‖: where is the length of h?", *BEND)
faulty("bend first", "with both, the margin comes off the logit *before* it is bent", *BEND)
faulty("upwards", "bent the wrong way: the slope grows below 0, and stays 1 far above it", *BEND)
faulty(
    "perturbation held fixed",
    "the loss is right; the lengths in the margin have a gradient, too: nothing is held fixed",
    *BEND,
)
faulty(
    "soft target held fixed",
    "the loss is right; the soft target is made of W and has a gradient, too",
    *AUGMENTED,
)
faulty("other way round", "the divergence the other way round: its mean is over ỹ", *AUGMENTED)
faulty("target not softened", "the soft target has the temperature 2, too", *AUGMENTED)
faulty("prediction not softened", "the prediction has the temperature 2, too", *AUGMENTED)
faulty(
    "soft target not bent",
    "the divergence is from the layer's own prediction: its logits are bent, too",
    "augmented",
    "bend",
)
faulty("equal shares", "every word is counted once; p says how often it is", *AUGMENTED)
faulty(
    "pairs with themselves",
    "the pairs of a word with itself are still in it: Σ p_i² too much",
    *AUGMENTED,
)
faulty(
    "two-sided",
    "it punishes singular values *below* the ceiling, too",
    "adversarial",
    "ceiling",
)


@entered("sum", "the sum over the contexts; asked is their mean", *BEND)
def summed(methods, W, bias, p, strengths, h, y, block):
    first, *rest = a6_layer.layer(methods, W, bias, p, strengths, h, y, block)
    return first, *(len(h) * x for x in rest)


@entered("strengths exchanged", "the first strength is that of the first of METHODS", *BEND)
def exchanged(methods, W, bias, p, strengths, h, y, block):
    return a6_layer.layer(methods[::-1], W, bias, p, strengths, h, y, block)


@entered("log P not bent", "the bend belongs to log_prob, too, and not to the loss alone", *BEND)
def not_bent(methods, W, bias, p, strengths, h, y, block):
    def chances(methods, W, bias, strengths, h):
        return log_softmax(h @ W.T + bias)

    return a6_layer.layer(methods, W, bias, p, strengths, h, y, block, chances=chances)


@entered("logits", "these are logits; log_prob is their log-softmax", *BEND)
def logits_for_chances(methods, W, bias, p, strengths, h, y, block):
    def chances(methods, W, bias, strengths, h):
        return bent(h @ W.T + bias, dict(zip(methods, strengths, strict=True)).get("bend", 0.0))

    return a6_layer.layer(methods, W, bias, p, strengths, h, y, block, chances=chances)


@entered("no bias", "it differs from the plain layer at weight 0: the bias is left out", *BEND)
def no_bias(methods, W, bias, p, strengths, h, y, block):
    first, loss, dW, dbias, dh = a6_layer.layer(methods, W, 0 * bias, p, strengths, h, y, block)
    return first, loss, dW, 0 * dbias, dh


@entered(
    "penalty in each block",
    "the penalty is added once a block; it belongs to the loss once",
    *AUGMENTED,
)
def in_each_block(methods, W, bias, p, strengths, h, y, block):
    def loss(methods, W, bias, p, strengths, h, y):
        blocks = -(-len(h) // block)
        own = blocks * a6_layer.penalty(methods, W, p, strengths)
        return a6_layer.data_loss(methods, W, bias, strengths, h, y) + own

    return a6_layer.layer(methods, W, bias, p, strengths, h, y, block, loss)


@entered("mean of means", "the last block is smaller: weigh the blocks by their contexts", *BEND)
def mean_of_means(methods, W, bias, p, strengths, h, y, block):
    def loss(methods, W, bias, p, strengths, h, y):
        starts = range(0, len(h), block)
        cut = [slice(i, i + block) for i in starts]
        means = [a6_layer.data_loss(methods, W, bias, strengths, h[c], y[c]) for c in cut]
        return np.mean(means) + a6_layer.penalty(methods, W, p, strengths)

    return a6_layer.layer(methods, W, bias, p, strengths, h, y, block, loss)
