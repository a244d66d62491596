"""Speed and memory of the papers' models beside plain PyTorch, the machine's floor and references.

The floor of a step is that of `benchmarks.floor`, for the work that each case states.
"""

import gc
import statistics
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, groupby

import torch
from torch import nn
from torch.nn import functional as F
from tqdm import tqdm

from benchmarks.floor import limits
from benchmarks.launches import launches, where
from benchmarks.output_layers import METHODS
from benchmarks.reference_models import (
    PlainEncoded,
    PlainLSTM,
    PlainTransformerXL,
    plain_cache,
    plain_dynamic,
    plain_qrnn,
    plain_rhn,
    plain_variational_lstm,
)
from benchmarks.timing import (
    alternating,
    conditions,
    in_a_process,
    remark,
    undisturbed,
    zipf_text,
)
from benchmarks.translation import Translation
from benchmarks.work import (
    KINDS,
    PASSES,
    PRECISIONS,
    Case,
    Reference,
    Training,
    Work,
    stepping,
    timed,
)
from course_lab.kept_costs import times_plain
from course_lib import machine
from course_lib.errors import CourseError
from course_lib.evaluation import cache, dynamic
from course_lib.machine import keep_freed_memory
from course_lib.models import (
    AWDLSTM,
    QRNN,
    RHN,
    InputEmbedding,
    LanguageModel,
    TransformerXL,
    VariationalLSTM,
    detach,
)
from course_lib.output_layers import FullWords, MixtureOfSoftmaxes, Softmax
from course_lib.regularizers import ActivationRegularizer, TemporalActivationRegularizer
from course_lib.training import graphs


@dataclass(frozen=True)
class Recurrent(Training):
    """A training step of AWD-LSTM, with `components` a mixture of softmaxes."""

    vocabulary: int
    sizes: tuple[int, ...]  # of the word vectors and of each layer
    batch: int
    reference: Reference
    components: int = 0
    input_dropout: float = 0.4
    hidden_dropout: float = 0.25
    latent_dropout: float = 0.29
    parts: int = 1  # in which the plain mixture takes the batch, as the released code does
    length: int = 70
    rate: float = 1e-3  # of learning, which does not change the speed
    penalties: tuple = (ActivationRegularizer(), TemporalActivationRegularizer())

    def build(self, kind: str, device: str) -> nn.Module:
        """Return the model in training mode."""
        if kind == "plain":
            rates = self.input_dropout, self.hidden_dropout, self.latent_dropout
            return PlainLSTM(self.vocabulary, self.sizes, self.components, *rates).to(device)
        size, *units = self.sizes
        words = FullWords(self.vocabulary, size)
        if self.components:
            options = {"components": self.components, "dropout": self.latent_dropout}
            layer = MixtureOfSoftmaxes(words, units[-1], **options)
        else:
            layer = Softmax(words)
        encoder = AWDLSTM(size, units, 0.5, self.input_dropout, self.hidden_dropout)
        options = {
            "regularizers": self.penalties,
            "input_embedding": InputEmbedding(0.1),
            "output_dropout": 0.4,
        }
        return LanguageModel(words, encoder, layer, **options).to(device)

    def stepper(self, kind, precision, device):
        parts = self.parts if kind == "plain" else 1
        return training_step(self, kind, precision, device, clip=0.25, parts=parts)

    def work(self, precision: str) -> Work:
        """6 operations a token for each weight of a product: forward, and two gradients.

        The state that is handed in gets none, so that the recurrence has one product less.
        """
        size, last = self.sizes[0], self.sizes[-1]
        pairs = list(zip(self.sizes, self.sizes[1:], strict=False))
        recurrent = sum(4 * units * units for _, units in pairs)
        layers = recurrent + sum(4 * units * read for read, units in pairs)
        output = max(1, self.components) * self.vocabulary * size
        latent = self.components * last * (size + 1)
        stored = layers + self.vocabulary * size + latent
        again = 1 - 1 / self.length  # the first word's reading is among the passes
        return Work(
            6 * (layers + output + latent) - 2 * recurrent / self.length,
            2 * recurrent * again / self.batch * PRECISIONS[precision] / 4,
            PASSES * stored / (self.batch * self.length),
        )


