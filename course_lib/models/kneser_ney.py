"""Interpolated Kneser-Ney smoothing: the n-gram model that every neural model should beat.

    model = KneserNey.fit(corpus.train, eos=corpus.eos, vocabulary=len(corpus), order=5)
    model.perplexity(corpus.test)

An n-gram is a run of words within one line; a line begins with a start symbol that is never
predicted. For a context h and the context h' without its first word,

    p(w | h) = max(a(hw) − D(a(hw)), 0) / A(h)  +  L(h) / A(h) · p(w | h'),
    A(h) = Σ_w a(hw),   L(h) = Σ_w D(a(hw)), which is what the discounts leave over,

down to the uniform distribution over the vocabulary. The adjusted count a is how often hw occurs
at the highest order and where hw begins its line; elsewhere it is the number of different words
that precede hw (Kneser and Ney 1995). The discounts D₁, D₂, D₃₊ of adjusted counts 1, 2 and more
follow from how many n-grams have them (Chen and Goodman 1998, section 3, "modified").
"""

from dataclasses import dataclass

import numpy as np

from course_lib.errors import CourseError
from course_lib.ranges import Count, InRange, check


@dataclass(frozen=True)
class Ngrams(InRange):
    """The settings of an n-gram model, which stand where a network has its encoder."""

    order: Count = 5  # the longest n-gram
    modified: bool = True  # three discounts an order, otherwise one

    def fit(self, tokens, eos: int, vocabulary: int) -> "KneserNey":
        """Return the model that has counted a text, see `KneserNey.fit`."""
        return KneserNey.fit(tokens, eos, vocabulary, self.order, self.modified)


@dataclass(frozen=True)
class Order:
    """The n-grams of one length, their adjusted counts and what their contexts leave over.

    An n-gram or context that is not among them has the number -1, so that its table ends in a 0.
    """

    keys: np.ndarray  # (grams,) sorted: number of the context · (vocabulary + 1) + word
    adjusted: np.ndarray  # (grams + 1,) a(hw)
    discounts: np.ndarray  # (4,) D of the adjusted counts 0, 1, 2 and more
    total: np.ndarray  # (contexts + 1,) A(h)
    left_over: np.ndarray  # (contexts + 1,) L(h)


