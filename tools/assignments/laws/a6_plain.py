"""The plain softmax as a layer of step 6.3: the baseline, and what both methods are at weight 0."""

import torch

METHODS = ("", "")


class Layer:
    """A softmax over W h + bias, whose loss is the cross-entropy."""

    def __init__(self, W, bias, p, strengths):
        self.W, self.bias = W, bias

    def log_prob(self, h):
        """Return log P of every word, (n, N), for contexts h (n, d)."""
        return torch.log_softmax(h @ self.W.T + self.bias, -1)

    def loss(self, h, y, block):
        """Return the mean of −log P of the words y (n,) that followed."""
        return torch.nn.functional.cross_entropy(h @ self.W.T + self.bias, y)
