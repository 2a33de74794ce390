"""Picks the kernel template of a Contract: GEMM, implicit GEMM, Winograd or direct convolution."""

from __future__ import annotations

from ..loop_ir.ir import Contract, Kernel, Scalar, Store, iterate_statements
from ..target.machine import host
from .conv.direct import emit_direct_conv
from .conv.direct_blocking import Unsupported
from .conv.implicit_gemm import emit_implicit_gemm
from .conv.implicit_gemm_weight import emit_implicit_gemm_weight
from .gemm.dispatch import emit_gemm
from .loops.context import Context, Scope
from .loops.contraction_loops import emit_contraction_loops
from .loops.statement import EMITTERS, hoist_invariants
from .loops.vectorization import collect_written_values
from .winograd import plan, weight_gradient
from .winograd.forward import emit_winograd


def emit_contract(context: Context, scope: Scope, statement: Contract) -> None:
    """Emit a Contract by the first kernel that covers it, else as plain loops."""
    context.sum = statement.sum
    axes = [*statement.rows, statement.column, *statement.depth]
    if all(isinstance(axis.extent, int) and axis.extent for axis in axes):
        changes = [statement.sum, *collect_written_values(statement.body)]
        hoist_invariants(context, scope, {axis.index for axis in axes}, changes, statement.body)
    if not _emit_tiled(context, statement):
        emit_contraction_loops(context, statement)
    stores = [s.buffer for s in iterate_statements(statement.body) if isinstance(s, Store)]
    context.invalidate([statement.sum, *stores])


EMITTERS[Contract] = emit_contract


def _emit_tiled(context: Context, statement: Contract) -> bool:
    """Emit a Contract with register tiles; return False if no kernel covers it."""
    if emit_gemm(context, statement):
        return True
    if statement.product is not Scalar.MUL:
        return False
    for emit in (
        emit_implicit_gemm,
        emit_implicit_gemm_weight,
        emit_winograd,
        weight_gradient.emit_winograd_weight,
        emit_direct_conv,
    ):
        try:
            emit(context, statement)
        except Unsupported:
            continue
        return True
    return False


def check_winograd(kernel: Kernel) -> None:
    """Raise Unsupported if Winograd's algorithm does not cover a convolution's kernel."""
    (contraction,) = kernel.body
    if not isinstance(contraction, Contract):
        raise Unsupported("several contractions")
    try:
        plan.plan_winograd(contraction, host())
    except Unsupported:
        weight_gradient.plan_winograd_weight(contraction, host())
