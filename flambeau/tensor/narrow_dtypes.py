"""The dtypes that NumPy does not cast as PyTorch does: complex32, float8_e8m0fnu, float8_e4m3fn.

NumPy treats complex32 as a struct of two float16, which it can copy but not compute with.
float8_e8m0fnu is an exponent: a cast to it drops the sign and rounds to the nearest power of two,
half upwards; zero becomes the smallest power. A cast to float8_e4m3fn, which has no infinity,
saturates.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

COMPLEX32 = np.dtype([("real", np.float16), ("imag", np.float16)])
E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
NARROW = frozenset((COMPLEX32, E8M0))
ROUNDED = NARROW | {E4M3}  # casts to them go through `narrow`
_LARGEST_E4M3 = np.float32(448)
EIGHT_BIT = {np.dtype(getattr(ml_dtypes, f"float8_{name}")): f"Float8_{name}"
             for name in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")}
_NAMES = {COMPLEX32: "ComplexHalf", E8M0: "Float8_e8m0fnu"}


def refuse_narrow(dtype: np.dtype, kernel: str) -> None:
    """Raise NotImplementedError for these dtypes if PyTorch's kernel does not support them."""
    if dtype in NARROW:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{_NAMES[dtype]}'")


def refuse_eight_bit(array: np.ndarray, kernel: str) -> None:
    """Raise NotImplementedError for floats of eight bits, which most of PyTorch's kernels lack."""
    if array.itemsize == 1 and array.dtype in EIGHT_BIT:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{EIGHT_BIT[array.dtype]}'")


def widen(array: np.ndarray) -> np.ndarray:
    """Return narrow elements as complex64 or float32; other arrays unchanged."""
    if array.dtype == COMPLEX32:
        result = np.empty(array.shape, np.complex64)
        result.real, result.imag = array["real"], array["imag"]
        return result
    return array.astype(np.float32) if array.dtype == E8M0 else array


def narrow(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the elements rounded to a dtype of `ROUNDED`."""
    if dtype == COMPLEX32:
        result = np.empty(array.shape, COMPLEX32)
        with np.errstate(all="ignore"):
            result["real"], result["imag"] = array.real, array.imag
        return result
    numbers = np.asarray(array, np.float32)
    if dtype == E4M3:
        return np.clip(numbers, -_LARGEST_E4M3, _LARGEST_E4M3).astype(E4M3)
    return _to_exponents(numbers)


def normalize_bools(array: np.ndarray) -> np.ndarray:
    """Return bools whose bytes are 0 and 1. In views of integers, other bytes are True as well."""
    return array.view(np.uint8) != 0


def _to_exponents(array: np.ndarray) -> np.ndarray:
    bits = array.view(np.uint32)
    exponent, mantissa = bits >> 23 & 0xFF, bits & 0x7FFFFF
    # Ties round up, except below the smallest power.
    up = np.where(exponent > 0, mantissa >= 0x400000, mantissa > 0x400000)
    return np.where(exponent < 0xFF, exponent + up, 0xFF).astype(np.uint8).view(E8M0)


def convert_to_number(value: Any) -> Any:
    """Return an element of a narrow dtype as a Python number."""
    return complex(*map(float, value)) if isinstance(value, tuple) else float(value)
