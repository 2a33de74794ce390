"""Joining and repeating: cat, stack and their like, flip, roll, repeat, tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...autograd.backward import Functions
from ...native.target.eager_costs import MIN_THREADED_COPY_BYTES
from ...tensor.capture_marks import are_nonnegative, holds
from ...tensor.dtypes import get_default_dtype
from ...tensor.layout import contiguous_format
from ...tensor.meta import MetaArray, meta_array, refuse_unknown_repeats
from ...tensor.narrow_dtypes import refuse_eight_bit
from ...tensor.overlap import Overlap
from ...tensor.promotion import build_missing_kernel_error, result_dtype
from ...tensor.size import Size
from ...tensor.tensor import Tensor, wrap
from ...tensor.windows.batch import Batch
from ..core.arguments.checks import check_sizes
from ..core.autocast import Policy
from ..core.axes import canonicalize_dim, canonicalize_dims
from ..core.errors import RefusedValue
from ..core.operator import Array
from ..core.out import write_result
from ..core.output_layout import Layout, lay_out
from ..core.registry import composite, opaque
from ..core.sample_inputs import Rng, Sample
from ..native.row_copies import join_rows, try_copy_kernel
from .reshape import view_as_shape

_ndarray = np.ndarray


def _is_legacy_empty(a: Array) -> bool:
    return a.ndim == 1 and a.size == 0  # torch.cat passes over these, whatever the other shapes


def _join_few(function: Any, arrays: Sequence[Array], dim: int) -> Array | None:
    """NumPy's function of a few small arrays of one dtype; None where that is not so, or fails."""
    kind, size = arrays[0].dtype, 0
    for a in arrays:
        if a.__class__ is not _ndarray or a.dtype is not kind:
            return None
        size += a.nbytes
    if size >= MIN_THREADED_COPY_BYTES:
        return None
    try:
        return function(arrays, dim)
    except (ValueError, IndexError, TypeError):
        return None


@opaque(extents_follow=True,
        autocast=Policy.WIDEST, linear_in="tensors", layout=Layout.ALL_CHANNELS_LAST,
        overlap=Overlap.NONE, ref=lambda xs, dim=0: np.concatenate(xs, dim),
        aliases=("concat", "concatenate"),
        samples=lambda rng: iter([(([rng.normal(size=(2, 3)), rng.normal(size=(1, 3))],), {}),
                                  (([rng.normal(size=(2, 3))] * 2, 1), {})]), expose=("torch",))
