"""Views of quantized tensors: views of the integers, with the matching quantizer.

A tensor quantized by channel can be sliced along any axis, but its axes cannot be reordered. Views
of integers smaller than a byte are copies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tensor.quantized import QuantizedTensor, quantized
from ...tensor.quantizers import PerChannel, PerTensor, Quantizer
from ...tensor.tensor import Tensor, wrap
from ..interception.window_stubs import select_functions
from .dispatch import implements, implements_each


def get_codes(x: Any) -> Tensor:
    """Return the integers of a quantized tensor as a tensor sharing its memory."""
    return wrap(x._array.codes)


@implements_each(select_functions(vars(Tensor), "clone contiguous detach cpu"))
def copy(original: Callable, self: Any, *args: Any, **kwargs: Any) -> Tensor:
    """View or copy all integers in their order, with the same quantizer."""
    return quantized(original(get_codes(self), *args, **kwargs)._array, self._array.quantizer)


@implements_each(select_functions(
    vars(Tensor), "permute t transpose swapaxes swapdims unflatten expand expand_as index_select "
    "as_strided movedim tile repeat flip masked_select gather take"))
def rearrange(original: Callable, self: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Rearrange the integers of a tensor with one quantizer for all of them."""
    if isinstance(self._array.quantizer, PerChannel):
        raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
    return copy(original, self, *args, **kwargs)


