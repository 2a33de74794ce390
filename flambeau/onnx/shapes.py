"""ONNX conversions of operators on shapes, slices and whole tensors."""

from __future__ import annotations

from typing import Any

from ..fx.node import Node
from ..tensor.tensor import Tensor
from .conversion_table import converts
from .graph_builder import DTYPES, GraphBuilder, short
from .indexed import cast_to_index, join_indices

_LAST = 2**63 - 1


@converts("contiguous", "clone", "detach", "alias", "lift_fresh_copy", "positive", "requires_grad_")
def _same(b: GraphBuilder, node: Node, x: Any, *args: Any, **kwargs: Any) -> str:
    return b.op("Identity", b.value(x))


@converts("dropout", "feature_dropout", "alpha_dropout")
def _dropout(b: GraphBuilder, node: Node, x: Any, p: float = 0.5, train: bool = False,
             **kwargs: Any) -> str:
    if train:
        raise NotImplementedError("dropout in training: call model.eval() before the export")
    return b.op("Identity", b.value(x))


@converts("view", "reshape", "_unsafe_view")
def _reshape(b: GraphBuilder, node: Node, x: Any, shape: Any) -> str:
    return b.op("Reshape", b.value(x), b.sizes(shape), allowzero=1 if 0 in shape else None)


@converts("flatten")
def _flatten(b: GraphBuilder, node: Node, x: Any, start_dim: int = 0, end_dim: int = -1) -> str:
    start, end = b.axis(x, start_dim), b.axis(x, end_dim)
    if start == 1 and end == b.rank(x) - 1:
        return b.op("Flatten", b.value(x), axis=1)
    front = [0] * start  # zero copies the length
    if end == b.rank(x) - 1:
        return b.op("Reshape", b.value(x), b.sizes([*front, -1]))
    behind = [_size(b, x, d) for d in range(end + 1, b.rank(x))]
    return b.op("Reshape", b.value(x), b.op("Concat", b.sizes([*front, -1]), *behind, axis=0))


def _size(b: GraphBuilder, x: Node, dim: int) -> str:
    """Return one length of a value as a vector."""
    return b.op("Shape", b.value(x), start=dim, end=dim + 1)


@converts("unflatten")
def _unflatten(b: GraphBuilder, node: Node, x: Any, dim: int, sizes: Any) -> str:
    axis = b.axis(x, dim)
    parts = [_size(b, x, d) for d in range(b.rank(x))]
    parts[axis] = b.sizes(sizes)
    return b.op("Reshape", b.value(x), b.op("Concat", *parts, axis=0))


@converts("sym_size")
def _sym_size(b: GraphBuilder, node: Node, x: Any, dim: int) -> str:
    return b.op("Reshape", _size(b, x, b.axis(x, dim)), b.constant([], "int64"))


@converts("permute")
def _permute(b: GraphBuilder, node: Node, x: Any, dims: Any) -> str:
    if not dims:
        return b.op("Identity", b.value(x))
    return b.op("Transpose", b.value(x), perm=[b.axis(x, d) for d in dims])


@converts("transpose", "swapaxes")
def _transpose(b: GraphBuilder, node: Node, x: Any, dim0: int, dim1: int) -> str:
    order = list(range(b.rank(x)))
    if not order:
        return b.op("Identity", b.value(x))
    i, j = b.axis(x, dim0), b.axis(x, dim1)
    order[i], order[j] = order[j], order[i]
    return b.op("Transpose", b.value(x), perm=order)


@converts("movedim", "moveaxis")
def _movedim(b: GraphBuilder, node: Node, x: Any, source: Any, destination: Any) -> str:
    if not b.rank(x):
        return b.op("Identity", b.value(x))
    sources, targets = ([b.axis(x, d)
                         for d in (dims if isinstance(dims, (tuple, list)) else [dims])]
                        for dims in (source, destination))
    order = [d for d in range(b.rank(x)) if d not in sources]
    for place, d in sorted(zip(targets, sources, strict=True)):
        order.insert(place, d)
    return b.op("Transpose", b.value(x), perm=order)


