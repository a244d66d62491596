"""The model card of a run: what the model is, its text, its measured figures, what it lacks.

All numbers are those of the run's result. What a run does not know, such as the licence of the
reader's own text, the card says nobody has stated.
"""

import json
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

from course_lab.corpora import cldr, docstrings, zipf
from course_lab.corpora.registry import DOWNLOADS
from course_lab.experiment import Experiment
from course_lab.parts import Part
from course_lib.data import folders

FILE = "README.md"
LICENCES = {name: entry.licence for name, entry in DOWNLOADS.items()}
LICENCES |= {"cldr": cldr.LICENCE, "docstrings": docstrings.LICENCE, "zipf": zipf.LICENCE}
ENGLISH = ("docstrings", "ptb", "wikitext-2", "wikitext-103")
SPLITS = {"valid": "validation", "test": "test"}
FIGURES = {
    "perplexity": "perplexity of a token",
    "word_perplexity": "perplexity of a word",
    "bleu": "BLEU",
}
INTENDED = (
    "Research and teaching: how the matrix that predicts words is shaped by a way of training. "
    "It is a model of one text, and no assistant: what it writes is neither checked nor safe, and "
    "nobody should be told it as a fact."
)
UNSTATED = "other"  # what Hugging Face calls a licence that is none of its list


def card(
    result: dict,
    vocabulary_size: int,
    repository: str,
    licence: str | None = None,
    language: str | None = None,
    own_files: tuple[str, ...] = (),
) -> str:
    """Return the model card of a run as Markdown with a head in YAML.

    result: the content of the run's result.json.
    vocabulary_size: N.
    repository: the address of the course.
    licence: of the weights, by Hugging Face's name for it; None if nobody has stated one.
    language: of the text; None: what is known of a text of the course.
    own_files: of the reader's own that the folder has, and the model needs.
    """
    experiment = Experiment.from_dict(result["experiment"])
    head = _head(experiment, result["metrics"], licence, language)
    parts = [
        f"# {_title(experiment)}",
        _what(experiment, result["metrics"], vocabulary_size, repository),
        "## How to use it",
        _use(experiment, own_files, repository),
        "## Intended use",
        INTENDED,
        "## Training data",
        _data(experiment, result["provenance"]),
        "## Training",
        _training(experiment, result),
        "## Figures",
        _figures(experiment, result["metrics"]),
        "## Limits",
        _limits(experiment, vocabulary_size),
        "## Where it comes from",
        _origin(result, licence),
    ]
    return f"---\n{head}---\n\n" + "\n\n".join(parts) + "\n"


# The head ----------------------------------------------------------------------------------------


def _head(experiment: Experiment, metrics: dict, licence: str | None, language: str | None) -> str:
    """Return the head that Hugging Face's site reads."""
    task = "translation" if experiment.translates else "text-generation"
    fields: dict[str, Any] = {"license": licence or UNSTATED}
    if licence is None:
        fields |= {"license_name": "not-stated", "license_link": "#where-it-comes-from"}
    if languages := [language] if language else languages_of(experiment.corpus):
        fields["language"] = languages
    fields |= {"library_name": "course-lib", "pipeline_tag": task}
    fields["tags"] = ["course-lib", "output-embedding", experiment.output_layer.kind]
    told = figures(metrics)
    fields["metrics"] = sorted({name.rpartition("_")[2] for _, name, _ in told})
    dataset = {"name": text_name(experiment.corpus), "type": text_name(experiment.corpus)}
    results = [
        {
            "task": {"type": task},
            "dataset": dataset | {"split": SPLITS[split]},
            "metrics": [{"type": name.rpartition("_")[2], "name": FIGURES[name], "value": value}],
        }
        for split, name, value in told
    ]
    fields["model-index"] = [{"name": experiment.name, "results": results}]
    return "".join(_yaml(fields))


def _yaml(value: Any, indent: int = 0):
    """Yield the lines of plain data as YAML, whose scalars are written as JSON's."""
    blank = " " * indent
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        head = f"{blank}{key}:" if isinstance(value, dict) else f"{blank}-"
        if not isinstance(item, dict | list):
            yield f"{head} {json.dumps(item, ensure_ascii=False)}\n"
            continue
        lines = list(_yaml(item, indent + 2))
        if isinstance(value, dict):
            yield f"{head}\n"
        else:  # the first line of an entry stands behind its dash
            lines[0] = f"{blank}- {lines[0][indent + 2 :]}"
        yield from lines


