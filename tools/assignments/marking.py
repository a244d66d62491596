"""Marking: every step of every hand-in once, in parallel; results are appended as they come.

A result is one line of JSON. What has not changed since its result is not marked again, so that a
run that was killed goes on where it was, and a resubmission costs what it changed.
"""

import csv
import hashlib
import importlib
import json
import time
import traceback
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from course_lib.errors import CourseError, unknown
from tools.assignments import handin, laws, sandbox, variant
from tools.assignments.laws import runs
from tools.assignments.laws.common import Failed, Step, Trial, Verdict, judge, judge_law, pasted

FILED = ("experiment", "project")  # kinds of steps that are marked by files
OTHER = "the registration is another one than that of your first hand-in: tell your teacher why"
ASK = "the grader ended in an error at this step; ask: it is not your fault until shown otherwise"
# A result that is a teacher's alone has these fields.
UNMARKED = dict.fromkeys(("mistake", "fingerprint", "grader", "level", "version", "time"), "")
UNMARKED |= {"seconds": 0.0, "trial": 1, "hints": 0}


def assignments() -> list[str]:
    """Return the names of the assignments that have laws."""
    folder = Path(laws.__file__).parent
    return sorted(p.stem.upper() for p in folder.glob("a[0-9].py"))


def module(name: str, part: str = ""):
    """Return an assignment's module of laws, or of a part; raise CourseError for an unknown one."""
    if name not in assignments():
        raise unknown("assignment", name, assignments())
    return importlib.import_module(f"tools.assignments.laws.{name.lower()}{part}")


def catalogue(name: str, step: str) -> tuple:
    """Return the known mistakes of a step."""
    return module(name, "_mistakes").CATALOGUE.get(step, ())


def candidates(name: str, step: Step) -> tuple:
    """Return the right and the wrong functions for a law step, nothing for another step."""
    if step.kind != "law":
        return ()
    return module(name).RIGHT[step.name], module(name, "_mistakes").WRONG[step.name]


def version(name: str) -> str:
    """Return a digest of all that decides a verdict: the laws, the catalogue, the worker."""
    folder = Path(laws.__file__).parent
    paths = [*sorted(folder.glob(f"{name.lower()}*.py")), folder / "common.py"]
    paths += [folder / "claims.py", folder / "runs.py"]
    paths += [folder.parent / "worker.py", folder.parent / "sandbox.py"]
    return hashlib.sha256(b"".join(p.read_bytes() for p in paths)).hexdigest()[:12]


def mark_step(
    name: str,
    step: Step,
    submission: handin.Submission,
    level: str,
    seed: int,
    large: bool = True,
    experiment: bool = True,
    letters: str = "",
) -> dict:
    """Return the result of one step of one submission: points, sentence, instance, seconds.

    name: of the assignment; level: of the sandbox; seed: of the instances; large: also at the size
    where a naive answer ends; experiment: train a run again; letters: the roster's variant.
    """
    begin = time.perf_counter()
    code = submission.answer(step)
    verdict, status = Verdict(0.0), ""
    result = {"fingerprint": "", "grader": ""}
    # the verdict, by the kind of the step
    try:
        if submission.problem:
            verdict, status = Verdict(0.0, submission.problem), "unreadable"
        elif step.kind == "manual" and not handin.blank(code):
            verdict, status = Verdict(0.0, "a teacher reads this step"), "manual"
        elif step.kind in FILED:
            if experiment or step.laws:  # which train nothing
                rng = np.random.default_rng(seed)
                parameters = variant.parameters(name, letters)
                mark, needed = module(name, "_claims").mark, (submission.files,)
                if step.kind == "project":
                    needed = (step, submission, level)
                verdict = mark(*needed, parameters, rng)
                status = "blank" if verdict.mistake == "missing" else ""
            else:
                verdict, status = Verdict(0.0, "not marked in this run"), "waiting"
        elif handin.blank(code, step.function):
            verdict, status = Verdict(0.0, "nothing was handed in for this step"), "blank"
        elif step.kind == "law":
            tried = candidates(name, step)
            limits = step.limits._replace(calls=sum(map(len, tried)))
            with sandbox.Answer(code, step.function, limits, level) as answer:
                verdict = judge_law(step, answer.law, seed, *tried)
        else:
            rng = np.random.default_rng(seed)
            with sandbox.of_step(step, code, level) as answer:
                verdict = judge(step, answer, rng, catalogue(name, step.name), large)
                if verdict.share < 1:
                    result["fingerprint"] = fingerprint(step, answer)
    except Failed as failure:
        verdict = Verdict(0.0, failure.sentence, mistake=failure.kind)
    except Exception:  # whatever it is, the student does not pay for it
        verdict, status = Verdict(0.0, ASK), "ask"
        result["grader"] = traceback.format_exc(limit=-3)
    # the result
    return result | {
        "step": step.name,
        "points": round(step.points * verdict.share, 1),
        "of": step.points,
        "status": status or ("right" if verdict.share == 1 else "wrong"),
        "sentence": verdict.sentence,
        "paste": pasted(step, verdict.arguments),
        "mistake": verdict.mistake,
        "seconds": round(time.perf_counter() - begin, 2),
        "level": level,
        "seed": seed,
    }


