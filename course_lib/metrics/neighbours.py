"""The nearest neighbour of every word vector."""

import numpy as np
import torch
from torch import Tensor

from course_lib.metrics.inputs import Numbers, as_matrix, count_rows_in_pairs, rows_at_once


def nearest_neighbours(W: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Return the distance (n,) of every row to its nearest other row, and that row's number (n,).

    The winner is that of float64 at the price of products in float32, 2 n² d operations. Products
    of the centred rows x miss ‖x_i − x_j‖² by at most c (‖x_i‖² + ‖x_j‖²), c = (d + 16) 2⁻²⁴, so
    that a row whose lower bound is above the least upper bound is out. Rows left with many
    candidates are sifted once more in float64. The candidates' distances are then computed from
    the differences, without cancellation, and the lowest number wins a tie.
    Naive: `D = torch.cdist(W, W).fill_diagonal_(inf); D.min(1)`.
    """
    rows = as_matrix(W)
    n = count_rows_in_pairs(rows)
    centred = rows - rows.mean(0)
    scale = centred.norm(p=torch.inf)
    centred /= scale.where(scale > 0, 1.0)
    # Where float32 products are rounded (TF32, bfloat16, autocast) the bound would not hold.
    backend = getattr(torch.backends, "cuda" if rows.is_cuda else "mkldnn")
    exact = backend.matmul.fp32_precision in ("none", "ieee")
    exact = exact and not torch.is_autocast_enabled(rows.device.type)
    fast = torch.float32 if exact else torch.float64
    sieves = [_Sieve(centred.to(fast)), _Sieve(centred)]
    distance, index = rows.new_empty(n), torch.empty(n, dtype=torch.long, device=rows.device)
    for ids in torch.arange(n, device=rows.device).split(rows_at_once(n)):
        i, j = sieves[0].candidates(ids)
        crowded = torch.bincount(i, minlength=len(ids)) > CROWD
        if crowded.any():
            again, others = sieves[1].candidates(ids[crowded])
            settled = ~crowded[i]
            i = torch.cat([i[settled], crowded.nonzero()[:, 0][again]])
            j = torch.cat([j[settled], others])
        some = rows_at_once(4 * rows.shape[1])
        pairs = zip(i.split(some), j.split(some), strict=True)
        apart = torch.cat([(rows[ids[a]] - rows[b]).norm(dim=1) for a, b in pairs])
        least = apart.new_full((len(ids),), torch.inf).scatter_reduce(0, i, apart, "amin")
        tied = apart == least[i]
        distance[ids] = least
        index[ids] = torch.full_like(ids, n).scatter_reduce(0, i[tied], j[tied], "amin")
    return distance.cpu().numpy(), index.cpu().numpy()


CROWD = 32  # candidates of a row from which a product in float64 is cheaper than all differences


class _Sieve:
    """A sieve bounds the distances between rows x (n, d) by one product in x's precision."""

    def __init__(self, x: Tensor):
        eps = torch.finfo(x.dtype)
        self.x, self.c = x, (x.shape[1] + 16) * eps.eps / 2
        self.squares = torch.linalg.vector_norm(x, dim=1, dtype=torch.float64) ** 2
        self.floor = ((1 - self.c) * self.squares).to(x.dtype)
        self.underflow = 8 * x.shape[1] * eps.tiny

    def candidates(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return pairs (position in ids, other row), by position, that may be nearest."""
        lower = torch.addmm(self.floor, self.x[ids], self.x.T, alpha=-2)  # + ‖x_i‖² (1 − c)
        lower[torch.arange(len(ids), device=ids.device), ids] = torch.inf
        least, first = lower.min(1)
        slack = 2 * self.c * (self.squares[ids] + self.squares[first]) + self.underflow
        reach = least + slack.to(least)
        return (lower <= reach[:, None]).nonzero(as_tuple=True)
