"""The numbers that step 1.6 measures, and the verdict on the files that were handed in."""

import numpy as np

from tools.assignments.laws import a1, a1_experiment, claims
from tools.assignments.laws.common import Verdict

WORDS, WIDTH = 6_000, 64  # more than any slice of 20,000 tokens has, and than anybody needs


def measured(arrays: dict[str, np.ndarray], text=None, run=None) -> dict[str, float]:
    """Return the three numbers of a run from its matrices."""
    W, E = arrays["W"].astype(float), arrays["E"].astype(float)
    if W.shape != E.shape or W.ndim != 2 or len(W) > WORDS or W.shape[1] > WIDTH:
        raise ValueError(f"the matrices have shapes {W.shape} and {E.shape}")
    if not W.std(0).all():
        raise ValueError("the rows of W are all the same")
    X = np.column_stack([E, np.ones(len(E))])
    fitted = X @ np.linalg.lstsq(X, W, rcond=None)[0]
    share = 1 - ((W - fitted) ** 2).sum() / ((W - W.mean(0)) ** 2).sum()
    return {
        "distance": a1_experiment.distance(W, E),
        "share": float(share),
        "contradicted": float(a1.contradicted(E).mean()),
    }


def mark(files: dict[str, bytes], variant, rng, text=None) -> Verdict:
    """Return the verdict on the files of step 1.6; `text` is the variant's tokens, else loaded."""
    return claims.mark(a1_experiment, measured, "1.6", files, variant, rng, text)
