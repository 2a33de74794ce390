"""torch.ao.nn.quantized.functional: functions of quantized tensors; other tensors raise."""

from __future__ import annotations

from typing import Any

from ....nn import functional as F
from ....ops.quantized import arithmetic
from ....ops.quantized.packed_conv import ConvPackedParams
from ....ops.quantized.packed_linear import linear as _linear
from ....ops.quantized.packed_linear import linear_prepack
from ....tensor import Tensor
from ....tensor.absent import make_absent_getattr
from ....tensor.dtypes import qint8, quint8

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "celu", "clamp",
    "conv1d", "conv2d", "conv3d", "elu", "hardsigmoid", "hardswish", "hardtanh", "interpolate",
    "leaky_relu", "linear", "max_pool1d", "max_pool2d", "threshold",
    "upsample", "upsample_bilinear", "upsample_nearest",
]


def _check(input: Tensor, name: str) -> None:
    if not input.is_quantized:
        raise ValueError(f"Input to 'quantized.{name}' must be quantized!")


def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None,
) -> Tensor:
    """The mean of each window, with the input's scale."""
    _check(input, "avg_pool2d")
    return F.avg_pool2d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None,
) -> Tensor:
    """The mean of each window, with the input's scale."""
    _check(input, "avg_pool3d")
    return F.avg_pool3d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Adaptive mean of windows, with the input's scale."""
    _check(input, "functional.adaptive_avg_pool2d")
    return F.adaptive_avg_pool2d(input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Adaptive mean of windows, with the input's scale."""
    _check(input, "functional.adaptive_avg_pool3d")
    return F.adaptive_avg_pool3d(input, output_size)


def max_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:
    """The maximum of each window."""
    if return_indices:
        raise NotImplementedError("return_indices is not yet implemented!")
    return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:
    """The maximum of each window."""
    if return_indices:
        raise NotImplementedError("return_indices is not yet implemented!")
    return F.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: Any = None,
) -> Tensor:
    """Resize to another size, with the input's scale."""
    _check(input, "interpolate")
    return F.interpolate(input, size, scale_factor, mode, align_corners)


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: Any = None,
) -> Tensor:
    """The former name of `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "nearest"."""
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "bilinear" and aligned corners."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """Clamp between two numbers, with the input's scale; `max_val` if it is the lower one."""
    _check(input, "hardtanh")
    result = arithmetic.clamp(input, min_val, max_val)
    return input.copy_(result) if inplace else result


def clamp(input: Tensor, min_: float, max_: float) -> Tensor:
    """Clamp between two numbers, with the input's scale."""
    _check(input, "clamp")
    return arithmetic.clamp(input, min_, max_)


def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """Replace elements that are not above the threshold by `value`."""
    _check(input, "threshold")
    return arithmetic.threshold(input, threshold, value)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6, with the scale for numbers between 0 and 1."""
    _check(input, "hardsigmoid")
    result: Tensor = F.hardsigmoid(input)
    return input.copy_(result) if inplace else result


def hardswish(input: Tensor, scale: float, zero_point: int) -> Tensor:
    """x relu6(x + 3) / 6, quantized with the scale and zero point."""
    _check(input, "hardswish")
    return arithmetic.hardswish(input, scale, zero_point)


def elu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Tensor:
    """x if positive, else alpha (exp(x) - 1)."""
    _check(input, "elu")
    return arithmetic.elu(input, scale, zero_point, alpha)


def celu(input: Tensor, scale: float, zero_point: int, alpha: float = 1.0) -> Tensor:
    """x if positive, else alpha (exp(x / alpha) - 1)."""
    _check(input, "celu")
    return arithmetic.celu(input, scale, zero_point, alpha)


def leaky_relu(
    input: Tensor, negative_slope: float = 0.01, inplace: bool = False, scale: Any = None,
    zero_point: Any = None,
) -> Tensor:
    """x if positive, else x times the slope; with the input's scale unless one is given."""
    if scale is None or zero_point is None:
        result: Tensor = F.leaky_relu(input, negative_slope)
        return input.copy_(result) if inplace else result
    return arithmetic.leaky_relu(input, negative_slope, inplace, scale, zero_point)


def _convolve(
    rank: int, input: Any, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    dilation: Any, groups: int, padding_mode: str, scale: float, zero_point: int, dtype: Any,
) -> Tensor:
    """Convolve; NotImplementedError for padding other than zeros and for other dtypes."""
    if padding_mode != "zeros":
        raise NotImplementedError("Only zero-padding is supported!")
    if input.dtype is not quint8 or dtype is not quint8:
        raise NotImplementedError(
            "Only torch.quint8 is supported for activation tensor!")
    if weight.dtype is not qint8:
        raise NotImplementedError("Only torch.qint8 is supported for weight tensor!")
    if input.ndim != rank + 2:
        raise ValueError(f"Input tensor must have {rank + 2} dimensions!")
    stride, padding, dilation = ((v,) * rank if isinstance(v, int) else tuple(v)
                                 for v in (stride, padding, dilation))
    packed = ConvPackedParams(weight, bias, stride, padding, dilation, groups)
    return packed.convolve_static(input, scale, zero_point, False)


def conv1d(
    input: Any, weight: Tensor, bias: Tensor | None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0,
    zero_point: int = 0, dtype: Any = quint8,
) -> Tensor:
    """Convolve quint8 inputs with qint8 weights, which are packed at each call."""
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups, padding_mode,
                     scale, zero_point, dtype)


def conv2d(
    input: Any, weight: Tensor, bias: Tensor | None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0,
    zero_point: int = 0, dtype: Any = quint8,
) -> Tensor:
    """Convolve quint8 inputs with qint8 weights, which are packed at each call."""
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups, padding_mode,
                     scale, zero_point, dtype)


def conv3d(
    input: Any, weight: Tensor, bias: Tensor | None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0,
    zero_point: int = 0, dtype: Any = quint8,
) -> Tensor:
    """Convolve quint8 inputs with qint8 weights, which are packed at each call."""
    return _convolve(3, input, weight, bias, stride, padding, dilation, groups, padding_mode,
                     scale, zero_point, dtype)


def linear(
    input: Any, weight: Tensor, bias: Tensor | None = None, scale: Any = None,
    zero_point: Any = None,
) -> Tensor:
    """x w^T + b for quint8 inputs and qint8 weights, which are packed at each call."""
    scale = input.q_scale() if scale is None else scale
    zero_point = input.q_zero_point() if zero_point is None else zero_point
    return _linear(input, linear_prepack(weight, bias), scale, zero_point)


__getattr__ = make_absent_getattr(__name__)
