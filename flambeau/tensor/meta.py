"""Meta arrays: shape and dtype without data, for tensors on the `meta` device.

A MetaArray is one zero seen at every index (all strides 0). NumPy's ufuncs on it only work out the
result's shape and dtype; other NumPy functions run on the zeros and keep what shape came out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class MetaArray(np.ndarray):
    """An array of one repeated zero."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        plain = [_plain(x) for x in inputs]
        if method == "__call__" and ufunc.signature is None:
            ones = [_one(x) for x in plain]
            shape = np.broadcast_shapes(*(np.shape(x) for x in plain))
            with np.errstate(all="ignore"):
                new = ufunc(*ones, **options)
            result = _each(new, lambda y: meta_array(shape, np.asarray(y).dtype))
        else:
            result = _meta(getattr(ufunc, method)(*plain, **options))
        return result if out is None else (out[0] if len(out) == 1 else out)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _meta(func(*_plain(args), **_plain(kwargs)))


def meta_array(shape: Sequence[int], dtype: np.dtype) -> MetaArray:
    """A meta array of this shape and NumPy dtype; takes the memory of one element."""
    zero = np.zeros((), dtype)
    return np.lib.stride_tricks.as_strided(zero, tuple(shape), (0,) * len(shape)).view(MetaArray)


def _one(x: Any) -> Any:
    return np.ones((), x.dtype) if isinstance(x, np.ndarray) else x


def _plain(x: Any) -> Any:
    if isinstance(x, MetaArray):
        return x.view(np.ndarray)
    if isinstance(x, (list, tuple)):
        return type(x)(_plain(v) for v in x)
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    return x


def _each(result: Any, change: Any) -> Any:
    return tuple(map(change, result)) if isinstance(result, tuple) else change(result)


def _meta(result: Any) -> Any:
    if isinstance(result, (list, tuple)):
        return type(result)(_meta(v) for v in result)
    if isinstance(result, (np.ndarray, np.generic)):
        return meta_array(result.shape, result.dtype)
    return result
