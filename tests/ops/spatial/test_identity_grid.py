"""The grid of an identity map reads whole pixels, where the slope changes: its last bits decide the
gradient, so they are PyTorch's. A spatial transformer begins with this map.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau


def _compute(torch: Any, dtype: str, size: tuple[int, int], align: bool) -> list[np.ndarray]:
    kind, F = getattr(torch, dtype), torch.nn.functional
    values = np.random.default_rng(0).random((2, 2, 1, *size))
    theta = torch.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=kind).expand(2, 2, 3).contiguous()
    x, g = (torch.tensor(v, dtype=kind) for v in values)
    theta.requires_grad_()
    grid = F.affine_grid(theta, x.shape, align_corners=align)
    F.grid_sample(x, grid, align_corners=align).backward(g)
    return [grid.detach().numpy(), theta.grad.numpy()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [(28, 28), (7, 13), (32, 32), (10, 64)])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parity
def test_gradients_at_the_identity(dtype: str, size: tuple[int, int], align: bool) -> None:
    grid, gradient = _compute(flambeau, dtype, size, align)
    expected_grid, expected = _compute(pytest.importorskip("torch"), dtype, size, align)
    np.testing.assert_array_equal(grid, expected_grid)
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(gradient, expected, rtol=tolerance, atol=tolerance)


def test_the_border_is_symmetric() -> None:
    theta = flambeau.eye(2, 3)[None]
    grid = flambeau.nn.functional.affine_grid(theta, (1, 1, 28, 28), align_corners=False)
    assert flambeau.equal(grid, -grid.flip(1, 2))
