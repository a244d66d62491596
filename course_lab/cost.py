"""The cost of a run, before it is run: parameters, operations, memory, minutes.

No corpus is read and no weight is made: corpora's sizes are known by name, models are built on the
meta device. Operations are those of matrix products, two for a multiplication and an addition;
what is elementwise shows only in the time, through `EFFICIENCY`.
"""

import inspect
import math
from typing import Any, NamedTuple

import torch

from course_lab import corpora
from course_lab.corpora import cldr
from course_lab.corpora.docstrings import TOKENS, WORDS
from course_lab.corpora.registry import DOWNLOADS
from course_lab.corpora.translation import IWSLT14_PIECES
from course_lab.experiment import Experiment
from course_lab.parts import Part
from course_lib.data import Corpus, SentencePairs
from course_lib.errors import CourseError
from course_lib.models import RHN, LSTMTranslator, OutputModel, Transformer, TransformerXL
from course_lib.models.lstm import LSTMStack
from course_lib.output_layers import (
    AdaptiveSoftmax,
    MixtureOfContexts,
    MixtureOfSoftmaxes,
    SpectralWords,
)
from course_lib.regularizers import Orthogonality, PastDecode
from course_lib.training.optimisation import Optimisation

EFFICIENCY = 0.5  # whole steps reach 0.4 to 0.6 of the rate of their matrix products alone
BLOCKS = 64  # MB of logits that the output layers' kernel holds at a time, unless a recipe says so
SLOTS = {"sgd": 0, "adamw": 2, "coupled-adam": 1, "ember": 0, "muon": 1}  # beside a parameter
SENTENCE = {"multi30k": 15, "iwslt14": 26, "wmt14": 29, "cldr": 9}  # pieces of one, about


class Size(NamedTuple):
    """Words N, and targets of each split."""

    words: int
    train: int
    valid: int
    test: int


class Cost(NamedTuple):
    """A whole run costs this, on one process."""

    parameters: int
    flops: float
    memory: float  # bytes, the most at one time
    seconds: float


class Rates(NamedTuple):
    """Operations a second in products of large matrices, and in those of one recurrent step."""

    large: dict[str, float]  # by precision
    step: dict[str, float]


def cost(experiment: Experiment, rates: Rates) -> Cost:
    """Return the cost of training, of its validations, and of the final figures or the adaptation.

    Beam search is left out. Raise CourseError for a corpus whose size is not known by its name, and
    for n-grams, which are counted and not multiplied.
    """
    e = experiment
    if e.is_counted:
        raise CourseError(f"{e.name} counts n-grams, which takes seconds and no products")
    o = experiment.optimisation
    size = corpus_size(experiment.corpus)
    model = _built(e, size.words)
    learned, steps = _training(e, size)
    read = size.valid * o.epochs + size.valid + size.test
    if e.adaptation is not None and e.adaptation.kind == "DynamicEvaluation":
        learned, read = learned + _dynamic(e.adaptation, size), 0
    macs = encoder_macs(model, e) + output_macs(model, e)
    flops = macs * (6 * learned + 2 * read) + steps * _penalties(model)
    # A recurrence waits for itself in its own product and in the gradient of what it read.
    waiting = _recurrent(model) * (4 * learned + 2 * read)
    rate = rates.large[o.precision], rates.step[o.precision]
    seconds = ((flops - waiting) / rate[0] + waiting / rate[1]) / EFFICIENCY
    count = sum(p.numel() for p in model.parameters())
    return Cost(count, flops, _memory(model, e, count), seconds)


# Corpora -----------------------------------------------------------------------------------------


