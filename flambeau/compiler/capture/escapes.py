"""Escapes: effects of a recorded step that outlive it and that its trace must explain.

A step is not compiled if memory changed without a recorded write, if it stored tensors where Python
can find them, or if its results still belong to a graph.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

from ...autograd.engine import make_target_key
from ...autograd.node import Node
from ...autograd.outputs import Output
from ...tensor.layout import as_bytes
from ...tensor.tensor import Tensor
from ..trace.carried_values import list_leaves
from ..trace.trace import CALL, DRAW, OPERATOR, UPDATE, WRITE, Trace, are_same_bits, collect_values

RETAINED = "it keeps a tensor that it made in a list or an attribute, without returning it"


def finish(trace: Trace) -> None:
    """Add the step's lasting effects to the trace, and a problem for each that is unexplained."""
    changed = collect_written_storages(trace)
    for storage in trace.storages:
        if storage.owner is None or storage.initial is None or storage.number in changed:
            continue
        if not are_same_bits(as_bytes(storage.owner), storage.initial):
            trace.add_problem("memory was changed by something that cannot be recorded", "")
    tensors = list(iterate_tensors(trace.result))
    _forget_own_grads(trace, tensors)
    if trace.backward is None and find_live_outputs(trace):
        trace.add_problem(
            "it returns a tensor with a graph that backward has not been through: call backward "
            "inside the step, or return tensor.detach()", "",
        )
    if any(x is y for x in trace.moved for y in tensors):
        trace.add_problem("it returns a tensor to which it gave other memory", "")
    trace.moved.clear()
    _refuse_earlier_graphs(trace, tensors)
    trace.walked_nodes = dict.fromkeys(trace.walked_nodes)
    _find_retained(trace, tensors)


def _refuse_earlier_graphs(trace: Trace, returned: list[Tensor]) -> None:
    """Refuse a call that goes on with the graph of a tensor that it takes over, rather than
    detaching it: programs know no graph of an earlier call."""
    histories = [tensor._history() for tensor in iterate_tensors(list_leaves(trace.carried))]
    earlier = {id(h.node if h.__class__ is Output else h) for h in histories if h is not None}
    if not earlier:
        return
    met = {**trace.walked_nodes}
    add_nodes(met, [tensor._history() for tensor in returned if trace.has_created(tensor)])
    if not earlier.isdisjoint(met):
        trace.add_problem("it goes on with the graph of a tensor of the call before: detach what "
                          "one step hands to the next", "")


def _forget_own_grads(trace: Trace, returned: list[Tensor]) -> None:
    """Drop leaves that the step created, as a gradient penalty does, and their grads."""
    for key, access in list(trace.grads.items()):
        if not access.outside:
            if access.tensor._grad is not None and any(access.tensor is y for y in returned):
                trace.add_problem("it returns a tensor that it made, with a .grad", "")
            del trace.grads[key]


def find_live_outputs(trace: Trace) -> list[Tensor]:
    """Return the distinct result tensors from which a later backward pass may start."""
    result: dict[int, Tensor] = {}
    for tensor in iterate_tensors(trace.result):
        node = tensor._history()
        node = node.node if node.__class__ is Output else node
        if trace.has_created(tensor) and _can_go_backward(trace, node):
            result[id(tensor)] = tensor
    return list(result.values())


def list_live_bases(trace: Trace, outputs: list[Tensor]) -> list[Tensor]:
    """Return the bases of outputs that the call created and that have a graph, once each. If a
    view is written to, its gradient comes through its base."""
    known = {id(y) for y in outputs}
    result: dict[int, Tensor] = {}
    for base in (y._base for y in outputs):
        if base is None or id(base) in known or not trace.has_created(base):
            continue
        node = base._history()
        if _can_go_backward(trace, node.node if node.__class__ is Output else node):
            result[id(base)] = base
    return list(result.values())


def _can_go_backward(trace: Trace, node: Any) -> bool:
    """Whether no backward pass has freed any part of a node's graph."""
    if node is None or id(node) in trace.walked_nodes:
        return False
    stack, met = [node], {id(node)}
    while stack:
        for edge in stack.pop().edges:
            single = edge.node if edge.__class__ is Output else edge
            if not isinstance(single, Node) or id(single) in met:
                continue
            if single.saved is None and id(single) in trace.walked_nodes:
                return False
            met.add(id(single))
            stack.append(single)
    return True


