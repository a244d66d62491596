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
from scipy.spatial import KDTree
from torch import Tensor

NEAR = 0.1  # of the median distance from the mean row: rows so near are taken for one
AXES = 12  # along which candidates are looked for
NEIGHBOURS = 8  # of a row, looked for
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

    Candidates are near along the first 12 principal axes, since a projection brings no rows apart;
    whether they are near is decided in all dimensions. Groups with means as near as that are one.
    """
    centred = W.double() - W.double().mean(0)
    typical = float(centred.norm(dim=1).median())
    if not typical > 0:
        return [Crowd(np.arange(len(W)), np.arange(0), np.zeros(0))] if len(W) > 1 else []
    reach = NEAR * typical
    axes = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -AXES:]
    points = (centred @ axes).numpy()
    # rows that are near to each other
    k = min(len(W), NEIGHBOURS + 1)
    neighbours = KDTree(points).query(points, k=k, distance_upper_bound=reach)[1]
    first = np.repeat(np.arange(len(W)), k)
    second = neighbours.reshape(-1)
    pairs = (second < len(W)) & (first != second)
    first, second = first[pairs], second[pairs]
    near = _distances(centred, first, second) <= reach
    labels = _components(len(W), first[near], second[near])
    # groups that stand at one place
    groups = [ids for ids in _members(labels) if len(ids) > 1]
    if not groups:
        return []
    if len(groups) > GROUPS:  # too many to be compared
        return _described(centred, groups, typical)
    means = torch.stack([centred[torch.from_numpy(ids)].mean(0) for ids in groups])
    first, second = (torch.cdist(means, means) <= reach).nonzero(as_tuple=True)
    merged = _members(_components(len(groups), first.numpy(), second.numpy()))
    groups = [np.sort(np.concatenate([groups[one] for one in ids])) for ids in merged]
    return _described(centred, groups, typical)


def _described(centred: Tensor, groups: list[np.ndarray], typical: float) -> list[Crowd]:
    """Return all groups, largest first, the first LISTED with what stands around them."""
    groups = sorted(groups, key=lambda ids: (-len(ids), ids[0]))
    first = [_with_neighbours(centred, ids, typical) for ids in groups[:LISTED]]
    return first + [Crowd(ids, np.arange(0), np.zeros(0)) for ids in groups[LISTED:]]


def _with_neighbours(centred: Tensor, ids: np.ndarray, typical: float) -> Crowd:
    distances = (centred - centred[torch.from_numpy(ids)].mean(0)).norm(dim=1) / typical
    distances[torch.from_numpy(ids)] = torch.inf
    nearest = distances.topk(min(AROUND, len(centred) - len(ids)), largest=False)
    return Crowd(ids, nearest.indices.numpy(), nearest.values.numpy())


def _distances(rows: Tensor, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return ‖row − other‖ for pairs of rows, a million numbers at once."""
    distances = np.empty(len(first))
    step = max(1, (1 << 22) // rows.shape[1])
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        apart = rows[torch.from_numpy(first[part])] - rows[torch.from_numpy(second[part])]
        distances[part] = apart.norm(dim=1).numpy()
    return distances


def _components(n: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    graph = coo_matrix((np.ones(len(first), bool), (first, second)), shape=(n, n))
    return connected_components(graph, directed=False)[1]


def _members(labels: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
