"""Strides of expanded tensors: new axes of length 1 step over what is behind them."""

import pytest


@pytest.mark.parametrize(("shape", "sizes", "strides"), [
    ((5,), (1, 1, 5), (5, 5, 1)), ((5,), (1, 2, 5), (0, 0, 1)), ((2, 1), (1, 2, 3), (2, 1, 0)),
    ((1, 3), (4, 3), (0, 1)), ((3,), (2, 1, 3), (0, 3, 1)),
])
def test_leading_axes(torch, shape, sizes, strides):
    y = torch.zeros(shape).expand(sizes)
    assert y.shape == sizes and y.stride() == strides
