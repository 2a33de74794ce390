"""Shared by all convolutions: checks, parameters and their initialization, and repr.

Weights are (out, in / groups, *kernel), for transposed convolutions (in, out / groups, *kernel);
weight and bias are initialized uniformly within +-1/sqrt(fan_in).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import ops
from ...autograd import no_grad
from ...native.foundation.shared_constructors import own_constructor
from ...native.foundation.user_frames import warn
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..module import Module
from ..parameter import Parameter
from .utils import _reverse_repeat_tuple, format_settings

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
_PADDING_NAMES = ("same", "valid")


def _compute_same_padding(kernel_size: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Widths for F.pad that preserve every size: last dimension first, odd padding at the end."""
    widths = []
    for d, k in zip(reversed(dilation), reversed(kernel_size), strict=True):
        total = d * (k - 1)
        widths += [total // 2, total - total // 2]
    return widths


def _check_arguments(
    in_channels: int,
    out_channels: int,
    groups: int,
    padding: str | tuple[int, ...],
    stride: tuple[int, ...],
    padding_mode: str,
) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in _PADDING_NAMES:
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of {_PADDING_NAMES}"
            )
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(
            f"padding_mode must be one of {_PADDING_MODES}, "
            f"but got padding_mode='{padding_mode}'"
        )


class _ConvNd(Module):
    """State and checks of all convolutions; every size is a tuple."""

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_arguments(in_channels, out_channels, groups, padding, stride, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        # The padding that F.pad must add for modes other than zeros, which convolutions cannot do.
        self._reversed_padding_repeated_twice: Sequence[int]
        if padding == "same":
            self._reversed_padding_repeated_twice = _compute_same_padding(kernel_size, dilation)
        elif padding == "valid":
            self._reversed_padding_repeated_twice = [0] * (2 * len(kernel_size))
        else:
            self._reversed_padding_repeated_twice = _reverse_repeat_tuple(padding, 2)
        self.weight = Parameter(
            ops.empty(self._flambeau_compute_weight_shape(), device=device, dtype=dtype)
        )
        if bias:
            self.bias = Parameter(ops.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _flambeau_compute_weight_shape(self) -> tuple[int, ...]:
        channels = (self.out_channels, self.in_channels)
        first, second = reversed(channels) if self.transposed else channels
        return (first, second // self.groups, *self.kernel_size)

    def reset_parameters(self) -> None:
        """Redraw weight, then bias. The numbers do not depend on the memory format."""
        weight = self.weight
        with no_grad():
            if weight.is_contiguous():
                init.kaiming_uniform_(weight, a=math.sqrt(5))
            else:
                contiguous = ops.empty(weight.shape, dtype=weight.dtype, device=weight.device)
                weight.copy_(init.kaiming_uniform_(contiguous, a=math.sqrt(5)))
            if self.bias is not None:
                fan_in = math.prod(weight.shape[1:])
                bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        settings = [f"{self.in_channels}, {self.out_channels}"]
        settings.append(format_settings(self, "kernel_size", "stride"))
        for name, default in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (default,) * len(value):
                settings.append(f"{name}={value}")
        if self.groups != 1:
            settings.append(f"groups={self.groups}")
        if self.bias is None:
            settings.append("bias=False")
        if self.padding_mode != "zeros":
            settings.append(f"padding_mode={self.padding_mode}")
        return ", ".join(settings)

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")  # old pickles lack it


class _Convolution(_ConvNd):
    """A forward convolution. Subclasses define `_flambeau_as_tuple` and `_conv_forward`."""

    __init_subclass__ = own_constructor

    _flambeau_as_tuple: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        as_tuple = type(self)._flambeau_as_tuple
        super().__init__(
            in_channels,
            out_channels,
            as_tuple(kernel_size),
            as_tuple(stride),
            padding if isinstance(padding, str) else as_tuple(padding),
            as_tuple(dilation),
            False,
            as_tuple(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _flambeau_pad(self, input: Tensor) -> Tensor:
        return F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}._conv_forward")

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution: the gradient of a convolution with respect to its input."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(
        self,
        input: Tensor,
        output_size: Sequence[int] | None,
        stride: Sequence[int],
        padding: Sequence[int],
        kernel_size: Sequence[int],
        num_spatial_dims: int,
        dilation: Sequence[int] | None = None,
    ) -> Sequence[int]:
        """The output padding that gives `output_size`; ValueError if there is none."""
        if output_size is None:
            return self.output_padding
        leading = 2 if input.dim() == num_spatial_dims + 2 else 1
        if len(output_size) == leading + num_spatial_dims:
            output_size = output_size[leading:]
        if len(output_size) != num_spatial_dims:
            raise ValueError(
                f"ConvTranspose{num_spatial_dims}D: for {input.dim()}D input, output_size must "
                f"have {num_spatial_dims} or {leading + num_spatial_dims} elements "
                f"(got {len(output_size)})"
            )
        dilation = dilation or (1,) * num_spatial_dims
        smallest = [
            (size - 1) * stride[d] - 2 * padding[d] + dilation[d] * (kernel_size[d] - 1) + 1
            for d, size in enumerate(input.shape[leading:])
        ]
        largest = [size + stride[d] - 1 for d, size in enumerate(smallest)]
        sizes = zip(smallest, output_size, largest, strict=True)
        if any(not lower <= size <= upper for lower, size, upper in sizes):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {smallest} "
                f"to {largest} (for an input of {input.shape[2:]})"
            )
        return [size - lower for size, lower in zip(output_size, smallest, strict=True)]


class _Transposed(_ConvTransposeNd):
    """The public constructor. Subclasses define `_flambeau_as_tuple` and `forward`."""

    __init_subclass__ = own_constructor

    _flambeau_as_tuple: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        as_tuple = type(self)._flambeau_as_tuple
        super().__init__(
            in_channels,
            out_channels,
            as_tuple(kernel_size),
            as_tuple(stride),
            as_tuple(padding),
            as_tuple(dilation),
            True,
            as_tuple(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _flambeau_list_settings(self, input: Tensor, output_size: Sequence[int] | None) -> tuple:
        """Stride, padding, output padding, groups and dilation, in the operator's order."""
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for {type(self).__name__}")
        assert not isinstance(self.padding, str)  # "same" is for forward convolutions
        output_padding = self._output_padding(
            input,
            output_size,
            self.stride,
            self.padding,
            self.kernel_size,
            len(self.kernel_size),
            self.dilation,
        )
        return self.stride, self.padding, output_padding, self.groups, self.dilation


class _ConvTransposeMixin(_ConvTransposeNd):
    """The old name of _ConvTransposeNd, for older programs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            "`_ConvTransposeMixin` is a deprecated internal class. "
            "Please consider using public APIs.",
            FutureWarning,
        )
        super().__init__(*args, **kwargs)
