"""A rule of the lesson contract: a sentence that compares methods names its evidence.

A sentence of a lesson compares methods when it has a figure of quality (`QUALITY`) and a word that
ranks or says how the figure changes (`RANKING`); when it says that something changes the cone or
the rank (`SHAPE`, `TURNING`); and when it says that something is quicker (`SPEED`). Its evidence is
one of `EVIDENCE`: a number that is computed, a link, a recipe or plan, seeds, a paper, or a cell
that it points at. In the part `What we saw` only the first four of `EVIDENCE` count, because what
stands there is read without the rest.

Questions and suppositions state nothing. Code, formulas and tables of numbers are not looked at,
nor are the parts of a lesson that ask, name or list (`ASKING`).
"""

import ast
import re

from course_lab.notebook_source import plain

QUALITY = r"perplexit\w+|BLEU|(?:test|validation) loss\w*|predictions?|predicts?"
RANKING = r"better|worse|lowers?|lowered|lower|higher|raises?|raised|beats?|behind|ahead"
RANKING += r"|outperforms?|gains?|gained|wins? over|loses? to|lost to|improves?|differs?|as good as"
RANKING += r"|falls?|fell|rises?|rose|pays?"
SHAPE = r"cones?|mean cosines?|ranks?|isotropy"
TURNING = r"lowers|lowered|raises|raised|opens|deepens|widens|removes|takes? away|rounder|flatter"
SPEED = r"(?:is|are|was|were|runs?) (?:\w+ )?(?:faster|slower|quicker) than"
SPEED += r"|times as (?:fast|quick|slow)"
SUPPOSED = r"[\W_]*(?:If|Whether|Suppose)\b"  # how a sentence begins that states nothing
SHOWN = r"tables?|figures?|sweeps?|cells?|numbers|panels?|runs|curves?|lines?|rows?"
EVIDENCE = (
    r"\{[^}]+\}",  # a number that is computed
    r"\]\([^)]+\)",  # a link to a notebook or paper
    r"`[\w.+*-]+[/-][\w./+*-]+`",  # a recipe or plan
    r"\bseeds?\b",
    r"\b(?:Tables?|Figures?|Sections?|Remarks?|theorems?|Algorithms?) \w?\d",
    r"\b[a-z]+\d{4}\b|\bet al\.|\bpapers?\b|\bpublished\b|\bprint(?:ed)?\b|\bauthors\b",
    rf"\b(?:{SHOWN}|it|see|two) (?:just )?(?:above|below)\b|\bhere (?:is|are)\b",
    r"\bon the (?:left|right)\b|\b(?:left|right|first|second|last) (?:panel|row|column)\b",
    r"\b(?:in|by|of|from|on) (?:the|this|that|our|each|both|these) "
    r"(?:[\w']+ ){0,3}(?:tables?|figures?|panels?|bars?)\b",
    r"^The (?:table|figure)\b",
    r"\bsweeps?\b|\bkept runs\b",
)
SAW = "What we saw"
ASKING = ("What you will learn", "Before you start", "Predict", "Symbols", "Exercises")
ASKING += (
    "References",
    "What would change the answer",
)


def unnamed_evidence(cells) -> list[str]:
    """Return the sentences of a lesson that compare methods and name no evidence."""
    problems = []
    part = ""
    for number, cell in enumerate(cells, 1):
        if cell.cell_type == "markdown":
            for heading in re.findall(r"(?m)^## +(.+?)\s*$", cell.source):
                part = heading
            texts = [cell.source]
        else:
            texts = displayed(cell.source) if part == SAW else []
        if part in ASKING:
            continue
        named = re.compile("|".join(EVIDENCE[:4] if part == SAW else EVIDENCE), re.I)
        for sentence in (s for text in texts for s in sentences(text)):
            if compares(sentence) and not named.search(sentence):
                problems.append(
                    f"cell {number}: a comparison of methods names no evidence (a number that is "
                    f"computed, a link, a recipe or plan, seeds, a paper or a table): {sentence}"
                )
    return problems


def compares(sentence: str) -> bool:
    """Return whether a sentence ranks methods by quality or speed, or by what they do to words."""
    if sentence.rstrip("*_)”").endswith("?") or re.match(SUPPOSED, sentence):
        return False
    kinds = (QUALITY, RANKING), (SHAPE, TURNING), (SPEED,)
    return any(all(re.search(rf"\b(?:{words})\b", sentence) for words in kind) for kind in kinds)


def sentences(text: str) -> list[str]:
    """Return the sentences of Markdown, without code, formulas, tables and headings."""
    text = re.sub(r"(?ms)^```.*?^```|\$\$.*?\$\$|<details>.*?</details>", "", text)
    text = re.sub(r"\$[^$]*\$", "x", text)
    text = re.sub(r"(?m)^(?:\||#|\*\*Question).*$", "", text)
    blocks = re.split(r"\n\s*\n|(?m:^\s*(?:[-*]|\d+\.)\s+)", text)
    whole = (" ".join(block.split()) for block in blocks)
    ends = r"(?<=[.!?])[*_)”]*\s+(?=[\W_]*[A-Z{])"
    return [s for block in whole for s in re.split(ends, block) if s]


def displayed(source: str) -> list[str]:
    """Return the texts of a cell: its strings, in which `{…}` stands for what is computed."""
    try:
        tree = ast.parse(plain(source))
    except SyntaxError:  # told by another rule
        return []
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inside = {part for node in formatted for part in ast.walk(node) if part is not node}
    texts = []
    for node in ast.walk(tree):
        if node in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [v.value if isinstance(v, ast.Constant) else "{…}" for v in node.values]
            texts.append("".join(parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return texts
