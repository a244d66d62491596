"""The image classifier learns, and the same seed gives the same one."""

import torch

from course_lab import digits


def test_it_learns_and_its_seed_decides():
    first = digits.train(1, passes=2)
    assert first.accuracy > 0.8
    assert first.states.shape == (len(first.labels), 32) and first.weights.shape == (10, 32)
    assert torch.equal(first.weights, digits.train(1, passes=2).weights)
    assert not torch.equal(first.weights, digits.train(2, passes=1).weights)
