"""The numbers that step 4.6 measures, and the verdict on the files that were handed in."""

import numpy as np

from tools.assignments.laws import a4, a4_experiment, claims
from tools.assignments.laws.common import Verdict

WORDS = 6_000  # more than any slice of 20,000 tokens has
OFF = 0.2  # ‖UᵀU − I‖ up to which the sizes of s are called singular values


def measured(arrays: dict[str, np.ndarray], text, variant) -> dict[str, float]:
    """Return the four numbers of a run: excess over the ceiling, I₁, ‖UᵀU − I‖, the loss."""
    c = a4_experiment.bounds(variant)
    words, d = int(text.max()) + 1, len(c)
    shapes = [arrays[k].shape for k in ("U", "s", "V")]
    if shapes != [(words, d), (d,), (d, d)] or words > WORDS:
        raise ValueError(f"the factors have shapes {', '.join(map(str, shapes))}")
    off = a4_experiment.off(arrays)
    if off > OFF:
        raise ValueError(f"‖UᵀU − I‖ is {off:.2f}: the sizes of s are no singular values")
    W, p = a4_experiment.matrix(arrays), a4_experiment.frequencies(text)
    try:
        loss = a4_experiment.hidden_loss(arrays, text)
    except RuntimeError as error:  # PyTorch's, of arrays that are no LSTM
        raise ValueError(str(error).splitlines()[0]) from None
    excess = float(a4.ceiling(arrays["s"].astype(float), c)[0])
    return {"above": excess, "I1": a4.isotropy(W, p)[0], "off": off, "loss": loss}


def mark(files: dict[str, bytes], variant, rng, text=None) -> Verdict:
    """Return the verdict on the files of step 4.6; `text` is the variant's tokens, else loaded."""

    def numbers(arrays, text, run):
        return measured(arrays, text, variant)

    return claims.mark(a4_experiment, numbers, "4.6", files, variant, rng, text)