def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Concatenate tensors along an existing axis.

    >>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])
    """
    if not tensors:
        raise RefusedValue("torch.cat(): expected a non-empty list of Tensors")
    if (y := _join_few(np.concatenate, tensors, dim)) is not None:
        return y
    nonempty = [a for a in tensors if not _is_legacy_empty(a)]
    if not nonempty:
        return np.empty(0, result_dtype(tensors).numpy)
    first = nonempty[0]
    for i, a in enumerate(nonempty):
        if a.ndim == 0:
            raise RuntimeError(
                f"zero-dimensional tensor (at position {i}) cannot be concatenated"
            )
    at = canonicalize_dim(dim, first.ndim)
    for i, a in enumerate(nonempty):
        if a.ndim != first.ndim:
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.ndim} and {a.ndim}"
            )
        for axis, (m, n) in enumerate(zip(first.shape, a.shape, strict=True)):
            if m != n and axis != at:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {at}. Expected size {m} but "
                    f"got size {n} for tensor number {i} in the list."
                )
    if all(a.dtype is first.dtype for a in tensors):
        return np.concatenate(nonempty, at) if (y := join_rows(nonempty, at)) is None else y
    kind = result_dtype(tensors).numpy
    return np.concatenate([a.astype(kind, copy=False) for a in nonempty], at)


@cat.batch
def _(batch: Batch, tensors: Sequence[Tensor], dim: int) -> Tensor:
    rank = tensors[0].dim() if tensors else 0
    if not rank or any(t.dim() != rank for t in tensors):
        return NotImplemented  # examples without axes, or of several ranks
    return cat([batch.expand(t) for t in tensors], canonicalize_dim(dim, rank) + 1)


@cat.vjp("tensors")
def _(
    g: Tensor, tensors_shape: tuple[tuple[int, ...], ...], dim: int
) -> tuple[Tensor | None, ...]:
    axis = dim % g.dim()
    result, start = [], 0
    for shape in tensors_shape:
        if len(shape) == 1 and shape[0] == 0:
            result.append(g.new_zeros(0))
            continue
        result.append(g.narrow(axis, start, shape[axis]))
        start += shape[axis]
    return tuple(result)


@opaque(extents_follow=True, autocast=Policy.WIDEST, layout=Layout.FREE, overlap=Overlap.NONE,
        linear_in="tensors", ref=lambda xs, dim=0: np.stack(xs, dim), expose=("torch",),
        samples=lambda rng: iter([(([rng.normal(size=(2, 3))] * 3, 1), {}),
                                  (([rng.normal(size=())] * 2,), {})]))
def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Stack tensors of the same shape along a new axis.

    Args:
        dim: The place of the new axis.
        tensors: The tensors to join, all of one shape.

    >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]
    axis = canonicalize_dim(dim, first.ndim + 1)
    for i, a in enumerate(tensors):
        if a.shape != first.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry "
                f"0 and {list(a.shape)} at entry {i}"
            )
    if axis < first.ndim and first.ndim in (4, 5) and not first.flags.c_contiguous:
        joined = lay_out(Layout.ALL_CHANNELS_LAST, cat.operator.body(tensors, axis), (tensors,))
        shape = (*first.shape[:axis], len(tensors), *first.shape[axis:])
        viewed = view_as_shape(joined, shape)
        return joined.reshape(shape) if viewed is None else viewed
    if axis == 0 and first.ndim and (y := _join_few(np.concatenate, tensors, 0)) is not None:
        return np.ascontiguousarray(y).reshape(len(tensors), *first.shape)
    if all(a.dtype is first.dtype for a in tensors):
        y = join_rows(tensors, axis, new=True)
        return np.ascontiguousarray(np.stack(tensors, axis)) if y is None else y
    kind = result_dtype(tensors).numpy
    return np.ascontiguousarray(np.stack([a.astype(kind, copy=False) for a in tensors], axis))


Functions.stack = stack


@stack.batch
def _(batch: Batch, tensors: Sequence[Tensor], dim: int) -> Tensor:
    return stack([batch.expand(x) for x in tensors],
                 canonicalize_dim(dim, tensors[0].dim() + 1) + 1)


@stack.vjp("tensors")
def _(g: Tensor, dim: int) -> tuple[Tensor | None, ...]:
    return g.unbind(dim)


# ------------------------------------------------------------------------- other ways to join


def _view_at_least(x: Tensor, rank: int) -> Tensor:
    return x.reshape((1,) * (rank - x._array.ndim) + x._array.shape) if x._array.ndim < rank else x


def _map_tensors(function: Callable[..., Any], tensors: tuple) -> tuple[Tensor | None, ...]:
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        return tuple(function(x) for x in tensors[0])
    if len(tensors) == 1:
        return function(tensors[0])
    return tuple(function(x) for x in tensors)


@composite(expose=("torch",), explains=True)
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Give 0-dim tensors one axis; return others unchanged.

    Args:
        tensors: The tensors.

    >>> torch.atleast_1d(torch.tensor(3))
    tensor([3])
    """
    return _map_tensors(lambda x: _view_at_least(x, 1), tensors)


