"""How pointwise operators compute on operands of any dtype: promotion, half precision, numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ...native.target.eager_costs import MAX_NUMPY_COSTLY_ELEMENTS
from ...tensor import dtypes as types
from ...tensor.dtypes import BOOL, FROM_NUMPY, HALF, INTEGER, dtype
from ...tensor.narrow_dtypes import EIGHT_BIT, NARROW, normalize_bools, widen
from ...tensor.promotion import result_dtype
from ...tensor.tensor import Tensor
from ..native.pointwise import try_kernel_with, choose_min_elements, mix_dtypes, swap_operands
from .narrow_arithmetic import compute_narrow, refuse_eight_bit_arithmetic
from .operator import Operator, Promotion


def compute_pointwise(
    operator: Operator, operands: tuple, attributes: tuple, options: dict[str, Any] | None = None
) -> np.ndarray:
    """The body on the operands cast to the dtype in which they meet.

    Half precision is computed in float32 and rounded once, as PyTorch does.
    """
    promotion = operator.promotion
    options = options or {}
    if promotion is Promotion.NONE:
        arrays = [_require_plain(x) for x in operands]
        first: Any = getattr(arrays[0], "dtype", None)
        if first in EIGHT_BIT and first not in NARROW:
            refuse_eight_bit_arithmetic(operator, operands, FROM_NUMPY[first])
        return operator.body(*arrays, *attributes, **options)
    common = result_dtype(operands)
    if promotion is Promotion.FLOATING and common.category in (BOOL, INTEGER):
        common = types.get_default_dtype()
    if operator.refuse is not None:
        operator.refuse(operator, operands, common)
    if common.numpy in NARROW:
        return compute_narrow(operator, operands, attributes, options, common)
    if common.numpy.itemsize == 1:
        refuse_eight_bit_arithmetic(operator, operands, common)
    half = common in HALF
    inside = types.float32.numpy if half else common.numpy
    y = None
    if half and operator.rounds_settings:
        attributes = tuple([round_setting(v, common.numpy) for v in attributes])
        options = {name: round_setting(v, common.numpy) for name, v in options.items()}
    if half and operator.steps_of_halves is not None and _is_array(operands[1]):
        arrays = [_cast(x, inside, common, operator) for x in operands]
        return _compute_in_steps(operator.steps_of_halves, arrays, common.numpy)
    if half:
        y = _compute_halves(operator, operands, attributes, options, common)
    elif not attributes and not options:
        y = _promote_mixed(operator, operands, common)
    if y is not None:
        return y
    arrays = [_cast(x, inside, common, operator) for x in operands]
    with np.errstate(all="ignore"):
        y = operator.body(*arrays, *attributes, **options)
    if half and y.dtype == types.float32.numpy:
        y = y.astype(common.numpy)
    return y


def _is_array(x: Any) -> bool:
    return isinstance(x, Tensor) and x._array.size != 1


def _compute_in_steps(steps: Callable, arrays: list[np.ndarray], stored: np.dtype) -> np.ndarray:
    """The result of half precision whose intermediate results are rounded, too."""
    def rounded(y: np.ndarray) -> np.ndarray:
        return y.astype(stored).astype(np.float32)

    with np.errstate(all="ignore"):
        y: np.ndarray = steps(*map(rounded, arrays), rounded)
    return y.astype(stored)


def round_setting(value: Any, stored: np.dtype) -> Any:
    """Return a setting as its operator compares it with tensors of a dtype: rounded to it, where
    that is half precision."""
    if value.__class__ is not float or not value or FROM_NUMPY[stored] not in HALF:
        return value
    return float(_round_number(value, stored, types.float32.numpy))


def _compute_halves(
    operator: Operator, operands: tuple, attributes: tuple, options: dict[str, Any], common: dtype
) -> np.ndarray | None:
    """The result by a kernel, for large half-precision arrays, numbers and settings."""
    body: Any = operator.body if attributes or options else operator.ufunc or operator.body
    if len(operands) == 2 and not isinstance(operands[0], Tensor) and not attributes:
        body, operands = swap_operands(body), operands[::-1]
    first = operands[0]
    if not isinstance(first, Tensor) or first._array.size <= MAX_NUMPY_COSTLY_ELEMENTS:
        return None
    arrays = [x._array if isinstance(x, Tensor) and x._array.dtype == common.numpy
              else _cast(x, types.float32.numpy, common, operator) for x in operands]
    return try_kernel_with(body, tuple(arrays), attributes, options)


def _promote_mixed(operator: Operator, operands: tuple, common: dtype) -> np.ndarray | None:
    """The result by a kernel that reads each operand in its own dtype, for large arrays."""
    first, body = operands[0], operator.ufunc or operator.body
    if not isinstance(first, Tensor) or first._array.size <= choose_min_elements(body) \
            or any(x is None for x in operands):
        return None
    kind = common.numpy
    arrays = tuple([x._array if isinstance(x, Tensor) else _cast(x, kind, common, operator)
                    for x in operands])
    return mix_dtypes(body, arrays, kind)


def _require_plain(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        raise AttributeError(x)  # told as "must be Tensor" by explained()
    return x._array if isinstance(x, Tensor) else x


# Operators whose numbers and 0-dim tensors PyTorch keeps in float32 beside half precision.
_PRECISE_NUMBERS = frozenset(("mul", "_div", "_div_floor", "_div_trunc", "floor_divide", "lerp"))


def rounds_operands(operator: Operator, common: dtype) -> bool:
    """Return whether operands are rounded to half precision, before float32 computes on them."""
    return common in HALF and operator.name not in _PRECISE_NUMBERS


def _cast(x: Any, inside: np.dtype, common: dtype, operator: Operator) -> Any:
    """Return an operand in the dtype that the body computes in. What meets half-precision tensors
    is rounded to their dtype first, but for numbers of operators that PyTorch exempts."""
    rounds = rounds_operands(operator, common)
    if isinstance(x, Tensor):
        array = x._array
        if array.dtype in NARROW:
            array = widen(array)
        if array.dtype == inside:
            if inside.kind == "b" and operator.reads_bool_bytes:
                return normalize_bools(array)
            return array.astype(common.numpy).astype(inside) if rounds else array
        if rounds and array.dtype != common.numpy:
            array = array.astype(common.numpy)
        return array.astype(inside)
    if x is None:
        return None
    if not isinstance(x, (bool, int, float, complex, np.generic)):
        raise AttributeError(x)  # told as "must be Tensor" by explained()
    if common.category == INTEGER and isinstance(x, int):
        return _wrap(x, inside)
    if not rounds:
        return np.asarray(x, inside)
    return _round_number(x, common.numpy, inside) if x else np.asarray(x, inside)


@lru_cache(maxsize=256)
def _round_number(x: Any, stored: np.dtype, inside: np.dtype) -> np.ndarray:
    """Return a number other than zero, whose sign the cache would lose, rounded to `stored`."""
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(stored).astype(inside)


def _wrap(x: int, inside: np.dtype) -> np.ndarray:
    """An integer in a narrow dtype: it wraps around as in C, and overflows int64 loudly."""
    try:
        return np.asarray(x, inside)
    except OverflowError:
        if not -(2**63) <= x < 2**64:
            raise OverflowError("int too big to convert" if x > 0
                                else "can't convert negative int to unsigned") from None
        return np.asarray(x & (2**64 - 1), np.uint64).astype(inside)


def compute_dtype(d: np.dtype) -> np.dtype:
    """Return the dtype in which sums and other many-term results of `d` are computed."""
    return types.float32.numpy if FROM_NUMPY[d] in HALF else d
