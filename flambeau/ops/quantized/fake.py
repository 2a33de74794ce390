"""Fake quantization: round floating-point numbers to those that integers represent.

The gradient treats rounding as the identity, so finite differences cannot check it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.dtypes import float32
from ...tensor.tensor import Tensor
from ..core.operator import Array
from ..core.promotion import compute_dtype
from ..core.registry import Declared, composite, opaque


def codes_before_saturation(x: Any, scale: Any, zero_point: Any) -> Any:
    """Return the integers before saturation, as numbers; NaN becomes the smallest one.

    A floating-point zero point is added before rounding, an integer one after it.
    """
    x = x.astype(compute_dtype(x.dtype), copy=False)  # half precision times a scale is float32
    with np.errstate(all="ignore"):
        steps = x * (np.float32(1) / scale).astype(x.dtype)
        floating = getattr(zero_point, "dtype", np.dtype(int)).kind == "f"
        result = np.rint(steps + zero_point) if floating else np.rint(steps) + zero_point
    return np.where(np.isnan(result), -np.inf, result)


def round_to_codes(x: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Any:
    codes = np.clip(codes_before_saturation(x, scale, zero_point), quant_min, quant_max)
    return ((codes - zero_point).astype(np.float32) * scale).astype(x.dtype)  # rounds like PyTorch


def _check_range(quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or         equal to `quant_max`.")


@opaque(name="_fake_quantize_mask", expose=(), differentiable=False)
def representable(
    input: Array, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Array:
    """Return a mask of the input that is not saturated, where its gradient passes."""
    codes = codes_before_saturation(input, scale, zero_point)
    return (codes >= quant_min) & (codes <= quant_max)


def _declare(name: str, node: str) -> Declared:
    """Declare the operator under one of PyTorch's names for its node."""

    def body(
        input: Array, scale: Any, zero_point: Any, quant_min: int, quant_max: int
    ) -> Array:
        """Round the input to the numbers represented by integers from quant_min to quant_max."""
        return round_to_codes(input, scale, zero_point, quant_min, quant_max)

    function = opaque(name=name, expose=(), node=node)(body)

    @function.vjp
    def _(
        g: Tensor, input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
    ) -> Tensor:
        return g * representable(input, scale, zero_point, quant_min, quant_max)

    return function


by_number = _declare("_fake_quantize_by_number", "FakeQuantizePerTensorAffineCachemaskBackward0")
by_tensor = _declare("_fake_quantize_by_tensor",
                     "FakeQuantizePerTensorAffineCachemaskTensorQparamsBackward0")
by_channel = _declare("_fake_quantize_by_channel",
                      "FakeQuantizePerChannelAffineCachemaskBackward0")


@composite(expose=("torch",))
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """Round input to the values representable after quantization.

    Gradients pass where the input is not saturated.
    `scale` and `zero_point` are numbers, or one-element tensors. RuntimeError if the zero point is
    not between `quant_min` and `quant_max`.
    https://pytorch.org/docs/stable/generated/torch.fake_quantize_per_tensor_affine.html

    >>> torch.fake_quantize_per_tensor_affine(torch.tensor([0.26, 9.]), 0.1, 0, 0, 15)
    tensor([0.3000, 1.5000])
    """
    _check_range(quant_min, quant_max)
    steps = scale.item() if isinstance(scale, Tensor) else scale
    zero = zero_point.item() if isinstance(zero_point, Tensor) else zero_point
    if not quant_min <= zero <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    function = by_tensor if isinstance(scale, Tensor) else by_number
    return function(input, np.float32(steps), int(zero), quant_min, quant_max)


@composite(expose=("torch",), explains=True)
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """`fake_quantize_per_tensor_affine` with one scale per index along `axis`.

    https://pytorch.org/docs/stable/generated/torch.fake_quantize_per_channel_affine.html

    >>> zeros = torch.zeros(2, dtype=torch.int32)
    >>> x = torch.tensor([[0.26], [0.26]])
    >>> torch.fake_quantize_per_channel_affine(x, torch.tensor([0.1, 0.5]), zeros, 0, 0, 15)
    tensor([[0.3000],
            [0.5000]])
    """
    kind = zero_point.dtype.name
    if kind not in ("int32", "float32", "float16"):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {_CASED[kind]}")
    if scale.dtype is not float32:
        name = scale.dtype.name
        raise RuntimeError(f"Scale must be Float or BFloat16, found {_CASED.get(name, name)}")
    if scale.ndim != 1 or zero_point.ndim != 1:
        raise RuntimeError("scale and zero point need to be 1-D")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    if scale.numel() != input.size(axis):
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input "
                           "tensor")
    _check_range(quant_min, quant_max)
    zeros: Any = zero_point._array.astype(np.int64 if kind == "int32" else np.float32)
    if kind == "int32" and not ((quant_min <= zeros) & (zeros <= quant_max)).all():
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    shape = [1] * input.ndim
    shape[axis] = -1
    steps = scale._array.reshape(shape)
    return by_channel(input, steps, zeros.reshape(shape), quant_min, quant_max)


_CASED = {"int64": "Long", "int16": "Short", "int8": "Char", "uint8": "Byte", "float64": "Double",
          "bool": "Bool", "bfloat16": "BFloat16", "float16": "Half"}
