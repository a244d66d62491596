"""The forward pass of a trained Llama, such as SmolLM2, which is only read from.

Each block adds to a position's vector what its attention reads at earlier positions, and then what
a gated network of one hidden layer makes of it (Touvron et al. 2023). The contexts are those
vectors behind the last normalisation; their products with the word matrix are the logits.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu


@dataclass(frozen=True)
class LlamaShape:
    """The sizes of a Llama, and the constants of its rotary positions and its normalisation."""

    blocks: int
    size: int
    heads: int
    key_value_heads: int  # each is read by heads / key_value_heads heads of queries
    inner: int  # numbers within a block's network
    longest: int  # context in tokens
    base: float  # of the rotary angles
    epsilon: float  # of the normalisation


class Llama:
    """A language model that is only read from: `contexts`, `log_prob`, `generate`.

    shape: its sizes. tensors: its weights in float32, by the names that llama.cpp gives them.
    words: (N, d), the matrix that reads. W: (N, d), the one that predicts; if tied, the same.
    """

    def __init__(self, shape: LlamaShape, tensors: Mapping[str, Tensor]):
        self.shape = shape
        self.tensors = tensors
        self.words = tensors["token_embd.weight"]
        self.W = tensors.get("output.weight", self.words)

    @torch.no_grad()
    def contexts(self, ids: Tensor) -> Tensor:
        """Return the context (T, d) of each of T token ids, from those up to it."""
        x = self.words[ids]
        turns = self._turns(len(ids))
        for block in range(self.shape.blocks):
            x = x + self._attend(block, self._normalised(x, f"blk.{block}.attn_norm"), turns)
            h = self._normalised(x, f"blk.{block}.ffn_norm")
            gate = silu(self._times(h, f"blk.{block}.ffn_gate"))
            up = self._times(h, f"blk.{block}.ffn_up")
            x = x + self._times(gate * up, f"blk.{block}.ffn_down")
        return self._normalised(x, "output_norm")

    @torch.no_grad()
    def log_prob(self, ids: Tensor, W: Tensor | None = None) -> Tensor:
        """Return log P (T, N) of the token after each of T ids; W takes the matrix's place."""
        return linear(self.contexts(ids), self.W if W is None else W).log_softmax(-1)

    def generate(self, ids: list[int], tokens: int) -> list[int]:
        """Return ids with the likeliest token appended, `tokens` times."""
        for _ in range(tokens):
            last = self.contexts(torch.tensor(ids))[-1]
            ids = [*ids, int((self.W @ last).argmax())]
        return ids

    def _times(self, x: Tensor, name: str) -> Tensor:
        return linear(x, self.tensors[f"{name}.weight"])

    def _normalised(self, x: Tensor, name: str) -> Tensor:
        return rms_norm(x, x.shape[-1:], self.tensors[f"{name}.weight"], self.shape.epsilon)

    def _turns(self, T: int) -> Tensor:
        """Return the complex numbers (T, 1, k) that turn pairs of a head by their position."""
        width = self.shape.size // self.shape.heads
        rates = self.shape.base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = torch.outer(torch.arange(T, dtype=torch.float64), rates)
        return torch.polar(torch.ones_like(angles), angles)[:, None].to(torch.complex64)

    def _turned(self, x: Tensor, heads: int, turns: Tensor) -> Tensor:
        """Return x (T, heads · 2k) with its pairs turned: (T, heads, 2k)."""
        pairs = x.unflatten(-1, (heads, -1, 2))  # llama.cpp keeps those of a pair side by side
        return torch.view_as_real(torch.view_as_complex(pairs) * turns).flatten(-2)

    def _attend(self, block: int, x: Tensor, turns: Tensor) -> Tensor:
        heads, key_value_heads = self.shape.heads, self.shape.key_value_heads
        q, k, v = (self._times(x, f"blk.{block}.attn_{name}") for name in "qkv")
        q = self._turned(q, heads, turns)
        k = self._turned(k, key_value_heads, turns)
        v = v.unflatten(-1, (key_value_heads, -1))
        q, k, v = (part.transpose(0, 1) for part in (q, k, v))  # (heads, T, width)
        k, v = (part.repeat_interleave(heads // key_value_heads, 0) for part in (k, v))
        read = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self._times(read.transpose(0, 1).flatten(1), f"blk.{block}.attn_output")
