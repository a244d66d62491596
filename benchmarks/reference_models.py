"""The papers' models as one writes them first in PyTorch: what the course's own are measured by.

Written like the released codes: every logit in a tensor, masks by `F.dropout`, a cache by a loop
over the words, gradients and updates parameter by parameter.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.dropout import locked_dropout
from course_lib.models import detach


class PlainLSTM(nn.Module):
    """AWD-LSTM, tied: torch's LSTM a layer, its recurrent matrix through `F.dropout` at each call.

    With `components` a mixture of softmaxes (the released code of Yang et al. 2018).
    """

    def __init__(self, words, sizes, components, input_dropout, hidden_dropout, latent_dropout):
        super().__init__()
        self.components, self.input_dropout = components, input_dropout
        self.hidden_dropout, self.latent_dropout = hidden_dropout, latent_dropout
        self.embedding = nn.Embedding(words, sizes[0])
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        pairs = list(zip(sizes, sizes[1:], strict=False))
        self.lstms = nn.ModuleList(nn.LSTM(*pair) for pair in pairs)
        self.bias = nn.Parameter(torch.zeros(words))
        if components:
            self.prior = nn.Linear(sizes[-1], components, bias=False)
            self.latent = nn.Linear(sizes[-1], components * sizes[0])

    def forward(self, tokens, state, target):
        """tokens, target (T, B), state a list of (h, c) or None → loss, state."""
        weight, drop = self.embedding.weight, self.training
        x, new = F.embedding(tokens, weight * self.kept_rows(weight) if drop else weight), []
        for layer, lstm in enumerate(self.lstms):
            x = locked_dropout(x, (self.hidden_dropout if layer else self.input_dropout) * drop)
            x, last = self._layer(lstm, x, state[layer] if state else None)
            new.append(last)
        hidden = locked_dropout(x, 0.4 * drop)
        changes = (x[1:] - x[:-1]).square()  # none in a segment of one row
        penalty = 2 * hidden.square().mean() + changes.sum() / max(1, changes.numel())
        loss = self._mixture(hidden, target) if self.components else self._softmax(hidden, target)
        return loss + penalty if drop else loss, new

    def kept_rows(self, weight):
        """Return a mask (N, 1) of the rows of the word matrix (N, d)."""
        return F.dropout(torch.ones_like(weight[:, :1]), 0.1)

    def dropped(self, recurrent):
        """Return a recurrent matrix (4u, u) without half of its entries."""
        return F.dropout(recurrent, 0.5)

    def _layer(self, lstm, x, state):
        if state is None:
            state = (x.new_zeros(1, x.shape[1], lstm.hidden_size),) * 2
        weights = list(lstm.parameters())
        if self.training:
            weights[1] = self.dropped(weights[1])
        if torch.is_autocast_enabled(x.device.type):  # which nn.LSTM would see to itself
            weights = [w.to(torch.bfloat16) for w in weights]
            x, state = x.to(torch.bfloat16), [s.to(torch.bfloat16) for s in state]
        # train is True in evaluation, too: else cuDNN computes no gradients, which dynamic
        # evaluation needs
        x, *last = torch.lstm(x, state, weights, True, 1, 0.0, True, False, False)
        return x, last

    def _softmax(self, hidden, target):
        logits = F.linear(hidden, self.embedding.weight, self.bias)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    def _mixture(self, hidden, target):
        latent = locked_dropout(self.latent(hidden).tanh(), self.latent_dropout * self.training)
        logits = F.linear(latent.view(-1, self.embedding.embedding_dim), self.embedding.weight)
        prob = (logits + self.bias).softmax(-1).view(target.numel(), self.components, -1)
        prior = self.prior(hidden).softmax(-1).view(target.numel(), self.components, 1)
        log_prob = torch.log((prob * prior).sum(1) + 1e-8)
        return F.nll_loss(log_prob, target.flatten())


class PlainEncoded(nn.Module):
    """A tied model: an encoder in its plain form, and every logit in a tensor."""

    def __init__(self, words: int, size: int, encoder: nn.Module, plain):
        """Take an encoder of the course for its weights; `plain` computes with them."""
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.encoder = encoder
        self.plain = plain

    def forward(self, tokens, state, target):
        """tokens, target (T, B), state of the plain form or None → loss, state."""
        hidden, state = self.plain(self.encoder, self.embedding(tokens), state)
        logits = F.linear(hidden, self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten()), state


def plain_variational_lstm(encoder, x, state):
    """Return hidden, state of a `VariationalLSTM`, one word after the other."""
    new = []
    for layer, units in enumerate(encoder.sizes[1:]):
        h, c = state[layer] if state else [x.new_zeros(x.shape[1], units)] * 2
        mask = F.dropout(torch.ones_like(h), encoder.dropout, encoder.training)
        outputs = []
        for x_t in x:
            gates = F.linear(x_t, encoder.input[layer], encoder.input_bias[layer])
            read = F.linear(h * mask, encoder.recurrent[layer], encoder.recurrent_bias[layer])
            o, i, f, g = (gates + read).chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h * mask)
        x = torch.stack(outputs)
        new.append((h, c))
    return x, new


def plain_rhn(encoder, x, state):
    """Return hidden, state of an `RHN`, one word and one highway layer after the other."""
    training = encoder.training
    x = locked_dropout(x, encoder.input_dropout, training)
    s = x.new_zeros(x.shape[1], encoder.output_size) if state is None else state
    mask = F.dropout(torch.ones_like(s), encoder.dropout, training)
    hidden = []
    for x_t in x:
        for layer, (matrix, bias) in enumerate(zip(encoder.recurrent, encoder.bias, strict=True)):
            both = F.linear(s * mask, matrix, bias)
            if layer == 0:
                both = both + F.linear(x_t, encoder.input)
            a, b = both.chunk(2, dim=-1)
            t = b.sigmoid()
            s = t * a.tanh() + (1 - t) * s
        hidden.append(s)
    return locked_dropout(torch.stack(hidden), encoder.output_dropout, training), s


def plain_qrnn(encoder, x, state):
    """Return hidden, state of a `QRNN` without zoneout, whose pooling goes word by word."""
    training = encoder.training
    x = locked_dropout(x, encoder.input_dropout, training)
    before = state[0] if state else torch.zeros_like(x[0])
    last, new = x[-1], []
    x = torch.cat([torch.cat([before[None], x[:-1]]), x], dim=-1)
    for number, layer in enumerate(encoder.layers):
        x = locked_dropout(x, encoder.hidden_dropout if number else 0.0, training)
        weight = F.dropout(layer.weight, encoder.weight_drop, training)
        z, f, o = F.linear(x, weight, layer.bias).chunk(3, dim=-1)
        z, f, o = z.tanh(), f.sigmoid(), o.sigmoid()
        c = state[1][number] if state else torch.zeros_like(z[0])
        cells = []
        for z_t, f_t in zip(z, f, strict=True):
            c = f_t * z_t + (1 - f_t) * c
            cells.append(c)
        x = o * torch.stack(cells)
        new.append(c)
    return x, (last, tuple(new))


class PlainTransformerXL(nn.Module):
    """Transformer-XL, tied, with the released code's shift: pad, view, slice, for every layer."""

    def __init__(self, words, size, layers, heads, head_size, feedforward, memory, dropout=0.1):
        super().__init__()
        self.heads, self.head_size, self.memory = heads, head_size, memory
        self.embedding, inner = nn.Embedding(words, size), heads * head_size
        nn.init.normal_(self.embedding.weight, 0.0, 0.02)
        self.u, self.v = (nn.Parameter(torch.zeros(heads, head_size)) for _ in "uv")
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "qkv": nn.Linear(size, 3 * inner, bias=False),
                    "position": nn.Linear(size, inner, bias=False),
                    "output": nn.Linear(inner, size, bias=False),
                    "norm": nn.LayerNorm(size),
                    "feedforward": nn.Sequential(
                        nn.Linear(size, feedforward), nn.ReLU(), nn.Dropout(dropout),
                        nn.Linear(feedforward, size), nn.Dropout(dropout),
                    ),
                    "feedforward_norm": nn.LayerNorm(size),
                }
            )
            for _ in range(layers)
        )  # fmt: skip

    def forward(self, tokens, state, target):
        """tokens, target (T, B), state a list of (M, B, d) or None → loss, state."""
        size, steps = self.embedding.embedding_dim, len(tokens)
        x = self.dropout(self.embedding(tokens) * math.sqrt(size))
        state = state or [x[:0]] * len(self.layers)
        reach = len(state[0]) + steps
        half = torch.arange(0, size, 2, device=x.device, dtype=x.dtype) / size
        distances = torch.arange(reach - 1, -1, -1, device=x.device, dtype=x.dtype)
        angles = torch.outer(distances, 10000**-half)
        positions = self.dropout(torch.cat([angles.sin(), angles.cos()], -1))
        later = torch.ones(steps, reach, dtype=torch.bool, device=x.device)
        later, new = later.triu(reach - steps + 1)[:, :, None, None], []
        for layer, past in zip(self.layers, state, strict=True):
            past = torch.cat([past, x])
            new.append(past[max(0, len(past) - self.memory) :].detach())
            x = layer["norm"](x + self.dropout(self._attention(layer, past, positions, later)))
            x = layer["feedforward_norm"](x + layer["feedforward"](x))
        logits = F.linear(self.dropout(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten()), new

    def _attention(self, layer, past, positions, later):
        steps, reach, batch = len(later), len(past), past.shape[1]
        q, k, v = layer["qkv"](past).view(reach, batch, 3, self.heads, self.head_size).unbind(2)
        q, r = q[-steps:], layer["position"](positions).view(reach, self.heads, self.head_size)
        content = torch.einsum("ibnd,jbnd->ijbn", q + self.u, k)
        position = torch.einsum("ibnd,jnd->ijbn", q + self.v, r)
        scores = (content + _shift(position)) / math.sqrt(self.head_size)
        weights = scores.masked_fill(later, -torch.inf).softmax(1)
        mixed = torch.einsum("ijbn,jbnd->ibnd", weights, v)
        return layer["output"](mixed.flatten(2))


class PlainTranslator(nn.Module):
    """The Transformer for translation, three ways tied, of nn.MultiheadAttention; no padding."""

    def __init__(self, words, size, layers, heads, feedforward, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        nn.init.normal_(self.embedding.weight, 0.0, size**-0.5)
        self.dropout = nn.Dropout(dropout)

        def layer(attentions):
            return nn.ModuleDict(
                {
                    "attentions": nn.ModuleList(
                        nn.MultiheadAttention(size, heads, bias=False) for _ in range(attentions)
                    ),
                    "norms": nn.ModuleList(nn.LayerNorm(size) for _ in range(attentions + 1)),
                    "feedforward": nn.Sequential(
                        nn.Linear(size, feedforward), nn.ReLU(), nn.Linear(feedforward, size)
                    ),
                }
            )

        self.encoder = nn.ModuleList(layer(1) for _ in range(layers))
        self.decoder = nn.ModuleList(layer(2) for _ in range(layers))

    def forward(self, source, tokens, target):
        """Source (S, B), tokens and target (T, B) → loss."""
        memory = self._placed(source)
        for layer in self.encoder:
            memory = self._layer(layer, memory, [(None, None)])
        y = self._placed(tokens)
        later = torch.ones(len(y), len(y), dtype=torch.bool, device=y.device).triu(1)
        for layer in self.decoder:
            y = self._layer(layer, y, [(None, later), (memory, None)])
        logits = F.linear(y, self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    def _layer(self, layer, x, attended):
        """Return x behind its attentions, each to itself or to a memory, and the network."""
        *norms, last = layer["norms"]
        for attention, norm, (memory, mask) in zip(
            layer["attentions"], norms, attended, strict=True
        ):
            seen = x if memory is None else memory
            mixed = attention(x, seen, seen, attn_mask=mask, need_weights=False)[0]
            x = norm(x + self.dropout(mixed))
        return last(x + self.dropout(layer["feedforward"](x)))

    def _placed(self, tokens):
        """Return word vectors, times √d, with the sines of their places."""
        x = self.embedding(tokens)
        size = x.shape[-1]
        half = torch.arange(0, size, 2, device=x.device, dtype=x.dtype) / size
        places = torch.arange(len(x), device=x.device, dtype=x.dtype)
        angles = torch.outer(places, 10000**-half)
        positions = torch.cat([angles.sin(), angles.cos()], -1)
        return self.dropout(x * math.sqrt(size) + positions[:, None])


def _shift(x: Tensor) -> Tensor:
    """Return scores by key of those by distance: add a column of zeros, read one row further."""
    padded = torch.cat([torch.zeros_like(x[:, :1]), x], dim=1)
    return padded.view(x.shape[1] + 1, x.shape[0], *x.shape[2:])[1:].reshape_as(x)


@torch.no_grad()
def plain_cache(hidden, words, bias, target, seen, theta, weight, length=70) -> float:
    """Return Σ −log p of the words after the first `window`, taken one at a time.

    Every past word has a one-hot row, as in pointer.py of the released AWD-LSTM.
    hidden: (L, d); words: (N, d); target: (L,); seen: (window, N), the rows of the first words.
    """
    window, total = len(seen), 0.0
    one_hot = torch.cat([seen, F.one_hot(target[window:], len(words)).float()])
    for start in range(window, len(target), length):
        part = slice(start, start + length)
        probabilities = F.linear(hidden[part], words, bias).softmax(-1)
        for t, prob in enumerate(probabilities, start):
            attention = (theta * torch.mv(hidden[t - window : t], hidden[t])).softmax(0)
            cached = (attention[:, None] * one_hot[t - window : t]).sum(0)
            mixed = weight * cached + (1 - weight) * prob
            total -= math.log(mixed[target[t]].item())
    return total


def plain_dynamic(model, text, squares, rate, decay, epsilon, length=5):
    """Yield the loss of each segment of text (L, 1) before the update that follows it.

    θ ← θ − η g/(√MS + ε) + λ (θ₀ − θ) √MS / mean √MS, parameter by parameter, `squares` the MS in
    the parameters' order (dynamiceval.py of the released mixture of softmaxes). A model returns
    (loss, state) of (tokens, state, target).
    """
    parameters, roots = list(model.parameters()), [square.sqrt() for square in squares]
    mean = sum(r.mean() for r in roots) / len(roots)
    home = [p.detach().clone() for p in parameters]
    pulls, state = [(decay * r / mean).clamp(max=1) for r in roots], None
    for start in range(0, len(text) - 1, length):
        target = text[start + 1 : start + 1 + length]
        loss, state = model(text[start : start + len(target)], state, target)
        state = detach(state)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p, p_0, root, pull in zip(parameters, home, roots, pulls, strict=True):
                p += pull * (p_0 - p) - rate * p.grad / (root + epsilon)
        yield loss.detach()
