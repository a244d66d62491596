"""Word matrices: N rows, one vector a word, used to read words, to predict them, or both.

Every word matrix answers three questions: `words(ids)` are rows, `words.factors(x)` is a pair
(x', M) whose product x' Mᵀ equals x Wᵀ, `words.matrix()` is W itself, for analysis. Giving one
object to both ends of a model ties them (inan2017, section 4).
"""

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.errors import CourseError, unknown
from course_lib.ranges import Count, NonNegative, checked

CONSTRAINTS = ("centred", "unit")


class Words(Protocol):
    """A word matrix, N rows of size d, as models and output layers use it."""

    @property
    def shape(self) -> tuple[int, int]: ...
    def __call__(self, ids: Tensor, /) -> Tensor: ...
    def factors(self, x: Tensor, /) -> tuple[Tensor, Tensor]: ...
    def matrix(self) -> Tensor: ...


class FullWords(nn.Module):
    """A plain word matrix W (N, d)."""

    @checked
    def __init__(
        self,
        vocabulary: Count,
        size: Count,
        init: NonNegative = 0.1,
        normal: bool = False,
        constraint: str | None = None,
        decay: NonNegative = 0.0,
    ):
        """Draw a matrix.

        vocabulary, size: N and d;
        init: half-width of the uniform distribution that the entries are drawn from;
        normal: draw them from a normal distribution, whose standard deviation is `init`;
        constraint: what holds after every step of training. "centred": the rows' mean is 0, which
        shifts all logits of a position alike and so changes no probability (Stollenwerk et al.
        2026); "unit": every row has norm 1 (inan2017, section 6.2), not those of averaged weights;
        decay: the singular values begin as σ₁ k^−decay, if not 0, with σ₁ as it was drawn.
        Raises CourseError for another constraint or a number out of its range.
        """
        super().__init__()
        if constraint not in (None, *CONSTRAINTS):
            raise unknown("constraint of a word matrix", constraint, CONSTRAINTS)
        self.constraint = constraint
        weight = torch.empty(vocabulary, size)
        weight = weight.normal_(0, init) if normal else weight.uniform_(-init, init)
        if decay:
            U, sigma, Vh = torch.linalg.svd(weight, full_matrices=False)
            weight = (U * sigma[0] * torch.arange(1, len(sigma) + 1) ** -decay) @ Vh
        self.weight = nn.Parameter(weight)
        self.after_step()

    @classmethod
    def of(cls, weight: nn.Parameter) -> "FullWords":
        """Return the words around a parameter (N, d) of a model; CourseError for what is none."""
        if not isinstance(weight, nn.Parameter) or weight.dim() != 2:
            raise CourseError("a word matrix must be a parameter (N, d); undo weight_norm first")
        with torch.device("meta"):  # the matrix exists already
            words = cls(weight.shape[0], weight.shape[1])
        words.weight = weight
        return words

    @torch.no_grad()
    def after_step(self) -> None:
        """Bring the matrix back to its constraint; to be called after every update."""
        if self.constraint == "centred":
            self.weight.sub_(self.weight.mean(0))
        elif self.constraint == "unit":
            self.weight.div_(self.weight.norm(dim=1, keepdim=True).clamp(min=1e-12))

    @property
    def shape(self) -> tuple[int, int]:
        """N and d."""
        return self.weight.shape[0], self.weight.shape[1]

    def forward(self, ids: Tensor) -> Tensor:
        """Return rows (…, d) of words (…)."""
        return F.embedding(ids, self.weight)

    def factors(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return (x', M) with logits x' Mᵀ of contexts (…, d); here x and W themselves."""
        return x, self.weight

    def matrix(self) -> Tensor:
        """Return W (N, d)."""
        return self.weight


class SpectralWords(nn.Module):
    """W = U Σ Vᵀ with U (N, d), Σ = diag(σ), V (d, d) as parameters (wang2020, section 4).

    Rows are (U[ids] ∘ σ) Vᵀ and logits ((x V) ∘ σ) Uᵀ, so that a training step never builds W.
    Nothing here forces U and V to have orthonormal columns or σ to follow a prior: that is the
    work of the penalties in `course_lib.regularizers`. As long as the columns are orthonormal, σ
    are W's singular values, in no particular order: they may cross during training, and
    `singular_values()` sorts them.

    σ ≥ 0 holds by construction, as the absolute value of a free parameter. Nothing is lost by this:
    a negative σ would give the matrix of the positive one with a column of U reversed.
    """

    @checked
    def __init__(
        self,
        vocabulary: Count,
        size: Count,
        init: NonNegative = 0.1,
        normal: bool = False,
        normalise: bool = False,
    ):
        """Begin at the decomposition of `FullWords(vocabulary, size, init, normal)`.

        vocabulary, size, init, normal: as in `FullWords`;
        normalise: use σ / max σ, spectral normalisation (wang2020, Table 6).
        Raises ValueError for fewer words than dimensions, which have no d orthonormal columns, and
        CourseError for a number out of its range.
        """
        super().__init__()
        if vocabulary < size:
            raise ValueError(f"spectral words need N ≥ d, not {vocabulary} words of size {size}")
        self.normalise = normalise
        plain = FullWords(vocabulary, size, init, normal).weight.detach()
        if plain.is_meta:  # no numbers to decompose, only shapes to count
            U, sigma, Vh = plain, plain[0], plain[:size]
        else:
            U, sigma, Vh = torch.linalg.svd(plain, full_matrices=False)
        self.U, self.free, self.V = (nn.Parameter(t.contiguous().clone()) for t in (U, sigma, Vh.T))
        # Where the power iterations of the spectral-norm penalties begin: where they last ended.
        for name in ("warm_U", "warm_V"):
            self.register_buffer(name, F.normalize(torch.randn(size), dim=0))

    @torch.no_grad()
    def start_at(self, sigma: Tensor) -> None:
        """Replace the singular values, the largest by the largest of `sigma` (d,), and so on."""
        falling = sigma.sort(descending=True).values
        self.free[self.sigma.argsort(descending=True)] = falling.to(self.free)

    @property
    def shape(self) -> tuple[int, int]:
        """N and d."""
        return self.U.shape[0], self.U.shape[1]

    @property
    def sigma(self) -> Tensor:
        """Return the numbers σ (d,), none below 0, paired with the columns of U and V."""
        sigma = self.free.abs()
        return sigma / sigma.max() if self.normalise else sigma

    def singular_values(self) -> Tensor:
        """Return σ (d,) in decreasing order."""
        return self.sigma.sort(descending=True).values

    def forward(self, ids: Tensor) -> Tensor:
        """Return rows (…, d) of words (…)."""
        return (F.embedding(ids, self.U) * self.sigma) @ self.V.T

    def factors(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return (x V) ∘ σ and U of contexts (…, d)."""
        return (x @ self.V) * self.sigma, self.U

    def matrix(self) -> Tensor:
        """Return W (N, d), for analysis."""
        return (self.U * self.sigma) @ self.V.T