def explain_lost_backward(trace: Trace, outputs: list[Tensor], inputs: list[Tensor]) -> str | None:
    """Return why a backward program cannot replace the graph from outputs to inputs, or None."""
    ends = {make_target_key(x._history() or x) for x in inputs}
    returned = {id(tensor) for tensor in iterate_tensors(trace.result)}
    stack: list[Any] = [y._history() for y in outputs]
    seen = set()
    while stack:
        target = stack.pop()
        if target is None or make_target_key(target) in ends:
            continue
        if isinstance(target, Tensor):
            if id(target) in trace.existing_tensors or id(target) in returned:
                return ("backward through its result reaches a leaf that it made and returns, or "
                        "one from outside that no operator took")
            continue
        node = target.node if target.__class__ is Output else target
        if id(node) not in seen:
            seen.add(id(node))
            if node.hooks is not None:
                return "a tensor that it makes has a hook, which no compiled call would run"
            if node.is_custom:  # recording would run its Python one time too many
                return "backward through its result runs the Python of a custom Function"
            stack.extend(node.edges)
    return None


def collect_written_storages(trace: Trace) -> set[int]:
    """Return the numbers of the storages that recorded events write."""
    from ..lowering import writes

    result: set[int] = set()
    for event in trace.events:
        targets: Any = ()
        if event.kind in (WRITE, DRAW):
            targets = event.args[0]
        elif event.kind == UPDATE:
            targets = event.args
        elif event.kind == CALL:
            targets = event.written
        elif event.kind == OPERATOR:
            targets = [event.args[i] for i in writes(event.operator)]
        result.update(value.storage for value in collect_values(targets))
    return result


def iterate_tensors(x: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested tuples, lists and dicts."""
    kind = type(x)
    if issubclass(kind, Tensor):
        yield x
    elif issubclass(kind, (tuple, list)):
        for item in x:
            yield from iterate_tensors(item)
    elif issubclass(kind, dict):
        yield from iterate_tensors(list(x.values()))


def walk(trace: Trace, target: Any) -> None:
    """Note the nodes that a backward pass from `target` visits and frees."""
    add_nodes(trace.walked_nodes, [target])


def add_nodes(met: dict[int, Any], targets: list[Any]) -> None:
    """Add the nodes below `targets` that are not in `met` yet, by their ids."""
    stack = [*targets]
    while stack:
        single = stack.pop()
        single = single.node if single.__class__ is Output else single
        if isinstance(single, Node) and id(single) not in met:
            met[id(single)] = single
            stack.extend(single.edges)


def _find_retained(trace: Trace, returned: list[Tensor]) -> None:
    """Add a problem for each tensor that outlives the step without being returned."""
    allowed: set[int] = set()
    stack: list[Any] = [*returned]
    stack += [access.tensor._grad for access in trace.grads.values()]
    if trace.backward is not None:
        stack += _list_reachable(trace.backward.outputs, True)
    stack += _list_reachable(returned, False)
    while stack:
        tensor = stack.pop()
        if tensor is not None and id(tensor) not in allowed:
            allowed.add(id(tensor))
            stack.append(tensor._base)
    retained = _list_retained(trace, allowed)
    if retained:
        gc.collect()
        retained = _list_retained(trace, allowed)
    if retained:
        line = _find_line(trace, retained[0])
        trace.add_problem(RETAINED, line)


def _list_reachable(outputs: list[Tensor], saved: bool) -> list[Tensor]:
    """Return the leaves of the outputs' graph and, if `saved`, the tensors saved for backward."""
    result: list[Tensor] = []
    stack: list[Any] = [y._node for y in outputs]
    seen: set[int] = set()
    while stack:
        single = stack.pop()
        single = single.node if single.__class__ is Output else single
        if isinstance(single, Tensor):
            result.append(single)
        elif isinstance(single, Node) and id(single) not in seen:
            seen.add(id(single))
            result.extend(iterate_tensors(single.saved) if saved else ())
            stack.extend(single.edges)
    return result


def _list_retained(trace: Trace, allowed: set[int]) -> list[Tensor]:
    result = [reference() for reference in trace.tensors.values()]
    return [t for t in result if t is not None and id(t) not in allowed]


def _find_line(trace: Trace, tensor: Tensor) -> str:
    value = trace.value_of(tensor._array)
    for event in trace.events:
        if value is not None and value in event.results:
            return event.line
    return ""
