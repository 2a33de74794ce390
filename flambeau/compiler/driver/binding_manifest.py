"""Recipe: what binds the program of a precedent, as plain data; so a call that did the same needs
neither its graph nor what binds it to be worked out again.

It has in it all that the graph and bindings depend on beside the events, which are compared
already: what was returned, which gradients there were, which argument lies where.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...native.loop_ir.ir import Type
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.storage import owner_of
from ...tensor.tensor import Tensor
from ..trace import bindings as bind
from ..functionalization.index_checks import Bound, Check
from ..ir.graph import Graph, Node, Op, Source
from ..ir.serialization import packed, unpacked
from ..functionalization.graph_inputs import (
    arguments_of, array_of, draws, entries, gradient, supply,
)
from ..trace.trace import OPERATOR, UPDATE, Trace, Value

_PLAIN = (type(None), bool, int, float, str)
_OURS = ("flambeau.ops.", "flambeau.optim.")  # whose sources are in the key of a precedent
_KINDS = {str(one): one for one in FROM_NUMPY}


class _Unsaid(Exception):
    """Something in bindings that a recipe has no words for."""


def recipe(trace: Trace, leaves: list[Any], graph: Graph, bindings: bind.Bindings) -> list | None:
    """The recipe of a program; None where there are no words for it. Before the trace is stripped.

    Plain lists, numbers and texts: it is kept on disk.
    """
    if bindings.backward or bindings.calls or bindings.effects or bindings.after:
        return None
    if bindings.looked or not _is_ours(trace):
        return None
    try:
        slots = [_slot(slot, source, trace)
                 for slot, source in zip(bindings.slots, graph.sources, strict=True)]  # fmt: skip
        return [
            _circumstances(trace, leaves),
            [[s.kind, s.name, s.shape, s.type.value, s.strides] for s in graph.sources], slots,
            _form(bindings.result), _gradients(trace, graph, bindings),
            [_check(one, bindings.slots) for one in bindings.checks],
            [[node.shape, node.type.value] for node in graph.outputs],
            [slot for slot, _ in graph.writes],
        ]  # fmt: skip
    except _Unsaid:
        return None


def followed(made: list, trace: Trace, leaves: list[Any]) -> tuple[Graph, bind.Bindings] | None:
    """The edges of a program, a graph with nothing in between, and its bindings; None where the
    recipe is one for other circumstances."""
    circumstances, sources, slots, form, gradients, checks, outputs, writes = made
    try:
        if _circumstances(trace, leaves) != circumstances:
            return None
    except _Unsaid:
        return None
    bindings = bind.Bindings()
    arguments_of(trace, leaves, bindings)
    _updates(trace, bindings)
    kept: dict[int, np.ndarray] = {}
    accesses = list(trace.grads.values())
    for access, slot in gradients:
        leaf, tensor = accesses[access].tensor, None
        if slot is not None:
            value = trace.value(accesses[access].tensor._grad._array)
            assert value is not None
            kept[slot], tensor = gradient(value)
        bindings.grads.append((leaf, tensor))
    bindings.entry = entries(trace)
    drawn = draws(trace)
    for at, said in enumerate(slots):
        state = bind.State(kept[at]) if at in kept else None
        bindings.slots.append(state or _said(said, trace, drawn))
    bindings.recorded = [None] * len(slots)
    bindings.result = _formed(form)
    ends = [_value(shape, kind) for shape, kind in outputs]
    given = [Source(kind, tuple(shape), Type(type), supply(slot), name, _tuple(strides))
             for (kind, name, shape, type, strides), slot
             in zip(sources, bindings.slots, strict=True)]  # fmt: skip
    bindings.checks = [_checked(one, bindings.slots, given) for one in checks]
    edges = [(slot, _value(sources[slot][2], sources[slot][3])) for slot in writes]
    return Graph(given, [], ends, edges), bindings


def _is_ours(trace: Trace) -> bool:
    """Whether what is computed is said by this library's own sources."""
    for event in trace.events:
        if event.kind == OPERATOR:
            place = getattr(event.operator.body, "__module__", "")
        elif event.kind == UPDATE:
            formula = type(event.kwargs["optimiser"])._flambeau_formula
            place = getattr(formula, "__module__", "")
        else:
            continue
        if not place.startswith(_OURS):
            return False
    return True


