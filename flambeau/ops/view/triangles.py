"""Triangles and diagonals of matrices: tril, triu, their indices, diag, diag_embed, trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor import dtypes as types
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.dtypes import dtype as Dtype
from ...tensor.layout import contiguous_format
from ...tensor.narrow_dtypes import refuse_eight_bit
from ...tensor.promotion import build_missing_kernel_error
from ...tensor.tensor import Tensor
from ...tensor.tensor import wrap as wrap_array
from ...tensor.windows.batch import Batch
from ..core.autocast import Policy
from ..core.axes import canonicalize_dim
from ..core.inplace import assign
from ..core.operator import Array, Number
from ..core.out import write_result
from ..core.registry import composite, opaque, writes_by_operators
from ..core.sample_inputs import matrices
from ..core.scalar_conversion import check_number
from ..creation.creation import place, public
from ..creation.factories import Contents
from ..reduction.reduce import round_to, sum_dtype
from .slices import on_diagonal, spread_on_diagonal


def _declare_triangle(name: str, lower: bool) -> Any:
    words = "below" if lower else "above"

    def body(input: Array, diagonal: int = 0) -> Array:
        if input.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        refuse_eight_bit(input, name)
        rows, columns = input.shape[-2:]
        offsets = np.arange(-diagonal, columns - diagonal)
        row = np.arange(rows)[:, None]
        keep = offsets <= row if lower else offsets >= row
        y = np.zeros(input.shape, input.dtype)
        np.copyto(y, input, where=keep)
        return y

    body.__name__ = name
    body.__doc__ = f"""The elements on and {words} a diagonal of matrices, zeros elsewhere.

    >>> torch.{name}(torch.tensor([[1, 2], [3, 4]])).tolist()
    {[[1, 0], [3, 4]] if lower else [[1, 2], [0, 4]]}
    """
    samples = matrices(((3, 4),), ((2, 3, 3), 1), ((4, 3), -1))
    result = opaque(leading=True, linear_in="input", ref=getattr(np, name), samples=samples)(body)

    @result.vjp
    def _(g: Tensor, diagonal: int) -> Tensor:
        return result(g, diagonal)

    return result


tril, triu = _declare_triangle("tril", True), _declare_triangle("triu", False)


@writes_by_operators
@composite(expose=("Tensor",))
def tril_(self: Tensor, diagonal: int = 0) -> Tensor:
    """Zero the elements above a diagonal, in place.

    >>> torch.ones(2, 2).tril_()
    tensor([[1., 0.],
            [1., 1.]])
    """
    return assign(self, tril(self, diagonal), "tril_")


@writes_by_operators
@composite(expose=("Tensor",))
def triu_(self: Tensor, diagonal: int = 0) -> Tensor:
    """Zero the elements below a diagonal, in place.

    >>> torch.ones(2, 2).triu_()
    tensor([[1., 1.],
            [0., 1.]])
    """
    return assign(self, triu(self, diagonal), "triu_")


def _declare_triangle_indices(name: str, lower: bool) -> None:
    def function(
        row: int, col: int, offset: int = 0, *, dtype: Dtype | None = None, device: Any = None,
        layout: Any = None,
    ) -> Tensor:
        for label, n in (("row", row), ("col", col)):
            if n < 0:
                raise RuntimeError(f"{label} must be non-negative, got{n}")
        kind = types.int64 if dtype is None else types.as_dtype(dtype)
        if kind.is_floating_point or kind.is_complex or kind is types.bool_:
            raise build_missing_kernel_error(name, kind)
        result = (np.tril_indices if lower else np.triu_indices)(row, offset, col)
        return place(np.stack(result).astype(kind.numpy), device)

    words = "lower" if lower else "upper"
    rows, columns = ("0, 1, 1", "0, 0, 1") if lower else ("0, 0, 1", "0, 1, 1")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The indices, rows and columns, of the {words} triangle.

    The triangle ends at the diagonal `offset`; 0 is the main one.

    >>> torch.{name}(2, 2)
    tensor([[{rows}],
            [{columns}]])
    """
    public(explains=True, creates=Contents.FIXED)(function)


_declare_triangle_indices("tril_indices", True)
_declare_triangle_indices("triu_indices", False)


# ------------------------------------------------------------------------------- diagonals


@opaque(linear_in="input", name="diag_embed", ref=lambda x, offset=0: np.diag(x, offset),
        samples=matrices(((3,),), ((3,), 1), ((3,), -2)))
def diag_embed(input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Place the last axis of `input` on a diagonal of new matrices, zero elsewhere.

    >>> torch.diag_embed(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    rank = input.ndim + 1
    a, b = canonicalize_dim(dim1, rank), canonicalize_dim(dim2, rank)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    n = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for axis in sorted((a, b)):
        shape.insert(axis, n)
    return on_diagonal(input, shape, offset, a, b)


@diag_embed.batch
def _(batch: Batch, input: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    rank = input.dim() + 1
    return diag_embed(batch.lower(input), offset, canonicalize_dim(dim1, rank) + 1,
                      canonicalize_dim(dim2, rank) + 1)


@diag_embed.vjp
def _(g: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    return g.diagonal(offset, dim1, dim2)


@composite(explains=True)
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Return a matrix with a vector on its diagonal, or the diagonal of a matrix.

    >>> torch.diag(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    rank = input._array.ndim
    if rank not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {rank}D")
    y = diag_embed(input, diagonal) if rank == 1 else \
        input.diagonal(diagonal).clone(memory_format=contiguous_format)
    return y if out is None else write_result("diag", y, out)


@composite(explains=True)
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Return a matrix with the flattened input on its diagonal.

    >>> torch.diagflat(torch.tensor([1, 2]), offset=1)
    tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    return diag_embed(input.reshape(-1), offset)


@opaque(autocast=Policy.FULL,
        linear_in="input", ref=np.trace, samples=matrices(((3, 3),), ((3, 4),)))
def trace(input: Array) -> Array:
    """Return the sum of the diagonal of a matrix.

    >>> torch.trace(torch.tensor([[1., 2.], [3., 4.]]))
    tensor(5.)
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    if input.dtype.kind == "b":
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    refuse_eight_bit(input, "trace")
    kind = sum_dtype(input, None)
    half = FROM_NUMPY[kind] in types.HALF
    return round_to(np.add.reduce(input.diagonal(), None, np.float32 if half else kind), kind)


@trace.vjp
def _(g: Tensor, input_shape: tuple[int, ...]) -> Tensor:
    return spread_on_diagonal(g.expand(min(input_shape)), input_shape, 0, 0, 1)


@composite(expose=("Tensor",), explains=True)
def fill_diagonal_(self: Tensor, fill_value: Number, wrap: bool = False) -> Tensor:
    """Fill the main diagonal in place; `wrap` restarts it below in tall matrices.

    >>> torch.zeros(2, 2).fill_diagonal_(1)
    tensor([[1., 0.],
            [0., 1.]])
    """
    check_number("fill_diagonal_", "fill_value", 1, fill_value)
    shape = self._array.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) != 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    chosen = np.zeros(shape, np.bool_)
    rows = np.arange(shape[0])
    if len(shape) > 2:
        chosen[(rows,) * len(shape)] = True
    elif wrap:  # a row is left out between one diagonal and the next
        period = shape[1] + 1
        rows = rows[rows % period < shape[1]]
        chosen[rows, rows % period] = True
    else:
        np.fill_diagonal(chosen[: shape[1]], True)
    return self.masked_fill_(wrap_array(chosen), fill_value)
