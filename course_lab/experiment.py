"""An experiment as frozen data that round-trips through JSON, and the model it stands for."""

import inspect
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import torch

from course_lib import data
from course_lib.dropout import check_probability
from course_lib.errors import CourseError, unknown
from course_lib.evaluation.adaptation import ContinuousCache, DynamicEvaluation
from course_lib.evaluation.translation import BeamSearch
from course_lib.models import (
    AWDLSTM,
    QRNN,
    RHN,
    InputEmbedding,
    LanguageModel,
    LSTMTranslator,
    OutputModel,
    Transformer,
    TransformerXL,
    TranslationModel,
    VariationalLSTM,
)
from course_lib.output_layers import (
    OUTPUT_LAYERS,
    AugmentedLoss,
    CrossEntropy,
    FullWords,
    LabelSmoothing,
    SpectralWords,
    ZLoss,
)
from course_lib.protocols import Spectral, SpectrumPrior, Translator
from course_lib.regularizers import REGULARIZERS
from course_lib.training.optimisation import Optimisation
from course_lib.training.schedules import SCHEDULES

# What a part's name may stand for; a new method is entered here.
KINDS = {
    "encoder": (
        VariationalLSTM,
        AWDLSTM,
        QRNN,
        RHN,
        TransformerXL,
        Transformer,
        LSTMTranslator,
    ),
    "words": (FullWords, SpectralWords),
    "input_embedding": (InputEmbedding,),
    "output_layer": OUTPUT_LAYERS,
    "objective": (CrossEntropy, LabelSmoothing, ZLoss, AugmentedLoss),
    "regularizer": tuple(REGULARIZERS.values()),
    "schedule": tuple(SCHEDULES.values()),
    "adaptation": (ContinuousCache, DynamicEvaluation),
    "decoding": (BeamSearch,),
}


STARTS = ("last", "best")
# Options that count something, of whichever part: a whole number, or several.
COUNTS = ("units", "layers", "heads", "head_size", "feedforward", "depth", "components", "pieces")
COUNTS += ("window", "beam")


@dataclass(frozen=True)
class Part:
    """A component by name with its options: `part("VariationalLSTM", units=200)`."""

    kind: str
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        for option, value in self.options.items():
            if option.endswith(("dropout", "drop")):
                check_probability(f"{option} of {self.kind}", value)
            real = isinstance(value, int | float)
            if option == "zoneout" and not (real and 0 <= value <= 1):
                raise CourseError(f"zoneout of {self.kind} is a share, from 0 to 1, not {value}")
            counts = value if isinstance(value, list | tuple) else [value]
            if option in COUNTS and not all(type(n) is int and n > 0 for n in counts):
                what = f"{option} of {self.kind}"
                raise CourseError(f"{what} must be a whole number of 1 or more, not {value!r}")

    def build(self, role: str, *args):
        """The object itself; CourseError with near matches for an unknown kind or option."""
        kinds = {k.__name__: k for k in KINDS[role]}
        if self.kind not in kinds:
            raise unknown(role.replace("_", " "), self.kind, kinds)
        make = kinds[self.kind]
        takes = options_of(make)
        known = list(takes)[len(args) :]
        for option, value in self.options.items():
            if option not in known:
                raise unknown(f"option of {self.kind}", option, known)
            hint = takes[option].annotation  # a class of the reader's own may have none
            if hint is not inspect.Parameter.empty and not fits(value, hint):
                raise CourseError(
                    f"{option} of {self.kind} must be {spelled(hint)}, not {value!r:.60}"
                )
        return make(*args, **self.options)


def options_of(make: type) -> dict[str, inspect.Parameter]:
    """What `make` takes, by name, and what it hands on to the classes behind it before that."""
    chain = []
    for cls in inspect.getmro(make):
        if "__init__" in vars(cls):
            chain.append(list(_signature(cls.__init__).parameters.values())[1:])
            if not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in chain[-1]):
                break
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found: dict[str, inspect.Parameter] = {}
    for parameters in reversed(chain):  # a class behind says its place, one before it all else
        found |= {p.name: p for p in parameters if p.kind not in variable}
    return found


def _signature(make) -> inspect.Signature:
    """Return a signature whose annotations are types, without the ranges that they declare."""
    signature = inspect.signature(make)
    try:
        hints = get_type_hints(make)
    except NameError:  # an annotation of something that is there for type checkers alone
        return signature
    plain = [
        p.replace(annotation=hints.get(p.name, p.annotation)) for p in signature.parameters.values()
    ]
    return signature.replace(parameters=plain)


def part(kind: str, **options) -> Part:
    """`Part` with keyword options."""
    return Part(kind, options)


