"""Step 6.7: who referees whom, a rerun of a classmate's figure, and what two referees say."""

import hmac
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from course_lib.errors import CourseError
from tools.assignments import variant
from tools.assignments.laws import a6_experiment, a6_forms
from tools.assignments.laws.a6_registration import registered
from tools.assignments.laws.common import Failed

LEAST = 4  # students: of three, each would have the own referees to referee, and nobody else
APART = 1.5  # marks of 5 on a line, on average, from which a teacher reads again
DIGITS = 1e-4  # nats by which a rerun may differ


def matched(students: list[str], secret: str) -> dict[str, tuple[str, str]]:
    """Return the two reports that each student referees, by the student's name.

    The students sit in a circle, in an order that the term's secret draws, and each one referees
    the next two: every report has two referees, and nobody referees the own referees alone.
    """

    def lot(student):
        return hmac.new(secret.encode(), f"referee {student}".encode(), "sha256").hexdigest()

    if len(students) < LEAST:
        raise CourseError(f"{len(students)} reports are too few: {LEAST} are needed")
    circle = sorted(students, key=lot)
    n = len(circle)
    return {who: (circle[(k + 1) % n], circle[(k + 2) % n]) for k, who in enumerate(circle)}


def report(works: dict, secret: str) -> Iterator[str]:
    """Yield who referees whom, and what a teacher should know of it, a line each.

    works: the hand-in of each student of the roster; secret: the term's.
    """
    letters = {student.student: student.variant for student in works}
    files = {student.student: submission.files for student, submission in works.items()}
    pairs = matched(list(letters), secret)
    for who, theirs in sorted(pairs.items()):
        yield f"{who} referees {' and '.join(theirs)}"
    yield from compared(pairs, files, letters)


def rerun(folder, letters: str, seed: int) -> dict[str, float]:
    """Return the measures of a classmate's two runs of a seed, computed again from the matrices."""
    names = ("registration.json", "6.4.safetensors", "6.4.json")
    return again({name: Path(folder, name).read_bytes() for name in names}, letters, seed)


def again(files: dict[str, bytes], letters: str, seed: int) -> dict[str, float]:
    """Return the measures of both runs of a seed by kind; raise Failed where there are none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    registration = registered(files)
    trials = a6_forms.filled(files, "6.4.json", a6_forms.Made)["trials"]
    text = a6_experiment.tokens(variant.parameters("A6", letters))
    methods, which = registration["methods"], registration["measure"]
    measures = {}
    try:
        arrays = load(files["6.4.safetensors"])
        for kind in a6_experiment.KINDS:
            own = {k: arrays[f"{kind}-{seed}/{k}"] for k in a6_experiment.ARRAYS}
            strengths = a6_experiment.best(trials[kind])[1]
            measures[kind] = a6_experiment.recomputed(own, text, methods, strengths, which)
    except (KeyError, TypeError, ValueError, IndexError, SafetensorError) as error:
        raise Failed("rerun", f"seed {seed} cannot be run again: {str(error)[:100]}") from None
    return measures


def reports(files: dict[str, bytes]) -> list[dict]:
    """Return the two reports of a referee; raise Failed where they do not hold."""
    return a6_forms.filled(files, "6.7.json", a6_forms.Reports)["reports"]


def compared(pairs: dict, files: dict, letters: dict, rerunner=again) -> list[str]:
    """Return a line for each thing that a teacher should know about the referees and their marks.

    pairs: of `matched`; files: of each student's hand-in; letters: each student's variant;
    rerunner: a function of files, letters and seed that gives the measures by kind.
    """
    lines = []
    marks: dict[str, list] = {who: [] for who in pairs}
    for referee, theirs in sorted(pairs.items()):
        try:
            own = reports(files[referee])
        except Failed as failure:
            lines.append(f"{referee}: {failure.sentence}")
            continue
        for report in own:
            reported = next((who for who in theirs if letters[who] == report["variant"]), None)
            if reported is None:
                lines.append(f"{referee}: {report['variant'][:12]!r} is no report of this referee")
                continue
            marks[reported].append((referee, np.array(report["marks"])))
            try:
                if report["seed"] not in registered(files[reported])["seeds"]:
                    raise Failed("seed", f"seed {report['seed']} was not registered")
                right = rerunner(files[reported], letters[reported], report["seed"])
            except Failed as failure:
                lines.append(f"{referee} on {reported}: {failure.sentence}")
                continue
            far = max(abs(report[kind] - right[kind]) for kind in right)
            told = "agrees" if far <= DIGITS else f"differs by {far:.4f} nats"
            lines.append(f"{referee} on {reported}: the rerun {told}")
    for reported, given in sorted(marks.items()):
        if len(given) == 2:
            (one, first), (other, second) = given
            far = np.abs(first - second).mean()
            word = ": read it again" if far > APART else ""
            sums = f"{first.sum():g} and {second.sum():g} of 30"
            lines.append(f"{reported}: {one} and {other} give {sums}{word}")
    return lines
