"""The numbers that step 5.6 measures, and the verdict on the files that were handed in."""

import numpy as np

from tools.assignments.laws import a5_experiment, claims
from tools.assignments.laws.common import Verdict


def measured(arrays: dict[str, np.ndarray], text, language: str) -> dict[str, float]:
    """Return the four numbers of a run: excess over the language's entropy, two ranks, its size."""
    table = a5_experiment.log_p(arrays)
    if not np.isfinite(table).all():
        raise ValueError("its log P is not finite")
    values = np.linalg.svd(table, compute_uv=False)
    return {
        "excess": a5_experiment.excess(arrays, text[language]),
        "press": a5_experiment.press(values, table.shape),
        "effective": a5_experiment.effective(values),
        "numbers": a5_experiment.count(arrays),
    }


def mark(files: dict[str, bytes], variant, rng, text=None) -> Verdict:
    """Return the verdict on the files of step 5.6; `text` is both languages' log P, else drawn."""

    def numbers(arrays, text, run):
        expected = a5_experiment.shapes(variant, *run)
        for key, shape in expected.items():
            if arrays[key].shape != shape:
                raise ValueError(f"{key} has shape {arrays[key].shape}, this run's has {shape}")
        return measured(arrays, text, run[0])

    return claims.mark(a5_experiment, numbers, "5.6", files, variant, rng, text)
