"""What operators on regions refuse: dtypes, shapes, and regions of images that are not there."""

from __future__ import annotations

import numpy as np

from ...tensor.dtypes import FROM_NUMPY
from ...tensor.meta import MetaArray
from ...tensor.promotion import build_missing_kernel_error, legacy_name

Array = np.ndarray

_HALF = np.dtype(np.float16)
_SERVED = (np.dtype(np.float32), np.dtype(np.float64))


def check_dtype(kernel: str, x: Array, half: bool = True) -> None:
    """Raise NotImplementedError unless x is float32 or float64, or float16 if `half`."""
    if x.dtype not in _SERVED and not (half and x.dtype == _HALF):
        raise build_missing_kernel_error(kernel, x.dtype)


def check_regions(kernel: str, input: Array, rois: Array, called: str = "input") -> None:
    """Raise RuntimeError unless rois is (k, 5) with the dtype of the input.

    IndexError for a region of an image that is not in the batch.
    """
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise RuntimeError("rois must have shape as Tensor[K, 5]")
    if input.dtype != rois.dtype:
        kinds = [legacy_name(FROM_NUMPY[x.dtype]) for x in (input, rois)]
        raise RuntimeError(
            f"Expected tensor for argument #1 '{called}' to have the same type as tensor for "
            f"argument #2 'rois'; but type torch.{kinds[0]}Tensor does not equal "
            f"torch.{kinds[1]}Tensor (while checking arguments for {kernel})"
        )
    check_dtype(kernel, input)


def find_images(rois: Array, count: int) -> Array:
    """Return the image index of each region; IndexError if it is out of range."""
    if rois.__class__ is MetaArray:
        return rois[:, 0]
    images = rois[:, 0].astype(np.int64)
    if images.size and (images.min() < 0 or images.max() >= count):
        raise IndexError(
            f"rois: a region is in image {images[np.argmax((images < 0) | (images >= count))]}, "
            f"but the batch has {count}"
        )
    return images


def count_place_channels(input: Array, height: int, width: int) -> int:
    """Return the result's channels if each bin has its own input channels.

    RuntimeError if they cannot be divided evenly.
    """
    if input.shape[1] % (height * width):
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")
    return input.shape[1] // (height * width)
