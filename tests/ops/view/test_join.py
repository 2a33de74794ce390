"""Joined tensors: strides of the result."""

import pytest

import flambeau


@pytest.mark.parametrize("at, strides", [
    (0, (120, 60, 1, 15, 3)), (1, (180, 3, 1, 45, 9)), (3, (180, 1, 45, 15, 3)),
    (4, (180, 60, 15, 3, 1)),
])
def test_stacks_of_images_in_channels_last_keep_their_order(at, strides):
    x = flambeau.randn(2, 3, 4, 5).to(memory_format=flambeau.channels_last)
    y = flambeau.stack([x, x, -x], at)
    assert y.stride() == strides
    assert flambeau.equal(y.select(at, 2), -x)
    assert flambeau.stack([x, x.contiguous()]).is_contiguous()
