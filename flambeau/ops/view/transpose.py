"""Views with the axes in another order: transpose, permute, movedim, and T, mT, H, mH."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.node import name_node
from ...native.foundation.user_frames import warn_once
from ...tensor.tensor import Tensor
from ...tensor.windows.batch import Batch
from ..core.axes import canonicalize_dim, canonicalize_order
from ..core.operator import Array
from ..core.registry import composite, view
from ..core.sample_inputs import matrices
from .reshape import view_as_size


@view(ref=lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1),
      samples=matrices(((3, 4), 0, 1), ((2, 3, 4), -1, 0)),
      aliases=("swapaxes", "swapdims"))
def transpose(input: Array, dim0: int, dim1: int) -> Array:
    """Return a view with two axes swapped.

    >>> x = torch.tensor([[1, 2], [3, 4]])
    >>> torch.transpose(x, 0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    n = input.ndim
    if n == 2 and dim0.__class__ is dim1.__class__ is int and dim0 + dim1 == 1 \
            and dim0 >= 0 and dim1 >= 0:
        return input.T
    a, b = canonicalize_dim(dim0, n), canonicalize_dim(dim1, n)
    return input.swapaxes(a, b) if n else input.transpose()


@transpose.batch
def _(batch: Batch, input: Tensor, dim0: int, dim1: int) -> Tensor:
    n = input.dim()
    a, b = canonicalize_dim(dim0, n), canonicalize_dim(dim1, n)
    below = batch.lower(input)
    return transpose(below, a + 1, b + 1) if n else below


@transpose.vjp
def _(g: Tensor, dim0: int, dim1: int) -> Tensor:
    return g.transpose(dim0, dim1)


@view(ref=lambda x: x.T, samples=matrices(((3, 4),), ((5,),), ((),)))
def t(input: Array) -> Array:
    """Transpose a matrix; vectors are returned unchanged.

    >>> torch.t(torch.tensor([[1, 2, 3]]))
    tensor([[1],
            [2],
            [3]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D"
        )
    return input.T


@t.batch
def _(batch: Batch, input: Tensor) -> Tensor:
    n = input.dim()
    if n > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {n}D")
    below = batch.lower(input)
    return transpose(below, 1, 2) if n == 2 else view_as_size(below, below.shape)


@t.vjp
def _(g: Tensor) -> Tensor:
    return g.t()


@view(ref=lambda x, *dims: x.transpose(dims),
      samples=matrices(((3, 4), 1, 0), ((2, 3, 4), 2, 0, 1)))
def permute(input: Array, *dims: Any) -> Array:
    """Return a view with the axes reordered.

    >>> torch.zeros(2, 3, 5).permute(2, 0, 1).shape
    torch.Size([5, 2, 3])
    """
    return input.transpose(canonicalize_order(dims, input.ndim))


@permute.batch
def _(batch: Batch, input: Tensor, dims: Sequence[int]) -> Tensor:
    n = input.dim()
    return permute(batch.lower(input), 0, *[canonicalize_dim(d, n) + 1 for d in dims])


@permute.vjp
def _(g: Tensor, dims: Sequence[int]) -> Tensor:
    n = len(dims)
    inverse = [0] * n
    for i, d in enumerate(dims):
        inverse[d % n] = i
    return g.permute(inverse)


@composite(aliases=("moveaxis",), explains=True)
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Move the axes `source` to the positions `destination`; the others keep their order.

    >>> torch.movedim(torch.zeros(2, 3, 4), 0, -1).shape
    torch.Size([3, 4, 2])
    """
    n = input._array.ndim
    sources = [source] if isinstance(source, (int, np.integer)) else list(source)
    targets = [destination] if isinstance(destination, (int, np.integer)) else list(destination)
    if len(sources) != len(targets):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source "
            f"({sources} dims) should contain the same number of dims as destination ({targets} "
            "dims)"
        )
    a, b = [canonicalize_dim(d, n) for d in sources], [canonicalize_dim(d, n) for d in targets]
    for argument, dims, axes in (("source", a, sources), ("destination", b, targets)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{argument}` ({axes})")
    rest = iter(i for i in range(n) if i not in a)
    placed = dict(zip(b, a, strict=True))
    return permute(input, [placed[i] if i in placed else next(rest) for i in range(n)])


# ---------------------------------------------------------------------------------- properties


_ONLY_MATRICES = (
    "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated "
    "and it will throw an error in a future release. Consider `x.mT` to transpose batches of "
    "matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a "
    "tensor."
)


def _of_scalars(name: str) -> str:
    return f"Tensor.{name} is deprecated on 0-D tensors. " + (
        "Consider using x.conj()." if name in ("H", "mH") else
        "This function is the identity in these cases.")


def _transpose(self: Tensor) -> Tensor:
    """Reverse all axes; for a matrix, transpose it.

    >>> torch.zeros(2, 3).T.shape
    torch.Size([3, 2])
    """
    n = self._array.ndim
    if n != 2:
        warn_once(_ONLY_MATRICES if n else _of_scalars("T"))
    if n > 2:
        return permute(self, *range(n - 1, -1, -1))
    result = t(self)  # which costs less than permute
    name_node(result, "PermuteBackward0")
    return result


def _matrix_transposed(self: Tensor) -> Tensor:
    """Swap the last two axes.

    >>> torch.zeros(5, 2, 3).mT.shape
    torch.Size([5, 3, 2])
    """
    if not self._array.ndim:
        warn_once(_of_scalars("mT"))
        return self
    if self._array.ndim < 2:
        raise RuntimeError(
            "tensor.mT is only supported on matrices or batches of matrices. Got "
            f"{self._array.ndim}-D tensor."
        )
    return transpose(self, -2, -1)


def _hermitian(self: Tensor) -> Tensor:
    """Transpose and conjugate a matrix.

    >>> torch.tensor([[1 + 2j, 3j]]).H
    tensor([[1.-2.j],
            [0.-3.j]])
    """
    if self._array.ndim not in (0, 2):
        raise RuntimeError(
            "tensor.H is only supported on matrices (2-D tensors). Got "
            f"{self._array.ndim}-D tensor."
        )
    result = self
    if not self._array.ndim:
        warn_once(_of_scalars("H"))
    else:
        result = t(self)
        name_node(result, "TransposeBackward0")
    return result.conj() if self._array.dtype.kind == "c" else result


@composite(explains=True)
def adjoint(input: Tensor) -> Tensor:
    """Swap the last two axes and conjugate.

    >>> torch.adjoint(torch.tensor([[1 + 2j, 3j]]))
    tensor([[1.-2.j],
            [0.-3.j]])
    """
    if not input._array.ndim:
        warn_once(_of_scalars("mH"))
    y = _matrix_transposed(input) if input._array.ndim else input
    return y.conj() if y._array.dtype.kind == "c" else y


_methods: Any = Tensor
_methods.T, _methods.mT = property(_transpose), property(_matrix_transposed)
_methods.H, _methods.mH = property(_hermitian), property(adjoint)
