"""Regularizers: what is added to the training loss to shape the word matrix or the activations.

Each is a frozen dataclass with its weights as fields, called as `regularizer(words, activations)`
with the word matrix that predicts (`FullWords`, `SpectralWords`) and with what the step produced.
It returns a scalar. What it must remember from step to step lives in the word matrix's buffers.
Everything is computed in at least float32, also under autocast, and so are gradients: a product has
a backward pass of its own, as in `_UnitSum`. `PastDecode` is the exception: it learns on the output
layer, in whose precision it is. Penalties of U, σ, V raise CourseError for other words.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.errors import CourseError
from course_lib.first_order import first_order
from course_lib.output_layers.kernel import chunked_loss
from course_lib.output_layers.products import type_of_sums
from course_lib.protocols import Spectral
from course_lib.ranges import Count, InRange, NonNegative, Positive


class Activations(NamedTuple):
    """The tensors that one step of a model produced; `hidden` and `raw` are (T, B, d)."""

    hidden: Tensor  # what the output layer read: after dropout
    raw: Tensor  # the encoder's last output before that dropout
    output_layer: nn.Module | None = None  # for penalties on its bias or its mixture's weights
    tokens: Tensor | None = None  # (T, B), those read, IGNORE where the target does not count


class _FactorRegularizer(InRange):
    """A penalty of the factors of spectral words; CourseError for other words."""

    def __call__(self: Any, words: Any, activations: Activations | None = None) -> Tensor:
        if not isinstance(words, Spectral):
            raise CourseError(
                f"{type(self).__name__} is about the factors U, σ and V of the word matrix, "
                f"which {type(words).__name__} does not have; give the model SpectralWords"
            )
        return self._penalty(words)


@dataclass(frozen=True)
class CosineRegularizer(InRange):
    """weight · R, with R the mean cosine over all pairs of different words, times (N−1)/N.

        R = (1/N²) Σ_i Σ_{j≠i} ŵ_iᵀŵ_j = (‖Σ ŵ_i‖² − N) / N²,   in [−1/N, 1 − 1/N]

    The right-hand side takes Θ(Nd) operations and never forms the N × N cosines. A row of zeros has
    cosine 0 with every row, and no gradient. In float32 so has a norm under 1.1e-19 or over 1.8e19.
    `SpectralWords` need two products of N d² more, and no W.
    Naive: `C = F.normalize(W) @ F.normalize(W).T; weight * (C.sum() - C.trace()) / N**2`.
    Source: gao2019, equation 6 and proposition 1.
    """

    weight: NonNegative = 1.0

    def __call__(self, words: Any, activations: Activations | None = None) -> Tensor:
        spectral = bool(isinstance(words, Spectral))
        rows = _wide(words.U if spectral else words.matrix())
        with _full_precision(rows):
            axes = _wide(words.V) * _wide(words.sigma) if spectral else None
            total, alive = _UnitSum.apply(rows, axes)
            return self.weight * (total.square().sum() - alive) / len(rows) ** 2


class _UnitSum(torch.autograd.Function):
    """Σ ŵ_i (d,) over the rows of W = U Aᵀ (A = I if None), and the number of rows that are not 0.

    With H = AᵀA the norms are r_i⁻¹ = (u_iᵀ H u_i)^½ and the sum is A Σ r_i u_i. It is written out
    because the gradient, with g the one of Σ r_i u_i,

        du_i = r_i g − c_i H u_i,   c_i = r_i³ u_iᵀg,   dA = (dΣ ŵ_i)(Σ r_i u_i)ᵀ − A Σ c_i u_i u_iᵀ

    is one N × d tensor, where autograd forms one for the sum, one for the norms, and adds them.
    """

    @staticmethod
    def forward(ctx, U, A):
        if A is None:
            product = None
            square = torch.linalg.vector_norm(U, dim=1).square()
        else:
            product = U @ (A.T @ A)
            square = (product * U).sum(1)
        # A norm of ∞ has the reciprocal 0, which takes a row out of the value and the gradient.
        r = square.where(square > torch.finfo(square.dtype).tiny, torch.inf).rsqrt()
        total = r @ U
        alive = (r > 0).sum()
        ctx.save_for_backward(U, A, product, r, total)
        ctx.mark_non_differentiable(alive)
        return total if A is None else A @ total, alive

    @staticmethod
    @first_order
    def backward(ctx, grad, _):
        U, A, product, r, total = ctx.saved_tensors
        with _full_precision(U):
            g = grad if A is None else A.T @ grad
            c = r * (r * (r * (U @ g)))  # in this order nothing overflows for small rows
            d_U = torch.outer(r, g).addcmul_(U if A is None else product, c[:, None], value=-1)
            d_A = None if A is None else torch.outer(grad, total) - A @ ((U * c[:, None]).T @ U)
        return d_U, d_A


@dataclass(frozen=True)
class Orthogonality(_FactorRegularizer):
    """How far U and V are from orthonormal columns.

        λ₁‖UᵀU−I‖²_F + λ₂‖VᵀV−I‖²_F + λ₃‖UᵀU−I‖²₂ + λ₄‖VᵀV−I‖²₂

    λ₁ … λ₄ are the fields in order; the paper searches each in {0.01, 0.1, 1, 10}.

    All terms of U together cost two products of N d²: one forms G = UᵀU − I, one its gradient.
    The spectral norm is ‖G v‖, from below, with v from a few power iterations on the d × d matrix
    G that begin where those of the last training step ended (`warm_U`, `warm_V`). The gradient
    takes v as constant, which is exact once v has converged: d‖G‖²₂/dG = 2 μ v vᵀ, μ the
    eigenvalue of v. Where U is nearly orthonormal, G is the small difference of numbers near 1:
    bfloat16, which rounds them by ±0.004, would leave nothing of it.
    Naive: `G = U.T @ U - I; λ₁ * G.square().sum() + λ₃ * torch.linalg.matrix_norm(G, 2)**2 + …`.
    Source: wang2020, section 4.1.
    """

    frobenius_U: NonNegative = 1.0
    frobenius_V: NonNegative = 1.0
    spectral_U: NonNegative = 1.0
    spectral_V: NonNegative = 1.0
    iterations: Count = 3  # of the power method, each step

    def _penalty(self, words: Any) -> Tensor:
        of_U = words.U, words.warm_U, self.frobenius_U, self.spectral_U
        of_V = words.V, words.warm_V, self.frobenius_V, self.spectral_V
        with _full_precision(words.U):
            return self._term(*of_U, words.training) + self._term(*of_V, words.training)

    def _term(self, M, warm, frobenius, spectral, training) -> Tensor:
        """Return frobenius · ‖MᵀM−I‖²_F + spectral · ‖MᵀM−I‖²₂."""
        M = _wide(M)
        total = M.new_zeros(())
        G: Any = _Gram.apply(M) if frobenius or spectral else None
        if frobenius:
            total = total + frobenius * G.square().sum()
        if spectral:
            v = _leading_vector(G, warm, self.iterations)
            if training:
                warm.copy_(v)
            total = total + spectral * (G @ v).square().sum()
        return total


class _Gram(torch.autograd.Function):
    """MᵀM − I, with a backward pass of one product, M (dG + dGᵀ), instead of autograd's two."""

    @staticmethod
    def forward(ctx, M):
        ctx.save_for_backward(M)
        G = M.T @ M
        G.diagonal().sub_(1)
        return G

    @staticmethod
    @first_order
    def backward(ctx, d_G):
        (M,) = ctx.saved_tensors
        with _full_precision(M):
            return M @ (d_G + d_G.T)


