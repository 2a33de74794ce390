"""Rules of the jagged layout: views, splits, concatenation and copies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..tensor.layout import contiguous_format, preserve_format
from ..tensor.symbolic_length import SymInt
from ..tensor.tensor import Tensor
from .jagged_tensor import NestedTensor, has_same_ragged_sizes, jagged_from_list
from .ragged_tensor import as_number

RULES = NestedTensor.RULES


def rule(*names: str) -> Callable[[Callable], Callable]:
    """Declare the rule of functions with these names for tensors in jagged layout."""

    def declare(function: Callable) -> Callable:
        RULES.update(dict.fromkeys(names or (function.__name__,), function))
        return function

    return declare


def check_plain(nt: Any, signature: str) -> None:
    """Raise ValueError, worded like PyTorch's, for a tensor with gaps or another ragged axis."""
    if not isinstance(nt, NestedTensor) or nt._lengths is not None or nt._ragged_idx != 1:
        name = signature.partition("(")[2].partition(":")[0]
        raise ValueError(f"NestedTensor {signature}: expected {name} to be a contiguous jagged "
                         "layout NestedTensor")


def normalize_inner_axis(
    nt: NestedTensor, dim: int, name: str, extra: int = 0, ragged: bool = False
) -> int:
    """Return the axis of the values for `dim`. Raises RuntimeError for batch and ragged axis."""
    axis = nt.axis(dim, extra)
    if axis == nt._ragged_idx and not ragged:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    if axis == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    return axis - 1


def _flatten_sizes(args: tuple) -> tuple:
    """Return sizes passed as arguments or as one sequence."""
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


# ---------------------------------------------------------------------------------------- views


@rule("transpose", "swapaxes", "swapdims")
def transpose(input: NestedTensor, dim0: int, dim1: int) -> NestedTensor:
    """Swap two axes, possibly the ragged one."""
    a, b, r = input.axis(dim0), input.axis(dim1), input._ragged_idx
    if r in (a, b):
        if 0 in (a, b):
            raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
        return input._build_like(input._values.transpose(a - 1, b - 1), b if a == r else a)
    return input._build_like(input._values.transpose(normalize_inner_axis(input, a, "transpose"),
                                                     normalize_inner_axis(input, b, "transpose")))


