"""The teacher's page: marks by step, what was misunderstood, who is stuck, what failed."""

import re
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from tools.assignments import feedback, handin, marking, pages, variant
from tools.assignments import similar as alike

STUCK = 3  # hand-ins of a step that are wrong


def by_step(name: str, results: dict, totals: dict[str, float]) -> list[list]:
    """Return a row a step: its points, and how well it tells good work from bad."""
    rows = []
    for step in marking.module(name).STEPS:
        marked = [
            r
            for (_, s), r in results.items()
            if s == step.name and r["status"] not in feedback.OPEN
        ]
        points = np.array([r["points"] for r in marked])
        rest = np.array([totals[r["student"]] for r in marked]) - points
        tells = "–"
        if len(points) > 2 and points.std() > 0 and rest.std() > 0:
            tells = round(float(np.corrcoef(points, rest)[0, 1]), 2)
        seconds = float(np.median([r["seconds"] for r in marked])) if marked else 0.0
        right = sum(r["status"] == "right" for r in marked)
        rows.append(
            [
                f"{step.name} {step.title}",
                len(marked),
                right,
                round(float(points.mean()), 1) if len(points) else "–",
                step.points,
                tells,
                round(float(np.mean([r.get("hints", 0) for r in marked])), 1) if marked else "–",
                f"{step.minutes} min",
                round(seconds, 1),
            ]
        )
    return rows


def counted(results) -> Counter:
    """Return how often each sentence was told at each step, whatever its numbers are."""
    return Counter((r["step"], re.sub(r"-?\d[\d.,e+-]*", "…", r["sentence"])) for r in results)


def tables(name: str, results: dict, every: list[dict]) -> list[dict]:
    """Return the dashboard's tables: title, note, heads and rows."""
    # what the tables count
    totals: dict[str, float] = defaultdict(float)
    for (student, _), result in results.items():
        totals[student] += result["points"]
    wrong = [r for r in results.values() if r["status"] == "wrong"]
    functions = {step.name for step in marking.module(name).STEPS if step.laws}
    strange = [r for r in wrong if not r["mistake"] and r["step"] in functions]
    claims = [r for r in wrong if not r["mistake"] and r["step"] not in functions]
    told = Counter((r["step"], r["sentence"]) for r in wrong if r["mistake"]) + counted(claims)
    unknown = counted(strange)
    tried = {(r["student"], r["step"], r["trial"]) for r in every if r["status"] == "wrong"}
    failures = Counter((student, step) for student, step, _ in tried)
    stuck = [
        (*key, n) for key, n in failures.items() if n >= STUCK and results[key]["status"] == "wrong"
    ]
    failed = [
        (r["student"], r["step"], r["grader"]) for r in results.values() if r["status"] == "ask"
    ]
    foreign = {
        (r["student"], r["foreign"])
        for r in results.values()
        if r.get("foreign", variant.NOBODY) != variant.NOBODY
    }
    # the tables
    heads = ("step", "what was told", "students")
    return [
        {
            "title": "Steps",
            "note": "“Tells” is the correlation of a step's points with those of all other steps: "
            "near 0, the step does not discriminate. Hints are those opened, in the mean. Minutes "
            "are those planned, seconds those of marking.",
            "heads": ("step", "marked", "right", "mean", "of", "tells", "hints", "plan", "seconds"),
            "rows": by_step(name, results, totals),
        },
        {
            "title": "The ten commonest mistakes",
            "note": "Known mistakes, failures, laws and claims, as the students read them.",
            "heads": heads,
            "rows": [[step, text, n] for (step, text), n in told.most_common(10)],
        },
        {
            "title": "Wrong answers that no catalogue entry explains",
            "note": "Look at them: a mistake that comes again deserves a message of its own.",
            "heads": heads,
            "rows": [[step, text, n] for (step, text), n in unknown.most_common(20)],
        },
        {
            "title": "Students who are stuck",
            "note": f"A step was handed in {STUCK} times or more and is still wrong.",
            "heads": ("student", "step", "hand-ins"),
            "rows": sorted(stuck),
        },
        {
            "title": "Too much alike",
            "note": "The same wrong value on the same instance, or another's variant: a reason to "
            "talk, no verdict.",
            "heads": ("students", "what"),
            "rows": alike.pairs(results)
            + [[who, f"carries the variant {v}"] for who, v in sorted(foreign)],
        },
        {
            "title": "What failed in the grader",
            "note": "These steps have no mark yet. `mark` tries them again.",
            "heads": ("student", "step", "error"),
            "rows": sorted(failed),
        },
    ]


def write(
    name: str, results: dict, every: list[dict], students: list[handin.Student], path: Path
) -> Path:
    """Write the dashboard of an assignment from the results that count, and all there ever were."""
    laws = marking.module(name)
    theirs = sorted({student for student, _ in results} & {s.student for s in students})
    totals = [feedback.total(name, results, student) for student in theirs]
    path.parent.mkdir(parents=True, exist_ok=True)
    content = pages.page(
        "dashboard",
        title=f"{laws.TITLE}: dashboard",
        count=len(theirs),
        mean=f"{np.mean(totals):.1f}" if totals else "–",
        of=sum(step.points for step in laws.STEPS),
        tables=tables(name, results, every),
    )
    path.write_text(content, "utf-8")
    return path