@dataclass(frozen=True)
class Attention(Training):
    """A training step of Transformer-XL, tied, its memory full."""

    vocabulary: int
    size: int
    layers: int
    heads: int
    head_size: int
    feedforward: int
    batch: int
    length: int
    memory: int
    reference: Reference | None = None
    rate: float = 1e-3

    def build(self, kind: str, device: str) -> nn.Module:
        """Return the model in training mode."""
        shape = self.layers, self.heads, self.head_size, self.feedforward
        if kind == "plain":
            return PlainTransformerXL(self.vocabulary, self.size, *shape, self.memory).to(device)
        words = FullWords(self.vocabulary, self.size, 0.02, normal=True)
        encoder = TransformerXL(self.size, *shape, memory=self.memory)
        return LanguageModel(words, encoder, Softmax(words, bias=False)).to(device)

    def stepper(self, kind, precision, device):
        return training_step(self, kind, precision, device, clip=0.25)

    def work(self, precision: str) -> Work:
        """Scores and values of allowed pairs only; the memory and the positions get no gradient."""
        inner, reach = self.heads * self.head_size, self.memory + self.length
        per_token = 2 * self.size * inner + 2 * self.size * self.feedforward  # q, output, two of FF
        pairs = self.memory + (self.length + 1) / 2
        keys = 2 * self.size * inner * (2 * reach + self.length) / self.length
        positions = 2 * self.size * inner * reach / (self.length * self.batch)
        layer = 3 * (per_token + 3 * pairs * inner) + keys + positions
        weights = self.layers * (per_token + 3 * self.size * inner) + self.vocabulary * self.size
        operations = 2 * (self.layers * layer + 3 * self.vocabulary * self.size)
        return Work(operations, 0.0, PASSES * weights / (self.batch * self.length))


@dataclass(frozen=True)
class Encoded(Training):
    """A training step of a tied model whose encoder the released codes loop over word by word."""

    vocabulary: int
    size: int
    encoder: Callable[[], nn.Module]
    plain: Callable  # the same encoder's plain form: (encoder, x, state) -> hidden, state
    batch: int
    length: int
    reference: Reference | None = None
    rate: float = 1e-3

    def build(self, kind: str, device: str) -> nn.Module:
        """Return the model in training mode."""
        if kind == "plain":
            return PlainEncoded(self.vocabulary, self.size, self.encoder(), self.plain).to(device)
        words = FullWords(self.vocabulary, self.size)
        return LanguageModel(words, self.encoder(), Softmax(words, bias=False)).to(device)

    def stepper(self, kind, precision, device):
        return training_step(self, kind, precision, device, clip=5.0)

    def work(self, precision: str) -> Work:
        """6 operations a token for each weight of a product; the handed-in state has no gradient.

        The recurrent matrices are those that every time step reads anew. An RHN has several in one
        parameter, of which the first reads the handed-in state.
        """
        with torch.device("meta"):
            named = self.encoder().named_parameters()
            matrices = {n: p for n, p in named if p.dim() > 1 and n != "bias"}
        read = [matrix for name, matrix in matrices.items() if name.startswith("recurrent")]
        recurrent = sum(matrix.numel() for matrix in read)
        handed = sum((matrix[0] if matrix.dim() == 3 else matrix).numel() for matrix in read)
        weights = sum(p.numel() for p in matrices.values()) + self.vocabulary * self.size
        again = 1 - 1 / self.length  # the first word's reading is among the passes
        return Work(
            6 * weights - 2 * handed / self.length,
            2 * recurrent * again / self.batch * PRECISIONS[precision] / 4,
            PASSES * weights / (self.batch * self.length),
        )


