"""The kept results as evidence: each run with its tier, its setting and the n-grams of its text.

A run is of one of three tiers:

    at scale    a row of a published table, with the settings that the row stands for;
    desk        another model or budget on the whole of a real corpus;
    small       the embedded text, or a part of a corpus.

A language model that predicts its test split worse than interpolated Kneser-Ney of order 5, trained
on the same tokens, has not learned what counting finds. What a remedy does to such a model is no
evidence for or against a paper (`beats_counting`), unless the run is the paper's own experiment.
"""

import functools
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from course_lab import plans, provenance, published, results
from course_lab.batch_states import MALFORMED
from course_lab.corpora import similarity as benchmarks
from course_lab.corpora.registry import DOWNLOADS
from course_lab.experiment import Experiment
from course_lab.keep import check_name
from course_lab.planned import Planned
from course_lab.recipes import recipes
from course_lab.tables import NGRAMS, ngram_perplexities
from course_lib.data import Corpus
from course_lib.errors import CourseError

if TYPE_CHECKING:
    import pandas as pd

Tier = Literal["at scale", "desk", "small"]
TIERS: tuple[Tier, ...] = ("at scale", "desk", "small")
COUNTING = "Kneser-Ney 5"  # the n-gram model that a neural one has to beat
ENOUGH_PAIRS = 100  # of a word-similarity list that a vocabulary has to know
# One method, one name, in recipes of all papers: an untied LSTM is inan2017's "baseline", and a
# tied model with one softmax is called "softmax" where tying is not the question.
SAME = {"baseline": "untied", "softmax": "tied", "spectrum": "spectrum-control"}


class Setting(NamedTuple):
    """A setting is what runs of several seeds share."""

    recipe: str
    profile: str
    variant: str
    text: str

    @property
    def label(self) -> str:
        """Return recipe, profile and variant in a line."""
        return " ".join(part for part in self[:3] if part)


@dataclass(frozen=True)
class Run:
    """A result and what it is a result of."""

    folder: Path
    setting: Setting
    seed: int
    tier: Tier
    content: dict

    @cached_property
    def experiment(self) -> dict:
        """Return the settings with today's names and defaults, so that older results compare.

        Those with a part that this process does not know, of another reader, stay as they were.
        """
        told = self.content["experiment"]
        try:
            return Experiment.from_dict(told).to_dict()
        except CourseError:
            return told

    @cached_property
    def context(self) -> tuple:
        """Return what two runs must share for their difference to be that of their methods.

        These are family, text, profile, tokens seen, width of the words, and the encoder but for
        its dropouts, which belong to a method's tuning.
        """
        experiment = self.content["experiment"]
        family, _, rest = parts_of(self.setting.recipe)
        options = experiment["encoder"]["options"].items()
        shape = sorted((key, str(value)) for key, value in options if "dropout" not in key)
        tokens = self.content["provenance"].get("tokens_seen")
        size = experiment["size"]
        place = (family, rest, self.setting.text, self.setting.profile)
        return (*place, tokens, size, tuple(shape))

    @property
    def method(self) -> str:
        """Return the name of the method, the same in recipes of all families."""
        return parts_of(self.setting.recipe)[1]

    def figure(self, path: str) -> float | None:
        """Return a figure by its path, such as `geometry/I1`, or one of `FIGURES`; None if none."""
        if path in FIGURES:
            return FIGURES[path](self.content)
        value: Any = self.content["metrics"]
        for name in path.split("/"):
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def perplexity(self, split: str) -> float:
        """Return the perplexity of a split, `valid` or `test`, which every result has."""
        return self.content["metrics"][f"{split}_perplexity"]


@dataclass(frozen=True)
class Evidence:
    """All results that could be read, and a sentence for each that could not."""

    runs: tuple[Run, ...]
    damaged: tuple[str, ...]
    ngrams: Mapping[str, Mapping[str, float]]  # by text: test perplexity by model

    @cached_property
    def settings(self) -> dict[Setting, dict[int, Run]]:
        """Return the runs by setting and seed."""
        groups: dict[Setting, dict[int, Run]] = {}
        for run in self.runs:
            groups.setdefault(run.setting, {})[run.seed] = run
        return groups

    def first(self, setting: Setting) -> Run:
        """Return one of the runs of a setting, the first that was read."""
        return next(iter(self.settings[setting].values()))

    def best(self, settings: Sequence[Setting], figure: str = "valid_perplexity") -> Setting:
        """Return the best setting, see `best_of`.

        figure: only seeds that have it count; runs of a setting may be older than a figure.
        """
        having = {}
        for setting in settings:
            runs = self.settings[setting].values()
            having[setting] = [run for run in runs if run.figure(figure) is not None]
        return best_of(having)

    def longest(self, settings: Sequence[Setting]) -> list[Setting]:
        """Return the settings that read at least half as many tokens as the longest of them."""

        def tokens(setting: Setting) -> float:
            runs = self.settings[setting].values()
            return float(np.median([r.content["provenance"].get("tokens_seen", 0) for r in runs]))

        most = max(map(tokens, settings))
        return [setting for setting in settings if 2 * tokens(setting) >= most]

    def beats_counting(self, setting: Setting) -> bool | None:
        """Return whether the runs of a setting beat `COUNTING` in the mean; None if unknown."""
        counted = self.ngrams.get(setting.text)
        if counted is None:
            return None
        losses = [np.log(run.perplexity("test")) for run in self.settings[setting].values()]
        return bool(np.mean(losses) < np.log(counted[COUNTING]))


