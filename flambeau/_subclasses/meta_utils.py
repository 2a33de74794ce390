"""What two tensors must share to be alike without their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor.layout import strided
from ..tensor.tensor import Tensor

__all__ = ["assert_metadata_eq"]

_ATTRIBUTES = ("dtype", "shape", "requires_grad", "is_leaf", "is_sparse")
_METHODS = ("is_inference", "is_conj", "is_neg")
_OF_STRIDED = ("stride", "storage_offset", "_is_view")
_OF_SPARSE = ("dense_dim", "sparse_dim")


def assert_metadata_eq(
    assert_eq: Callable[[Any, Any], None], m1: Tensor, m2: Tensor, *, skip_symbolic: bool = False,
    skip_leaf: bool = False,
) -> None:
    """Call `assert_eq` with each property of two tensors, of their gradients and bases.

    `skip_symbolic` leaves out shapes and strides, `skip_leaf` whether they are leaves.

    >>> from flambeau._subclasses.meta_utils import assert_metadata_eq
    >>> assert_metadata_eq(lambda a, b: print(a, b) if a != b else None, torch.ones(2),
    ...                    torch.ones(2, dtype=torch.float64))
    torch.float32 torch.float64
    """
    left_out = {"shape", "stride", "storage_offset"} if skip_symbolic else set()
    left_out |= {"is_leaf"} if skip_leaf else set()
    methods = (*_METHODS, *(_OF_STRIDED if m1.layout is strided else _OF_SPARSE))
    for name in _ATTRIBUTES:
        if name not in left_out:
            assert_eq(getattr(m1, name), getattr(m2, name))
    for name in methods:
        if name not in left_out:
            assert_eq(getattr(m1, name)(), getattr(m2, name)())
    for name in ("grad", "_base"):
        part, other = getattr(m1, name), getattr(m2, name)
        assert_eq(part is not None, other is not None)
        if part is not None:
            assert_metadata_eq(assert_eq, part, other, skip_symbolic=skip_symbolic,
                               skip_leaf=skip_leaf)
