"""Observers of the tape: the line and module of each recorded node, and pairs of operands."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...autograd import tape
from ..places import find_spot
from . import Observer
from .calls import Call, report_after

if TYPE_CHECKING:
    from ..session import Session

_PATCH_COST_S = 0.6e-6  # of a patched call, besides the time that the observer measures


def iterate_targets(session: Session) -> Iterator[tuple[Any, Observer]]:
    """Yield the tape's functions to patch, with their observers."""
    for function in (tape.record_unary, tape.record_number, tape.record):
        yield function, report_after(session, _report_node)
    yield tape.record_binary, report_after(session, _report_binary)


def _report_node(session: Session, call: Call) -> Any:
    """Note on a new node its line and the innermost module, and return the node."""
    start_s = time.perf_counter()
    result = call.args[1]
    if result.__class__ is tuple or result.__class__ is list:
        result = result[0] if result else None
    node = getattr(result, "_node", None)
    if node is not None:
        node = getattr(node, "node", node)
        if "_doctor_spot" not in node.__dict__:
            module = session.stack[-1] if session.stack else None
            node.__dict__["_doctor_spot"] = find_spot(), module, session.call_spot
    session.clock.spent_s += time.perf_counter() - start_s + _PATCH_COST_S
    return node


def _report_binary(session: Session, call: Call) -> None:
    """Note the node; report broadcasts, and tracked operands beside constants."""
    if _report_node(session, call) is None:
        return
    operator, result, a, b = call.args[:4]
    if result._array.size > max(a._array.size, b._array.size):
        session.emit("on_broadcast", operator.name, a, b, find_spot())
    if a._node is None and not a.requires_grad:
        a, b = b, a
    if b._node is None and not b.requires_grad and a._node is not None:
        if b._array.ndim:
            session.emit("on_operand", operator.name, a, b, find_spot())
        elif operator.name in ("_add", "_sub"):
            session.emit("on_addend", b, find_spot())
