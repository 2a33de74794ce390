"""NumPy's functions on symbols: reductions, shapes, joining and selection."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...native.loops import Fold, Scalar, Type
from .. import graph
from ..graph import Node, Op
from .indexing import positions, rows
from .nodes import where as chosen
from .nodes import (
    applied, broadcast_shape, cast, computed, dtype_of, folded, iota, joined, lifted,
    number, reshaped, sliced, stacked, stretched, type_of,
)  # fmt: skip
from .registry import refuse
from .symbol import _FUNCTIONS, _METHODS, SymbolArray, called, is_symbol, kind_of, node_of
from .ufuncs import FOLDS, ON_BOOLS


def stands_for(*functions: Callable) -> Callable[[Callable], Callable]:
    """Declares what stands for functions of NumPy."""

    def decorate(made: Callable) -> Callable:
        for function in functions:
            _FUNCTIONS[function] = made
        return made

    return decorate


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """NumPy's axis as a sorted tuple."""
    if axis is None:
        return tuple(range(rank))
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted({int(a) % rank for a in given})) if rank else ()


# ------------------------------------------------------------------------------- folds


def reduced(fold: Fold, x: Any, axis: Any, keepdims: bool = False, dtype: Any = None,
            out: Any = None) -> SymbolArray:  # fmt: skip
    """A fold over axes, half precision in F32."""
    node = node_of(x)
    type = node.type if dtype is None else type_of(dtype)
    node = cast(node, type)
    inside = computed(type)
    if type is Type.BOOL:
        fold = ON_BOOLS.get(fold, fold)
    axes = axes_of(axis, len(node.shape))
    empty = any(node.shape[i] == 0 for i in axes)
    if empty and fold in (Fold.MAXIMUM, Fold.MINIMUM):
        refuse("an extreme of nothing")
    made = SymbolArray(cast(folded(cast(node, inside), fold, axes, keepdims), type))
    if out is None or out is Ellipsis:
        return made
    out = out[0] if isinstance(out, tuple) else out
    out.assign(made.node)
    return out


def _reduce(
    ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
    keepdims: bool = False, initial: Any = None, where: Any = True,
) -> SymbolArray:  # fmt: skip
    fold = FOLDS.get(ufunc.__name__)
    if fold is None or where is not True:
        refuse(f"{ufunc.__name__}.reduce")
    if initial is not None and initial is not np._NoValue:
        if 0 in np.shape(array):
            refuse("a fold of nothing from a start")
        made = _reduce(ufunc, array, axis, dtype, None, keepdims)
        return called(ufunc, (made, initial), out=out)
    if fold in (Fold.ANY, Fold.ALL) and node_of(array).type is not Type.BOOL:
        if ufunc.__name__.startswith("bitwise"):
            refuse("folds of bits")
        array = called(np.not_equal, (array, 0))
    if fold in (Fold.SUM, Fold.PRODUCT) and dtype is None:
        dtype = summed(array.dtype)
    return reduced(fold, array, axis, keepdims, dtype, out)


def summed(kind: np.dtype) -> np.dtype:
    """The dtype of NumPy's sums: int64 for narrower integers."""
    if kind.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if kind.kind == "u" else kind


_METHODS["reduce"] = _reduce


def _fold_function(ufunc: np.ufunc) -> Callable[..., SymbolArray]:
    def made(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
             keepdims: Any = False, **options: Any) -> SymbolArray:  # fmt: skip
        if any(v is not np._NoValue and v is not None for v in options.values()):
            refuse(f"{ufunc.__name__} with {', '.join(options)}")
        keep = keepdims is not np._NoValue and bool(keepdims)
        return _reduce(ufunc, a, axis, dtype, out, keep)

    return made


for _ufunc, _names in ((np.add, (np.sum,)), (np.multiply, (np.prod,)),
                       (np.maximum, (np.max, np.amax)), (np.minimum, (np.min, np.amin)),
                       (np.logical_or, (np.any,)), (np.logical_and, (np.all,))):  # fmt: skip
    stands_for(*_names)(_fold_function(_ufunc))


@stands_for(np.mean)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
         **_: Any) -> SymbolArray:  # fmt: skip
    """A sum over the count."""
    kind = np.dtype(dtype) if dtype is not None else a.dtype if a.dtype.kind in "fV" \
        else np.dtype(np.float64)  # fmt: skip
    keep = keepdims is not np._NoValue and bool(keepdims)
    count = math.prod(a.shape[i] for i in axes_of(axis, a.ndim))
    return called(np.divide, (reduced(Fold.SUM, a, axis, keep, kind), kind.type(count)), out=out)


