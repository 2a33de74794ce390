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


STRIDED = [((4,), (1,), 0), ((2, 2), (2, 1), 0), ((2,), (1,), 1), ((2,), (1,)), ((4,), (0,), 2),
           ((0,), (1,), 9), ((), (), 3)]


@pytest.mark.parametrize("geometry", STRIDED, ids=str)
def test_each_example_is_viewed_by_strides(torch, geometry):
    x = torch.arange(12.0).reshape(3, 4)
    y = torch.vmap(lambda a: a.as_strided(*geometry))(x)
    each = [a.clone().as_strided(*geometry) for a in x]
    assert torch.equal(y, torch.stack(each))
    gs = torch.arange(1.0, 1 + y.numel()).reshape(y.shape)
    together = torch.vmap(
        lambda a, g: pull_back(torch, lambda v: v.as_strided(*geometry), a, g))(x, gs)
    parts = [pull_back(torch, lambda v: v.as_strided(*geometry), a.clone(), g)
             for a, g in zip(x, gs, strict=True)]
    assert torch.equal(together, torch.stack(parts))


def test_strides_lead_from_where_an_example_begins(torch):
    x = torch.arange(12.0).reshape(3, 4)
    assert torch.vmap(lambda a: a[1:].as_strided((2,), (1,)))(x).tolist() == [
        [1, 2], [5, 6], [9, 10]]
    assert torch.vmap(lambda a: a.as_strided((3,), (4,), 0), 1)(x).tolist() == x.t().tolist()
    assert torch.vmap(torch.vmap(lambda a: a.as_strided((2,), (1,))))(
        x.reshape(1, 3, 4)).tolist() == [[[0, 1], [4, 5], [8, 9]]]


@pytest.mark.parametrize(("part", "geometry"), [
    (slice(None), ((5,), (1,), 0)), (slice(None), ((2,), (1,), 3)),
    (slice(1, None), ((3,), (1,), 0)),
])
def test_memory_outside_of_an_example_is_refused(torch, part, geometry):
    x = torch.arange(12.0).reshape(3, 4)
    with pytest.raises(RuntimeError, match="can access memory outside of `tensor`"):
        torch.vmap(lambda a: a[part].as_strided(*geometry))(x)
