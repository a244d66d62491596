"""Write a finished run as a folder that Hugging Face's programs and this course read.

    config.json          the experiment, and how transformers finds the model's class
    model.safetensors    the weights of the best epoch, with vocabulary and experiment in its head
    tokenizer.json       the vocabulary for transformers; tokenizer_config.json belongs to it
    generation_config.json
    modeling_course.py   one import, for language models
    README.md            the model card

The folder appears all at once, or not at all. Nothing in it is a pickle.
"""

import json
import re
import shutil
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from course_lab import results
from course_lab.checkpoints import load_checkpoint
from course_lab.experiment import Experiment
from course_lab.hugging_face import card, tokenizer
from course_lab.own_text import is_own
from course_lab.parts import Part
from course_lab.provenance import starts_of, warn_of_changed_files
from course_lab.recipes import elsewhere
from course_lab.vocabulary import Vocabulary, vocabulary_to_dict
from course_lib.data.corpus import EOS, UNK
from course_lib.errors import CourseError
from course_lib.training.checkpoint import DIGEST, digest, parameters_of, read_progress

WEIGHTS = "model.safetensors"
CODE = "modeling_course"
LICENCE = r"[a-z0-9][a-z0-9.-]*"  # what names of licences look like on Hugging Face's site
IMPORT = '''"""The model's class for transformers; it needs course-lib[lab]."""

from course_lab.hugging_face.model import CourseConfig, CourseForCausalLM

__all__ = ["CourseConfig", "CourseForCausalLM"]
'''


def export(
    run: Path,
    folder: Path,
    licence: str | None = None,
    language: str | None = None,
    corpus: str | Path | None = None,
) -> Path:
    """Write a run as a folder; return the folder.

    run: the folder of a finished run, or its name below `runs`.
    folder: a new one.
    licence: of the weights, by Hugging Face's name, such as cc-by-4.0; None if none is stated.
    language: of the text, such as en; None: what is known of a text of the course.
    corpus: the text that the run was trained on, where an older checkpoint has no vocabulary.

    CourseError for a run that is not there, not finished, or whose weights are not those of its
    result; for a folder that exists, and for a licence that cannot be a name.
    """
    source = run_of(run)
    folder = Path(folder)
    if licence is not None and not re.fullmatch(LICENCE, licence):
        raise CourseError(
            f"{licence!r} is no name of a licence as Hugging Face writes them, such as cc-by-4.0, "
            "mit, apache-2.0 or other"
        )
    if folder.exists():
        raise CourseError(f"{folder} exists; choose a new folder, or remove that one")
    # what the run is
    result = results.read_result(source)
    model, vocabulary, experiment = load_checkpoint(source, corpus)
    files = elsewhere.files_of(experiment)
    names = [f"{CODE}.py", *(file.path.name for file in files)]
    if len({*names}) < len(names):
        raise CourseError(f"one folder cannot hold two files of one name: {', '.join(names)}")
    loaded = elsewhere.digests_of(experiment)
    warn_of_changed_files(starts_of(result["provenance"]), loaded, source)
    experiment = _elsewhere(experiment)
    # its folder, under another name until it is whole
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        weights = {f"model.{name}": tensor for name, tensor in parameters_of(model).items()}
        head = _head(source, experiment, vocabulary)
        (part / WEIGHTS).write_bytes(_safetensors(weights, head))
        for name, content in _json_files(experiment, vocabulary).items():
            results.write_json(part / name, content)
        if not experiment.translates:
            (part / f"{CODE}.py").write_text(IMPORT, encoding="utf-8")
        for file in files:
            shutil.copyfile(file.path, part / file.path.name)
        text = card.card(
            result | {"experiment": experiment.to_dict()},
            len(vocabulary),
            card.repository(),
            licence,
            language,
            tuple(names[1:]),
        )
        (part / card.FILE).write_text(text, encoding="utf-8")
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return folder


def run_of(run: Path) -> Path:
    """Return the folder of a finished run; CourseError where there is none."""
    for folder in (Path(run), results.runs_folder() / run):
        if results.is_done(folder):
            if not (folder / "best.safetensors").exists():
                raise results.without_weights(folder)
            return folder
        if (folder / "last.safetensors").exists():
            raise CourseError(f"the run in {folder} is not finished; train it to its end first")
    raise results.no_run(run)


def _elsewhere(experiment: Experiment) -> Experiment:
    """Return an experiment as others may see it: without the folder of the reader's own text."""
    corpus = experiment.corpus
    name = card.text_name(corpus)
    if is_own(corpus.kind) and not is_own(name):
        name = f"./{name}"  # a file, not the text of the course that is called so
    return experiment.change(corpus=Part(name, corpus.options))


def _head(source: Path, experiment: Experiment, vocabulary: Vocabulary) -> dict:
    """Return what `load_checkpoint` reads of a checkpoint beside its weights."""
    head = read_progress(source / "best.safetensors")
    identity = head["identity"] | {"experiment": experiment.identity()}
    return {
        "identity": identity,
        "vocabulary": vocabulary_to_dict(vocabulary),
        "epoch": head.get("epoch"),
    }


def _safetensors(tensors: dict[str, Tensor], head: dict) -> bytes:
    """Return the file of weights: one of transformers, and a checkpoint of the course."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    progress = json.dumps(head | {DIGEST: digest(tensors, head)})
    return save(tensors, {"format": "pt", "progress": progress})


def _json_files(experiment: Experiment, vocabulary: Vocabulary) -> dict[str, dict]:
    """Return the folder's JSON files by name."""
    config = {
        "model_type": "course-lab",
        "vocab_size": len(vocabulary),
        "hidden_size": experiment.size,
        "tie_word_embeddings": experiment.tied,
        "dtype": "float32",
        "experiment": experiment.to_dict(),
    }
    own_tokenizer = json.loads(tokenizer.tokenizer_of(vocabulary).to_str())
    special = {"eos_token": EOS}
    if vocabulary.unk is not None:
        special["unk_token"] = UNK
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    files = {tokenizer.FILE: own_tokenizer, "tokenizer_config.json": told | special}
    if experiment.translates:
        return {"config.json": config} | files
    ends = {"bos_token_id": vocabulary.eos, "eos_token_id": vocabulary.eos}
    ends["pad_token_id"] = vocabulary.eos
    classes = {"AutoConfig": "CourseConfig", "AutoModelForCausalLM": "CourseForCausalLM"}
    config |= {"architectures": ["CourseForCausalLM"], "unknown": vocabulary.unk} | ends
    config["auto_map"] = {auto: f"{CODE}.{name}" for auto, name in classes.items()}
    files["tokenizer_config.json"] |= {"bos_token": EOS, "pad_token": EOS, "padding_side": "right"}
    files["generation_config.json"] = {"use_cache": False} | ends
    return {"config.json": config} | files