@torch.no_grad()
def _leading_vector(G: Tensor, start: Tensor, iterations: int) -> Tensor:
    """Return the eigenvector (d,) of the symmetric G whose eigenvalue is largest in size.

    By the power method from `start`. Where G v is 0 or not finite, v stays, since zeros stay zeros.
    """
    v = start.to(G.dtype)
    for _ in range(iterations):
        w = G @ v
        length = w.norm()
        v = torch.where((length > 0) & length.isfinite(), w / length, v)
    return v


class _SpectrumPrior(_FactorRegularizer):
    """weight · Σ_k (σ_(k) − c_k)², both σ and c sorted by falling size.

    Singular values are paired with the prior by rank, at each step anew, because they may cross
    during training; of all pairings this one has the smallest sum.
    Naive: `weight * (words.singular_values() - prior.values(d)).square().sum()`.
    """

    def values(self: Any, size: int, device: torch.device | str | None = None) -> Tensor:
        """Return c_k for k = 1 … d: (d,), float64, decreasing; size: d."""
        return self._curve(torch.arange(1, size + 1, dtype=torch.float64, device=device))

    def _penalty(self: Any, words: Any) -> Tensor:
        sigma = _wide(words.sigma).sort(descending=True).values
        prior = self.values(len(sigma), sigma.device).to(sigma.dtype)
        return self.weight * (sigma - prior).square().sum()


