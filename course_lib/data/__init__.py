"""Texts as numbers, and the batches that a model reads.

for input, target in data.batches(data.columns(corpus.train, 20), 35): ...
for source, tokens, target in data.token_batches(pairs.train, 4000, generator): ...
"""

from course_lib.data.batches import batches, columns, partial_shuffle
from course_lib.data.bpe import split_compounds, tokenise
from course_lib.data.buckets import buckets, collate, token_batches
from course_lib.data.corpus import EOS, SPLITS, UNK, Corpus
from course_lib.data.pairs import SentencePairs, Split

__all__ = ["EOS", "SPLITS", "UNK", "Corpus", "SentencePairs", "Split", "batches", "buckets"]
__all__ += ["collate", "columns", "partial_shuffle", "split_compounds", "token_batches", "tokenise"]
