"""Calls of C library functions, lane by lane."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from .builder import I64, Builder, vector


def call_per_lane(b: Builder, name: str, values: Sequence[ir.Value], lanes: int) -> ir.Value:
    """A C function on each lane of operands of one type."""
    if lanes == 1:
        return b.external(name, values[0].type, values)
    kind = values[0].type.element
    results = ir.Constant(vector(kind, lanes), None)
    for lane in range(lanes):
        lane_number = ir.Constant(I64, lane)
        result = b.external(name, kind, [b.extract_element(v, lane_number) for v in values])
        results = b.insert_element(results, result, lane_number)
    return results