@dataclass(frozen=True)
class Experiment:
    """Everything that decides a training run."""

    name: str
    corpus: Part
    encoder: Part
    words: Part = Part("FullWords")  # options beside N and d
    size: int = 200  # d
    tied: bool = True
    output_words: Part | None = None  # of the matrix that predicts, untied; None: like `words`
    output_layer: Part = Part("Softmax")
    objectives: tuple[Part, ...] = (Part("CrossEntropy"),)
    regularizers: tuple[Part, ...] = ()
    input_embedding: Part = Part("InputEmbedding")  # row dropout and noise of the input
    output_dropout: float = 0.0  # of the encoder's output, one mask a sequence
    optimisation: Optimisation = field(default_factory=Optimisation)
    start_from: str | None = None  # the recipe whose weights this one begins with
    start_weights: str = "last"  # or those of its "best" epoch
    adaptation: Part | None = None  # at test time, in place of the plain evaluation
    decoding: Part | None = None  # of a translator, for BLEU
    ranked_contexts: int | None = None  # of the test split, whose log P is decomposed for its ranks
    source: str = ""  # paper, table and row it stands for
    profile: str = "full"
    seed: int = 1
    variant: str = ""  # in what it differs from its recipe; names its folder

    def __post_init__(self):
        for name in ("name", "variant", "profile"):
            _path(name, getattr(self, name))
        if self.start_weights not in STARTS:
            raise unknown("start_weights", self.start_weights, STARTS)
        check_probability("output_dropout", self.output_dropout)
        whole = [("size", 1, 2**31), ("seed", 0, 2**32)]
        if self.ranked_contexts is not None:
            whole.append(("ranked_contexts", 1, 2**63))
        for name, least, most in whole:
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value < most:
                raise CourseError(f"{name} must be a whole number of {least} or more, not {value}")
        if self.tied and self.output_words is not None:
            raise CourseError(f"{self.name}: tied, it predicts with `words`, not `output_words`")

    @property
    def translates(self) -> bool:
        """Whether it needs sentence pairs, where a language model needs running text."""
        kinds = {kind.__name__: kind for kind in KINDS["encoder"]}
        return issubclass(kinds.get(self.encoder.kind, object), Translator)

    def load_corpus(self) -> data.Corpus | data.SentencePairs:
        """The corpus; options `half` and `small` take a part of it.

        CourseError if it is not of the kind that the encoder reads.
        """
        options = dict(self.corpus.options)
        half, small = options.pop("half", None), options.pop("small", None)
        corpus = data.load(self.corpus.kind, **options)
        if isinstance(corpus, data.SentencePairs) != self.translates:
            has, needs = "sentence pairs", "running text"
            if self.translates:
                has, needs = needs, has
            raise CourseError(
                f"{self.name}: the encoder {self.encoder.kind} needs {needs}, but corpus "
                f"{self.corpus.kind} has {has}"
            )
        if half is not None:
            if self.translates:
                raise CourseError(f"{self.name}: half is of running text; pairs are cut by small")
            corpus = corpus.half(half)
        if small is None:
            return corpus
        known = inspect.signature(corpus.small).parameters
        for name in small:
            if name not in known:
                raise unknown("option of small", name, known)
        return corpus.small(**small)

    def build(self, vocabulary: int) -> OutputModel:
        """The untrained model for that many words, drawn from the experiment's seed.

        CourseError where sizes do not fit.
        """
        torch.manual_seed(self.seed)
        try:
            return self._built(vocabulary)
        except ValueError as error:
            raise CourseError(f"{self.name}: {error}") from None

    def _built(self, vocabulary: int) -> OutputModel:
        encoder = self.encoder.build("encoder", self.size)
        read = self.words.build("words", vocabulary, self.size)
        write = read
        if not self.tied:
            kind = self.output_words or self.words
            write = kind.build("words", vocabulary, encoder.output_size)
        regularizers = [p.build("regularizer") for p in self.regularizers]
        for prior in regularizers:
            wanted = isinstance(prior, SpectrumPrior) and prior.start
            if wanted and isinstance(write, Spectral):
                write.start_at(prior.values(write.shape[1]))
        model = TranslationModel if self.translates else LanguageModel
        return model(
            read,
            encoder,
            self.output_layer.build("output_layer", write, encoder.output_size),
            objective=sum_of([p.build("objective") for p in self.objectives]),
            regularizers=regularizers,
            input_embedding=self.input_embedding.build("input_embedding"),
            output_dropout=self.output_dropout,
        )

    def to_dict(self) -> dict:
        """Plain data, ready for JSON."""
        plain = asdict(self)
        schedule = self.optimisation.schedule
        plain["optimisation"]["schedule"] = {
            "kind": type(schedule).__name__,
            "options": asdict(schedule),
        }
        return _listed(plain)

    def identity(self) -> dict:
        """What decides the figures of a run: `to_dict` without the citation."""
        return {name: value for name, value in self.to_dict().items() if name != "source"}

    @classmethod
    def from_dict(cls, plain: dict) -> "Experiment":
        """The inverse of `to_dict`; CourseError for a field that does not exist or is missing."""
        if not isinstance(plain, dict):
            raise CourseError(f"an experiment is an object with named fields, not {plain!r:.60}")
        plain = _renamed(plain)
        _known("field of an experiment", plain, cls)
        for name in ("name", "corpus", "encoder"):
            if name not in plain:
                raise CourseError(f"an experiment needs the field {name}")
        for name in ("corpus", "encoder", "words", "output_layer", "input_embedding", *_OPTIONAL):
            if plain.get(name) is not None:
                plain[name] = _part(name, plain[name])
        for name in ("objectives", "regularizers"):
            if isinstance(plain.get(name), list | tuple):
                plain[name] = tuple(_part(name, p) for p in plain[name])
        settings = plain.pop("optimisation", {})
        if not isinstance(settings, dict):
            raise CourseError(f"optimisation is an object with named fields, not {settings!r:.60}")
        settings = dict(settings)
        _known("field of the optimisation", settings, Optimisation)
        if "schedule" in settings:
            settings["schedule"] = _part("schedule", settings["schedule"]).build("schedule")
        for made, values in ((cls, plain), (Optimisation, settings)):
            hints = get_type_hints(made)
            for name, value in values.items():
                if not fits(value, hints[name]):
                    raise CourseError(f"{name} = {value!r:.60} is of the wrong type")
        if "betas" in settings:
            settings["betas"] = tuple(settings["betas"])
        return cls(**plain | {"optimisation": Optimisation(**settings)})

    def change(self, **changes) -> "Experiment":
        """A copy with other fields; a dict changes single settings of the optimisation or a part.

        experiment.change(seed=2, optimisation={"epochs": 3}, encoder={"dropout": 0.5})
        """
        _known("field of an experiment", changes, type(self))
        for name, value in changes.items():
            if isinstance(value, dict):
                current = getattr(self, name)
                if isinstance(current, Part):
                    changes[name] = Part(current.kind, current.options | value)
                else:
                    _known(f"field of the {name}", value, type(current))
                    changes[name] = replace(current, **value)
        return replace(self, **changes)