@dataclass(frozen=True)
class CacheCase(Case):
    """The continuous cache over given hidden states.

    Each word has a probability from the model's softmax and one from the cache.
    """

    vocabulary: int
    size: int
    window: int
    reference: Reference
    tokens: dict[str, int] = field(default_factory=lambda: {"course": 10_000, "plain": 140})
    theta: float = 1.0
    weight: float = 0.1

    @property
    def alike(self) -> "CacheCase":
        """Return the case with our number of tokens for the plain form, too."""
        return replace(self, tokens=dict.fromkeys(KINDS, self.tokens["course"]))

    def stepper(self, kind, precision, device):
        torch.manual_seed(1)
        layer = Softmax(FullWords(self.vocabulary, self.size)).to(device).eval()
        count = self.tokens[kind] + self.window * (kind == "plain")  # it skips a window
        hidden, target = torch.randn(count, self.size) * 0.05, zipf_text(self.vocabulary, count)
        hidden, target = hidden.to(device), target.to(device)
        seen = (
            F.one_hot(target[: self.window], self.vocabulary).float() if kind == "plain" else None
        )

        @torch.no_grad()
        def step():
            if kind == "plain":
                return plain_cache(
                    hidden, layer.words.weight, layer.bias, target, seen, self.theta, self.weight
                )
            nll, _ = layer(hidden, target, reduction="none")
            found = cache.Predictions(-nll, hidden, target)
            cached = cache.cache_probability(found, self.window, self.theta)
            return cache.mixed_perplexity(found, cached, self.weight)

        return timed(step, precision, device)

    def work(self, precision: str) -> Work:
        return Work(2 * self.size * (self.vocabulary + self.window))


@dataclass(frozen=True)
class DynamicCase(Case):
    """A case of dynamic evaluation: segments of 5 tokens at batch 1, an update after each."""

    model: Recurrent
    reference: Reference
    segments: int = 4  # timed at once

    @property
    def tokens(self) -> dict[str, int]:
        return dict.fromkeys(KINDS, self.segments * dynamic.SEGMENT)

    def stepper(self, kind, precision, device):
        torch.manual_seed(1)
        model = self.model.build(kind, device)
        text = zipf_text(self.model.vocabulary, 200_000).to(device)
        squares = {n: torch.rand_like(p) * 1e-6 for n, p in model.named_parameters()}
        options = {"rate": 1e-4, "decay": 1e-3, "epsilon": 1e-3}
        if kind == "plain":
            steps = plain_dynamic(model.eval(), text[:, None], [*squares.values()], **options)
        else:
            steps = dynamic.losses(model, text, 0, squares, **options)

        def step():
            for _ in range(self.segments):
                next(steps)

        return timed(step, precision, device)

    def work(self, precision: str) -> Work:
        """Return the work of training at batch 1 with the update of dynamic evaluation.

        The update also reads θ₀ and the gradients' mean squares, and no norm is taken.
        """
        once = replace(self.model, batch=1, length=dynamic.SEGMENT).work(precision)
        return replace(once, memory=once.memory * (PASSES + 1) / PASSES)


RECORDED = graphs.PLAIN + 2  # steps until a graph is recorded: the first has no state
_PTB, _WT2 = 10_000, 33_278
_AWD, _MOS = "salesforce/awd-lstm-lm", "zihangdai/mos"
_MOS_PTB = Recurrent(
    _PTB, (280, 960, 960, 620), 12, components=15, hidden_dropout=0.225,
    reference=Reference(_MOS, (308, 370), 2320),
)  # fmt: skip
MODELS = {
    "awd-lstm/ptb": Recurrent(
        _PTB, (400, 1150, 1150, 400), 20,
        Reference(_AWD, (865, 1080), 1105),
    ),
    "awd-lstm/wikitext-2": Recurrent(
        _WT2, (400, 1150, 1150, 400), 80,
        Reference(_AWD, (761, 761), 3509),
        input_dropout=0.65, hidden_dropout=0.2,
    ),
    "mos/ptb": _MOS_PTB,
    "mos/wikitext-2": Recurrent(
        _WT2, (300, 1150, 1150, 650), 15, components=15, parts=3,
        reference=Reference(_MOS, (87, 87), 3266),
        input_dropout=0.55, hidden_dropout=0.2,
    ),
    "transformer-xl/ptb": Attention(
        _PTB, 410, 4, 10, 41, 2100, batch=4, length=150, memory=150,
        reference=Reference("kimiyoung/transformer-xl", (981, 981), 943),
    ),
    "transformer-128/ptb": Attention(_PTB, 128, 2, 4, 32, 512, batch=20, length=35, memory=0),
    "transformer-base/wmt14": Translation(37_000, 512, 6, 8, 2048, batch=32, length=25),
    "vd-lstm-200/ptb": Encoded(
        _PTB, 200, partial(VariationalLSTM, 200, 200, dropout=0.3), plain_variational_lstm, 20, 35
    ),
    "vd-rhn/ptb": Encoded(_PTB, 830, partial(RHN, 830), plain_rhn, 20, 35),
    "awd-qrnn/ptb": Encoded(_PTB, 400, partial(QRNN, 400), plain_qrnn, 20, 70),
    "cache/ptb": CacheCase(
        _PTB, 400, 500, Reference("pointer.py of " + _AWD, (617, 617), 812)
    ),
    "dynamic/ptb": DynamicCase(
        _MOS_PTB, Reference("dynamiceval.py of " + _MOS, (13.9, 13.9), 1751)
    ),
}  # fmt: skip


