"""The C library's functions and fused multiply-add on float64 arrays, bit for bit.

NumPy's vector kernels for log, sin and others may differ from the C library, and so from PyTorch's
random numbers, in the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .native import apply_c_function

_SPLITTER = 134217729.0  # 2**27 + 1, Dekker's constant for 53 bits


def choose_c_version(
    scalar: Callable[[float], float], ufunc: np.ufunc, dtype: np.dtype
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a float64 array version of `scalar` from the math module if `dtype` is 64-bit and so
    shows the last bit, else NumPy's faster `ufunc`."""
    if dtype.itemsize < 8:
        return ufunc

    def apply_each(x: np.ndarray) -> np.ndarray:
        result = apply_c_function(scalar.__name__, x)
        if result is not None:
            return result
        values = x.ravel().tolist()
        try:
            return np.fromiter(map(scalar, values), np.float64, x.size).reshape(x.shape)
        except OverflowError:  # C's exp returns infinity instead
            return np.asarray(ufunc(x))

    return apply_each


def fma32(x: np.ndarray, y: float | np.floating, z: float | np.floating) -> np.ndarray:
    """Return x * y + z in float32 with one rounding (float64 holds the product exactly)."""
    return (x.astype(np.float64) * np.float64(y) + np.float64(z)).astype(np.float32)


def fma32_arrays(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return `fma32` of three float32 arrays."""
    exact = x.astype(np.float64)
    exact *= y
    exact += z
    return exact.astype(np.float32)


def fma(x: np.ndarray, y: float, z: float | np.ndarray) -> np.ndarray:
    """Return x * y + z in float64 with one rounding, for finite x (Dekker, Knuth)."""
    if y == 1.0:
        return x + z
    # Plain arithmetic suffices if the product is exact; it also avoids overflow of y * 2**27.
    product = x * y
    is_zero = z.__class__ is float and z == 0.0
    if abs(y) > 1e290 or is_zero or math.frexp(y)[0] in (0.5, -0.5):
        return product + z
    x_high = x * _SPLITTER
    x_high -= x_high - x
    x_low = x - x_high
    y_high = y * _SPLITTER
    y_high -= y_high - y
    y_low = y - y_high
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    total = product + z
    z_part = total - product
    return total + (((product - (total - z_part)) + (z - z_part)) + error)
