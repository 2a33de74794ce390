"""Windows and grids within vmap: gradients of batches equal those of the examples."""

from __future__ import annotations

import pytest


def pull_back(torch, f, x, g):
    return torch.func.vjp(f, x)[1](g)[0]


@pytest.mark.parametrize(("shape", "window"), [
    ((), (0, 1, 1)), ((5,), (0, 2, 1)), ((3, 4), (1, 2, 2)), ((3, 4), (0, 3, 1)),
])
def test_windows(torch, shape, window):
    x = torch.arange(1.0, 1 + 2 * max(1, torch.ones(shape).numel())).reshape(2, *shape)
    y = torch.vmap(lambda a: a.unfold(*window))(x)
    assert torch.equal(y, torch.stack([a.unfold(*window) for a in x]))
    gs = torch.arange(1.0, 1 + y.numel()).reshape(y.shape)
    together = torch.vmap(lambda a, g: pull_back(torch, lambda v: v.unfold(*window), a, g))(x, gs)
    each = [pull_back(torch, lambda v: v.unfold(*window), a, g) for a, g in zip(x, gs, strict=True)]
    assert torch.equal(together, torch.stack(each))


def test_points_of_a_grid(torch):
    torch.manual_seed(0)
    image, grids = torch.randn(1, 2, 4, 4), torch.rand(3, 1, 2, 2, 2)
    g = torch.ones(1, 2, 2, 2)

    def sample(points):
        return torch.nn.functional.grid_sample(image, points, align_corners=False)

    together = torch.vmap(lambda points: pull_back(torch, sample, points, g))(grids)
    each = torch.stack([pull_back(torch, sample, points, g) for points in grids])
    assert torch.allclose(together, each, atol=1e-6)