def _renamed(plain: dict) -> dict:
    """Return a copy with today's names; kept results have those of the day that they were made."""
    plain = dict(plain)
    if "reading" in plain:
        plain["input_embedding"] = plain.pop("reading") | {"kind": "InputEmbedding"}
    return plain


def _path(what: str, text: str) -> None:
    """CourseError unless it names a folder below the one of all runs, or none."""
    good = isinstance(text, str)
    if good and text:
        parts = text.split("/") if what == "name" else [text]
        good = not any(p in ("", ".", "..") or set(p) & set('/\\:*?"<>|\0') for p in parts)
    if not good:
        raise CourseError(f"{what} names the folder of a run, which {text!r} cannot")


_OPTIONAL = ("output_words", "adaptation", "decoding")


def fits(value: Any, hint: Any) -> bool:
    """Whether a value read from a file or a command has the type of an annotation: a whole number
    is a float, too, and a list a tuple or sequence, but True is no number."""
    return any(_fits_one(value, one) for one in _alternatives(hint))


def _fits_one(value: Any, hint: Any) -> bool:
    kind, inside = get_origin(hint) or hint, get_args(hint)
    if kind in LISTS:
        if not isinstance(value, list | tuple):
            return False
        if _of_any_length(inside):
            return all(fits(v, one) for v in value for one in inside[:1])
        return len(value) == len(inside) and all(map(fits, value, inside))
    if kind in (object, Any) or not isinstance(kind, type):  # of a Literal, say, nothing is known
        return True
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _of_any_length(inside: tuple) -> bool:
    """Whether a list with these arguments, as of `tuple[int, ...]`, may have any length."""
    return len(inside) < 2 or inside[1] is ...


def kinds_of(hint: Any) -> set[type]:
    """The types that an annotation allows, without what is inside them."""
    return {get_origin(one) or one for one in _alternatives(hint)}


def _alternatives(hint: Any) -> tuple:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def spelled(hint: Any) -> str:
    """`a number or a list of numbers`: what an annotation allows, for a message."""
    words = []
    for one in _alternatives(hint):
        kind, inside = get_origin(one) or one, get_args(one)
        many = {int: "whole numbers", float: "numbers"}.get(inside[0] if inside else None, "values")
        count = "" if _of_any_length(inside) else f"{len(inside)} "
        name = WORDS.get(kind, getattr(kind, "__name__", str(kind)))
        words.append(f"a list of {count}{many}" if kind in LISTS else name)
    return " or ".join(words)


LISTS = (list, tuple, Sequence)
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
WORDS |= {NoneType: "none", dict: "a table"}


def _part(name: str, plain: dict) -> Part:
    good = isinstance(plain, dict) and "kind" in plain and not set(plain) - {"kind", "options"}
    if not good or not isinstance(plain.get("options", {}), dict):
        raise CourseError(f'{name} must be {{"kind": …, "options": {{…}}}}, not {plain!r:.60}')
    return Part(**plain)


def _known(kind: str, names: dict, cls: type) -> None:
    known = [f.name for f in fields(cls)]
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)


def _listed(value):
    """Tuples as lists, as JSON will return them."""
    if isinstance(value, dict):
        return {k: _listed(v) for k, v in value.items()}
    return [_listed(v) for v in value] if isinstance(value, list | tuple) else value


def sum_of(objectives: list):
    """The sum of one or more objectives."""
    if not objectives:
        raise CourseError("an experiment needs at least one objective, such as CrossEntropy")
    total = objectives[0]
    for objective in objectives[1:]:
        total = total + objective
    return total