@dataclass(frozen=True)
class KneserNey:
    """A fitted n-gram model; probabilities are exact and sum to one."""

    orders: tuple[Order, ...]
    eos: int
    vocabulary: int

    @classmethod
    def fit(
        cls, tokens, eos: int, vocabulary: int, order: int = 5, modified: bool = True
    ) -> "KneserNey":
        """Count the n-grams of a text.

        tokens: (n,) numbers of words, lines ended by `eos`.
        vocabulary: number of words.
        order: the longest n-gram.
        modified: three discounts an order, otherwise one.

        CourseError for an order below 1, a text without words, or a word outside the vocabulary.
        """
        check("order", order, Count)
        stream, since = _lines(tokens, eos, vocabulary)

        # Each length has the keys of its n-grams, the number of the one that ends at each place,
        # and one place where each n-gram ends. Where a line has too few words, the number is -1.
        grams = []
        context = np.zeros(len(stream), np.int64)  # the empty one has number 0
        for length in range(1, order + 1):
            inside = np.flatnonzero(since >= length - 1)
            pairs = context[inside] * (vocabulary + 1) + stream[inside]
            keys, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
            numbers = np.full(len(stream), -1)
            numbers[inside] = inverse
            grams.append((keys, numbers, inside[first]))
            context = np.concatenate([[-1], numbers[:-1]])

        # An n-gram of the highest order counts wherever it ends, and so does one that begins its
        # line. Any other counts once for each longer n-gram that ends as it does.
        orders = []
        contexts = 1
        for length, (keys, numbers, _) in enumerate(grams, 1):
            places = (numbers >= 0) & (stream != vocabulary)
            if length < order:
                begins_line = np.flatnonzero(places & (since == length - 1))
                places = np.concatenate([begins_line, grams[length][2]])
            adjusted = np.bincount(numbers[places], minlength=len(keys) + 1)
            discounts = _discounts(adjusted, modified)
            taken = discounts[np.minimum(adjusted, 3)]
            of_context = keys // (vocabulary + 1)
            total = np.bincount(of_context, adjusted[:-1], minlength=contexts + 1)
            left_over = np.bincount(of_context, taken[:-1], minlength=contexts + 1)
            orders.append(Order(keys, adjusted, discounts, total, left_over))
            contexts = len(keys)
        return cls(tuple(orders), eos, vocabulary)

    def log_prob(self, tokens) -> np.ndarray:
        """Return log p of every token (n,) in nats, given the words before it in its line."""
        stream, _ = _lines(tokens, self.eos, self.vocabulary)
        probability = np.full(len(stream), 1 / self.vocabulary)
        context = np.zeros(len(stream), np.int64)
        for order in self.orders:
            numbers = _look_up(order.keys, context * (self.vocabulary + 1) + stream)
            adjusted = order.adjusted[numbers]
            own = np.maximum(adjusted - order.discounts[np.minimum(adjusted, 3)], 0)
            lower = order.left_over[context] * probability
            total = order.total[context]
            np.divide(own + lower, total, out=probability, where=total > 0)
            # The n-gram that ends one word earlier is the context of the next longer one.
            context = np.concatenate([[-1], numbers[:-1]])
        return np.log(probability[stream != self.vocabulary])

    def size(self) -> int:
        """Return how many different n-grams there are; the start of a line counts as a word."""
        return sum(len(order.keys) for order in self.orders)

    def perplexity(self, tokens) -> float:
        """Return exp of the mean negative log-probability of a text."""
        return float(np.exp(-self.log_prob(tokens).mean()))


def _lines(tokens, eos: int, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the words with a start symbol before each line, and each one's distance from it."""
    tokens = np.asarray(tokens, np.int64)
    if tokens.ndim != 1 or not len(tokens):
        raise CourseError(f"an n-gram model reads a list of words, not shape {tokens.shape}")
    low, high = tokens.min(), tokens.max()
    if low < 0 or high >= vocabulary:
        raise CourseError(f"words are numbers from 0 to {vocabulary - 1}, not from {low} to {high}")
    starts = np.concatenate([[0], np.flatnonzero(tokens[:-1] == eos) + 1])
    stream = np.insert(tokens, starts, vocabulary)
    places = np.arange(len(stream))
    last_start = np.maximum.accumulate(np.where(stream == vocabulary, places, 0))
    return stream, places - last_start


def _discounts(adjusted, modified: bool) -> np.ndarray:
    """Return D of the counts 0, 1, 2 and more (Chen and Goodman 1998, equation 17).

    Where no n-gram has one of the counts that an estimate needs, or where the estimate of D_a does
    not lie between 0 and a, the discount is ¾ a. A discount of 0 would leave nothing for words that
    do not follow a context.
    """
    n = np.bincount(np.clip(adjusted, 0, 5), minlength=6)[1:5]  # n₁ … n₄
    enough = n[0] > 0 and n[1] > 0
    ratio = n[0] / (n[0] + 2 * n[1]) if enough else np.nan
    if not modified:
        return np.array([0] + 3 * [ratio if enough else 0.75])
    a = np.arange(1, 4)
    exact = a - (a + 1) * ratio * n[1:] / np.maximum(n[:-1], 1)
    good = (n[:-1] > 0) & (0 < exact) & (exact < a)
    return np.append(0, np.where(good, exact, 0.75 * a))


def _look_up(keys, wanted) -> np.ndarray:
    """Return the place of each wanted key among the sorted `keys`, or -1."""
    places = np.searchsorted(keys, wanted)
    there = np.append(keys, np.iinfo(np.int64).min)[places]  # behind the last, one never wanted
    return np.where(there == wanted, places, -1)