@composite(expose=("torch",), explains=True)
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Give tensors at least two axes, adding new ones in front.

    Args:
        tensors: The tensors.

    >>> torch.atleast_2d(torch.tensor([1, 2]))
    tensor([[1, 2]])
    """
    return _map_tensors(lambda x: _view_at_least(x, 2), tensors)


def _view_as_volume(x: Tensor) -> Tensor:
    n = x._array.ndim
    return x.unsqueeze(-1) if n == 2 else x.reshape(1, -1, 1) if n < 2 else x


@composite(expose=("torch",), explains=True)
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Give tensors at least three axes, placed as in NumPy.

    Args:
        tensors: The tensors.

    >>> torch.atleast_3d(torch.zeros(2)).shape, torch.atleast_3d(torch.zeros(2, 3)).shape
    (torch.Size([1, 2, 1]), torch.Size([2, 3, 1]))
    """
    return _map_tensors(_view_as_volume, tensors)


def _declare_stack(name: str, doc: str, prepare: Any, dim_of: Any) -> Any:
    def function(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
        if isinstance(tensors, Tensor):
            raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, "
                            "not Tensor")
        if not len(tensors):
            raise RuntimeError(f"{name} expects a non-empty TensorList")
        parts = [prepare(x) for x in tensors]
        y = cat(parts, dim_of(parts[0]._array.ndim))
        return y if out is None else write_result(
            name, y, out, tuple(tensors), Overlap.NONE
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return composite(expose=("torch",))(function)


hstack = _declare_stack(
    "hstack", """Tensors side by side: along the second axis, or the first of vectors.

    >>> torch.hstack([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])
    """, lambda x: _view_at_least(x, 1), lambda n: 0 if n == 1 else 1)
vstack, row_stack = (_declare_stack(name, f"""Tensors on top of each other; a vector is a row.

    >>> torch.{name}([torch.tensor([1, 2]), torch.tensor([[3, 4]])])
    tensor([[1, 2],
            [3, 4]])
    """, lambda x: _view_at_least(x, 2), lambda n: 0) for name in ("vstack", "row_stack"))
dstack = _declare_stack("dstack", """Tensors behind each other, along the third axis.

    >>> torch.dstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """, _view_as_volume, lambda n: 2)
column_stack = _declare_stack(
    "column_stack", """Vectors as columns, matrices side by side.

    >>> torch.column_stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """,
    lambda x: x.reshape(-1, 1) if x._array.ndim < 2 else x, lambda n: 1,
)


@composite(expose=("torch",), explains=True, node="BlockDiagBackward0")
def block_diag(*tensors: Tensor) -> Tensor:
    """Build a block-diagonal matrix, zero outside the blocks.

    Args:
        tensors: The matrices; vectors count as rows.

    >>> torch.block_diag(torch.tensor([[1, 2]]), torch.tensor([[3], [4]]))
    tensor([[1, 2, 0],
            [0, 0, 3],
            [0, 0, 4]])
    """
    if not tensors:
        return wrap(np.empty((1, 0), get_default_dtype().numpy))
    kind = result_dtype(tensors)
    blocks = [_view_at_least(x, 2).to(kind) for x in tensors]
    for i, b in enumerate(blocks):
        if b._array.ndim != 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has "
                f"{b._array.ndim} dimensions"
            )
    width = sum(b._array.shape[1] for b in blocks)
    rows, column = [], 0
    for b in blocks:
        n, m = b._array.shape
        rows.append(cat([b.new_zeros((n, column)), b, b.new_zeros((n, width - column - m))], 1))
        column += m
    return cat(rows, 0)


@composite(expose=("torch",))
def broadcast_shapes(*shapes: Any) -> Size:
    """Return the shape that the given shapes broadcast to.

    Raises RuntimeError if lengths differ and neither is 1.

    >>> torch.broadcast_shapes((3, 1), (1, 4), (5, 1, 1))
    torch.Size([5, 3, 4])
    """
    extents = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    try:
        lengths = np.broadcast_shapes(*extents)
    except ValueError:
        raise RuntimeError(
            "Shape mismatch: objects cannot be broadcast to a single shape: "
            + ", ".join(map(str, extents))
        ) from None
    return Size(_restore_symbols(lengths, extents))