# ------------------------------------------------------------------------- circumstances


def _circumstances(trace: Trace, leaves: list[Any]) -> list:
    """What a graph and its bindings depend on beside a trace's events and external memory."""
    found: list[Any] = []
    for leaf in leaves:
        array = array_of(leaf)
        found.append(None if array is None else trace.numbers.get(id(owner_of(array))))
    bindings = bind.Bindings()
    arguments_of(trace, leaves, bindings)
    return [
        found, [list(one) for one in bindings.together], [list(one) for one in bindings.apart],
        [str((one.whole.shape, one.whole.strides, one.whole.dtype)) for one in trace.storages],
        _returned(trace.result, trace, leaves, set()),
        [[_window(g.tensor._array, trace), g.read, _grad(g.before, None, trace),
          _grad(g.tensor._grad, g.before, trace)] for g in trace.grads.values()],
    ]  # fmt: skip


def _returned(x: Any, trace: Trace, leaves: list[Any], met: set[int]) -> Any:
    kind = x.__class__
    if isinstance(x, Tensor):
        same = [i for i, leaf in enumerate(leaves) if leaf is x]
        if id(x) in met:
            raise _Unsaid("the same tensor twice")
        met.add(id(x))
        return ["tensor", kind.__qualname__, same, bool(x.requires_grad), _window(x._array, trace)]
    if kind in (tuple, list):
        return [kind.__name__, *[_returned(one, trace, leaves, met) for one in x]]
    if kind is dict and all(key.__class__ is str for key in x):
        return ["dict", *[[key, _returned(one, trace, leaves, met)] for key, one in x.items()]]
    if kind in _PLAIN:
        return repr(x)
    raise _Unsaid(kind)


def _grad(x: Any, before: Any, trace: Trace) -> str:
    """What a leaf's grad is, or was."""
    if x is None or x is before:
        return "none" if x is None else "same"
    return f"{bool(x.requires_grad)} {_window(x._array, trace)}"


def _window(array: np.ndarray, trace: Trace) -> str:
    """Where an array lies, where the trace knows it."""
    number = trace.numbers.get(id(owner_of(array)))
    if number is None:
        return f"other {array.shape} {array.strides} {array.dtype}"
    value = trace.value(array)
    assert value is not None
    at = value.offset - trace.storages[number].start
    return f"{number}+{at} {value.shape} {value.strides} {value.dtype}"


# --------------------------------------------------------------------------------- parts


def _slot(slot: Any, source: Source, trace: Trace) -> list:
    """A slot in words."""
    if isinstance(slot, bind.Argument):
        return ["argument", *_argument(slot)]
    if isinstance(slot, bind.Scalar):
        return ["scalar", slot.update, slot.place]
    if isinstance(slot, bind.Drawn):
        return ["drawn"]
    if not isinstance(slot, bind.State):
        raise _Unsaid(slot)
    if source.name == "grad":
        return ["grad"]
    owner = owner_of(slot.array)
    number = trace.numbers.get(id(owner))
    if number is None or trace.storages[number].owner is not owner:
        raise _Unsaid(slot)
    value = trace.value(slot.array)
    assert value is not None
    return ["state", number, value.offset, value.shape, value.strides, str(value.dtype)]


def _said(said: list, trace: Trace, drawn: Iterator[bind.Drawn]) -> Any:
    """A slot of its words."""
    kind, *rest = said
    if kind == "argument":
        return _argued(*rest)
    if kind == "scalar":
        return bind.Scalar(*rest)
    if kind == "drawn":
        return next(drawn)
    number, offset, shape, strides, dtype = rest
    value = Value(number, offset, tuple(shape), tuple(strides), _dtype(dtype))
    return bind.State(bind.live(trace.storages[number], value))