def corpus_size(corpus: Part) -> Size:
    """Return the published counts of a text, or the pieces and about the tokens of sentence pairs.

    Raise CourseError for a corpus that is not known by its name.
    """
    options = corpus.options
    if corpus.kind == "docstrings":
        unknown: Any = math.nan
        size = Size(options.get("words", WORDS) or unknown, *TOKENS)
    elif corpus.kind in SENTENCE:
        given = inspect.signature(corpora.LOADERS[corpus.kind]).parameters["pieces"].default
        variant = options.get("variant", "wang2020")
        pairs = cldr.PAIRS if corpus.kind == "cldr" else DOWNLOADS[corpus.kind].sizes
        assert pairs is not None  # of a corpus of sentences
        tokens = (n * SENTENCE[corpus.kind] for n in pairs)
        size = Size(options.get("pieces", given) or IWSLT14_PIECES[variant], *tokens)
    elif (known := DOWNLOADS.get(corpus.kind)) and known.words and known.sizes:
        size = Size(known.words, *known.sizes)
    else:
        raise CourseError(f"the size of {corpus.kind} is not known before it is read")
    if "half" in options:
        size = size._replace(train=size.train // 2)
    if "small" in options:
        each = SENTENCE.get(corpus.kind, 1)
        kind = SentencePairs if corpus.kind in SENTENCE else Corpus
        given = inspect.signature(kind.small).parameters
        least = {k: options["small"].get(k, given[k].default) for k in size._fields}
        most = {k: v if k == "words" else v * each for k, v in least.items()}
        size = Size(**{k: min(most[k], v) for k, v in size._asdict().items()})
    if size.words != size.words:
        raise CourseError(f"how many words {corpus.kind} has is not known before it is read")
    return size


def _training(e: Experiment, size: Size) -> tuple[float, float]:
    """Return the targets learned from and the steps made, over the run."""
    o = e.optimisation
    batch = o.max_tokens if e.translates else o.batch * o.length
    steps = o.epochs * size.train / batch
    if o.max_steps is not None:
        steps = min(steps, o.max_steps)
    return steps * batch, steps


def _dynamic(adaptation: Part, size: Size) -> float:
    """Return the targets read: for the train split's statistics, the search and both splits."""
    settings = adaptation.build("adaptation")
    grid = (settings.rate, settings.decay, settings.epsilon)
    combinations = math.prod(len(x) if isinstance(x, list | tuple) else 1 for x in grid)
    searched = min(settings.search_tokens or size.valid, size.valid)
    search = combinations * searched if combinations > 1 else 0
    return size.train + search + size.valid + size.test


# Operations --------------------------------------------------------------------------------------


def encoder_macs(model: OutputModel, e: Experiment) -> float:
    """Return multiplications with additions of one pass of the encoder, for each target.

    A translator's source is taken to be as long as its target.
    """
    encoder, o = model.encoder, e.optimisation
    macs: float = sum(p.numel() for p in encoder.parameters() if p.dim() > 1)
    if isinstance(encoder, TransformerXL):
        attention: Any = encoder.layers[0].attention
        spans = o.length + encoder.memory
        d, inner = attention.query.weight.T.shape
        keys = 2 * d * inner * (spans / o.length - 1)  # of the memory, too
        positions = d * inner * (spans / (o.batch * o.length) - 1)  # once for the whole batch
        products = 3 * spans * inner  # with keys, positions and values
        macs += len(encoder.layers) * (keys + positions + products)
    elif isinstance(encoder, Transformer):  # three attentions in a layer of both stacks
        attentions = 3 * len(encoder.encoder_layers)
        macs += attentions * 2 * SENTENCE[e.corpus.kind] * encoder.input_size
    elif isinstance(encoder, LSTMTranslator):
        macs += 2 * SENTENCE[e.corpus.kind] * encoder.output_size
    return macs


def output_macs(model: OutputModel, e: Experiment) -> float:
    """Return multiplications with additions of the output layer, for each target.

    Word matrices that are factors count with it.
    """
    layer, (words, d) = model.output_layer, model.output_layer.words.shape
    macs = words * d
    if isinstance(layer, AdaptiveSoftmax):
        macs = d * _adaptive_rows(layer.edges)
    elif isinstance(layer, MixtureOfSoftmaxes):
        macs *= 1 if isinstance(layer, MixtureOfContexts) else layer.components
        macs += layer.latent.weight.numel() + layer.prior.weight.numel()
    if any(part.kind == "PastDecode" for part in e.regularizers):  # predict, Σ p_j w_j, the past
        macs += 3 * words * d
    for part in e.objectives:
        if part.kind == "AugmentedLoss":  # E E_y, differentiated only where the option says so
            macs += words * d * (1 if part.options.get("gradient") else 1 / 3)
    if isinstance(layer.words, SpectralWords):
        macs += (3 if e.translates else 2) * d * d  # every reading, and predicting
    return macs


def _adaptive_rows(edges: list[int]) -> float:
    """Return the rows a target meets: the head, and its cluster as often as Zipf's law has it."""

    def share(low: int, high: int) -> float:
        return math.log((high + 0.5) / (low + 0.5)) / math.log((edges[-1] + 0.5) / 0.5)

    clusters = zip(edges[1:], edges[2:], strict=False)
    return edges[1] + sum((high - low) * share(low, high) for low, high in clusters)


def _recurrent(model: OutputModel) -> int:
    """Return how many numbers the matrices of the recurrence hold."""
    encoder = model.encoder
    matrices = encoder.recurrent if isinstance(encoder, LSTMStack | RHN) else []
    if isinstance(encoder, LSTMTranslator):
        matrices = [p for name, p in encoder.named_parameters() if ".weight_hh" in name]
    return sum(matrix.numel() for matrix in matrices)


def _penalties(model: OutputModel) -> float:
    """Return the operations a step of UᵀU, VᵀV and their gradients."""
    if not any(isinstance(r, Orthogonality) for r in model.regularizers):
        return 0.0
    words, d = model.output_layer.words.shape
    return 4.0 * (words + d) * d * d


# Memory ------------------------------------------------------------------------------------------


def _memory(model: OutputModel, e: Experiment, count: int) -> float:
    """Return the bytes of parameters, gradients, optimiser, means and activations."""
    o = e.optimisation
    copies = 2 + SLOTS[o.optimizer]
    copies += any(x is not None for x in (o.average_from, o.average_after, o.average_last))
    if e.adaptation is not None:  # dynamic evaluation: θ₀, MS_g, the two factors made of it
        copies = 6 if e.adaptation.kind == "DynamicEvaluation" else 1
    tokens = o.max_tokens if e.translates else o.batch * o.length
    numbers = count * copies + activations(model, o) * tokens / o.accumulate
    return 4.0 * numbers + ((e.block_memory or BLOCKS) << 20)


def activations(model: OutputModel, o: Optimisation) -> float:
    """Return how many numbers the backward pass needs of encoder and output layer, for each target.

    Inputs and outputs of every matrix product are counted, and the weights of attention.
    """
    encoder, layer = model.encoder, model.output_layer
    shapes = [p.shape[-2:] for p in encoder.parameters() if p.dim() == 2]
    shapes += [m.shape for p in encoder.parameters() if p.dim() == 3 for m in p]
    numbers = sum(sum(shape) for shape in shapes)
    if isinstance(encoder, TransformerXL):
        attention: Any = encoder.layers[0].attention
        numbers += 3 * len(encoder.layers) * attention.heads * (o.length + encoder.memory)
    if any(isinstance(r, PastDecode) for r in model.regularizers):
        numbers += 4 * layer.words.shape[0]  # its table of probabilities, and gradients of it
    return numbers + layer.words.shape[1] * getattr(layer, "components", 1) * 2


def _built(e: Experiment, vocabulary: int) -> OutputModel:
    """Return the model on the meta device; recipes with the same model share it."""
    shape = [e.encoder, e.words, e.output_words, e.size, e.tied, e.output_layer]
    key = repr([*shape, e.regularizers, vocabulary])
    if key not in _MODELS:
        with torch.device("meta"):
            _MODELS[key] = e.build(vocabulary)
    return _MODELS[key]


_MODELS: dict[str, OutputModel] = {}
