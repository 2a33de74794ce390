"""Sizes of grids that are 0-d tensors, as MONAI passes them."""

from __future__ import annotations


def test_affine_grid_of_sizes_in_tensors(torch):
    theta, sizes = torch.eye(2, 3)[None], [torch.tensor(n) for n in (1, 1, 2, 3)]
    grid = torch.nn.functional.affine_grid(theta, sizes, align_corners=False)
    assert grid.equal(torch.nn.functional.affine_grid(theta, (1, 1, 2, 3), align_corners=False))
