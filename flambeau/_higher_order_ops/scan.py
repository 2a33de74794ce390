"""torch._higher_order_ops.scan: a fold along an axis that keeps a result for each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops.core.operator import PUBLIC
from ..ops.registration.custom_operators import get_namespace
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree
from .active_export import active_recorder

__all__ = ["scan", "scan_op"]

_SCANNED = ("All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0")


def scan(combine_fn: Callable[..., Any], init: Any, xs: Any, *, dim: int = 0,
         reverse: bool = False) -> tuple[Any, Any]:
    """Return the last carry, and the outputs of all steps stacked.

    `combine_fn(carry, x)` returns the next carry and an output for each slice x of `xs` along
    `dim`, from the last one if `reverse`. `init` and `xs` are tensors, or trees of tensors.
    Raises RuntimeError for other arguments, and for a carry whose structure, shapes or dtypes
    change.

    >>> from flambeau._higher_order_ops.scan import scan
    >>> scan(lambda total, x: (total + x, total * x), torch.tensor(0), torch.arange(4))
    (tensor(6), tensor([0, 0, 2, 9]))
    """
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves:
        return init, []
    carry, carry_spec = pytree.tree_flatten(init)
    rank = leaves[0].ndim if isinstance(leaves[0], Tensor) else 0
    if isinstance(dim, int) and not -rank <= dim < max(rank, 1):
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, "
                         f"{rank - 1}], but got {dim})")
    _check(combine_fn, leaves, carry, dim, reverse)
    dim %= max(rank, 1)
    rows = [x.movedim(dim, 0) for x in leaves] if dim else leaves
    rows = [x.flip(0) for x in rows] if reverse else rows
    shape: list[Any] = []  # the structure of the outputs, once a step has run

    def step(*flat: Any) -> tuple[Any, ...]:
        result = combine_fn(pytree.tree_unflatten(list(flat[:len(carry)]), carry_spec),
                            pytree.tree_unflatten(list(flat[len(carry):]), spec))
        following, output = result
        if pytree.tree_structure(following) != carry_spec:
            raise RuntimeError(
                "The tree structure of the inits and the carries are not identical!\n"
                f"init: {carry_spec}\ncarry: {pytree.tree_structure(following)}"
            )
        parts, structure = pytree.tree_flatten(output)
        shape[:] = [structure]
        return (*pytree.tree_leaves(following), *parts)

    recorder = active_recorder()
    run = scan_op if recorder is None else recorder.scan_over
    results = list(run(step, carry, rows, ()))
    outputs = [y if y is None or not reverse else y.flip(0) for y in results[len(carry):]]
    outputs = [y if y is None or not 0 < dim < y.ndim else y.movedim(0, dim) for y in outputs]
    return (pytree.tree_unflatten(results[:len(carry)], carry_spec),
            pytree.tree_unflatten(outputs, shape[0]))


def _check(combine_fn: Any, leaves: list[Any], carry: list[Any], dim: Any, reverse: Any) -> None:
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if not carry:
        raise RuntimeError("scan() operator requires init leaves.")
    for kind, values in (("init", carry), ("xs", leaves)):
        for x in values:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"All {kind} leaves must be a Tensor but got {x}")
    axis = dim % max(leaves[0].ndim, 1)
    if any(x.ndim <= axis or not x.shape[axis] for x in leaves):
        raise RuntimeError(_SCANNED)


def scan_op(combine_fn: Callable[..., Any], init: Any, xs: Any, additional_inputs: Any = ()
            ) -> tuple[Any, ...]:
    """The operator in exported graphs: `combine_fn` takes and returns flat values."""
    carry, columns = tuple(init), []
    for i in range(len(xs[0])):
        results = tuple(combine_fn(*carry, *[x[i] for x in xs], *additional_inputs))
        _check_carry(carry, results[:len(carry)])
        carry = results[:len(carry)]
        columns.append(results[len(carry):])
    stack = PUBLIC["torch"]["stack"]
    return (*carry, *(stack(list(c)) if isinstance(c[0], Tensor) else None
                      for c in zip(*columns, strict=True)))


def _check_carry(before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
    for i, (x, y) in enumerate(zip(before, after, strict=True)):
        if not isinstance(y, Tensor) or (x.shape, x.dtype) != (y.shape, y.dtype):
            raise RuntimeError(
                "Expected init and carry to have same metadata but found:\n"
                f"pair[{i}] differ: {tuple(x.shape)} of {x.dtype} and "
                f"{(tuple(y.shape), y.dtype) if isinstance(y, Tensor) else y}"
            )


scan_op.__name__ = "scan"
scan_op.__module__ = "torch.ops.higher_order"
setattr(get_namespace("higher_order"), "scan", scan_op)  # noqa: B010
