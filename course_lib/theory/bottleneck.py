"""What d numbers between the network and N words cannot carry (Yang et al. 2018)."""


def rank_bound(d: int, bias: bool = True) -> int:
    """Return the greatest rank of log P that one softmax over contexts of d numbers can have.

    log P = H Wᵀ + 1 bᵀ − log Z 1ᵀ: rank d of the first term, one more for the row-wise normaliser,
    and one more for a bias. That is d + 2 (402 at d = 400, parthiban2021, Table 1), and d + 1
    without a bias (Yang et al. 2018, corollary 1).
    """
    return d + 1 + bias
