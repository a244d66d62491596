"""Cones around word vectors."""

import numpy as np
import torch
from torch import Tensor

from course_lib.errors import CourseError
from course_lib.metrics.inputs import Numbers, as_numbers, unit_rows


def cone_angles(W: Numbers, axis: Numbers | None = None) -> np.ndarray:
    """Return the angle (n,) of every row to `axis` (d,), in radians from 0 to π.

    The default axis is the mean of the unit rows. The 95 % quantile of the angles is the half-angle
    of a cone that holds 95 % of the words; about another axis there may be a narrower one. A row of
    zeros is at a right angle. Raises CourseError where the axis is 0.
    """
    rows = unit_rows(W)
    axis = rows.mean(0) if axis is None else torch.tensor(as_numbers(axis, "axis")).to(rows)
    if not axis.any():
        raise CourseError("the rows' directions cancel: give the axis")
    return _angles(rows, axis / axis.norm()).cpu().numpy()


def _angles(rows: Tensor, axis: Tensor) -> Tensor:
    """Return the angles of unit rows to a unit axis; near 0 and π only the sine is exact."""
    along = rows @ axis
    across = (rows - along[:, None] * axis).norm(dim=1)
    return torch.atan2(across, along)