def _restore_symbols(lengths: tuple[int, ...], extents: list[tuple[int, ...]]) -> list[int]:
    """Return lengths, where possible as the symbolic numbers that traces and exports follow."""
    restored = list(lengths)
    for extent in extents:
        for axis, length in enumerate(extent, len(lengths) - len(extent)):
            if type(length) is not int and int.__index__(length) == lengths[axis]:
                restored[axis] = length
    return restored


# ----------------------------------------------------------------------- repeating, turning


def _flips(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(3, 4)), 0), {}
    yield (rng.normal(size=(2, 3, 4)), 0, 2), {}


@opaque(extents_follow=True, linear_in="input", requires_axes=True,
        layout=Layout.PRESERVE, ref=lambda x, *dims: np.flip(x, dims), samples=_flips)
def flip(input: Array, *dims: Any) -> Array:
    """Reverse the order of elements along axes.

    >>> torch.tensor([1, 2, 3]).flip(0)
    tensor([3, 2, 1])
    """
    result = canonicalize_dims(dims, input.ndim) if dims else ()
    if input.ndim - 1 in result:  # along other axes PyTorch copies bytes
        refuse_eight_bit(input, "flip_cpu")
    turned = input[tuple([slice(None, None, -1) if axis in result else slice(None)
                          for axis in range(input.ndim)])]
    return turned.copy() if (y := try_copy_kernel(turned)) is None else y


@flip.vjp
def _(g: Tensor, dims: Sequence[int]) -> Tensor:
    return g.flip(dims)


@composite(explains=True)
def fliplr(input: Tensor) -> Tensor:
    """Reverse the order of elements along the second axis.

    >>> torch.fliplr(torch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    if input._array.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


@composite(explains=True)
def flipud(input: Tensor) -> Tensor:
    """Reverse the order of elements along the first axis.

    >>> torch.flipud(torch.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    if input._array.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


@opaque(linear_in="input", layout=Layout.ALL_CHANNELS_LAST,
        ref=lambda x, shifts, dims=None: np.roll(x, shifts, dims),
        samples=lambda rng: iter([((rng.normal(size=(3, 4)), 1), {}),
                                  ((rng.normal(size=(3, 4)), (1, -2), (0, 1)), {})]))
def roll(
    input: Array, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None
) -> Array:
    """Shift elements along axes; those pushed off one end wrap around to the other.

    Args:
        dims: The axes. None: the flattened elements.

    >>> torch.roll(torch.tensor([1, 2, 3, 4]), 1)
    tensor([4, 1, 2, 3])
    >>> torch.roll(torch.tensor([[1, 2], [3, 4]]), 1, dims=0)
    tensor([[3, 4],
            [1, 2]])
    """
    if isinstance(shifts, np.integer):
        shifts = int(shifts)  # unsigned ones have no negative
    moves = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    axes = () if dims is None else (dims,) if isinstance(dims, (int, np.integer)) else tuple(dims)
    if not moves:
        raise RuntimeError("`shifts` required")
    if not axes and len(moves) == 1:
        return np.roll(input, moves[0])
    if len(axes) != len(moves):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(axes)}"
        )
    if not input.ndim:
        raise IndexError(f"Dimension specified as {axes[0]} but tensor has no dimensions")
    axis = [canonicalize_dim(d, input.ndim) for d in axes]
    if len(axis) == 1 and input.shape[axis[0]]:
        cut = -moves[0] % input.shape[axis[0]]
        head, tail = (input[(*[slice(None)] * axis[0], part)] for part in
                      (slice(cut, None), slice(cut)))
        for join in (partial(_join_few, np.concatenate), join_rows):
            if (y := join((head, tail), axis[0])) is not None:
                return y
    return np.roll(input, moves, axis)


