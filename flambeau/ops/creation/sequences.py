"""Sequences of evenly spaced numbers: arange, range, linspace and logspace.

PyTorch's loops compute each element from its position with a fused multiply-add, some of them a
vector at a time; the last bit depends on it, and with integers the values do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy._core._multiarray_umath import (  # type: ignore[import-not-found]
    __cpu_features__,
)

from ...native.foundation.allocation import allocate, round_up_length
from ...native.foundation.user_frames import warn
from ...tensor import dtypes as types
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.dtypes import dtype as Dtype
from ...tensor.meta import meta_array
from ...tensor.narrow_dtypes import refuse_eight_bit, refuse_narrow
from ...tensor.overlap import check_no_internal_overlap
from ...tensor.promotion import build_missing_kernel_error, legacy_name
from ...tensor.random.exact_libm import fma, fma32
from ...tensor.tensor import Tensor
from ..core.scalar_conversion import convert_scalar
from .creation import get_numpy_dtype, is_on_meta, place, public, read_number, write_created
from .factories import Contents

# The width of the vectors in PyTorch's loops on this processor.
_VECTOR_BYTES = 64 if __cpu_features__.get("AVX512_SKX") else 32
_MANTISSA_BITS = {2: 8, 4: 24, 8: 53}  # by bytes of a float; of 2 bytes, bfloat16's


def _infer_range_dtype(numbers: tuple, dtype: Dtype | None) -> np.dtype:
    if dtype is not None:
        return get_numpy_dtype(dtype)
    integers = [n for n in numbers if n.__class__ is int]  # faster than `any` in most calls
    floating = len(integers) < len(numbers) and any(isinstance(n, float) for n in numbers)
    return get_numpy_dtype(None if floating else types.int64)


def _check_ends(start: Any, end: Any, name: str) -> None:
    ranks = [x._array.ndim if isinstance(x, Tensor) else 0 for x in (start, end)]
    if any(ranks):
        raise RuntimeError(
            f"{name} only supports 0-dimensional start and end tensors, but got start with "
            f"{ranks[0]} dimension(s) and end with {ranks[1]} dimension(s)."
        )


@public(creates=Contents.FIXED)
def arange(
    start: Any = 0, end: Any = None, step: Any = 1, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return the numbers start, start + step, ... below `end`.

    Args:
        end (number): Where the sequence ends; it is not included. None: `start`, from 0.

    >>> torch.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    start, end, step = read_number(start), read_number(end), read_number(step)
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(
            "upper bound and lower bound inconsistent with step sign"
        )
    kind = _infer_range_dtype((start, end, step), dtype) if out is None else out._array.dtype
    refuse_narrow(kind, "arange_cpu")
    if kind.kind in "bc":
        raise build_missing_kernel_error("arange_cpu", kind)
    if out is not None:
        check_no_internal_overlap(out._array)
    refuse_eight_bit(np.empty(0, kind), "arange_cpu")
    if kind == np.int64:
        start, end, step = int(start), int(end), int(step)
        if max(start, end, step) >= 2**63:
            raise RuntimeError("value cannot be converted to type int64_t without overflow")
        if step == 0:  # a fraction
            raise ValueError("step must be nonzero")
        count = -((start - end) // step)
        array = np.arange(start, start + count * step, step, dtype=kind)
        array = array if array.size == count else array[:count]
    elif kind.kind in "iu":  # the count is that of the numbers before they are cut to integers
        count = round_up_length((end - start) / step)
        array = (int(start) + np.arange(count) * int(step)).astype(kind)
    else:
        count = round_up_length((end - start) / step)
        array = _count_up(start, step, count, kind)
    return place(array, device, requires_grad) if out is None else write_created(
        out, array, dtype, layout, device, counted=True
    )


@public("range", creates=Contents.FIXED)
def range_(start: Any = 0, end: Any = None, step: Any = 1, **options: Any) -> Tensor:
    """Return the numbers start, start + step, ... up to and including `end`.

    Deprecated: use `arange`, which excludes the end.

    Args:
        end (number): Where the sequence ends; it is included.
        options: `dtype`, `layout`, `device` and `requires_grad`, as in `arange`.

    >>> torch.range(1, 3)
    tensor([1., 2., 3.])
    """
    warn("torch.range is deprecated and will be removed in a future release because its behavior "
         "is inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
         "values in [start, end).")
    start, end, step = read_number(start), read_number(end), read_number(step)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = math.floor((end - start) / step) + 1
    dtype = options.pop("dtype", None)
    out = options.pop("out", None)
    kind = get_numpy_dtype(dtype) if out is None else out._array.dtype
    array = (start + np.arange(count) * step).astype(kind)
    if out is not None:
        return write_created(out, array, dtype)
    return place(array, options.get("device"), options.get("requires_grad", False))


def _infer_spaces_dtype(
    start: Any, end: Any, dtype: Dtype | None, out: Tensor | None, name: str
) -> np.dtype:
    """Return the dtype of `linspace` or `logspace`; RuntimeError if complex ends do not fit it."""
    default = types.get_default_dtype()
    is_complex = any((x.dtype if isinstance(x, Tensor) else types.infer_scalar_dtype(x)).is_complex
                     for x in (start, end))
    inferred = default.to_complex() if is_complex else default
    kind = out._array.dtype if out is not None else get_numpy_dtype(
        inferred if dtype is None else dtype)
    if is_complex and kind.kind not in "cV":
        part = "float" if default is types.float32 else "double"
        raise RuntimeError(f"torch.{name}(): inferred dtype c10::complex<{part}> can't be safely "
                           f"cast to passed dtype {legacy_name(FROM_NUMPY[kind])}")
    if kind == np.bool_:
        raise build_missing_kernel_error(f"{name}_cpu", kind)
    if kind.kind in "iu":
        for x in (start, end):
            convert_scalar(read_number(x), kind)  # refuses a number that does not fit
    if out is not None:
        check_no_internal_overlap(out._array)
    return kind


def _check_steps(steps: Any, name: str) -> int:
    steps = read_number(steps)
    if isinstance(steps, float):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got (int, int, float), but "
            "expected an int for steps"
        )
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    return steps


def _count_up(start: float, step: float, count: int, kind: np.dtype) -> np.ndarray:
    """Return start, start + step, ...: pairs of whole vectors from the first element of each, which
    is rounded to the dtype; what remains, element by element."""
    largest = abs(start) + count * abs(step)
    if kind.kind not in "fV" or (
        start == int(start) and step == int(step) and largest < 1 << _MANTISSA_BITS[kind.itemsize]
    ):
        return (start + np.arange(count, dtype=np.float64) * step).astype(kind)
    lanes = _VECTOR_BYTES // kind.itemsize
    vectorized = count // (2 * lanes) * (2 * lanes)
    computed = np.dtype(np.float32 if kind.itemsize < 4 else np.float64)
    by, base = computed.type(step), computed.type(start)
    result = allocate(count, kind)
    result[vectorized:] = _multiply_add(np.arange(vectorized, count).astype(computed), by, base)
    first = _multiply_add(np.arange(0, vectorized, lanes).astype(computed), by, base).astype(kind)
    first, lane = first.astype(computed)[:, None], np.arange(lanes).astype(computed)
    vectors = result[:vectorized].reshape(-1, lanes)
    if computed == np.float32:
        vectors[...] = first + lane * by
    else:
        vectors[...] = fma(np.broadcast_to(lane, vectors.shape), float(by), first)
    return result


def _multiply_add(x: np.ndarray, y: Any, z: Any) -> np.ndarray:
    """Return x * y + z with one rounding, in float32 or float64."""
    return fma32(x, y, z) if x.dtype == np.float32 else fma(x, float(y), float(z))


def space_evenly(start: Any, end: Any, steps: int, kind: np.dtype) -> np.ndarray:
    """Return `steps` numbers from start to end: the first half counted from the start, the second
    from the end."""
    if kind.kind == "c":
        result = allocate(steps, kind)
        part, (start, end) = result.real.dtype, (complex(start), complex(end))
        result.real = space_evenly(start.real, end.real, steps, part)
        result.imag = space_evenly(start.imag, end.imag, steps, part)
        return result
    ends = np.array([start, end]).astype(kind)
    if steps == 1:
        return ends[:1]
    computed = np.dtype(np.float64) if kind.kind in "iu" else kind
    first, last = ends.astype(computed)
    step = (last - first) / computed.type(max(steps - 1, 1))
    result = allocate(steps, computed)
    half = steps // 2
    up, down = np.arange(half).astype(computed), np.arange(steps - half - 1, -1,
                                                           -1).astype(computed)
    if kind.itemsize >= 4 or computed == np.float64:
        result[:half] = _multiply_add(up, step, first)
        result[half:] = _multiply_add(down, -step, last)
    else:  # rounded after each operation
        result[:half] = first + step * up
        result[half:] = last - step * down
    return result.astype(kind, copy=False)


@public(creates=Contents.FIXED)
def linspace(
    start: Any, end: Any, steps: int, *, out: Tensor | None = None, dtype: Dtype | None = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:
    """Return `steps` evenly spaced numbers from `start` to `end`, inclusive.

    Args:
        end (number): The last number.

    >>> torch.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    _check_ends(start, end, "linspace")
    kind = _infer_spaces_dtype(start, end, dtype, out, "linspace")
    refuse_narrow(kind, "linspace_cpu")
    refuse_eight_bit(np.empty(0, kind), "linspace_cpu")
    steps = _check_steps(steps, "linspace")
    if out is None and is_on_meta(device):
        return place(meta_array((steps,), kind), device, requires_grad)
    array = space_evenly(read_number(start), read_number(end), steps, kind)
    return place(array, device, requires_grad) if out is None else write_created(
        out, array, dtype, layout, device)


