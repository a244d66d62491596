"""Signals of work that is too much alike, and the talks that tell: never verdicts."""

import hmac
import io
import itertools
import keyword
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from course_lab.notebook_source import ROOT
from tools.assignments import edition, handin, marking, sandbox, variant
from tools.assignments.laws.common import Failed, Trial, pasted

GRAM = 12  # tokens in a row
RARE = 3  # students who may share a run of tokens before it counts as common
SHARED = 0.5  # of all runs of tokens, or of the shorter work's
FEW = 10  # runs, of which nothing follows


def signals(results: dict) -> list[list[str]]:
    """Return who share a wrong value that no known mistake explains, and who another's variant."""
    groups, foreign = defaultdict(set), set()
    for (student, step), result in results.items():
        if result["fingerprint"] and not result["mistake"]:
            groups[step, result["fingerprint"]].add(student)
        if result.get("foreign", variant.NOBODY) != variant.NOBODY:
            foreign.add((student, result["foreign"]))
    shared = [
        [", ".join(sorted(group)), f"the same unexplained wrong value in step {step}"]
        for (step, _), group in sorted(groups.items())
        if len(group) > 1
    ]
    return shared + [[who, f"the notebook carries the variant {x}"] for who, x in sorted(foreign)]


def grams(code: str) -> set[tuple[str, ...]]:
    """Return the runs of tokens of a code; its names and numbers do not matter."""
    tokens = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
                tokens.append("name")
            elif token.type in (tokenize.NAME, tokenize.OP):
                tokens.append(token.string)
            elif token.type in (tokenize.NUMBER, tokenize.STRING):
                tokens.append("value")
    except (tokenize.TokenError, SyntaxError):
        pass
    return {tuple(tokens[i : i + GRAM]) for i in range(len(tokens) - GRAM + 1)}


def library() -> dict[tuple[str, ...], str]:
    """Return the runs of tokens of `course_lib` and of the laws in the zip, with the file."""
    known = {}
    laws = (ROOT / "tools/assignments/laws").glob("*.py")
    given = [path for path in sorted(laws) if not edition.SECRET.search(path.name)]
    for path in [*sorted((ROOT / "course_lib").rglob("*.py")), *given]:
        for gram in grams(path.read_text("utf-8")):
            known.setdefault(gram, str(path.relative_to(ROOT)))
    return known


def report(name: str, collected: Path, students: list, results: dict) -> list[str]:
    """Return a line for each signal: equal wrong values, foreign variants, shared code."""
    lines = [f"{who}: {what}" for who, what in signals(results)]
    known = library()
    cells = edition.notebook(name).cells
    given = set().union(*(grams(c.source) for c in cells if c.cell_type == "code"))
    written: dict[str, set] = {}
    for student, submission in handin.works(collected, students):
        written[student.student] = set()
        answers: dict[str, str] = {}  # a cell with several of them is one, of its own step
        for step in filter(lambda s: s.function, marking.module(name).STEPS):
            code = submission.answer(step)
            if code not in answers or code == submission.cells.get(step.name):
                answers[code] = step.name
        for code, step_name in answers.items():
            own = grams(code) - given
            taken = Counter(known[g] for g in own if g in known)
            if len(own) > FEW and taken.total() > SHARED * len(own):
                ((file, _),) = taken.most_common(1)
                lines.append(f"{student.student}: the answer to {step_name} is as in {file}")
            written[student.student] |= own - known.keys()

    # Runs of tokens that only a few share.
    holders = defaultdict(set)
    for student, own in written.items():
        for gram in own:
            holders[gram].add(student)
    few = [sorted(group) for group in holders.values() if len(group) <= RARE]
    common = Counter(pair for group in few for pair in itertools.combinations(group, 2))
    for (one, other), count in common.most_common():
        share = count / max(1, min(len(written[one]), len(written[other])))
        if share > SHARED and count > FEW:
            lines.append(f"{one}, {other}: {share:.0%} of the rarer one's code is in no third work")
    return lines or ["nothing is too much alike"]


def talks(
    name: str, collected: Path, students: list, secret: str, share: float, level: str
) -> list[str]:
    """Return who is drawn for a talk, and three questions from each one's own answers.

    A question changes one argument of an instance: what does your function give, and why?
    """

    def lot(student):
        return hmac.new(secret.encode(), f"talk {name} {student.id}".encode(), "sha256").hexdigest()

    functions = [s for s in marking.module(name).STEPS if s.kind == "function"]
    read = dict(handin.works(collected, students))
    written = [
        s for s in read if any(not handin.blank(read[s].answer(f), f.function) for f in functions)
    ]
    lines = []
    for student in sorted(written, key=lot)[: max(1, round(share * len(read)))]:
        lines.append(f"\n## {student.name} ({student.student})")
        submission = read[student]
        rng = np.random.default_rng(int(lot(student)[:12], 16))
        for step in rng.permutation(np.array(functions, object))[:3]:
            lines.append(question(step, submission.answer(step), rng, level))
    return lines


def question(step, code: str, rng, level: str) -> str:
    """Return a question about a step: an instance, and the values before and after a change."""
    head = f"\nStep {step.name}, `{step.function}`."
    if handin.blank(code, step.function):
        return f"{head} It was not handed in: how would you begin?"
    try:
        with sandbox.of_step(step, code, level) as answer:
            trial = Trial(answer)
            step.laws[0](trial, rng)
            given = trial.calls[0]
            arguments = list(given.arguments)
            numbers = [i for i, a in enumerate(arguments) if isinstance(a, float)]
            arrays = [i for i, a in enumerate(arguments) if isinstance(a, np.ndarray)]
            i = int(rng.choice(numbers)) if numbers else (arrays or [0])[0]
            several = isinstance(arguments[i], tuple)
            arguments[i] = tuple(2 * a for a in arguments[i]) if several else 2 * arguments[i]
            value = answer(*arguments)
    except Failed as failure:
        return f"{head} Where does this come from: {failure.sentence}?"
    with np.printoptions(precision=4, threshold=20):
        return (
            f"{head} For\n{pasted(step, given.arguments)}\nit gives\n{given.value}\n"
            f"If `{step.arguments[i]}` is doubled, what changes, and why? It then gives\n{value}"
        )
