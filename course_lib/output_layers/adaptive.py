"""The adaptive softmax: frequent words first, rare ones in clusters (Grave et al. 2017)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from course_lib.machine import accelerated, moved, on_host
from course_lib.output_layers.blocked_loss import Group
from course_lib.output_layers.kernel import check_soft, check_targets
from course_lib.output_layers.layer import OutputLayer, Words
from course_lib.output_layers.objectives import Block, CrossEntropy, Objective, TableBlock
from course_lib.output_layers.products import type_of_sums
from course_lib.ranges import checked
from course_lib.targets import IGNORE

LARGE = 1 << 27  # numbers of log P that a GPU forms at once where it needs all of them


@dataclass(frozen=True)
class _Shortlist(Objective):
    """−log P of a shortlist's word, or the part of a cluster's −log P that needs the shortlist.

    The block's `log_weights` are the logarithm of what the clusters' logits add to Z. The other
    part of −log P of a cluster is minus its logit, which needs no vocabulary.
    """

    inside: bool
    needs_logits = False

    def __call__(self, block: Block) -> Tensor:
        log_z = torch.logaddexp(block.log_z, block.log_weights)
        return (log_z - block.target_logit if self.inside else log_z).squeeze(-1)


class AdaptiveSoftmax(OutputLayer):
    """A softmax over the frequent words and clusters of rarer ones, and one within each cluster.

        P(y | h) = P_head(y | h)                                y < edges[1]
        P(y | h) = P_head(cluster c | h) P_c(y | h)             edges[c] ≤ y < edges[c + 1], c ≥ 1

    with edges = (0, *cutoffs, N). Naive: see `naive.clusters`.

    Words are sorted by falling frequency. Only those clusters are computed that a batch's targets
    are in, over the rows of one word matrix. The matrix may therefore be tied: this is the variant
    of Transformer-XL, whose div_val is 1. In torch's `nn.AdaptiveLogSoftmaxWithLoss` each cluster
    has a matrix of its own. The clusters' weights begin uniform in ±1/√d; the released code of
    Transformer-XL draws all its weights with the standard deviation 0.02.

    Losses other than the cross-entropy look at the whole vocabulary: their blocks of log P are
    formed, and formed again in the backward pass. A transform acts on the words' logits, not on the
    clusters' entries. Raises ValueError in training with a `gate`.
    Source: Grave et al. 2017, "Efficient softmax approximation for GPUs".
    """

    requires = frozenset({"by_frequency"})

    @checked
    def __init__(
        self,
        words: Words,
        *arguments,
        cutoffs: tuple[int, ...] = (20_000, 40_000, 200_000),
        **options,
    ):
        """Make the layer with these first words of the clusters.

        Raises ValueError unless the cutoffs increase between 0 and N.
        """
        super().__init__(words, *arguments, **options)
        edges = [0, *cutoffs, words.shape[0]]
        if len(edges) < 3 or any(a >= b for a, b in zip(edges, edges[1:], strict=False)):
            raise ValueError(f"cutoffs {tuple(cutoffs)} must increase between 0 and {edges[-1]}")
        self.edges = edges
        self.clusters = nn.Linear(self.hidden_size, len(edges) - 2)
        nn.init.zeros_(self.clusters.bias)

    def contexts(self, hidden: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return contexts (…, 1, d), and None; ValueError for those of a mixture."""
        contexts, log_weights = super().contexts(hidden)
        if log_weights is not None:
            raise ValueError("an adaptive softmax takes one context a position, and no mixture")
        return contexts, None

    def forward(self, hidden, target, objective=None, soft=None, reduction="mean"):
        """Return the loss and its cross-entropy part, as `OutputLayer.forward` does."""
        if self.training and self.gate is not None:
            raise ValueError("a gate looks at all words and cannot act on groups of them")
        check_targets(target, hidden.shape[:-1], self.words.shape[0], reduction)
        if objective not in (None, CrossEntropy()):
            check_soft(soft, [objective], len(target.flatten()), self.words.shape[0])
            return self._dense(hidden, target, objective, soft, reduction)
        shape = target.shape
        # the targets' clusters, from a copy of the targets that the host may look at
        known = on_host(target).flatten()
        edges = torch.tensor(self.edges[1:-1], device=known.device)
        cluster = torch.bucketize(known, edges, right=True)
        cluster[known == IGNORE] = -1
        target = target.flatten()
        contexts, _ = self.contexts(hidden)
        contexts = contexts.flatten(0, -3)
        cluster_logits = self.clusters(hidden.flatten(0, -2)).to(type_of_sums(contexts))
        # groups of positions: all choose among the shortlist, a cluster's also within the cluster
        groups = []
        entry = cluster_logits.new_zeros(len(target))  # the logit of each target's cluster
        shortlist = (0, self.edges[1])
        for c, columns in enumerate(zip(self.edges, self.edges[1:], strict=False)):
            members = moved((cluster == c).nonzero()[:, 0], target.device)
            head = _Shortlist(inside=c == 0)
            groups.append(Group(shortlist, head, head, members, holds_target=c == 0))
            if c:
                groups.append(Group(columns, CrossEntropy(), positions=members, weighted=False))
                entry = entry.index_add(0, members, cluster_logits[members, c - 1])
        # −log P = the groups' losses − the cluster's logit; for log_weights see `_Shortlist`
        log_weights = cluster_logits.logsumexp(-1, keepdim=True)
        options = {"log_weights": log_weights, "groups": groups, "reduction": reduction}
        loss, nll = self.blocked_loss(contexts, target, **options)
        if reduction == "none":
            return (loss - entry).view(shape), (nll - entry.detach()).view(shape)
        entry = entry.sum()
        if reduction == "mean":
            entry = entry / (target != IGNORE).sum().clamp(min=1)
        return loss - entry, nll - entry.detach()

    def log_prob(self, hidden: Tensor) -> Tensor:
        """Return log P (…, N) of hidden states (…, d), in nats; forms the whole table."""
        return self._table(hidden)[0]

    def expectation(self, hidden: Tensor, values: Tensor) -> Tensor:
        """Return Σ_j P(j | h) v_j, as `OutputLayer.expectation` does."""
        return self.log_prob(hidden).exp().to(values) @ values

    def _table(self, hidden, target=None):
        """Return log P (…, N) and the head's log Z (…); with targets (n,), as in training."""
        logits = self.logits(hidden, target)[0].squeeze(-2)
        first = self.edges[1]
        head = torch.cat([logits[..., :first], self.clusters(hidden).to(logits)], -1)
        log_z = head.logsumexp(-1)
        head = head - log_z.unsqueeze(-1)
        pieces = [head[..., :first]]
        for c, (low, high) in enumerate(zip(self.edges[1:], self.edges[2:], strict=False)):
            pieces.append(head[..., first + c, None] + logits[..., low:high].log_softmax(-1))
        return torch.cat(pieces, -1), log_z

    def _dense(self, hidden, target, objective, soft, reduction):
        """Return any objective's loss, on blocks of the whole log P."""
        block = max(64, LARGE // self.words.shape[0]) if accelerated(hidden) else 64
        shape = target.shape
        target = target.flatten()
        counted = target != IGNORE
        # As in `BlockedLoss`, an ignored target is some word whose bias is finite: 0 · ∞ is NaN.
        some = 0 if self.bias is None else self.bias.argmax()
        target = torch.where(counted, target, some)
        hidden = hidden.flatten(0, -2)

        def block_losses(h, y, *soft):
            table = self._table(h, y if self.training else None)
            with torch.autocast(h.device.type, enabled=False):  # as in the kernel
                soft = [t.to(type_of_sums(t)) for t in soft]
                view = TableBlock(*table, y, soft[0] @ soft[1].T if soft else None)
                return objective(view), CrossEntropy()(view).detach()

        pairs = []
        for start in range(0, max(1, len(target)), block):
            positions = slice(start, start + block)
            given = () if soft is None else (soft[0][positions], soft[1])
            inputs = hidden[positions], target[positions], *given
            pairs.append(checkpoint(block_losses, *inputs, use_reentrant=False))
        loss, nll = map(torch.cat, zip(*pairs, strict=True))
        counted = counted.to(loss)
        loss, nll = loss * counted, nll * counted
        if reduction == "none":
            return loss.view(shape), nll.view(shape)
        scale = counted.sum().clamp(min=1) if reduction == "mean" else 1
        return loss.sum() / scale, nll.sum() / scale