def languages_of(corpus: Part) -> list[str]:
    """Return the languages of a text of the course, as far as they are known."""
    direction = corpus.options.get("direction")
    if direction:
        return str(direction).split("-")
    return ["en"] if corpus.kind in ENGLISH else []


def text_name(corpus: Part) -> str:
    """Return the name of a text; of the reader's own the name of its file or folder."""
    return Path(corpus.kind).name


def figures(metrics: dict) -> list[tuple[str, str, float]]:
    """Return (split, name, value) of the perplexities and BLEU scores that a result has."""
    return [
        (split, name, metrics[f"{split}_{name}"])
        for split in SPLITS
        for name in FIGURES
        if f"{split}_{name}" in metrics
    ]


# The text ----------------------------------------------------------------------------------------


def _title(experiment: Experiment) -> str:
    return f"{experiment.name} {experiment.variant}".strip()


def _what(experiment: Experiment, metrics: dict, vocabulary_size: int, repository: str) -> str:
    e = experiment
    kind = "translator" if e.translates else "language model"
    matrices = "one matrix reads and predicts" if e.tied else "two matrices read and predict"
    parts = [f"a {kind} of {metrics['parameters']:,} parameters, encoder `{e.encoder.kind}`"]
    parts += [f"output layer `{e.output_layer.kind}`"]
    parts += [f"a vocabulary of {vocabulary_size:,} words or pieces, vectors of {e.size} numbers"]
    text = f"It is {', '.join(parts)}; {matrices}."
    if e.regularizers:
        kinds = " and ".join(f"`{r.kind}`" for r in e.regularizers)
        text += f" It was trained with {kinds}."
    stands = f" The recipe stands for: {e.source}." if e.source else ""
    return f"{text}{stands} It was made with the [course on the output embedding]({repository})."


def _use(experiment: Experiment, own_files: tuple[str, ...], repository: str) -> str:
    """Return the commands that load the folder."""
    own = "".join(f" --with {name}" for name in own_files)
    verbs = ["translate"] if experiment.translates else ["score", "next", "generate"]
    commands = "".join(f'python -m course_lab {verb} .{own} "…"\n' for verb in verbs)
    install = f'pip install "course-lib[lab] @ git+{repository}"'
    text = f"```bash\n{install}\n{commands}```\n\n"
    if experiment.translates:
        return text + "The `transformers` package has no class for it."
    imports = ["from transformers import AutoModelForCausalLM, AutoTokenizer"]
    loads = []
    if own_files:
        elsewhere = "from course_lab.recipes import elsewhere"
        imports = ["from pathlib import Path", "", *imports, "", elsewhere]
        loads = [f'elsewhere.load(Path("{name}"))  # has a part of the model' for name in own_files]
    lines = [
        *imports,
        "",
        *loads,
        'model = AutoModelForCausalLM.from_pretrained(".", trust_remote_code=True)',
        'tokenizer = AutoTokenizer.from_pretrained(".")',
    ]
    code = "\n".join(lines)
    return (
        f"{text}In `transformers`, with course-lib installed beside it:\n\n"
        f"```python\n{code}\n```\n\n"
        "The folder's own code is one line, an import from course-lib. The logits are "
        "log-probabilities. A text begins with `<eos>`, which the tokenizer puts there. Shorter "
        "texts of a batch are padded on the right."
    )


def _data(experiment: Experiment, provenance: dict) -> str:
    """Return what the model was trained on, with the digests of the splits."""
    name = text_name(experiment.corpus)
    entry = DOWNLOADS.get(experiment.corpus.kind)
    licence = LICENCES.get(experiment.corpus.kind)
    text = f"`{name}`" + (f", {entry.title}. Source: {entry.source}." if entry else ".")
    if licence:
        text += f" Licence of the text: {licence}."
    else:
        text += " It is a text of the author's own, of whose licence nothing is stated."
    options = {k: v for k, v in experiment.corpus.options.items() if v is not None}
    if options:
        text += f" Options: `{json.dumps(options, ensure_ascii=False)}`."
    digests = provenance.get("corpus_sha256") or {}
    rows = "".join(f"| {split} | `{digest}` |\n" for split, digest in digests.items())
    return text + (f"\n\n| split | SHA-256 |\n|---|---|\n{rows}".rstrip() if rows else "")


