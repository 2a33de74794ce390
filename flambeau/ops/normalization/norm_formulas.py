"""Shared parts of the normalization operators: dtypes, checks, and differentiable derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.tangents import sum_terms
from ...tensor.dtypes import HALF
from ...tensor.promotion import build_missing_kernel_error
from ...tensor.tensor import Tensor, wrap
from ..core.operator import Array
from ..core.promotion import compute_dtype


def as_dtype(kind: np.dtype, *arrays: Array | None) -> list[Any]:
    """Cast arrays to one dtype, without a copy if possible; None stays None."""
    return [None if a is None else a.astype(kind, copy=False) for a in arrays]


def choose_statistics_dtype(name: str, input: Tensor) -> np.dtype:
    """Return the dtype of the statistics; raise NotImplementedError for integers."""
    kind = input._array.dtype
    if kind.kind not in "fV":
        raise build_missing_kernel_error(name, kind)
    return compute_dtype(kind)


def check_parameter_dtypes(input: Tensor, *parameters: Tensor | None) -> None:
    """Raise RuntimeError unless parameters have the input's dtype, or float32 if it is half."""
    for p in parameters:
        if p is None or p._array.dtype == input._array.dtype:
            continue
        if input.dtype in HALF:
            if p._array.dtype == np.float32:
                continue
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
        if p._array.itemsize > input._array.itemsize:
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


def allocate_statistics(shape: Any, kind: np.dtype) -> tuple[Tensor, Tensor]:
    """Allocate the mean and 1 / deviation, which an operator saves for its derivative."""
    return wrap(np.empty(shape, kind)), wrap(np.empty(shape, kind))


def compute_input_cotangent(g: Tensor, hat: Tensor, rstd: Tensor, dims: list[int]) -> Tensor:
    """Return the cotangent of a normalization's input over `dims`, by differentiable operators."""
    return rstd * (g - g.mean(dims, True) - hat * (g * hat).mean(dims, True))


def normalize(input: Tensor, dims: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return (input - mean) / deviation, mean and 1 / deviation, by differentiable operators."""
    mean = input.mean(dims, True)
    centred = input - mean
    rstd = ((centred * centred).mean(dims, True) + eps).rsqrt()
    return centred * rstd, mean, rstd


def compute_affine_tangent(
    push: Callable[[Tensor], Tensor], affine: Callable[[Tensor, Tensor | None], Tensor],
    tangents: tuple[Tensor | None, Tensor | None, Tensor | None], input: Tensor,
    weight: Tensor | None,
    place: Callable[[Tensor, Tensor], Tensor] = lambda v, like: v.expand(like.shape),
) -> Tensor | None:
    """Return the tangent of normalize(input) * weight + bias.

    push: map the input's tangent to that of the normalized input. affine: the operator as a
    function of weight and bias, in which it is linear. tangents: those of input, weight and bias.
    place(v, like): reshape a parameter to broadcast with the result.
    """
    t, weight_t, bias_t = tangents
    of_input = None if t is None else push(t)
    if t is not None and of_input is not None and weight is not None:
        of_input = (of_input * place(weight, input)).to(t.dtype)
    if weight_t is None:
        shift = None if bias_t is None else place(bias_t, input).expand(input.shape)
        return sum_terms(of_input, shift)
    return sum_terms(of_input, affine(weight_t, bias_t))


def select_needed(gradients: Any, needs: tuple[bool, ...]) -> tuple:
    """Return the first three inputs' gradients if needed, else None; None for other inputs."""
    three = [y if need else None for y, need in zip(gradients, needs, strict=False)]
    return (*three, *(None,) * (len(needs) - 3))


def flatten_positions(x: Array) -> Array:
    """Reshape x (n, c, ...) to (n, c, positions)."""
    return x.reshape(*x.shape[:2], -1)


def compute_channel_scale(rstd: Array, weight: Array | None) -> Array:
    """Return 1 / deviation, times the weight if there is one."""
    return rstd if weight is None else rstd * weight


def scale_channels(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Return y * weight + bias along the channels (axis 1), by differentiable operators."""
    ends = [1] * (y.dim() - 2)
    y = y if weight is None else y * weight.reshape(-1, *ends)
    return y if bias is None else y + bias.reshape(-1, *ends)


def reshape_along_channels(v: Tensor, like: Tensor) -> Tensor:
    """Reshape v (c,) to broadcast with `like` (n, c, ...)."""
    return v.reshape(1, -1, *(1,) * (like.dim() - 2))
