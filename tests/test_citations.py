"""Every equation, section, table, figure, algorithm or theorem that a docstring or a comment
attributes to one of the five papers exists in it."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def numbers(*parts: str) -> set[str]:
    """Return numbers written as "1-29" or "3.1"."""
    found = set()
    for part in parts:
        prefix, first, last = re.fullmatch(r"((?:\w+\.)*[A-Z]?)(\w+)(?:-(\d+))?", part).groups()
        if last:
            found |= {f"{prefix}{n}" for n in range(int(first), int(last) + 1)}
        else:
            found.add(prefix + first)
    return found


# Numbers as the papers have them. parthiban2021 numbers no sections; the tables of its supplement
# have an S.
EXISTS = {
    "gao2019": {
        "equation": numbers("1-29"),
        "section": numbers("1-8", "3.1-2", "4.1-2", "6.1-3", "6.1.1-2"),
        "theorem": numbers("1-4"),
        "definition": {"1"},
        "proposition": {"1"},
        "table": numbers("1-2"),
        "figure": numbers("1-3"),
        "appendix": set("ABC"),
    },
    "inan2017": {
        "equation": numbers("1-19"),
        "section": numbers("1-7", "6.1-4"),
        "table": numbers("1-3"),
        "figure": numbers("1-2"),
        "appendix": set("AB"),
    },
    "wang2019": {
        "equation": numbers("1-7"),
        "section": numbers("1-6", "3.1-2", "5.1-2"),
        "theorem": {"3.1", "3.3", "3.4"},
        "definition": {"3.2"},
        "algorithm": {"1"},
        "table": numbers("1-5"),
        "figure": numbers("1-2"),
    },
    "wang2020": {
        "equation": numbers("3.1-2", "4.1-3", "A.1-3"),
        "section": numbers("1-6", "3.1-2", "4.1-3", "5.1-2"),
        "theorem": {"4.1"},
        "remark": {"4.2", "4.3"},
        "table": numbers("1-8"),
        "figure": numbers("1-3"),
        "appendix": set("ABCD"),
    },
    "parthiban2021": {
        "equation": numbers("1-5"),
        "table": numbers("1-6", "S1-18"),
        "figure": numbers("1-7"),
    },
}
KINDS = (
    r"equations?|eqs?\.|sections?|tables?|figures?|algorithms?|theorems?|definitions?|"
    r"propositions?|corollar(?:y|ies)|remarks?|appendix|appendices"
)
NUMBER = r"(?:S?\d\d?(?:\.\d)*[a-zA-Z]?|[A-D](?:\.\d)?)\b(?![.,]?\d)"
PAPER = "|".join(EXISTS)
TOKENS = re.compile(
    rf"(?P<paper>\b(?:{PAPER})\b(?!'s))"
    r"|(?P<other>[A-Z]\w+(?: et al\.| and [A-Z]\w+)?,? \(?(?:19|20)\d\d)"
    rf"|\b(?P<kind>{KINDS}) (?P<list>{NUMBER}(?:(?:, and |, | and | to |–){NUMBER})*)"
    rf"(?: of (?P<of>{PAPER}))?",
    re.IGNORECASE,
)
SINGULAR = {"eq.": "equation", "eqs.": "equation", "appendices": "appendix"}


def cited(text: str, paper: str | None) -> list[tuple[str, str, str]]:
    """Return (paper, kind, number) of every reference in a text.

    A reference belongs to the work named last before it in the text, to that named by "of" right
    after it, or, where none is named, to `paper`. A genitive (wang2019's model) names no source.
    """
    references = []
    for token in TOKENS.finditer(" ".join(text.split())):
        if token["paper"]:
            paper = token["paper"].lower()
        elif token["other"]:
            paper = None
        elif owner := token["of"] or paper:
            kind = token["kind"].lower()
            kind = SINGULAR.get(kind, kind.removesuffix("s"))
            items = re.split(r"(, and |, | and | to |–)", token["list"])
            for separator, item in zip([",", *items[1::2]], items[::2], strict=True):
                number = re.sub(r"(?<=\d)[a-zA-Z]$", "", item)
                if separator in (" to ", "–") and number.isdigit():
                    first = int(references[-1][2])
                    references += [(owner, kind, str(n)) for n in range(first + 1, int(number))]
                references.append((owner, kind, number))
    return references


def texts(path: Path) -> list[str]:
    """Return a file's docstrings, and its comments with neighbouring lines joined."""
    source = path.read_text("utf-8")
    nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, DOCUMENTED)]
    found = [doc for node in nodes if (doc := ast.get_docstring(node))]
    last = None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comment = token.string.lstrip("# ")
            if last == token.start[0] - 1:
                found[-1] += " " + comment
            else:
                found.append(comment)
            last = token.start[0]
    return found


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FILES = [
    path
    for folder in ("course_lib", "course_lab", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_cited_exists(path):
    own = path.stem if path.stem in EXISTS else None
    wrong = {
        f"{paper}, {kind} {number}"
        for text in texts(path)
        for paper, kind, number in cited(text, own)
        if number not in EXISTS[paper].get(kind, set())
    }
    assert not wrong


def test_references_are_read():
    text = "(wang2019, theorem 3.1, eqs. 6, 7; Wu et al. 2016, section 5) (gao2019, Tables 1 to 3)"
    assert cited(text, None) == [
        ("wang2019", "theorem", "3.1"),
        ("wang2019", "equation", "6"),
        ("wang2019", "equation", "7"),
        ("gao2019", "table", "1"),
        ("gao2019", "table", "2"),
        ("gao2019", "table", "3"),
    ]
    assert cited("theorem 1B; appendix C of gao2019", "inan2017") == [
        ("inan2017", "theorem", "1"),
        ("gao2019", "appendix", "C"),
    ]
    assert cited("equations 7–10", "wang2019")[-1] == ("wang2019", "equation", "10")
    assert cited("section 4", None) == []
    text = "wang2019's model has 35.92 in Tables S5 and S11 and 39.11 in none, 13,229 in Table S5"
    assert [number for _, _, number in cited(text, "parthiban2021")] == ["S5", "S11", "S5"]
    read = [reference for path in FILES for text in texts(path) for reference in cited(text, None)]
    assert len(read) > 40
