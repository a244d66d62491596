"""How words are read in training: rows dropped, noise added, the gradient scaled."""

import torch
from torch import Tensor, nn

from course_lib.dropout import keep_mask
from course_lib.output_layers.words import Words
from course_lib.ranges import Dropout, NonNegative, Positive, checked


class InputEmbedding(nn.Module):
    """Rows of a word matrix with the regularisation of the input (no parameters).

    row_dropout: share of the vocabulary's words whose row is zero throughout a call (Gal and
        Ghahramani 2016; AWD-LSTM). All other rows are divided by the share that remains.
    noise: standard deviation of Gaussian noise on every entry at the start of a run (wang2019,
        section 5.1, whose text calls 0.2 a variance, while its code has standard deviations of 0.15
        to 0.175).
    fade: whether the noise falls linearly to 0 at the end of the run; if not, it stays (that code;
        parthiban2021, Table 5).
    gradient_scale: factor on the gradient that reading sends to the word matrix. The output layer's
        gradient rules a tied matrix early in training; 5 brings the matrix nearer to one that only
        reads (Lopardo et al. 2026, section 6, who try 2, 5 and 10). A matrix that only reads takes
        the same steps of Adam whatever the factor.

    None of this touches evaluation or the matrix as the output layer sees it.
    """

    @checked
    def __init__(
        self,
        row_dropout: Dropout = 0.0,
        noise: NonNegative = 0.0,
        fade: bool = True,
        gradient_scale: Positive = 1.0,
    ):
        super().__init__()
        self.row_dropout = row_dropout
        self.noise = noise
        self.fade = fade
        self.gradient_scale = gradient_scale
        self.noise_share = 1.0  # of the noise at the start of the run

    def anneal(self, progress: float) -> None:
        """Let the noise fade; `progress` is the share of the run that is done, in [0, 1)."""
        self.noise_share = max(0.0, 1.0 - progress) if self.fade else 1.0

    def forward(self, words: Words, ids: Tensor) -> Tensor:
        """Return the rows (T, B, d) of ids (T, B)."""
        rows = words(ids)
        if not self.training:
            return rows
        if self.gradient_scale != 1 and rows.requires_grad:
            rows.register_hook(lambda gradient: gradient * self.gradient_scale)
        if self.row_dropout:
            mask = keep_mask(rows.new_empty(words.shape[0]), self.row_dropout)
            rows = (rows * mask[ids].unsqueeze(-1)).to(rows.dtype)
        if self.noise:
            rows = rows + torch.randn_like(rows) * (self.noise * self.noise_share)
        return rows
