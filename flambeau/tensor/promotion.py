"""Type promotion by PyTorch's rules: the highest category wins (bool < integer < floating <
complex); within it, tensors with axes take precedence over 0-dim tensors, and those over Python
numbers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from . import dtypes as types
from .dtypes import BOOL, COMPLEX, FLOATING, FROM_NUMPY, dtype
from .tensor import Tensor

_FLOAT_ORDER = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64")


@cache
def promote_types(type1: dtype, type2: dtype) -> dtype:
    """Return the smallest dtype to which both can be cast.

    >>> promote_types(types.int32, types.float16)
    torch.float16
    """
    type1, type2 = types.as_dtype(type1), types.as_dtype(type2)
    if type1 is type2:
        return type1
    if "float8" in type1.name or "float8" in type2.name:
        raise RuntimeError("Promotion for Float8 Types is not supported, attempted to promote "
                           f"{legacy_name(type1)} and {legacy_name(type2)}")
    low, high = sorted((type1, type2), key=lambda d: d.category)
    if high.category == COMPLEX:
        if high is types.complex32 and (low.category < FLOATING or low is types.float16):
            return high
        is_double = types.float64 in (low, high) or types.complex128 in (low, high)
        return types.complex128 if is_double else types.complex64
    if low.category != high.category:
        return high
    if high.category == FLOATING:
        return _promote_floats(type1, type2)
    return _promote_integers(type1, type2)


def _promote_floats(a: dtype, b: dtype) -> dtype:
    if {a.name, b.name} == {"float16", "bfloat16"}:
        return types.float32
    return max(a, b, key=lambda d: _FLOAT_ORDER.index(d.name))


def _promote_integers(a: dtype, b: dtype) -> dtype:
    if a.category == BOOL or b.category == BOOL:
        return b if a.category == BOOL else a
    small, large = sorted((a, b), key=lambda d: d.itemsize)
    unsigned = {"uint16", "uint32", "uint64"}
    if (a.name in unsigned) != (b.name in unsigned) or {a.name, b.name} <= unsigned:
        if large.is_signed and large.itemsize > small.itemsize:
            return large
        if not a.is_signed and not b.is_signed:
            return large
        raise RuntimeError(
            f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{a.name} and {b.name}"
        )
    if a.is_signed == b.is_signed or (large.itemsize > small.itemsize and large.is_signed):
        return large
    return types.int16  # uint8 with int8


def result_dtype(operands: Iterable[Any]) -> dtype:
    """Return the dtype in which an operator computes on tensors, arrays and Python numbers."""
    ranked: list[dtype | None] = [None, None, None]  # with axes, 0-dim, numbers
    for x in operands:
        if isinstance(x, (Tensor, np.ndarray)):
            array = x._array if isinstance(x, Tensor) else x
            rank, kind = (0 if array.ndim else 1), FROM_NUMPY[array.dtype]
        elif x is None:
            continue
        else:
            rank, kind = 2, types.infer_scalar_dtype(x)
        stored = ranked[rank]
        ranked[rank] = kind if stored is None else promote_types(stored, kind)
    dims, zero_dim, numbers = ranked
    chosen = _combine(dims, _combine(zero_dim, numbers))
    if chosen is None:
        raise RuntimeError("no operands to find a dtype of")
    return chosen


def _combine(strong: dtype | None, weak: dtype | None) -> dtype | None:
    """Return the dtype of operands of which the weak ones decide only by a higher category: a
    complex one makes a floating dtype complex, and leaves its width."""
    if strong is None or weak is None:
        return weak if strong is None else strong
    if strong.category >= weak.category:
        return strong
    if strong.category == FLOATING:
        return strong.to_complex()
    return promote_types(strong, weak)


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """Return the dtype of an operation on two tensors or numbers.

    >>> result_type(1, 2.5)
    torch.float32
    """
    return result_dtype((tensor1, tensor2))


def can_cast(from_: dtype, to: dtype) -> bool:
    """Return whether a cast does not go to a lower category, as in-place results require.

    >>> torch.can_cast(torch.float64, torch.float16), torch.can_cast(torch.float32, torch.int64)
    (True, False)
    """
    return bool(types.as_dtype(from_).category <= types.as_dtype(to).category)


def check_cast(result: dtype, target: dtype) -> None:
    """Raise RuntimeError if a result cannot be written to a tensor of dtype `target`."""
    if result.category > target.category:
        raise RuntimeError(
            f"result type {legacy_name(result)} can't be cast to the desired output type "
            f"{legacy_name(target)}"
        )


def legacy_name(d: dtype) -> str:
    """Return the dtype's name in PyTorch's messages, such as 'Float' or 'Long'."""
    return {
        "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int",
        "int64": "Long", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float",
        "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
        "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "complex32": "ComplexHalf",
        "float8_e8m0fnu": "Float8_e8m0fnu", "float8_e4m3fn": "Float8_e4m3fn",
        "float8_e5m2": "Float8_e5m2",
    }.get(d.name, d.name)


def build_missing_kernel_error(kernel: str, kind: dtype | np.dtype) -> NotImplementedError:
    """Return PyTorch's error for a dtype that one of its kernels lacks."""
    known = kind if isinstance(kind, dtype) else FROM_NUMPY[kind]
    return NotImplementedError(f"\"{kernel}\" not implemented for '{legacy_name(known)}'")


def refuse_complex(array: np.ndarray, kernel: str) -> None:
    """NotImplementedError for complex numbers, which have no order."""
    if array.dtype.kind == "c":
        raise build_missing_kernel_error(kernel, array.dtype)
