"""Interpolated Kneser-Ney smoothing: the n-gram model that every neural model should beat.

    model = KneserNey.fit(corpus.train, eos=corpus.eos, vocabulary=len(corpus), order=5)
    model.perplexity(corpus.test)

An n-gram is a run of words within one line; a line begins with a start symbol that is never
predicted. For a context h and the context h' without its first word,

    p(w | h) = max(a(hw) - D(a(hw)), 0) / A(h)  +  D-mass(h) / A(h) · p(w | h'),
    A(h) = Σ_w a(hw),   D-mass(h) = Σ_w D(a(hw)),

down to the uniform distribution over the vocabulary. The adjusted count a is how often hw occurs
at the highest order and where hw begins its line; elsewhere it is the number of different words
that precede hw (Kneser and Ney 1995). The discounts D₁, D₂, D₃₊ of adjusted counts 1, 2 and more
follow from how many n-grams have them (Chen and Goodman 1998, section 3, "modified").
"""

from dataclasses import dataclass

import numpy as np

from course_lib.errors import CourseError
from course_lib.ranges import Count, check


@dataclass(frozen=True)
class Order:
    """The n-grams of one length, their adjusted counts and what their contexts leave over."""

    keys: np.ndarray  # (grams,) sorted: number of the context · (vocabulary + 1) + word
    adjusted: np.ndarray  # (grams,) a(hw)
    discounts: np.ndarray  # (4,) D of the adjusted counts 0, 1, 2 and more
    total: np.ndarray  # (contexts,) A(h)
    left_over: np.ndarray  # (contexts,) D-mass(h)


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

        tokens: (n,) numbers of words, lines ended by `eos`; vocabulary: number of words; order:
        the longest n-gram; modified: three discounts an order, otherwise one.
        CourseError for an order below 1, a text without words, or a word outside the vocabulary.
        """
        check("order", order, Count)
        stream, since = _lines(tokens, eos, vocabulary)
        grams = _number_grams(stream, since, vocabulary, order)
        orders = []
        for length in range(1, order + 1):
            numbers, keys = grams[length - 1]
            predicted = (numbers >= 0) & (stream != vocabulary)
            occurrences = np.bincount(numbers[predicted], minlength=len(keys))
            adjusted = occurrences
            if length < order:
                adjusted = _count_left_neighbours(grams, length, stream, vocabulary)
                begins_line = np.zeros(len(keys), bool)
                begins_line[numbers[predicted & (since == length - 1)]] = True
                adjusted = np.where(begins_line, occurrences, adjusted)
            contexts = 1 if length == 1 else max(1, len(grams[length - 2][1]))
            orders.append(_smoothed(keys, adjusted, contexts, vocabulary, modified))
        return cls(tuple(orders), eos, vocabulary)

    def log_prob(self, tokens) -> np.ndarray:
        """Return log p of every token (n,) in nats, given the words before it in its line."""
        stream, since = _lines(tokens, self.eos, self.vocabulary)
        probability = np.full(len(stream), 1 / self.vocabulary)
        context = np.zeros(len(stream), np.int64)  # the empty one has number 0
        for length, order in enumerate(self.orders, 1):
            known = (context >= 0) & (since >= length - 1)
            known &= order.total[np.maximum(context, 0)] > 0
            probability = np.where(
                known, self._interpolated(order, context, stream, probability), probability
            )
            # The n-gram that ends one word earlier is the context of the next longer one.
            numbers = _look_up(order.keys, context * (self.vocabulary + 1) + stream)
            numbers[(context < 0) | (since < length - 1)] = -1
            context = np.concatenate([[-1], numbers[:-1]])
        return np.log(probability[stream != self.vocabulary])

    def perplexity(self, tokens) -> float:
        """Return exp of the mean negative log-probability of a text."""
        return float(np.exp(-self.log_prob(tokens).mean()))

    def distribution(self, context) -> np.ndarray:
        """Return p(w | context) of every word (vocabulary,).

        context: the words before, of which those after the last `eos` count.
        """
        context = np.asarray(context, np.int64).reshape(-1)
        lines = np.empty((self.vocabulary, len(context) + 2), np.int64)
        lines[:, :-2] = context
        lines[:, -2] = np.arange(self.vocabulary)
        lines[:, -1] = self.eos
        return np.exp(self.log_prob(lines.reshape(-1)).reshape(lines.shape)[:, -2])

    def _interpolated(self, order, context, words, lower):
        """The formula of the module's docstring, for n positions at once."""
        place = np.maximum(context, 0)
        grams = _look_up(order.keys, place * (self.vocabulary + 1) + words)
        adjusted = np.append(order.adjusted, 0)[grams]  # the number -1 of none has none
        discount = order.discounts[np.minimum(adjusted, 3)]
        total = np.maximum(order.total[place], 1)
        return (np.maximum(adjusted - discount, 0) + order.left_over[place] * lower) / total