@dataclass(frozen=True)
class ExponentialPrior(_SpectrumPrior):
    """weight · Σ_k (σ_(k) − c₁ exp(−c₂ k^γ))², where k counts the σ in decreasing order.

    The paper searches the weight in {0.1, 1, 10, 100}, names no c₁, c₂, γ, and prefers this prior
    on small corpora. Source: wang2020, section 4.2.
    """

    weight: NonNegative
    c1: Positive
    c2: Positive
    gamma: Positive
    start: bool = True  # the builder of a model calls words.start_at(prior.values(d))

    def _curve(self, k: Tensor) -> Tensor:
        return self.c1 * torch.exp(-self.c2 * k**self.gamma)


@dataclass(frozen=True)
class PolynomialPrior(_SpectrumPrior):
    """weight · Σ_k (σ_(k) − c₁ k^−γ)², where k counts the σ in decreasing order.

    wang2020, section 4.2, prefers it on large corpora; the fields are those of `ExponentialPrior`.
    """

    weight: NonNegative
    c1: Positive
    gamma: Positive
    start: bool = True

    def _curve(self, k: Tensor) -> Tensor:
        return self.c1 * k**-self.gamma


@dataclass(frozen=True)
class DOptimal(_FactorRegularizer):
    """−weight · Σ_k log σ_k, in nats, which pushes all singular values up.

    Jiang et al. 2019 made it for generative adversarial networks, with spectral normalisation,
    `SpectralWords(normalise=True)`. For language models it fails, which is why it is here.
    A σ of 0 counts as the smallest normal number and has no gradient.
    Naive: `-weight * words.sigma.log().sum()`.
    Source: wang2020, Table 6.
    """

    weight: NonNegative

    def _penalty(self, words: Any) -> Tensor:
        sigma = _wide(words.sigma)
        return -self.weight * sigma.clamp(min=torch.finfo(sigma.dtype).tiny).log().sum()


@dataclass(frozen=True)
class MuLoss(InRange):
    """weight · ‖μ‖² with μ the mean row of W, which keeps the centre near 0.

    It is output embedding centring as a loss, in Θ(Nd): the logits' common shift μᵀh, which no
    probability of a plain softmax depends on, cannot grow.
    Naive: `weight * W.mean(0).square().sum()`.
    Source: Stollenwerk et al. 2026.
    """

    weight: NonNegative = 1e-4

    def __call__(self, words: Any, activations: Activations | None = None) -> Tensor:
        spectral = bool(isinstance(words, Spectral))
        mean = _wide(words.U if spectral else words.matrix()).mean(0)
        if spectral:  # V Σ μ(U), as a sum, which autocast leaves alone
            mean = (_wide(words.V) * (_wide(words.sigma) * mean)).sum(1)
        return self.weight * mean.square().sum()


@dataclass(frozen=True)
class ActivationRegularizer(InRange):
    """AR: weight · mean of the squared entries of what the output layer reads, padding included.

    Naive: `weight * hidden.square().mean()`.
    Source: Merity et al. 2018.
    """

    weight: NonNegative = 2.0

    def __call__(self, words: Any, activations: Activations) -> Tensor:
        return self.weight * _wide(activations.hidden).square().mean()


@dataclass(frozen=True)
class TemporalActivationRegularizer(InRange):
    """TAR: weight · mean of the squared changes of the raw output by step, padding included.

    The raw output is the encoder's before dropout. For a single time step the penalty is 0.
    Naive: `weight * (raw[1:] - raw[:-1]).square().mean()`.
    Source: Merity et al. 2018.
    """

    weight: NonNegative = 1.0

    def __call__(self, words: Any, activations: Activations) -> Tensor:
        raw = _wide(activations.raw)  # before the difference, which cancels
        change = raw[1:] - raw[:-1]
        return self.weight * change.square().sum() / max(1, change.numel())


