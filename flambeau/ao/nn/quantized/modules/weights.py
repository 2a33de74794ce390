"""Weights of quantized modules, from an observer's parameters to integers; and their text."""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....nn.module import Module
from .....tensor import Tensor
from .....tensor.quantizers import (
    per_channel_affine, per_channel_affine_float_qparams, per_channel_symmetric,
    per_tensor_affine, per_tensor_symmetric,
)


def quantize_weight(weight: Tensor, observer: Any) -> Tensor:
    """The weights as integers, under the scales that an observer has found for them."""
    scale, zero_point = observer.calculate_qparams()
    scheme = observer.qscheme
    weight = weight.detach()
    if scheme in (per_tensor_symmetric, per_tensor_affine):
        result: Tensor = ops.quantize_per_tensor(
            weight, float(scale), int(zero_point), observer.dtype)
    elif scheme in (per_channel_symmetric, per_channel_affine):
        result = ops.quantize_per_channel(
            weight, scale.double(), zero_point.long(), observer.ch_axis, observer.dtype)
    elif scheme is per_channel_affine_float_qparams:
        result = ops.quantize_per_channel(
            weight, scale.float(), zero_point.float(), observer.ch_axis, observer.dtype)
    else:
        raise ValueError(f"Unexpected qscheme {scheme}")
    return _clamp(result, observer)


def _clamp(weight: Any, observer: Any) -> Tensor:
    """Clamp integers to the observer's range if it is narrower than the dtype's."""
    lowest, highest = weight.dtype.limits
    if observer.quant_min > lowest or observer.quant_max < highest:
        array = weight._array
        array.write(array.codes.clip(observer.quant_min, observer.quant_max))
    result: Tensor = weight
    return result


def format_module(module: Module, hidden: tuple[type, ...]) -> str:
    """Return a module's repr, without children of the classes `hidden`."""
    extra = module.extra_repr()
    extra_lines = extra.split("\n") if extra else []
    child_lines = []
    for name, child in module._modules.items():
        if not isinstance(child, hidden):
            child_repr = repr(child).replace("\n", "\n  ")
            child_lines.append(f"({name}): {child_repr}")
    head = module._get_name() + "("
    if len(extra_lines) == 1 and not child_lines:
        return head + extra_lines[0] + ")"
    lines = extra_lines + child_lines
    return head + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"
