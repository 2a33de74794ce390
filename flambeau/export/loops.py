"""Subgraphs of loops in exported programs: while_loop's two functions, the steps of scans."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .._higher_order_ops.associative_scan import associative_scan_op
from .._higher_order_ops.scan import scan_op
from .._higher_order_ops.while_loop import check_carried, while_loop_op
from .._subclasses.fake_tensor import is_fake
from ..autograd.mode import no_grad
from ..fx.node import Node
from ..tensor.tensor import Tensor
from .control_flow import Subgraph, add_subgraph, unrecorded
from .symbolic.expressions import INFINITE, Expression
from .symbolic.sizes import SymbolicSize, get_first_value, get_second_value

__all__ = ["combine_over", "loop_while", "scan_over"]


def loop_while(recorder: Any, condition: Callable[..., Any], body: Callable[..., Any],
               leaves: tuple[Any, ...], additional: tuple[Any, ...]) -> tuple[Any, ...]:
    """Record while_loop with both functions as subgraphs; return the loop's results."""
    standing = tuple(_stand_in(recorder, leaf) for leaf in leaves)
    parts = [Subgraph.record(recorder, f, standing, is_loop=True) for f in (condition, body)]
    with unrecorded():
        check_carried(standing, tuple(parts[1].leaves))
    outer = _read_from_outside(parts, standing)
    names = ("while_loop_cond_graph", "while_loop_body_graph")
    graphs = [part.finish([*standing, *outer], is_single=part is parts[0]) for part in parts]
    nodes = [add_subgraph(recorder, name, g) for name, g in zip(names, graphs, strict=True)]
    values, twins = _run(recorder, while_loop_op, graphs, [leaves, outer], parts[1].leaves)
    call = recorder.add(while_loop_op, [*nodes, leaves, tuple(outer)], {}, values)
    return _receive(recorder, call, values, twins)


def scan_over(recorder: Any, step: Callable[..., Any], carry: list[Any], rows: list[Any],
              additional: tuple[Any, ...]) -> tuple[Any, ...]:
    """Record scan with its step as a subgraph; return the last carry and the stacked outputs."""
    standing = (*(_stand_in(recorder, x) for x in carry), *(x[0] for x in rows))
    part = Subgraph.record(recorder, step, standing)
    outer = _read_from_outside([part], standing)
    graph = part.finish([*standing, *outer])
    node = add_subgraph(recorder, "scan_combine_graph", graph)
    values, twins = _run(recorder, scan_op, [graph], [carry, rows, outer], None)
    call = recorder.add(scan_op, [node, list(carry), list(rows), tuple(outer)], {}, values)
    return _receive(recorder, call, values, twins)


def combine_over(recorder: Any, step: Callable[..., Any], rows: list[Any],
                 additional: tuple[Any, ...]) -> tuple[Any, ...]:
    """Record associative_scan with the function that combines two slices as a subgraph."""
    standing = (*(x[0] for x in rows), *(x[0] for x in rows))
    part = Subgraph.record(recorder, step, standing)
    outer = _read_from_outside([part], standing)
    graph = part.finish([*standing, *outer])
    node = add_subgraph(recorder, "associative_scan_combine_graph", graph)
    values, twins = _run(recorder, associative_scan_op, [graph], [rows, outer], None)
    call = recorder.add(associative_scan_op, [node, list(rows), tuple(outer)], {}, values)
    return _receive(recorder, call, values, twins)


def _stand_in(recorder: Any, leaf: Any) -> Any:
    """Return a distinct object for a carried value: the loop may carry one value twice."""
    if isinstance(leaf, Tensor):
        return recorder.record(Tensor.detach, (leaf,), {})
    if isinstance(leaf, bool):
        raise NotImplementedError("torch.export: a bool that while_loop carries")
    return _create_number(recorder, get_first_value(leaf),
                          lambda: recorder.add(operator.add, [leaf, 0], {}, leaf))


def _create_number(recorder: Any, value: int, make: Callable[[], Node]) -> SymbolicSize:
    """Return an unbacked number, with a new symbol."""
    other = value + (recorder.offset or 1)
    symbol = recorder.table.add("u", value, other, -INFINITE, unbacked=True)
    return SymbolicSize(value, other, make, Expression([(symbol, 1)]), recorder.table)


def _read_from_outside(parts: list[Subgraph], standing: tuple[Any, ...]) -> list[Any]:
    """Return the outer values that the functions read besides their arguments."""
    result: list[Any] = []
    for part in parts:
        result += [v for v in part.operands if not any(v is w for w in (*standing, *result))]
    return result


def _run(recorder: Any, function: Any, graphs: list[Any], groups: list[Any], shapes: Any
         ) -> tuple[Any, Any]:
    """Run the loop on both inputs. `shapes`: the results to use if an operand is fake."""
    first = [[get_first_value(x) for x in group] for group in groups]
    second = [[recorder.second_input(x) if isinstance(x, Tensor) else get_second_value(x)
               for x in group]
              for group in groups]
    flat = [x for group in first for x in group]
    with unrecorded(), no_grad():
        if shapes is not None and any(is_fake(x) for x in flat):
            values = tuple(get_first_value(x) for x in shapes)
            return values, tuple(recorder.second_input(x) for x in shapes)
        values = function(*graphs, *first)
        same = all(a is b for a, b in zip(flat, (x for g in second for x in g), strict=True))
        return values, values if same else function(*graphs, *second)


def _receive(recorder: Any, call: Node, values: tuple[Any, ...], twins: tuple[Any, ...]
             ) -> tuple[Any, ...]:
    """Add a node for each result."""
    results: list[Any] = []
    for i, (value, other) in enumerate(zip(values, twins, strict=True)):
        item = recorder.graph.call_function(operator.getitem, (call, i))
        recorder.note(item)
        if call in recorder.unbacked:
            recorder.unbacked.add(item)
        if isinstance(value, Tensor):
            recorder.register(value, item, other)
            results.append(value)
        elif isinstance(value, int):
            number = _create_number(recorder, value, lambda item=item: item)  # type: ignore[misc]
            item.meta["val"] = number
            recorder.unbacked.add(item)
            results.append(number)
        else:
            results.append(value)
    return tuple(results)
