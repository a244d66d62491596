"""An experiment as frozen data that round-trips through JSON, and the model it stands for."""

import copy
import functools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Lt

from course_lab import corpora
from course_lab.parts import Part, annotations, plain
from course_lab.validation import CONFIG, check_plain_fields, validated
from course_lib import data
from course_lib.errors import CourseError, unknown
from course_lib.models import LanguageModel, OutputModel, TranslationModel
from course_lib.models.kneser_ney import Ngrams
from course_lib.protocols import Spectral, SpectrumPrior, Translator
from course_lib.ranges import Count, Dropout
from course_lib.training.optimisation import Optimisation

Seed = Annotated[int, Ge(0), Lt(2**32)]
# The role of every field that holds parts. The corpus has none: `corpora.load` reads it.
ROLES = {
    "encoder": "encoder",
    "words": "words",
    "output_words": "words",
    "output_layer": "output_layer",
    "objectives": "objective",
    "regularizers": "regularizer",
    "input_embedding": "input_embedding",
    "adaptation": "adaptation",
    "decoding": "decoding",
}
# What an n-gram model has; all other fields are of a network.
COUNTED = {"name", "corpus", "encoder", "source", "profile", "seed", "variant"}


@dataclass(frozen=True)
class Experiment:
    """Everything that decides a training run."""

    __pydantic_config__ = CONFIG

    name: str
    corpus: Part
    encoder: Part  # or `Ngrams`, which count the text and need nothing else
    words: Part = Part("FullWords")  # options beside N and d
    size: Count = 200  # d
    tied: bool = True
    output_words: Part | None = None  # of the matrix that predicts, untied; None: like `words`
    output_layer: Part = Part("Softmax")
    objectives: tuple[Part, ...] = (Part("CrossEntropy"),)
    regularizers: tuple[Part, ...] = ()
    input_embedding: Part = Part("InputEmbedding")  # row dropout and noise of the input
    output_dropout: Dropout = 0.0  # of the encoder's output, one mask a sequence
    optimisation: Optimisation = field(default_factory=Optimisation)
    start_from: str | None = None  # the recipe whose weights this one begins with
    start_weights: Literal["last", "best"] = "last"  # those of the last or of the best epoch
    adaptation: Part | None = None  # at test time, in place of the plain evaluation
    decoding: Part | None = None  # of a translator, for BLEU
    ranked_contexts: Count | None = None  # of the test split, whose log P is ranked
    block_memory: Count | None = None  # MB of a block of the loss; None: the output layer's own
    source: str = ""  # paper, table and row it stands for
    profile: str = "full"
    seed: Seed = 1
    variant: str = ""  # in what it differs from its recipe; names its folder

    def __post_init__(self):
        check_plain_fields(self)
        for name in ("name", "variant", "profile"):
            _check_folder(name, getattr(self, name))
        for role, part in self.parts():
            part.check(role)
        self._check_small()
        one = self.tied or self.optimisation.tied_until is not None
        if one and self.output_words is not None:
            raise CourseError(
                f"{self.name} is tied and predicts with `words`; leave `output_words` off"
            )
        if self.is_counted:
            self._check_counted()

    def _check_counted(self) -> None:
        """Raise CourseError for a setting of a network, or a seed, which would change nothing."""
        plain = Experiment(self.name, self.corpus, Part("VariationalLSTM"))
        for f in fields(self):
            if f.name not in COUNTED and getattr(self, f.name) != getattr(plain, f.name):
                raise CourseError(f"{self.name} counts n-grams, and {f.name} is of a network")
        if self.seed != 1:
            raise CourseError(f"{self.name} counts n-grams and draws nothing; its only seed is 1")

    def parts(self) -> Iterator[tuple[str, Part]]:
        """Yield the role of every part, the part beside it; the corpus is left out."""
        for name, role in ROLES.items():
            value = getattr(self, name)
            for part in value if isinstance(value, tuple) else (value,):
                if part is not None:
                    yield role, part

    @property
    def translates(self) -> bool:
        """True for a translator, which needs sentence pairs and not running text."""
        return issubclass(self.encoder.class_in("encoder"), Translator)

    @property
    def is_counted(self) -> bool:
        """True for an n-gram model, which counts its text and is not trained."""
        return issubclass(self.encoder.class_in("encoder"), Ngrams)

    @property
    def requires(self) -> frozenset[str]:
        """Return the requirements of the output layer on the order of the corpus' words."""
        if self.translates:  # whose pieces come in the order in which the encoding learned them
            return frozenset()
        return self.output_layer.class_in("output_layer").requires

    def load_corpus(self) -> data.Corpus | data.SentencePairs:
        """Return the corpus; its options `half` and `small` take a part of it.

        Raise CourseError where the corpus is not of the kind that the encoder reads.
        """
        options = dict(self.corpus.options)
        half = options.pop("half", None)
        small = options.pop("small", None)
        corpus = corpora.load(self.corpus.kind, **options)
        if isinstance(corpus, data.SentencePairs) != self.translates:
            has, needs = "sentence pairs", "running text"
            if self.translates:
                has, needs = needs, has
            raise CourseError(
                f"{self.name}: the encoder {self.encoder.kind} needs {needs}, but corpus "
                f"{self.corpus.kind} has {has}"
            )
        if half is not None:
            if not isinstance(corpus, data.Corpus):
                raise CourseError(f"{self.name}: half is of running text; pairs are cut by small")
            corpus = corpus.half(half)
        return corpus if small is None else corpus.small(**small)

    def _check_small(self) -> None:
        """Raise CourseError for a number that the option `small` of the corpus does not take."""
        hints = annotations((data.SentencePairs if self.translates else data.Corpus).small)
        small = validated("corpus.small", self.corpus.options.get("small", {}), dict)
        for name, value in small.items():
            if name not in hints:
                raise unknown("option of small", name, hints)
            validated(f"corpus.small.{name}", value, hints[name])

    def build(self, vocabulary: int) -> OutputModel:
        """Return the untrained model for that many words, drawn from the experiment's seed.

        Raise CourseError where sizes do not fit, and for an n-gram model, which has no weights.
        """
        if self.is_counted:
            raise CourseError(
                f"{self.name} counts n-grams and has no weights; "
                f"`python -m course_lab train {self.name}` counts them"
            )
        torch.manual_seed(self.seed)
        try:
            return self._built(vocabulary)
        except ValueError as error:
            raise CourseError(f"{self.name}: {error}") from None

    def _built(self, vocabulary: int) -> OutputModel:
        encoder = self.encoder.build("encoder", self.size)
        # The two word matrices; tied, they are one object, and tied at first, two equal ones.
        until = self.optimisation.tied_until
        input_words = self.words.build("words", vocabulary, self.size)
        output_words = input_words
        if not self.tied and until is None:
            kind = self.output_words or self.words
            output_words = kind.build("words", vocabulary, encoder.output_size)
        # A prior that training begins at sets the singular values.
        regularizers = [p.build("regularizer") for p in self.regularizers]
        for prior in regularizers:
            wanted = isinstance(prior, SpectrumPrior) and prior.start
            if wanted and isinstance(output_words, Spectral):
                output_words.start_at(prior.values(len(output_words.singular_values())))
        if not self.tied and until is not None:
            output_words = copy.deepcopy(input_words)
        output_layer = self.output_layer.build("output_layer", output_words, encoder.output_size)
        if self.block_memory is not None:
            output_layer.scratch.limit = self.block_memory << 20  # bytes
        model = TranslationModel if self.translates else LanguageModel
        return model(
            input_words,
            encoder,
            output_layer,
            objective=_sum_of([p.build("objective") for p in self.objectives]),
            regularizers=tuple(regularizers),
            input_embedding=self.input_embedding.build("input_embedding"),
            output_dropout=self.output_dropout,
        )

    def to_dict(self) -> dict:
        """Return plain data, ready for JSON."""
        settings = asdict(self)
        schedule = self.optimisation.schedule
        settings["optimisation"]["schedule"] = {
            "kind": type(schedule).__name__,
            "options": asdict(schedule),
        }
        return plain(settings)

    def identity(self) -> dict:
        """Return what decides the figures of a run: `to_dict` without the citation."""
        return {name: value for name, value in self.to_dict().items() if name != "source"}

    @classmethod
    def from_dict(cls, plain: dict) -> "Experiment":
        """Return the experiment of which `plain` is the `to_dict`.

        Raise CourseError for a field that is unknown, missing or of another type.
        """
        if isinstance(plain, dict):
            plain = _renamed(plain)
            settings = plain.get("optimisation")
            # A schedule is read as a part; the optimisation holds the object that it stands for.
            if isinstance(settings, dict) and "schedule" in settings:
                schedule = validated("optimisation.schedule", settings["schedule"], Part)
                settings = {k: v for k, v in settings.items() if k != "schedule"}
                experiment = cls.from_dict(plain | {"optimisation": settings})
                return experiment.change(optimisation={"schedule": schedule.build("schedule")})
        return validated("an experiment", plain, cls)

    def change(self, **changes) -> "Experiment":
        """Return a copy with other fields.

        A dict changes single settings of a part or of the optimisation.

        experiment.change(seed=2, optimisation={"epochs": 3}, encoder={"dropout": 0.5})
        """
        _check_names("an experiment", changes, type(self))
        for name, value in changes.items():
            if isinstance(value, dict):
                current = getattr(self, name)
                if isinstance(current, Part):
                    changes[name] = Part(current.kind, current.options | value)
                elif isinstance(current, Optimisation):
                    _check_names(name, value, type(current))
                    changes[name] = replace(current, **value)
                else:
                    raise CourseError(f"{name} has no named settings; give the whole value")
        return replace(self, **changes)


