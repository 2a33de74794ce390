"""Memory laid out as a recorded storage was, without values."""

from __future__ import annotations

import numpy as np

Geometry = tuple[tuple[int, ...], tuple[int, ...], np.dtype]  # shape, strides, dtype


def laid_out(whole: Geometry) -> np.ndarray:
    """An array of its own memory with a shape, strides and a dtype."""
    shape, strides, kind = whole
    result = np.empty(shape, kind)
    if result.strides == strides:
        return result
    like = np.lib.stride_tricks.as_strided(np.zeros(1, kind), shape, strides)
    return np.empty_like(like, order="K", subok=False)