def fingerprint(step: Step, answer: sandbox.Answer) -> str:
    """Return a digest of the values of a wrong answer on an instance that is the same for all."""
    trial = Trial(answer)
    try:
        step.laws[0](trial, np.random.default_rng(zlib.crc32(step.name.encode())))
        value = trial.calls[0].value
        values = value if isinstance(value, tuple) else (value,)
        rounded = [f"{x:.5g}" for v in values for x in np.ravel(np.asarray(v, float))[:50]]
    except Exception:  # no value, no fingerprint
        return ""
    return hashlib.sha256(" ".join(rounded).encode()).hexdigest()[:12]


def digest(step: Step, submission: handin.Submission, name: str, letters: str) -> str:
    """Return a digest of all that a step's result depends on: first the work, then the marker."""
    work = [submission.problem, submission.answer(step)]
    if step.kind in FILED:  # figures, and files of steps that a teacher reads, decide nothing here
        read = {s.name for s in module(name).STEPS if s.kind == "manual"}
        for file, content in sorted(submission.files.items()):
            if not file.endswith(".png") and Path(file).stem not in read:
                work.append(f"{file} {hashlib.sha256(content).hexdigest()}")
    if step.kind == "project":
        work += [submission.answer(s) for s in module(name).STEPS if s.function]
        work.append(submission.cells.get(step.name, ""))  # which may hold a VERDICT
    both = work, [version(name), letters, submission.variant]
    texts = (handin.legible("\0".join(part)).encode() for part in both)
    return "-".join(hashlib.sha256(text).hexdigest()[:16] for text in texts)


def work_of(digest: str) -> str:
    """Return the part of a digest that is the student's work, "" for no digest.

    It begins with letters, since a spreadsheet would take some of the digests for numbers.
    """
    return digest and f"work-{digest.partition('-')[0]}"


# --- results -------------------------------------------------------------------------------------


def whole_lines(path: Path) -> bytes:
    """Return the lines of a file; one that was cut off is none."""
    content = path.read_bytes() if path.is_file() else b""
    return content[: content.rfind(b"\n") + 1]


def read_results(path: Path) -> list[dict]:
    """Return all results of a file, one a line."""
    results = []
    for number, line in enumerate(whole_lines(path).split(b"\n")[:-1], 1):
        try:
            results.append(json.loads(line))
        except ValueError:
            raise CourseError(f"{path}, line {number}, is damaged; remove the line") from None
    return results


def latest(results: list[dict]) -> dict[tuple[str, str], dict]:
    """Return the result that counts, by (student, step): the last one."""
    return {(r["student"], r["step"]): r for r in results}


