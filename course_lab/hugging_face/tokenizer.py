"""A vocabulary of the course as a tokenizer.json, which Hugging Face's programs read.

Its ids are the model's. A text gets `<eos>` before its first word; each of its line ends is one.
"""

import json

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from course_lab.corpora.piece_text import PieceTextEncoding
from course_lab.vocabulary import PieceVocabulary, Vocabulary
from course_lib.data.bpe import BLANK
from course_lib.data.corpus import EOS, UNK

FILE = "tokenizer.json"


def tokenizer_of(vocabulary: Vocabulary) -> Tokenizer:
    """Return the tokenizer of a vocabulary: of a translator's pieces, of pieces, or of words."""
    if isinstance(vocabulary, PieceVocabulary):
        return Tokenizer.from_str(vocabulary.encoding.to_str())
    of_pieces = isinstance(vocabulary, PieceTextEncoding)
    tokenizer = _of_pieces(vocabulary) if of_pieces else _of_words(vocabulary)
    tokenizer.post_processor = TemplateProcessing(
        single=f"{EOS} $A", special_tokens=[(EOS, vocabulary.eos)]
    )
    return tokenizer


def _of_words(vocabulary: Vocabulary) -> Tokenizer:
    """Return the tokenizer of words between blanks."""
    unk = {} if vocabulary.unk is None else {"unk_token": UNK}
    tokenizer = Tokenizer(models.WordLevel(dict(vocabulary.index), **unk))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace("\r\n", "\n"), normalizers.Replace("\n", f" {EOS} ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(EOS, special=True, normalized=False)])
    return tokenizer


def _of_pieces(vocabulary: PieceTextEncoding) -> Tokenizer:
    """Return the tokenizer of pieces, of which those that the model lacks have ids from N on.

    They are needed on the way to longer pieces. The model reads them as `<unk>`.
    """
    plain = json.loads(vocabulary.pieces.to_str())
    ids = dict(vocabulary.index)
    for piece in plain["model"]["vocab"]:
        ids.setdefault(piece, len(ids))
    plain["model"]["vocab"] = ids
    plain["added_tokens"] = []  # with the ids of the text's own encoding
    tokenizer = Tokenizer.from_str(json.dumps(plain))
    # As `normalise` has it, line by line.
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.Replace(BLANK, "_"),
            normalizers.Replace("\r\n", "\n"),
            normalizers.Replace(Regex(r"[^\S\n]+"), " "),
            normalizers.Replace(Regex(r" ?\n ?"), EOS),
            normalizers.Strip(),
        ]
    )
    tokenizer.add_special_tokens([AddedToken(EOS, special=True, normalized=True)])
    return tokenizer
