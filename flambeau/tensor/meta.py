"""Meta arrays: shape and dtype without data, for tensors on the `meta` device.

A MetaArray is one zero repeated at every index (all strides 0). NumPy's ufuncs on it only compute
the result's shape and dtype; other NumPy functions run on the zeros and keep only shape and dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .layout import contiguous_format, find_owner, is_contiguous
from .tree import map_leaves


class MetaArray(np.ndarray):
    """An array of one repeated zero."""

    layout: tuple[tuple[int, ...], int] | None = None  # strides and offset of a wrapper subclass

    def is_contiguous(self, memory_format: Any) -> bool:
        """Return whether its strides, row-major by default, are those of the memory format."""
        if self.layout is None:
            return memory_format is contiguous_format
        unread = np.lib.stride_tricks.as_strided(
            np.zeros(1, np.uint8), self.shape, self.layout[0], writeable=False
        )
        return is_contiguous(unread, memory_format)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        plain = [_strip_meta(x) for x in inputs]
        if method == "__call__" and ufunc.signature is None:
            ones = [_create_ones(x) for x in plain]
            shape = np.broadcast_shapes(*(np.shape(x) for x in plain))
            with np.errstate(all="ignore"):
                new = ufunc(*ones, **options)
            result = _map_results(new, lambda y: meta_array(shape, np.asarray(y).dtype))
        else:
            result = map_leaves(_convert_to_meta, getattr(ufunc, method)(*plain, **options))
        return result if out is None else (out[0] if len(out) == 1 else out)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        plain = map_leaves(_strip_meta, (args, kwargs))
        return map_leaves(_convert_to_meta, func(*plain[0], **plain[1]))


def meta_array(shape: Sequence[int], dtype: np.dtype) -> MetaArray:
    """Return a meta array of a shape and NumPy dtype; it takes the memory of one element."""
    element = np.zeros(dtype.itemsize, np.uint8)  # as_strided knows no eight-bit floats
    return np.ndarray(tuple(shape), dtype, element, 0, (0,) * len(shape)).view(MetaArray)


def share_meta_memory(array: MetaArray, source: MetaArray) -> MetaArray:
    """Return `array` as a view of `source`: their storages are one.

    A wider dtype than that of `source` has no view of its single element; `array` stays as it is.
    """
    owner = find_owner(source)
    if array.itemsize > owner.nbytes:
        return array
    element = owner.reshape(-1).view(np.uint8)
    result = np.ndarray(array.shape, array.dtype, element, 0, (0,) * array.ndim).view(MetaArray)
    result.layout = array.layout
    return result


def refuse_unknown_values(source: Any, operator: str) -> None:
    """Raise NotImplementedError for a meta tensor or array whose values would decide the result.

    `operator`: its name in aten, with the overload.
    """
    array = getattr(source, "_array", source)
    if array.__class__ is not MetaArray:
        return
    if hasattr(source, "_flambeau_refuse"):  # a fake tensor, with an error of its own
        source._flambeau_refuse(f"aten.{operator}")
    name = operator.removesuffix(".default")
    error = NotImplementedError(
        "The register_meta function for torch.nonzero() raises unimplemented by default, as a "
        "correct data-independent implementation does not exist. This implementation returns a "
        "fake value, assuming all elements of the tensor are non-zero. To enable this registration,"
        " please set 'torch.fx.experimental._config.meta_nonzero_assume_all_nonzero' to True."
        if name == "nonzero" else
        f"aten::{name}: attempted to run this operator with Meta tensors, but there was no fake "
        "impl or Meta kernel registered. You may have run into this message while using an operator"
        " with PT2 compilation APIs (torch.compile/torch.export); in order to use this operator "
        "with those APIs you'll need to add a fake impl. Please see the following for next steps:  "
        "https://pytorch.org/tutorials/advanced/custom_ops_landing_page.html"
    )
    error.add_note("Meta tensors have no values: compute this on real tensors, or with a mask "
                   "whose size is fixed (torch.where).")
    error.operator = operator  # type: ignore[attr-defined]
    raise error


def refuse_unknown_repeats(counts: Any, total: int | None) -> None:
    """Raise RuntimeError for counts on the meta device whose sum is not known."""
    if counts._array.__class__ is not MetaArray or total is not None:
        return
    if hasattr(counts, "_flambeau_refuse"):
        counts._flambeau_refuse("aten.repeat_interleave.Tensor")
    error = RuntimeError("cannot repeat_interleave a meta tensor without output_size")
    error.add_note("Pass output_size, the sum of the repeats.")
    raise error


def _create_ones(x: Any) -> Any:
    return np.ones((), x.dtype) if isinstance(x, np.ndarray) else x


def _strip_meta(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, MetaArray) else x


def _map_results(result: Any, change: Any) -> Any:
    return tuple(map(change, result)) if isinstance(result, tuple) else change(result)


def _convert_to_meta(result: Any) -> Any:
    if isinstance(result, (np.ndarray, np.generic)):
        return meta_array(result.shape, result.dtype)
    return result


def build_unreadable_error(x: Any) -> Exception:
    """Return the error for listing the elements of a tensor without memory."""
    if x.is_meta:
        return NotImplementedError("Cannot copy out of meta tensor; no data!")
    return RuntimeError(
        f".tolist() is not supported for tensor subclasses, got {type(x).__name__}"
    )