def _argument(slot: bind.Argument) -> list:
    return [slot.leaf, slot.offset, slot.shape, slot.strides, str(slot.dtype), slot.order]


def _argued(
    leaf: int, offset: int, shape: list, strides: list, dtype: str, order: list | None
) -> bind.Argument:
    return bind.Argument(leaf, offset, tuple(shape), tuple(strides), _dtype(dtype), _tuple(order))


def _updates(trace: Trace, bindings: bind.Bindings) -> None:
    for event in trace.events:
        if event.kind == UPDATE:
            bindings.updates.append(bind.Update(**event.kwargs, event=event))


def _form(x: Any) -> list:
    """The form of a result in words."""
    if isinstance(x, bind.Output) and x.live is None and x.window is None:
        return ["output", x.number, x.shape, x.order, x.requires_grad]
    if isinstance(x, bind.Leaf):
        return ["leaf", x.number]
    if isinstance(x, bind.Same) and x.value.__class__ in _PLAIN:
        return ["same", x.value]
    if isinstance(x, bind.Seen):
        return ["seen", x.is_view, *_argument(x.argument)]
    if x.__class__ in (tuple, list):
        return [x.__class__.__name__, *map(_form, x)]
    if x.__class__ is dict:
        return ["dict", *[[key, _form(one)] for key, one in x.items()]]
    raise _Unsaid(x)


def _formed(said: list) -> Any:
    """The form of a result of its words."""
    kind, *rest = said
    if kind == "output":
        number, shape, order, attached = rest
        return bind.Output(number, tuple(shape), tuple(order), attached)
    if kind in ("leaf", "same"):
        return bind.Leaf(*rest) if kind == "leaf" else bind.Same(*rest)
    if kind == "seen":
        return bind.Seen(_argued(*rest[1:]), rest[0])
    if kind == "dict":
        return {key: _formed(one) for key, one in rest}
    made = [_formed(one) for one in rest]
    return tuple(made) if kind == "tuple" else made


def _gradients(trace: Trace, graph: Graph, bindings: bind.Bindings) -> list:
    """Which accesses to grads set one, and the slot of its memory."""
    numbers = {id(one.tensor): i for i, one in enumerate(trace.grads.values())}
    slots = {id(slot.array): i for i, slot in enumerate(bindings.slots)
             if graph.sources[i].name == "grad" and isinstance(slot, bind.State)}  # fmt: skip
    return [[numbers[id(leaf)], None if grad is None else slots[id(owner_of(grad._array))]]
            for leaf, grad in bindings.grads]  # fmt: skip


def _check(one: Check, slots: list[Any]) -> list:
    """A check in words: of an argument's numbers, or of a small graph's."""
    node, graph = one.bound.node, ""
    if one.graph is not None:
        graph = base64.b64encode(packed(one.graph)).decode()
    if one.leaf is None and not graph:
        raise _Unsaid(one)
    numbers = {id(slot): i for i, slot in enumerate(slots)}
    return [node.shape, node.type.value, one.bound.size, one.bound.ignored, one.leaf, graph,
            [numbers[id(slot)] for slot in one.slots]]  # fmt: skip


def _checked(said: list, slots: list[Any], sources: list[Source]) -> Check:
    """A check of its words."""
    shape, kind, size, ignored, leaf, data, places = said
    bound = Bound(_value(shape, kind), size, ignored)
    if leaf is not None:
        return Check(bound, leaf)
    graph = unpacked(base64.b64decode(data), [sources[i] for i in places])
    return Check(bound, None, graph, tuple([slots[i] for i in places]))


def _value(shape: Any, kind: str) -> Node:
    """A node that says what a value is like, and not where it comes from."""
    return Node(Op.INPUT, (), tuple(shape), Type(kind))


def _dtype(name: str) -> np.dtype:
    return _KINDS.get(name) or np.dtype(name)


def _tuple(x: Any) -> tuple | None:
    return None if x is None else tuple(x)
