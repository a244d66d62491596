"""How words are read in training: rows dropped, noise added."""

import math

import torch
from torch import Tensor, nn

from course_lib.dropout import keep_mask
from course_lib.errors import CourseError
from course_lib.ranges import Dropout, NonNegative


class InputEmbedding(nn.Module):
    """Rows of a word matrix with the regularisation of the input (no parameters).

    row_dropout: share of the vocabulary's words whose row is zero throughout a call (Gal and
    Ghahramani 2016; AWD-LSTM), the others divided by what is kept. noise: standard deviation of
    Gaussian noise on every entry at the start of a run, from where it falls linearly to 0 at the
    end (wang2019, section 5.1; its text calls 0.2 a variance, its code's 0.15–0.175 are standard
    deviations). With `fade` off it stays (that code; parthiban2021, Table 5). Neither touches the
    matrix as the output layer sees it, nor evaluation. CourseError for settings out of range.
    """

    def __init__(self, row_dropout: Dropout = 0.0, noise: NonNegative = 0.0, fade: bool = True):
        super().__init__()
        if not 0 <= noise < math.inf:
            raise CourseError(f"noise must be a standard deviation of 0 or more, not {noise}")
        self.row_dropout, self.noise, self.fade = row_dropout, noise, fade
        self.share_left = 1.0

    def anneal(self, progress: float) -> None:
        """`progress`: share of the run that is done, in [0, 1]."""
        self.share_left = 1.0 - progress if self.fade else 1.0

    def forward(self, words: nn.Module, ids: Tensor) -> Tensor:
        """ids (T, B) → rows (T, B, d)."""
        rows = words(ids)
        if not self.training:
            return rows
        if self.row_dropout:
            kept = keep_mask(rows.new_empty(words.shape[0]), self.row_dropout)
            rows = rows * kept[ids].unsqueeze(-1)
        if self.noise:
            rows = rows + torch.randn_like(rows) * (self.noise * self.share_left)
        return rows