@converts("flip")
def _flip(b: GraphBuilder, node: Node, x: Any, *dims: Any) -> str:
    listed = dims[0] if dims and isinstance(dims[0], (tuple, list)) else dims
    axes = [b.axis(x, d) for d in listed]
    ends = [b.sizes([value] * len(axes)) for value in (-1, -_LAST - 1, -1)]
    return b.op("Slice", b.value(x), *ends[:2], b.sizes(axes), ends[2]) if axes \
        else b.op("Identity", b.value(x))


@converts("t")
def _t(b: GraphBuilder, node: Node, x: Any) -> str:
    if b.rank(x) < 2:
        return b.op("Identity", b.value(x))
    return b.op("Transpose", b.value(x), perm=list(range(b.rank(x)))[::-1])


@converts("unsqueeze")
def _unsqueeze(b: GraphBuilder, node: Node, x: Any, dim: int) -> str:
    axis = dim % (b.rank(x) + 1)
    return b.op("Unsqueeze", b.value(x), b.sizes([axis]))


@converts("squeeze")
def _squeeze(b: GraphBuilder, node: Node, x: Any, dim: Any = None) -> str:
    dims = range(b.rank(x)) if dim is None else [dim] if isinstance(dim, int) else dim
    removed = [b.axis(x, d) for d in dims if b.tensor(x).shape[d] == 1]
    return b.op("Squeeze", b.value(x), b.sizes(removed)) if removed \
        else b.op("Identity", b.value(x))


@converts("expand", "broadcast_to")
def _expand(b: GraphBuilder, node: Node, x: Any, sizes: Any, implicit: bool = False) -> str:
    return b.op("Expand", b.value(x), b.sizes([1 if n == -1 else n for n in sizes]))


@converts("expand_as")
def _expand_as(b: GraphBuilder, node: Node, x: Any, other: Any) -> str:
    return b.op("Expand", b.value(x), b.op("Shape", b.value(other)))


@converts("repeat", "tile")
def _repeat(b: GraphBuilder, node: Node, x: Any, counts: Any) -> str:
    value = b.value(x)
    more = len(counts) - b.rank(x)
    counts = [1] * -more + list(counts)
    if not counts:
        return b.op("Identity", value)
    if more > 0:
        value = b.op("Unsqueeze", value, b.sizes(list(range(more))))
    return b.op("Tile", value, b.sizes(counts))


@converts("cat", "concat")
def _cat(b: GraphBuilder, node: Node, tensors: Any, dim: int = 0) -> str:
    dtype = node.meta["val"].dtype
    parts = [b.cast(t, dtype) for t in tensors if b.tensor(t).shape != (0,)]
    return b.op("Concat", *parts, axis=dim % node.meta["val"].ndim)


@converts("stack")
def _stack(b: GraphBuilder, node: Node, tensors: Any, dim: int = 0) -> str:
    axis = dim % node.meta["val"].ndim
    dtype = node.meta["val"].dtype
    parts = [b.op("Unsqueeze", b.cast(t, dtype), b.sizes([axis])) for t in tensors]
    return b.op("Concat", *parts, axis=axis)


@converts("unbind")
def _unbind(b: GraphBuilder, node: Node, x: Any, dim: int = 0) -> Any:
    axis, count = b.axis(x, dim), len(node.meta["val"])
    pieces = b.op("Split", b.value(x), outputs=count, axis=axis, num_outputs=count)
    pieces = pieces if isinstance(pieces, tuple) else (pieces,)
    return tuple(b.op("Squeeze", p, b.sizes([axis])) for p in pieces)


