"""Rules of the strided layout: rows, views, joins and copies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..tensor.layout import compute_contiguous_strides, contiguous_format, preserve_format
from ..tensor.tensor import Tensor
from .ragged_tensor import as_number
from .strided_tensor import Shape, StridedNestedTensor, map_rows, strided_from_rows

RULES = StridedNestedTensor.RULES


def rule(*names: str) -> Callable[[Callable], Callable]:
    """Declare what functions of these names do to tensors in strided layout."""

    def declare(function: Callable) -> Callable:
        RULES.update(dict.fromkeys(names or (function.__name__,), function))
        return function

    return declare


@rule("unbind")
def unbind(input: StridedNestedTensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The rows."""
    if input.axis(dim) != 0:
        raise RuntimeError("NestedTensor can only be unbound along dimension 0 got dimension "
                           f"{dim} instead.")
    return input.rows()


@rule()
def size(self: StridedNestedTensor, dim: int | None = None) -> Any:
    """`Tensor.size`."""
    return self.size(dim)


@rule()
def select(input: StridedNestedTensor, dim: int, index: int) -> Tensor:
    """Return a row, or a position of each row."""
    axis = input.axis(dim)
    if axis == 0:
        count = len(input._sizes)
        if not -count <= index < count:
            raise IndexError(f"index {index} is out of bounds for dimension 0 with size {count}")
        return input.rows()[index]
    inner = axis - 1
    sizes, strides, starts = [], [], []
    for lengths, stride, start in zip(input._sizes, input._row_strides, input._starts, strict=True):
        if not -lengths[inner] <= index < lengths[inner]:
            raise IndexError(f"select(): index {index} out of range for nested tensor at "
                             f"dimension {axis} with size {lengths[inner]}")
        sizes.append((*lengths[:inner], *lengths[inner + 1:]))
        strides.append((*stride[:inner], *stride[inner + 1:]))
        starts.append(start + index % lengths[inner] * stride[inner])
    return input.view_rows(sizes, strides, starts)


@rule("__getitem__")
def index(input: StridedNestedTensor, key: Any) -> Tensor:
    """A row by its number, with any index of the row behind it."""
    keys = tuple(as_number(k) for k in (key if isinstance(key, tuple) else (key,)))
    if not keys or keys == (Ellipsis,):
        return input
    if not isinstance(keys[0], int):
        raise NotImplementedError("Could not run 'aten::slice.Tensor' with arguments from the "
                                  "'NestedTensorCPU' backend.")
    row = select(input, 0, keys[0])
    return row[keys[1:]] if keys[1:] else row


@rule("transpose", "swapaxes", "swapdims")
def transpose(input: StridedNestedTensor, dim0: int, dim1: int) -> Tensor:
    """Two axes of the rows swapped."""
    a, b = input.axis(dim0), input.axis(dim1)
    if a == b:
        return input
    if 0 in (a, b):
        raise RuntimeError("Nested tensor dimension 0 cannot be transposed")

    def swapped(lengths: Shape) -> Shape:
        result = list(lengths)
        result[a - 1], result[b - 1] = result[b - 1], result[a - 1]
        return tuple(result)

    return input.view_rows(list(map(swapped, input._sizes)), list(map(swapped, input._row_strides)))


@rule()
def unsqueeze(input: StridedNestedTensor, dim: int) -> Tensor:
    """Rows with a new axis of length 1."""
    axis = input.axis(dim, extra=1)
    if axis == 0:
        raise RuntimeError("For nested tensors, unsqueezing dim 0 is not supported at the moment "
                           "if you need this feature, please open an issue on github describing "
                           "your use case.")
    i = axis - 1
    sizes = [(*lengths[:i], 1, *lengths[i:]) for lengths in input._sizes]
    strides = [(*stride[:i], stride[i] * lengths[i] if i < len(lengths) else 1, *stride[i:])
               for lengths, stride in zip(input._sizes, input._row_strides, strict=True)]
    return input.view_rows(sizes, strides)


@rule()
def squeeze(input: StridedNestedTensor, dim: Any = None) -> Tensor:
    """Rows without an axis of length 1."""
    if dim is None:
        raise RuntimeError("For nested tensors, squeeze without the dim argument is not supported "
                           "at the moment, however you can use squeeze(Tensor self, int dim) "
                           "instead if you need this feature, please open an issue on github "
                           "describing your use case.")
    axis = input.axis(dim)
    if axis == 0:
        raise RuntimeError("For nested tensors, squeezing dimension 0 is not supported at the "
                           "moment if you need this feature, please open an issue on github "
                           "describing your use case.")
    if input.dim() == 2:
        raise RuntimeError("For nested tensors, squeezing a nested tensor of singleton tensors is "
                           "not supported at the moment, if you need this feature, please open an "
                           "issue on github describing your use case.")
    i = axis - 1
    if any(lengths[i] != 1 for lengths in input._sizes):
        return input
    return input.view_rows([(*lengths[:i], *lengths[i + 1:]) for lengths in input._sizes],
                           [(*s[:i], *s[i + 1:]) for s in input._row_strides])


