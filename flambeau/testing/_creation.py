"""make_tensor: tensors of random elements between limits, for tests."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..native.foundation.user_frames import warn
from ..tensor import Tensor, device, dtype
from ..tensor import dtypes as types


def _supported(dtype: dtype) -> tuple[float, float, float, float]:
    """The default limits of a dtype, its least value, and the value that it ends below."""
    if dtype is types.bool_:
        return 0, 2, 0, 2
    if dtype.is_floating_point or dtype.is_complex:
        result = types.finfo(dtype)
        return -9, 9, result.min, result.max
    limits = types.iinfo(dtype)
    return -9, 10, limits.min, limits.max + (dtype is not types.int64)


def _limits(dtype: dtype, low: float | None, high: float | None) -> tuple[float, float]:
    default_low, default_high, lowest, end = _supported(dtype)
    low = default_low if low is None else low
    high = default_high if high is None else high
    if low != low or high != high:
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    is_floating = dtype.is_floating_point or dtype.is_complex
    if low == high and is_floating:
        warn(
            "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is "
            "deprecated since 2.1 and will be removed in 2.3. Use `torch.full(...)` instead.",
            FutureWarning,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < lowest or low >= end:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} "
            f"only supports [{lowest}, {end})"
        )
    low, high = (min(max(limit, lowest), end) for limit in (low, high))
    return (low, high) if is_floating else (math.ceil(low), math.ceil(high))


def _fill_evenly(target: Tensor, low: float, high: float) -> None:
    if high - low <= types.finfo(target.dtype).max:
        target.uniform_(low, high)
    else:
        target.uniform_(low / 2, high / 2).mul_(2)


def make_tensor(
    *shape: Any, dtype: dtype, device: str | device = "cpu", low: float | None = None,
    high: float | None = None, requires_grad: bool = False, noncontiguous: bool = False,
    exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:
    """A tensor of elements drawn evenly from [low, high): [-9, 9] for floating dtypes, integers
    below 10, truth values.

    >>> torch.testing.make_tensor(2, 3, dtype=torch.float32).shape
    torch.Size([2, 3])
    """
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually "
                         f"exclusive, but got {noncontiguous=} and {memory_format=}")
    is_floating = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not is_floating:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, "
                         f"but got {dtype=}")
    if dtype in types.NOMINAL.values() and not is_floating:
        raise TypeError(
            f"The requested dtype '{dtype}' is not supported by torch.testing.make_tensor(). To "
            "request support, file an issue at: https://github.com/pytorch/pytorch/issues"
        )
    noncontiguous = noncontiguous and math.prod(shape) > 1
    if noncontiguous:  # every second element of twice as many
        shape = (*shape[:-1], 2 * shape[-1])
    low, high = _limits(dtype, low, high)
    if dtype.is_complex:
        result = ops.empty(shape, dtype=dtype)
        _fill_evenly(ops.view_as_real(result), low, high)
    elif dtype.is_floating_point:
        result = ops.empty(shape, dtype=dtype if dtype.itemsize > 1 else types.float32)
        _fill_evenly(result, low, high)
        result = result.to(dtype)
    else:
        result = ops.randint(int(low), int(high), shape, dtype=dtype)
    if noncontiguous:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = types.finfo(dtype).tiny if is_floating else True
    return result.to(device).requires_grad_(requires_grad)
