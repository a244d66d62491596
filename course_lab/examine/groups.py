"""Rare and frequent words, told apart by how often they occur in the training text."""

from typing import NamedTuple

import numpy as np
import torch

from course_lib.errors import CourseError
from course_lib.metrics import geometry

RARE = 1e-4  # of the tokens: a word below that share is rare (gao2019, section 4)
FREQUENT = 500  # words, but at most a tenth of the vocabulary


class Groups(NamedTuple):
    """Ids of rare and of frequent words, all ids in falling frequency, and the rule in words.

    A sample keeps more of the frequent words than of the others. Its `order` has a fair part of
    them only: as many as stand for the frequent words in the whole vocabulary.
    """

    rare: np.ndarray
    frequent: np.ndarray
    order: np.ndarray
    rule: str

    def bands(self, words: int = 8) -> list[np.ndarray]:
        """Return the frequent words, and the others in bands of equal size along the frequency."""
        among = np.isin(self.order, self.frequent)
        others = self.order[~among]
        return [self.order[among], *np.array_split(others, min(words, len(others) // 2))]

    def sampled(self, rows: np.ndarray) -> "Groups":
        """Return the groups of a sample of the words, with their places in the sample as ids.

        rows (n,): ids of the sampled words. Who is rare stays decided by the whole vocabulary.
        """
        place = np.full(1 + max(self.order.max(), self.frequent.max()), -1)
        place[rows] = np.arange(len(rows))
        rare, frequent, order = (ids[ids >= 0] for ids in (place[group] for group in self[:3]))
        # of the frequent ones as many as of the others
        among = np.isin(order, frequent)
        share = (~among).sum() / np.setdiff1d(self.order, self.frequent).size
        kept = min(among.sum(), round(share * np.isin(self.order, self.frequent).sum()))
        at = np.flatnonzero(among)
        among[at[((np.arange(kept) + 0.5) * len(at) / max(1, kept)).astype(int)]] = False
        return Groups(rare, frequent, order[~among], self.rule)


def fair(rows, groups: Groups | None):
    """Return those rows (n, …) that stand for the whole vocabulary: all, or a sample's fair part.

    rows: of the words of `groups`, or None where nobody knows who is frequent.
    """
    if groups is None or len(groups.order) == len(rows):
        return rows
    return rows[np.sort(groups.order)]


def frequency_groups(counts) -> Groups:
    """Return the rare and the frequent words by their training counts (N,).

    Rare are words below 1e-4 of the tokens, as in gao2019; frequent are the 500 most frequent, but
    at most a tenth. In a small vocabulary, of which less than a tenth is that rare, the rarer half
    counts as rare. CourseError where counts do not tell words apart.
    """
    counts = torch.as_tensor(counts).double().cpu().numpy()
    if counts.ndim != 1 or not (np.isfinite(counts) & (counts >= 0)).all() or len(counts) < 16:
        raise CourseError("counts are one finite number, 0 or more, for each of 16 words or more")
    N = len(counts)
    most = max(2, min(FREQUENT, N // 10))
    rare, frequent = geometry.by_frequency(counts, RARE, most)
    order = np.argsort(-counts, kind="stable")
    rule = f"rare: below 1 in 10,000 tokens; frequent: the {most} most frequent"
    if len(rare) < N / 10:
        rare = order[N - N // 2 :]
        rule = f"rare: the rarer half; frequent: the {most} most frequent"
    rare = np.setdiff1d(rare, frequent)
    if len(rare) < 2 or counts[rare].mean() >= counts[frequent].mean() / 2:
        raise CourseError("the counts are too equal to tell rare words from frequent ones")
    return Groups(rare, frequent, order, rule)


def sample(N: int, size: int, groups: Groups | None, seed: int) -> np.ndarray:
    """Return the sorted ids of `size` of N words: all frequent ones, and others at random.

    groups: rare and frequent words; without them every word is as likely as another. Frequent
    words fill at most half of the sample.
    """
    random = np.random.default_rng(seed)
    if groups is None:
        return np.sort(random.choice(N, size, replace=False))
    frequent = groups.frequent[: size // 2]
    others = np.setdiff1d(np.arange(N), groups.frequent)
    drawn = random.choice(others, size - len(frequent), replace=False)
    return np.sort(np.concatenate([frequent, drawn]))
