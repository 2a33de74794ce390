"""Reductions, and operators that work along some axes: the other axes may be cut.

A sum over a cut axis is a partial sum; so are averages, extremes, products and norms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ..placement_types import Partial, Placement, Replicate, Shard, _NormPartial
from ..propagation import Operation, Rule, Strategy, partial_sum


def find_dims(value: Any, ndim: int) -> list[int]:
    """Return axes counted from the front; all for None or an empty list."""
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return list(range(ndim))
    dims = [value] if isinstance(value, int) else value
    return [dim % ndim if ndim else 0 for dim in dims]


def _reduce(
    operation: Operation, dims: Sequence[int], keepdim: bool, partial: Placement | None,
    needs_even: bool = False, outputs: int = 1,
) -> Iterator[Strategy]:
    """Yield the cuts of a reduction's input. Cuts of a reduced axis give `partial`."""
    (spec, *others) = operation.inputs
    replicated = (Replicate(),) * len(others)
    for dim in range(spec.ndim):
        result: Placement | None
        if dim in dims:
            is_even = operation.divides(spec.shape[dim], dim, spec)
            result = partial if is_even or not needs_even else None
        else:
            result = Shard(dim if keepdim else dim - sum(d < dim for d in dims))
        if result is not None:
            yield Strategy(result, (Shard(dim), *replicated))


def _create_reduction(
    partial: Placement | None, position: int = 1, keepdim_at: int = 2, needs_even: bool = False,
    is_linear: bool = False, default: int | None = None,
) -> Rule:
    """Return the rule of a reduction with `dim` and `keepdim` at these positions."""
    def strategies(operation: Operation) -> Iterator[Strategy]:
        spec = operation.inputs[0]
        dims = find_dims(operation.argument(position, "dim", default), spec.ndim)
        keepdim = bool(operation.argument(keepdim_at, "keepdim", False))
        yield from _reduce(operation, dims, keepdim, partial, needs_even)
        placement = spec.placements[operation.axis]
        if is_linear and partial_sum(placement):
            yield Strategy(placement, (placement,))

    return Rule(strategies, accepts_empty=is_linear)


def _create_extreme(reduce_op: str) -> Rule:
    """Return the rule of max and min, which along an axis also return positions."""
    def strategies(operation: Operation) -> Iterator[Strategy]:
        spec = operation.inputs[0]
        if len(operation.inputs) > 1:  # of two tensors
            from .pointwise import cut_operands

            yield from cut_operands(operation)
            return
        dim = operation.argument(1, "dim")
        keepdim = bool(operation.argument(2, "keepdim", False))
        partial = Partial(reduce_op) if dim is None else None
        yield from _reduce(operation, find_dims(dim, spec.ndim), keepdim, partial)

    return Rule(strategies)


def _norm(operation: Operation) -> Iterator[Strategy]:
    spec, order = operation.inputs[0], operation.argument(1, "ord", 2)
    dims = find_dims(operation.argument(2, "dim"), spec.ndim)
    keepdim = bool(operation.argument(3, "keepdim", False))
    order = int(order) if order == order // 1 and abs(order) != math.inf else order
    yield from _reduce(operation, dims, keepdim, _NormPartial(norm_type=order))


def along(position: int | None, name: str = "dim", default: Any = -1, last: int = 0) -> Rule:
    """Return the rule of an operator that keeps the shape and works along some axes.

    `last`: how many of the last axes it works along, if no argument says.
    """
    def strategies(operation: Operation) -> Iterator[Strategy]:
        spec = operation.inputs[0]
        if position is None:
            barred = list(range(spec.ndim - last, spec.ndim))
        else:
            barred = find_dims(operation.argument(position, name, default), spec.ndim)
        for dim in range(spec.ndim):
            if dim not in barred and all(s.ndim == spec.ndim for s in operation.inputs):
                yield Strategy(Shard(dim), (Shard(dim),) * len(operation.inputs))

    return Rule(strategies)


def _by_cost(rule: Rule) -> Rule:
    return Rule(rule.strategies, follows=False)


def _matrices(operation: Operation) -> Iterator[Strategy]:
    """Yield the cuts of the batch axes of operators on matrices."""
    batch = min(spec.ndim for spec in operation.inputs) - 2
    for dim in range(batch):
        yield Strategy(Shard(dim), (Shard(dim),) * len(operation.inputs))


def _layer_norm(operation: Operation) -> Iterator[Strategy]:
    """Yield the cuts of the axes before the normalized ones; weight and bias stay whole."""
    x, count = operation.inputs[0], operation.args[5]
    for dim in range(x.ndim - count):
        rest = tuple(Replicate() for _ in operation.inputs[1:])
        yield Strategy(Shard(dim), (Shard(dim), *rest))


def _layer_norm_backward(operation: Operation) -> Iterator[Strategy]:
    """Yield the cuts of g and x; the gradients of weight and bias are sums over them."""
    g, count = operation.inputs[0], operation.args[5]
    for dim in range(g.ndim - count):
        rest = tuple(Replicate() for _ in operation.inputs[2:])
        yield Strategy((Shard(dim), Partial(), Partial()), (Shard(dim), Shard(dim), *rest))


_sum = _create_reduction(Partial(), is_linear=True)
RULES: dict[str, Rule] = {
    "sum": _sum, "nansum": _create_reduction(Partial()),
    "mean": _create_reduction(Partial("avg"), needs_even=True),
    "prod": _create_reduction(Partial("product")),
    "amax": _create_reduction(Partial("max")), "amin": _create_reduction(Partial("min")),
    "max": _create_extreme("max"), "min": _create_extreme("min"),
    "any": _create_reduction(Partial("sum")), "all": _create_reduction(Partial("product")),
    "linalg_vector_norm": Rule(_norm),
    **{name: _create_reduction(None) for name in (
        "std", "var", "std_mean", "var_mean", "argmax", "argmin", "logsumexp", "median",
        "nanmedian", "count_nonzero")},
    "kthvalue": _create_reduction(None, 2, 3, default=-1),
    "mode": _create_reduction(None, default=-1),
    **{name: along(1) for name in ("_softmax", "_log_softmax", "softmax", "log_softmax")},
    **{name: along(2) for name in ("_softmax_backward_data", "_log_softmax_backward_data")},
    **{name: along(1) for name in ("cumsum", "cumprod", "logcumsumexp")},
    **{name: _by_cost(along(1)) for name in ("cummax", "cummin", "sort")},
    "topk": _by_cost(along(2)),
    "tril": along(None, last=2), "triu": along(None, last=2),
    **{name: Rule(_matrices) for name in (
        "linalg_svd", "linalg_qr", "linalg_inv", "linalg_cholesky", "linalg_eigh")},
    "_layer_norm": Rule(_layer_norm), "_layer_norm_backward": Rule(_layer_norm_backward),
}
