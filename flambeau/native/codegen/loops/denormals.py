"""Flushes denormals to zero (MXCSR FTZ/DAZ) in fused weight-update kernels.

Optimizer moments of weights that no longer get gradients decay to denormals and stay there. Each
then costs over a hundred cycles, which doubles the kernel's time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from ...loop_ir.ir import (
    Contract, Load, Statement, Store, iterate_expressions, iterate_statements,
    iterate_subexpressions,
)
from ...target.machine import Target
from ..llvm.builder import POINTER, Builder

_FTZ_DAZ_BITS = 0x8040  # MXCSR: flush denormal results (FTZ) and operands (DAZ)


def needs_flush_to_zero(body: Sequence[Statement], target: Target) -> bool:
    """Whether a contraction's epilogue updates a matrix that it also reads."""
    return target.triple.startswith("x86_64") and any(
        _updates_epilogue_input(statement)
        for statement in iterate_statements(body)
        if isinstance(statement, Contract)
    )


def _updates_epilogue_input(contract: Contract) -> bool:
    inside = list(iterate_statements(contract.body))
    stored = {statement.buffer for statement in inside if isinstance(statement, Store)}
    read = iterate_subexpressions(expression for statement in inside for expression
                                  in iterate_expressions(statement))
    return any(isinstance(expression, Load) and expression.buffer in stored for expression in read)


@contextmanager
def flush_denormals(b: Builder, is_enabled: bool) -> Iterator[None]:
    """Emit code that flushes denormals within the `with` block, if `is_enabled`."""
    if not is_enabled:
        yield
        return
    word = ir.IntType(32)
    before, during = (b.entry_slot(word, name=name, align=4) for name in ("before", "during"))
    _access_mxcsr(b, "stmxcsr", before)
    bits = b.or_(b.load(before, typ=word, align=4), ir.Constant(word, _FTZ_DAZ_BITS))
    b.store(bits, during, align=4)
    _access_mxcsr(b, "ldmxcsr", during)
    yield
    _access_mxcsr(b, "ldmxcsr", before)


def _access_mxcsr(b: Builder, name: str, place: ir.Value) -> None:
    """Store MXCSR to memory, or load it."""
    name = f"llvm.x86.sse.{name}"
    kind = ir.FunctionType(ir.VoidType(), [POINTER])
    b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), [place])