@implements_each(select_functions(vars(Tensor), "view reshape flatten view_as reshape_as"))
def reshape(original: Callable, self: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Reshape the integers; channels must stay along their axis."""
    result = original(get_codes(self), *args, **kwargs)
    quantizer = self._array.quantizer
    if isinstance(quantizer, PerChannel):
        axis, count = quantizer.axis, quantizer.scales.size
        length = result.shape[axis] if axis < result.ndim else 1
        if length != count:
            raise RuntimeError("length of scales must equal to channel, expected "
                               f"{length} got, {count}")
    return quantized(result._array, quantizer)


# ------------------------------------------------------------------ parts along an axis


def _create_part_quantizer(quantizer: Quantizer, dim: int, index: Any) -> Quantizer:
    """Return the quantizer of one index along an axis (an int) or of a range (a slice)."""
    if isinstance(quantizer, PerTensor):
        return quantizer
    removes_axis = not isinstance(index, slice)
    axis = quantizer.axis
    if dim == axis:
        if removes_axis:
            return quantizer.at(index)
        quantizer = quantizer._replace(
            scales=quantizer.scales[index], zero_points=quantizer.zero_points[index])
    if quantizer.scales.size == 1:  # as in PyTorch
        return quantizer.at(0)
    return quantizer._replace(axis=axis - (removes_axis and dim < axis))


@implements("select")
def select(self: Any, dim: int, index: int) -> Tensor:
    """Select one index along an axis."""
    codes = get_codes(self).select(dim, index)
    axis = dim % self.ndim
    return quantized(codes._array, _create_part_quantizer(self._array.quantizer, axis, index))


def cut(self: Any, dim: int, span: slice) -> Tensor:
    """Select some indices along an axis."""
    codes = get_codes(self)[(slice(None),) * dim + (span,)]
    return quantized(codes._array, _create_part_quantizer(self._array.quantizer, dim, span))


@implements("narrow")
def narrow(self: Any, dim: int, start: Any, length: int) -> Tensor:
    """Select `length` indices along an axis, beginning at `start`."""
    get_codes(self).narrow(dim, start, length)  # raises the error
    axis, first = dim % self.ndim, int(start)
    first += self.shape[axis] if first < 0 else 0
    return cut(self, axis, slice(first, first + length))


@implements("unbind")
def unbind(self: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along an axis."""
    return tuple(select(self, dim, i) for i in range(self.shape[dim]))


@implements_each(select_functions(vars(Tensor), "split chunk"))
def cut_all(original: Callable, self: Any, sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Split the tensor into consecutive parts along an axis."""
    parts, start = [], 0
    for codes in original(get_codes(self), sizes, dim):
        parts.append(narrow(self, dim, start, codes.shape[dim]))
        start += codes.shape[dim]
    return tuple(parts)


@implements("unsqueeze")
def unsqueeze(self: Any, dim: int) -> Tensor:
    """Insert an axis of length 1."""
    codes = get_codes(self).unsqueeze(dim)
    quantizer = self._array.quantizer
    if isinstance(quantizer, PerChannel):
        new_axis = dim % codes.ndim
        quantizer = quantizer._replace(axis=quantizer.axis + (new_axis <= quantizer.axis))
    return quantized(codes._array, quantizer)


@implements("squeeze")
def squeeze(self: Any, *dims: Any, dim: Any = None) -> Tensor:
    """Remove axes of length 1, all or the given ones; never the channel axis."""
    axis = dims[0] if dims else dim
    codes = get_codes(self).squeeze() if axis is None else get_codes(self).squeeze(axis)
    quantizer = self._array.quantizer
    if isinstance(quantizer, PerChannel):
        removed = _list_squeezed(self.shape, axis)
        if quantizer.axis in removed:
            raise RuntimeError("Squeeze is only possible on non-axis dimension for Per-Channel "
                               "Quantized Tensors.")
        before = sum(d < quantizer.axis for d in removed)
        quantizer = quantizer._replace(axis=quantizer.axis - before)
    return quantized(codes._array, quantizer)


def _list_squeezed(shape: tuple[int, ...], dims: Any) -> list[int]:
    candidates = range(len(shape)) if dims is None else (dims,) if isinstance(dims, int) else dims
    return [d % len(shape) for d in candidates if shape[d] == 1]


def is_basic(index: Any) -> bool:
    """Whether an index contains no tensors or lists, so that it gives a view."""
    return all(item is None or item is Ellipsis or isinstance(item, slice)
               or (isinstance(item, int) and not isinstance(item, bool))
               for item in (index if isinstance(index, tuple) else (index,)))


@implements("__getitem__")
def __getitem__(self: Any, index: Any) -> Tensor:
    """Index the tensor; if quantized by channel, only with ints and slices."""
    array = self._array
    if not isinstance(array.quantizer, PerChannel):
        return quantized(get_codes(self)[index]._array, array.quantizer)
    if not is_basic(index):
        raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
    items = index if isinstance(index, tuple) else (index,)
    get_codes(self)[items]  # raises the error
    indexed = sum(item is not None and item is not Ellipsis for item in items)
    result, dim = self, 0
    for item in items:
        if item is None:
            result, dim = unsqueeze(result, dim), dim + 1
        elif item is Ellipsis:
            dim += self.ndim - indexed
        elif isinstance(item, slice):
            result, dim = result if item == slice(None) else cut(result, dim, item), dim + 1
        else:
            result = select(result, dim, item)
    return result


@implements("to")
def to(self: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Return itself, or a copy in another memory format; RuntimeError for a dtype."""
    if any(hasattr(a, "is_floating_point") and not isinstance(a, Tensor) and a is not self.dtype
           for a in (*args, *kwargs.values())):
        error = RuntimeError("Creation of quantized tensor requires quantized dtype like "
                             "torch.quint8")
        error.add_note("Call dequantize() for a float32 tensor.")
        raise error
    layout = {name: kwargs[name] for name in ("memory_format", "copy") if kwargs.get(name)}
    if not layout:
        return self
    return quantized(get_codes(self).to(**layout)._array, self._array.quantizer)


@implements("float", "half", "double", "bfloat16", "int", "long")
def refuse_cast(self: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Raise RuntimeError: `dequantize()` gives float32 numbers."""
    return to(self, wrap(self._array.values()).dtype)


@implements("empty_like")
def empty_like(self: Any, *, dtype: Any = None, **ignored: Any) -> Tensor:
    """Return an uninitialized tensor of the same shape and quantizer."""
    if dtype is not None and dtype is not self.dtype:
        raise RuntimeError(
            "It is currently not supported to specify a dtype that doesn't match the input "
            "tensor's dtype via empty_like.  Specified: "
            f"c10::{dtype.name} Input tensor's dtype: c10::{self.dtype.name}")
    codes = self._array.codes
    return quantized(codes * codes.dtype.type(0), self._array.quantizer)


def _refuse_new(self: Any, *args: Any, **kwargs: Any) -> Tensor:
    error = RuntimeError(
        "new(): expected key in DispatchKeySet(CPU, CUDA, HIP, XLA, MPS, IPU, XPU, HPU, Lazy, "
        "PrivateUse1, Meta) but got: QuantizedCPU")
    error.add_note("torch.quantize_per_tensor and torch.quantize_per_channel make quantized "
                   "tensors.")
    raise error


QuantizedTensor.new = _refuse_new
