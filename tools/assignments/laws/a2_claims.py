"""The numbers that step 2.6 measures, and the verdict on the files that were handed in."""

import numpy as np

from tools.assignments.laws import a2, a2_experiment, claims
from tools.assignments.laws.common import Verdict

WORDS, WIDTH = 6_000, 64  # more than any slice of 20,000 tokens has, and than anybody needs


def measured(arrays: dict[str, np.ndarray], text, run=None) -> dict[str, float]:
    """Return the three numbers of a run: R among frequent and among rare words, the loss."""
    W = arrays["W"].astype(float)
    if W.ndim != 2 or len(W) != int(text.max()) + 1 or W.shape[1] > WIDTH or len(W) > WORDS:
        raise ValueError(f"the matrix has shape {W.shape}")
    groups = a2_experiment.groups(text)
    numbers = {what: float(a2.mean_cosine(W[ids])) for what, ids in groups.items()}
    try:
        return numbers | {"loss": a2_experiment.hidden_loss(arrays, text)}
    except RuntimeError as error:  # PyTorch's, of arrays that are no LSTM
        raise ValueError(str(error).splitlines()[0]) from None


def mark(files: dict[str, bytes], variant, rng, text=None) -> Verdict:
    """Return the verdict on the files of step 2.6; `text` is the variant's tokens, else loaded."""
    return claims.mark(a2_experiment, measured, "2.6", files, variant, rng, text)
