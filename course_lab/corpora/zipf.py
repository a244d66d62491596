"""A synthetic language whose true distribution is known.

The last word w decides the context: state s(w) of S states. In state s the next word has

    P(. | s) = sum_k pi_k(s) softmax(W h_{s,k} + b)

with one component an exact softmax over the word matrix W (N, d), whose log P (S, N) has rank at
most d + 2 (H W^T gives d, the bias and the row-wise normaliser one each; parthiban2021, Table 1),
and with more components a mixture, whose log P has no such bound. The bias is chosen so that words
have exactly the frequencies of Zipf's law, f_i proportional to 1 / i.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from course_lib.data.corpus import EOS, SPLITS, Corpus, digest
from course_lib.errors import CourseError
from course_lib.ranges import Count, NonNegative, Whole, checked

LICENCE = "synthetic, CC0"


@dataclass(frozen=True)
class Truth:
    """The distribution that a synthetic language is drawn from, in float64 and nats.

    word_matrix (N, d), bias (N,), contexts (S, K, d), log_weights (S, K), states (N,): the state
    that each word leads to.
    """

    word_matrix: torch.Tensor
    bias: torch.Tensor
    contexts: torch.Tensor
    log_weights: torch.Tensor
    states: torch.Tensor

    @cached_property
    def matrix(self) -> torch.Tensor:
        """Return the true log P of every state, (S, N)."""
        logits = self.contexts @ self.word_matrix.T + self.bias
        return (self.log_weights[..., None] + logits.log_softmax(-1)).logsumexp(1)

    def log_prob(self, previous: torch.Tensor) -> torch.Tensor:
        """Return log P(. | last word), (..., N), for last words of any shape."""
        return self.matrix[self.states[previous]]

    @cached_property
    def unigram(self) -> torch.Tensor:
        """Return the stationary probability of each word, (N,): Zipf's law."""
        return zipf_law(len(self.bias))

    @cached_property
    def stationary(self) -> torch.Tensor:
        """Return the stationary probability of each state, (S,)."""
        zeros = torch.zeros(len(self.contexts), dtype=torch.float64)
        return zeros.index_add(0, self.states, self.unigram)

    @property
    def entropy(self) -> float:
        """The entropy rate of the stationary process, nats per token: no model can do better."""
        return -(self.stationary @ (self.matrix.exp() * self.matrix).sum(1)).item()

    @property
    def rank(self) -> int:
        """Return the numerical rank of the true log P."""
        return int(torch.linalg.matrix_rank(self.matrix))

    def nll(self, tokens: torch.Tensor) -> float:
        """Return the mean −log P of tokens (L,), in nats; the first is predicted from <eos>."""
        previous = torch.cat([tokens.new_zeros(1), tokens[:-1]])
        return -self.matrix[self.states[previous], tokens].mean().item()


@dataclass
class ZipfCorpus(Corpus):
    """A corpus that carries the distribution it was drawn from."""

    truth: Truth = field(kw_only=True)

    def describe(self) -> dict:
        truth = {"true rank": self.truth.rank, "true entropy (nats)": self.truth.entropy}
        return {**super().describe(), **truth}