def best_of(runs: Mapping[Setting, Sequence[Run]]) -> Setting:
    """Return the setting of least validation loss, the mean over its runs of one seed each.

    Only settings with the most seeds are compared: a lucky seed must not win.
    """

    def loss(setting: Setting) -> float:
        return float(np.mean([np.log(run.perplexity("valid")) for run in runs[setting]]))

    most = max(map(len, runs.values()))
    return min((setting for setting in runs if len(runs[setting]) == most), key=loss)


# Reading -----------------------------------------------------------------------------------------


def read(folders: Iterable[Path] = ()) -> Evidence:
    """Return the evidence of all kept results and of further result folders.

    folders: finished runs of your own, which count as kept ones do.
    """
    rows = published_settings()
    is_row: dict[tuple[Setting, str], bool] = {}  # a recipe may have changed between two seeds
    runs = []
    damaged = []
    for folder in [*results.kept_results(), *map(Path, folders)]:
        try:
            content = results.read_result(folder)
            results.check_perplexities(content, folder)
            experiment = content["experiment"]
            setting = _setting_of(experiment, folder)
            kind = setting, settings_digest(experiment)
            if kind not in is_row:
                is_row[kind] = setting[:3] in rows and is_of(experiment, *rows[setting[:3]])
            tier = tier_of(setting.text, is_row[kind])
            run = Run(folder, setting, experiment["seed"], tier, content)
            hash(run.context)  # by which runs are grouped; a result may lack a field of it
            runs.append(run)
        except CourseError as error:
            said = str(error)
            damaged.append(said if str(folder) in said else f"{folder}: {said}")
        except MALFORMED as error:
            said = f"{type(error).__name__}: {error}"
            damaged.append(f"{folder} is no result of this course ({said}); train it again")
    try:
        ngrams = {row["text"]: row["test"] for row in results.read_table(NGRAMS)["rows"]}
    except CourseError as error:
        damaged.append(f"{error}; where there is no such file, `claims --count` counts all texts")
        ngrams = {}
    return Evidence(tuple(runs), tuple(damaged), ngrams)


def _setting_of(experiment: dict, folder: Path) -> Setting:
    """Return the setting of a result, which its name tells.

    CourseError for a run of one's own whose name hides how it differs from its recipe: it would
    pass for a seed of the recipe. That of a kept result was checked when it was kept.
    """
    name, profile, seed = (experiment[field] for field in ("name", "profile", "seed"))
    variant = experiment.get("variant", "")
    if folder.is_relative_to(results.kept_folder()):
        # Older results do not name their variant, but the folders of kept ones do.
        variant = folder.name.removeprefix(f"{profile}-seed{seed}").removeprefix("-")
    elif name in recipes:  # the parts of another experiment may be in a file that is not loaded
        check_name(Experiment.from_dict(experiment))
    return Setting(name, profile, variant, text_of(experiment))


def published_settings() -> dict[tuple[str, str, str], tuple[str, str]]:
    """Return recipe and change of every published row by (recipe, profile, variant)."""
    rows = published.rows()
    pairs = set(zip(rows.recipe, rows.change, strict=True))
    return {named(*pair): pair for pair in pairs if pair[0]}


def named(recipe: str, change: str = "") -> tuple[str, str, str]:
    """Return (recipe, profile, variant) of a recipe at full scale with `path=value` settings."""
    planned = Planned(recipe, "full", 1, published.change_of({"change": change}))
    return recipe, planned.profile, planned.variant


def is_of(told: Mapping, recipe: str, change: str = "") -> bool:
    """Return whether an experiment is a recipe's at full scale, as the recipe is today.

    A result that was kept before its recipe changed has the recipe's name and other settings.
    """
    planned = Planned(recipe, "full", told["seed"], published.change_of({"change": change}))
    return Experiment.from_dict(dict(told)).identity() == planned.experiment().identity()


def tier_of(text: str, is_row: bool) -> Tier:
    """Return the tier of runs on a text; is_row: whether they are those of a published row."""
    if is_row:
        return "at scale"
    corpus = json.loads(text)
    is_whole = corpus["kind"] in DOWNLOADS and not {"small", "half"} & corpus["options"].keys()
    return "desk" if is_whole else "small"


