"""Meta arrays: shape and dtype without data, for tensors on the `meta` device.

A MetaArray is one zero repeated at every index (all strides 0). NumPy's ufuncs on it only compute
the result's shape and dtype; other NumPy functions run on the zeros and keep only shape and dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .tree import map_leaves


class MetaArray(np.ndarray):
    """An array of one repeated zero."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        plain = [_plain(x) for x in inputs]
        if method == "__call__" and ufunc.signature is None:
            ones = [_ones_like_input(x) for x in plain]
            shape = np.broadcast_shapes(*(np.shape(x) for x in plain))
            with np.errstate(all="ignore"):
                new = ufunc(*ones, **options)
            result = _each(new, lambda y: meta_array(shape, np.asarray(y).dtype))
        else:
            result = map_leaves(_meta, getattr(ufunc, method)(*plain, **options))
        return result if out is None else (out[0] if len(out) == 1 else out)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        plain = map_leaves(_plain, (args, kwargs))
        return map_leaves(_meta, func(*plain[0], **plain[1]))


def meta_array(shape: Sequence[int], dtype: np.dtype) -> MetaArray:
    """Return a meta array of a shape and NumPy dtype; it takes the memory of one element."""
    zero = np.zeros((), dtype)
    return np.lib.stride_tricks.as_strided(zero, tuple(shape), (0,) * len(shape)).view(MetaArray)


def _ones_like_input(x: Any) -> Any:
    return np.ones((), x.dtype) if isinstance(x, np.ndarray) else x


def _plain(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, MetaArray) else x


def _each(result: Any, change: Any) -> Any:
    return tuple(map(change, result)) if isinstance(result, tuple) else change(result)


def _meta(result: Any) -> Any:
    if isinstance(result, (np.ndarray, np.generic)):
        return meta_array(result.shape, result.dtype)
    return result
