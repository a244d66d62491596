"""The numbers that step 3.6 measures, and the verdict on the files that were handed in."""

import numpy as np

from tools.assignments.laws import a3_experiment, claims
from tools.assignments.laws.common import Verdict

WIDTH = 64  # more than anybody needs


def measured(arrays: dict[str, np.ndarray], text, run=None) -> dict[str, float]:
    """Return the two losses of a run from its arrays."""
    W = arrays["W"]
    if W.ndim != 2 or len(W) != int(text.max()) + 1 or W.shape[1] > WIDTH:
        raise ValueError(f"the matrix has shape {W.shape}")
    try:
        return a3_experiment.losses(arrays, text)
    except RuntimeError as error:  # PyTorch's, of arrays that are no LSTM
        raise ValueError(str(error).splitlines()[0]) from None


def mark(files: dict[str, bytes], variant, rng, text=None) -> Verdict:
    """Return the verdict on the files of step 3.6; `text` is the variant's tokens, else loaded."""
    return claims.mark(a3_experiment, measured, "3.6", files, variant, rng, text)