def training_step(case, kind, precision, device, clip, parts=1) -> Callable[[], None]:
    """Return a step on random text: forward, backward, clipping and SGD, the state carried."""
    torch.manual_seed(1)
    return whole_step(case.build(kind, device), case, kind, precision, device, clip, parts)


def whole_step(model, case, kind, precision, device, clip, parts=1) -> Callable[[], None]:
    """Return one training step of a given model on random text, its state carried."""
    if kind == "course" and graphs.fits(model.encoder, torch.device(device), 1, parts):
        model.encoder.forward = graphs.Replayed(model.encoder)  # as in training
    text = zipf_text(case.vocabulary, (case.length + 1) * case.batch)
    text = text.view(-1, case.batch).to(device)
    pieces, states = text.chunk(parts, dim=1), [None] * parts

    def losses():
        for i, piece in enumerate(pieces):
            made = model(piece[:-1], states[i], piece[1:])
            loss, state = made if kind == "plain" else (made.loss, made.state)
            states[i] = detach(state)
            yield loss / parts

    return stepping(model, losses, case.rate, kind, precision, device, clip)


def peak_memory(case, kind: str, precision: str, device: str, threads: int) -> float:
    """Return MB at the peak of two steps: of a fresh process with its libraries, or on a GPU.

    There it is what PyTorch holds beyond what it held before, a recorded graph included.
    """
    if device == "cpu":
        return in_a_process(_peak_memory, case, kind, precision, device, threads)
    gc.collect()
    torch.cuda.empty_cache()
    held = machine.reset_peak_memory(torch.device(device))
    return _peak_memory(case, kind, precision, device, threads) - held


def _peak_memory(case, kind, precision, device, threads) -> float:
    torch.set_num_threads(threads)
    keep_freed_memory()
    step = case.stepper(kind, precision, device)
    for _ in range(2 if device == "cpu" else RECORDED):
        step()
    return machine.peak_memory(torch.device(device))


