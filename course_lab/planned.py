"""One run of a plan: a recipe with other settings, its name, and the run that it begins with."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from course_lab import results
from course_lab.experiment import Experiment
from course_lab.overrides import at, differences, has_settings, override, settings_in
from course_lab.own_text import is_moved, is_own, on_text, recipe_of
from course_lab.parts import plain
from course_lab.recipes import name_in, profile, recipes
from course_lib.errors import CourseError
from course_lib.training import batches
from course_lib.training.optimisation import OPTIONS

LABEL = 80  # characters; longer labels become a digest

# What only language models read, and what only translators do.
TEXT_BATCHES = ("batch", "length", "evaluation_batch", "evaluation_length", *batches.OF_TEXT)
OF_TEXT = (*(f"optimisation.{name}" for name in TEXT_BATCHES), "adaptation", "ranked_contexts")
OF_PAIRS = ("optimisation.max_tokens", "decoding")
# What a run without training reads of the optimisation.
UNTRAINED = ("epochs", "batch", "accumulate", "max_tokens", "evaluation_batch")
UNTRAINED += ("evaluation_length", "evaluation_memory", "evaluation_clamp")
# What only some optimisers read.
OF_OPTIMIZERS = {name for names in OPTIONS.values() for name in names}
# What a run does not hand on to the run that it begins with.
OWN = ("name", "source", "profile", "seed", "variant", "start_from", "start_weights")
OWN += ("optimisation", "adaptation", "decoding", "ranked_contexts")


@dataclass(frozen=True)
class Planned:
    """A recipe at a profile and seed, with `change`: dotted settings and their values.

    The setting `corpus` is another text, by name or path, whose options follow as `corpus.pieces`.
    `change` may be text, the same in JSON, as papermill's `-p CHANGE` hands it to a notebook.
    Settings equal to the recipe's are dropped, so that one experiment has one name. The constructor
    raises CourseError for an unknown recipe, profile or setting, for a value that does not fit, and
    for a setting of another kind of run.
    """

    recipe: str
    profile: str = "full"
    seed: int = 1
    change: dict[str, Any] = field(default_factory=dict)
    _experiment: Experiment = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        if isinstance(self.change, str):
            object.__setattr__(self, "change", settings_in(self.change))
        recipe = recipes[self.recipe]
        text = self.change.get("corpus", recipe.corpus.kind)
        is_other = text != recipe.corpus.kind
        if is_other:
            recipe = on_text(recipe, text)
        base = profile(recipe, self.profile, self.seed)
        changes = {path: value for path, value in self.change.items() if path != "corpus"}
        changed = override(base, changes)
        _check_read(changed, changes)
        differing = dict(sorted(differences(base, changed)))
        object.__setattr__(self, "profile", base.profile)
        object.__setattr__(self, "change", {"corpus": text} | differing if is_other else differing)
        object.__setattr__(self, "_experiment", changed.change(variant=self.variant))
        earlier(changed)  # what it starts from is a recipe, and has the settings that it hands on

    @property
    def variant(self) -> str:
        """The name of `change` in names of folders; that of another text is in the run's name."""
        return label({path: value for path, value in self.change.items() if path != "corpus"})

    def experiment(self) -> Experiment:
        """Return the experiment itself, its `variant` set."""
        return self._experiment

    @property
    def key(self) -> str:
        """The run's name, equal on every machine: its folder below `runs`."""
        return results.key_of(self.experiment())