def corpus_hints(corpus: Part) -> dict[str, Any]:
    """Return the annotation of every option of a corpus: those of its loader, `half` and `small`.

    Raise CourseError for a corpus that is neither known nor a path to one.
    """
    of_loader = annotations(corpora.loader_of(corpus.kind, list(corpus.options)))
    hints = {name: hint for name, hint in of_loader.items() if name != "download"}
    if "direction" not in hints:  # pairs have no halves
        hints["half"] = Literal["first", "second"]
    return hints | {"small": dict}


def _renamed(plain: dict) -> dict:
    """Return a copy with today's names and defaults; a result has those of the day it was made.

    Of that day are results with the field `reading`. An adversarial softmax that did not state its
    gradient then held the whole margin constant, which is "none" today.
    """
    if "reading" not in plain or "input_embedding" in plain:
        return dict(plain)
    plain = dict(plain)
    reading = plain.pop("reading")
    if isinstance(reading, dict) and reading.get("kind") == "Reading":
        reading = reading | {"kind": "InputEmbedding"}
    plain["input_embedding"] = reading
    layer = plain.get("output_layer")
    if isinstance(layer, dict) and str(layer.get("kind")).startswith("Adversarial"):
        options = {"gradient": "none"} | (layer.get("options") or {})
        plain["output_layer"] = layer | {"options": options}
    return plain


def _check_folder(what: str, text: str) -> None:
    """Raise CourseError unless a text names a folder below that of all runs, or none."""
    parts = text.split("/") if what == "name" else [text]
    bad = any(p in ("", ".", "..") or set(p) & set('/\\:*?"<>|\0') for p in parts)
    if text and bad:
        raise CourseError(f"{what} names the folder of a run, which {text!r} cannot")


def _check_names(owner: str, names: dict, cls: type) -> None:
    known = [f.name for f in fields(cls)]
    for name in names:
        if name not in known:
            raise unknown(f"field of {owner}", name, known)


def _sum_of(objectives: list) -> Any:
    """Return the sum of one or more objectives."""
    if not objectives:
        raise CourseError("an experiment needs at least one objective, such as CrossEntropy")
    return functools.reduce(lambda total, objective: total + objective, objectives)
