"""1x1 convolutions with stride 1 as matrix products of each pixel's channels and the weight.

For images with rows innermost in memory. Products need no windows, and their kernels compile sooner
and run faster than convolution kernels; until one is compiled, BLAS computes the product.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ..core.operator import Array
from ..native.matmul import try_product

if TYPE_CHECKING:
    from .conv_reference import Window


def is_pointwise(window: Window, groups: int, *images: Array) -> bool:
    """Return whether a convolution is a matrix product on its images' memory layout."""
    return (
        groups == 1 and window.dense and prod(window.kernel) == 1
        and not any(lo or hi for lo, hi in window.padding)
        and all(a.__class__ is np.ndarray and a.flags.c_contiguous and a.size for a in images)
    )


def forward(x: Array, w: Array, bias: Array | None) -> Array:
    """Convolve x (n, c, ...) with w (o, c, 1, ...)."""
    y = _multiply_by_image(w.reshape(w.shape[:2]), _flatten_images(x))
    if bias is not None:
        y += bias[:, None]
    return y.reshape(len(x), len(w), *x.shape[2:])


def backward_data(g: Array, w: Array) -> Array:
    """Return the cotangent of the input."""
    return _multiply_by_image(w.reshape(w.shape[:2]).T, _flatten_images(g)).reshape(
        len(g), w.shape[1], *g.shape[2:]
    )


def backward_weight(x: Array, g: Array) -> Array:
    """Return the cotangent of the weight: one product per image, or one in all for few pixels."""
    x, g, ones = _flatten_images(x), _flatten_images(g), (1,) * (x.ndim - 2)
    pixels, channels, outputs = x.shape[2], x.shape[1], g.shape[1]
    if pixels * (channels + outputs) < channels * outputs:
        x, g = (np.ascontiguousarray(a.swapaxes(0, 1)).reshape(1, a.shape[1], -1) for a in (x, g))
    parts = _multiply_stacks(g, x.swapaxes(1, 2))
    result = parts[0] if len(parts) == 1 else parts.sum(0)
    return result.reshape(outputs, channels, *ones)


def _flatten_images(x: Array) -> Array:
    """Flatten images to one row."""
    return x.reshape(*x.shape[:2], -1)


def _multiply_by_image(matrix: Array, images: Array) -> Array:
    """Multiply a matrix by each image's channels."""
    return _multiply_stacks(np.broadcast_to(matrix, (len(images), *matrix.shape)), images)


def _multiply_stacks(a: Array, b: Array) -> Array:
    """Compute a stack of products with a kernel or BLAS."""
    result = try_product(a, b)
    return np.matmul(a, b) if result is None else result