def _check_read(experiment: Experiment, paths: Iterable[str]) -> None:
    """Raise CourseError for a setting that would be without effect."""
    e, o = experiment, experiment.optimisation
    kinds = {o.optimizer, *(group.get("optimizer", o.optimizer) for group in o.groups.values())}
    for path in paths:
        if {path, path.split(".")[0]} & set(OF_TEXT if e.translates else OF_PAIRS):
            kind = "translator" if e.translates else "language model"
            raise CourseError(f"{e.name} is a {kind}, which does not read {path}")
        if path == "ranked_contexts" and e.adaptation is not None:
            raise CourseError(
                f"{e.name} adapts at test time, so no contexts are ranked; leave {path} off"
            )
        setting = path.split(".")[1] if path.startswith("optimisation.") else ""
        if setting and not o.epochs and setting not in UNTRAINED:
            raise CourseError(f"{e.name} trains no epochs, so {path} is without effect")
        if setting in OF_OPTIMIZERS and not any(setting in OPTIONS[kind] for kind in kinds):
            do = "does" if len(kinds) == 1 else "do"
            raise CourseError(
                f"{e.name} trains with {' and '.join(sorted(kinds))}, which {do} not read {path}; "
                "change optimisation.optimizer as well"
            )


def earlier(experiment: Experiment) -> Experiment | None:
    """Return the run whose weights an experiment begins with; None if it begins anew.

    That is the recipe it starts from, at the same profile and seed, and with the settings in which
    this run differs from its own recipe, as far as the two recipes agree in them: a plan's
    `encoder.dropout` or `output_layer.alpha` holds for both. Settings of the optimisation and of
    the test time are each run's own.

    Raise CourseError for a recipe or setting that is not there.
    """
    if experiment.start_from is None:
        return None
    kind, seed, text = experiment.profile, experiment.seed, experiment.corpus.kind
    first, recipe = recipes[experiment.start_from], recipe_of(experiment)
    moved = {}
    if (is_own(text) or is_moved(experiment)) and text != first.corpus.kind:
        first, moved = on_text(first, text), {"corpus": text}
    first = profile(first, kind, seed)
    handed_on = {}
    if recipe is not None:
        handed_on = {
            path: value
            for path, value in differences(recipe, experiment)
            if path.split(".")[0] not in OWN
            and plain(at(recipe, path)) == plain(at(first, path))
            and not has_settings(value)  # another part altogether, as no plan can ask for
        }
    return Planned(experiment.start_from, kind, seed, moved | handed_on).experiment()


def changes_of(experiment: Experiment) -> dict[str, Any] | None:
    """Return the settings in which a run differs from its recipe; None where it has no recipe.

    Raise CourseError where the run's text is not here.
    """
    recipe = recipe_of(experiment)
    return None if recipe is None else dict(differences(recipe, experiment))


def command(experiment: Experiment) -> str:
    """Return the command that trains a recipe with the settings of an experiment.

    CourseError where it has a part of its own, which no command can ask for.
    """
    changed = changes_of(experiment)
    assert changed is not None  # who asks for a command knows the experiment as a recipe's
    if parts := [path for path, value in changed.items() if has_settings(value)]:
        raise CourseError(
            f"{experiment.name} has {' and '.join(parts)} of its own, as no command can ask for; "
            "train it from a recipe of your own"
        )
    changes = [f" --change '{path}={_short(value)}'" for path, value in changed.items()]
    name = name_in(experiment.name)
    text = f" --corpus '{experiment.corpus.kind}'" if is_moved(experiment) else ""
    return (
        f"python -m course_lab train {name}{text} --profile {experiment.profile} "
        f"--seed {experiment.seed}" + "".join(changes)
    )


def label(change: dict[str, Any]) -> str:
    """Return settings as the name of a folder: `encoder.dropout=0.4,size=100`.

    Where the settings make no such name, twelve characters of a SHA-256 stand for them.
    """
    text = ",".join(f"{path}={_short(value)}" for path, value in sorted(change.items()))
    if len(text) <= LABEL and re.fullmatch(r"([\w.,=+\[\]-]*[\w\]])?", text, re.ASCII):
        return text
    return hashlib.sha256(json.dumps(change, sort_keys=True).encode()).hexdigest()[:12]


def short_variant(variant: str) -> str:
    """Return a variant for a label: each setting by the last part of its path."""
    return re.sub(r"[\w.]+\.(?=\w+=)", "", variant).replace(",", ", ")


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
