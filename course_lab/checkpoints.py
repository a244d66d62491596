"""Checkpoints of runs: loading one, and beginning a run with the weights of another."""

from pathlib import Path

from torch import nn

from course_lab import results
from course_lab.experiment import Experiment
from course_lab.planned import command, earlier
from course_lib.data import (
    Corpus,
)
from course_lib.data.download import file_digest
from course_lib.errors import CourseError
from course_lib.training.checkpoint import difference, restore
from course_lib.training.checkpoint import load_checkpoint as read_checkpoint


def load_checkpoint(path: Path) -> tuple[nn.Module, Corpus, Experiment]:
    """(model, corpus, experiment) of a run folder or of one of its checkpoints.

    Given a folder, its best epoch. CourseError for anything but a checkpoint of this course, or
    where the corpus at hand is not the one the model was trained on.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "best.safetensors"
        if (path.parent / "result.json").exists():
            results.check_weights(path, results.read_result(path.parent))
    tensors, head = read_checkpoint(path)
    identity = head.get("identity", {})
    if "experiment" not in identity:
        raise CourseError(f"{path} does not say which experiment it belongs to")
    experiment = Experiment.from_dict(identity["experiment"])
    corpus = experiment.load_corpus()
    known = identity.get("corpus") or {}
    if changed := [k for k in {**known, **corpus.sha256} if known.get(k) != corpus.sha256.get(k)]:
        raise CourseError(
            f"{path} was trained on another version of {corpus.name}: {' and '.join(changed)} has "
            "another checksum; restore that text, or train again"
        )
    model = experiment.build(len(corpus))
    restore(model, tensors, str(path))
    return model.eval(), corpus, experiment


def with_starts(experiment: Experiment, folder: Path | None = None) -> list[Experiment]:
    """It and, first, what must be trained before it because it begins with the weights.

    Nothing before a run that is done: it needs that no more, and its own start may be gone.
    """

    def done(run: Experiment, folder: Path | None = None) -> bool:
        return ((folder or results.run_folder(run)) / "result.json").exists()

    first = earlier(experiment)
    if first is None or done(first) or done(experiment, folder):
        return [experiment]
    return [*with_starts(first), experiment]


def start_of(experiment: Experiment) -> Path | None:
    """The checkpoint that it begins with, whether it is there or not."""
    first = earlier(experiment)
    return first and results.run_folder(first) / f"{experiment.start_weights}.safetensors"


def start_from(model: nn.Module, experiment: Experiment, corpus) -> str:
    """Begin with the last or best weights of an earlier recipe at the same profile and seed;
    returns their file's digest."""
    first, path = earlier(experiment), start_of(experiment)
    folder = path.parent
    if not (folder / "result.json").exists():
        begun = (folder / "last.safetensors").exists()
        raise CourseError(
            f"{experiment.name} starts from the weights of {first.name}, which "
            f"{'has not finished' if begun else 'is not trained'}; train it with --starts, or "
            f"first run: {command(first)}"
        )
    tensors, head = read_checkpoint(path)
    identity = head.get("identity", {})
    found = {"experiment": Experiment.from_dict(identity.get("experiment", {})).identity()}
    expected = {"experiment": first.identity()}
    if first.corpus == experiment.corpus:
        found["corpus"], expected["corpus"] = identity.get("corpus"), corpus.sha256
    said = results.result_of(folder, first)["provenance"].get("weights", {})
    digest = file_digest(path)
    if found == expected and said:
        found["weights"], expected["weights"] = digest, said.get(experiment.start_weights)
    if where := difference(found, expected):
        raise CourseError(
            f"{path} does not hold what {first.name} ended with ({where}); "
            f"remove {folder} and train that again"
        )
    restore(model, tensors, str(path))
    return digest
