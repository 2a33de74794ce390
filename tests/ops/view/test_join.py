"""Joined tensors: strides of the result."""

import pytest

import flambeau as torch


@pytest.mark.parametrize("at, strides", [
    (0, (120, 60, 1, 15, 3)), (1, (180, 3, 1, 45, 9)), (3, (180, 1, 45, 15, 3)),
    (4, (180, 60, 15, 3, 1)),
])
def test_stacks_of_images_in_channels_last_keep_their_order(at, strides):
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = torch.stack([x, x, -x], at)
    assert y.stride() == strides
    assert torch.equal(y.select(at, 2), -x)
    assert torch.stack([x, x.contiguous()]).is_contiguous()


def test_repeats_are_whole_numbers_that_add_up() -> None:
    x = torch.arange(6.0).view(2, 3)
    assert torch.repeat_interleave(torch.tensor([2, 1], dtype=torch.int32)).dtype is torch.int32
    with pytest.raises(RuntimeError, match="^Repeats must be non-negative"):
        x.repeat_interleave(-1)
    with pytest.raises(RuntimeError, match="^allocated size does not match required size"):
        x.repeat_interleave(torch.tensor([1, 2]), 0, output_size=4)
    for repeats in (True, 2.5, [1, 2]):
        with pytest.raises(TypeError, match="invalid combination of arguments"):
            x.repeat_interleave(repeats, 0)
    repeated = x.to("meta").repeat_interleave(torch.tensor([1, 2]).to("meta"), 0, output_size=3)
    assert repeated.shape == (3, 3)