@roll.batch
def _(batch: Batch, input: Tensor, shifts: int | Sequence[int],
      dims: int | Sequence[int] | None) -> Tensor:
    below = batch.lower(input)
    if dims is None or dims == () or dims == []:  # the elements of each example in a row
        return roll(below.reshape(batch.size, -1), shifts, 1).reshape(below.shape)
    n = input.dim()
    chosen = (dims,) if isinstance(dims, int) else dims
    return roll(below, shifts, tuple([canonicalize_dim(d, n) + 1 for d in chosen]))


@roll.vjp
def _(g: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None) -> Tensor:
    back = -shifts if isinstance(shifts, int) else tuple(-s for s in shifts)
    return g.roll(back, dims)


@composite(explains=True, node="Rot90Backward0")
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotate k times by 90 degrees in the plane of two axes.

    Args:
        dims: The two axes of the plane.

    >>> torch.rot90(torch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    n = input._array.ndim
    if len(dims) != 2:
        raise RuntimeError(
            f"expected total rotation dims == 2, but got dims = {len(dims)}"
        )
    if n < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {n}")
    a, b = (canonicalize_dim(d, n) for d in dims)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    turns = k % 4
    if turns == 0:
        return input.clone(memory_format=contiguous_format)
    if turns == 2:
        return flip(input, a, b)
    return flip(input, b).transpose(a, b) if turns == 1 else flip(input, a).transpose(a, b)


@opaque(linear_in="input", expose=("Tensor",),
        ref=lambda x, *sizes: np.tile(x, sizes),
        samples=lambda rng: iter([((rng.normal(size=(3, 4)), 2, 1), {}),
                                  ((rng.normal(size=3), 2, 2), {})]))
def repeat(input: Array, *repeats: Any) -> Array:
    """Repeat the tensor along each axis, copying the data.

    Args:
        repeats (ints): How often to repeat along each axis; more of them make new axes in front.

    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    if len(repeats) < input.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    if any(r < 0 for r in repeats):
        raise RuntimeError(f"Trying to create tensor with negative dimension: repeat {repeats}")
    return np.tile(input, repeats)


@repeat.vjp
def _(g: Tensor, input_shape: tuple[int, ...], repeats: Sequence[int]) -> Tensor:
    new = len(repeats) - len(input_shape)
    shape = (1,) * new + tuple(input_shape)
    parts: list[int] = []
    for r, n in zip(repeats, shape, strict=True):
        parts += [r, n]
    if 0 in repeats:
        return g.new_zeros(input_shape)
    y = g.reshape(parts).sum(tuple(range(0, 2 * len(repeats), 2)))
    return y.reshape(input_shape)


@composite(explains=True)
def tile(input: Tensor, *dims_: Any, dims: Sequence[int] | None = None) -> Tensor:
    """Repeat the whole tensor along each axis, like NumPy's tile.

    Args:
        dims: How often to repeat along each axis.

    >>> torch.tile(torch.tensor([1, 2]), (2, 2))
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    repeats = dims_ if dims is None else (dims,)
    if len(repeats) == 1 and isinstance(repeats[0], (tuple, list)):
        repeats = tuple(repeats[0])
    short = input._array.ndim - len(repeats)
    try:
        return repeat(input, *((1,) * short + tuple(repeats)))
    except TypeError:
        check_sizes("tile", "dims", repeats, spread=repeats is dims_)
        raise


@opaque(expose=(), ref=None, samples=None, value_dependent_shape="always")
def _repeat_indices(repeats: Array, size: int, total: int | None) -> Array:
    """Return each of `size` indices as often as `repeats` says: a count for all, or one for each.
    """
    if repeats.__class__ is MetaArray:
        return meta_array((total or 0,), repeats.dtype)
    indices = np.repeat(np.arange(size, dtype=repeats.dtype), repeats.reshape(-1))
    if total is not None and total != indices.size:
        raise RuntimeError("allocated size does not match required size")
    return indices


@composite(numpy_names=True, node="ViewBackward0")
def repeat_interleave(
    input: Tensor, repeats: Tensor | int | None = None, dim: int | None = None, *,
    output_size: int | None = None
) -> Tensor:
    """Repeat each element, or each slice along an axis, consecutively.

    Args:
        dim: The axis to repeat along. None: the flattened elements.
        output_size (int): The length of the result along `dim`, if it is known.

    >>> torch.repeat_interleave(torch.tensor([5, 6]), 2)
    tensor([5, 5, 6, 6])
    >>> torch.repeat_interleave(torch.tensor([5, 6]), torch.tensor([1, 3]))
    tensor([5, 6, 6, 6])
    """
    counted = input if repeats is None else repeats
    if isinstance(counted, Tensor):
        if counted._array.ndim > 1 or (repeats is None and not counted._array.ndim):
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        if counted._array.dtype.kind not in "iu":
            raise build_missing_kernel_error("repeat_interleave_cpu", counted.dtype)
        if not holds(counted, are_nonnegative):
            raise RuntimeError("repeats can not be negative")
        refuse_unknown_repeats(counted, output_size)
    if repeats is None:  # counts alone: the indices that they repeat
        return _repeat_indices(input, input._array.size, output_size)
    input, dim = (input.reshape(-1), 0) if dim is None else (input, dim)
    axis = canonicalize_dim(dim, input._array.ndim)
    size = input._array.shape[axis]
    if not isinstance(repeats, Tensor):
        if isinstance(repeats, bool) or not hasattr(repeats, "__index__"):
            raise TypeError(
                "repeat_interleave() received an invalid combination of arguments - got "
                f"(Tensor, {type(repeats).__name__}), but expected one of:\n"
                " * (Tensor input, Tensor repeats, int dim = None, *, int output_size = None)\n"
                " * (Tensor input, int repeats, int dim = None, *, int output_size = None)\n")
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        return input.index_select(axis, wrap(np.repeat(np.arange(size), repeats)))
    if repeats._array.size not in (1, size):
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{repeats._array.size} and input.size({axis}) = {size}"
        )
    return input.index_select(axis, _repeat_indices(repeats, size, output_size))


