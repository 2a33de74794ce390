"""Arithmetic on sparse tensors, also with dense tensors and numbers: sums, products, quotients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...autograd.inplace import bump
from ...autograd.mode import MODE
from ...autograd.tangents import skip_missing, sum_terms
from ...tensor.layout import strided
from ...tensor.promotion import result_type
from ...tensor.sparse import CompressedArray, CooArray, SparseTensor, layout_name
from ...tensor.tensor import Tensor, wrap
from ..core.operator import Array, Number
from . import formats
from .dispatch import implements, is_sparse_array, register_in_place, sparse_operator
from .masked_arrays import apply_mask


def _is_number(x: Any) -> bool:
    return not isinstance(x, Tensor)


def _cast_to_common(*operands: Any) -> list[Any]:
    """Return the operands, with tensors cast to the common dtype."""
    kind = result_type(*operands)
    return [x.to(kind) if isinstance(x, Tensor) and x.dtype is not kind else x for x in operands]


def _match_scalar(x: Any) -> Any:
    """Return a number or 0-dimensional dense array unchanged, or None for other operands."""
    if isinstance(x, np.ndarray):
        return x if x.ndim == 0 else None
    return None if is_sparse_array(x) else x


# ------------------------------------------------------------------------------ sums


def _merge(a: CooArray, b: CooArray) -> CooArray:
    """Add two arrays by merging their coordinates, adding values at equal coordinates."""
    if not b.nnz or not a.nnz:  # as in PyTorch, even where the other one has more sparse axes
        return a if not b.nnz else b
    if a.sparse_dim != b.sparse_dim:
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same density, but 'self' has "
            f"{a.sparse_dim} sparse dimensions while 'other' has {b.sparse_dim} sparse dimensions"
        )
    x, y = a.linear_indices(), b.linear_indices()
    first, second = _merge_sorted(x, y) if _is_ascending(x) and _is_ascending(y) \
        else _merge_in_turn(x.tolist(), y.tolist())
    count = first.size
    values = np.zeros((count, *a.values.shape[1:]), np.result_type(a.values, b.values))
    indices = np.empty((a.sparse_dim, count), np.int64)
    for source, source_numbers in ((a, first), (b, second)):
        matches = source_numbers >= 0
        indices[:, matches] = source.indices[:, source_numbers[matches]]
        if values.dtype.kind == "b":
            values[matches] |= source.values[source_numbers[matches]]
        else:
            values[matches] += source.values[source_numbers[matches]]
    return CooArray(indices, values, a.shape, a.coalesced and b.coalesced)


def _is_ascending(linear: np.ndarray) -> bool:
    return bool((linear[1:] > linear[:-1]).all())


def _merge_sorted(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each coordinate in the union, its position in `x` and in `y`, or -1.

    Both inputs are sorted linear indices.
    """
    union = np.union1d(x, y)
    first, second = np.full(union.size, -1), np.full(union.size, -1)
    first[np.searchsorted(union, x)] = np.arange(x.size)
    second[np.searchsorted(union, y)] = np.arange(y.size)
    return first, second


