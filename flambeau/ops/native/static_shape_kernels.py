"""Kernels compiled for one shape, requested once it recurs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...native.runtime import background_jit
from ...native.runtime.background_jit import CallCounts
from ...native.target.eager_costs import MAX_STATIC_SHAPES

_calls = CallCounts(MAX_STATIC_SHAPES, on_small_arrays=False)


def get_kernel(key: tuple, build: Callable[[], Any], request_at: int = 2, use_at: int = 3) -> Any:
    """Return the function of a shape's kernel, or None.

    Call number `request_at` requests it in the background; call number `use_at` is the first to
    use it, and waits for it.
    """
    if not _calls.should_request(key, request_at, use_at):
        return None
    return background_jit.request_kernel(key, build)


def run_kernel(function: Any, arrays: Sequence[np.ndarray], sizes: Sequence[int] = ()) -> None:
    """Run a kernel on arrays, one per buffer, and its sizes."""
    from ...native.runtime.thread_pool import run

    values = [*[a.ctypes.data for a in arrays], *sizes]
    cells = (ctypes.c_int64 * len(values))(*values)
    run(function.address, ctypes.addressof(cells))
