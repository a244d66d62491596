"""A model reads these: texts as numbers, their batches, and a language whose truth is known.

for input, target in data.batches(data.columns(corpus.train, 20), 35): ...
for source, tokens, target in data.token_batches(pairs.train, 4000, generator): ...
"""

from course_lib.data.batches import batches, columns, partial_shuffle
from course_lib.data.bpe import split_compounds, tokenise
from course_lib.data.buckets import buckets, collate, token_batches
from course_lib.data.corpus import EOS, SPLITS, UNK, Corpus
from course_lib.data.pairs import SentencePairs, Split
from course_lib.data.zipf import Truth, ZipfCorpus, load_zipf

__all__ = ["EOS", "SPLITS", "UNK", "Corpus", "SentencePairs", "Split", "Truth", "ZipfCorpus"]
__all__ += ["batches", "buckets", "collate", "columns", "load_zipf", "partial_shuffle"]
__all__ += ["split_compounds", "token_batches", "tokenise"]
