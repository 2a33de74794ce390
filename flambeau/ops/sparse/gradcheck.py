"""Gradient checks of functions of sparse tensors: as functions of the values that they store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.backward import grad
from ...autograd.checks.forward_gradcheck import GradcheckError, collect_tensors
from ...tensor.sparse import CompressedArray, SparseTensor, wrap_sparse
from . import formats
from .conversion import values, with_values
from .like import zeros_like
from .masked_arrays import apply_mask as masked_array


def reduce_to_values(func: Callable, inputs: tuple, masked: bool) -> tuple[Callable, tuple]:
    """Return a function of dense leaves, and the leaves: the values of each sparse leaf.

    `masked`: only at stored positions; else at all positions, with zeros stored too.
    """
    leaves: list[Any] = []
    patterns: list[Any] = []
    for x in inputs:
        pattern = _create_pattern(x, masked) if _is_checked(x) else None
        patterns.append(pattern)
        leaf = x if pattern is None else values(pattern).detach().clone().requires_grad_()
        leaves.append(leaf)

    def of_leaves(*parts: Any) -> Any:
        result = func(*[part if p is None else with_values(p, part)
                        for p, part in zip(patterns, parts, strict=True)])
        if isinstance(result, (list, tuple)):
            return tuple(_convert_to_dense(y, masked) for y in result)
        return _convert_to_dense(result, masked)

    return of_leaves, tuple(leaves)


def _is_checked(x: Any) -> bool:
    return isinstance(x, SparseTensor) and x.requires_grad


def _convert_to_dense(y: Any, masked: bool) -> Any:
    return y.to_dense(masked_grad=masked) if isinstance(y, SparseTensor) else y


def _create_pattern(x: SparseTensor, masked: bool) -> SparseTensor:
    """The tensor without history, coalesced; with all places stored unless `masked`."""
    a: Any = x._array
    if not isinstance(a, CompressedArray):
        a = formats.coalesce(a)
    if masked:
        return wrap_sparse(a)
    ones = np.ones(a.shape, a.dtype)
    if isinstance(a, CompressedArray):
        full: Any = formats.convert_dense_to_compressed(
            ones, a.layout, a.block if a.blocked else None, a.dense_dim)
    else:
        full = formats.convert_dense_to_coo(ones, a.sparse_dim)
    return wrap_sparse(masked_array(formats.to_dense(a), full))


def check_sparse_dims(func: Callable, inputs: tuple) -> None:
    """Raise GradcheckError if a sparse gradient divides its axes otherwise than its input."""
    outputs = [y for y in collect_tensors(func(*inputs)) if y.requires_grad]
    checked = [x for x in inputs if _is_checked(x)]
    gradients = grad(outputs, checked, [zeros_like(y) for y in outputs], allow_unused=True)
    for x, g in zip(checked, gradients, strict=True):
        if not isinstance(g, SparseTensor):
            continue
        kind = str(g.layout).removeprefix("torch.").replace("_coo", "")
        for name in ("sparse_dim", "dense_dim"):
            actual, expected = getattr(g, name)(), getattr(x, name)()
            if actual != expected:
                raise GradcheckError(f"grad is {kind} tensor, but has incorrect {name} {actual}, "
                                     f"expected {expected}")


_methods: Any = SparseTensor
_methods._leaves_of = staticmethod(reduce_to_values)
_methods._check_sparse_dims = staticmethod(check_sparse_dims)
