"""Convolutions: blocks and layouts against the plain definition, transposes, errors."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.ops.spatial import conv_reference
from flambeau.ops.spatial.conv_reference import Window


def direct(x, w, stride, padding, dilation):
    """The definition, in float64."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (padding,) * 2, (padding,) * 2])
    span = [dilation * (k - 1) + 1 for k in w.shape[2:]]
    view = np.lib.stride_tricks.sliding_window_view(x, span, (2, 3))
    view = view[:, :, ::stride, ::stride, ::dilation, ::dilation]
    return np.einsum("nchwij,ocij->nohw", view, w.astype(np.float64))


@pytest.mark.parametrize("block", [1, 3000, 1 << 20])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 1, 1), (2, 1, 1), (1, 2, 2)])
def test_blocks_do_not_show(monkeypatch, block, stride, padding, dilation):
    monkeypatch.setattr(conv_reference, "IM2COL_BLOCK_BYTES", block)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 4, 9, 8)), rng.normal(size=(5, 4, 3, 3))
    wanted = direct(x, w, stride, padding, dilation)
    window = Window((3, 3), (stride,) * 2, ((padding,) * 2,) * 2, (dilation,) * 2)
    np.testing.assert_allclose(conv_reference.forward(x, w, None, window, 1), wanted)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(conv_reference.forward_channels_last(last, w, None, window), wanted)
    g = rng.normal(size=wanted.shape)
    # <g, conv(x, w)> is linear in x and in w: the two backward kernels are its coefficients
    total = (g * wanted).sum()
    of_x = conv_reference.backward_data(g, w, x.shape[2:], window, 1)
    of_w = conv_reference.backward_weight(x, g, window, 1)
    np.testing.assert_allclose([(of_x * x).sum(), (of_w * w).sum()], [total, total])


@pytest.mark.parametrize("outputs", [1, 16])  # few outputs gather, many scatter
def test_gradient_of_input_either_way(outputs):
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.normal(size=(2, 3, 6, 6))).requires_grad_()
    w = torch.from_numpy(rng.normal(size=(outputs, 3, 3, 3)))
    g = torch.from_numpy(rng.normal(size=(2, outputs, 6, 6)))
    F.conv2d(x, w, padding=1).backward(g)
    np.testing.assert_allclose(x.grad.numpy(), F.conv_transpose2d(g, w, padding=1).numpy())


def test_layout_of_the_result_is_the_input_s():
    x, w = torch.rand(2, 3, 5, 5), torch.rand(4, 3, 3, 3)
    y = F.conv2d(x, w)
    assert y.is_contiguous()
    last = F.conv2d(x.contiguous(memory_format=torch.channels_last), w)
    assert last.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(last.numpy(), y.numpy(), rtol=1e-5)


def test_same_padding_with_an_even_kernel():
    x = torch.arange(4.0).reshape(1, 1, 4)
    y = F.conv1d(x, torch.tensor([[[1.0, 10.0]]]), padding="same")
    assert y.tolist() == [[[10.0, 21.0, 32.0, 3.0]]]


def test_output_padding_beyond_the_stride():
    x, w = torch.rand(1, 2, 4, 4), torch.rand(2, 3, 3, 3)
    x.requires_grad_()
    y = F.conv_transpose2d(x, w, stride=2, dilation=3, output_padding=2)
    assert y.shape == (1, 3, 15, 15)
    y.sum().backward()
    assert x.grad.shape == x.shape


def test_half_precision_is_rounded_once():
    x, w = torch.rand(1, 64, 8, 8), torch.rand(8, 64, 3, 3)
    exact = F.conv2d(x.half().float(), w.half().float())
    y = F.conv2d(x.half(), w.half())
    assert y.dtype is torch.float16
    assert torch.equal(y, exact.half())


@pytest.mark.parametrize(("shapes", "options", "message"), [
    (((1, 3, 8, 8), (4, 2, 3, 3)), {}, "expected input.* to have 2 channels, but got 3 channels"),
    (((3, 8), (4, 3, 3, 3)), {}, "Expected 3D .unbatched. or 4D .batched. input to conv2d"),
    (((1, 3, 2, 2), (4, 3, 3, 3)), {}, "Kernel size can't be greater than actual input size"),
    (((1, 3, 8, 8), (4, 3, 3, 3)), {"stride": 0}, "non-positive stride is not supported"),
    (((1, 3, 8, 8), (4, 3, 3, 3)), {"stride": 2, "padding": "same"}, "strided convolutions"),
    (((1, 3, 8, 8), (4, 3, 3, 3)), {"padding": -1}, "negative padding is not supported"),
    (((1, 4, 8, 8), (3, 2, 3, 3)), {"groups": 2}, "divisible by 2 at dimension 0"),
])
def test_errors(shapes, options, message):
    with pytest.raises(RuntimeError, match=message):
        F.conv2d(*(torch.rand(*s) for s in shapes), **options)