def _training(experiment: Experiment, result: dict) -> str:
    o = experiment.optimisation
    origin = result["provenance"]
    text = (
        f"{len(result['epochs'])} epochs of at most {o.epochs} by `{o.optimizer}`, learning rate "
        f"{o.learning_rate:g}, precision `{o.precision}`, seed {experiment.seed}, profile "
        f"`{experiment.profile}`. The weights are of epoch {result['metrics']['best_epoch']}. "
        "All settings are in `config.json`."
    )
    if "tokens_seen" in origin:
        text += f" {origin['tokens_seen']:,} tokens were seen in training."
    if "wall_seconds" in origin:
        text += f" It took {origin['wall_seconds'] / 60:,.1f} minutes on {origin['device']}."
    return text


def _figures(experiment: Experiment, metrics: dict) -> str:
    """Return the measured figures as a table: perplexities, BLEU, geometry of the matrix."""
    lines = ["| figure | split | value |", "|---|---|---|"]
    for split, name, value in figures(metrics):
        lines.append(f"| {FIGURES[name]} | {SPLITS[split]} | {value:.2f} |")
    for name, value in metrics.get("geometry", {}).items():
        if isinstance(value, int | float):
            lines.append(f"| {name.replace('_', ' ')} of the word matrix | | {value:.4g} |")
    text = "\n".join(lines)
    if experiment.adaptation is not None:
        text += (
            f"\n\nThe perplexities are those with `{experiment.adaptation.kind}` at test time. "
            "The weights in this folder are those before it."
        )
    return (
        f"{text}\n\nThe figures are of one run with one seed. A perplexity compares only with one "
        "of the same text and the same vocabulary."
    )


def _limits(experiment: Experiment, vocabulary_size: int) -> str:
    what = "pieces" if experiment.translates or "pieces" in experiment.corpus.options else "words"
    text = (
        f"It knows {vocabulary_size:,} {what}. It reads all others as `<unk>`, where its "
        "vocabulary has that. What is wrong or hurtful in its text it may write, too. Nothing was "
        "done against that."
    )
    if experiment.corpus.options.get("small") or experiment.profile in ("smoke", "quick"):
        text += " It was trained on a part of the text only, for a short time. It shows that the "
        text += "code runs, and is no result."
    return text


def _origin(result: dict, licence: str | None) -> str:
    """Return what decides whether somebody else gets the same model."""
    origin = result["provenance"]
    rows = {"commit of the course": origin.get("commit"), "device": origin.get("device")}
    rows |= {"threads": origin.get("threads"), "Python": origin.get("python")}
    rows |= {name: version for name, version in origin.get("packages", {}).items()}
    rows |= {f"SHA-256 of `{k}`": v for k, v in origin.get("own_files", {}).items()}
    rows["SHA-256 of the result"] = result["sha256"]
    weights = origin.get("weights", {})
    rows["SHA-256 of the run's best.safetensors"] = weights.get("best")
    lines = [f"| {name} | {value} |" for name, value in rows.items() if value is not None]
    table = "\n".join(["| | |", "|---|---|", *lines])
    stated = (
        f"The weights are under the licence `{licence}`."
        if licence
        else "Nobody has stated a licence for these weights. Whoever gives them on should state "
        "one that the licence of the text allows."
    )
    return f"{table}\n\n{stated}"


def repository() -> str:
    """Return the address of the course, as the installed package or its checkout states it."""
    try:
        urls = metadata("course-lib").get_all("Project-URL") or []
        return dict(url.split(", ", 1) for url in urls)["Repository"]
    except PackageNotFoundError:  # a checkout that is on the path without being installed
        project = (folders.REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
        return tomllib.loads(project)["project"]["urls"]["Repository"]
