"""Kernels compiled for one shape, requested once it recurs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...native.target.eager_costs import MAX_STATIC_SHAPES


_seen: dict[tuple, int] = {}  # calls per shape, until its kernel is used


def kernel_for(key: tuple, build: Callable[[], Any], request_at: int = 2, use_at: int = 3) -> Any:
    """Return the function of a shape's kernel, or None.

    Call number `request_at` requests it in the background; call number `use_at` is the first to
    use it, and waits for it.
    """
    calls = _seen.get(key, 0) + 1
    if calls == 1 and len(_seen) >= MAX_STATIC_SHAPES:
        return None
    if calls <= use_at:
        _seen[key] = calls
    if calls < request_at or request_at < calls < use_at:
        return None
    from ...native.runtime.background_jit import request_kernel

    return request_kernel(key, build)


def run_kernel(function: Any, arrays: Sequence[np.ndarray], sizes: Sequence[int] = ()) -> None:
    """Run a kernel on arrays, one per buffer, and its sizes."""
    from ...native.runtime.thread_pool import run

    values = [*[a.ctypes.data for a in arrays], *sizes]
    cells = (ctypes.c_int64 * len(values))(*values)
    run(function.address, ctypes.addressof(cells))
