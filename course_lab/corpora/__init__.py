"""Corpora by name or folder: downloaded, embedded, synthetic, or the reader's own files.

corpus = corpora.load("docstrings")
pairs = corpora.load("multi30k", direction="de-en")
"""

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from course_lab.corpora.cldr import load_cldr
from course_lab.corpora.docstrings import load_docstrings
from course_lab.corpora.files import load_download, load_file, load_folder, load_wikitext103
from course_lab.corpora.translation import load_iwslt14, load_multi30k, load_pairs, load_wmt14
from course_lab.corpora.zipf import load_zipf
from course_lib.data import Corpus, SentencePairs
from course_lib.errors import CourseError, unknown

__all__ = ["LOADERS", "load", "load_pairs", "loader_of", "names"]

LOADERS = {
    "docstrings": load_docstrings,
    "zipf": load_zipf,
    "ptb": partial(load_download, "ptb"),
    "wikitext-2": partial(load_download, "wikitext-2"),
    "wikitext-103": load_wikitext103,
    "cldr": load_cldr,
    "multi30k": load_multi30k,
    "iwslt14": load_iwslt14,
    "wmt14": load_wmt14,
}


def names() -> list[str]:
    """Every corpus that loads by name."""
    return list(LOADERS)


def load(name: str | Path, **options) -> Corpus | SentencePairs:
    """A corpus by name, or the reader's own by path.

    load("docstrings", words=10_000)             the embedded default
    load("zipf", N=1000, d=16, components=1)     synthetic, `corpus.truth` is known
    load("ptb"), load("wikitext-103")            downloaded at the first use
    load("cldr"), load("multi30k")               sentence pairs, embedded and downloaded
    load("my-folder", words=10_000)              train.txt, valid.txt, test.txt
    load("my-folder", direction="fr-en")         train.fr, train.en …: sentence pairs
    load("my.txt", split=(0.8, 0.1, 0.1))        one text file, split by lines
    load("my.txt", pieces=8_000)                 the same in pieces of words

    `CourseError` with near matches for an unknown name or option.
    """
    loader = loader_of(name, options)
    known = inspect.signature(loader).parameters
    for option in options:
        if option not in known:
            raise unknown(f"option of corpus {name}", option, known)
    return loader(**options)


def loader_of(name: str | Path, options: Iterable[str]) -> Callable[..., Corpus | SentencePairs]:
    """Return the function that loads a corpus with options of these names."""
    path = Path(name).expanduser()
    if str(name) in LOADERS:
        return LOADERS[str(name)]
    if path.is_dir():
        return partial(load_pairs if "direction" in options else load_folder, path)
    if path.is_file():
        return partial(load_file, path)
    if path.suffix or len(path.parts) > 1:
        raise CourseError(f"{path} does not exist; give a folder, a text file or a corpus name")
    raise unknown("corpus", str(name), names())