def _compute_row_size(input: StridedNestedTensor, size: tuple, name: str, row: Shape) -> Shape:
    """Return a row's size under `view` or `reshape`; -1 inherits the old length."""
    inner, row_rank = list(size[1:]), len(row)
    inferred = [i for i, n in enumerate(inner) if n == -1]
    new_axes = [i for i in inferred if i >= row_rank]
    if new_axes and (len(new_axes) > 1 or len(inferred) > len(new_axes)):
        raise RuntimeError("only one dimension can be inferred")
    if len(inferred) == 1 and new_axes:
        total = math.prod(n for n in inner if n != -1)
        inner[inferred[0]] = math.prod(row) // total
    elif len(inferred) > 1 and len(inner) != row_rank:
        raise RuntimeError("only one dimension can be inferred")
    else:
        for i in inferred:
            inner[i] = row[i]
    if math.prod(inner) != math.prod(row):
        raise RuntimeError(f"shape '{list(size)}' is invalid for input of size {input.numel()}")
    return tuple(inner)


def _check_view(input: StridedNestedTensor, size: tuple, name: str) -> None:
    if not size:
        raise RuntimeError("shape '[]' is invalid for a nested tensor")
    if not input._sizes:
        raise RuntimeError("empty nested tensor cannot be reshaped")
    if size[0] != len(input._sizes):
        raise RuntimeError(f"{name}: For now nested {name} cannot change or infer the implicit "
                           "batch dimension")


def _flatten_sizes(args: tuple) -> tuple:
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


@rule()
def view(input: StridedNestedTensor, *sizes: Any) -> Tensor:
    """The rows, each of another shape, without a copy."""
    target = _flatten_sizes(sizes)
    _check_view(input, target, "view")
    shapes = [_compute_row_size(input, target, "view", n) for n in input._sizes]
    strides = [tuple(row.view(n).stride())
               for row, n in zip(input.rows(), shapes, strict=True)]
    return input.view_rows(shapes, strides)


@rule()
def reshape(input: StridedNestedTensor, *shape: Any) -> Tensor:
    """Reshape the rows, copying if needed."""
    target = _flatten_sizes(shape)
    _check_view(input, target, "reshape")
    shapes = [_compute_row_size(input, target, "reshape", n) for n in input._sizes]
    if input.is_contiguous():
        return input.view_rows(shapes, [compute_contiguous_strides(n) for n in shapes])
    return strided_from_rows([row.reshape(n) for row, n in
                              zip(input.rows(), shapes, strict=True)])


@rule()
def reshape_as(self: StridedNestedTensor, other: StridedNestedTensor) -> Tensor:
    """Reshape the rows to the shapes of another tensor's rows."""
    return strided_from_rows([a.reshape(b.shape) for a, b in
                              zip(self.rows(), other.rows(), strict=True)])


@rule()
def narrow(input: StridedNestedTensor, dim: int, start: int, length: int) -> Tensor:
    """Some of the rows."""
    if input.axis(dim) != 0:
        raise RuntimeError("narrow(): only dim=0 supported for nested tensors, but got dim="
                           f"{dim}")
    if not input.is_contiguous():
        raise RuntimeError("narrow(): only contiguous nested tensors supported")
    rows = slice(start, start + length)
    return input.view_rows(input._sizes[rows], input._row_strides[rows], input._starts[rows])


def _measure_last_axis(input: StridedNestedTensor, dim: int, subject: str, name: str) -> int:
    """The common length of the last axis, along which PyTorch splits."""
    if input.axis(dim) != input.dim() - 1:
        raise RuntimeError(f"{subject} for nested tensors is currently only supported for the last "
                           "dimension.")
    if not input.is_contiguous():
        raise RuntimeError(f"{name} expects `self` to be contiguous.")
    length: int = input.size(-1)
    return length