@dataclass(frozen=True)
class ContextDispersion(InRange):
    """weight · log of the mean of exp(−D_ts / τ) over a sequence's pairs of contexts, padding, too.

    D_ts = arccos(cos(h_t, h_s)) / π is the angle between two contexts, a share of the half circle,
    and τ the temperature. The value is the mean over the sequences; for a single time step it is 0.
    Its authors add the same of every layer of a Transformer. Cosines are kept within ±(1 − 10⁻⁴),
    as theirs are, for towards ±1 the slope of arccos grows without bound; they are computed in
    float64, which autocast leaves alone.
    Naive: `D = (h @ h.T).acos() / pi; weight * (-D / τ)[t != s].exp().mean().log()` of unit rows h.
    Source: Liu et al. 2026 (arXiv 2602.00217), whose weight for GPT-2 is 0.1.
    """

    weight: NonNegative = 0.1
    temperature: Positive = 0.5

    def __call__(self, words: Any, activations: Activations) -> Tensor:
        hidden = _wide(activations.hidden)
        steps = len(hidden)
        if steps == 1:
            return 0.0 * hidden.sum()
        unit = F.normalize(hidden, dim=-1, eps=1e-4).transpose(0, 1).double()
        cosine = (unit @ unit.mT).clamp(-1 + 1e-4, 1 - 1e-4)
        similar = (-cosine.acos() / (math.pi * self.temperature)).exp()
        mean = similar.triu(1).sum((1, 2)) * 2 / (steps * (steps - 1))
        return self.weight * mean.log().mean().to(hidden.dtype)


@dataclass(frozen=True)
class PastDecode(InRange):
    """weight · cross-entropy of the word just read, decoded from the prediction of the next.

        P(past) = softmax(W tanh(A Σ_j p_j w_j + a) + c)

    with p the output layer's probabilities, (T, B, N), formed as a whole table, and w_j its words.
    A, a and c are learned; `prepare` makes them, and they belong to the output layer. The paper
    names no layer that is to decode; tanh(A · + a) is our choice, in the output layer's precision.
    Naive: `F.cross_entropy(F.linear(past(log_prob.exp() @ W).tanh(), W, c), tokens)`.
    Source: Brahma 2018 (arXiv 1808.05908), whose weight is 0.001.
    """

    weight: NonNegative = 0.001

    def prepare(self, output_layer: Any) -> None:
        """Give an output layer what the penalty learns."""
        n, d = output_layer.words.shape
        output_layer.past = nn.Linear(d, d)
        output_layer.past_bias = nn.Parameter(torch.zeros(n))

    def __call__(self, words: Any, activations: Activations) -> Tensor:
        layer: Any = activations.output_layer
        tokens = activations.tokens
        if tokens is None or not hasattr(layer, "past"):
            raise CourseError(
                "PastDecode reads `output_layer` and `tokens` of the activations; before training, "
                "call its prepare(output_layer), as a model does that has it among its regularizers"
            )
        expected = layer.expectation(activations.hidden, words.matrix())
        x, matrix = words.factors(layer.past(expected).tanh().flatten(0, -2).unsqueeze(-2))
        options = {"bias": layer.past_bias, "scratch": layer.scratch}
        loss, _ = chunked_loss(x, matrix, tokens.flatten(), **options)
        return self.weight * loss


_OF_WORDS = (CosineRegularizer, Orthogonality, ExponentialPrior, PolynomialPrior, DOptimal, MuLoss)
_OF_CONTEXTS = (ContextDispersion, PastDecode, ActivationRegularizer, TemporalActivationRegularizer)
REGULARIZERS = {kind.__name__: kind for kind in _OF_WORDS + _OF_CONTEXTS}


def _wide(x: Tensor) -> Tensor:
    """Return x itself in float32 or float64, half precision as float32."""
    return x.to(type_of_sums(x))


def _full_precision(x: Tensor) -> torch.autocast:
    return torch.autocast(x.device.type, enabled=False)
