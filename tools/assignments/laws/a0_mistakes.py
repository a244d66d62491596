"""Known wrong answers to A0, and what the student is told."""

import numpy as np

from tools.assignments.laws import a0
from tools.assignments.laws.common import Mistake


def probabilities(l):
    return np.exp(l) / np.exp(l).sum()


def normaliser(l):
    return np.full_like(l, np.log(np.exp(l).sum()))


def forgotten(l):
    return l - l.max()


CATALOGUE = {
    "0.1": (
        Mistake("no logarithm", probabilities, "these are the probabilities; take the logarithm"),
        Mistake(
            "normaliser alone", normaliser, "this is log Z, the same for each word: l_i − log Z"
        ),
        Mistake("no normaliser", forgotten, "the largest is subtracted, but not the normaliser"),
        Mistake(
            "overflow",
            a0.log_softmax,
            "right for small logits, but exp(10,000) overflows. Subtract the largest logit first",
        ),
    )
}
