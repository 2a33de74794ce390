"""Large matrix products by compiled kernels: one per dtype and layout, for matrices of any size.

`try_product` returns None until a form's kernel is compiled, and for forms without one; callers
then use NumPy's BLAS. The matrix unit (AMX) needs static shapes, so products that may use it have
one kernel per shape.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...native.runtime.background_jit import CallCounts, KernelPolicy, request_kernel
from ...native.runtime.fast_call import call_on_threads
from ...native.runtime.thread_pool import POOL
from ...native.target.eager_costs import (
    MAX_PRODUCT_FORMS, MAX_PRODUCT_PLANS, MAX_SPECIALIZED_PRODUCT_ROWS, MAX_UNPACKED_DEPTH,
    MAX_UNPACKED_OPERAND_BYTES, MIN_PACKED_ROWS, MIN_PRODUCT_BLOCK_ROWS,
    MIN_PRODUCT_MULTIPLICATIONS, MIN_PRODUCT_UTILIZATION, MIN_THREADED_PRODUCT_MULTIPLICATIONS,
    PRODUCT_CALLS_BEFORE_COMPILING, PRODUCT_CALLS_BEFORE_USE,
)
from ...native.target.load_balance import TYPICAL_THREADS, utilization
from ...native.target.matmul_precision import MatmulPrecision
from .route import native_route

if TYPE_CHECKING:
    from ...native.loop_ir.ir import Kernel

# The dtypes with kernels.
_TYPES = frozenset(("float32", "float64", "bfloat16", "float16"))


class Plan(NamedTuple):
    """How to call a kernel."""

    address: int
    sizes: tuple[int, ...]
    threads: int  # 0: all


class FormKey(NamedTuple):
    """A kernel for matrices of any size. The fields are those of GemmForm."""

    dtype: np.dtype
    a_along: bool
    b_along: bool
    stack_axes: int
    has_bias: bool
    rows: int | None
    is_unpacked: bool
    precision: int


class ShapeKey(NamedTuple):
    """A kernel for the matrix unit, which needs static shapes."""

    operands: tuple  # the key of the plan
    has_bias: bool
    parts: int


# Threads share these without a lock: a lost count delays a kernel by a call, and two plans for one
# key are equal.
_calls = CallCounts(MAX_PRODUCT_FORMS, on_small_arrays=False)  # by FormKey or ShapeKey
_plans: dict[tuple, Plan] = {}  # by shapes and strides


@native_route
def try_product(
    a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None
) -> np.ndarray | None:
    """Return a @ b (+ bias) for stacks of matrices with equal dtype and stack shape, or None."""
    shape = a.shape
    count = a.size * b.shape[-1]
    if count < MIN_PRODUCT_MULTIPLICATIONS or len(shape) < 2 or b.ndim != len(shape) \
            or not KernelPolicy.allowed or not (bias is None or bias.flags.c_contiguous):
        return None
    key = (a.dtype, shape, b.shape, a.strides, b.strides,
           None if bias is None else (bias.shape, bias.dtype), MatmulPrecision.parts)
    plan = _plans.get(key)
    if plan is None:
        plan = _find_plan(key, a, b, bias)
        if plan is None:
            return None
    y = np.empty((*shape[:-1], b.shape[-1]), a.dtype)
    if bias is None:
        call_on_threads(plan.address, a, b, y, *plan.sizes, threads=plan.threads)
    else:
        call_on_threads(plan.address, a, b, bias, y, *plan.sizes, threads=plan.threads)
    return y


def _find_plan(key: tuple, a: np.ndarray, b: np.ndarray, bias: np.ndarray | None) -> Plan | None:
    """Count the call and return how to call the product's kernel; None until it is compiled and
    called often enough."""
    if not _fits(a, b, bias):
        return None
    form: FormKey | ShapeKey
    sizes: tuple[int, ...] = ()
    if _uses_matrix_unit(a.dtype, MatmulPrecision.parts):
        form = ShapeKey(key, bias is not None, MatmulPrecision.parts)
    else:
        form, sizes = _describe_form(a, b, bias)
    if not _calls.should_request(form, PRODUCT_CALLS_BEFORE_COMPILING, PRODUCT_CALLS_BEFORE_USE):
        return None
    function = request_kernel(("product", form), lambda: _build_kernel(form, a, b))
    if function is None:
        return None
    if len(_plans) >= MAX_PRODUCT_PLANS:
        _plans.clear()
    threads = 0 if a.size * b.shape[-1] >= MIN_THREADED_PRODUCT_MULTIPLICATIONS else 1
    result = _plans[key] = Plan(function.address, sizes, threads)
    return result


def _fits(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None) -> bool:
    """Whether a kernel supports the operands: dtypes, shapes and strides."""
    if a.__class__ is not np.ndarray or b.__class__ is not np.ndarray:
        return False
    kind, shape, a_strides, b_strides = a.dtype, a.shape, a.strides, b.strides
    if kind.name not in _TYPES or b.dtype != kind or shape[-1] != b.shape[-2]:
        return False
    if len(shape) > 2 and (shape[:-2] != b.shape[:-2] or len(shape) > 4):
        return False
    if bias is not None and (bias.shape != b.shape[-1:] or bias.dtype != kind):
        return False
    size = kind.itemsize
    if size not in a_strides[-2:] or size not in b_strides[-2:]:
        return False
    return not any(s < 0 or s % size for s in (*a_strides, *b_strides))


def _describe_form(
    a: np.ndarray, b: np.ndarray, bias: np.ndarray | None
) -> tuple[FormKey, tuple[int, ...]]:
    """Return the kernel's key, and the sizes to pass to it."""
    *stack, m, k = a.shape
    size = a.itemsize
    row, step = a.strides[-2:]
    a_along, a_apart = (True, row) if step == size else (False, step)
    step, column = b.strides[-2:]
    b_along, b_apart = (False, step) if column == size else (True, column)
    n = b.shape[-1]
    axes = _merge_stack_axes(stack, a, b, m * n) if stack else []
    blocks = choose_row_blocks(prod(stack), m, POOL.threads()) if axes else 1
    if blocks > 1:
        m //= blocks
        axes.append((blocks, m * row // size, 0, m * n))
    rows = m if m <= MAX_SPECIALIZED_PRODUCT_ROWS else None
    is_unpacked = k <= MAX_UNPACKED_DEPTH and m < MIN_PACKED_ROWS \
        and k * max(m, n) * size <= MAX_UNPACKED_OPERAND_BYTES
    precision = 1 if _uses_bf16_pairs(a.dtype, MatmulPrecision.parts) else 3
    key = FormKey(a.dtype, a_along, b_along, len(axes), bias is not None, rows, is_unpacked,
                  precision)
    sizes = [m, n, k, a_apart // size, b_apart // size]
    for axis in axes:
        sizes += axis
    return key, tuple(sizes)


def choose_row_blocks(count: int, rows: int, threads: int) -> int:
    """Return into how many blocks to cut the rows of each product to keep the threads busy."""
    fit = [n for n in (1, 2, 3, 4, 6, 8)
           if rows % n == 0 and (n == 1 or rows // n >= MIN_PRODUCT_BLOCK_ROWS)]
    if threads <= TYPICAL_THREADS:
        return 1
    even = {n: utilization(count * n, threads) for n in fit}
    best = max(fit, key=lambda n: even[n])
    return next((n for n in fit if even[n] >= MIN_PRODUCT_UTILIZATION), best)


def _merge_stack_axes(
    stack: list[int], a: np.ndarray, b: np.ndarray, step: int
) -> list[tuple[int, int, int, int]]:
    """Return (extent, stride of a, of b, of the result) of the stack's axes, in elements;
    contiguous neighbors are merged."""
    size = a.itemsize
    result: list[tuple[int, int, int, int]] = []
    axes = list(zip(stack, a.strides, b.strides, strict=False))
    for extent, a_stride, b_stride in reversed(axes):
        if extent != 1:
            axis = (extent, a_stride // size, b_stride // size, step)
            if result and all(x == y * result[0][0] for x, y in zip(axis[1:], result[0][1:],
                                                                    strict=True)):
                axis = (extent * result[0][0], *result.pop(0)[1:])
            result.insert(0, axis)
        step *= extent
    return result


@lru_cache
def _uses_matrix_unit(dtype: np.dtype, parts: int) -> bool:
    """Whether the matrix unit (AMX) multiplies this dtype at this precision."""
    from ...native.codegen.gemm.amx_split import count_bf16_terms
    from ...native.loop_ir.ir import Type
    from ...native.target.machine import host

    return 0 < count_bf16_terms(Type(dtype.name), parts) <= host().parts


@lru_cache
def _uses_bf16_pairs(dtype: np.dtype, parts: int) -> bool:
    """Whether float32 products may use dot products of bfloat16 pairs."""
    from ...native.target.machine import host

    return dtype.name == "float32" and parts == 1 and host().pairs


def _build_kernel(key: FormKey | ShapeKey, a: np.ndarray, b: np.ndarray) -> Kernel:
    """Build the kernel of a form, or of a shape if it uses the matrix unit."""
    from ...native.kernels.gemm import GemmForm, GemmLayout, build_product, build_sized_product
    from ...native.loop_ir.ir import Type

    kind = Type(a.dtype.name)
    if isinstance(key, FormKey):
        return build_sized_product(GemmForm(kind, *key[1:]))
    size = a.itemsize
    return build_product(GemmLayout(
        kind, a.shape[:-2], a.shape[-2], b.shape[-1], a.shape[-1],
        tuple(s // size for s in a.strides), tuple(s // size for s in b.strides),
        key.has_bias, key.parts,
    ))
