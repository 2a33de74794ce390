"""Convolutions of float32 tensors, quantized at each call by the range of their values.

As in PyTorch the results are rounded to the integers of the inputs, and cut off at their span.
"""

from __future__ import annotations

from typing import Any

from ......native.foundation.user_frames import warn
from ......tensor import Tensor
from ...modules import conv, conv_transpose


class _Dynamic(conv._ConvNd):
    """Base class of dynamic convolutions: the result is float32."""

    def __init__(self, *args: Any, reduce_range: bool = True, **kwargs: Any) -> None:
        warn(f"The current implementation of the {self._get_name()} module has poor numerical "
             "accuracy and its use is not recommended")
        super().__init__(*args, **kwargs)

    def forward(self, input: Tensor, reduce_range: bool = True) -> Tensor:
        """Return the float32 result of a float32 tensor."""
        return self._packed_params.convolve_dynamic(self._pad(input), reduce_range)

    def _get_name(self) -> str:
        return "Dynamic" + super()._get_name()


class Conv1d(_Dynamic, conv.Conv1d):
    """A 1-dimensional convolution: weights of qint8."""


class Conv2d(_Dynamic, conv.Conv2d):
    """A 2-dimensional convolution: weights of qint8."""


class Conv3d(_Dynamic, conv.Conv3d):
    """A 3-dimensional convolution: weights of qint8."""


class ConvTranspose1d(_Dynamic, conv_transpose.ConvTranspose1d):
    """A 1-dimensional transposed convolution: weights of qint8."""


class ConvTranspose2d(_Dynamic, conv_transpose.ConvTranspose2d):
    """A 2-dimensional transposed convolution: weights of qint8."""


class ConvTranspose3d(_Dynamic, conv_transpose.ConvTranspose3d):
    """A 3-dimensional transposed convolution: weights of qint8."""
