"""Lengths that are the same for two inputs of a trace, and yet vary: halves, pooled rows."""

from __future__ import annotations

import pytest


def halves(torch):
    class Halves(torch.nn.Module):
        def forward(self, x):
            y = x[: x.shape[0] // 2]
            return y * y.shape[0], y.reshape(y.shape[0] * 2, -1)

    return Halves()


def pooled_rows(torch):
    class PooledRows(torch.nn.Module):
        def forward(self, x):
            y = torch.nn.functional.avg_pool1d(x, 2)
            return y * y.shape[2], torch.ones(y.shape[2])

    return PooledRows()


@pytest.mark.parametrize(("make", "dim"), [(halves, 0), (pooled_rows, 2)])
@pytest.mark.parametrize("n", [4, 5, 8])
def test_lengths_that_two_neighbours_share_are_dynamic(torch, make, dim, n):
    """4 // 2 is 5 // 2: a trace of both lengths alone takes it for a constant."""
    if torch.__name__ == "torch" and make is halves:
        pytest.skip("PyTorch cannot prove n // 2 <= n")
    shape, layer = [2, 4, 4], make(torch)
    shape[dim] = n
    program = torch.export.export(layer, (torch.randn(shape),), dynamic_shapes={
        "x": {dim: torch.export.Dim("n", min=4, max=64)}})
    for m in (4, 5, 6, 7, 20):
        shape[dim] = m
        x = torch.randn(shape)
        torch.testing.assert_close(program.module()(x), layer(x))


def test_a_decision_between_near_and_far_lengths_narrows_the_bounds(torch):
    class Threshold(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.shape[0] < 7 else x - 1

    x, layer, dim = torch.ones(4, 2), Threshold(), torch.export.Dim
    with pytest.raises(Exception, match="Constraints violated"):
        torch.export.export(layer, (x,), dynamic_shapes={"x": {0: dim("n")}})
    program = torch.export.export(layer, (x,), dynamic_shapes={"x": {0: dim("n", max=6)}})
    assert program.module()(torch.ones(6, 2)).sum() == 24


SHAPED = {
    "zeros": lambda torch, x: torch.zeros(x.shape) + x,
    "full": lambda torch, x: torch.full(size=x.size(), fill_value=2.0) + x,
    "view": lambda torch, x: (x * 2).view(x.shape[:1] + x.shape[1:]),
    "reshape": lambda torch, x: x.reshape((*x.shape[:1], 2, 2)),
    "unflatten": lambda torch, x: x.flatten().unflatten(0, x.shape),
    "sum_to_size": lambda torch, x: (x + 1).sum_to_size(x.shape),
}


@pytest.mark.parametrize("name", list(SHAPED))
def test_shapes_are_arguments(torch, name):
    class Shaped(torch.nn.Module):
        def forward(self, x):
            return SHAPED[name](torch, x)

    varying = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(Shaped(), (torch.ones(3, 4),), dynamic_shapes=varying)
    x = torch.randn(6, 4)
    assert torch.equal(program.module()(x), Shaped()(x))