def mark(
    name: str,
    folder: Path,
    students: list[handin.Student],
    results: Path,
    *,
    level: str,
    workers: int = 2,
    large: bool = True,
    experiment: bool = True,
) -> Iterator[dict]:
    """Mark what has changed in a folder of collected work; append and yield each result.

    name: of the assignment; folder: one notebook, zip or folder a student; students: the roster;
    results: the file that is appended to; level: of the sandbox; workers: processes.
    """
    from joblib import Parallel, delayed

    every = read_results(results)
    known = latest(every)
    promised: dict[tuple[str, str], str] = {}
    for result in every:
        if "promise" in result:
            promised.setdefault((result["student"], result["step"]), result["promise"])
    again = ("ask", "waiting") if experiment else ("ask",)
    results.parent.mkdir(parents=True, exist_ok=True)

    def jobs():
        """Yield the marking of each (student, step) that has no result of its own yet."""
        for student, submission in handin.works(folder, students):
            for step in module(name).STEPS:
                own = digest(step, submission, name, student.variant)
                before = known.get((student.student, step.name), {})
                if before.get("digest") == own and before.get("status") not in again:
                    continue
                # A law that was mended marks the same work again, which is no new trial.
                new = work_of(before.get("digest", "")) != work_of(own)
                trial, needed = before.get("trial", 0) + new, trimmed(submission, step)
                options = level, large, experiment
                yield delayed(marked)(name, step.name, needed, student, own, trial, *options)

    pool = Parallel(workers, return_as="generator_unordered", pre_dispatch="2 * n_jobs")
    with results.open("ab") as file:
        file.truncate(len(whole_lines(results)))
        for result in pool(jobs()):
            if "promise" in result:
                first = promised.setdefault((result["student"], result["step"]), result["promise"])
                if result["promise"] != first:
                    parts = filter(None, (result["sentence"], OTHER))
                    result |= {"changed": True, "sentence": "; ".join(parts)}
            line = handin.legible(json.dumps(result, ensure_ascii=False))
            file.write(f"{line}\n".encode())
            file.flush()
            yield result


def trimmed(submission: handin.Submission, step: Step) -> handin.Submission:
    """Return what a step needs of a submission: files travel with what is marked by them only."""
    if step.kind == "project":
        return submission
    files = submission.files if step.kind in FILED else {}
    cells = {step.name: submission.answer(step)}
    return replace(submission, cells=cells, defined={}, loose={}, files=files)


def marked(name, step_name, submission, student, own, trial, level, large, experiment) -> dict:
    """Return one result with its student; this is what a worker process does."""
    if experiment and any(s.kind in FILED for s in module(name).STEPS):
        # joblib ends a worker that has grown by 300 MB since its first result. PyTorch and the
        # corpus come before it, or each experiment would load them again.
        import torch  # noqa: F401

        runs.corpus()
    step = next(s for s in module(name).STEPS if s.name == step_name)
    seed = int.from_bytes(np.random.default_rng().bytes(6), "big")  # drawn at this moment
    result = mark_step(name, step, submission, level, seed, large, experiment, student.variant)
    if submission.variant and submission.variant != student.variant:
        result["foreign"] = submission.variant
    result["hints"] = submission.hints.get(step_name, 0)
    if step.kind == "project":
        file = module(name, "_claims").PROMISES.get(step_name)
        if file in submission.files:
            result["promise"] = hashlib.sha256(submission.files[file]).hexdigest()[:16]
    when = time.strftime("%Y-%m-%d %H:%M:%S")
    origin = {"student": student.student, "trial": trial, "time": when}
    return origin | result | {"digest": own, "version": version(name)}


BY_HAND = ("student", "step", "points", "comment", "work")  # the last: which work was read


