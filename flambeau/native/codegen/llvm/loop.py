"""Loops with carried values whose body is a function, and internal functions of a module."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from .builder import VectorBuilder
from .types import Number


def declare_internal(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.Function:
    """A new internal function of a module."""
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    for word in ("noinline", "nounwind"):
        function.attributes.add(word)
    return function


def emit_loop(
    b: VectorBuilder,
    extent: Number,
    carried: list[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """Emit a loop: `body(iteration, carried) -> carried`; returns the last carried values."""
    if isinstance(extent, int) and not extent:
        return carried
    with b.carrying_loop(0, extent, carried) as loop:
        loop.values = body(loop.index, loop.values)
    return loop.values
