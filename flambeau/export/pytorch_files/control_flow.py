"""Control flow in PyTorch's `.pt2` files: operators whose arguments are graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._higher_order_ops.associative_scan import associative_scan
from ..._higher_order_ops.cond import cond
from ..._higher_order_ops.map import map as map_slices
from ..._higher_order_ops.scan import scan
from ..._higher_order_ops.while_loop import while_loop
from ..._higher_order_ops.wrap import wrap_with_set_grad_enabled

__all__ = ["OPERATORS"]

Graph = Callable[..., tuple[Any, ...]]


def _cond(pred: Any, true_graph: Graph, false_graph: Graph, operands: Sequence[Any] = ()) -> Any:
    return cond(pred, true_graph, false_graph, tuple(operands))


def _while_loop(
    condition: Graph, body: Graph, carried: Sequence[Any], additional: Sequence[Any] = ()
) -> Any:
    return while_loop(lambda *values: condition(*values, *additional)[0],
                      lambda *values: body(*values, *additional), tuple(carried))


def _map(body: Graph, xs: Sequence[Any], additional: Sequence[Any] = ()) -> Any:
    return map_slices(lambda slices, *rest: body(*slices, *rest), list(xs), *additional)


def _scan(
    combine: Graph, init: Sequence[Any], xs: Sequence[Any], additional: Sequence[Any] = ()
) -> Any:
    def step(carry: list[Any], slices: list[Any]) -> tuple[list[Any], list[Any]]:
        results = combine(*carry, *slices, *additional)
        return list(results[:len(init)]), list(results[len(init):])

    carry, columns = scan(step, list(init), list(xs))
    return (*carry, *columns)


def _associative_scan(combine: Graph, xs: Sequence[Any], additional: Sequence[Any] = ()) -> Any:
    def step(a: list[Any], b: list[Any]) -> list[Any]:
        return list(combine(*a, *b, *additional))

    return associative_scan(step, list(xs), 0, combine_mode="generic")


# By the names after `torch.ops.higher_order`; each returns a sequence of results.
OPERATORS: dict[str, Callable[..., Any]] = {
    "associative_scan": _associative_scan, "cond": _cond, "map_impl": _map, "scan": _scan,
    "while_loop": _while_loop, "wrap_with_set_grad_enabled": wrap_with_set_grad_enabled,
}
