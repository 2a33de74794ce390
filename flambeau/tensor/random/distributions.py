"""Distributions that use a fixed number of random words per element, as on PyTorch's CPU.

Each `fill_*` takes a NumPy array of any strides, fills it in place in PyTorch's order (memory
order), and returns it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ..meta import MetaArray
from ..narrow_dtypes import COMPLEX32
from . import exact_libm
from .generator import BLOCK, Generator, default_generator
from .native import make_converter

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = {np.dtype(t) for t in (np.float16, np.float32, np.float64)} | {BFLOAT16}
LARGEST = {
    dtype: float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
    for dtype in FLOATS
}
NAMES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int",
    "int64": "Long", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "float16": "Half",
    "bfloat16": "BFloat16", "float32": "Float", "float64": "Double", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble", "float8_e4m3fn": "Float8_e4m3fn", "float8_e5m2": "Float8_e5m2",
    "void32": "ComplexHalf", "float8_e8m0fnu": "Float8_e8m0fnu",
}
WIDE_UNSIGNED = {np.dtype(t) for t in (np.uint16, np.uint32, np.uint64)}
# Words drawn at a time: a multiple of the generator's block that fits in the L2 cache.
_CHUNK = 624 * 104
_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)
# 0-d arrays rather than NumPy scalars, which make an operation twice as expensive.
_MASK24 = np.array((1 << 24) - 1, np.uint32)
_MASK53 = np.array((1 << 53) - 1, np.uint64)
_SCALE24 = np.array(2.0**-24, np.float32)
_THIRTY_TWO = np.array(32, np.uint64)


def transpose_to_memory_order(array: np.ndarray) -> np.ndarray:
    """Return the array transposed to descending strides: the order of PyTorch's loops over one
    tensor."""
    if array.flags.c_contiguous:
        return array
    strides = array.strides
    return array.transpose(sorted(range(array.ndim), key=lambda axis: -abs(strides[axis])))


def view_as_parts(array: np.ndarray) -> np.ndarray:
    """Return a complex array as reals with a last axis of 2 (real, imaginary), sharing memory."""
    real = array["real"] if array.dtype == COMPLEX32 else array.real
    return np.lib.stride_tricks.as_strided(
        real, (*array.shape, 2), (*array.strides, real.dtype.itemsize)
    )


def fill_words(
    array: np.ndarray,
    generator: Generator | None,
    words_each: int,
    compute: Callable[[np.ndarray], np.ndarray],
    convert: Callable[[np.ndarray, np.ndarray], None] | None = None,
) -> np.ndarray:
    """Fill `array` with `compute(words)`, using `words_each` words per element.

    `convert(words, elements)` does the same in machine code.
    """
    count = array.size
    if count == 0:
        return array
    source = default_generator if generator is None else generator
    target = transpose_to_memory_order(array)
    step = _CHUNK // words_each
    if count <= step and convert is None:
        result = compute(source.words(count * words_each))
        target[...] = result if target.ndim == 1 else result.reshape(target.shape)
        return array
    if convert is not None and count <= BLOCK and array.flags.c_contiguous:
        with source.lock:
            convert(source.words(count * words_each), array)
        return array
    in_place = target.flags.c_contiguous
    flat = target.reshape(-1) if in_place else np.empty(count, array.dtype)
    with source.lock:
        memory = np.empty(min(_CHUNK, count * words_each), np.uint32)
        for start in range(0, count, step):
            part = flat[start : start + step]
            words = source.words_in(memory, part.size * words_each)
            if convert is None:
                part[...] = compute(words)
            else:
                convert(words, part)
    if not in_place:
        target[...] = flat.reshape(target.shape)
    return array


def combine_pairs(words: np.ndarray) -> np.ndarray:
    """Combine pairs of words into 64-bit integers, the first word in the high half."""
    both = words.astype(np.uint64)
    return (both[::2] << _THIRTY_TWO) | both[1::2]


def unit32(words: np.ndarray) -> np.ndarray:
    """Return float32 in [0, 1) from the low 24 bits of each word."""
    result = (words & _MASK24).view(_INT32).astype(_FLOAT32)
    return np.multiply(result, _SCALE24, result)


def unit64(words: np.ndarray) -> np.ndarray:
    """Return float64 in [0, 1) from the low 53 bits of each pair of words."""
    return (combine_pairs(words) & _MASK53).view(np.int64) * 2.0**-53


def narrow(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Cast float64 to `dtype`; to 16 bits via float32, which rounds twice, as PyTorch does."""
    if dtype.itemsize == 8:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32).astype(dtype, copy=False)


