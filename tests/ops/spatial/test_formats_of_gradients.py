"""Gradients of images have their images' memory format, whatever the cotangent's is."""

from __future__ import annotations

import pytest

IMAGE, VOLUME = (2, 4, 6, 6), (2, 4, 6, 6, 6)

LAYERS = {
    "conv": (lambda torch: torch.nn.Conv2d(4, 6, 3), IMAGE),
    "grouped": (lambda torch: torch.nn.Conv2d(4, 6, 3, groups=2), IMAGE),
    "transposed": (lambda torch: torch.nn.ConvTranspose2d(4, 6, 3), IMAGE),
    "max_pool": (lambda torch: torch.nn.MaxPool2d(2), IMAGE),
    "avg_pool": (lambda torch: torch.nn.AvgPool2d(2), IMAGE),
    "lp_pool": (lambda torch: torch.nn.LPPool2d(2, 2), IMAGE),
    "adaptive_max": (lambda torch: torch.nn.AdaptiveMaxPool2d(3), IMAGE),
    "adaptive_avg": (lambda torch: torch.nn.AdaptiveAvgPool2d(4), IMAGE),
    "batch_norm": (lambda torch: torch.nn.BatchNorm2d(4), IMAGE),
    "running_norm": (lambda torch: torch.nn.BatchNorm2d(4).eval(), IMAGE),
    "reflection": (lambda torch: torch.nn.ReflectionPad2d(2), IMAGE),
    "replication": (lambda torch: torch.nn.ReplicationPad2d(2), IMAGE),
    "max_pool3": (lambda torch: torch.nn.MaxPool3d(2), VOLUME),
    "batch_norm3": (lambda torch: torch.nn.BatchNorm3d(4), VOLUME),
    "replication3": (lambda torch: torch.nn.ReplicationPad3d(2), VOLUME),
    "adaptive_avg3": (lambda torch: torch.nn.AdaptiveAvgPool3d(4), VOLUME),  # row-major in any case
}


def describe(x, form):
    return x.is_contiguous(), x.is_contiguous(memory_format=form)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("cotangent", ["row-major", "last"])
@pytest.mark.parametrize("image", ["row-major", "last"])
@pytest.mark.parametrize("layer", LAYERS)
def test_gradients_have_the_format_of_their_input(torch, layer, image, cotangent, again):
    make, shape = LAYERS[layer]
    last = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    forms = {"row-major": torch.contiguous_format, "last": last}
    module = make(torch)
    x = torch.randn(shape).to(memory_format=forms[image]).requires_grad_()
    y = module(x)
    parameters = [p for p in module.parameters() if p.dim() > 1]
    g = torch.randn(y.shape).to(memory_format=forms[cotangent])
    gradients = torch.autograd.grad(y, [x, *parameters], g, create_graph=again)
    is_last = image == "last" and layer != "adaptive_avg3"
    for gradient in gradients:
        assert describe(gradient, last) == (not is_last, is_last)


@pytest.mark.parametrize("layer", ["conv", "transposed"])
def test_one_operand_of_a_convolution_in_channels_last_decides(torch, layer):
    make, shape = LAYERS[layer]
    module = make(torch).to(memory_format=torch.channels_last)
    x = torch.randn(shape, requires_grad=True)
    y = module(x)
    for gradient in torch.autograd.grad(y, [x, module.weight], torch.randn(y.shape)):
        assert describe(gradient, torch.channels_last) == (False, True)


def test_gradients_of_interpolated_images_have_the_format_of_the_cotangent(torch):
    x = torch.randn(IMAGE, requires_grad=True)
    for mode, last in (("nearest", True), ("bilinear", True), ("bicubic", False)):
        y = torch.nn.functional.interpolate(x, scale_factor=2, mode=mode)
        g = torch.randn(y.shape).to(memory_format=torch.channels_last)
        gradient, = torch.autograd.grad(y, x, g)
        assert describe(gradient, torch.channels_last) == (not last, last)


def test_a_batch_without_images_keeps_its_format(torch):
    x = torch.empty(0, 3, 2, 2, memory_format=torch.channels_last).requires_grad_()
    y = torch.nn.BatchNorm2d(3)(x)
    assert y.stride() == x.stride() == (12, 1, 6, 3)
    assert torch.autograd.grad(y, x, torch.empty_like(y))[0].stride() == (12, 1, 6, 3)
