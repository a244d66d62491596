"""The teacher's page: marks by step, what was misunderstood, who is stuck, what failed."""

import re
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path

import numpy as np

from tools.assignments import feedback, handin, marking, pages, similar

STUCK = 3  # hand-ins of a step that are wrong


def by_step(name: str, results: dict) -> list[list]:
    """Return a row a step: its points, and how well it tells good work from bad."""
    import pandas as pd

    table = pd.DataFrame(results.values())
    totals = table.groupby("student").points.sum()
    marked = table[~table.status.isin(feedback.OPEN)]
    rows = []
    for step in marking.module(name).STEPS:
        own = marked[marked.step == step.name]
        rest = own.student.map(totals) - own.points
        tells = shown(own.points.corr(rest, min_periods=3), 2)
        points = [shown(own.points.mean(), 1), step.points, tells]
        effort = [shown(own.hints.mean(), 1), f"{step.minutes} min", shown(own.seconds.median(), 1)]
        right = int((own.status == "right").sum())
        rows.append([f"{step.name} {step.title}", len(own), right, *points, *effort])
    return rows


def shown(value: float, digits: int):
    """Return a number with so many digits, a dash where there is none."""
    return "–" if np.isnan(value) else Decimal(f"{value:.{digits}f}")


def commonest(results: list[dict], most: int) -> list[list]:
    """Return a row for each of the sentences that were told most often, whatever its numbers are.

    Numbers that are not the same for all are left out.
    """
    told = defaultdict(list)
    for result in results:
        plain = re.sub(r"-?\d([\d.,e+-]*\d)?", "…", result["sentence"])
        told[result["step"], plain].append(result["sentence"])
    rows = [
        [step, texts[0] if len({*texts}) == 1 else plain, len(texts)]
        for (step, plain), texts in told.items()
    ]
    return sorted(rows, key=lambda row: -row[-1])[:most]


def tables(name: str, results: dict, every: list[dict]) -> dict[str, list]:
    """Return the rows of each of the dashboard's tables, whose heads stand in the template."""
    wrong = {key: r for key, r in results.items() if r["status"] == "wrong"}
    functions = {step.name for step in marking.module(name).STEPS if step.laws}
    strange = [r for r in wrong.values() if not r["mistake"] and r["step"] in functions]
    told = [r for r in wrong.values() if r["mistake"] or r["step"] not in functions]
    tried = {(r["student"], r["step"], r["trial"]) for r in every if r["status"] == "wrong"}
    times = Counter((student, step) for student, step, _ in tried)
    asked = [(*key, r["grader"]) for key, r in results.items() if r["status"] == "ask"]
    damaged = [r for r in results.values() if r["status"] == "unreadable"]
    return {
        "steps": by_step(name, results),
        "told": commonest(told, 10),
        "unknown": commonest(strange, 20),
        "stuck": sorted((*key, n) for key, n in times.items() if n >= STUCK and key in wrong),
        "alike": similar.signals(results),
        "unread": sorted({(r["student"], r["sentence"]) for r in damaged}),
        "failed": sorted(asked),
    }


def write(
    name: str, results: dict, every: list[dict], students: list[handin.Student], path: Path
) -> Path:
    """Write the dashboard of an assignment from the results that count, and all there ever were."""
    laws, totals = marking.module(name), feedback.totals(results)
    points = [totals[s.student] for s in students if s.student in totals]
    path.parent.mkdir(parents=True, exist_ok=True)
    content = pages.page(
        "dashboard",
        title=f"{laws.TITLE}: dashboard",
        count=len(points),
        mean=f"{np.mean(points):.1f}" if points else "–",
        of=sum(step.points for step in laws.STEPS),
        tries=STUCK,
        **tables(name, results, every),
    )
    path.write_text(content, "utf-8")
    return path
