"""What poolings refuse, in PyTorch's words: the same arguments differ by rank, and by indices."""

from __future__ import annotations

import pytest

SIZES = "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 and "
REFUSED = [
    ("max_pool1d", [2], {}, "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim "
     "batch size for input, but got:[2]"),
    ("max_pool1d", [1, 1, 1], {}, "max_pool1d() Invalid computed output size: 0"),
    ("max_pool1d", [1, 2, 4], {"padding": 2}, "max_pool1d() padding should be at most half of "
     "kernel size, but got padding=2 and kernel_size=2"),
    ("max_pool1d", [1, 2, 4], {"stride": (2, 2)}, "max_pool1d() stride must be None, an int, list "
     "of ints, or tuple of ints of size 1 but got size 2"),
    ("max_pool1d_with_indices", [2], {}, "Expected 2 to 3 dimensions, but got 1-dimensional tensor "
     "for argument #1 'self' (while checking arguments for max_pool1d)"),
    ("max_pool1d_with_indices", [1, 0, 4], {}, "Expected 3D or 4D (batch mode) tensor with optional"
     " 0 dim batch size for input, but got:[1, 0, 1, 4]"),
    ("max_pool1d_with_indices", [1, 2, 4], {"padding": 2}, f"{SIZES}dilation=1"),
    ("max_pool1d_with_indices", [1, 2, 4], {"stride": -1}, "stride should be greater than zero, but"
     " got dH: 1 dW: -1"),
    ("max_pool1d_with_indices", [1, 2, 4], {"stride": (2, 2)}, "max_pool1d() argument 'stride' "
     "should contain one int (got 2)"),
    ("max_pool2d", [2, 2], {}, "non-empty 3D or 4D (batch mode) tensor expected for input"),
    ("max_pool2d", [1, 1, 4, 0], {}, "Expected 3D or 4D (batch mode) tensor with optional 0 dim "
     "batch size for input, but got:[1, 1, 4, 0]"),
    ("max_pool2d", [1, 2, 4, 4], {"kernel_size": 0}, "stride should not be zero"),
    ("max_pool2d", [1, 2, 4, 4], {"kernel_size": 0, "stride": 1}, "kernel size should be greater "
     "than zero, but got kH: 0 kW: 0"),
    ("max_pool2d", [1, 2, 4, 4], {"stride": (2,) * 3}, "max_pool2d: stride must either be omitted, "
     "a single int, or a tuple of two ints"),
    ("max_pool2d", [1, 2, 4, 4], {"dilation": (2,) * 3}, "max_pool2d: dilation must be either a "
     "single int, or a tuple of two ints"),
    ("max_pool3d", [1, 0, 4, 4, 4], {}, "max_pool3d_with_indices_out_cpu_template(): Expected "
     "input's non-batch dimensions to have positive length, but input has a shape of [1, 0, 4, 4, "
     "4] and non-batch dimension 0 has length zero!"),
    ("avg_pool1d", [1, 2, 4], {"kernel_size": (2, 2)}, "avg_pool1d() argument 'kernel_size' should "
     "contain one int (got 2)"),
    ("avg_pool2d", [2] * 5, {}, "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch "
     "size for input, but got:[2, 2, 2, 2, 2]"),
    ("avg_pool3d", [1, 2, 4, 4, 4], {"stride": (2, 2)}, "avg_pool3d: stride must be omitted, a "
     "single int, or a tuple of three ints"),
    ("avg_pool3d", [1, 1, 1, 1, 1], {}, "input image (T: 1 H: 1 W: 1) smaller than kernel size (kT:"
     " 2 kH: 2 kW: 2)"),
    ("fractional_max_pool2d", [1, 0, 4, 4], {"output_size": 3}, "fractional_max_pool2d(): Expected "
     "input to have non-zero size for non-batch dimensions, but got[1, 0, 4, 4] with dimension 1 "
     "being empty."),
]


@pytest.mark.parametrize(("name", "shape", "options", "text"), REFUSED)
def test_refused_poolings(torch, name, shape, options, text):
    function = getattr(torch.nn.functional, name)
    with pytest.raises(RuntimeError) as error:
        function(torch.zeros(shape), **{"kernel_size": 2, **options})
    assert str(error.value) == text


def test_refused_types(torch):
    F = torch.nn.functional
    x = torch.ones(1, 1, 4)
    with pytest.raises(NotImplementedError, match="\"max_pool1d_impl\" not implemented for 'Long'"):
        F.max_pool1d(x.long(), 2)
    assert F.max_pool1d(x.long(), 2, return_indices=True)[0].tolist() == [[[1, 1]]]
    with pytest.raises(TypeError, match=r"max_pool1d_with_indices\(\): argument 'kernel_size' "
                       r"\(position 2\) must be tuple of ints, not float"):
        F.max_pool1d(x, 2.0, return_indices=True)
    with pytest.raises(IndexError, match=r"of \[-2, 1\], but got -3"):
        F.avg_pool2d(torch.ones(2, 2), 2)


def test_refused_unpooling(torch):
    F = torch.nn.functional
    x, at = torch.ones(1, 1, 2), torch.zeros(1, 1, 2, dtype=torch.long)
    with pytest.raises(ValueError, match=r'invalid output_size "\[9\]"'):
        F.max_unpool1d(x, at, 2, output_size=[9])
    with pytest.raises(RuntimeError, match="1000 .output volumes are of size 4x1."):
        F.max_unpool1d(x, at + 1000, 2)
    with pytest.raises(RuntimeError, match=r"\(\[1, 1, 2, 1\]\) but got .* \[1, 1, 1, 1\]"):
        F.max_unpool1d(x, at[..., :1], 2)


def test_refused_ratios(torch):
    with pytest.raises(ValueError, match="max_pool2d requires output_ratio to either be"):
        torch.nn.functional.fractional_max_pool2d(torch.ones(1, 8, 8), 2, output_ratio=(0.5,) * 3)