def text_of(experiment: Mapping) -> str:
    """Return the text that an experiment reads, as JSON that is equal for equal texts."""
    return json.dumps(experiment["corpus"], sort_keys=True)


def settings_digest(experiment: Mapping) -> str:
    """Return twelve characters that are equal for experiments that differ in seed and name only."""
    names = ("seed", "name", "source", "variant")
    told = {key: value for key, value in experiment.items() if key not in names}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def title_of(text: str) -> str:
    """Return a text's name for readers: `docstrings, 30,000 tokens`."""
    corpus = json.loads(text)
    train = corpus["options"].get("small", {}).get("train")
    half = corpus["options"].get("half")
    return corpus["kind"] + (f" {half} half" if half else "") + (f", {train:,}" if train else "")


def parts_of(recipe: str) -> tuple[str, str, str]:
    """Return family, method and the rest of a recipe's name.

    `wmt14/en-de/transformer-base/cosine` is ("wmt14/en-de/transformer-base", "cosine", "").
    """
    corpus = r"[^/]+(?:/(?:[a-z]{2}-[a-z]{2}|first-half|second-half))?"
    match = re.fullmatch(rf"({corpus}/[^/]+)/([^/]+)/?(.*)", recipe)
    if match is None:  # an experiment of the reader's own
        return recipe, "", ""
    family, method, rest = match.groups()
    return family, SAME.get(method, method), rest


def family_of(recipe: str) -> str:
    """Return what the recipes share that differ in their method alone.

    That of `ptb/desk/cosine` is `ptb/desk`, and that of `ptb/desk/cosine/sgd` is `ptb/desk/…/sgd`.
    """
    family, _, rest = parts_of(recipe)
    return f"{family}/…/{rest}" if rest else family


def model_of(recipe: str) -> str:
    """Return a recipe's kind of model without its size: `vd-lstm`, `transformer`."""
    model = parts_of(recipe)[0].split("/")[-1]
    return re.sub(r"-(\d+|tiny|small|base|big)$", "", model)


def of_plan(of: Evidence, plan: str) -> list[tuple[Planned, Run | None]]:
    """Return each run of a plan with its result, which is None where there is none.

    of: the results to go by.
    plan: its name under data/plans.
    """
    named_runs = {(*run.setting[:3], run.seed): run for run in of.runs}
    planned = plans.read_plan(plan).runs
    experiments = [p.experiment() for p in planned]
    keys = [(e.name, e.profile, e.variant, e.seed) for e in experiments]
    return [(p, named_runs.get(key)) for p, key in zip(planned, keys, strict=True)]


def done_of(of: Evidence, plan: str) -> str:
    """Return a sentence on how many runs of a plan are kept, and how the others are made."""
    runs = of_plan(of, plan)
    done = sum(run is not None for _, run in runs)
    if done == len(runs):
        return f"All {done} runs of the plan `{plan}` are kept."
    how = f"`python -m course_lab batch run {plan}` makes the others"
    return f"Of the {len(runs)} runs of the plan `{plan}` {done} are kept; {how}."


def tuning(*settings: Setting) -> str:
    """Return how these settings were tuned, in the words of the plan that has most of them.

    Empty where no plan that says so has any.
    """
    wanted = {setting[:3] for setting in settings}
    told = [plan for plan in _plans_of(parts_of(settings[0].recipe)[0]) if plan.tuned]
    plan = max(told, key=lambda plan: len(wanted & plan.seeds.keys()), default=None)
    return f"Plan `{plan.name}`: {plan.tuned}" if plan and wanted & plan.seeds.keys() else ""


def planned_seeds(*settings: Setting) -> int:
    """Return how many seeds all of these settings share in the plan that gives them most; or 0."""
    shared = [
        set.intersection(*(plan.seeds.get(setting[:3], set()) for setting in settings))
        for plan in _plans_of(parts_of(settings[0].recipe)[0])
    ]
    return max(map(len, shared), default=0)


class _PlannedSeeds(NamedTuple):
    """A plan, with the seeds of each of its settings: recipe, profile and variant."""

    name: str
    tuned: str
    seeds: dict[tuple[str, str, str], set[int]]


@functools.cache
def _plans_of(family: str) -> list[_PlannedSeeds]:
    """Return each plan that names a family of recipes."""
    found = []
    for name, path in plans.plans().items():
        if f"{family}/" in path.read_text(encoding="utf-8"):
            plan = plans.read_plan(name)
            seeds: dict[tuple[str, str, str], set[int]] = {}
            for run in plan.runs:
                seeds.setdefault((run.recipe, run.profile, run.variant), set()).add(run.seed)
            found.append(_PlannedSeeds(name, plan.tuned, seeds))
    return found


