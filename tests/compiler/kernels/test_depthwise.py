"""Compiled depthwise convolutions and their gradients agree with eager ones, next to padding and
away from it."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F

# kernel, stride, dilation, padding, channels, image
SHAPES = [
    ((3, 3), 1, 1, 1, 16, (12, 13)),  # blocks of columns and single ones
    ((3, 3), 2, 1, 1, 24, (9, 16)),
    ((7, 7), 1, 1, 3, 8, (7, 7)),  # every column reads padding
    ((5, 1), 1, 2, 2, 33, (14, 6)),  # more padding than the kernel needs; a masked tail of lanes
    ((1, 4), 3, 1, 0, 3, (5, 17)),
    ((3, 3), 1, 2, 0, 64, (11, 23)),
    ((2, 2), 2, 1, 0, 5, (2, 2)),  # one result
]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_and_gradients(shape: tuple, dtype: torch.dtype, channels_last: bool) -> None:
    kernel, stride, dilation, padding, channels, image = shape
    torch.manual_seed(0)
    x = torch.randn(2, channels, *image, dtype=dtype)
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    weight = torch.randn(channels, 1, *kernel, dtype=dtype)
    operands = x.requires_grad_(), weight.requires_grad_()

    def loss(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = F.conv2d(F.relu(x), weight, None, stride, padding, dilation, channels)
        return (y * y.mean((0, 2, 3), keepdim=True)).square().sum()

    expected = torch.autograd.grad(loss(*operands), operands)
    step = torch.compile(loss, options={"mode": "now"})
    for _ in range(4):
        actual = torch.autograd.grad(step(*operands), operands)
    assert "conv" in step.explain()
    for a, b in zip(actual, expected, strict=True):
        tolerance = 1e-5 if dtype is torch.float32 else 1e-12
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance * float(b.abs().max()))
