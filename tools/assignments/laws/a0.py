"""A0, the rehearsal: hand in, be refused, read the feedback, try again. It counts nothing."""

import numpy as np

from tools.assignments.laws.common import Limits, Step, apart, array


def log_softmax(l):
    """The definition, which overflows: the logarithm of each exponential's share."""
    return np.log(np.exp(l) / np.exp(l).sum())


def definition(f, rng):
    """Small logits: as the definition says."""
    l = rng.normal(size=7)
    value = array(f(l), (7,))
    if apart(value, log_softmax(l)) > 1e-9:
        return f"the probabilities add up to {np.exp(value).sum():.3g} and are not those of softmax"
    return ""


def extreme(f, rng):
    """Logits of ±10⁴: differences of logarithms are differences of logits."""
    l = rng.choice([-1e4, 1e4], 9) + rng.normal(size=9)
    value = array(f(l), (9,))
    if apart(value - value.max(), l - l.max()) > 1e-9 or abs(value.max()) > np.log(9):
        return "log P_i − log P_j must be l_i − l_j, however large the logits are"
    return ""


STEPS = (
    Step(
        "0.1",
        "the logarithm of a softmax",
        "log_softmax",
        ("l",),
        2,
        8,
        laws=(definition, extreme),
        read="lesson 01, Logits are inner products",
        told={"finite": "{}: exp(10,000) overflows. Subtract the largest logit first"},
        limits=Limits(5, 100),
    ),
    Step("0.2", "what were you told?", "", (), 1, 5, kind="manual"),
)
TITLE = "A0. Rehearsal"
