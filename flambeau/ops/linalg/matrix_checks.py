"""Checks of matrices, with PyTorch's errors, and calls of LAPACK, matrix by matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...tensor.dtypes import FROM_NUMPY, HALF
from ...tensor.promotion import legacy_name
from ..core.operator import PUBLIC, Array


class _LinAlgError(RuntimeError):
    """A matrix that a decomposition cannot take: singular, not positive-definite, not finite.

    >>> try:
    ...     torch.linalg.inv(torch.zeros(2, 2))
    ... except torch.linalg.LinAlgError as error:
    ...     print(error)
    linalg.inv: The diagonal element 1 is zero, ... because the input matrix is singular.
    """


_LinAlgError.__module__ = "torch._C"
LinAlgError = _LinAlgError
PUBLIC.setdefault("linalg", {})["LinAlgError"] = LinAlgError


def get_kind_name(input: Array) -> str:
    """Return a dtype's name in PyTorch's messages: Float, Double, Int, ..."""
    return legacy_name(FROM_NUMPY[input.dtype])


def check_floats(A: Array, name: str) -> None:
    """Raise RuntimeError for integers and bools."""
    if A.dtype.kind in "biu":
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {get_kind_name(A)}"
        )


def check_precision(A: Array, name: str) -> None:
    """Raise RuntimeError for half precision, which LAPACK does not support."""
    if FROM_NUMPY[A.dtype] in HALF:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {get_kind_name(A)}")


def check_kernel(A: Array, kernel: str) -> None:
    """Raise NotImplementedError for dtypes that LAPACK does not support."""
    if A.dtype.kind not in "fc" or FROM_NUMPY[A.dtype] in HALF:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{get_kind_name(A)}'")


def check_product(a: Sequence[int], b: Sequence[int]) -> None:
    """Raise RuntimeError if matrices of these shapes, or of these last two axes, do not fit."""
    if a[-1] != b[-2]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({a[-2]}x{a[-1]} and "
                           f"{b[-2]}x{b[-1]})")


def check_batches(a: Sequence[int], b: Sequence[int]) -> None:
    """Raise RuntimeError if batches of matrices of these shapes cannot be multiplied."""
    if a[0] != b[0] or a[2] != b[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a[0]}, {a[2]}] but "
            f"got: [{b[0]}, {b[1]}]."
        )


def check_matrix(A: Array, name: str, label: str = "A") -> None:
    """Raise RuntimeError for tensors of fewer than two axes."""
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {label} must have at least 2 dimensions.")


def check_square(A: Array, name: str, label: str = "A") -> None:
    """Raise RuntimeError unless `A` is a batch of square matrices."""
    check_matrix(A, name, label)
    rows, columns = A.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            f"{name}: {label} must be batches of square matrices, but they are {rows} by "
            f"{columns} matrices"
        )


def check_phase(turn: Any, message: str, tolerance: float = 1e-2) -> None:
    """Raise RuntimeError if a loss changes with the phase of complex vectors, which is arbitrary.

    `turn`: by how much it changes with each vector's phase. Symbolic values are not looked at.
    """
    if turn.__class__ is np.ndarray and not (np.abs(turn) <= tolerance).all():
        raise RuntimeError(message)


def raise_for_info(
    info: Array, name: str, describe: Callable[[int], str], error: type = LinAlgError
) -> None:
    """Raise `error` for the first matrix of a batch for which LAPACK's `info` is not 0."""
    if not info.any():
        return
    flat = info.reshape(-1)
    first = int(np.flatnonzero(flat)[0])
    batch = f"(Batch element {first}): " if info.ndim else ""
    raise error(f"{name}: {batch}{describe(int(flat[first]))}")


def allocate_info(A: Array) -> Array:
    """Return the `info` of success for each matrix of a batch: zeros."""
    return np.zeros(A.shape[:-2], np.int32)


def iterate_matrices(A: Array, *others: Array) -> Iterator[tuple]:
    """Yield (index, matrix, matrices of the other batches at this index) over a batch."""
    batch = A.shape[:-2]
    for index in np.ndindex(*batch):
        yield (index, A[index], *[x[index] for x in others])


def get_lapack_routine(name: str, kind: np.dtype) -> Callable:
    """Return a LAPACK routine for a dtype, by its name without the letter of the dtype."""
    from scipy.linalg.lapack import get_lapack_funcs

    routine = get_lapack_funcs((name,), dtype=kind)[0]

    def called(*arrays: Array, **options: Any) -> tuple:
        for array in arrays:  # a refused array costs NumPy's dtype a reference (NumPy 2.4)
            if array.__class__ is not Array:
                array.data  # noqa: B018 - raises a clear error for arrays without data
        return routine(*arrays, **options)

    return called
