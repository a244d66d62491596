"""Time and memory of every output layer: against its naive PyTorch form, and against our softmax.

Each method is measured twice: alone, forward and backward from given contexts, and inside a whole
training step of an AWD-LSTM's size, with plain nn.LSTMs around it. The naive form of a layer is its
`reference`; those of penalties and of the augmented loss stand here.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.floor import limits
from benchmarks.launches import where
from benchmarks.timing import alternating, conditions, in_a_process, undisturbed, zipf_text
from benchmarks.work import Work, timed
from course_lib import machine, rivals
from course_lib.output_layers import (
    AdaptiveSoftmax,
    AdversarialMixtureOfSoftmaxes,
    AdversarialSoftmax,
    AugmentedLoss,
    CrossEntropy,
    FullWords,
    GatedSoftmax,
    GeneralizedSigSoftmax,
    LabelSmoothing,
    MixtureOfContexts,
    MixtureOfSoftmaxes,
    PiecewiseLinearSoftmax,
    SigSoftmax,
    SoftCappedSoftmax,
    Softmax,
    SpectralWords,
    ZLoss,
)
from course_lib.output_layers.naive import plain_logits
from course_lib.protocols import Learning
from course_lib.regularizers import (
    ActivationRegularizer,
    Activations,
    ContextDispersion,
    CosineRegularizer,
    DOptimal,
    ExponentialPrior,
    MuLoss,
    Orthogonality,
    PastDecode,
    TemporalActivationRegularizer,
)

SIZE = 400  # d, and the hidden size that the output layer reads
# vocabulary -> positions: an AWD-LSTM's batch on Penn Treebank and WikiText-2, and for the large
# vocabularies as many as keep a naive table of logits at 0.4 GB
SHAPES = {10_000: 1400, 33_278: 5600, 128_000: 700, 267_735: 360}
SIZES, BATCH = (400, 1150, 1150, 400), 20
TABLE = "benchmarks/layers/KIND/WORDS-PRECISION"  # where `output-layers --keep` puts its tables
_PRIOR = ExponentialPrior(weight=1.0, c1=10.0, c2=0.1, gamma=0.5)
_PENALTIES = (Orthogonality(0.1, 0.1, 0.1, 0.1), _PRIOR)
_STEADY = (ActivationRegularizer(), TemporalActivationRegularizer())
_AUGMENTED = AugmentedLoss(weight=13.0, temperature=20.0)


def _plain(layer, hidden, target):
    """Return the layer's cross-entropy by its plain form."""
    return layer.reference(hidden, target)


@dataclass(frozen=True)
class Method:
    """An output layer with its word matrix and penalties, and the naive form of the same loss."""

    layer: Callable[[nn.Module], nn.Module]
    naive: Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor] = _plain
    words: Callable[[int, int], nn.Module] = FullWords
    regularizers: tuple = ()
    objective: Callable | None = None  # in place of the cross-entropy
    copies: int = 4  # tensors of n K N numbers the naive form holds at once, about
    components: int = 1


def _linear(layer, hidden, target):
    """Return the cross-entropy of one product of all logits."""
    return F.cross_entropy(F.linear(hidden, layer.words.matrix(), layer.logit_bias()), target)