def hours(of: Evidence) -> "pd.DataFrame":
    """Return what each plan has cost, what it lacks, and why.

    of: the results to go by.

    A row is a plan; a run of two plans counts in both. Columns: runs; kept, how many of them; core,
    the hours of a CPU core that the kept runs took, their wall time times their threads; gpu, the
    hours of a GPU; estimated, the hours of a core that the plan states for all its runs, NaN where
    it states none; missing, why runs are missing, empty where none is.
    """
    import pandas as pd

    rows = {}
    for name in plans.plans():
        plan = plans.read_plan(name)
        every = of_plan(of, name)
        kept = [run.content["provenance"] for _, run in every if run is not None]
        spent = {True: 0.0, False: 0.0}
        for origin in kept:
            on_gpu = provenance.on_gpu(origin)
            units = 1 if on_gpu else origin.get("threads", 1)
            spent[on_gpu] += units * origin.get("wall_seconds", 0) / 3600
        why = plan.missing if len(kept) < len(every) else ""
        told = [spent[False], spent[True], plan.hours or math.nan, why]
        rows[name] = [len(every), len(kept), *told]
    columns = ["runs", "kept", "core", "gpu", "estimated", "missing"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


# Figures that no result names --------------------------------------------------------------------


def epoch_seconds(content: dict) -> list[float]:
    """Return the seconds of training of each epoch; none where they are not told."""
    return [epoch["seconds"] for epoch in content["epochs"] if "seconds" in epoch]


def seconds_an_epoch(content: dict) -> float | None:
    """Return the median over epochs of the seconds of training."""
    seconds = epoch_seconds(content)
    return float(np.median(seconds)) if seconds else None


def minutes(content: dict) -> float | None:
    """Return the minutes of training: the number of epochs times the median epoch.

    So an epoch during which the machine stood still counts as any other. Where no epoch is told, as
    of an n-gram model, they are the minutes of the whole run.
    """
    seconds = seconds_an_epoch(content)
    if seconds is None:
        whole = content["provenance"].get("wall_seconds")
        return None if whole is None else whole / 60
    return seconds * len(content["epochs"]) / 60


def flatness(content: dict) -> float | None:
    """Return the median singular value of the word matrix over its largest."""
    values = content["metrics"].get("geometry", {}).get("singular_values")
    return float(np.median(values) / max(values)) if values else None


def watched_elsewhere(content: dict) -> float | None:
    """Return the probability that watched words are given, together, where another word follows."""
    told = content["metrics"].get("predictions", {}).get("watched", {})
    return sum(elsewhere for _, _, elsewhere in told.values()) if told else None


def similarity(content: dict, score: str = "rho") -> float | None:
    """Return the mean ρ over the word-similarity lists of which enough pairs are known.

    A list that lies wholly within another one of these is left out.
    """
    lists = content["metrics"].get("word_similarity") or {}
    known = [name for name, one in lists.items() if one.get(score) is not None]
    long = [name for name in known if lists[name]["found"] >= ENOUGH_PAIRS]
    scores = [lists[name][score] for name in benchmarks.apart(long)]
    return float(np.mean(scores)) if scores else None


FIGURES = {
    "seconds an epoch": seconds_an_epoch,
    "minutes": minutes,
    "flatness": flatness,
    "watched words elsewhere": watched_elsewhere,
    "word similarity": similarity,
    "centred similarity": partial(similarity, score="rho_centred"),
}


# n-grams -----------------------------------------------------------------------------------------


def count_ngrams(folders: Iterable[Path] = ()) -> Path:
    """Keep the n-gram perplexities of every text that a kept language model was tested on.

    Texts whose counts are kept already are not read again. A text that is not on this machine is
    left out, and so is a result that `read` names as damaged. Return the table's file.

    folders: finished runs of your own, whose texts are counted, too.
    CourseError for a table of counts that is damaged, which is not begun anew.
    """
    table = results.kept_folder() / f"{NGRAMS}.json"
    rows = results.read_table(NGRAMS)["rows"] if table.exists() else []
    counted = {row["text"] for row in rows}
    for run in read(folders).runs:
        text = run.setting.text
        if text in counted:
            continue
        try:
            experiment = Experiment.from_dict(run.content["experiment"])
            if experiment.translates:
                continue
            counted.add(text)
            corpus = experiment.load_corpus()
        except CourseError:  # a part of it is not known here, or its corpus is not here
            continue
        assert isinstance(corpus, Corpus)  # since it does not translate
        splits = {split: ngram_perplexities(corpus, split) for split in ("valid", "test")}
        rows.append({"text": text, "corpus_sha256": corpus.sha256, **splits})
    return results.write_table(NGRAMS, {"rows": sorted(rows, key=lambda row: row["text"])})
