"""Translating with a trained model: beam search, perplexity, BLEU."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from annotated_types import Ge, Le
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from course_lib.data.pairs import SentencePairs
from course_lib.errors import CourseError, unknown
from course_lib.evaluation.generation import without_gradients
from course_lib.evaluation.perplexity import evaluating
from course_lib.models import TranslationModel
from course_lib.output_layers import IGNORE
from course_lib.ranges import Count, InRange, NonNegative, checked

PAD, BOS, EOS = SentencePairs.pad, SentencePairs.bos, SentencePairs.eos
TOKENIZERS = ("13a", "intl", "none")


class Hypothesis(NamedTuple):
    """A translation with its probability and its score."""

    ids: Tensor  # (n,) on the CPU, without special ones
    log_prob: float  # of the ids and <eos>, in nats
    score: float  # log_prob divided by the length penalty


@dataclass(frozen=True)
class BeamSearch(InRange):
    """A search for the translation Y of greatest log P(Y | X) / lp(Y) in a beam.

        lp(Y) = ((5 + |Y|) / 6)^α,  |Y| with <eos>, α = `length_penalty` ≥ 0    (Wu et al. 2016,
                                                                                 equation 14)

    Step by step the 2 · `beam` likeliest continuations of all open hypotheses are ranked by log P.
    Those among the first `beam` that end with <eos> are finished; the `beam` best others stay open.
    A sentence is done when `beam` hypotheses are finished, or when the best of them cannot be
    beaten any more: log P only falls and lp is at most that of the greatest length. So `beam=1`
    takes the likeliest word each time. <pad> and <bos> are never put out.

    |Y| is at most `ratio` · (source with <eos>) + `extra`; there <eos> is the only continuation.
    Vaswani et al. 2017, section 6.1: beam 4, α = 0.6, source + 50. When hypotheses are finished is
    fairseq's rule; their own code also finishes those ranked below the first `beam`, and goes on
    until none can be beaten. CourseError for impossible settings.
    """

    beam: Count = 4
    length_penalty: Annotated[float, Ge(0), Le(100)] = 0.6  # above, lp of a long Y overflows
    ratio: NonNegative = 1.0
    extra: Count = 50

    def penalty(self, length):
        """Return lp of |Y| = `length`, a number or a tensor."""
        return ((5 + length) / 6) ** self.length_penalty

    def __call__(self, model: TranslationModel, source: Tensor) -> list[Hypothesis]:
        """Return the best translation of each column of `source` (S, B), [x … eos] padded with 0.

        The model computes in evaluation mode, in float32 or wider. CourseError if a column has no
        translation of finite probability, as of a model with NaN.
        """
        with without_gradients(model):
            finished = self._search(model, source)
        if not all(finished):
            raise CourseError(
                "the model gives no translation a finite probability: its weights are broken; "
                "take an earlier checkpoint"
            )
        return [max(of_one, key=lambda hypothesis: hypothesis.score) for of_one in finished]

    def _search(self, model, source) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each column; columns that are done leave the batch."""
        k = self.beam
        N = model.output_layer.words.shape[0]
        device = source.device
        ids = torch.arange(N, device=device)
        column = torch.arange(source.shape[1], device=device)
        limit = (self.ratio * (source != PAD).sum(0)).long() + self.extra  # greatest |Y|, (B,)
        hypotheses = [[] for _ in column]
        history = torch.full((len(column), 1, 1), BOS, device=device)  # (B, open, n)
        total = torch.zeros(len(column), 1, device=device)  # log P of the open, (B, open)
        finished_count = torch.zeros_like(limit)  # how many are, (B,)
        best = torch.full_like(total[:, 0], -torch.inf)  # score of the best of them, (B,)
        n = 0
        state = None
        while len(column):
            # the likeliest continuations of the open hypotheses
            n += 1
            opened = history.shape[1]
            step = model(source, history[..., -1].reshape(1, -1), state=state)
            log_prob = model.output_layer.log_prob(step.hidden[0]).view(-1, opened, N)
            barred = (ids == PAD) | (ids == BOS) | ((n >= limit)[:, None] & (ids != EOS))
            log_prob = (total[..., None] + log_prob).masked_fill_(barred[:, None], -torch.inf)
            top, at = log_prob.flatten(1).topk(min(2 * k, opened * N))
            parent = at // N
            word = at % N
            ends = word == EOS

            # those that end are finished
            ended = ends[:, :k] & top[:, :k].isfinite()
            b, rank = ended.nonzero().unbind(1)
            rows = column[b], history[b, parent[b, rank], 1:], top[b, rank]
            for i, y, value in zip(*(t.cpu() for t in rows), strict=True):
                hypotheses[i].append(Hypothesis(y, value.item(), value.item() / self.penalty(n)))
            finished_count = finished_count + ended.sum(1)
            scores = top[:, :k].masked_fill(~ended, -torch.inf) / self.penalty(n)
            best = torch.maximum(best, scores.amax(1))

            # the best others stay open
            total, rank = top.masked_fill(ends, -torch.inf).topk(min(k, top.shape[1]))
            parent, word = parent.gather(1, rank), word.gather(1, rank)

            # columns that are done leave
            reachable = total[:, 0] / self.penalty(limit)
            (live,) = ((finished_count < k) & (best < reachable)).nonzero(as_tuple=True)
            columns = (live[:, None] * opened + parent[live]).flatten()
            rest = None if len(live) == len(column) else live  # the source's keys stay as they are
            state = model.encoder.select(step.state, columns, rest)
            history = torch.cat([history[live[:, None], parent[live]], word[live, :, None]], 2)
            column, limit, source, total = column[live], limit[live], source[:, live], total[live]
            finished_count, best = finished_count[live], best[live]
        return hypotheses


