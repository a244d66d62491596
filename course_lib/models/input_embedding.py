"""How words are read in training: rows dropped, noise added."""

import torch
from torch import Tensor, nn

from course_lib.dropout import keep_mask
from course_lib.output_layers.words import Words
from course_lib.ranges import Dropout, NonNegative, checked


class InputEmbedding(nn.Module):
    """Rows of a word matrix with the regularisation of the input (no parameters).

    row_dropout: share of the vocabulary's words whose row is zero throughout a call (Gal and
        Ghahramani 2016; AWD-LSTM). All other rows are divided by the share that remains.
    noise: standard deviation of Gaussian noise on every entry at the start of a run (wang2019,
        section 5.1, whose text calls 0.2 a variance, while its code has standard deviations of 0.15
        to 0.175).
    fade: whether the noise falls linearly to 0 at the end of the run; if not, it stays (that code;
        parthiban2021, Table 5).

    Neither touches evaluation or the matrix as the output layer sees it.
    """

    @checked
    def __init__(self, row_dropout: Dropout = 0.0, noise: NonNegative = 0.0, fade: bool = True):
        super().__init__()
        self.row_dropout = row_dropout
        self.noise = noise
        self.fade = fade
        self.noise_share = 1.0  # of the noise at the start of the run

    def anneal(self, progress: float) -> None:
        """Let the noise fade; `progress` is the share of the run that is done, in [0, 1]."""
        self.noise_share = 1.0 - progress if self.fade else 1.0

    def forward(self, words: Words, ids: Tensor) -> Tensor:
        """Return the rows (T, B, d) of ids (T, B)."""
        rows = words(ids)
        if not self.training:
            return rows
        if self.row_dropout:
            mask = keep_mask(rows.new_empty(words.shape[0]), self.row_dropout)
            rows = rows * mask[ids].unsqueeze(-1)
        if self.noise:
            rows = rows + torch.randn_like(rows) * (self.noise * self.noise_share)
        return rows