def _clusters(words):
    """Return Transformer-XL's clusters of its 267,735 words, as shares of another vocabulary."""
    return AdaptiveSoftmax(words, cutoffs=[words.shape[0] * part // 40 for part in (3, 6, 30)])


def _augmented(layer, hidden, target):
    """The augmented loss (inan2017), with the soft targets of a tied model."""
    W = layer.words.matrix()
    tau = _AUGMENTED.temperature
    logits = plain_logits(layer, hidden)
    soft = (W[target] @ W.T / tau).detach().softmax(-1)
    kl = F.kl_div((logits / tau).log_softmax(-1), soft, reduction="batchmean")
    return F.cross_entropy(logits, target) + _AUGMENTED.weight * kl


def _cosine(layer, hidden, target):
    """The cross-entropy with the cosine penalty (gao2019)."""
    rows = F.normalize(layer.words.matrix())
    cosine = (rows.sum(0).square().sum() - len(rows)) / len(rows) ** 2
    return _plain(layer, hidden, target) + cosine


def _spectrum(layer, hidden, target):
    """The cross-entropy with the penalties of spectrum control (wang2020)."""
    words = layer.words
    loss = _plain(layer, hidden, target)  # forms U Σ Vᵀ
    for factor in (words.U, words.V):
        gram = factor.T @ factor - torch.eye(SIZE, device=hidden.device)
        loss = loss + 0.1 * gram.square().sum()
        loss = loss + 0.1 * torch.linalg.matrix_norm(gram.float(), 2).square()
    prior = _PRIOR.values(SIZE).to(words.sigma)
    return loss + (words.singular_values() - prior).square().sum()


def _d_optimal(layer, hidden, target):
    """The cross-entropy with the penalty that pushes all singular values up (wang2020)."""
    return _plain(layer, hidden, target) - layer.words.sigma.log().sum()


def _mu_loss(layer, hidden, target):
    """The cross-entropy with the squared norm of the mean row (Stollenwerk et al. 2026)."""
    return _plain(layer, hidden, target) + layer.words.matrix().mean(0).square().sum()


def _z_loss(layer, hidden, target):
    """The cross-entropy with the squared logarithm of the normaliser (PaLM 2022)."""
    logits = plain_logits(layer, hidden)
    return F.cross_entropy(logits, target) + 1e-4 * logits.logsumexp(-1).square().mean()


def _smoothed(layer, hidden, target):
    """The cross-entropy with smoothed labels (Szegedy et al. 2016)."""
    return F.cross_entropy(plain_logits(layer, hidden), target, label_smoothing=0.1)


def _steady(layer, hidden, target):
    """The cross-entropy with AR and TAR (Merity et al. 2018)."""
    columns = hidden.view(-1, BATCH, SIZE)
    change = columns[1:] - columns[:-1]
    loss = _plain(layer, hidden, target)
    return loss + 2.0 * hidden.square().mean() + change.square().mean()


def _dispersion(layer, hidden, target):
    """The cross-entropy with the penalty on contexts that are alike (Liu et al. 2026)."""
    unit = F.normalize(hidden.view(-1, BATCH, SIZE), dim=-1).transpose(0, 1)
    steps = unit.shape[1]
    angle = (unit @ unit.mT).clamp(-1 + 1e-4, 1 - 1e-4).acos() / math.pi
    others = ~torch.eye(steps, dtype=torch.bool, device=hidden.device)
    similar = (-angle[:, others] / 0.5).exp()
    return _plain(layer, hidden, target) + 0.1 * similar.mean(1).log().mean()


def _past(layer, hidden, target):
    """The cross-entropy with past-decode regularisation (Brahma 2018)."""
    W = layer.words.matrix()
    logits = plain_logits(layer, hidden)
    past = layer.past(logits.softmax(-1) @ W).tanh()
    decoded = F.cross_entropy(F.linear(past, W, layer.past_bias), target)
    return F.cross_entropy(logits, target) + 0.001 * decoded


class TorchSoftmax(Softmax):
    """The softmax by PyTorch's own chunked cross-entropy, from version 2.13 on."""

    def forward(self, hidden, target, objective=None, soft=None, reduction="mean"):
        """Return the loss, and again as its cross-entropy part."""
        x, matrix, target = hidden.flatten(0, -2)[:, None], self.words.matrix(), target.flatten()
        narrow = torch.is_autocast_enabled(x.device.type)
        dtype = torch.get_autocast_dtype(x.device.type) if narrow else x.dtype
        way = partial(rivals.by_torch, reduction=reduction)
        loss = rivals.computed(way, x, matrix, self.logit_bias(), None, target, dtype)
        return loss, loss.detach()


METHODS = {
    "softmax": Method(Softmax),
    "adversarial": Method(AdversarialSoftmax),
    "cosine": Method(Softmax, _cosine, regularizers=(CosineRegularizer(),)),
    "spectrum": Method(Softmax, _spectrum, SpectralWords, _PENALTIES),
    "d-optimal": Method(Softmax, _d_optimal, SpectralWords, (DOptimal(1.0),)),
    "mu-loss": Method(Softmax, _mu_loss, regularizers=(MuLoss(1.0),)),
    "z-loss": Method(Softmax, _z_loss, objective=CrossEntropy() + ZLoss()),
    "label smoothing": Method(Softmax, _smoothed, objective=LabelSmoothing()),
    "AR and TAR": Method(Softmax, _steady, regularizers=_STEADY),
    "dispersion": Method(Softmax, _dispersion, regularizers=(ContextDispersion(),)),
    "past-decode": Method(Softmax, _past, regularizers=(PastDecode(),), copies=10),
    "adaptive": Method(_clusters, copies=6),
    "gated": Method(GatedSoftmax, copies=10),
    "augmented": Method(Softmax, _augmented, objective=CrossEntropy() + _AUGMENTED, copies=10),
    "sigsoftmax": Method(SigSoftmax, copies=6),
    "gss": Method(GeneralizedSigSoftmax, copies=8),
    "capped": Method(SoftCappedSoftmax, copies=6),
    "plif": Method(PiecewiseLinearSoftmax, copies=12),
    "moc": Method(MixtureOfContexts),
    "mos": Method(MixtureOfSoftmaxes, copies=6, components=15),
    "mos+adversarial": Method(AdversarialMixtureOfSoftmaxes, copies=8, components=15),
}
if hasattr(F, "linear_cross_entropy"):
    METHODS["softmax by torch"] = Method(TorchSoftmax, _linear)


class _Alone(nn.Module):
    """The output layer and its penalties on given contexts."""

    def __init__(self, method: Method, vocabulary: int, naive: bool):
        super().__init__()
        self.layer = method.layer(method.words(vocabulary, SIZE))
        for regularizer in method.regularizers:
            if isinstance(regularizer, Learning):
                regularizer.prepare(self.layer)
        self.method = method
        self.naive = naive

    def forward(self, hidden, target):
        if self.naive:
            return self.method.naive(self.layer, hidden.flatten(0, -2), target.flatten())
        words = self.layer.words
        objective = self.method.objective
        soft = None
        if objective is not None and objective.needs_soft_targets:
            soft = words(target.flatten()), words.matrix()
        loss, _ = self.layer(hidden, target, objective, soft)
        # Any words do for those that were read; the targets are at hand.
        activations = Activations(hidden, hidden, self.layer, target)
        for regularizer in self.method.regularizers:
            loss = loss + regularizer(words, activations)
        return loss


class _Whole(nn.Module):
    """An output layer behind an embedding and three plain LSTMs of AWD-LSTM's sizes, tied."""

    def __init__(self, method: Method, vocabulary: int, naive: bool):
        super().__init__()
        self.output = _Alone(method, vocabulary, naive)
        pairs = zip(SIZES, SIZES[1:], strict=False)
        self.lstms = nn.ModuleList(nn.LSTM(*pair) for pair in pairs)

    def forward(self, tokens, target):
        hidden = self.output.layer.words(tokens)
        for lstm in self.lstms:
            hidden = lstm(hidden)[0]
        return self.output(hidden, target)


def _stepper(name, naive, precision, shape, whole, device="cpu"):
    """Return a step as a function, and the bytes that its gradients need anyway.

    name: of the method; naive: whether by its naive form; precision: fp32 or bf16;
    shape: vocabulary and positions; whole: a training step with its update, not the layer alone.
    """
    # model and random text with Zipf's frequencies
    torch.manual_seed(1)
    vocabulary, n = shape
    model = (_Whole if whole else _Alone)(METHODS[name], vocabulary, naive).to(device)
    text = zipf_text(vocabulary, n + BATCH).view(-1, BATCH).to(device)
    target = text[1:]
    given = text[:-1] if whole else torch.randn(*target.shape, SIZE, device=device)
    if not whole:
        given.requires_grad_()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True) if whole else None

    def step():
        loss = model(given, target)
        with torch.autocast(device, enabled=False):
            loss.backward()
        if optimizer:
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
        model.zero_grad()
        given.grad = None

    held = sum(p.numel() * p.element_size() for p in model.parameters())
    if not whole:
        held += given.numel() * given.element_size()
    return timed(step, precision, device), held


def softmax_work(vocabulary: int, positions: int) -> Work:
    """Return the least work of the softmax alone on all positions: three products, W three times.

    The products are that of contexts and words and those of its two gradients. W is read forward
    and backward, and its gradient is written.
    """
    return Work(6 * positions * SIZE * vocabulary, memory=3 * SIZE * vocabulary)


def _memory(name, naive, precision, shape, device, threads) -> float:
    """Return the peak of two steps in MB, beyond the parameters and a gradient for each of them."""
    torch.set_num_threads(threads)
    where = torch.device(device)
    # a small step first: what the libraries keep for themselves is not counted
    _stepper(name, naive, precision, (500, BATCH), False, device)[0]()
    step, gradients = _stepper(name, naive, precision, shape, False, device)
    if device != "cpu":
        step()  # in which rivals are compared
    before = machine.reset_peak_memory(where)
    step()
    step()
    return machine.peak_memory(where) - before - gradients / 2**20


def output_layers(
    vocabulary: int,
    names: list[str],
    precision: str,
    rounds: int = 5,
    whole: bool = True,
    device: str | None = None,
):
    """Yield one row a method, the softmax first, with times, ratios and memory.

    vocabulary: one of `SHAPES`; names: of methods; precision: fp32 or bf16; rounds: timed steps of
    each variant; whole: whether whole training steps are timed, too; device: None for the fastest.

    "ms", "naive ms": forward and backward alone; "of naive", "of softmax": ratios of times;
    "MB", "naive MB": beyond parameters and their gradients; "step": a whole training step's time
    over that with our softmax. NaN where a naive form would need more than half of the memory.
    The softmax's row also has "floor ms" and "of floor", its share of that floor, both medians of
    the rounds, and "where", the operators that take its time.
    The row's `conditions` come last.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    shape = vocabulary, SHAPES[vocabulary]
    total = machine.total_memory(torch.device(device))
    nan = float("nan")
    work = softmax_work(*shape)

    def measured_row(name):
        method = METHODS[name]
        fits = 4 * math.prod(shape) * method.components * method.copies < total / 2
        variants = {"": (name, False)} | ({"naive ": (name, True)} if fits else {})
        # the layer alone, and the softmax beside its floor
        steps = {
            key: _stepper(*variant, precision, shape, False, device)[0]
            for key, variant in (variants | {"softmax": ("softmax", False)}).items()
        }
        floors: list[float] = []
        if name == "softmax":
            steps["floor"] = lambda: floors.append(limits(precision, device).seconds(work))
        alone = alternating(steps, rounds)
        row = {"method": name, "naive ms": nan, "naive MB": nan, "step": nan}
        for key, variant in variants.items():
            row[f"{key}ms"] = 1e3 * alone[key]
            row[f"{key}MB"] = in_a_process(_memory, *variant, precision, shape, device, threads)
        row["of naive"] = alone.ratio("", "naive ") if fits else nan
        row["of softmax"] = alone.ratio("", "softmax")
        if name == "softmax":
            floors = floors[-rounds:]  # those before were to warm up
            shares = [floor / taken for floor, taken in zip(floors, alone.rounds[""], strict=True)]
            row["floor ms"] = 1e3 * statistics.median(floors)
            row["of floor"] = statistics.median(shares)
            row["where"] = where(steps[""], device)
        measured = [alone]
        # in a training step
        if whole:
            steps = {
                key: _stepper(key, False, precision, shape, True, device)[0]
                for key in {"softmax": None, name: None}
            }
            measured.append(alternating(steps, rounds))
            row["step"] = measured[-1].ratio(name, "softmax")
        return row | conditions(device, *measured)

    for name in dict.fromkeys(["softmax", *names]):
        yield undisturbed(partial(measured_row, name))