@stands_for(np.var)
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0,
        keepdims: Any = False, **_: Any) -> SymbolArray:  # fmt: skip
    """The mean of squared distances from the mean."""
    d = a - mean(a, axis, dtype, keepdims=True)
    count = math.prod(a.shape[i] for i in axes_of(axis, a.ndim))
    keep = keepdims is not np._NoValue and bool(keepdims)
    return reduced(Fold.SUM, d * d, axis, keep) / d.dtype.type(max(count - ddof, 0))


@stands_for(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> SymbolArray:
    """How many elements are not zero."""
    return reduced(Fold.SUM, called(np.not_equal, (a, 0)), axis, keepdims, np.int64)


def _place_of(fold: Fold) -> Callable[..., SymbolArray]:
    def made(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> SymbolArray:
        node = node_of(a)
        keep = keepdims is not np._NoValue and bool(keepdims)
        if not len(node.shape):
            node = reshaped(node, (1,))
        flat = node if axis is not None else reshaped(node, (-1,))
        at = int(axis or 0) % len(flat.shape)
        if not flat.shape[at]:
            refuse("the place of an extreme of nothing")
        flat = cast(flat, Type.U8 if flat.type is Type.BOOL else computed(flat.type))
        found = folded(flat, fold, (at,), keep and axis is not None)
        return SymbolArray(found)

    return made


stands_for(np.argmax)(_place_of(Fold.ARGMAX))
stands_for(np.argmin)(_place_of(Fold.ARGMIN))


def scanned(fold: Fold, x: Any, axis: Any, dtype: Any = None, out: Any = None) -> SymbolArray:
    """Running folds along an axis."""
    node = node_of(x)
    node = node if axis is not None else reshaped(node, (-1,))
    if not node.shape:
        return SymbolArray(node)
    type = node.type if dtype is None else type_of(dtype)
    inside = computed(type)
    node = cast(cast(node, type), inside)
    made = Node(Op.SCAN, (node,), node.shape, inside,
                {"fold": fold, "axis": int(axis or 0) % len(node.shape)})  # fmt: skip
    made = cast(made, type)
    if out is None:
        return SymbolArray(made)
    out.assign(made)
    return out


def _accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None,
                out: Any = None) -> SymbolArray:  # fmt: skip
    fold = FOLDS.get(ufunc.__name__)
    if fold not in (Fold.SUM, Fold.PRODUCT, Fold.MAXIMUM, Fold.MINIMUM):
        refuse(f"{ufunc.__name__}.accumulate")
    if fold in (Fold.SUM, Fold.PRODUCT) and dtype is None:
        dtype = summed(array.dtype)
    return scanned(fold, array, axis, dtype, out)


_METHODS["accumulate"] = _accumulate


@stands_for(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> SymbolArray:
    """Running sums."""
    return scanned(Fold.SUM, a, axis, summed(a.dtype) if dtype is None else dtype, out)


@stands_for(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> SymbolArray:
    """Running products."""
    return scanned(Fold.PRODUCT, a, axis, summed(a.dtype) if dtype is None else dtype, out)


def _outer(ufunc: np.ufunc, a: Any, b: Any, **options: Any) -> SymbolArray:
    left = SymbolArray(node_of(a))
    return called(ufunc, (left.reshape((*left.shape, *(1,) * np.ndim(b))), b), **options)


_METHODS["outer"] = _outer


# ------------------------------------------------------------------------------- shapes


@stands_for(np.shape)
def _shape(a: Any) -> tuple[int, ...]:
    return a.shape


@stands_for(np.ndim)
def _ndim(a: Any) -> int:
    return a.ndim


@stands_for(np.size)
def _size(a: Any, axis: Any = None) -> int:
    return a.size if axis is None else math.prod(a.shape[i] for i in axes_of(axis, a.ndim))


@stands_for(np.result_type)
def _result_type(*given: Any) -> np.dtype:
    return np.result_type(*(x.dtype if is_symbol(x) else x for x in given))


@stands_for(np.reshape)
def _reshape(a: Any, shape: Any, order: str = "C", *, copy: Any = None) -> SymbolArray:
    return a.reshape(shape)


@stands_for(np.ravel)
def _ravel(a: Any, order: str = "C") -> SymbolArray:
    return a.reshape(-1)


@stands_for(np.transpose, np.permute_dims)
def _transpose(a: Any, axes: Any = None) -> SymbolArray:
    return a.transpose(axes)


@stands_for(np.swapaxes)
def _swapaxes(a: Any, axis1: int, axis2: int) -> SymbolArray:
    return a.swapaxes(axis1, axis2)


@stands_for(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> SymbolArray:
    sources = [s % a.ndim for s in ([source] if isinstance(source, int) else source)]
    targets = [t % a.ndim for t in ([destination] if isinstance(destination, int)
                                    else destination)]  # fmt: skip
    order = [i for i in range(a.ndim) if i not in sources]
    for t, s in sorted(zip(targets, sources, strict=True)):
        order.insert(t, s)
    return a.transpose(order)


@stands_for(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> SymbolArray:
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = a.ndim + len(given)
    new = {g % rank for g in given}
    rest = iter(a.shape)
    return a.reshape([1 if i in new else next(rest) for i in range(rank)])


@stands_for(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> SymbolArray:
    return a.squeeze(axis)


@stands_for(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any, subok: bool = False) -> SymbolArray:
    return SymbolArray(stretched(node_of(array), (shape,) if isinstance(shape, int) else shape))


@stands_for(np.broadcast_arrays)
def _broadcast_arrays(*args: Any, subok: bool = False) -> tuple[SymbolArray, ...]:
    shape = np.broadcast_shapes(*(np.shape(a) for a in args))
    return tuple(SymbolArray(stretched(node_of(a), shape)) for a in args)


@stands_for(np.copy)
def _copy(a: Any, order: str = "K", subok: bool = False) -> SymbolArray:
    return a.copy()


@stands_for(np.real)
def _real(val: Any) -> SymbolArray:
    return val


@stands_for(np.imag)
def _imag(val: Any) -> SymbolArray:
    return val.imag


@stands_for(np.isreal)
def _isreal(x: Any) -> SymbolArray:
    return SymbolArray(graph.constant(True, Type.BOOL, x.shape))


@stands_for(np.iscomplexobj)
def _iscomplexobj(x: Any) -> bool:
    return False


def _like(value: Any) -> Callable[..., SymbolArray]:
    def made(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None,
             **_: Any) -> SymbolArray:  # fmt: skip
        kind = a.dtype if dtype is None else np.dtype(dtype)
        wanted = a.shape if shape is None else shape
        return SymbolArray(graph.constant(value, type_of(kind), tuple(wanted)))

    return made


stands_for(np.zeros_like, np.empty_like)(_like(0))
stands_for(np.ones_like)(_like(1))


@stands_for(np.full_like)
def _full_like(a: Any, fill_value: Any, dtype: Any = None, **_: Any) -> SymbolArray:
    kind = a.dtype if dtype is None else np.dtype(dtype)
    return SymbolArray(stretched(node_of(fill_value, kind), a.shape))


# ------------------------------------------------------------------------------- joining


def _common(arrays: Sequence[Any]) -> list[Node]:
    kind = np.result_type(*(kind_of(a) if not isinstance(kind_of(a), type) else a for a in arrays))
    return [node_of(a, kind) for a in arrays]


@stands_for(np.concatenate)
def _concatenate(arrays: Any, axis: Any = 0, out: Any = None, **_: Any) -> SymbolArray:
    nodes = _common(arrays)
    if axis is None:
        nodes, axis = [reshaped(n, (-1,)) for n in nodes], 0
    return SymbolArray(joined(nodes, axis % len(nodes[0].shape)))


@stands_for(np.stack)
def _stack(arrays: Any, axis: int = 0, out: Any = None, **_: Any) -> SymbolArray:
    nodes = _common(arrays)
    return SymbolArray(stacked(nodes, axis % (len(nodes[0].shape) + 1)))


@stands_for(np.split)
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[SymbolArray]:
    n = ary.shape[axis]
    if isinstance(indices_or_sections, int):
        step = n // indices_or_sections
        bounds = list(range(0, n + 1, step)) if step else [0] * (indices_or_sections + 1)
    else:
        bounds = [0, *map(int, indices_or_sections), n]
    head = (slice(None),) * (axis % ary.ndim)
    return [ary[(*head, slice(a, b))] for a, b in zip(bounds, bounds[1:], strict=False)]


@stands_for(np.flip)
def _flip(m: Any, axis: Any = None) -> SymbolArray:
    axes = axes_of(axis, m.ndim)
    return m[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(m.ndim))]


@stands_for(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> SymbolArray:
    if axis is None:
        return _roll(a.reshape(-1), shift, 0).reshape(a.shape)
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    node = node_of(a)
    for s, at in zip(shifts, axes, strict=True):
        at %= len(node.shape)
        n = node.shape[at]
        k = int(s) % n if n else 0
        if k:
            node = joined([sliced(node, at, n - k, k), sliced(node, at, 0, n - k)], at)
    return SymbolArray(node)


@stands_for(np.tile)
def _tile(A: Any, reps: Any) -> SymbolArray:
    repeats = list(reps) if hasattr(reps, "__len__") else [reps]
    node = lifted(node_of(A), len(repeats))
    repeats = [1] * (len(node.shape) - len(repeats)) + repeats
    pairs = [(r, n) for r, n in zip(repeats, node.shape, strict=True)]
    inner = reshaped(node, [v for _, n in pairs for v in (1, n)])
    return SymbolArray(reshaped(stretched(inner, [v for p in pairs for v in p]),
                                [r * n for r, n in pairs]))  # fmt: skip


@stands_for(np.repeat)
def _repeat(a: Any, repeats: Any, axis: Any = None) -> SymbolArray:
    if not isinstance(repeats, (int, np.integer)):
        refuse("repeats that differ")
    node = node_of(a) if axis is not None else reshaped(node_of(a), (-1,))
    at = int(axis or 0) % len(node.shape)
    shape, r = list(node.shape), int(repeats)
    inner = reshaped(node, [*shape[: at + 1], 1, *shape[at + 1 :]])
    wide = stretched(inner, [*shape[: at + 1], r, *shape[at + 1 :]])
    return SymbolArray(reshaped(wide, [*shape[:at], shape[at] * r, *shape[at + 1 :]]))


@stands_for(np.pad)
def _pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> SymbolArray:
    if mode != "constant" or any(np.any(v) for v in options.values()):
        refuse("np.pad but for zeros")
    pairs = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2)).tolist()
    low, high = zip(*pairs, strict=True)
    return SymbolArray(graph.pad(node_of(array), low, high))


@stands_for(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1, **_: Any) -> SymbolArray:
    head = (slice(None),) * (axis % a.ndim)
    for _round in range(n):
        a = a[(*head, slice(1, None))] - a[(*head, slice(None, -1))]
    return a


# ------------------------------------------------------------------------------- selection


@stands_for(np.where)
def _where(condition: Any, *choices: Any) -> SymbolArray:
    if len(choices) != 2:
        refuse("the places where a condition holds")
    test = node_of(condition)
    if test.type is not Type.BOOL:
        test = applied(Scalar.NE, test, number(0, test.type, len(test.shape)))
    kinds = [v if isinstance(kind_of(v), type) else kind_of(v) for v in choices]
    kind = np.result_type(*kinds)
    return SymbolArray(chosen(test, *(node_of(v, kind) for v in choices)))


@stands_for(np.copyto)
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    made = node_of(src, dst.dtype)
    if where is not True:
        made = chosen(node_of(where), made, dst.node)
    dst.assign(made)


@stands_for(np.clip)
def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **_: Any) -> SymbolArray:
    y = a if a_min is None else called(np.maximum, (a, a_min))
    y = y if a_max is None else called(np.minimum, (y, a_max))
    return y if out is None else called(np.positive, (y,), out=out)


@stands_for(np.take)
def _take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    if mode != "raise":
        refuse("np.take with a mode")
    node = node_of(a) if axis is not None else reshaped(node_of(a), (-1,))
    return SymbolArray(rows(node, node_of(indices), int(axis or 0) % len(node.shape)))


@stands_for(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> SymbolArray:
    """Elements at positions along an axis; other axes broadcast."""
    x, index = node_of(arr), node_of(indices)
    at = axis % len(x.shape)
    index = positions(index, x.shape[at])
    shape = list(broadcast_shape(reshaped_one(x, at), reshaped_one(index, at)))
    index = stretched(index, [index.shape[at] if i == at else n for i, n in enumerate(shape)])
    x = stretched(x, [x.shape[at] if i == at else n for i, n in enumerate(shape)])
    return SymbolArray(Node(Op.TAKE_ALONG, (x, index), index.shape, x.type, {"axis": at}))


def reshaped_one(node: Node, axis: int) -> Node:
    """A stand-in with extent 1 along an axis, for its shape alone."""
    shape = tuple(1 if i == axis else n for i, n in enumerate(node.shape))
    return graph.constant(0, node.type, shape)


@stands_for(np.diagonal)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> SymbolArray:
    """Elements where two axes have one index, as the last axis: a window."""
    first, second = axis1 % a.ndim, axis2 % a.ndim
    order = [i for i in range(a.ndim) if i not in (first, second)]
    turned = a.transpose((*order, first, second))
    n, m = turned.shape[-2:]
    length = max(min(n, m - offset) if offset >= 0 else min(n + offset, m), 0)
    start = (offset if offset >= 0 else -offset * m) if length else 0
    flat = turned.reshape((*turned.shape[:-2], n * m))
    return flat[..., start : start + (length - 1) * (m + 1) + 1 : m + 1] if length \
        else flat[..., :0]  # fmt: skip


@stands_for(np.tril)
def _tril(m: Any, k: int = 0) -> SymbolArray:
    keep = triangle(m.shape, k)
    return SymbolArray(chosen(keep, m.node, number(0, m.node.type, m.ndim)))


@stands_for(np.triu)
def _triu(m: Any, k: int = 0) -> SymbolArray:
    keep = triangle(m.shape, k - 1)
    return SymbolArray(chosen(keep, number(0, m.node.type, m.ndim), m.node))


def triangle(shape: Sequence[int], k: int) -> Node:
    """Where matrices have their lower triangle, up to the diagonal k."""
    rank = len(shape)
    row, column = iota(shape, rank - 2), iota(shape, rank - 1)
    shifted = applied(Scalar.ADD, row, number(k, Type.I64, rank)) if k else row
    return applied(Scalar.LE, column, shifted)


# ------------------------------------------------------------------------------- products


@stands_for(np.dot)
def _dot(a: Any, b: Any, out: Any = None) -> SymbolArray:
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return called(np.multiply, (a, b), out=out)
    if b.ndim > 2:
        refuse("np.dot of more than matrices")
    return called(np.matmul, (a, b), out=out)


@stands_for(np.outer)
def _outer_product(a: Any, b: Any, out: Any = None) -> SymbolArray:
    return called(np.multiply, (a.reshape(-1)[:, None], b.reshape(-1)[None, :]))


@stands_for(np.einsum)
def einsum(subscripts: Any, *operands: Any, **_: Any) -> SymbolArray:
    """Products summed over letters, of one or two operands; no letter twice in one."""
    given, _arrow, target = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    if not _arrow or len(terms) > 2 or any(len(set(t) - {"."}) != len(t.replace(".", ""))
                                           for t in terms):  # fmt: skip
        refuse(f"np.einsum of {subscripts}")
    if "..." in subscripts:
        terms, target = _spelled(terms, target, [np.ndim(x) for x in operands])
        if any(len(set(t)) != len(t) for t in terms):
            refuse(f"np.einsum of {subscripts}")
    sizes = {c: n for t, x in zip(terms, operands, strict=True)
             for c, n in zip(t, x.shape, strict=True)}  # fmt: skip
    nodes = [node_of(x) for x in operands]
    if len(nodes) == 1:
        kept = [c for c in terms[0] if c in target]
        made = folded(nodes[0], Fold.SUM, [i for i, c in enumerate(terms[0]) if c not in target])
        return SymbolArray(graph.permute(made, [kept.index(c) for c in target]))
    return SymbolArray(_pair(nodes, terms, target, sizes))


def _spelled(terms: list[str], target: str, ranks: list[int]) -> tuple[list[str], str]:
    """Ellipses as letters."""
    many = max(r - len(t) + 3 for t, r in zip(terms, ranks, strict=True) if "..." in t)
    letters = "ABCDEFGHIJ"[:many]
    named = []
    for t, r in zip(terms, ranks, strict=True):
        n = r - len(t) + 3
        named.append(t.replace("...", letters[many - n :]) if "..." in t else t)
    return named, target.replace("...", letters)


def _pair(nodes: list[Node], terms: list[str], target: str, sizes: dict[str, int]) -> Node:
    a, b = terms
    batch = [c for c in target if c in a and c in b]
    left = [c for c in target if c in a and c not in b]
    right = [c for c in target if c in b and c not in a]
    depth = [c for c in a if c in b and c not in target]
    made = []
    for node, term, order in ((nodes[0], a, (batch, left, depth)),
                              (nodes[1], b, (batch, depth, right))):  # fmt: skip
        flat = [c for group in order for c in group]
        extra = [i for i, c in enumerate(term) if c not in flat]
        node = folded(node, Fold.SUM, extra)
        kept = [c for c in term if c in flat]
        node = graph.permute(node, [kept.index(c) for c in flat])
        made.append(reshaped(node, [math.prod(sizes[c] for c in group) for group in order]))
    type = type_of(np.result_type(*(dtype_of(n.type) for n in made)))
    inside = computed(type)
    y = cast(graph.matmul(*(cast(n, inside) for n in made)), type)
    found = batch + left + right
    y = reshaped(y, [sizes[c] for c in found])
    return graph.permute(y, [found.index(c) for c in target])


@stands_for(np.trace)
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, **_: Any) -> SymbolArray:
    return _reduce(np.add, diagonal(a, offset, axis1, axis2), -1)
