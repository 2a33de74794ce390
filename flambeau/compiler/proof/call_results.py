"""Call results: the provenance of the previous opcode's result, after CPython executed it."""

from __future__ import annotations

import types
from typing import Any

from ...tensor.tensor import Tensor
from .declarations import OF_LAYOUT, OF_PLAIN_VALUES, READS_VALUES, is_in_library
from .facts import Facts
from .guards import Test
from .provenance import (
    UNKNOWN, Aspect, Kind, NotProvedError, Provenance, depends_on_values, is_plain,
)
from .shadow_frame import CallState, ShadowFrame


def settle(facts: Facts, s: ShadowFrame) -> None:
    """Finish the previous opcode's call: replace its placeholder slot with the result."""
    call, s.call = s.call, None
    if call is None:
        return
    if call.taints:
        call.tainted = True
        if call.decides:
            raise depends_on_values("what it does")
    slot = call.slot
    if slot is None:
        return
    if call.result is not None and not call.keeps_slot:
        result = call.result
    elif call.returned is not None and not call.keeps_slot:
        result = _identify_result(facts, call, *call.returned)
    else:
        slot.tainted |= call.taints
        if call.taints and slot.type is float:
            slot.read = facts.take_read(UNKNOWN)
        return
    s.stack = [result if p is slot else p for p in s.stack]


def _identify_result(facts: Facts, call: CallState, value: Any, name: str) -> Provenance:
    """Return the provenance of a library function's result."""
    name = call.attribute or name
    if call.takes_optimizer and value is not None and not isinstance(value, Tensor):
        raise NotProvedError(f"{name}() returns settings of an optimizer, which no guard covers")
    if call.takes_plain_values and is_plain(value) and not (
        name in OF_LAYOUT or name in OF_PLAIN_VALUES
    ):
        raise NotProvedError(f"{name}() changes or reads state that no guard covers")
    p = facts.identify(value, call.tainted, call.created)
    plain_number = isinstance(value, (int, float, complex, str, bytes, tuple))
    if p.kind is Kind.PLAIN and call.takes_tensors and name not in OF_LAYOUT and plain_number:
        p = Provenance(Kind.NUMBER, value)
    if p.kind is Kind.NUMBER and name in READS_VALUES:
        p.read = facts.take_read(value)
    key = (call.metadata_path, Aspect.METADATA)
    if p.kind is Kind.PLAIN and call.metadata_path and key not in facts.reads:
        facts.reads[key] = p
        facts.guard(call.metadata_path, Test.VALUE, value)
    if p.kind is Kind.FRESH and call.takes_tensors and name in READS_VALUES:
        p.tainted = True
    return facts.fresh(value) if p.kind is Kind.OPAQUE and _is_created(value) else p


def _is_created(x: Any) -> bool:
    """Whether the library creates a new object of this type for each caller."""
    if isinstance(x, types.GeneratorType):
        return is_in_library(x.gi_code)
    return isinstance(x, tuple) or hasattr(type(x), "__enter__")
