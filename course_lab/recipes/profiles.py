"""A profile changes every recipe in the same way: the same code at a size for the occasion.

`smoke` and `quick` run on the embedded corpora, or the beginning of the reader's own, with models
cut down to what trains there in seconds or about a minute. `desk` keeps the recipe's own text, all
of it, its method and its optimiser, with a model and a number of epochs that take one core about
half an hour on the Penn Treebank. `full` is the recipe itself, and so is `standard` where no
shorter training is entered for it: there both are called `standard`, since they are one experiment.
The recipes of the desk tier are of that size already, and `desk` is their `standard`, too.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from course_lab import corpora
from course_lab.cost import corpus_size
from course_lab.experiment import Experiment
from course_lab.parts import Part, part
from course_lab.recipes.registry import SMALL, name_in, recipes
from course_lib.errors import CourseError, unknown
from course_lib.training.optimisation import Optimisation

PROFILES = ("smoke", "quick", "desk", "standard", "full")

_TEXT = {
    "smoke": {"train": 12_000, "valid": 1_500, "test": 1_500, "words": 300},
    "quick": {"train": 250_000, "valid": 20_000, "test": 20_000, "words": 10_000},
}
_PAIRS = {
    "smoke": {"train": 300, "valid": 50, "test": 20, "words": 300},
    "quick": {"train": 5_000, "valid": 200, "test": 100, "words": 2_000},
}
# Sizes are cut to these; a width equal to the word vectors' stays equal to it.
_MOST = {
    "smoke": {"size": 16, "units": 24, "layers": 2, "depth": 2, "heads": 2, "head_size": 8}
    | {"feedforward": 32, "components": 3, "pieces": 1_000, "cutoffs": [100, 200]},
    "quick": {"size": 200, "units": 300, "layers": 3, "depth": 3, "heads": 4, "head_size": 50}
    | {"feedforward": 400, "components": 5, "pieces": 100_000, "cutoffs": [2_000, 5_000]},
    "desk": {"size": 200, "units": 400, "layers": 2, "depth": 3, "heads": 4, "head_size": 50}
    | {"feedforward": 400, "components": 4, "pieces": 1_000},
}
_RUN = {
    "smoke": {"epochs": 1, "batch": 20, "length": 35, "max_tokens": 400, "warmup": 10},
    "quick": {"epochs": 2, "batch": 20, "length": 70, "max_tokens": 2_000, "warmup": 100},
    "desk": {"epochs": 12, "batch": 40, "length": 70, "max_tokens": 2_000, "warmup": 600},
}
# Contexts whose log P is ranked at the desk: a quarter of 10,000 words, a matter of seconds.
DESK_CONTEXTS = 2_500

# The course's own models on its own text.
_DOCSTRINGS = {
    # words rarer than 1e-4 must exist
    "smoke": {
        "corpus": {"small": {"train": 30_000, "valid": 2_000, "test": 2_000, "words": 3_000}},
        "optimisation": {"epochs": 1, "batch": 8, "length": 32},
    },
    "quick": {
        "corpus": {"small": {"train": 600_000, "valid": 20_000, "test": 20_000, "words": 10_000}},
        "optimisation": {"epochs": 1},
    },
    "standard": {"optimisation": {"epochs": 5}},
}
# Where a recipe, or all below a name, want another size than the common one.
_OWN = {
    "docstrings/transformer-128": _DOCSTRINGS,
    "docstrings/vd-lstm-128": _DOCSTRINGS,
    "ptb/desk": {"desk": {}},
    "ptb/desk-part": {"desk": {}},
    "wikitext-2/desk": {"desk": {}},
    "multi30k/transformer-small": {"desk": {}},
    # tiny as it is: lesson 21 wants translations that can be read
    "cldr/transformer-tiny": {"quick": {}},
}


def profile(experiment: Experiment, name: str, seed: int = 1) -> Experiment:
    """Return the experiment at the size of a profile.

    `full` of a recipe that has no shorter `standard` is called `standard`, and so is `desk` of one
    that is of the desk's size: one experiment has one name.

    experiment: the recipe, or the reader's own
    name: of the profile
    seed: of the run

    Raise CourseError for an unknown profile.
    """
    if name not in PROFILES:
        raise unknown("profile", name, PROFILES)
    recipe = name_in(experiment.name)
    family = next((f for f in _OWN if f"{recipe}/".startswith(f"{f}/")), "")
    own = _OWN.get(family, {})
    if (name == "full" and "standard" not in own) or (name == "desk" and own.get("desk") == {}):
        name = "standard"
    if name in own:
        experiment = experiment.change(**own[name])
    elif name in _MOST:
        experiment = _small(experiment, name)
    return experiment.change(profile=name, seed=seed)


def _small(e: Experiment, name: str) -> Experiment:
    """Return the experiment with a text, a model and a run of a small size.

    At the desk the text stays whole, and what a recipe changes for small texts does not apply.
    """
    desk = name == "desk"
    if e.is_counted:
        return e if desk else e.change(corpus=_small_corpus(e, name))
    small = e.change(
        corpus=e.corpus if desk else _small_corpus(e, name),
        size=min(e.size, _MOST[name]["size"]),
        encoder=_small_options(e.encoder, e, name),
        output_layer=_small_options(e.output_layer, e, name),
        optimisation=_short(e.optimisation, name),
        ranked_contexts=DESK_CONTEXTS if desk and e.ranked_contexts else None,
    ).change(**({} if desk else SMALL.get(name_in(e.name), {})))
    return small.change(regularizers=tuple(_scaled(r, e, small) for r in e.regularizers))


def _small_corpus(e: Experiment, name: str) -> Part:
    """Return an embedded corpus, or the beginning of the reader's own.

    CourseError where another text was asked for by name, in whose place the embedded one would be.
    """
    recipe = name_in(e.name)
    if e.name != recipe and e.name == f"{e.corpus.kind}/{recipe}":
        raise CourseError(
            f"the profile {name} reads an embedded text in place of {e.corpus.kind}; leave the "
            "corpus off, or take the profile desk or standard"
        )
    cut = (_PAIRS if e.translates else _TEXT)[name] | dict.fromkeys(e.requires, True)
    options = e.corpus.options
    if e.corpus.kind not in corpora.names():
        return Part(e.corpus.kind, {"small": cut} | options)
    if e.translates:
        return part("cldr", direction=options.get("direction", "de-en"), small=cut)
    half = {"half": options["half"]} if "half" in options else {}
    return part("docstrings", **half, small=cut)


def _small_options(component: Part, e: Experiment, name: str) -> dict[str, Any]:
    """Return those options of a part that are cut, as they are in a small model."""
    most = _MOST[name]

    def width(units: Any) -> Any:
        if isinstance(units, list):
            return [width(u) for u in units]
        return min(e.size, most["size"]) if units == e.size else min(units, most["units"])

    options = {}
    for option, value in component.options.items():
        if option == "units":
            options[option] = width(value)
        elif option == "cutoffs":
            options[option] = most.get("cutoffs", value)
        elif option in most:
            options[option] = min(value, most[option])
    return options


def _scaled(regularizer: Part, e: Experiment, small: Experiment) -> Part:
    """Return a prior of singular values for a smaller matrix, whose entries are as large."""
    if "c1" not in regularizer.options:
        return regularizer
    # The norm of N d entries grows with √(N d).
    words = [_words(x) or 0 for x in (e, small)]
    if not all(words):
        words = [1, 1]
    norms = [regularizer.build("regularizer").values(x.size).norm().item() for x in (e, small)]
    entries = [n * x.size for n, x in zip(words, (e, small), strict=True)]
    ratio = norms[0] / norms[1] * (entries[1] / entries[0]) ** 0.5
    c1 = round(regularizer.options["c1"] * ratio, 2)
    return Part(regularizer.kind, regularizer.options | {"c1": c1})


def _words(e: Experiment) -> int | None:
    """Return the size of the vocabulary, as far as it is known.

    Nobody has counted a text of the reader's own: it has as many words as it is cut to, else as
    many as the text that the recipe of that name is for.
    """
    with suppress(CourseError):
        return corpus_size(e.corpus).words
    if cut := e.corpus.options.get("small", {}).get("words"):
        return cut
    with suppress(CourseError):
        return corpus_size(recipes[name_in(e.name)].corpus).words
    return None


def _short(o: Optimisation, name: str) -> dict[str, Any]:
    """Return the settings of a run cut short.

    Nothing waits longer than there are epochs and steps.
    """
    most = _RUN[name]
    changes = {n: min(getattr(o, n), most[n]) for n in ("epochs", "batch", "length", "max_tokens")}
    changes["max_steps"] = None
    for start in ("average_from", "average_last"):
        if getattr(o, start) is not None:
            changes[start] = min(getattr(o, start), most["epochs"])
    if hasattr(o.schedule, "warmup"):
        changes["schedule"] = replace(o.schedule, warmup=min(o.schedule.warmup, most["warmup"]))
    return changes
