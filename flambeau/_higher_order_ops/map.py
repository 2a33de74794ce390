"""torch._higher_order_ops.map: a function of each slice of tensors along their first axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops.core.operator import PUBLIC
from ..ops.registration.custom_operators import get_namespace
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .active_export import active_recorder

__all__ = ["map", "map_impl"]


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """`f(x, *args)` for each slice x of `xs`, stacked; trees of tensors too.

    >>> from flambeau._higher_order_ops.map import map
    >>> map(lambda x, y: x.sum() + y, torch.ones(3, 2), torch.tensor(1.0))
    tensor([3., 3., 3.])
    """
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves or not all(isinstance(x, Tensor) for x in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    if not all(x.ndim for x in leaves):
        raise RuntimeError("Mapped xs can only consist of tensors with a leading dimension.")
    if len({x.shape[0] for x in leaves}) != 1:
        raise RuntimeError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes "
            f"{[tuple(x.shape) for x in leaves]}."
        )
    if not leaves[0].shape[0]:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    recorder = active_recorder()
    if recorder is not None:
        return recorder.map_over(map_impl, f, leaves, spec, args)
    results = [f(pytree.tree_unflatten([x[i] for x in leaves], spec), *args)
               for i in range(len(leaves[0]))]
    return _stack_pytree(results)


def map_impl(f: Callable[..., Any], xs: Any, pos_args: Any = ()) -> Any:
    """The operator of exported graphs: `f` is a graph that gives a tuple."""
    return _stack_pytree([f(*[x[i] for x in xs], *pos_args) for i in range(len(xs[0]))])


map_impl.__module__ = "torch.ops.higher_order"
setattr(get_namespace("higher_order"), "map_impl", map_impl)  # noqa: B010


def _stack_pytree(results: list[Any]) -> Any:
    """The parts of several results, each stacked."""
    rows = [pytree.tree_leaves(result) for result in results]
    parts = [PUBLIC["torch"]["stack"](list(column)) for column in zip(*rows, strict=True)]
    return pytree.tree_unflatten(parts, pytree.tree_structure(results[0]))


def _unstack_pytree(xs: Any) -> list[Any]:
    """The slices of a tree of tensors along their first axis."""
    leaves, spec = pytree.tree_flatten(xs)
    return [pytree.tree_unflatten(list(row), spec) for row in zip(*leaves, strict=True)]
