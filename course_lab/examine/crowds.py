"""Words that were never trained: their rows stayed together, equal or nearly so.

A word that never occurs in training is moved by nothing that tells it from another such word.
Weight decay and the softmax move all of them alike, so they stand in a crowd, reserved tokens among
them (Land & Bartolo 2024). In a trained vocabulary two rows as near as that are no accident.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from course_lab.examine.blocks import blocks, moments
from course_lib.metrics.inputs import rows_at_once

NEAR = 0.1  # of the median distance from the mean row: rows so near are taken for one
AXES = 48  # along which candidates are looked for
NEIGHBOURS = 64  # of a row in a crowd, looked for
ROUNDING = 1e-5  # of squares in float32
GROUPS = 4000  # whose means are compared with each other
LISTED = 50  # groups of which the words around them are looked for
AROUND = 24  # of the words nearest to a crowd that are listed


class Crowd(NamedTuple):
    """Rows (n,), each with another of them at a tenth or nearer, and those nearest to their mean.

    distances: of `around`, in units of the words' median distance from the mean row. Groups behind
    the first LISTED have no `around`.
    """

    rows: np.ndarray
    around: np.ndarray
    distances: np.ndarray


def crowds(W: Tensor) -> list[Crowd]:
    """Return the groups of two rows of W (N, d) or more that are equal or nearly so, largest first.

    Candidates are near along the first 48 principal axes, and about as long in the other
    directions, since a projection brings no rows apart. Whether they are near is decided in all
    dimensions. Groups with means as near as that are one.
    """
    mean, second = moments(W)
    norms = torch.cat([(rows - mean).norm(dim=1) for _, rows in blocks(W)])
    typical = float(norms.median())
    if not typical > 0:
        return [Crowd(np.arange(len(W)), np.arange(0), np.zeros(0))] if len(W) > 1 else []
    reach = NEAR * typical
    axes = torch.linalg.eigh(second - torch.outer(mean, mean)).eigenvectors[:, -AXES:]
    points = torch.cat([_seen(rows - mean, axes) for _, rows in blocks(W)]) / reach
    # rows that are near to each other
    first, second = _candidates(points)
    near = _distances(W, first, second) <= reach
    labels = _components(len(W), first[near], second[near])
    # groups that stand at one place
    groups = [ids for ids in _members(labels) if len(ids) > 1]
    if not groups:
        return []
    if len(groups) > GROUPS:  # too many to be compared
        return _described(W, mean, groups, typical)
    means = _means(W, mean, groups)
    first, second = (torch.cdist(means, means) <= reach).nonzero(as_tuple=True)
    merged = _members(_components(len(groups), first.numpy(), second.numpy()))
    groups = [np.sort(np.concatenate([groups[one] for one in ids])) for ids in merged]
    return _described(W, mean, groups, typical)


def _seen(rows: Tensor, axes: Tensor) -> Tensor:
    """Return the coordinates of centred rows (n, d) along axes (d, k), and the rest's length."""
    along = rows @ axes
    rest = rows.square().sum(1, keepdim=True) - along.square().sum(1, keepdim=True)
    return torch.cat([rest.clamp_min(0).sqrt(), along], 1).float()


def _candidates(points: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of rows of points (N, k) that are at 1 or nearer, and some a little farther.

    In the order of their last coordinate a row need be compared with those up to 1 behind it only.
    In a crowd, where each is near to each, a row has the next few in this order, which link all.
    """
    last, order = points[:, -1].sort()
    points = points[order]
    squares = points.square().sum(1) * (1 - ROUNDING)
    first = []
    second = []
    step = rows_at_once(len(points))
    for start in range(0, len(points), step):
        rows = slice(start, start + step)
        behind = slice(start, int(torch.searchsorted(last, last[rows][-1] + 1, right=True)))
        apart = torch.addmm(squares[behind], points[rows], points[behind].T, alpha=-2)
        near = apart <= 1 - squares[rows, None]
        near[:, : len(near)].triu_(1)
        some = near.any(1).nonzero()[:, 0]
        near = near[some]
        i, j = (near & (near.cumsum(1, dtype=torch.int32) <= NEIGHBOURS)).nonzero(as_tuple=True)
        first.append(order[start + some[i]])
        second.append(order[start + j])
    return torch.cat(first).numpy(), torch.cat(second).numpy()


def _described(W: Tensor, mean: Tensor, groups: list[np.ndarray], typical: float) -> list[Crowd]:
    """Return all groups, largest first, the first LISTED with what stands around them."""
    groups = sorted(groups, key=lambda ids: (-len(ids), ids[0]))
    places = _means(W, mean, groups[:LISTED])
    apart = torch.cat([torch.cdist(rows - mean, places) for _, rows in blocks(W)]) / typical
    first = [_with_neighbours(*one) for one in zip(groups, apart.T, strict=False)]
    return first + [Crowd(ids, np.arange(0), np.zeros(0)) for ids in groups[LISTED:]]


def _with_neighbours(ids: np.ndarray, distances: Tensor) -> Crowd:
    distances[torch.from_numpy(ids)] = torch.inf
    nearest = distances.topk(min(AROUND, len(distances) - len(ids)), largest=False)
    return Crowd(ids, nearest.indices.numpy(), nearest.values.numpy())


def _means(W: Tensor, mean: Tensor, groups: list[np.ndarray]) -> Tensor:
    """Return each group's mean row, seen from that of all words."""
    return torch.stack([W[torch.from_numpy(ids)].double().mean(0) - mean for ids in groups])


def _distances(rows: Tensor, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return ‖row − other‖ for pairs of rows, a block of them at once."""
    step = rows_at_once(2 * rows.shape[1])
    pairs = torch.from_numpy(np.stack([first, second], 1))
    parts = [rows[some].double().diff(dim=1)[:, 0].norm(dim=1) for some in pairs.split(step)]
    return torch.cat(parts).numpy()


def _components(n: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    graph = coo_matrix((np.ones(len(first), bool), (first, second)), shape=(n, n))
    return connected_components(graph, directed=False)[1]


def _members(labels: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