def models(
    names: list[str], precision: str, rounds: int = 3, device: str | None = None
) -> Iterator[dict]:
    """Yield one row a model: speed, floor, memory, and what the reference did.

    "tokens/s", "plain": of the course's and of the plain form, medians of alternating steps;
    "over plain": the ratio of the two speeds in each round;
    "floor": tokens/s that the machine allows, the median of one in each round;
    "MB", "plain MB": `peak_memory`, for as many tokens;
    "launches", "plain launches": operators that a step starts, for as many tokens as ours;
    "where": shares of the course's step by operator.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    keep_freed_memory()
    threads = torch.get_num_threads()

    def measured_row(name):
        case = MODELS[name]
        steps = {kind: case.stepper(kind, precision, device) for kind in KINDS}
        if device != "cpu":  # until rivals are compared and the encoder's graph is recorded
            for _ in range(RECORDED):
                steps["course"]()
        # A virtual machine's rates change within seconds, so the floor is measured in each round.
        work = case.work(precision)
        floors = []
        steps["floor"] = lambda: floors.append(limits(precision, device).seconds(work))
        seconds = alternating(steps, rounds)
        times = where(steps["course"], device)
        started = {kind: launches(steps[kind], device) for kind in KINDS}
        del steps
        speed = {kind: case.tokens[kind] / seconds[kind] for kind in KINDS}
        over = seconds.ratios("plain", "course")
        memory = {k: peak_memory(case.alike, k, precision, device, threads) for k in KINDS}
        longer = case.tokens["course"] / case.tokens["plain"]
        return {
            "model": name,
            "tokens/s": speed["course"],
            "plain": speed["plain"],
            "over plain": [ratio * longer for ratio in over],
            "floor": 1 / statistics.median(floors[-rounds:]),  # without those of warming up
            "MB": memory["course"],
            "plain MB": memory["plain"],
            "launches": started["course"],
            "plain launches": round(started["plain"] * longer),
            "where": times,
            "reference": case.reference and asdict(case.reference),
            **conditions(device, seconds),
        }

    for name in names:
        yield attempted("model", name, measured_row)


def attempted(what: str, name: str, measured_row: Callable[[str], dict]) -> dict:
    """Return the row of a name; where it fails, only the name and, under "failed", the reason.

    One row that fails costs none of the others. The traceback goes to stderr.
    """
    try:
        return undisturbed(partial(measured_row, name))
    except Exception as error:  # whatever a library or a device may raise
        traceback.print_exc()
        reason = str(error).strip().split("\n")[0]
        failed = {what: name, "failed": f"{type(error).__name__}: {reason}"}
    gc.collect()  # a replayed encoder holds itself, and with it the memory that the next row needs
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return failed


def output_layers(
    names: list[str], precision: str, rounds: int = 3, device: str | None = None
) -> Iterator[dict]:
    """Yield one row a method: a whole step of AWD-LSTM with that output layer.

    The row has its milliseconds, and their ratio to those of a step with our softmax.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    keep_freed_memory()
    base = MODELS["awd-lstm/ptb"]

    def measured_row(name):
        steps = {n: _with_layer(n, base, precision, device) for n in {"softmax": 0, name: 0}}
        seconds = alternating(steps, rounds)
        return {
            "method": name,
            "ms": 1e3 * seconds[name],
            "of softmax": seconds.ratio(name, "softmax"),
            **conditions(device, seconds),
        }

    for name in names:
        yield attempted("method", name, measured_row)


def _with_layer(name, case, precision, device):
    torch.manual_seed(1)
    plain, method = case.build("course", device), METHODS[name]
    words = method.words(*plain.words.shape)
    model = LanguageModel(
        words,
        plain.encoder,
        method.layer(words),
        objective=method.objective,
        regularizers=(*plain.regularizers, *method.regularizers),
        input_embedding=plain.input_embedding,
        output_dropout=plain.output_dropout,
    )
    return whole_step(model.to(device), case, "course", precision, device, clip=0.25)


TABLE = "benchmarks/models/KIND/PRECISION"  # where `benchmarks models --keep` puts its tables
LEGEND = """plain: the same model as one writes it first in PyTorch; steps alternate in one process
ratio: of the two speeds, the median of the rounds; in brackets the least and the greatest round
floor: operations at the rate of large products and bytes at the bandwidth measured here
MB: peak of a fresh process, on a GPU what PyTorch holds at most"""


def measured(names: list[str], precision: str, rounds: int, layers: bool = True) -> Iterator[dict]:
    """Yield the rows of `models`, then, with `layers`, of `output_layers`, with a bar on stderr.

    A row that failed has only its name and, under "failed", the reason.

    The cache and dynamic evaluation have a row in fp32 only, because the course computes them in
    full float32; CourseError where they alone are asked for.
    """
    if precision != "fp32":
        others = [n for n in names if not isinstance(MODELS[n], (CacheCase, DynamicCase))]
        if names and not others:
            told = f"{names[0]} is computed in full float32 and has no row in {precision}"
            raise CourseError(told)
        names = others
    methods = list(METHODS) if layers else []
    rows = chain(models(names, precision, rounds), output_layers(methods, precision, rounds))
    with tqdm(total=len(names) + len(methods), leave=False, bar_format="{desc} {n}/{total}") as bar:
        for name in (*names, *methods):
            bar.set_description(f"{precision}: {name}")
            yield next(rows)
            bar.update()