@rule()
def permute(input: NestedTensor, *dims: Any) -> NestedTensor:
    """Permute the axes; the batch stays first."""
    order = _flatten_sizes(dims)
    if len(order) != input.dim():
        raise ValueError(
            f"permute(): number of dimensions in the tensor input ({input.dim()}) does not match "
            f"the length of the desired ordering of dimensions ({len(order)}).")
    axes = [input.axis(d) for d in order]
    if len(set(axes)) != len(axes):
        raise ValueError("permute(): duplicate dims are not allowed.")
    if input._lengths is not None:
        raise ValueError("permute(): not supported on jagged layout nested tensor with holes")
    if axes[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    values = input._values.permute([a - 1 for a in axes[1:]])
    return input._build_like(values, axes.index(input._ragged_idx))


@rule("view", "_unsafe_view")
def view(input: NestedTensor, *sizes: Any) -> NestedTensor:
    """Reshape the axes after the ragged axis."""
    size = _flatten_sizes(sizes)
    if len(size) == 1 and not isinstance(size[0], (int, SymInt)):
        return input._build_like(input._values.view(size[0]))  # another dtype
    if input._ragged_idx != 1 and tuple(size) != tuple(input._size):
        raise RuntimeError(
            "view(): does not support ragged_idx != 1 except when inp._size == size. "
            f"inp._size is ({input._size}) and size is ({size}).")
    if len(size) < 3 or not has_same_ragged_sizes(input, size):
        raise RuntimeError(f"view(): cannot view shape {input._size} as {size}")
    r = input._ragged_idx
    inner = [input._values.shape[i] if i == r - 1 else n for i, n in enumerate(size[1:])]
    return input._build_like(input._values.view(inner))


@rule()
def view_as(self: NestedTensor, other: NestedTensor) -> NestedTensor:
    """Return a view with the shape of `other`."""
    return view(self, *other._size)


@rule()
def reshape(input: NestedTensor, *shape: Any) -> NestedTensor:
    """Return a view if the strides allow it, else a copy."""
    size = _flatten_sizes(shape)
    source = input if input.is_contiguous() else clone(input, memory_format=contiguous_format)
    return view(source, *size)


@rule()
def flatten(input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> NestedTensor:
    """Merge axes, excluding the batch and the ragged axis."""
    for dim in (start_dim, end_dim):
        normalize_inner_axis(input, dim, "flatten")
    first, last = input.axis(start_dim), input.axis(end_dim)
    if first == last:
        return input
    size = input._size
    return reshape(input, *size[:first], math.prod(size[first:last + 1]), *size[last + 1:])


@rule()
def unflatten(input: NestedTensor, dim: int, sizes: Sequence[int]) -> NestedTensor:
    """Split an axis into several."""
    axis = normalize_inner_axis(input, dim, "unflatten")
    ragged_idx = input._ragged_idx + (len(sizes) - 1 if axis < input._ragged_idx - 1 else 0)
    return input._build_like(input._values.unflatten(axis, tuple(sizes)), ragged_idx)


@rule()
def expand(input: NestedTensor, *size: Any, implicit: bool = False) -> NestedTensor:
    """Expand axes of length 1 after the ragged axis, without a copy."""
    expected = _flatten_sizes(size)
    if not has_same_ragged_sizes(input, expected):
        raise RuntimeError(f"expand(): cannot expand shape {input._size} -> {expected}")
    inner = [-1 if d == input._ragged_idx else expected[d] for d in range(1, input.dim())]
    return input._build_like(input._values.expand(inner))


@rule()
def expand_as(input: Tensor, other: NestedTensor) -> NestedTensor:
    """Repeat a dense tensor for each position of the rows; expand a nested tensor."""
    if isinstance(input, NestedTensor):
        return expand(input, *other._size)
    return other._build_like(input.expand_as(other._values))


@rule()
def broadcast_to(input: NestedTensor, size: Sequence[Any]) -> NestedTensor:
    """`expand` without new leading axes."""
    if len(size) <= input.dim():
        return expand(input, *(1 for _ in range(input.dim() - len(size))), *size)
    raise ValueError("broadcast_to(): broadcasting to a higher-dim shape is currently not "
                     "supported for nested tensors with the jagged layout")


@rule()
def squeeze(input: NestedTensor, dim: Any = None) -> NestedTensor:
    """Remove an axis of length 1."""
    if dim is None:
        raise RuntimeError("squeeze(): not supported for NestedTensor without a dim")
    check_plain(input, "squeeze_dim(self: jt, dim: any)")
    return input._build_like(input._values.squeeze(normalize_inner_axis(input, dim, "squeeze")))


@rule()
def unsqueeze(input: NestedTensor, dim: int) -> NestedTensor:
    """Insert an axis of length 1."""
    axis = normalize_inner_axis(input, dim, "unsqueeze", extra=1, ragged=True)
    ragged_idx = input._ragged_idx + (axis <= input._ragged_idx - 1)
    return input._build_like(input._values.unsqueeze(axis), ragged_idx)


@rule()
def narrow(input: NestedTensor, dim: int, start: Any, length: int) -> NestedTensor:
    """Slice an axis."""
    check_plain(input, "narrow(self: jt, dim: any, start: any, length: any)")
    axis = normalize_inner_axis(input, dim, "narrow")
    return input._build_like(input._values.narrow(axis, start, length))


@rule()
def select(input: NestedTensor, dim: int, index: int) -> Tensor:
    """Select a row, or a position of an axis."""
    if input.axis(dim) == 0:
        return unbind(input)[index]
    axis = normalize_inner_axis(input, dim, "select")
    if input._lengths is not None:
        raise ValueError("select(): not yet supported on dim != 0 for non-contiguous nested "
                         "tensor with holes")
    ragged_idx = input._ragged_idx - (axis < input._ragged_idx - 1)
    return input._build_like(input._values.select(axis, index), ragged_idx)


@rule()
def unbind(input: NestedTensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Return the rows as views of the values."""
    if dim != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    axis = input._ragged_idx - 1
    lengths = input._offsets.diff().tolist()
    if input._lengths is None:
        return tuple(ops.split(input._values, lengths, dim=axis))
    if axis < 0:
        raise RuntimeError("unbind(): nested tensor ragged_idx out of bounds (should be >= 1)")
    begins, lengths = input._offsets.tolist(), input._lengths.tolist()
    width = input._values.shape[axis]
    if any(begin + n > width for begin, n in zip(begins, lengths, strict=False)):
        raise RuntimeError("unbind(): nested tensor offsets and lengths do not match ragged_idx "
                           "dimension")
    return tuple(input._values.narrow(axis, begin, n)
                 for begin, n in zip(begins, lengths, strict=False))


@rule("__getitem__")
def index(input: NestedTensor, key: Any) -> Any:
    """Index rows by number, and the axes after the ragged axis by slices and numbers."""
    keys = tuple(as_number(k) for k in (key if isinstance(key, tuple) else (key,)))
    if Ellipsis in [k for k in keys if k.__class__ is type(Ellipsis)]:
        ellipsis_at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        missing = input.dim() - sum(k is not None for k in keys) + 1
        keys = (*keys[:ellipsis_at], *[slice(None)] * missing, *keys[ellipsis_at + 1:])
    result: Any = input
    axis = 0
    for position, k in enumerate(keys):
        if not isinstance(result, NestedTensor):
            return result[(slice(None),) * axis + tuple(keys[position:])]
        result, step = _index_axis(result, axis, k)
        axis += step
    return result


def _index_axis(nt: NestedTensor, axis: int, key: Any) -> tuple[Any, int]:
    """Apply a key; return the tensor and the number of axes that the key leaves."""
    if key is None:
        return unsqueeze(nt, axis), 1
    if isinstance(key, slice):
        if key == slice(None):
            return nt, 1
        check_plain(nt, "slice_tensor(self: jt, dim: any?, start: any?, end: any?, step: any?)")
        inner = normalize_inner_axis(nt, axis, "slice")
        return nt._build_like(nt._values[(slice(None),) * inner + (key,)]), 1
    if isinstance(key, int):
        return select(nt, axis, key), 0
    raise NotImplementedError("aten.index.Tensor")


# ------------------------------------------------------------------------------ splits and joins


@rule("split", "split_with_sizes")
def split(tensor: NestedTensor, split_size: Any, dim: int = 0) -> tuple[NestedTensor, ...]:
    """Split an axis after the ragged axis."""
    single = isinstance(split_size, int)
    signature = "split_tensor(self: jt, split_size: any, dim: any?)" if single else \
        "split_with_sizes_default(self: jt, split_sizes: any, dim: any?)"
    check_plain(tensor, signature)
    axis = normalize_inner_axis(tensor, dim, "split" if single else "split_with_sizes")
    parts = ops.split(tensor._values, split_size, dim=axis)
    return tuple(map(tensor._build_like, parts))


@rule()
def chunk(input: NestedTensor, chunks: int, dim: int = 0) -> tuple[NestedTensor, ...]:
    """Split an axis, or the batch, into parts."""
    check_plain(input, "chunk_default(self: jt, chunks: any, dim: any?)")
    if input.axis(dim) != 0:
        axis = normalize_inner_axis(input, dim, "chunk")
        return tuple(input._build_like(part) for part in input._values.chunk(chunks, axis))
    rows = input._offsets.diff().chunk(chunks)
    values = ops.split(input._values, [int(n.sum().item()) for n in rows])
    return tuple(NestedTensor(part, ops.cat([n.new_zeros(1), n.cumsum(0)]),
                              _ragged_idx=input._ragged_idx)
                 for part, n in zip(values, rows, strict=True))


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> NestedTensor:
    """Concatenate tensors of equal row lengths along an axis."""
    first = next(t for t in tensors if t.is_nested)
    nested = [t if t.is_nested else first._build_like(t.expand_as(first._values)) for t in tensors]
    axis = normalize_inner_axis(first, dim, "cat")
    return nested[0]._build_like(ops.cat([t._values for t in nested], axis))


@rule()
def stack(tensors: Sequence[Tensor], dim: int = 0) -> NestedTensor:
    """Stack tensors with the same rows along a new axis."""
    first: Any = tensors[0]
    for t in tensors:
        if not isinstance(t, NestedTensor):
            raise RuntimeError("stack(): expected all nested tensors inputs")
        if t.dim() != first.dim():
            raise RuntimeError("stack(): expected all nested tensors to have the same dim")
        if not has_same_ragged_sizes(t, first._size):
            raise RuntimeError("stack(): expected all nested tensors to have the same nested "
                               "structure")
    axis = normalize_inner_axis(first, dim, "stack", extra=1)
    return first._build_like(ops.stack([t._values for t in tensors], axis))


# --------------------------------------------------------------------------------------- copies


@rule()
def clone(input: NestedTensor, *, memory_format: Any = preserve_format) -> NestedTensor:
    """Return a copy, without gaps if in contiguous format."""
    if input._lengths is not None and memory_format is contiguous_format:
        if input._ragged_idx != 1:
            raise AssertionError("NJT with ragged_idx != 1 not supported for contiguous clone")
        return jagged_from_list(list(unbind(input)), None)[0]
    return input._build_like(input._values.clone(memory_format=memory_format))


@rule()
def contiguous(self: NestedTensor, *, memory_format: Any = contiguous_format) -> NestedTensor:
    """Return the tensor itself, or a copy without gaps and with row-major strides."""
    return self if self.is_contiguous(memory_format) else clone(self, memory_format=memory_format)


@rule()
def copy_(self: NestedTensor, src: NestedTensor, non_blocking: bool = False) -> NestedTensor:
    """Copy the elements of `src`, whose rows must have the same lengths."""
    if not isinstance(src, NestedTensor):
        raise ValueError("NestedTensor copy_default(self: jt_all, src: jt_all, non_blocking: any?):"
                         " expected src to be a jagged layout NestedTensor")
    if tuple(self._size) != tuple(src._size):
        targets, sources = unbind(self), unbind(src)
        if [a.shape for a in targets] != [b.shape for b in sources]:
            raise RuntimeError("copy_(): expected compatible input and src shapes, but got: "
                               f"{self.shape} and {src.shape}")
    self._values.copy_(src._values)
    return self


def _register_like_factory(name: str) -> None:
    def make(input: NestedTensor, *args: Any, **kwargs: Any) -> NestedTensor:
        kwargs.pop("layout", None)
        return input._build_like(getattr(ops, name)(input._values, *args, **kwargs))

    rule(name)(make)


for _name in ("empty_like", "ones_like", "zeros_like", "rand_like", "randn_like", "full_like",
              "randint_like"):
    _register_like_factory(_name)


def _register_new_factory(name: str) -> None:
    def make(self: NestedTensor, size: Any = (), *rest: Any, **kwargs: Any) -> Tensor:
        if size != () and size != []:
            raise RuntimeError("new_empty() not supported for NJT with shape != ()")
        return getattr(self._values, name)((), *rest, **kwargs)

    rule(name)(make)


for _name in ("new_empty", "new_zeros", "new_ones"):
    _register_new_factory(_name)


@rule()
def share_memory_(self: NestedTensor) -> NestedTensor:
    """Move the parts to shared memory."""
    for part in (self._values, self._offsets, self._lengths):
        if part is not None:
            part.share_memory_()
    return self


@rule()
def is_shared(self: NestedTensor) -> bool:
    """Return whether the parts are in shared memory."""
    return all(x.is_shared() for x in (self._values, self._offsets, self._lengths)
               if x is not None)
