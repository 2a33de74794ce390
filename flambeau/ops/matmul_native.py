"""Large matrix products in machine code, made for their shape once it has come up a few times.

Until a shape's kernel is there, and for what has none, `large_product` returns None and the
linear algebra library under NumPy does the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..native.eager import Policy, kernel_asked_for
from ..native.invoke import shared
from ..native.precision import Chosen
from .registry import Array

WORTH = 1 << 13  # elements of `a` below which nobody need ask
_LEAST = 1 << 21  # multiplications from which on the call of a kernel is worth it
_SHARED = 1 << 22  # multiplications from which on several threads are
_PATIENT = 3  # calls with a shape before its kernel is made
_MOST = 512  # shapes that have a kernel
_TYPES = frozenset(("float32", "float64", "bfloat16", "float16"))

_seen: dict[tuple, Any] = {}  # by shape and strides: how many calls, then the kernel's function


def large_product(a: Array, b: Array, bias: Array | None = None) -> Array | None:
    """a @ b (+ bias) of two stacks of matrices of one shape and dtype, or None."""
    shape = a.shape
    count = a.size * b.shape[-1]
    if count < _LEAST or len(shape) < 2 or b.ndim != len(shape) or not Policy.allowed:
        return None
    key = (a.dtype, shape, b.shape, a.strides, b.strides, bias is None, Chosen.parts)
    found = _seen.get(key)
    if found.__class__ is not tuple:
        found = _asked(key, found, a, b, bias)
        if found is None:
            return None
    if bias is not None and not bias.flags.c_contiguous:
        return None
    y = np.empty((*shape[:-1], b.shape[-1]), a.dtype)
    arrays = (a, b, y) if bias is None else (a, b, bias, y)
    shared(found[0], *arrays, threads=0 if count >= _SHARED else 1)
    return y


def _asked(key: tuple, found: Any, a: Array, b: Array, bias: Array | None) -> Any:
    """Counts a call with a shape that has no kernel yet; gives the kernel when it is there."""
    if found is None:
        if len(_seen) < _MOST and _fits(a, b, bias):
            _seen[key] = 1
        return None
    if found < _PATIENT:
        _seen[key] = found + 1
        return None
    def build() -> Any:
        from ..native.kernels.gemm import Layout, product
        from ..native.loops import Type

        size = a.itemsize
        return product(Layout(
            Type(a.dtype.name), a.shape[:-2], a.shape[-2], b.shape[-1], a.shape[-1],
            tuple(s // size for s in a.strides), tuple(s // size for s in b.strides),
            bias is not None, key[-1],
        ))  # fmt: skip

    function = kernel_asked_for(("product", *key), build)
    if function is None:
        return None
    made = _seen[key] = (function.address,)
    return made


def _fits(a: Array, b: Array, bias: Array | None) -> bool:
    """Whether the operands are of a form that kernels are made for."""
    if a.__class__ is not np.ndarray or b.__class__ is not np.ndarray:
        return False
    if a.dtype.name not in _TYPES or b.dtype != a.dtype:
        return False
    if a.shape[:-2] != b.shape[:-2] or a.ndim > 4 or a.shape[-1] != b.shape[-2]:
        return False
    if bias is not None and (bias.shape != b.shape[-1:] or bias.dtype != a.dtype):
        return False
    size = a.itemsize
    if any(s < 0 or s % size for x in (a, b) for s in x.strides):
        return False
    return all(size in x.strides[-2:] for x in (a, b))