@checked
def translate(
    model: TranslationModel,
    sources: Sequence[Tensor],
    search: BeamSearch | None = None,
    batch: Count = 64,
    progress: bool = True,
) -> list[Tensor]:
    """Return the translation of each source in order, (n,) ids without special ones.

    model, search: the model, and how its translations are searched for.
    sources: the ids of each sentence, (m,).
    batch: sentences of similar length that are searched together, the longest ones first, so that
        what does not fit into memory shows at once.
    progress: whether a bar is shown.
    """
    search = search or BeamSearch()
    device = next(model.parameters()).device
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    translations: list[Tensor] = [torch.empty(0, dtype=torch.int64)] * len(sources)
    with tqdm(total=len(order), desc="translating", unit="sentence", disable=not progress) as bar:
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            closed = [torch.cat([sources[i], sources[i].new_tensor([EOS])]) for i in rows]
            source = pad_sequence(closed, padding_value=PAD).to(device)
            for i, hypothesis in zip(rows, search(model, source), strict=True):
                translations[i] = hypothesis.ids
            bar.update(len(rows))
    return translations


@torch.no_grad()
def translation_perplexity(
    model: TranslationModel, batches: Iterable[tuple[Tensor, Tensor, Tensor]]
) -> float:
    """Return exp(mean −log P(y_t | y_<t, x)) over all target tokens, <eos> included.

    batches: (source (S, B), tokens (T, B), target (T, B)) as `data.buckets.collate` makes them;
    targets that are IGNORE do not count. CourseError if none counts.
    """
    device = next(model.parameters()).device
    total = torch.zeros((), dtype=torch.float64, device=device)
    count = 0
    with evaluating(model):
        for source, tokens, target in batches:
            n = int((target != IGNORE).sum())
            step = model(source.to(device), tokens.to(device), target.to(device))
            total += step.nll.double() * n
            count += n
    if not count:
        raise CourseError("no target token to take the perplexity of: the batches are empty")
    return (total / count).exp().item()


class Bleu(NamedTuple):
    """A corpus' BLEU in [0, 100], and sacrebleu's description of how it was computed."""

    score: float
    signature: str


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Bleu:
    """Return BLEU, 100 · BP · (p_1 p_2 p_3 p_4)^¼ over the corpus, with one reference a sentence.

        p_n = matched n-grams, each at most as often as in its reference / n-grams of hypotheses
        BP  = min(1, exp(1 − reference words / hypothesis words))

    hypotheses, references: the sentences, as many of one as of the other.
    tokenize: what a word is. "13a" splits running text as mteval-v13a does, which is the comparable
        figure; "intl" as mteval-v14, by Unicode category. "none" is of text that was tokenised
        before, as multi-bleu.perl has it and papers report; the figure depends on a tokeniser that
        the signature does not name.
    lowercase: whether case does not matter.

    Where no n-gram of a length matches, half a match is counted, a quarter at the next such length,
    and so on (smoothing "exp"; multi-bleu.perl gives 0 there). CourseError for other numbers of
    sentences or an unknown tokeniser. Source: Papineni et al. 2002, by sacrebleu (Post 2018).
    """
    if tokenize not in TOKENIZERS:
        raise unknown("tokeniser of BLEU", tokenize, TOKENIZERS)
    if not hypotheses or len(hypotheses) != len(references):
        raise CourseError(
            "BLEU compares a hypothesis with a reference, sentence by sentence; got "
            f"{len(hypotheses):,} hypotheses and {len(references):,} references"
        )
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=tokenize == "none")
    score = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Bleu(score, str(metric.get_signature()))
