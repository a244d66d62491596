"""Each student's own parameters: a code of six letters, and all that follows from it in public.

The code comes from the term's secret; who has the code can check everything else at home.
"""

import hashlib
import hmac
from collections import namedtuple

LETTERS = "abcdefghjkmnpqrstuvwxyz"  # without i, l, o, which are mistaken for digits
NOBODY = "aaaaaa"  # the variant in what is given out
CORPUS = 900_000  # tokens of the embedded corpus in which a slice begins

# A student's own numbers: `begin` is the first token of the text, `seeds` are those of the runs.
A1 = namedtuple("A1", "begin tau seeds")  # step 1.6: the temperature
A2 = namedtuple("A2", "begin kappa seeds")  # step 2.6: the exponent of frequency
A3 = namedtuple("A3", "begin margin seeds")  # step 3.6: the mean margin in nats
A4 = namedtuple("A4", "begin c1 gamma seeds")  # step 4.6: scale and fall of the ceiling
A5 = namedtuple("A5", "words rank language seeds")  # step 5.6: `language` is the languages' seed
A6 = namedtuple("A6", "begin sick")  # `sick` is the seed of the sick checkpoint


def code(secret: str, student: str) -> str:
    """Return the six letters of a student in a term."""
    return spelt(secret, student, 6)


def pseudonym(secret: str, student: str) -> str:
    """Return the name under which a student's results and page are kept."""
    return "s-" + spelt(secret, f"pseudonym {student}", 5)


def spelt(secret: str, text: str, count: int) -> str:
    """Return so many letters that follow from a secret and a text."""
    number = int.from_bytes(hmac.new(secret.encode(), text.encode(), "sha256").digest(), "big")
    letters = ""
    for _ in range(count):
        number, digit = divmod(number, len(LETTERS))
        letters += LETTERS[digit]
    return letters


def drawn(letters: str, name: str, below: int) -> int:
    """Return the number below `below` that a code has under a name."""
    digest = hashlib.sha256(f"{letters}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % below


def own(letters: str) -> str:
    """Return a student's letters; raise ValueError for those that are given out, or for no code."""
    code = letters.strip().lower()
    if code == NOBODY or len(code) != len(NOBODY) or not {*code} <= {*LETTERS}:
        raise ValueError(
            f"VARIANT is {letters!r}: write your own six letters, which the roster has, into the "
            "first code cell of the notebook, and run that cell"
        )
    return code


def parameters(assignment: str, letters: str) -> A1 | A2 | A3 | A4 | A5 | A6:
    """Return the parameters of an assignment that follow from a student's code."""

    def own(name, below):
        return drawn(letters, f"{assignment} {name}", below)

    def seeds(count):
        return tuple(1 + own(f"seed {k}", 10**6) for k in range(count))

    begin = own("begin", CORPUS - 20_000)
    match assignment:
        case "A1":
            return A1(begin, 4 + own("tau", 800) / 100, seeds(3))
        case "A2":
            return A2(begin, 0.25 + own("kappa", 76) / 100, seeds(3))
        case "A3":
            return A3(begin, 0.3 + own("margin", 71) / 100, seeds(5))
        case "A4":
            return A4(begin, 30 + own("c1", 201) / 10, 0.7 + own("gamma", 51) / 100, seeds(3))
        case "A5":
            return A5(40 + own("words", 21), 8 + own("rank", 4), own("language", 10**6), seeds(5))
        case "A6":
            return A6(begin, own("sick", 10**6))
    raise ValueError(f"{assignment} has no parameters of a student's own")