@public(creates=Contents.FIXED)
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return `steps` numbers spaced evenly on a log scale, from base**start to base**end.

    Args:
        start (number): The first exponent.
        end (number): The last exponent.

    >>> torch.logspace(0, 3, 4)
    tensor([   1.,   10.,  100., 1000.])
    >>> torch.logspace(0, 3, 4, base=2, dtype=torch.int64)
    tensor([1, 2, 4, 8])
    """
    _check_ends(start, end, "logspace")
    kind = _infer_spaces_dtype(start, end, dtype, out, "logspace")
    steps = _check_steps(steps, "logspace")
    if out is None and is_on_meta(device):
        return place(meta_array((steps,), kind), device, requires_grad)
    start, end = read_number(start), read_number(end)
    if kind.kind in "iu":
        start, end = int(start), int(end)
    step, half = (end - start) / max(steps - 1, 1), steps // 2
    exponents = np.concatenate([  # in this loop PyTorch rounds products and sums separately
        start + step * np.arange(half), end - step * np.arange(steps - half - 1, -1, -1),
    ]) if steps != 1 else np.array([start])
    array = np.power(complex(base) if kind.kind == "c" else float(base), exponents).astype(kind)
    return place(array, device, requires_grad) if out is None else write_created(
        out, array, dtype, layout, device)
