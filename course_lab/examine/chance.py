"""The spectrum that chance alone gives: what a word matrix's singular values are held against."""

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal


def random_spectrum(N: int, d: int, seed: int = 0) -> np.ndarray:
    """Return the singular values of a Gaussian (N, d) matrix, largest first, without making it.

    Householder reflections turn it into a bidiagonal one of independent χ variables, of N, N−1, …
    degrees of freedom on the diagonal and d−1, d−2, … beside it (Dumitriu & Edelman 2002). Its
    singular values are, with both signs, the eigenvalues of a tridiagonal matrix of twice the size
    with both in turn beside a diagonal of zeros (Golub & Kahan 1965): Θ(d²).
    """
    long = max(N, d)
    short = min(N, d)
    random = np.random.default_rng(seed)
    diagonal = np.sqrt(random.chisquare(long - np.arange(short)))
    beside = np.sqrt(random.chisquare(short - np.arange(1, short)))
    turns = np.zeros(2 * short - 1)
    turns[::2] = diagonal
    turns[1::2] = beside
    values = np.asarray(eigvalsh_tridiagonal(np.zeros(2 * short), turns))
    return values[: short - 1 : -1]
