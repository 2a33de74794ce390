"""Threads: how many native code uses, and the linear algebra library under NumPy."""

from __future__ import annotations

import ctypes
import glob
import os
from functools import lru_cache
from typing import Any

import numpy as np


@lru_cache(maxsize=1)
def _find_openblas_functions() -> tuple[Any, Any] | None:
    """Return OpenBLAS's (get, set) functions of NumPy's wheel, or None if not found."""
    root = os.path.dirname(os.path.dirname(np.__file__))
    for path in glob.glob(os.path.join(root, "numpy.libs", "*openblas*")):
        library = ctypes.CDLL(path)
        for ending in ("64_", ""):
            try:
                return (getattr(library, f"scipy_openblas_get_num_threads{ending}"),
                        getattr(library, f"scipy_openblas_set_num_threads{ending}"))
            except AttributeError:
                continue
    return None


def get_num_threads() -> int:
    """Return the number of threads used by kernels, programs and matrix products."""
    from ...native.runtime.thread_pool import POOL

    return POOL.threads()


def set_num_threads(count: int) -> None:
    """Set the number of threads used; RuntimeError unless positive."""
    from ...native.runtime.thread_pool import POOL

    if not isinstance(count, int):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(count).__name__}")
    if not -(1 << 31) <= count < 1 << 31:
        raise ValueError("Overflow when unpacking long")
    if count <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    POOL.set_threads(count)
    functions = _find_openblas_functions()
    if functions is not None:
        set_blas_threads = functions[1]
        set_blas_threads(count)


if os.environ.get("FLAMBEAU_THREADS"):  # OpenBLAS does not read it
    set_num_threads(get_num_threads())
