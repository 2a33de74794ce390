"""Normal and log-normal numbers by the Box-Muller transform, bit-identical to PyTorch's CPU.

Contiguous arrays of 16 or more elements are filled in blocks of 16 (8 radii, 8 angles; float32 and
narrower with PyTorch's single-precision polynomials). All others are drawn one by one in float64;
the generator keeps each pair's second number for the next call.
"""

from __future__ import annotations

import math

import numpy as np

from ...native.loop_ir import cephes_coefficients
from ..narrow_dtypes import COMPLEX32
from . import exact_libm
from .distributions import (
    FLOATS, narrow, require, transpose_to_memory_order, unit32, unit64, view_as_parts,
)
from .generator import Generator, default_generator
from .native import make_converter, make_sequential_drawer

_BLOCK = 16
_CHUNK = 1 << 14  # elements at a time: the float64 temporaries fit in the cache
_MAX_LOOP_PAIRS = 32  # up to this count a plain loop is faster than array operations


def _round_to_float32(*values: float) -> tuple[float, ...]:
    """Round constants to float32, as Python floats for use in float64 arithmetic."""
    return tuple(float(np.float32(value)) for value in values)


_LOG, _SIN, _COS = (
    _round_to_float32(*cephes_coefficients.LOG),
    _round_to_float32(*cephes_coefficients.SIN),
    _round_to_float32(*cephes_coefficients.COS),
)
_QUARTER_PI = _round_to_float32(*cephes_coefficients.QUARTER_PI)
_LN2_LOW, _LN2_HIGH = (
    np.float32(cephes_coefficients.LN2_LOW),
    np.float32(cephes_coefficients.LN2_HIGH),
)
_SQRT_HALF = np.float32(cephes_coefficients.SQRT_HALF)
_FOUR_OVER_PI = np.float32(cephes_coefficients.FOUR_OVER_PI)
_TWO_PI, _TWO_PI64 = np.float32(2 * math.pi), 2 * math.pi
# A huge deviation overflows to infinity silently.
_QUIETLY = np.errstate(over="ignore", invalid="ignore")
_TAME = 1000.0
_FLOAT64 = np.dtype(np.float64)
_HALF, _UNIT = np.float32(0.5), np.float32(1)


def fill_normal(
    array: np.ndarray, generator: Generator | None = None, mean: float = 0.0, std: float = 1.0
) -> np.ndarray:
    """Fill with normal numbers of the given mean and standard deviation: `randn` and `normal_`,
    floating and complex arrays (the two parts of a complex number share the variance)."""
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if array.dtype.kind == "c" or array.dtype == COMPLEX32:
        fill_normal(view_as_parts(array), generator, mean, std / math.sqrt(2))
        return array
    dtype = array.dtype
    if array.size == 0:
        return array
    require(dtype, dtype in FLOATS, "normal_kernel_cpu")
    source = default_generator if generator is None else generator
    # Small means and deviations cannot overflow, and entering an errstate costs a microsecond.
    fill = _fill_normal if std < _TAME and -_TAME < mean < _TAME else _QUIETLY(_fill_normal)
    fill(array, source, mean, std)
    return array


def _fill_normal(array: np.ndarray, source: Generator, mean: float, std: float) -> None:
    dtype = array.dtype
    if array.size < _BLOCK or not array.flags.c_contiguous:
        target = transpose_to_memory_order(array)
        values = _draw_singly(array.size, source, mean, std, dtype)
        if dtype.itemsize == 2:
            values = values.astype(np.float32)  # two roundings, as in PyTorch
        target[...] = values.reshape(target.shape)
        return
    with source.lock:
        _fill_blocks(array.reshape(-1), source, mean, std)


@_QUIETLY
def fill_log_normal(
    array: np.ndarray, generator: Generator | None = None, mean: float = 1.0, std: float = 2.0
) -> np.ndarray:
    """Fill with the exp of normal numbers (`log_normal_`), floating dtypes."""
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    dtype = array.dtype
    if array.size == 0:
        return array
    require(dtype, dtype in FLOATS, "log_normal_cpu")
    source = default_generator if generator is None else generator
    target = transpose_to_memory_order(array)
    exp = exact_libm.choose_c_version(math.exp, np.exp, dtype)
    values = exp(_draw_singly(array.size, source, mean, std, dtype))
    target[...] = narrow(values, dtype).reshape(target.shape)
    return array


