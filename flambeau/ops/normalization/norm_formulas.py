"""What normalisation layers share: dtypes, checks, and the derivative written in operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.tangents import sum_terms
from ...tensor.dtypes import FROM_NUMPY, HALF
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor, wrap
from ..core.operator import Array
from ..core.promotion import compute_dtype


def as_dtype(kind: np.dtype, *arrays: Array | None) -> list[Any]:
    """The arrays in one dtype; None stays."""
    return [None if a is None else a.astype(kind, copy=False) for a in arrays]


def floating(name: str, input: Tensor) -> np.dtype:
    """The dtype of the statistics; NotImplementedError for integers."""
    kind = input._array.dtype
    if kind.kind not in "fV":
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{legacy_name(FROM_NUMPY[kind])}'"
        )
    return compute_dtype(kind)


def check_parameter_dtypes(input: Tensor, *parameters: Tensor | None) -> None:
    """RuntimeError unless weights have the input's dtype, or float32 beside half precision."""
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


def statistics(shape: Any, kind: np.dtype) -> tuple[Tensor, Tensor]:
    """Where an operator leaves its mean and 1 / deviation, for its derivative."""
    return wrap(np.empty(shape, kind)), wrap(np.empty(shape, kind))


def slope(g: Tensor, hat: Tensor, rstd: Tensor, dims: list[int]) -> Tensor:
    """The derivative of normalisation over `dims`, in operators."""
    return rstd * (g - g.mean(dims, True) - hat * (g * hat).mean(dims, True))


def normalize(input: Tensor, dims: list[int], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(input less mean) / deviation, the mean and 1 / deviation over `dims`, in operators."""
    mean = input.mean(dims, True)
    centred = input - mean
    rstd = ((centred * centred).mean(dims, True) + eps).rsqrt()
    return centred * rstd, mean, rstd


def affine_tangent(
    push: Callable[[Tensor], Tensor], affine: Callable[[Tensor, Tensor | None], Tensor],
    tangents: tuple[Tensor | None, Tensor | None, Tensor | None], input: Tensor,
    weight: Tensor | None,
    place: Callable[[Tensor, Tensor], Tensor] = lambda v, like: v.expand(like.shape),
) -> Tensor | None:
    """The tangent of a normalisation, times the weight, plus the bias.

    push: the tangent of the normalised input. affine: the operator with other parameters, in which
    it is linear. tangents: of input, weight and bias. place(v, like): a parameter in a shape that
    broadcasts with the result.
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
    """A joint derivative's answer: gradients for the first three inputs, None for the rest."""
    three = [y if need else None for y, need in zip(gradients, needs, strict=False)]
    return (*three, *(None,) * (len(needs) - 3))


def images(x: Array) -> Array:
    """x (n, c, ...) as (n, c, positions)."""
    return x.reshape(*x.shape[:2], -1)


def scale_and_shift(rstd: Array, weight: Array | None) -> Array:
    """1 / deviation times the weight, if there is one."""
    return rstd if weight is None else rstd * weight


def scale_channels(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """y * weight + bias along the channels, the second axis, in operators."""
    ends = [1] * (y.dim() - 2)
    y = y if weight is None else y * weight.reshape(-1, *ends)
    return y if bias is None else y + bias.reshape(-1, *ends)


def channels(v: Tensor, like: Tensor) -> Tensor:
    """v (c,) in a shape that broadcasts with `like` (n, c, ...)."""
    return v.reshape(1, -1, *(1,) * (like.dim() - 2))
