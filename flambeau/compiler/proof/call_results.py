"""Call results: the provenance of the previous opcode's result, after CPython executed it."""

from __future__ import annotations

import types
from typing import Any

from ...tensor.tensor import Tensor
from .declarations import OF_LAYOUT, OF_PLAIN_VALUES, READS_VALUES, is_in_library
from .facts import Facts
from .guards import Test
from .numbers.inputs import settle_offer
from .provenance import (
    UNKNOWN, Aspect, Kind, NotProvedError, Provenance, depends_on_values, is_plain,
)
from .shadow_frame import CallState, ShadowFrame


def settle(facts: Facts, s: ShadowFrame) -> None:
    """Finish the previous opcode's call: replace its placeholder slot with the result."""
    call, s.call = s.call, None
    if call is None:
        return
    if call.offer is not None:
        settle_offer(facts, call.offer)
    if call.seen.read_values:
        call.tainted = True
        if call.decides:
            raise depends_on_values("what it does")
    slot = call.slot
    if slot is None:
        return
    seen = call.seen
    if seen.watched_result is not None and not call.keeps_slot:
        result = seen.watched_result
    elif seen.library_result is not None and not call.keeps_slot:
        result = _identify_result(facts, call, *seen.library_result)
    else:
        slot.tainted |= seen.read_values
        if seen.read_values and slot.type is float:
            slot.read = facts.take_read(UNKNOWN)
        return
    s.stack = [result if p is slot else p for p in s.stack]


def _identify_result(facts: Facts, call: CallState, value: Any, name: str) -> Provenance:
    """Return the provenance of a library function's result."""
    operands, attribute = call.operands, call.attribute
    if attribute is not None:
        name = attribute.name
    if operands.has_optimizer and value is not None and not isinstance(value, Tensor):
        raise NotProvedError(f"{name}() returns settings of an optimizer, which no guard covers")
    if operands.are_plain and is_plain(value) and not (
        name in OF_LAYOUT or name in OF_PLAIN_VALUES
    ):
        raise NotProvedError(f"{name}() changes or reads state that no guard covers")
    p = facts.identify(value, call.tainted, call.created)
    plain_number = isinstance(value, (int, float, complex, str, bytes, tuple))
    if p.kind is Kind.PLAIN and operands.has_tensors and name not in OF_LAYOUT and plain_number:
        p = Provenance(Kind.NUMBER, value)
    if p.kind is Kind.NUMBER and name in READS_VALUES:
        p.read = facts.take_read(value)
    if p.kind is Kind.PLAIN and attribute is not None and attribute.path:
        key = (attribute.path, Aspect.METADATA)
        if key not in facts.reads:
            facts.reads[key] = p
            facts.guard(attribute.path, Test.VALUE, value)
    if p.kind is Kind.FRESH and operands.has_tensors and name in READS_VALUES:
        p.tainted = True
    return facts.fresh(value) if p.kind is Kind.OPAQUE and _is_created(value) else p


def _is_created(x: Any) -> bool:
    """Whether the library creates a new object of this type for each caller."""
    if isinstance(x, types.GeneratorType):
        return is_in_library(x.gi_code)
    return isinstance(x, tuple) or hasattr(type(x), "__enter__")
