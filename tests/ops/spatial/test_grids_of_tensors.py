"""Sizes of grids that are 0-d tensors, as MONAI passes them, and of rows that are too short."""

from __future__ import annotations

import pytest


def test_affine_grid_of_sizes_in_tensors(torch):
    theta, sizes = torch.eye(2, 3)[None], [torch.tensor(n) for n in (1, 1, 2, 3)]
    grid = torch.nn.functional.affine_grid(theta, sizes, align_corners=False)
    assert grid.equal(torch.nn.functional.affine_grid(theta, (1, 1, 2, 3), align_corners=False))


def test_rows_that_are_too_short_are_refused_as_images(torch):
    with pytest.raises(RuntimeError, match=r"^Given input size: \(1x1x2\)\. Calculated output size:"
                                           r" \(1x1x0\)\. Output size is too small$"):
        torch.nn.functional.avg_pool1d(torch.ones(1, 1, 2), 3)
