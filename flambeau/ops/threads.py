"""Threads: how many the linear algebra library under NumPy uses."""

from __future__ import annotations

import ctypes
import glob
import os
from functools import lru_cache
from typing import Any

import numpy as np


@lru_cache(maxsize=1)
def _blas() -> tuple[Any, Any] | None:
    """OpenBLAS's (get, set) functions in NumPy's wheel, or None where they are not found."""
    root = os.path.dirname(os.path.dirname(np.__file__))
    for path in glob.glob(os.path.join(root, "numpy.libs", "*openblas*")):
        library = ctypes.CDLL(path)
        for ending in ("64_", ""):
            try:
                return (getattr(library, f"scipy_openblas_get_num_threads{ending}"),
                        getattr(library, f"scipy_openblas_set_num_threads{ending}"))  # fmt: skip
            except AttributeError:
                continue
    return None


def get_num_threads() -> int:
    """How many threads matrix products use."""
    found = _blas()
    return found[0]() if found else (os.cpu_count() or 1)


def set_num_threads(count: int) -> None:
    """Sets how many threads matrix products use; RuntimeError unless positive."""
    if count <= 0:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {count}")
    found = _blas()
    if found:
        found[1](count)
