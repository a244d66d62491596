"""Checkpoints of runs: loading one, and beginning a run with the weights of another."""

from pathlib import Path
from typing import Any

from torch import nn

from course_lab import results
from course_lab.corpora.download import file_digest
from course_lab.experiment import ROLES, Experiment
from course_lab.parts import KINDS, Part
from course_lab.planned import command, earlier
from course_lab.vocabulary import Vocabulary, vocabulary_from_dict
from course_lib import data
from course_lib.errors import CourseError
from course_lib.models import OutputModel
from course_lib.training.checkpoint import difference, differences, read_progress, restore
from course_lib.training.checkpoint import load_checkpoint as read_checkpoint

EMBEDDED = ("docstrings", "zipf", "cldr")  # corpora that need neither a file nor the network

# Loading -----------------------------------------------------------------------------------------


def load_checkpoint(
    path: Path, corpus: str | Path | None = None
) -> tuple[OutputModel, Vocabulary, Experiment]:
    """Return the model of a run, the vocabulary to ask it with, and its experiment.

    The checkpoint brings its vocabulary, so that no text is read. One of an older version brings
    none; then the corpus itself stands for it. A checkpoint may come from anywhere, so what it
    says about itself opens no file and starts no download: without `corpus` only an embedded text
    is read.

    path: a run's folder, which stands for its best epoch, a folder that `export` wrote, or a
        checkpoint file.
    corpus: the name or path of the text that the model was trained on, read in place of the
        checkpoint's vocabulary.

    CourseError for anything but a checkpoint of this course, for weights that the result beside
    them was not measured with, and for another text than the model was trained on.
    """
    path = _checkpoint_file(path)
    tensors, head = read_checkpoint(path)
    check_parts(path, head)
    experiment = _experiment(path, head)
    stored = head.get("vocabulary")
    if stored is None or corpus is not None:
        if corpus is None:
            _check_embedded(path, experiment.corpus.kind)
        checksums = head["identity"].get("corpus") or {}
        vocabulary = text_of_run(path, experiment, checksums, corpus)
    else:
        vocabulary = vocabulary_from_dict(stored, str(path))
    model = experiment.build(len(vocabulary))
    restore(model, tensors, str(path))
    return model.eval(), vocabulary, experiment


def _checkpoint_file(path: Path) -> Path:
    """Return the file of a checkpoint; a folder's is its best epoch, checked beside its result."""
    path = Path(path)
    if not path.is_dir():
        return path
    best = path / "best.safetensors"
    exported = path / "model.safetensors"
    if not best.exists() and exported.exists():
        return exported
    if not best.exists() and (path / "last.safetensors").exists():
        raise CourseError(
            f"{path} holds a run that has not finished an epoch; the command that began it goes on"
        )
    if results.is_done(path):
        if not best.exists():
            raise results.without_weights(path)
        results.check_weights(best, results.read_result(path))
    return best


def check_parts(path: Path, head: dict) -> None:
    """Raise CourseError for a part of somebody's own, whose file has not been named.

    A checkpoint names classes, but decides no code that is run.
    """
    plain = (head.get("identity") or {}).get("experiment")
    settings = plain if isinstance(plain, dict) else {}
    for field, role in ROLES.items():
        parts = settings.get(field)
        for part in parts if isinstance(parts, list) else [parts]:
            kind = part.get("kind") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind not in {cls.__name__ for cls in KINDS[role]}:
                raise CourseError(
                    f"{path} has the {role.replace('_', ' ')} {kind}, which the course does not "
                    "know; name the file that enters it: --with my_recipes.py"
                )


def _experiment(path: Path, head: dict) -> Experiment:
    """Return the experiment that a checkpoint's header names."""
    identity = head.get("identity")
    if not isinstance(identity, dict) or "experiment" not in identity:
        raise CourseError(f"{path} does not say which experiment it belongs to")
    return Experiment.from_dict(identity["experiment"])


def text_of_run(
    path: Path,
    experiment: Experiment,
    checksums: dict[str, str],
    named: str | Path | None,
    words: list[str] | None = None,
) -> data.Corpus | data.SentencePairs:
    """Return the text that a run was trained on, or another with the same words.

    path: of the checkpoint, for the errors.
    experiment: of the checkpoint; its corpus is loaded where the user names none.
    checksums: those of the text that the run was trained on, by split.
    named: the name or path that the user gave, None if none.
    words: of the run; with them another text will do. Without them it is the text itself.

    CourseError for a text with other checksums and other words. It is also raised where an option
    of the corpus is a path, which a checkpoint must not decide.
    """
    # What the checkpoint says of itself follows no path.
    options = experiment.corpus.options
    for option, value in options.items():  # such as the suffix of a file
        if isinstance(value, str) and ("/" in value or "\\" in value):
            raise CourseError(
                f"{path}: the option {option} of its corpus is the path {value!r:.80}, and a path "
                "in a checkpoint is not followed"
            )
    kind = str(named or experiment.corpus.kind)
    text = experiment.change(corpus=Part(kind, options)).load_corpus()

    # The text is the run's own, or has its words.
    if text.words == words:
        return text
    if splits := _changed_splits(checksums, text.sha256):
        remedy = "name the text that it was trained on" if named else "restore it, or train again"
        raise CourseError(
            f"{path} was trained on another text than {text.name}: the checksum of {splits} differs"
            f"; {remedy}"
        )
    return text


