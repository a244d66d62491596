"""The adaptive softmax: frequent words first, rare ones in clusters (Grave et al. 2017)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from course_lib.output_layers.kernel import IGNORE, Group, check_targets, chunked_loss
from course_lib.output_layers.layer import OutputLayer
from course_lib.output_layers.objectives import CrossEntropy, Objective, TableBlock


@dataclass(frozen=True)
class _Shortlist(Objective):
    """−log P of a shortlist's word, or of no word of it, where the block's `log_weights` are the
    log of the mass that the clusters' own logits add to Z. What is left out for the second, minus
    the cluster's logit, needs no vocabulary."""

    inside: bool

    def __call__(self, block):
        log_z = torch.logaddexp(block.log_z, block.log_weights)
        return (log_z - block.target_logit if self.inside else log_z).squeeze(-1)


class AdaptiveSoftmax(OutputLayer):
    """Words up to cutoffs[0] compete with one entry for each cluster of rarer words, and a
    cluster's words with each other:

        P(y | h) = P_head(y | h)                                y < cutoffs[0]
        P(y | h) = P_head(cluster c | h) P_c(y | h)             cutoffs[c] ≤ y < cutoffs[c + 1]

    Naive: `torch.cat([head[:, :c0], *(head[:, c0 + c, None] + tail.log_softmax(-1) for …)], 1)`
    with `head = torch.cat([logits[:, :c0], clusters(h)], 1).log_softmax(-1)`.

    Words are sorted by falling frequency. Only the clusters that a batch's targets are in are
    computed, over the rows of one word matrix, which may therefore be tied: the variant of
    Transformer-XL, whose div_val is 1. (torch's `nn.AdaptiveLogSoftmaxWithLoss` has matrices of
    its own for each cluster, which cannot be the input embedding.) The clusters' own weights begin
    uniform in ±1/√d, as `nn.Linear` has them; the released code of Transformer-XL draws them, as
    all its weights, with the standard deviation 0.02.

    Losses other than the cross-entropy look at the whole vocabulary: their blocks of log P are
    formed and recomputed in the backward pass, at the cost of a softmax. A transform acts on the
    words' logits, not on the clusters' entries. ValueError in training with a `gate`.
    """

    def __init__(
        self,
        words,
        hidden_size: int | None = None,
        bias: bool = True,
        cutoffs: tuple[int, ...] = (20_000, 40_000, 200_000),
    ):
        """`cutoffs`: first words of the clusters, increasing; ValueError if they leave (0, N)."""
        super().__init__(words, hidden_size, bias)
        edges = [0, *cutoffs, words.shape[0]]
        if len(edges) < 3 or any(a >= b for a, b in zip(edges, edges[1:], strict=False)):
            raise ValueError(f"cutoffs {tuple(cutoffs)} must increase between 0 and {edges[-1]}")
        self.edges = edges
        clusters = len(edges) - 2
        self.clusters = nn.Linear(words.shape[1], clusters)
        nn.init.zeros_(self.clusters.bias)

    def forward(self, hidden, target, objective=None, soft=None, reduction="mean"):
        """As `OutputLayer.forward`."""
        if self.training and self.gate is not None:
            raise ValueError("a gate looks at all words and cannot act on groups of them")
        if objective not in (None, CrossEntropy()):  # without the kernel, which looks at targets
            check_targets(target, self.words.shape[0])
            return self._dense(hidden, target, objective, soft, reduction)
        shape, target = target.shape, target.flatten()
        contexts, _ = self.contexts(hidden)
        contexts = contexts.flatten(0, -3)
        cluster_logits = self.clusters(contexts[:, 0]).to(_wide(contexts))
        cluster = torch.bucketize(target, torch.tensor(self.edges[1:-1]).to(target), right=True)
        groups, entry = [], cluster_logits.new_zeros(len(target))
        for c, columns in enumerate(zip(self.edges, self.edges[1:], strict=False)):
            here = ((cluster == c) & (target != IGNORE)).nonzero()[:, 0]
            objective = _Shortlist(inside=c == 0)
            head = (0, self.edges[1])
            groups.append(Group(head, objective, objective, here, holds_target=c == 0))
            if c:
                objective = CrossEntropy()
                groups.append(Group(columns, objective, objective, here, weighted=False))
                entry = entry.index_add(0, here, cluster_logits[here, c - 1])
        x, matrix = self.words.factors(contexts)
        loss, nll = chunked_loss(
            x,
            matrix,
            target,
            bias=self.bias,
            log_weights=cluster_logits.logsumexp(-1, keepdim=True),
            offset=self.target_offset(contexts, target.clamp(min=0)) if self.training else None,
            transform=self.transform,
            parameters=self.transform_parameters(),
            gate=self.gate if self.training else None,
            groups=groups,
            reduction=reduction,
        )
        if reduction == "none":
            return (loss - entry).view(shape), (nll - entry.detach()).view(shape)
        entry = entry.sum()
        if reduction == "mean":
            entry = entry / (target != IGNORE).sum().clamp(min=1)
        return loss - entry, nll - entry.detach()

    def log_prob(self, hidden):
        """hidden (…, d) → log P (…, N), in nats; forms the whole table."""
        return self._table(hidden)[0]

    def _table(self, hidden, target=None):
        """log P (…, N) and the head's log Z (…); with targets (n,), as in training."""
        logits, first = self.logits(hidden, target)[0].squeeze(-2), self.edges[1]
        head = torch.cat([logits[..., :first], self.clusters(hidden).to(logits)], -1)
        log_z = head.logsumexp(-1)
        head = head - log_z.unsqueeze(-1)
        pieces = [head[..., :first]]
        for c, (low, high) in enumerate(zip(self.edges[1:], self.edges[2:], strict=False)):
            pieces.append(head[..., first + c, None] + logits[..., low:high].log_softmax(-1))
        return torch.cat(pieces, -1), log_z

    def _dense(self, hidden, target, objective, soft, reduction, block: int = 64):
        """Any objective, on blocks of the whole log P, which are their own normalised logits."""
        shape, target, hidden = target.shape, target.flatten(), hidden.flatten(0, -2)

        def one_block(h, y, *soft):
            table = self._table(h, y if self.training else None)
            with torch.autocast(h.device.type, enabled=False):  # as in the kernel
                soft = [t.to(_wide(t)) for t in soft]
                view = TableBlock(*table, y, soft[0] @ soft[1].T if soft else None)
                return objective(view), CrossEntropy()(view).detach()

        losses, nlls = [], []
        for start in range(0, len(target), block):
            here = slice(start, start + block)
            given = () if soft is None else (soft[0][here], soft[1])
            loss, nll = checkpoint(
                one_block, hidden[here], target[here].clamp(min=0), *given, use_reentrant=False
            )
            losses.append(loss)
            nlls.append(nll)
        counted = (target != IGNORE).to(losses[0])
        loss, nll = torch.cat(losses) * counted, torch.cat(nlls) * counted
        if reduction == "none":
            return loss.view(shape), nll.view(shape)
        scale = counted.sum().clamp(min=1) if reduction == "mean" else 1
        return loss.sum() / scale, nll.sum() / scale


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