def _draw_singly(
    count: int, source: Generator, mean: float, std: float, dtype: np.dtype
) -> np.ndarray:
    """Return `count` normals in float64, starting with the one kept from the last call, if any."""
    with source.lock:
        spare = source.next_normal
        new = count if spare is None else count - 1
        words = source.words(4 * ((new + 1) // 2))
        result = _draw_pairs_by_loop(words) if new <= _MAX_LOOP_PAIRS else _draw_pairs_at_once(
            words, dtype
        )
        source.next_normal = float(result[-1]) if new % 2 else None
    if spare is not None:
        result = np.concatenate([np.array([spare]), result[:new]])
    elif new % 2:
        result = result[:new]
    return exact_libm.fma(result, std, mean)


def _draw_pairs_by_loop(words: np.ndarray) -> np.ndarray:
    kernel = make_sequential_drawer("normal_pairs", _FLOAT64, words.size // 4)
    if kernel is not None:
        pairs = np.empty(words.size // 2)
        kernel(words, pairs, words.size // 4)
        return pairs
    result: list[float] = []
    each = iter(words.tolist())
    for top, bottom, second_top, second_bottom in zip(each, each, each, each, strict=True):
        # 53 bits of each pair of words; the second number gives the radius.
        second = ((second_top & 0x1FFFFF) << 32 | second_bottom) * 2.0**-53
        radius = math.sqrt(-2.0 * math.log1p(-second))
        angle = _TWO_PI64 * (((top & 0x1FFFFF) << 32 | bottom) * 2.0**-53)
        result += (radius * math.cos(angle), radius * math.sin(angle))
    return np.array(result)


def _draw_pairs_at_once(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    uniforms = unit64(words)
    log1p = exact_libm.choose_c_version(math.log1p, np.log1p, dtype)
    cos, sin = (
        exact_libm.choose_c_version(math.cos, np.cos, dtype),
        exact_libm.choose_c_version(math.sin, np.sin, dtype),
    )
    radius = np.sqrt(-2.0 * log1p(-uniforms[1::2]))
    angle = _TWO_PI64 * uniforms[::2]
    result = np.empty_like(uniforms)
    np.multiply(radius, cos(angle), out=result[::2])
    np.multiply(radius, sin(angle), out=result[1::2])
    result[-2:] = _draw_pairs_by_loop(words[-4:])  # a number that may be kept must be exact
    return result


def _fill_blocks(flat: np.ndarray, source: Generator, mean: float, std: float) -> None:
    is_double = flat.dtype.itemsize == 8
    words_per_number, unit, transform = (2, unit64, _transform_box_muller64) if is_double else (
        1, unit32, _transform_box_muller32
    )
    full_size = flat.size // _BLOCK * _BLOCK
    numbers = [np.array(number, np.float64 if is_double else np.float32) for number in (mean, std)]
    convert = make_converter("normal", flat.dtype, full_size, *numbers, block=_BLOCK)
    memory = np.empty(words_per_number * min(_CHUNK, full_size), np.uint32)

    def fill(part: np.ndarray) -> None:
        words = source.words_in(memory, words_per_number * part.size)
        if convert is None:
            part[...] = transform(unit(words), mean, std)
        else:
            convert(words, part)

    for start in range(0, full_size, _CHUNK):
        fill(flat[start : min(start + _CHUNK, full_size)])
    if full_size < flat.size:
        if flat.dtype.itemsize >= 4:
            source.words(words_per_number * (flat.size - full_size))  # drawn, then overwritten
        fill(flat[-_BLOCK:])


def _transform_box_muller64(uniforms: np.ndarray, mean: float, std: float) -> np.ndarray:
    log, cos, sin = (
        exact_libm.choose_c_version(scalar, ufunc, uniforms.dtype)
        for scalar, ufunc in ((math.log, np.log), (math.cos, np.cos), (math.sin, np.sin))
    )
    blocks = uniforms.reshape(-1, 2, _BLOCK // 2)  # (block, radius or angle, 8)
    radius = np.sqrt(-2.0 * log(1.0 - blocks[:, 0]))
    angle = _TWO_PI64 * blocks[:, 1]
    result = np.stack([radius * cos(angle), radius * sin(angle)], axis=1)
    return exact_libm.fma(result, std, mean).reshape(-1)


def _transform_box_muller32(uniforms: np.ndarray, mean: float, std: float) -> np.ndarray:
    blocks = uniforms.reshape(-1, 2, _BLOCK // 2)  # (block, radius or angle, 8)
    radius = np.sqrt(np.float32(-2) * _log(_UNIT - blocks[:, 0]))
    sine, cosine = _sin_cos(_TWO_PI * blocks[:, 1])
    result = np.empty_like(blocks)
    np.multiply(radius, cosine, out=result[:, 0])
    np.multiply(radius, sine, out=result[:, 1])
    return exact_libm.fma32(result, np.float32(std), np.float32(mean)).reshape(-1)


def _log(x: np.ndarray) -> np.ndarray:
    """Return log of float32 in (0, 1], rounded at each step like fused multiply-add code."""
    bits = x.view(np.int32)
    exponent = (bits >> 23) - 126
    mantissa = ((bits & 0x007FFFFF) | 0x3F000000).view(np.float32)
    small = mantissa < _SQRT_HALF
    reduced = mantissa - _UNIT
    np.add(reduced, mantissa, out=reduced, where=small)
    power = (exponent - small).astype(np.float32)
    square = reduced * reduced
    y = _horner(reduced.astype(np.float64), _LOG) * reduced
    y = exact_libm.fma32_arrays(y, square, power * _LN2_LOW)
    y -= square * _HALF
    return exact_libm.fma32(power, _LN2_HIGH, reduced + y)


def _horner(x: np.ndarray, coefficients: tuple[float, ...]) -> np.ndarray:
    """Evaluate a polynomial at x (float32 values in float64), rounding each step to float32."""
    y = np.multiply(x, coefficients[0])
    y += coefficients[1]
    rounded: np.ndarray = y.astype(np.float32)
    for coefficient in coefficients[2:]:
        np.multiply(x, rounded, out=y)
        y += coefficient
        rounded[...] = y
    return rounded


def _sin_cos(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sin and cos of float32 in [0, 2 pi], rounded like fused multiply-add code."""
    octant = ((angle * _FOUR_OVER_PI).astype(np.int32) + 1) & ~1
    count = octant.astype(np.float32)
    x = angle
    for part in _QUARTER_PI:
        x = (count * np.float64(part) + x).astype(np.float32)
    square = x * x
    exact = square.astype(np.float64)
    cosine = _horner(exact, _COS) * square
    cosine = exact_libm.fma32_arrays(cosine, square, square * -_HALF) + _UNIT
    sine = _horner(exact, _SIN) * square
    sine = exact_libm.fma32_arrays(sine, x, x)
    swap = (octant & 2) != 0
    sin = np.where(swap, cosine, sine)
    cos = np.where(swap, sine, cosine)
    np.negative(sin, out=sin, where=(octant & 4) != 0)
    np.negative(cos, out=cos, where=((octant - 2) & 4) == 0)
    return sin, cos
