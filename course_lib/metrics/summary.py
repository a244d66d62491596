"""The shape of a word matrix in a dozen numbers: what every training run leaves of it."""

import numpy as np

from course_lib.metrics import geometry, inputs

SAMPLED = 40_000  # words of each of 10 draws, where there are more (wang2020, Table 3)
DIGITS = 6  # significant ones that are kept of a singular value


def summary(W, counts) -> dict:
    """W (N, d) and training counts (N,) → its geometry, ready for JSON.

    "singular_values": all d, falling. "mean_cosine" of all pairs of words, of the "rare" ones
    (`geometry.by_frequency`: below 1e-4 of all tokens), of the 500 most "frequent"; None for a
    group of fewer than two words. "positive_share" of the cosines, among 4,000 words at most.
    "I1", "I2": isotropy over ± the eigenvectors; with more than 40,000 words also "sampled_I1" and
    "sampled_I2", means of 10 draws of so many. "drift": the common vector's share of the energy.
    "mean_norm": of the rows.
    """
    rows = inputs.as_matrix(W)
    groups = geometry.by_frequency(counts)
    some = np.random.default_rng(0).permutation(len(rows))[:4_000]
    isotropy, drift = geometry.isotropy(rows), geometry.common_drift(rows)
    cosines = {"mean_cosine": drift.cosine}
    for name, group in groups._asdict().items():
        alone = len(group) < 2
        cosines[f"mean_cosine_{name}"] = None if alone else geometry.mean_cosine(rows[group])
    sampled = {}
    if len(rows) > SAMPLED:
        drawn = geometry.sampled_isotropy(rows, SAMPLED).mean
        sampled = {"sampled_I1": drawn.I1, "sampled_I2": drawn.I2}
    return {
        "singular_values": [float(f"{s:.{DIGITS}g}") for s in geometry.singular_values(rows)],
        **cosines,
        "positive_share": geometry.positive_share(rows[some]),
        "I1": isotropy.I1,
        "I2": isotropy.I2,
        **sampled,
        "drift": drift.share,
        "mean_norm": float(rows.norm(dim=1).mean()),
    }
