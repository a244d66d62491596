"""From docstrings to tokenised sentences: what is prose, its markup taken away.

The rules are part of the embedded corpus: a change here changes its checksum.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

TABLES = {
    *("parameters", "other parameters", "attributes", "methods", "returns", "return", "yields"),
    *("receives", "raises", "warns", "see also", "examples", "example", "references", "usage"),
}


def sentences(texts: Iterable[str]) -> Iterator[str]:
    """Tokenised sentences of the prose in docstrings, tokens separated by blanks."""
    for text in texts:
        for paragraph in paragraphs(text):
            for sentence in SENTENCE_END.split(plain(paragraph)):
                tokens = tokenise(sentence)
                letters = sum(token.isalpha() for token in tokens)
                if 4 <= len(tokens) <= 100 and letters >= 0.6 * len(tokens):
                    yield " ".join(tokens)


UNDERLINE = re.compile(r"[-=~^*\"]{3,}\s*$")
BULLET = re.compile(r"(?:[-*+•]|#\.|\(?\d{1,2}[.)])\s+")
NOT_PROSE = re.compile(r"\.\. |>>>|\.\.\.|\||\+[-=]|:[\w ]+:(?!`)|@|[-=~^*#]{3,}|[$%]")


def paragraphs(text: str) -> Iterator[str]:
    """The prose paragraphs and list items of a docstring, each on one line.

    Left out: sections that are tables (`Parameters` and the like), examples, directives, whatever
    is indented (code, definitions), and terms that an indented block defines.
    """
    rows, table, current, item = [*text.split("\n"), ""], False, [], False
    for row, following in zip(rows, [*rows[1:], ""], strict=True):
        heading = bool(row[:1].strip()) and UNDERLINE.match(following)
        bullet = BULLET.match(row)
        if current and (not row.strip() or heading or bullet):
            if not NOT_PROSE.match(current[0]):
                yield " ".join(current)
            current = []
        if heading:
            table = row.strip().rstrip(":").lower() in TABLES
        elif table or not row.strip() or UNDERLINE.match(row):
            continue
        elif bullet:
            current, item = [row[bullet.end() :].strip()], True
        elif row[0] != " ":
            item = item and bool(current)
            current.append(row.strip())
        elif current and item:
            current.append(row.strip())
        else:
            current = []


PLAIN_MARKS = str.maketrans("‘’“”–", "''\"\"-")
SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!al\.)\s+(?=[A-Z\"'(<])")
MARKUP = [
    (re.compile(r":math:`[^`]*`|\$[^$]+\$"), " <math> "),
    (re.compile(r"`[^`<]*<\s*https?:[^`>]*>`__?"), " <url> "),
    (re.compile(r"(?:https?|ftp)://\S+[\w/]"), " <url> "),
    (re.compile(r"(?::[\w:+-]+:)?`([^`<]+?)\s*<[^`>]*>`(?:__?)?"), r"`\1`"),  # text <target>
    (re.compile(r":[\w:+-]+:`"), "`"),
    (re.compile(r"\|([\w. -]+)\|"), r"\1"),
    (re.compile(r"\[[\w-]+\]_"), " "),
    (re.compile(r"(?<!\w)\*{1,2}(?=\w)|(?<=\w)\*{1,2}(?!\w)"), ""),
]
QUOTED = re.compile(r"(`{1,2})(.+?)\1_?(?!`)")
PHRASE = re.compile(r"~?[!.]?[A-Za-z][\w.]*(?:[ -][A-Za-z][\w.]*)*(?:\(\))?", re.ASCII)


def plain(text: str) -> str:
    """Prose without the markup of reStructuredText."""
    text = text.translate(PLAIN_MARKS).replace("::", ":")
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    for pattern, replacement in MARKUP:
        text = pattern.sub(replacement, text)
    return QUOTED.sub(lambda match: quoted(match[2]), text)


def quoted(text: str) -> str:
    """Return the text of a pair of backticks: a name or words stay, anything else is `<code>`."""
    if not PHRASE.fullmatch(text):
        return "<code>"
    short = text.rpartition(".")[2] if text.startswith("~") else text
    return short.lstrip("~!.").removesuffix("()")


TOKEN = re.compile(
    r"<(?:math|code|url)>"
    r"|(?:e\.g\.|i\.e\.|etc\.)"
    r"|\d+(?:[.,]\d+)*(?:e[+-]?\d+)?(?:-?[a-z]+)*"  # numbers, 2-d, 3rd
    r"|[a-z_]\w*(?:[.'/-]\w+)*"
    r"|[.,;:!?()\"]",
    re.ASCII,
)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")


def tokenise(sentence: str) -> list[str]:
    """Lower-case tokens; numbers are `N`, and `'s` is a token of its own."""
    tokens = []
    for token in TOKEN.findall(sentence.lower()):
        if token[0].isdigit():
            token = NUMBER.sub("N", token)
        if token.endswith("'s"):
            tokens += [token[:-2], "'s"]
        else:
            tokens.append(token)
    return tokens