def _changed_splits(before: dict[str, str], now: dict[str, str]) -> str:
    """Return the splits whose checksums differ: `train and valid`."""
    splits = before | now
    return " and ".join(split for split in splits if before.get(split) != now.get(split))


def _check_embedded(path: Path, name: str) -> None:
    """Raise CourseError for a text that a checkpoint names, and that is not embedded."""
    if name not in EMBEDDED:
        raise CourseError(
            f"{path} has no vocabulary, as one of an older version, and names the text that it was "
            f"trained on: {name!r:.80}. What a checkpoint names is not read, also where it is on "
            "this machine. Name the text yourself: --corpus NAME or PATH"
        )


# Going on with a paused run -----------------------------------------------------------------------


def check_goes_on(folder: Path, identity: dict) -> None:
    """Raise CourseError where the paused run of a folder is not the one that is to go on.

    The message says what differs, and what to do about it. A run whose settings an earlier version
    of the course wrote in other words is refused as well, because its remaining steps would not be
    those that the earlier version would have done.

    folder: of the run; without a checkpoint in it there is nothing to check.
    identity: what the run to go on with is, as `training.loop.fit` takes it.
    """
    path = folder / "last.safetensors"
    if not path.exists():
        return
    head = read_progress(path)
    saved = head.get("identity", {})
    if difference(saved, identity) is None:
        return
    begun = [start["commit"] for start in head.get("starts", []) if "commit" in start]
    version = f"another version of the course ({begun[-1] if begun else 'of unknown commit'})"
    remedy = f"remove {folder} to train anew, or keep it and choose another folder"

    # The settings, in the words of today.
    try:
        experiment = _experiment(path, head).identity()
    except CourseError as error:
        raise CourseError(
            f"the paused run in {folder} was begun by {version}, and this version cannot read its "
            f"settings ({error}); finish it with that version, or {remedy}"
        ) from None
    if changed := list(differences(experiment, identity["experiment"])):
        raise CourseError(
            f"the paused run in {folder} is of another experiment ({'; '.join(changed)}); {remedy}"
        )

    # The text and the weights that it began with.
    if splits := _changed_splits(saved.get("corpus") or {}, identity["corpus"]):
        raise CourseError(
            f"the paused run in {folder} was trained on another text: the checksum of {splits} "
            f"differs; bring that text back, or {remedy}"
        )
    if saved.get("start") != identity.get("start"):
        raise CourseError(
            f"the paused run in {folder} began with other weights of "
            f"{identity['experiment']['start_from']} than there are now; {remedy}"
        )

    # What is left are the words of another version.
    changed = "; ".join(differences(saved["experiment"], identity["experiment"]))
    raise CourseError(
        f"the paused run in {folder} is of this experiment, but it was begun by {version}, which "
        f"writes the settings in another way ({changed}); finish it with that version, or {remedy}"
    )


# Starting from the weights of another run --------------------------------------------------------


def with_starts(experiment: Experiment, folder: Path | None = None) -> list[Experiment]:
    """Return the experiment, preceded by those that must be trained first.

    A run that begins with another's weights needs the other only until it is done itself, so
    nothing precedes a finished run.
    """

    first = earlier(experiment)
    own = folder or results.run_folder(experiment)
    if first is None or results.is_done(results.run_folder(first)) or results.is_done(own):
        return [experiment]
    return [*with_starts(first), experiment]


def start_of(experiment: Experiment) -> Path | None:
    """Return the checkpoint that a run begins with, whether it exists or not; None for none."""
    first = earlier(experiment)
    return first and results.run_folder(first) / f"{experiment.start_weights}.safetensors"


def load_start(model: nn.Module, experiment: Experiment, corpus) -> str:
    """Give the model the weights that its experiment begins with; return their file's digest.

    They are the last or best ones of an earlier recipe at the same profile and seed.

    model: receives the weights in place.
    experiment: names the earlier recipe.
    corpus: the experiment's text, which must be the earlier run's where both name the same.

    CourseError where the earlier run is not finished or has other weights than it ended with.
    """
    first = earlier(experiment)
    path = start_of(experiment)
    assert first is not None and path is not None  # as `start_from` names one
    folder = path.parent
    # the earlier run is finished
    if not results.is_done(folder):
        begun = (folder / "last.safetensors").exists()
        raise CourseError(
            f"{experiment.name} starts from the weights of {first.name}, which "
            f"{'has not finished' if begun else 'is not trained'}; train it with --starts, or "
            f"first run: {command(first)}"
        )
    # its checkpoint is of that experiment and text
    tensors, head = read_checkpoint(path)
    identity = head.get("identity", {})
    actual: dict[str, Any] = {
        "experiment": Experiment.from_dict(identity.get("experiment", {})).identity()
    }
    expected: dict[str, Any] = {"experiment": first.identity()}
    if first.corpus == experiment.corpus:
        actual["corpus"] = identity.get("corpus")
        expected["corpus"] = corpus.sha256
    # and holds the weights that its result was measured with
    measured = results.result_of(folder, first)["provenance"].get("weights", {})
    digest = file_digest(path)
    if actual == expected and measured:
        actual["weights"] = digest
        expected["weights"] = measured.get(experiment.start_weights)
    if where := difference(actual, expected):
        raise CourseError(
            f"{path} does not hold what {first.name} ended with ({where}); "
            f"remove {folder} and train that again"
        )
    restore(model, tensors, str(path))
    return digest