@checked
def load_zipf(
    N: Count = 1000,
    d: Count = 16,
    rank: Count | None = None,
    components: Count = 1,
    states: Count = 128,
    sharpness: NonNegative = 2.0,
    tokens: Count = 200_000,
    seed: Whole = 0,
) -> ZipfCorpus:
    """Draw a text from a softmax, or from a mixture of `components` softmaxes, over N words.

    N: words; ids are ranks of frequency, and id 0 is `<eos>`.
    d: size of the true word vectors.
    rank: of the true log P of one softmax, at most d + 2, the default; contexts then lie in
        rank − 2 dimensions. A mixture has the rank it has, about min(states, N).
    components: softmaxes in the mixture.
    states: different contexts.
    sharpness: standard deviation of the logits W h, in nats.
    tokens: of train; valid and test have a tenth of them each.
    seed: of the drawing.

    `CourseError` for sizes that do not fit each other.
    """
    # The sizes fit each other.
    highest = min(d + 2, states, N)
    if components > 1 and rank is not None:
        raise CourseError("zipf: the rank of a mixture cannot be chosen; leave out rank=")
    if min(N, states) < 3 or tokens < 10:
        raise CourseError("zipf needs N >= 3 words, states >= 3 and tokens >= 10")
    rank = highest if rank is None else rank
    if not 3 <= rank <= highest:
        raise CourseError(
            f"zipf: rank {rank} is not between 3 and {highest} = min(d + 2, states, N) for "
            f"d = {d}, {states} states and {N} words"
        )
    # The truth, and a text drawn from it.
    rng = np.random.default_rng(seed)
    truth = draw_truth(rng, N, d, rank - 2 if components == 1 else d, components, states, sharpness)
    sizes = (tokens, max(tokens // 10, 1), max(tokens // 10, 1))
    ids = dict(zip(SPLITS, sample(truth, rng, sum(sizes)).split(sizes), strict=True))
    return ZipfCorpus(
        "zipf",
        [EOS, *(f"w{i}" for i in range(1, N))],
        **ids,
        sha256={split: digest(x.numpy().astype("<i8").tobytes()) for split, x in ids.items()},
        licence=LICENCE,
        source=f"drawn with N={N}, d={d}, rank={rank}, components={components}, states={states}, "
        f"sharpness={sharpness}, seed={seed}",
        truth=truth,
    )


def draw_truth(rng, N, d, dimensions, components, states, sharpness) -> Truth:
    """Return Gaussian words and contexts in a subspace, with logits W h of variance sharpness²."""
    word_matrix = torch.from_numpy(rng.standard_normal((N, d)))
    basis, _ = np.linalg.qr(rng.standard_normal((d, dimensions)))
    spread = rng.standard_normal((states, components, dimensions)) * sharpness / dimensions**0.5
    contexts = torch.from_numpy(spread @ basis.T)
    log_weights = torch.from_numpy(rng.standard_normal((states, components))).log_softmax(-1)
    # frequent words spread over the states in turn, so that every state is visited
    which = torch.from_numpy(np.resize(rng.permutation(states), N))
    bias = zipf_bias(contexts @ word_matrix.T, log_weights, which)
    return Truth(word_matrix, bias, contexts, log_weights, which)


def zipf_law(N: int) -> torch.Tensor:
    """Return Zipf's law, f_i = (1 / i) / sum_j (1 / j), i = 1 … N."""
    weights = 1 / torch.arange(1, N + 1, dtype=torch.float64)
    return weights / weights.sum()


def zipf_bias(logits: torch.Tensor, log_weights: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
    """Return the bias b (N,) with which the words' stationary frequencies are Zipf's law f.

    State s then has the probability q_s = sum of f over the words that lead to it, so b solves
    sum_s q_s P_b(. | s) = f. It minimises a convex function, and generalised iterative scaling,
    b <- b + log f - log(sum_s q_s P_b), goes to it monotonically.

    logits, log_weights: (S, K, N) without bias, and (S, K).
    which: (N,), the state that each word leads to.
    """
    f = zipf_law(logits.shape[-1])
    q = torch.zeros(len(logits), dtype=torch.float64).index_add(0, which, f)
    weights = (q[:, None] * log_weights.exp())[..., None]
    bias = f.log()
    for _ in range(10_000):
        step = f.log() - (weights * (logits + bias).softmax(-1)).sum((0, 1)).log()
        bias = bias + step
        if step.abs().max() < 1e-12:
            return bias
    raise CourseError("zipf: no bias gives Zipf's frequencies; choose a smaller sharpness")


def sample(truth: Truth, rng: np.random.Generator, length: int, block: int = 512) -> torch.Tensor:
    """Return `length` tokens of the chain that starts after <eos>.

    The k-th visit to a state takes the k-th word drawn for it, so `block` words are drawn at once.
    """
    cumulative = truth.matrix.exp().cumsum(1).numpy()
    cumulative /= cumulative[:, -1:]
    leads_to = truth.states.tolist()
    drawn = [iter(())] * len(cumulative)
    tokens = []
    word = 0
    for _ in range(length):
        state = leads_to[word]
        word = next(drawn[state], None)
        if word is None:
            words = np.searchsorted(cumulative[state], rng.random(block), side="right")
            drawn[state] = iter(words.tolist())
            word = next(drawn[state])
        tokens.append(word)
    return torch.tensor(tokens)
