"""Attention on many scores with machine code between its products; None without it."""

from __future__ import annotations

import numpy as np

from ...native.runtime import eager_kernels as kernels
from ...native.runtime.background_jit import KernelPolicy
from ...native.runtime.fast_call import FastCalls, call_kernel
from ...native.runtime.thread_pool import POOL
from ...native.target.eager_costs import (
    MAX_MATERIALIZED_SCORES, MAX_NUMPY_ATTENTION_SCORES, MAX_SMALL_ELEMENTS, SCORES_PER_BATCH_BLOCK,
)
from ...native.target.load_balance import TYPICAL_THREADS
from ...tensor.dtypes import FLOATS
from ..core.scalar_conversion import number
from ..linalg.matmul import multiply_matrices
from ..native.pointwise import try_kernel
from ..native.route import native_route
from ..native.small_arrays import PROBABILITIES

Array = np.ndarray


def _fits(count: int, q: Array) -> bool:
    return MAX_NUMPY_ATTENTION_SCORES < count <= MAX_MATERIALIZED_SCORES \
        and q.__class__ is np.ndarray and q.dtype in FLOATS


@native_route
def forward(q: Array, k: Array, v: Array, scale: float, causal: bool
            ) -> tuple[Array, Array] | None:
    """Return (attention's output, probabilities), or None without a kernel for the arguments."""
    rows, columns = q.shape[-2], k.shape[-2]
    count = q.size // max(q.shape[-1], 1) * columns
    if 0 < count <= min(MAX_SMALL_ELEMENTS, MAX_NUMPY_ATTENTION_SCORES) and q.__class__ is Array:
        return _attend_small(q, k, v, scale, causal)
    if not _fits(count, q):
        return None
    result = kernels.ATTENTION_PROBABILITIES.address(q.dtype, causal)
    if result is None:
        return None
    p = np.ascontiguousarray(multiply_matrices(q, k.swapaxes(-1, -2)))
    matrix_size = rows * columns
    call_kernel(result, count, p, np.asarray(scale, q.dtype), p.size // matrix_size, rows, columns,
                matrix_size)
    return multiply_matrices(p, v), p


def _attend_small(q: Array, k: Array, v: Array, scale: float, causal: bool
                  ) -> tuple[Array, Array] | None:
    """forward of few scores, from a fixed call on."""
    kernel = PROBABILITIES[causal][q.dtype]
    if not kernel or not KernelPolicy.allowed:
        return None
    p = np.matmul(q, k.swapaxes(-1, -2))
    rows, columns = p.shape[-2:]
    matrix_size = rows * columns
    FastCalls.call(kernel, p, number(scale, q.dtype), p.size // matrix_size, rows, columns,
                   matrix_size)
    return np.matmul(p, v), p


@native_route
def attend_in_blocks(q: Array, k: Array, v: Array, scale: float, causal: bool) -> Array | None:
    """Return attention's output alone, computed in batch blocks to bound the memory for scores."""
    scores_per_head = q[:1].size // max(q.shape[-1], 1) * k.shape[-2]
    scores = SCORES_PER_BATCH_BLOCK * max(1, POOL.threads() // TYPICAL_THREADS)
    step = max(1, scores // max(scores_per_head, 1))
    if q.ndim < 3 or len(q) <= step:
        result = forward(q, k, v, scale, causal)
        return None if result is None else result[0]
    if scores_per_head > MAX_MATERIALIZED_SCORES:
        return None
    y = np.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    for start in range(0, len(q), step):
        part = slice(start, start + step)
        result = forward(q[part], k[part], v[part], scale, causal)
        if result is None:
            return None
        y[part] = result[0]
    return y


def _slope(dp: Array, p: Array, inner: Array, scale: Array) -> Array:
    return (dp - inner) * (p * scale)


@native_route
def backward(
    g: Array, q: Array, k: Array, v: Array, y: Array, p: Array, scale: float
) -> tuple[Array, Array, Array] | None:
    """Return the cotangents of query, key and value, given the probabilities."""
    if not _fits(p.size, q) or not KernelPolicy.allowed:
        return None
    inner = np.einsum("...i,...i->...", g, y)[..., None]
    dp = multiply_matrices(g, v.swapaxes(-1, -2))
    factor = np.asarray(scale, q.dtype)
    ds = try_kernel(_slope, dp, p, inner, factor)
    if ds is None:
        ds = _slope(dp, p, inner, factor)
    return (multiply_matrices(ds, k), multiply_matrices(ds.swapaxes(-1, -2), q),
            multiply_matrices(p.swapaxes(-1, -2), g))