def _merge_in_turn(x: list[int], y: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Merge unsorted coordinates like a merge sort step: emit the smaller of the next two.

    Returns positions as `_merge_sorted` does.
    """
    first: list[int] = []
    second: list[int] = []
    i = j = 0
    while i < len(x) or j < len(y):
        order = 1 if i == len(x) else -1 if j == len(y) else (x[i] > y[j]) - (x[i] < y[j])
        first.append(i if order <= 0 else -1)
        second.append(j if order >= 0 else -1)
        i += order <= 0
        j += order >= 0
    return np.asarray(first, np.int64), np.asarray(second, np.int64)


def _scale(values: np.ndarray, alpha: Any) -> np.ndarray:
    return values if alpha == 1 else (values * np.asarray(alpha, values.dtype)).astype(values.dtype)


def _sum_compressed(a: CompressedArray, b: CompressedArray) -> CompressedArray:
    same = np.array_equal(a.compressed, b.compressed) and np.array_equal(a.plain, b.plain)
    if same and a.values.shape == b.values.shape:
        return a.like(a.values + b.values)
    if a.batch_dim:
        raise RuntimeError("Expected result Tensor to be of format CSR")
    total = _merge(formats.convert_compressed_to_coo(a), formats.convert_compressed_to_coo(b))
    return formats.compress(total, a.layout, a.block, a.plain.dtype)


@sparse_operator(node="AddBackward0")
def _add(input: Array, other: Array, alpha: Number | None) -> Array:
    a: Any = input
    b: Any = other
    if isinstance(a, np.ndarray):
        if a.shape != b.shape:
            raise RuntimeError(
                f"add: expected 'self' size to match 'other' size: {list(a.shape)} and "
                f"{list(b.shape)}" if a.ndim < b.ndim else
                "add: Expected 'other' to be broadcastable to 'self'")
        return a + _scale(formats.to_dense(b), alpha)
    if a.shape != b.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != "
            f"{list(b.shape)}"
        )
    b = b.like(_scale(b.values, alpha))
    if isinstance(a, CompressedArray):
        if not isinstance(b, CompressedArray) or a.layout is not b.layout:
            b = formats.to_layout(b, a.layout, a.block if a.blocked else None)
        return _sum_compressed(a, b)  # type: ignore[return-value]
    return _merge(a, formats.to_coo(b))  # type: ignore[return-value]


@_add.vjp("input")
def _(g: Any) -> Any:
    return g


@_add.vjp("other")
def _(g: Any, alpha: Any) -> Any:
    return g if alpha == 1 else g * alpha


@_add.jvp
def _(input_t: Any, other_t: Any, input: Any, alpha: Any) -> Any:
    return _add_tangents(input_t, other_t, input, alpha)


def _add_tangents(input_t: Any, other_t: Any, input: Any, alpha: Any) -> Any:
    """Return the tangent of input + alpha * other, in the layout of `input`."""
    scaled: Any = None if other_t is None else other_t * alpha
    if input_t is None and not isinstance(input, SparseTensor):
        return scaled.to_dense()
    return sum_terms(input_t, scaled)


@sparse_operator(node="SubBackward0")
def _sub(input: Array, other: Array, alpha: Number | None) -> Array:
    return _add.operator.body(input, other, -alpha)  # type: ignore[]


@_sub.vjp("input")
def _(g: Any) -> Any:
    return g


@_sub.vjp("other")
def _(g: Any, alpha: Any) -> Any:
    return -g if alpha == 1 else g * -alpha


@_sub.jvp
def _(input_t: Any, other_t: Any, input: Any, alpha: Any) -> Any:
    return _add_tangents(input_t, other_t, input, -alpha)


def _run_sum(name: str, operator: Any, input: Any, other: Any, alpha: Any, out: Any) -> Tensor:
    sparse_first = isinstance(input, SparseTensor)
    if sparse_first and not isinstance(other, SparseTensor):
        if not _is_number(other) and input.layout is not other.layout \
                and isinstance(input._array, CompressedArray):
            if name == "add":  # as in PyTorch, alpha scales the sparse operand on either side
                return other.add(input.to_dense(), alpha=alpha)
            return input.to_dense().sub(other, alpha=alpha)
        raise RuntimeError(
            "add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if _is_number(input):
        raise RuntimeError(
            "add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if input.is_sparse and other.layout is not input.layout:
        other = other.to_sparse_coo()
    input, other = _cast_to_common(input, other)
    return operator(input, other, alpha, out=out)


@implements("add", "__add__")
def add(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Tensor:
    """Return input + alpha * other, dense if `input` is.

    A compressed input plus a dense tensor is alpha * input + other, as in PyTorch.
    """
    return _run_sum("add", _add, input, other, alpha, out)


@implements("sub", "subtract", "__sub__")
def sub(input: Any, other: Any, *, alpha: Any = 1, out: Any = None) -> Tensor:
    """Return input - alpha * other, dense if `input` is."""
    return _run_sum("sub", _sub, input, other, alpha, out)


@implements("__radd__")
def radd(self: Tensor, other: Any) -> Tensor:
    """Return other + self."""
    return add(other, self)


@implements("__rsub__", "rsub")
def rsub(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Return other - self."""
    return sub(other, self, alpha=alpha)


# ------------------------------------------------------------------------------ products


def _intersect(a: CooArray, b: CooArray) -> CooArray:
    """Multiply elementwise at the coordinates that both arrays store.

    One of them may stay uncoalesced: duplicates are multiplied by the same factor.
    """
    if a.shape == b.shape and not (a.nnz and b.nnz):
        return CooArray(a.indices[:, :0], a.values[:0], a.shape, True)
    axes = a.sparse_dim
    if len(a.shape) != len(b.shape) or axes != b.sparse_dim or a.shape[:axes] != b.shape[:axes]:
        raise RuntimeError(
            "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal dimensionality, "
            "number of sparse dimensions, and shape of sparse dimensions"
        )
    if not b.coalesced and (a.coalesced or a.nnz >= b.nnz) or \
            a.coalesced and b.coalesced and a.nnz >= b.nnz:
        a, b = b, a
    b = formats.coalesce(b)
    stored, requested = b.linear_indices(), a.linear_indices()
    positions = np.searchsorted(stored, requested)
    positions[positions == stored.size] = 0
    actual = np.flatnonzero(stored[positions] == requested) if stored.size else np.empty(0,
                                                                                         np.int64)
    values = a.values[actual] * b.values[positions[actual]]
    shape = a.shape[:axes] + values.shape[1:]  # dense axes are broadcast
    return CooArray(np.take(a.indices, actual, 1), values, shape, a.coalesced)


def _expand(a: CooArray, shape: tuple[int, ...]) -> CooArray:
    """Broadcast an array: its dense axes stay dense, new axes are sparse ones."""
    dense = len(a.shape) - a.sparse_dim
    axes = len(shape) - dense
    sparse_shape = (1,) * (axes - a.sparse_dim) + a.shape[: a.sparse_dim]
    repeated = [k for k in range(axes) if sparse_shape[k] != shape[k]]
    if repeated or axes > a.sparse_dim:
        a = formats.coalesce(a)
    lengths = [shape[k] for k in repeated]
    copies = math.prod(lengths)
    indices = np.zeros((axes, copies, a.nnz), np.int64)
    indices[axes - a.sparse_dim :] = a.indices[:, None]
    indices[repeated] = np.indices(lengths).reshape(len(lengths), copies, 1)
    values = np.broadcast_to(a.values, (copies, a.nnz, *shape[axes:]))
    result = CooArray(
        indices.reshape(axes, copies * a.nnz), values.reshape(copies * a.nnz, *shape[axes:]),
        shape, a.coalesced)
    if a.coalesced and not _is_ascending(result.linear_indices()):
        result.coalesced = False
        result = formats.coalesce(result)
    return result


def _multiply_by_dense(a: Any, b: np.ndarray) -> Any:
    if a.shape != b.shape:
        shape = np.broadcast_shapes(a.shape, b.shape)
        if isinstance(a, CooArray):
            a = _expand(a, shape)
        elif shape != a.shape:
            a = formats.convert_dense_to_coo(np.broadcast_to(formats.to_dense(a), shape),
                                             len(shape))
        b = np.broadcast_to(b, shape)
    sampled = apply_mask(np.asarray(b), a)
    return a.like(a.values * sampled.values)


@sparse_operator(node="MulBackward0", linear_in="input * other")
def _mul(input: Array | Number, other: Array | Number) -> Array:
    a: Any = input
    b: Any = other
    if not is_sparse_array(a):
        a, b = b, a
    if (number := _match_scalar(b)) is not None:
        return a.like((a.values * np.asarray(number, a.dtype)).astype(a.dtype))
    if isinstance(b, np.ndarray):
        return _multiply_by_dense(a, b)
    both_coo = isinstance(a, CooArray) and isinstance(b, CooArray)
    if both_coo and a.shape != b.shape and () in (a.shape, b.shape):
        a, b = (a, b) if b.shape == () else (b, a)
        return a.like((a.values * b.values.sum(0, dtype=a.dtype)).astype(a.dtype))
    if a.shape != b.shape and not both_coo:
        shape = np.broadcast_shapes(a.shape, b.shape)
        a, b = (formats.convert_dense_to_coo(np.broadcast_to(formats.to_dense(x), shape),
                                             len(shape))
                for x in (a, b))
    if both_coo:
        return _intersect(a, b)  # type: ignore[return-value]
    form, block = (a.layout, a.block) if isinstance(a, CompressedArray) else (b.layout, b.block)
    if isinstance(a, CompressedArray) and isinstance(b, CompressedArray) and form is b.layout \
            and a.values.shape == b.values.shape and np.array_equal(a.compressed, b.compressed) \
            and np.array_equal(a.plain, b.plain):
        return a.like(a.values * b.values)  # type: ignore[return-value]
    compressed = a if isinstance(a, CompressedArray) else b
    if compressed.batch_dim:
        dense = formats.to_dense(a) * formats.to_dense(b)
        return formats.convert_dense_to_compressed(dense, form, block, compressed.dense_dim)  # type: ignore[return-value]
    result = _intersect(formats.to_coo(a), formats.to_coo(b))
    return formats.to_layout(result, form, block)


@_mul.vjp("input")
def _(g: Any, other: Any, input_shape: Any) -> Any:
    return _differentiate_mul(g, other, input_shape)


@_mul.vjp("other")
def _(g: Any, input: Any, other_shape: Any) -> Any:
    return _differentiate_mul(g, input, other_shape)


def _differentiate_mul(g: Tensor, factor: Any, shape: tuple[int, ...]) -> Tensor:
    result = mul(g, factor) if is_sparse_array(g._array) else g * factor
    return result.sum() if shape == () else result


@implements("mul", "multiply", "__mul__", "__rmul__")
def mul(input: Any, other: Any, *, out: Any = None) -> Tensor:
    """Return input * other, stored where a sparse factor is."""
    if not isinstance(input, SparseTensor) and not isinstance(other, SparseTensor):
        return input * other
    input, other = _cast_to_common(input, other)
    return _mul(input, other, out=out)


@sparse_operator(node="DivBackward0")
def _div(input: Array, other: Array | Number, rounding_mode: str | None) -> Array:
    a: Any = input
    number = _match_scalar(other)
    if rounding_mode is not None and isinstance(a, CooArray):
        a = formats.coalesce(a)
    wrapped = wrap(a.values).div(
        wrap(np.asarray(number)) if isinstance(number, np.ndarray) else number,
        rounding_mode=rounding_mode,
    )
    return a.like(wrapped._array)


@_div.vjp("input")
def _(g: Any, other: Any, rounding_mode: Any) -> Any:
    return g * 0 if rounding_mode is not None else g / other


@_div.vjp("other")
def _(g: Any, input: Any, other: Any) -> Any:
    return -(g * ((input / other) / other)).sum()


@_div.jvp
def _(input_t: Any, other_t: Any, input: Any, other: Any, rounding_mode: Any) -> Any:
    if rounding_mode is not None:
        return None
    return sum_terms(skip_missing(lambda t: t / other, input_t),
                     skip_missing(lambda t: (input / other) * (-t / other), other_t))


@implements("div", "divide", "true_divide", "__truediv__")
def div(input: Any, other: Any, *, rounding_mode: Any = None, out: Any = None) -> Tensor:
    """Return input / other, for a number or a 0-dim dense tensor."""
    if not isinstance(input, SparseTensor) or (isinstance(other, Tensor) and (
            other.dim() or isinstance(other, SparseTensor))):
        raise RuntimeError(
            f"Sparse {'floor ' if rounding_mode == 'floor' else ''}division requires "
            + ("a sparse dividend" if not isinstance(input, SparseTensor) else
               "a scalar or zero-dim dense tensor divisor "
               f"(got a {layout_name(other.layout).lower()} divisor)"
               if other.layout is not strided and not other.dim() else
               f"a scalar or zero-dim dense tensor divisor (got shape {list(other.shape)} for "
               "divisor)")
        )
    return _div(input, other, rounding_mode, out=out)


@implements("floor_divide", "__floordiv__")
def floor_divide(input: Any, other: Any, *, out: Any = None) -> Tensor:
    """Divide and round down."""
    return div(input, other, rounding_mode="floor", out=out)


for _name in ("add", "sub", "mul", "div", "floor_divide", "subtract", "multiply", "divide"):
    register_in_place(_name)


def _add_in_place(self: Tensor, other: Tensor, alpha: Any) -> Tensor:
    """Add a sparse tensor to a dense one in place, writing only at stored coordinates."""
    array, a = self._array, formats.coalesce(formats.to_coo(other._array))  # type: ignore[arg-type]
    if array.shape != a.shape:
        raise RuntimeError(
            f"add: expected 'self' size to match 'other' size: {list(array.shape)} and "
            f"{list(a.shape)}" if array.ndim < a.ndim else
            "add: Expected 'other' to be broadcastable to 'self'")
    values = _scale(a.values.astype(array.dtype, copy=False), alpha)
    array[tuple(a.indices)] += values if a.sparse_dim else values.sum(0)
    bump(self)
    return self


def _register_in_place(name: str) -> None:
    """Register `name_` and Python's in-place operator, also for dense targets."""
    from .dispatch import SPARSE

    sparse_twin, function = SPARSE[name + "_"], SPARSE[name]

    def twin(self: Tensor, other: Any, **kwargs: Any) -> Tensor:
        if isinstance(self, SparseTensor):
            return sparse_twin(self, other, **kwargs)
        if name in ("add", "sub"):
            from ..core.inplace import overwrite

            if not MODE.grad or not (self._requires_grad or other._requires_grad):
                alpha = kwargs.get("alpha", 1)
                return _add_in_place(self, other, alpha if name == "add" else -alpha)
            return overwrite(self, name + "_", function, other, **kwargs)
        product = function(self, other).to_dense()
        return self.copy_(product)

    twin.__name__ = name + "_"
    implements(name + "_", f"__i{name}__")(twin)


for _name in ("add", "sub", "mul"):
    _register_in_place(_name)
implements("__itruediv__")(SparseTensor.div_)
