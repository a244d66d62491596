"""Targets that do not count have one number, in the batches and in every loss."""

IGNORE = -100  # as in PyTorch's `cross_entropy`