def _lines(tokens, eos: int, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the words with a start symbol before each line, and each one's distance from it."""
    tokens = np.asarray(tokens, np.int64)
    if tokens.ndim != 1 or not len(tokens):
        raise CourseError(f"an n-gram model reads a list of words, not shape {tokens.shape}")
    if tokens.min() < 0 or tokens.max() >= vocabulary:
        raise CourseError(
            f"words are numbers from 0 to {vocabulary - 1}; the text has "
            f"{tokens.min()} to {tokens.max()}"
        )
    starts = np.concatenate([[0], np.flatnonzero(tokens[:-1] == eos) + 1])
    stream = np.insert(tokens, starts, vocabulary)
    places = np.arange(len(stream))
    last_start = np.maximum.accumulate(np.where(stream == vocabulary, places, 0))
    return stream, places - last_start


def _number_grams(stream, since, vocabulary: int, order: int) -> list:
    """Return, for each length, the number of the n-gram that ends at each place, and their keys.

    Places where the n-gram would reach before the start of its line have the number -1.
    """
    grams = []
    context = np.zeros(len(stream), np.int64)
    for length in range(1, order + 1):
        inside = (since >= length - 1) & (context >= 0)
        keys, inverse = np.unique(
            context[inside] * (vocabulary + 1) + stream[inside], return_inverse=True
        )
        numbers = np.full(len(stream), -1)
        numbers[inside] = inverse
        grams.append((numbers, keys))
        context = np.concatenate([[-1], numbers[:-1]])
    return grams


def _count_left_neighbours(grams, length: int, stream, vocabulary: int) -> np.ndarray:
    """Return of every n-gram the number of different symbols that precede it."""
    numbers, keys = grams[length - 1]
    longer, longer_keys = grams[length]
    # One place where each longer n-gram ends: there also ends the shorter one.
    places = np.full(len(longer_keys), -1)
    inside = np.flatnonzero((longer >= 0) & (stream != vocabulary))
    places[longer[inside]] = inside
    return np.bincount(numbers[places[places >= 0]], minlength=len(keys))


def _smoothed(keys, adjusted, contexts: int, vocabulary: int, modified: bool) -> Order:
    """Return the order with its discounts, each context's total and what it leaves over."""
    discounts = _discounts(adjusted, modified)
    context = keys // (vocabulary + 1)
    taken = discounts[np.minimum(adjusted, 3)]
    total = np.bincount(context, adjusted, minlength=contexts)
    left_over = np.bincount(context, np.minimum(taken, adjusted), minlength=contexts)
    return Order(keys, adjusted, discounts, total, left_over)


def _discounts(adjusted, modified: bool) -> np.ndarray:
    """Return D of the counts 0, 1, 2 and more (Chen and Goodman 1998, equation 17).

    Where no n-gram has one of the counts that an estimate needs, or where the estimate of D_a does
    not lie between 0 and a, the discount is ¾ a. A discount of 0 would leave nothing for words that
    do not follow a context.
    """
    have = np.bincount(np.clip(adjusted, 0, 5), minlength=6)[1:5]  # n₁ … n₄
    if have[0] == 0 or have[1] == 0:
        return np.array([0, 0.75, 1.5, 2.25] if modified else [0, 0.75, 0.75, 0.75])
    ratio = have[0] / (have[0] + 2 * have[1])
    if not modified:
        return np.array([0, ratio, ratio, ratio])
    discounts = [0.0]
    for count in (1, 2, 3):
        exact = count - (count + 1) * ratio * have[count] / max(have[count - 1], 1)
        good = have[count - 1] > 0 and have[count] > 0 and 0 < exact < count
        discounts.append(float(exact) if good else 0.75 * count)
    return np.array(discounts)


def _look_up(keys, wanted) -> np.ndarray:
    """Return the place of each wanted key among the sorted `keys`, or -1."""
    if not len(keys):
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, places, -1)
