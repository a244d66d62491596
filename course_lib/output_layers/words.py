"""Word matrices: N rows, one vector a word, used to read words, to predict them, or both."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class FullWords(nn.Module):
    """A plain word matrix W (N, d).

    Every word matrix answers three questions: `words(ids)` are rows, `words.factors(x)` is a pair
    (x', M) whose product x' Mᵀ equals x Wᵀ, `words.matrix()` is W itself, for analysis. Giving one
    object to both ends of a model ties them (inan2017, reused embeddings).
    """

    def __init__(self, words: int, size: int, init: float = 0.1, normal: bool = False):
        """`init`: half-width of the uniform distribution, or standard deviation if `normal`."""
        super().__init__()
        weight = torch.empty(words, size)
        self.weight = nn.Parameter(
            weight.normal_(0, init) if normal else weight.uniform_(-init, init)
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(N, d)."""
        return tuple(self.weight.shape)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (…) → rows (…, d)."""
        return F.embedding(ids, self.weight)

    def factors(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (…, d) → (x', M) with logits x' Mᵀ; here x and W themselves."""
        return x, self.weight

    def matrix(self) -> Tensor:
        """W (N, d)."""
        return self.weight
