"""Shared by all tests: few threads, so that results do not depend on the machine's load."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _threads():
    torch.set_num_threads(1)
