"""Eight-bit images are resampled in fixed point, each axis rounded: PyTorch's values exactly."""

from __future__ import annotations

import pytest

ROWS = {
    ("bilinear", False, (3, 4)): (4432, [35, 100, 164, 229]),
    ("bilinear", False, (8, 9)): (26893, [16, 41, 69, 98, 127, 156, 185, 213, 238]),
    ("bilinear", True, (3, 4)): (4514, [40, 98, 166, 224]),
    ("bicubic", False, (3, 4)): (4433, [32, 101, 163, 232]),
    ("bicubic", False, (8, 9)): (26999, [14, 37, 70, 100, 127, 154, 184, 217, 240]),
    ("bicubic", True, (3, 4)): (4518, [36, 98, 166, 228]),
    ("bicubic", True, (8, 9)): (26943, [14, 38, 69, 98, 127, 156, 185, 216, 240]),
}


def image(torch):
    return (torch.arange(3 * 5 * 7) * 37 % 256).to(torch.uint8).reshape(1, 3, 5, 7)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("case", ROWS, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def test_values(torch, case, channels_last):
    mode, antialias, size = case
    x = image(torch)
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    y = torch.nn.functional.interpolate(x, size=size, mode=mode, antialias=antialias)
    assert (int(y.long().sum()), y[0, 1, 1].tolist()) == ROWS[case]


def test_wide_filters_have_more_precise_weights(torch):
    x = (torch.arange(2 * 300 * 2) * 91 % 256).to(torch.uint8).reshape(1, 2, 300, 2)
    y = torch.nn.functional.interpolate(x, size=(2, 2), mode="bilinear", antialias=True)
    mean = x.double().reshape(1, 2, 300, 2).mean()
    assert (y.double() - mean).abs().max() < 5


@pytest.mark.parametrize(("mode", "rank"), [("linear", 3), ("trilinear", 5)])
def test_other_modes_refuse_bytes(torch, mode, rank):
    x = torch.zeros((1, 1, 4, 4, 4)[:rank], dtype=torch.uint8)
    with pytest.raises(NotImplementedError, match="compute_indices_weights_linear"):
        torch.nn.functional.interpolate(x, scale_factor=2, mode=mode)
