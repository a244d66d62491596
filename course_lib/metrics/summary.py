"""The shape of a word matrix in a dozen numbers: what every training run leaves of it."""

from course_lib.metrics import inputs
from course_lib.metrics.registry import METRICS


def summary(W, counts) -> dict:
    """Return the figures of every metric of `METRICS`, ready for JSON.

    What each means, and the range in which it lies, stands in the registry.

    W: (N, d).
    counts: (N,), how often each word comes in training.
    """
    matrix = inputs.as_matrix(W)
    figures = {}
    for metric in METRICS.values():
        figures |= metric.compute(matrix, counts)
    return figures
