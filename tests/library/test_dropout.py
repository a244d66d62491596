"""Dropout from 16 bits an entry, against what dropout means."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.dropout import EntryDropout, entry_dropout, locked_dropout
from course_lib.errors import CourseError
from course_lib.models import InputEmbedding

pytestmark = pytest.mark.usefixtures("branches")


@given(
    share=st.floats(0.01, 0.95),
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_entries_are_dropped_or_divided_by_the_share_kept_and_gradients_likewise(
    share, shape, seed
):
    torch.manual_seed(seed)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    dropped = entry_dropout(x, share)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], x[kept] / (1 - share), rtol=1e-3, atol=0)
    (gradient,) = torch.autograd.grad((3 * dropped).sum(), x)
    torch.testing.assert_close(gradient, 3 * dropped.detach() / x.detach())


@pytest.mark.parametrize("share", [0.1, 0.5, 0.85])
def test_shares_means_and_independence(share):
    """Within five standard deviations; neighbours, which share a random number, are independent."""
    torch.manual_seed(0)
    dropped = entry_dropout(torch.ones(400, 1000), share)
    zero = (dropped == 0).float()
    spread = (share * (1 - share) / zero.numel()) ** 0.5
    assert abs(zero.mean() - share) < 5 * spread
    assert abs(dropped.mean() - 1) < 5 * spread / (1 - share)
    for distance in (1, 2, 3, 4):
        both = (zero[:, distance:] * zero[:, :-distance]).mean()
        assert abs(both - share**2) < 5 * (share**2 * (1 - share**2) / zero.numel()) ** 0.5


def test_nothing_is_dropped_where_nothing_is_to_be():
    x = torch.randn(7)
    assert entry_dropout(x, 0.5, training=False) is x and torch.equal(entry_dropout(x, 0.0), x)
    module = EntryDropout(0.9)
    assert not torch.equal(module(x), x) and torch.equal(module.eval()(x), x)
    assert entry_dropout(torch.ones(3, device="meta"), 0.5).shape == (3,)
    torch.testing.assert_close(entry_dropout(torch.ones(3), 1e-9), torch.ones(3), rtol=1e-4, atol=0)


def test_seed_type_and_memory_order_are_kept():
    torch.manual_seed(3)
    first = entry_dropout(torch.ones(50, 3, dtype=torch.bfloat16), 0.5)
    torch.manual_seed(3)
    assert torch.equal(first, entry_dropout(torch.ones(50, 3, dtype=torch.bfloat16), 0.5))
    assert first.dtype == torch.bfloat16
    assert not torch.equal(first, entry_dropout(torch.ones(50, 3, dtype=torch.bfloat16), 0.5))


@pytest.mark.parametrize("share", [-0.1, 1.0, 1.5])
def test_impossible_shares_are_refused(share):
    with pytest.raises(CourseError, match="the share to drop must be a number at least 0"):
        entry_dropout(torch.ones(3), share)
    with pytest.raises(CourseError, match="the share to drop must be a number at least 0"):
        locked_dropout(torch.ones(3, 2), share)


def test_noise_that_has_faded_does_not_come_back():
    embedding = InputEmbedding(noise=0.2)
    shares = []
    for progress in (0.0, 0.75, 1.0, 1.5):
        embedding.anneal(progress)
        shares.append(embedding.noise_share)
    assert shares == [1.0, 0.25, 0.0, 0.0]
