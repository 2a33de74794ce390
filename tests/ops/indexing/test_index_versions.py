"""Writing to an index before backward is an error, as in PyTorch, instead of a wrong gradient."""

from __future__ import annotations

import pytest

import flambeau as torch

STALE = "modified by an inplace operation"


def positions():
    return torch.tensor([0, 2])


def mask():
    return torch.tensor([True, False, True, False])


def change(index):
    index.logical_not_() if index.dtype == torch.bool else index.add_(1)


@pytest.mark.parametrize("make", [positions, mask])
@pytest.mark.parametrize("axes", [lambda i: i, lambda i: (i, slice(0, 2)), lambda i: (i, None)])
def test_reading(make, axes):
    x, index = torch.randn(4, 3, requires_grad=True), make()
    y = x[axes(index)]
    change(index)
    with pytest.raises(RuntimeError, match=f"(?s){STALE}.*version 1;.*IndexBackward0 saved"):
        y.sum().backward()


@pytest.mark.parametrize("make", [positions, mask])
@pytest.mark.parametrize("of_values", [False, True])
def test_writing(make, of_values):
    x, index = torch.randn(4, 3, requires_grad=not of_values), make()
    y = x * 1
    y[index] = torch.ones((), requires_grad=of_values)
    change(index)
    with pytest.raises(RuntimeError, match=f"(?s){STALE}.*IndexPutBackward0"):
        y.sum().backward()


@pytest.mark.parametrize("make", [positions, mask])
def test_an_index_that_stays(make):
    x, index = torch.randn(4, 3, requires_grad=True), make()
    index.add_(0) if index.dtype == torch.int64 else index.logical_not_().logical_not_()
    y = x[index]
    y.sum().backward()
    assert x.grad.sum(1).tolist() == [3.0, 0.0, 3.0, 0.0]


def test_nothing_is_checked_without_gradients():
    x, index = torch.randn(4, 3), positions()
    y = x[index]
    change(index)
    assert y.shape == (2, 3)


def test_the_version_counts_from_the_index_on():
    x, index = torch.randn(4, 3, requires_grad=True), positions()
    index.add_(1)
    y = x[index]
    change(index)
    with pytest.raises(RuntimeError, match="is at version 2; expected version 1"):
        y.sum().backward()