@converts("chunk", "split", "tensor_split")
def _split(b: GraphBuilder, node: Node, x: Any, size: Any = None, dim: int = 0) -> Any:
    parts = node.meta["val"]
    axis = b.axis(x, dim)
    lengths = b.sizes([int(p.shape[axis]) for p in parts])
    pieces = b.op("Split", b.value(x), lengths, outputs=len(parts), axis=axis)
    return pieces if isinstance(pieces, tuple) else (pieces,)


@converts("slice")
def _slice(b: GraphBuilder, node: Node, x: Any, dim: int = 0, start: Any = 0, end: Any = _LAST,
           step: Any = 1) -> str:
    start, end = 0 if start is None else start, _LAST if end is None else end
    axes = b.sizes([b.axis(x, dim)])
    return b.op("Slice", b.value(x), b.vector(start), b.vector(end), axes, b.vector(step))


@converts("select")
def _select(b: GraphBuilder, node: Node, x: Any, dim: int, index: Any) -> str:
    position = b.value(index) if isinstance(index, Node) else b.constant(index, "int64")
    return b.op("Gather", b.value(x), position, axis=b.axis(x, dim))


def _of_row(b: GraphBuilder, node: Node, kind: str, x: Any, index: Any) -> str:
    """Apply a gather to a value that may be a number, as a row of one element."""
    row = b.constant([-1], "int64")
    result = b.op(kind, b.op("Reshape", b.value(x), row),
                  b.op("Reshape", cast_to_index(b, index), row), axis=0)
    return b.op("Reshape", result, b.constant(list(node.meta["val"].shape), "int64"))


@converts("narrow")
def _narrow(b: GraphBuilder, node: Node, x: Any, dim: int, start: Any, length: Any) -> str:
    if isinstance(start, Node) or isinstance(length, Node):
        raise NotImplementedError("narrow by a size that varies")
    return _slice(b, node, x, dim, start, start + length)


@converts("index_select")
def _index_select(b: GraphBuilder, node: Node, x: Any, dim: int, index: Any) -> str:
    if not b.rank(x) or not b.rank(index):
        if b.rank(x) > 1:
            row = b.op("Reshape", cast_to_index(b, index), b.constant([-1], "int64"))
            return b.op("Gather", b.value(x), row, axis=b.axis(x, dim))
        return _of_row(b, node, "Gather", x, index)
    return b.op("Gather", b.value(x), cast_to_index(b, index), axis=b.axis(x, dim))


@converts("gather")
def _gather(b: GraphBuilder, node: Node, x: Any, dim: int, index: Any, **named: Any) -> str:
    if not b.rank(x) or not b.rank(index):
        return _of_row(b, node, "GatherElements", x, index)
    return b.op("GatherElements", b.value(x), cast_to_index(b, index), axis=b.axis(x, dim))


@converts("index")
def _index(b: GraphBuilder, node: Node, x: Any, indices: Any) -> str:
    indexed = [i for i, index in enumerate(indices) if index is not None]
    kinds = [short(b.tensor(indices[i]).dtype) for i in indexed]
    if "bool" in kinds:
        raise NotImplementedError("indexing with a mask")
    if len(indexed) == 1:
        return b.op("Gather", b.value(x), b.value(indices[indexed[0]]), axis=indexed[0])
    others = [d for d in range(b.rank(x)) if d not in indexed]
    value = b.value(x)
    if indexed != list(range(len(indexed))):
        value = b.op("Transpose", value, perm=[*indexed, *others])
    result = b.op("GatherND", value, join_indices(b, [indices[i] for i in indexed]))
    is_together = indexed == list(range(indexed[0], indexed[0] + len(indexed)))
    if indexed[0] == 0 or not is_together:
        return result
    # The index's axes come first; they belong where the first index stands.
    rank = node.meta["val"].ndim - len(others)
    order = list(range(rank, rank + indexed[0])) + list(range(rank))
    return b.op("Transpose", result, perm=[*order, *range(rank + indexed[0], rank + len(others))])


@converts("embedding")
def _embedding(b: GraphBuilder, node: Node, weight: Any, indices: Any, *rest: Any) -> str:
    return b.op("Gather", b.value(weight), b.value(indices))