def hand_table(path: Path) -> list[dict[str, str]]:
    """Return the lines of a table of marks by hand; raise CourseError for other columns."""
    lines = handin.table(path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        columns = next(csv.reader(file), BY_HAND)
    lacking = [column for column in BY_HAND[:3] if column not in columns]
    if lacking:
        raise CourseError(
            f"{path}, line 1, has no column {lacking[0]}: its columns are "
            f"{', '.join(BY_HAND[:4])}, with commas between them; save it as CSV with commas"
        )
    return lines


def add_by_hand(path: Path, lines: list[dict[str, str]]) -> int:
    """Add those lines whose student, step and work a table of marks by hand lacks; return how many.

    A line without its work, which a teacher wrote, stands for every work.
    """
    there = {}
    for line in hand_table(path) if path.exists() else ():
        there.setdefault((line["student"], line["step"]), set()).add(line.get("work") or "")
    new = [
        line
        for line in lines
        if not {"", line["work"]} & there.get((line["student"], line["step"]), set())
    ]
    before = path.read_text("utf-8-sig") if path.exists() else ""
    if not before.strip():
        handin.write_table(path, [BY_HAND, *([line.get(c, "") for c in BY_HAND] for line in new)])
        return len(new)
    columns = next(csv.reader(before.splitlines()))
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write("" if before.endswith("\n") else "\r\n")
        csv.writer(file).writerows([line.get(c, "") for c in columns] for line in new)
    return len(new)


def by_hand(path: Path, results: dict, name: str, students: Iterable = ()) -> dict:
    """Return the results with the marks that a teacher gave, a CSV student, step, points, comment.

    A mark by hand, of a manual step or after an appeal, takes the place of the grader's. It may
    stand for those who have a result, and for all `students` of the roster. A line that names the
    work which was read counts for that work alone: a later text is to be read, too.
    """
    if not path.is_file():
        return results
    steps = {step.name: step for step in module(name).STEPS}
    pseudonyms = {student for student, _ in results} | {s.student for s in students}
    merged = dict(results)
    for number, line in enumerate(hand_table(path), 2):
        if not (line.get("points") or "").strip():
            continue  # not read yet
        student = (line["student"] or "").strip()
        if student not in pseudonyms:
            told = unknown("pseudonym", student, pseudonyms)
            raise CourseError(f"{path}, line {number}: write it as the roster has it: {told}")
        try:
            step = steps[line["step"]]
            points = float(line["points"])
            if not 0 <= points <= step.points:
                raise ValueError(points)
        except (KeyError, TypeError, ValueError) as error:
            raise CourseError(f"{path}, line {number}: no such step or points: {error}") from None
        before = merged.get((student, step.name), UNMARKED)
        read, now = line.get("work") or "", work_of(before.get("digest", ""))
        if read and now and read != now:
            continue  # another text was handed in since
        less = "read" if step.kind == "manual" else "wrong"
        merged[student, step.name] = before | {
            "student": student,
            "step": step.name,
            "of": step.points,
            "points": points,
            "status": "right" if points == step.points else less,
            "sentence": line.get("comment") or "",
            "paste": "",
        }
    return merged


def check(path: Path, name: str) -> list[tuple[Step, Verdict]]:
    """Try the function and law steps of a student's own notebook, by the laws and the catalogue.

    This runs the student's code in this process: it is for one's own notebook.
    """
    from tools.assignments.laws import home

    submission = handin.read(path)
    if submission.problem:
        raise CourseError(submission.problem)
    verdicts = []
    for step in module(name).STEPS:
        if step.laws or step.kind == "law":
            code, known = submission.answer(step), catalogue(name, step.name)
            verdict = Verdict(0.0, "nothing yet")
            if not handin.blank(code, step.function):
                try:
                    verdict = home.judged(step, code, candidates(name, step), known)
                except NotImplementedError as error:  # which `check` in a notebook takes for blank
                    verdict = Verdict(0.0, f"it raises NotImplementedError: {error}")
            verdicts.append((step, verdict))
    return verdicts