def report(precision: str, rows: Iterable[dict]) -> Iterator[str]:
    """The lines of the tables of `measured` rows, each as soon as its row is there."""
    for of_models, some in groupby(rows, lambda row: "model" in row):
        if of_models:
            yield from _of_models(precision, some)
        else:
            yield from _of_layers(some)


def _of_models(precision: str, rows: Iterable[dict]) -> Iterator[str]:
    yield (
        f"{precision:<23}{'tokens/s':>9}{'plain':>8}{'ratio':>18}{'floor':>8}{'share':>7}"
        f"{'MB':>8}{'plain':>8}{'ratio':>7}"
    )
    seen = []
    for row in rows:
        if "failed" in row:
            yield f"{row['model']:<23}failed: {row['failed']}"
            continue
        seen.append(row)
        speed, plain, floor = row["tokens/s"], row["plain"], row["floor"]
        yield (
            f"{row['model']:<23}{speed:>9,.0f}{plain:>8,.0f}{over_plain(row):>18}{floor:>8,.0f}"
            f"{speed / floor:>7.2f}{row['MB']:>8,.0f}{row['plain MB']:>8,.0f}"
            f"{row['MB'] / row['plain MB']:>7.2f}{remark(row)}"
        )
    yield ""
    yield (
        f"{'on another machine':<23}{'tokens/s':>12}{'our ratio':>12}"
        f"{'s/10,000':>10}{'ours':>8}{'MB':>7}{'ratio':>7}  reference, fp32"
    )
    for row in with_reference(seen):
        reference = row["reference"]
        name, theirs, faster, memory = ratios(row)
        yield (
            f"{name:<23}{theirs:>12}{faster:>12}"
            f"{2e4 / sum(reference['tokens']):>10,.1f}{1e4 / row['tokens/s']:>8,.1f}"
            f"{reference['megabytes']:>7,.0f}{memory:>7}  {reference['code']}"
        )
    yield ""
    yield "operators that a step starts; on a GPU the launches of kernels and of graphs"
    for row in seen:
        yield f"{row['model']:<23}ours {row['launches']:>8,}   plain {row['plain launches']:>8,}"
    yield ""
    yield "where a step spends its time, of that inside of PyTorch's operators"
    for row in seen:
        yield f"{row['model']:<23}" + ", ".join(f"{n} {s:.0%}" for n, s in row["where"].items())


def over_plain(row: dict) -> str:
    """Return our speed over the plain form's, with the least and the greatest round in brackets."""
    ratio = f"{times_plain(row):.2f}"
    rounds = row.get("over plain")  # which a table from before they were kept lacks
    return f"{ratio} [{min(rounds):.2f}, {max(rounds):.2f}]" if rounds else ratio


def with_reference(rows: Iterable[dict]) -> list[dict]:
    """Return the rows of models whose released code was measured."""
    return [row for row in rows if row["reference"]]


def ratios(row: dict) -> list[str]:
    """Return the cells of a model's row beside its reference.

    They are its name, the reference's tokens/s, our speed over it, and our memory over the
    reference's.
    """
    reference, speed = row["reference"], row["tokens/s"]
    low, high = reference["tokens"]
    return [
        row["model"],
        _span(low, high),
        _span(speed / high, speed / low),
        f"{row['MB'] / reference['megabytes']:.2f}",
    ]


def _of_layers(rows: Iterable[dict]) -> Iterator[str]:
    yield ""
    yield f"{'AWD-LSTM, PTB, with':<23}{'ms a step':>12}{'of softmax':>12}"
    for row in rows:
        if "failed" in row:
            yield f"{row['method']:<23}failed: {row['failed']}"
        else:
            yield f"{row['method']:<23}{row['ms']:>12,.0f}{row['of softmax']:>12.2f}{remark(row)}"


def _span(low: float, high: float) -> str:
    """Return one number, or the two ends of a range, in words."""
    ends = [f"{x:,.0f}" if x >= 100 else f"{x:.3g}" for x in (low, high)]
    return ends[0] if ends[0] == ends[1] else "-".join(ends)
