"""Counted loops with carried values, and internal functions of a module."""

from __future__ import annotations

from collections.abc import Callable
from llvmlite import ir

from .address import constant
from .types import I64, Number


def declare_internal(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.Function:
    """A new internal function of a module."""
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    for word in ("noinline", "nounwind"):
        function.attributes.add(word)
    return function


def emit_loop(
    b: ir.IRBuilder,
    extent: Number,
    carried: list[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """Emit a loop: `body(iteration, carried) -> carried`; returns the last carried values."""
    if isinstance(extent, int) and extent <= 1:
        return body(constant(0), carried) if extent == 1 else carried
    before = b.block
    start, done = b.append_basic_block("loop"), b.append_basic_block("done")
    if isinstance(extent, int):
        b.branch(start)
    else:
        b.cbranch(b.icmp_signed(">", extent, constant(0)), start, done)
    b.position_at_end(start)
    count = b.phi(I64)
    phis = [b.phi(v.type) for v in carried]
    count.add_incoming(constant(0), before)
    results = body(count, list(phis))
    latch = b.block
    following = b.add(count, constant(1), flags=("nuw", "nsw"))
    count.add_incoming(following, latch)
    for phi, old, new in zip(phis, carried, results, strict=True):
        phi.add_incoming(old, before)
        phi.add_incoming(new, latch)
    b.cbranch(b.icmp_signed("<", following, constant(extent)), start, done)
    b.position_at_end(done)
    if isinstance(extent, int):
        return results
    out = []
    for old, new in zip(carried, results, strict=True):
        phi = b.phi(new.type)
        phi.add_incoming(old, before)
        phi.add_incoming(new, latch)
        out.append(phi)
    return out