@rule()
def chunk(input: StridedNestedTensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Equal parts of the last axis."""
    length = _measure_last_axis(input, dim, "Chunk", "chunk")
    if chunks <= 0:
        raise RuntimeError("chunk expects `chunks` to be greater than 0, got: " f"{chunks}")
    if length % chunks:
        raise RuntimeError("Chunk for nested tensors is only supported for nested tensors with "
                           "trailing dimension divisible by chunks.")
    return _split_rows(input, [length // chunks] * chunks)


@rule("split_with_sizes", "split")
def split_with_sizes(
    input: StridedNestedTensor, split_sizes: Any, dim: int = 0
) -> tuple[Tensor, ...]:
    """Parts of the last axis."""
    length = _measure_last_axis(input, dim, "split_with_sizes", "split_with_sizes")
    if isinstance(split_sizes, int):
        split_sizes = [min(split_sizes, length - i) for i in range(0, length, split_sizes)]
    if sum(split_sizes) != length:
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {length} "
                           "(input tensor's size at dimension -1), but got split_sizes="
                           f"{list(split_sizes)}")
    return _split_rows(input, split_sizes)


def _split_rows(input: StridedNestedTensor, lengths: Sequence[int]) -> tuple[Tensor, ...]:
    pieces, offset = [], 0
    for length in lengths:
        pieces.append(input.view_rows([(*n[:-1], length) for n in input._sizes], input._row_strides,
                                      [start + offset for start in input._starts]))
        offset += length
    return tuple(pieces)


# ------------------------------------------------------------------------------- joins and copies


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Concatenate the rows of all tensors, or the tensors along an axis behind the ragged axis."""
    if not all(t.is_nested for t in tensors):
        raise RuntimeError("cat(): expected each tensor in given list to be nested")
    if not all(t.is_contiguous() for t in tensors):
        raise RuntimeError("cat(): only contiguous nested tensors are supported")
    axis = tensors[0].axis(dim)
    if axis == 0:
        return strided_from_rows([row for t in tensors for row in t.rows()])
    first = tensors[0]
    for t in tensors:
        ragged = [i for i, n in enumerate(t._array.shape) if n == -1]
        if ragged != [1]:
            raise RuntimeError("cat(): only nested tensors with a single ragged dim next to the "
                               "batch dim are supported")
        is_compatible = t.dim() == first.dim() and [
            (*n[:axis - 1], *n[axis:]) for n in t._sizes] == [
            (*n[:axis - 1], *n[axis:]) for n in first._sizes]
        if not is_compatible:
            raise RuntimeError("cat(): expected all nested tensors to have matching ragged "
                               "structures outside of the concatenated dim")
    return map_rows(lambda *rows: ops.cat(rows, axis - 1), *tensors)


def _check_format(name: str, memory_format: Any) -> None:
    if memory_format not in (None, preserve_format, contiguous_format):
        format_name = {"channels_last": "ChannelsLast", "channels_last_3d": "ChannelsLast3d"}[
            memory_format.name]
        raise RuntimeError(f"Nested tensor {name} supports Preserve and Contiguous memory formats, "
                           f"called {name} with memory format: {format_name}")


@rule()
def clone(input: StridedNestedTensor, *, memory_format: Any = None) -> Tensor:
    """A copy, row-major in contiguous format."""
    _check_format("clone", memory_format)
    if memory_format is contiguous_format and not input.is_contiguous():
        return strided_from_rows(input.rows())
    return input._build_like(input._values.clone())


@rule()
def contiguous(self: StridedNestedTensor, memory_format: Any = contiguous_format) -> Tensor:
    """The tensor itself, or a row-major copy."""
    return self if self.is_contiguous() else strided_from_rows(self.rows())


@rule("to", "type_as")
def to(self: StridedNestedTensor, *args: Any, **named: Any) -> Tensor:
    """Cast the elements; return the tensor itself if it has the dtype."""
    args = tuple(a._values if isinstance(a, StridedNestedTensor) else a for a in args)
    values = self._values.to(*args, **named)
    return self if values is self._values else self._build_like(values)


def _register_like_factory(name: str) -> None:
    def make(input: StridedNestedTensor, *args: Any, **named: Any) -> Tensor:
        memory_format = named.pop("memory_format", None)
        _check_format(name, memory_format)
        values = getattr(ops, name)(input._values, *args, **named)
        if memory_format is contiguous_format:
            return StridedNestedTensor(values[:input.numel()], input._sizes)
        return input._build_like(values)

    rule(name)(make)


for _name in ("empty_like", "ones_like", "zeros_like", "rand_like", "randn_like", "full_like",
              "randint_like"):
    _register_like_factory(_name)


@rule()
def copy_(self: StridedNestedTensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write the elements of another nested tensor of the same sizes."""
    if not isinstance(src, StridedNestedTensor):
        raise RuntimeError("Expected both self and src to be nested")
    if self._sizes != src._sizes:
        raise RuntimeError("copy_ only supports tensors that are the same size for Nested "
                           "implementations")
    for target, source in zip(self.rows(), src.rows(), strict=True):
        target.copy_(source)
    return self


@rule()
def fill_(self: StridedNestedTensor, value: Any) -> Tensor:
    """Fill with a number."""
    if isinstance(value, Tensor) and value.dim() > 0:
        raise RuntimeError("fill_ only supports 0-dimension value tensor but got tensor with "
                           f"{value.dim()} dimensions.")
    self._values.fill_(value)
    return self


@rule()
def is_same_size(input: Any, other: Any) -> bool:
    """Whether the rows have the same sizes."""
    return bool(input._sizes == other._sizes)


@rule()
def _nested_tensor_size(self: StridedNestedTensor) -> Tensor:
    """The sizes of the rows."""
    return self._nested_tensor_size()
