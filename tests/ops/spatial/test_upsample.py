"""torch.ops.aten.upsample_*: each mode of interpolation, with both overloads."""

from __future__ import annotations

import pytest

NAMES = {
    **{f"upsample_nearest{n}d": ("nearest", n) for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": ("nearest-exact", n) for n in (1, 2, 3)},
    "upsample_linear1d": ("linear", 1), "upsample_bilinear2d": ("bilinear", 2),
    "upsample_trilinear3d": ("trilinear", 3), "upsample_bicubic2d": ("bicubic", 2),
    "_upsample_bilinear2d_aa": ("bilinear", 2), "_upsample_bicubic2d_aa": ("bicubic", 2),
}


def interpolate(torch, name, x, **target):
    mode, _ = NAMES[name]
    corners = {} if mode.startswith("nearest") else {"align_corners": False}
    return torch.nn.functional.interpolate(
        x, mode=mode, antialias=name.endswith("aa"), **corners, **target)


@pytest.mark.parametrize("name", NAMES)
def test_both_overloads_resize_as_interpolate_does(torch, name):
    mode, n = NAMES[name]
    x = torch.randn(2, 3, *(4, 5, 6)[:n])
    size, factors = [7, 3, 9][:n], [1.7, 0.6, 2.0][:n]
    corners = [] if mode.startswith("nearest") else [False]
    operator = getattr(torch.ops.aten, name)
    by_size = interpolate(torch, name, x, size=size)
    torch.testing.assert_close(operator(x, size, *corners), by_size)
    torch.testing.assert_close(operator.default(x, size, *corners), by_size)
    torch.testing.assert_close(operator.vec(x, size, *corners, None), by_size)
    by_factor = interpolate(torch, name, x, scale_factor=factors)
    torch.testing.assert_close(operator.vec(x, None, *corners, factors), by_factor)
    own = list(by_factor.shape[2:])
    torch.testing.assert_close(operator.default(x, own, *corners, *factors), by_factor)
    last = {1: "scales", 2: "scales_w", 3: "scales_w"}[n]
    named = operator.default(x, own, *corners, *factors[:-1], **{last: factors[-1]})
    torch.testing.assert_close(named, by_factor)


def test_nodes_and_refusals(torch):
    x = torch.randn(1, 1, 4, 4, requires_grad=True)
    y = torch.ops.aten.upsample_bilinear2d(x, [8, 8], True)
    assert y.grad_fn.name() == "UpsampleBilinear2DBackward0"
    y.sum().backward()
    assert x.grad.sum().item() == pytest.approx(64)
    with pytest.raises(RuntimeError, match="expected input_size equals to 4, but got size 3"):
        torch.ops.aten.upsample_nearest2d(torch.ones(1, 2, 3), [4, 6])
