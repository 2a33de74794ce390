"""Python numbers as arrays of a dtype: PyTorch's rule for what does not fit, and a cache.

Ufuncs take 0-dim arrays faster than Python numbers, so `number` caches them. `convert_scalar` also
checks a number: it must lie between the dtype's limits, with two exceptions. Infinity and NaN fit
every floating type, and a negative integer wraps around in an unsigned type if its magnitude fits.
"""

from __future__ import annotations

import functools
import math
from types import NoneType
from typing import Any

import ml_dtypes
import numpy as np

from ...native.foundation.public_names import c_class_name
from ...native.target.eager_costs import MAX_CACHED_NUMBERS
from ...tensor.narrow_dtypes import ROUNDED, narrow

# What PyTorch's message calls a dtype: its type in C++.
_CPP_NAMES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16",
    "int32": "int", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}

_NO_NUMBERS = (str, bytes, list, tuple, dict, np.ndarray, NoneType)
CACHED_NUMBERS: dict[Any, np.ndarray] = {}  # by (value, dtype)
ONE = np.array(1, np.float32)  # a Python 1 would double the cost of a small ufunc call
ORDINARY = float(1 << 24)  # smaller magnitudes convert to any floating dtype without a warning


def number(value: float | int, kind: np.dtype) -> np.ndarray:
    """Return a number as a read-only array of a dtype."""
    known = CACHED_NUMBERS.get((value, kind))
    return cache_number(value, kind) if known is None else known


def cache_number(value: float | int, kind: np.dtype) -> np.ndarray:
    """Return a number as an array and add it to the cache."""
    if not value:  # 0.0 and -0.0 would be one key
        return np.array(value, kind)
    with np.errstate(all="ignore"):
        result = np.array(value, kind)
    if len(CACHED_NUMBERS) < MAX_CACHED_NUMBERS:
        CACHED_NUMBERS[value, kind] = result
    return result


def convert_scalar(value: Any, kind: np.dtype) -> np.ndarray:
    """Return a Python number as a 0-dim array. Raises RuntimeError if it does not fit the dtype.

    >>> convert_scalar(-1, np.dtype("uint8")), convert_scalar(1.7, np.dtype("int64"))
    (array(255, dtype=uint8), array(1))
    """
    if kind in ROUNDED:
        return narrow(np.asarray(value), kind)
    if not fits(value, kind):
        name = _CPP_NAMES.get(kind.name, "bool" if kind.kind == "b" else f"{kind.name}_t")
        raise RuntimeError(f"value cannot be converted to type {name} without overflow")
    if kind.kind in "iu" and not isinstance(value, (int, np.integer)):
        value = int(value.real if isinstance(value, complex) else value)
    if isinstance(value, complex) and kind.kind == "f":
        value = value.real
    with np.errstate(all="ignore"):
        if kind.kind == "u" and value < 0:
            return np.asarray(value, np.int64).astype(kind)
        return np.asarray(value).astype(kind)


def is_number(value: Any) -> bool:
    """Return whether a value may stand for a Number: anything but text, sequences and None."""
    return not isinstance(value, _NO_NUMBERS)


def check_number(name: str, argument: str, position: int, value: Any) -> None:
    """Raise PyTorch's TypeError unless an argument is a number."""
    if not is_number(value):
        raise TypeError(f"{name}(): argument '{argument}' (position {position}) must be Number, "
                        f"not {c_class_name(value)}")


def fits(value: Any, kind: np.dtype) -> bool:
    """Return whether a number can be converted to a dtype without overflow."""
    if kind.kind in "bc":
        return True
    if isinstance(value, complex):
        return not value.imag and fits(value.real, kind)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        if not math.isfinite(value):
            return False
        wraps = kind.kind == "u" and isinstance(value, (int, np.integer))
        low = -int(limits.max) if wraps else int(limits.min)
        return bool(low <= value <= int(limits.max))
    return not math.isfinite(value) or abs(value) <= get_largest(kind)


@functools.cache
def get_largest(kind: np.dtype) -> float:
    """Return the largest finite number of a floating dtype; the smallest is its negative."""
    return float(ml_dtypes.finfo(kind).max)  # type: ignore[no-untyped-call]