@converts("pad")
def _pad(b: GraphBuilder, node: Node, x: Any, pad: Any, mode: str = "constant",
         value: Any = None) -> str:
    return pad_axes(b, node, x, pad, mode, value)


@converts("constant_pad_nd")
def _constant_pad(b: GraphBuilder, node: Node, x: Any, pad: Any, value: Any = 0) -> str:
    return pad_axes(b, node, x, pad, "constant", value)


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


def pad_axes(b: GraphBuilder, node: Node, x: Any, pad: Any, mode: str, value: Any) -> str:
    """Pad the last axes; a negative length cuts."""
    rank, result = b.rank(x), b.value(x)
    if mode == "circular":
        return _pad_around(b, x, pad)
    before, behind = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        before[rank - 1 - i], behind[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    numbers = [n for n in (*before, *behind) if not isinstance(n, Node)]
    fill = [b.value(value or 0, node.meta["val"].dtype)] if mode == "constant" else []
    if min(numbers, default=0) < 0 and len(numbers) == 2 * rank:
        starts = [max(-n, 0) for n in before]
        ends = [n if n < 0 else _LAST for n in behind]
        result = b.op("Slice", result, b.sizes(starts), b.sizes(ends))
        before, behind = ([max(n, 0) for n in side] for side in (before, behind))
    if not rank:
        return result
    boolean = short(b.tensor(x).dtype) == "bool"
    if boolean:
        result, fill = b.op("Cast", result, to=DTYPES["uint8"]), [
            b.constant(int(bool(value)), "uint8")]
    result = b.op("Pad", result, b.sizes([*before, *behind]), *fill, mode=_PAD_MODES[mode])
    return b.op("Cast", result, to=DTYPES["bool"]) if boolean else result


def _pad_around(b: GraphBuilder, x: Any, pad: Any) -> str:
    """Pad each axis with what lies at its other end."""
    rank, result = b.rank(x), b.value(x)
    for i in range(len(pad) // 2):
        before, behind = pad[2 * i], pad[2 * i + 1]
        axis = rank - 1 - i
        at = b.constant([axis], "int64")
        parts = [result]
        if before > 0:
            parts.insert(0, b.op("Slice", result, b.sizes([-before]), b.sizes([_LAST]), at))
        if behind > 0:
            parts.append(b.op("Slice", result, b.sizes([0]), b.sizes([behind]), at))
        if len(parts) > 1:
            result = b.op("Concat", *parts, axis=axis)
        if min(before, behind) < 0:
            start = b.sizes([max(-before, 0)])
            end = b.sizes([behind if behind < 0 else _LAST])
            result = b.op("Slice", result, start, end, at)
    return result


@converts("roll")
def _roll(b: GraphBuilder, node: Node, x: Any, shifts: Any, dims: Any = ()) -> str:
    value = b.value(x)
    shifts = [shifts] if isinstance(shifts, int) else shifts
    dims = [dims] if isinstance(dims, int) else dims
    if not dims:
        value, whole = b.op("Reshape", value, b.sizes([-1])), b.op("Shape", value)
        cut = b.sizes([-shifts[0]])
        last = b.op("Slice", value, cut, b.sizes([_LAST]), b.sizes([0]))
        first = b.op("Slice", value, b.sizes([0]), cut, b.sizes([0]))
        return b.op("Reshape", b.op("Concat", last, first, axis=0), whole)
    for shift, dim in zip(shifts, dims, strict=True):
        if shift == 0:
            continue
        axes, cut = b.sizes([b.axis(x, dim)]), b.sizes([-shift])
        last = b.op("Slice", value, cut, b.sizes([_LAST]), axes)
        first = b.op("Slice", value, b.sizes([0]), cut, axes)
        value = b.op("Concat", last, first, axis=b.axis(x, dim))
    return value


@converts("tril", upper=0)
@converts("triu", upper=1)
def _triangle(b: GraphBuilder, node: Node, x: Any, diagonal: int = 0, *, upper: int) -> str:
    value = b.value(x)
    boolean = short(b.tensor(x).dtype) == "bool"
    if boolean:
        value = b.op("Cast", value, to=7)
    result = b.op("Trilu", value, b.constant(diagonal, "int64"), upper=upper)
    return b.op("Cast", result, to=9) if boolean else result


# ----------------------------------------------------------------------------- new tensors


def _filled(b: GraphBuilder, node: Node, shape: str, value: Any) -> str:
    dtype = short(node.meta["val"].dtype)
    return b.op("Expand", b.value(value) if isinstance(value, Node) else b.constant(value, dtype),
                shape)


@converts("zeros", "empty", value=0)
@converts("ones", value=1)
def _zeros(b: GraphBuilder, node: Node, *size: Any, value: int, **kwargs: Any) -> str:
    lengths = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
    return _filled(b, node, b.sizes(lengths), value)


@converts("full")
def _full(b: GraphBuilder, node: Node, size: Any, fill_value: Any, **kwargs: Any) -> str:
    return _filled(b, node, b.sizes(size), fill_value)


@converts("new_zeros", "new_empty", value=0)
@converts("new_ones", value=1)
def _new_zeros(b: GraphBuilder, node: Node, x: Any, *size: Any, value: int, **kwargs: Any) -> str:
    lengths = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
    return _filled(b, node, b.sizes(lengths), value)


@converts("new_full")
def _new_full(b: GraphBuilder, node: Node, x: Any, size: Any, value: Any, **kwargs: Any) -> str:
    return _filled(b, node, b.sizes(size), value)


@converts("zeros_like", "empty_like", value=0)
@converts("ones_like", value=1)
def _like(b: GraphBuilder, node: Node, x: Any, *, value: int, **kwargs: Any) -> str:
    return _filled(b, node, b.op("Shape", b.value(x)), value)


@converts("full_like")
def _full_like(b: GraphBuilder, node: Node, x: Any, value: Any, **kwargs: Any) -> str:
    return _filled(b, node, b.op("Shape", b.value(x)), value)


@converts("zero_")
def _zero(b: GraphBuilder, node: Node, x: Any) -> str:
    return _filled(b, node, b.op("Shape", b.value(x)), 0)


@converts("fill_")
def _fill(b: GraphBuilder, node: Node, x: Any, value: Any) -> str:
    return _filled(b, node, b.op("Shape", b.value(x)), value)


@converts("copy_")
def _copy(b: GraphBuilder, node: Node, x: Any, source: Any, *args: Any) -> str:
    return b.op("Expand", b.cast(source, node.meta["val"].dtype), b.op("Shape", b.value(x)))


@converts("arange")
def _arange(b: GraphBuilder, node: Node, *bounds: Any, **kwargs: Any) -> str:
    dtype = node.meta["val"].dtype
    start, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    work = short(dtype) if not dtype.is_floating_point else "float32"

    def number(x: Any) -> str:
        return b.op("Cast", b.value(x), to=DTYPES[work]) if isinstance(x, Node) \
            else b.constant(x, work)

    result = b.op("Range", number(start), number(end), number(step))
    return result if work == short(dtype) else b.op("Cast", result, to=DTYPES[short(dtype)])


@converts("tensor", "scalar_tensor", "as_tensor")
def _tensor(b: GraphBuilder, node: Node, data: Any, **kwargs: Any) -> str:
    value = node.meta["val"]
    assert isinstance(value, Tensor)
    if isinstance(data, Node):
        return b.cast(data, value.dtype)
    return b.constant(value.detach().numpy(), short(value.dtype))


@converts("operator.getitem")
def _getitem(b: GraphBuilder, node: Node, x: Any, i: int) -> str:
    values = b.name(x)
    name: str = values[i]
    if not name:
        raise NotImplementedError(f"result {i} of {x.target}")
    return name
