"""The methods of a family: those that its recipes declare, and those that compute otherwise."""

from collections.abc import Iterable

from course_lab import evidence
from course_lab.evidence import Run
from course_lab.recipes import recipes


def declared(family: str, baseline: str = "tied") -> set[str]:
    """Return the methods of a family's recipes but for the baseline, with runs or without.

    family: of `evidence.family_of`. As many comparisons Holm's correction counts in each group.
    """
    members = [name for name in recipes if evidence.family_of(name) == family]
    return {evidence.parts_of(name)[1] for name in members} - {baseline}


def other_precisions(runs: Iterable[Run], baseline: str = "tied") -> dict[str, str]:
    """Return the methods that compute in another precision than the baseline, each with its mark.

    A mark is the method's name for readers, `plif (fp32)`. What such a method has more or less than
    the baseline may come from the precision. There are none where the baseline has no run.
    """
    found: dict[str, set[str]] = {}
    for run in runs:
        precision = run.experiment["optimisation"]["precision"]
        found.setdefault(run.method, set()).add(precision)
    plain = found.get(baseline, set())
    others = {method: sorted(of_method - plain) for method, of_method in found.items() if plain}
    return {method: f"{method} ({', '.join(told)})" for method, told in others.items() if told}