def require(dtype: np.dtype, allowed: bool, kernel: str) -> None:
    """Raise PyTorch's error for a dtype that a kernel does not support, unless `allowed`."""
    if not allowed:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{NAMES[dtype.name]}'")


def fill_uniform(
    array: np.ndarray, generator: Generator | None = None, low: float = 0.0, high: float = 1.0
) -> np.ndarray:
    """Fill with uniform numbers on [low, high): `rand` and `uniform_`, floating and complex."""
    if array.dtype.kind == "c" or array.dtype == COMPLEX32:
        fill_uniform(view_as_parts(array), generator, low, high)
        return array
    dtype = array.dtype
    require(dtype, dtype in FLOATS, "check_uniform_bounds")
    if low == 0.0 and high == 1.0 and dtype.itemsize >= 4:
        words_per_number, unit = (2, unit64) if dtype.itemsize == 8 else (1, unit32)
        return fill_words(array, generator, words_per_number, unit,
                          make_converter("unit", dtype, array.size))
    _check_bounds(dtype, low, high)
    is_double = dtype.itemsize == 8
    precise = np.float64 if is_double else np.float32
    span, start = precise(high) - precise(low), precise(low)
    bottom, top = dtype.type(low), dtype.type(high)

    def compute(words: np.ndarray) -> np.ndarray:
        if is_double:
            values = exact_libm.fma(unit64(words), float(span), float(start))
        else:
            values = exact_libm.fma32(unit32(words), span, start).astype(dtype, copy=False)
        # Rounding may have reached `high`, which is excluded.
        values[values == top] = bottom
        return values

    numbers = (np.array(x, precise) for x in (span, start, bottom, top))
    convert = make_converter("uniform", dtype, array.size, *numbers)
    return fill_words(array, generator, 2 if is_double else 1, compute, convert)


def _check_bounds(dtype: np.dtype, low: float, high: float) -> None:
    limit = LARGEST[dtype]
    for name, bound in (("from", low), ("to", high)):
        if not -limit <= bound <= limit:
            raise RuntimeError(f"{name} is out of bounds for {dtype.name}: uniform_ got {bound}")
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    if high - low > limit:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{NAMES[dtype.name]}>::max(), but "
            f"found to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )


def fill_bernoulli(
    array: np.ndarray, p: float | np.ndarray, generator: Generator | None = None
) -> np.ndarray:
    """Fill with 1 with probability `p`, else 0. A float `p` or a float64 array uses two words per
    element, an array of another floating dtype one. An array `p` is broadcast to `array`."""
    dtype = array.dtype
    allowed = dtype.kind != "c" and dtype not in WIDE_UNSIGNED
    if isinstance(p, np.ndarray):
        require(dtype, allowed, "bernoulli_tensor_cpu_self_")
        require(p.dtype, p.dtype in FLOATS, "bernoulli_tensor_cpu_p_")
        return _fill_bernoulli_each(array, p, generator)
    require(dtype, allowed, "bernoulli_scalar_cpu_")
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    return _fill_with(array, 1, p, generator)


def _fill_with(
    array: np.ndarray, on: float | np.generic, p: float, generator: Generator | None
) -> np.ndarray:
    """Fill with `on` where uniform numbers on [0, 1) are less than p, else 0."""
    dtype = array.dtype
    bound = np.uint64(math.ceil(p * 2.0**53))  # x * 2**-53 < p, in integers
    computed = np.float32 if dtype.itemsize == 2 and dtype in FLOATS else dtype
    convert = make_converter("bernoulli", dtype, array.size, np.array(bound),
                             np.array(on, computed))
    fill_words(array, generator, 2, lambda words: (combine_pairs(words) & _MASK53) < bound, convert)
    if convert is None and on != 1:
        array *= on
    return array


