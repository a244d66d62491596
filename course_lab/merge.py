"""Take over the results of a plan's runs from another machine, and keep those that are done.

A result that is refused concerns no other.
"""

from pathlib import Path

from filelock import FileLock, Timeout

from course_lab import results
from course_lab.batch_states import MALFORMED, checked_result, state
from course_lab.corpora.download import file_digest
from course_lab.keep import keep_result
from course_lab.locks import RUN, TRAINING
from course_lab.plans import Plan
from course_lib.errors import CourseError
from course_lib.training.checkpoint import write_atomically

REFUSED = "refused: "


def merge(plan: Plan, folder: Path) -> dict[str, str]:
    """Take over results of the plan's runs from `folder`, the `runs` of another machine.

    Returns what became of each result that is there, by the key of its run: "copied", "the same"
    or "refused: why". A result is refused that is damaged, of another experiment, or not the one
    that is here already. Arrays that are damaged here are brought anew. The weights beside a result
    come with it, because finetuning and adaptation at test time begin with them, and take the place
    of other weights. Where none come, the weights that are here stay, and whoever would use them is
    told.
    """
    outcomes = {}
    for planned in plan.runs:
        source = Path(folder) / planned.key
        if not results.is_done(source):
            continue
        experiment = planned.experiment()
        try:
            content = checked_result(source, experiment)
            outcomes[planned.key] = _merged(content, source, results.run_folder(experiment))
        except (CourseError, Timeout) as error:
            outcomes[planned.key] = f"{REFUSED}{error}"
        except MALFORMED as error:
            outcomes[planned.key] = _unreadable(source, error)
    if not outcomes:
        first = plan.runs[0].key
        raise CourseError(f"{folder} has no result of the plan, such as {first}/result.json")
    return outcomes


def _merged(content: dict, source: Path, target: Path) -> str:
    target.mkdir(parents=True, exist_ok=True)
    with FileLock(target / RUN, timeout=1), FileLock(target / TRAINING, timeout=1):
        # What is here already
        same = results.is_done(target)
        if same and results.read_result(target)["sha256"] != content["sha256"]:
            raise CourseError(f"{target} has a different result; remove one of the two")
        if (target / "arrays.npz").exists():
            lacking = not _arrays_are_whole(target)
        else:
            lacking = (source / "arrays.npz").exists()
        arrays = results.read_arrays(source) if lacking or not same else {}

        # Which weights are to come; a result of an older version does not tell their digests
        digests = content["provenance"].get("weights", {})
        brought = []
        for name in ("last", "best"):
            new = source / f"{name}.safetensors"
            old = target / f"{name}.safetensors"
            results.check_weights(new, content)
            right = digests.get(name) == file_digest(old) if old.exists() else False
            if old.exists() and (right or (same and not digests)):
                continue
            if new.exists():
                brought.append((old, new))

        # All checks are passed: write
        for old, new in brought:
            write_atomically(old, new.read_bytes())
        if lacking or not same:
            results.write(target, content, arrays)
        (target / "failed.json").unlink(missing_ok=True)
    return "the same" if same else "copied"


def _arrays_are_whole(target: Path) -> bool:
    try:
        results.read_arrays(target)
    except CourseError:
        return False
    return True


def keep(plan: Plan) -> dict[str, str]:
    """Copy the results of all finished runs to where they are committed.

    Returns what became of each, by the key of its run: the folder, or "refused: why". Refused are
    also runs whose folder cannot be understood. CourseError where nothing is done.
    """
    outcomes = {}
    for planned in plan.runs:
        now = state(planned)
        if now.name == "blocked":
            outcomes[planned.key] = f"{REFUSED}{now.error}"
        if now.name != "done":
            continue
        try:
            outcomes[planned.key] = str(keep_result(now.folder))
        except CourseError as error:
            outcomes[planned.key] = f"{REFUSED}{error}"
        except MALFORMED as error:
            outcomes[planned.key] = _unreadable(now.folder, error)
    if not outcomes:
        raise CourseError(f"no run of {plan.path} is done; `batch run` does them")
    return outcomes


def _unreadable(folder: Path, error: Exception) -> str:
    return f"{REFUSED}{folder} is not readable ({type(error).__name__}: {error})"
