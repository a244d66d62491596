"""Shared by all tests: few threads, so that results do not depend on the machine's load."""

import gc

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _threads():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _process_state():
    """No test leaves PyTorch in another state than it found it in: the next ones' numbers would
    be others, and only in that order."""
    before = _state()
    yield
    if _state() != before:
        gc.collect()  # an iterator that ends with the test's own variables
    assert _state() == before


def _state():
    cudnn = torch.backends.cudnn
    precisions = cudnn.rnn.fp32_precision, cudnn.conv.fp32_precision
    return torch.is_autocast_enabled("cpu"), torch.is_grad_enabled(), *precisions
