"""Running text in the pieces of a byte-pair encoding, for a text that is not cut into words.

A piece takes the place of a word. `▁` in front of a piece stands for the blank before it, so the
text comes back when the pieces are joined.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import torch
from tokenizers import Tokenizer

from course_lib.data.bpe import BLANK, learned, normalise
from course_lib.data.corpus import UNK, Corpus, WordEncoding, blocks_of, digest, from_texts
from course_lib.ranges import Count


class PieceTextEncoding(WordEncoding):
    """The pieces of running text and their ids; `words[i]` is the piece with id i."""

    pieces: Tokenizer
    unit = "pieces"

    def reads(self, word: str) -> bool:
        """Return whether all pieces of a word are in the vocabulary."""
        return self.unk not in self.encode(word).tolist()

    def continued(self, text: str, ids: list[int]) -> str:
        """Return a text with the pieces of `ids` behind it, of which the first may end a word."""
        return self.decode([*self.encode(text).tolist(), *ids])

    def encode(self, text: str, where: str = "text") -> torch.Tensor:
        """Return the ids of the pieces of `text`, every line end one `<eos>`; (n,) int64."""
        return super().encode(in_pieces(self.pieces, text), where)

    def decode(self, ids: torch.Tensor | list[int]) -> str:
        """Return the text of `ids`: pieces joined, single blanks, `<eos>` ends a line."""
        rows = super().decode(ids).split("\n")
        joined = ("".join(row.split()).replace(BLANK, " ").strip() for row in rows)
        return "\n".join(joined)


@dataclass
class PieceText(PieceTextEncoding, Corpus):
    """Ids of pieces of the three splits, 1-D int64, and the encoding that made them.

    Another text may have pieces without an id, so `<unk>` has one even where it never occurs.
    """

    pieces: Tokenizer = field(kw_only=True, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if UNK not in self.words:
            self.words = [*self.words, UNK]


def in_pieces(bpe: Tokenizer, text: str) -> str:
    """Return a text whose pieces are separated by blanks; lines stay lines."""
    rows = list(blocks_of(text, 0))
    encoded = bpe.encode_batch([normalise(row) for row in rows], add_special_tokens=False)
    ends = ("\n" if row.endswith("\n") else "" for row in rows)
    return "".join(" ".join(e.tokens) + end for e, end in zip(encoded, ends, strict=True))


def from_pieces(
    name: str, texts: Mapping[str, str], pieces: Count, by_frequency: bool = False, **origin
) -> PieceText:
    """Return the corpus of three texts in pieces, which are learned from train.

    name: of the corpus.
    texts: by split.
    pieces: how many the encoding has at most. Those that occur in a split get an id, and so does
        `<unk>`, which all others become in another text.
    by_frequency: whether ids fall with the count in train, as an adaptive softmax needs.
    origin: licence, source and digests.
    """
    train = texts["train"]
    rows = map(normalise, blocks_of(train, 0))
    bpe = learned(rows, pieces, f"text {digest(train)}", len(train))
    cut = {split: in_pieces(bpe, text) for split, text in texts.items()}
    words = from_texts(name, cut, by_frequency=by_frequency, **origin)
    return PieceText(**{f.name: getattr(words, f.name) for f in fields(words)}, pieces=bpe)