@composite(expose=("torch",))
def _chunk_cat(
    tensors: Sequence[Tensor], dim: int, num_chunks: int, *, out: Tensor | None = None
) -> Tensor:
    """Split tensors into `num_chunks` pieces along an axis, and join them piece by piece.

    The last piece is padded with zeros, and pieces are flattened from the axis on.

    RuntimeError for empty tensors, or if the axes before `dim` differ.

    >>> torch._chunk_cat([torch.ones(3), torch.zeros(2)], 0, 2)
    tensor([[1., 1., 0.],
            [1., 0., 0.]])
    """
    axis = _choose_chunk_axis(tensors, dim, num_chunks)
    parts = []
    for x in tensors:
        n = -(-x.shape[axis] // num_chunks)
        missing = n * num_chunks - x.shape[axis]
        if missing:
            filler = x.new_zeros((*x.shape[:axis], missing, *x.shape[axis + 1 :]))
            x = cat([x, filler], axis)
        parts.append(x.reshape(*x.shape[:axis], num_chunks, -1))
    y = cat(parts, axis + 1)
    return y if out is None else out.resize_(y.shape).copy_(y)


def _choose_chunk_axis(tensors: Any, dim: int, num_chunks: int) -> int:
    if num_chunks < 1:
        raise RuntimeError(f"_chunk_cat expects positive num_chunks, got: {num_chunks}")
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    if any(not x._array.size for x in tensors):
        raise RuntimeError("_chunk_cat expects non-empty tensor")
    ranks = {x._array.ndim for x in tensors}
    if dim < 0 and len(ranks) > 1:
        raise RuntimeError(
            "_chunk_cat expects non-negative dim when input tensors have different ndims"
        )
    axis = dim if dim >= 0 else canonicalize_dim(dim, min(ranks))
    if axis >= min(ranks):
        raise RuntimeError("_chunk_cat expects dim < ndim for all input tensors")
    if len({x._array.shape[:axis] for x in tensors}) > 1:
        raise RuntimeError(
            "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors"
        )
    return axis
