"""Step 6.2: word matrices of known disease, and the laws of a report on them."""

import numpy as np

from tools.assignments.laws.common import Failed, array

DISEASES = ("drift", "split", "rogue", "low_rank")
NAMED = 0.1  # severity from which a disease is named
WORDS, WIDTH = 400, 48
DOSES = np.linspace(0.25, 0.9, 8)


def patient(rng, disease: str, dose: float, N: int = WORDS, d: int = WIDTH):
    """Draw W (N, d) with a disease that takes the share `dose` of the energy, and counts (N,).

    drift: one vector is added to all rows; split: to the rarer half of the words, of whose energy
    it takes the share; rogue: three coordinates are stretched; low_rank: d/8 directions hold the
    share; "healthy": a round cloud. The words stand in no order.
    """
    W = rng.normal(size=(N, d))
    ranks = rng.permutation(N)
    counts = np.ceil(1e6 / (1 + ranks))
    push = np.sqrt(d * dose / (1 - dose))
    way = rng.normal(size=d)
    way *= push / np.linalg.norm(way)
    if disease == "drift":
        W += way
    if disease == "split":
        W[ranks >= N // 2] += way
    if disease == "rogue":
        W[:, rng.permutation(d)[:3]] *= np.sqrt(1 + push**2 / 3)
    if disease == "low_rank":
        axes = np.linalg.qr(rng.normal(size=(d, d // 8)))[0]
        W += push / np.sqrt(d // 8) * rng.normal(size=(N, d // 8)) @ axes.T
    return W, counts


def named(severities) -> str:
    """Return the disease of the largest severity, "healthy" where none reaches a tenth."""
    return DISEASES[int(severities.argmax())] if severities.max() >= NAMED else "healthy"


def sick(variant):
    """Return disease, W and counts of a student's own checkpoint; its number decides all."""
    rng = np.random.default_rng(variant.sick)
    disease = DISEASES[int(rng.integers(4))]
    return disease, *patient(rng, disease, rng.uniform(0.3, 0.7))


def checkpoint(variant):
    """Return W and counts of a student's own sick checkpoint."""
    return sick(variant)[1:]


# --- laws ----------------------------------------------------------------------------------------


def severities(f, W, counts):
    """Return the four severities of an answer; raise Failed where one is no share."""
    values = array(f(W, counts), (4,), "the report")
    if values.min() < 0 or values.max() > 1:
        told = f"{values.min():.3g} to {values.max():.3g}"
        raise Failed("law", f"a severity is between 0 and 1; yours go from {told}")
    return values


COUNTS = "use the counts: the mean of two bunches is not a common direction"
TURNED = (
    "a rotation changes your verdict; a disease is not in the coordinates (but for rogue "
    "dimensions, which say so)"
)


def forty(f, rng):
    """Of 40 matrices, 8 of each kind, nine in ten are named right, every kind counted alike."""
    wrong: dict[tuple[str, str], int] = {}
    for disease in (*DISEASES, "healthy"):
        for dose in DOSES:
            said = named(severities(f, *patient(rng, disease, dose)))
            if said != disease:
                wrong[disease, said] = wrong.get((disease, said), 0) + 1
    right = 40 - sum(wrong.values())
    if right >= 36:
        return ""
    (disease, said), count = max(wrong.items(), key=lambda item: item[1])
    if disease == "split":
        return f"{count} of 8 matrices with a split are called {said}: {COUNTS}"
    return f"{right} of 40 matrices are named right; {count} of 8 with {disease} are called {said}"


def doses(f, rng):
    """A severity rises with the dose of its disease."""
    from scipy.stats import spearmanr

    for k, disease in enumerate(DISEASES):
        values = [severities(f, *patient(rng, disease, dose))[k] for dose in DOSES]
        correlation = spearmanr(values, DOSES).statistic if np.ptp(values) else 0.0
        if correlation < 0.85:
            return f"the severity of {disease} rises with the dose at r = {correlation:.2f} only"
    return ""


def turned(f, rng):
    """A rotation changes no severity, but that of rogue dimensions, which it cures."""
    turn = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    for k, disease in enumerate(DISEASES):
        W, counts = patient(rng, disease, 0.6)
        before, after = severities(f, W, counts), severities(f, W @ turn, counts)
        if disease == "rogue" and after[k] >= NAMED:
            return f"turned, no few coordinates stand out, but rogue still has {after[k]:.2f}"
        if disease != "rogue" and abs(after - before).max() > 0.03:
            return TURNED
    return ""


def same_words(f, rng):
    """The order of the words, the length of all vectors and of the text change nothing."""
    for disease in DISEASES:
        W, counts = patient(rng, disease, 0.6)
        order = rng.permutation(len(W))
        before = severities(f, W, counts)
        for scale in (1e-3, 1e3):
            if abs(severities(f, scale * W[order], 10 * counts[order]) - before).max() > 1e-6:
                return f"W × {scale:g} in another order of its words has other severities"
    return ""


def alone(f, rng):
    """One disease leaves the other severities below a quarter of its own, or below a tenth."""
    for dose in (0.6, 0.9):
        for k, disease in enumerate(DISEASES):
            values = severities(f, *patient(rng, disease, dose))
            others = np.delete(values, k).max()
            if others >= max(NAMED, values[k] / 4):
                return (
                    f"in a matrix with {disease} alone another severity is {others:.2f}, its own "
                    f"{values[k]:.2f}: take out what you have found before you look for the next"
                )
    return ""


def many_words(f, rng):
    """N = 100,000, where no table of pairs of words has a place."""
    W, counts = patient(rng, "drift", 0.5, 100_000)
    said = named(severities(f, W, counts))
    return "" if said == "drift" else f"at N = 100,000 a drift is called {said}"


LAWS = (turned, forty, doses, same_words, alone)
