"""How often the words of a corpus come, kept as numbers without the words."""

import numpy as np
import pandas as pd

from course_lab.package_data import package_data
from course_lib.errors import unknown


def kept_counts(corpus: str) -> np.ndarray:
    """Return how often each word of a corpus comes in its training text (N,), rare words last.

    data/frequencies.csv has, for each number of occurrences, how many words come so often.

    CourseError for a corpus of which the file has no row.
    """
    rows = pd.read_csv(package_data() / "data" / "frequencies.csv")
    if corpus not in set(rows.corpus):
        raise unknown("corpus with kept counts", corpus, sorted(set(rows.corpus)))
    own = rows[rows.corpus == corpus]
    return np.repeat(own.occurrences.to_numpy(), own.words.to_numpy())


def rows_of(corpus: str, counts: np.ndarray) -> pd.DataFrame:
    """Return the rows of data/frequencies.csv of a corpus from how often each word comes (N,).

    `python -m tools frequencies` writes the file.
    """
    occurrences, words = np.unique(counts, return_counts=True)
    table = pd.DataFrame({"occurrences": occurrences[::-1], "words": words[::-1]})
    table.insert(0, "corpus", corpus)
    return table