def _fill_bernoulli_each(
    array: np.ndarray, p: np.ndarray, generator: Generator | None
) -> np.ndarray:
    try:
        probabilities = p if p.shape == array.shape else np.broadcast_to(p, array.shape)
    except ValueError:
        raise RuntimeError(
            f"bernoulli_: p of shape {list(p.shape)} does not expand to {list(array.shape)}"
        ) from None
    if array.__class__ is MetaArray:
        return array
    if not is_within_unit(p):
        raise RuntimeError(
            "bernoulli_: Expected p_in >= 0 && p_in <= 1 to be true, but got false "
            "(a probability outside [0, 1])"
        )
    precision = np.float64 if p.dtype == np.float64 else np.float32
    if array.flags.c_contiguous:
        drawn = fill_uniform(np.empty(array.shape, precision), generator)
        array[...] = drawn < probabilities.astype(precision, copy=False)
        return array
    axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    target = array.transpose(axes)
    drawn = fill_uniform(np.empty(target.shape, precision), generator)
    target[...] = drawn < probabilities.transpose(axes).astype(precision, copy=False)
    return array


def is_within_unit(x: np.ndarray) -> Any:
    """Return whether all numbers are in [0, 1] and none is NaN."""
    if x.__class__ is np.ndarray and x.dtype.kind == "f" and x.size:
        return bool(x.item(x.argmin()) >= 0 and x.item(x.argmax()) <= 1)  # both find a NaN first
    return np.all((x >= 0) & (x <= 1))


def fill_dropout(array: np.ndarray, p: float, generator: Generator | None = None) -> np.ndarray:
    """Fill with the factors of `dropout`: 0 with probability p, else 1 / (1 - p).

    `array` must have the layout of `empty_like(input)`. No words are used if p is 0 or 1.
    """
    if p == 0.0 or p == 1.0:
        array[...] = 1.0 - p
        return array
    dtype = array.dtype
    require(dtype, dtype.kind != "c" and dtype not in WIDE_UNSIGNED, "bernoulli_scalar_cpu_")
    precise = np.float64 if dtype.itemsize == 8 else np.float32
    return _fill_with(array, (precise(1) / precise(1 - p)).astype(dtype), 1 - p, generator)


def fill_exponential(
    array: np.ndarray, generator: Generator | None = None, rate: float = 1.0
) -> np.ndarray:
    """Fill with exponential numbers of the given rate (`exponential_`), floating dtypes."""
    dtype = array.dtype
    if rate <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    _require_continuous(dtype, "Exponential")
    log1p = exact_libm.choose_c_version(math.log1p, np.log1p, dtype)
    factor = -1.0 / rate
    return fill_words(
        array, generator, 2, lambda words: narrow(factor * log1p(-unit64(words)), dtype)
    )


def fill_cauchy(
    array: np.ndarray, generator: Generator | None = None, median: float = 0.0, sigma: float = 1.0
) -> np.ndarray:
    """Fill with Cauchy numbers of the given median and scale (`cauchy_`), floating dtypes."""
    dtype = array.dtype
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    _require_continuous(dtype, "Cauchy")
    tan = exact_libm.choose_c_version(math.tan, np.tan, dtype)

    def compute(words: np.ndarray) -> np.ndarray:
        return narrow(exact_libm.fma(tan(math.pi * (unit64(words) - 0.5)), sigma, median), dtype)

    return fill_words(array, generator, 2, compute)


def _require_continuous(dtype: np.dtype, name: str) -> None:
    if dtype not in FLOATS:
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {NAMES[dtype.name]}"
        )


def fill_geometric(array: np.ndarray, p: float, generator: Generator | None = None) -> np.ndarray:
    """Fill with trials until the first success of probability `p` (`geometric_`), real dtypes."""
    dtype = array.dtype
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    require(dtype, (dtype.kind in "iuf" and dtype not in WIDE_UNSIGNED) or dtype == BFLOAT16,
            "geometric_cpu")
    bottom = math.log1p(-p)

    def compute(words: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            trials: np.ndarray = np.ceil(np.log(unit64(words)) / bottom)
            if dtype in FLOATS:
                return narrow(trials, dtype)
            return trials.astype(np.int64).astype(dtype)

    return fill_words(array, generator, 2, compute)
