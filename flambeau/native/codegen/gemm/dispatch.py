"""Emits matrix products: by AMX if present and profitable, as dot products for few rows, else by
register tiles.
"""

from __future__ import annotations

from typing import Any

from ...loop_ir.ir import Contract
from ..llvm.address import constant
from .amx_blocking import is_profitable, plan_amx
from .amx_gemm import emit_amx_product
from .blocking import GemmProblem, is_known, match_gemm, plan_gemm
from .dot_products import DotProductKernel, is_few_row_product
from .macro_kernel import emit_product
from .pack import emit_min
from .product import Product


def emit_gemm(context: Any, statement: Contract) -> bool:
    """Emit a Contract with one row and one depth axis; False if it is not a matrix product."""
    p = match_gemm(context, statement)
    if p is None:
        return False
    if p.m == 0 or p.n == 0:
        return True
    b, shorter = context.builder, emit_min(context.builder, p.m, p.n)
    if is_known(shorter):
        _emit_best(context, statement, p)
    else:
        with b.if_then(b.icmp_signed(">", shorter, constant(0))):
            _emit_best(context, statement, p)
    return True


def _emit_best(context: Any, statement: Contract, p: GemmProblem) -> None:
    if is_few_row_product(p, context.target):
        DotProductKernel(context, statement, p).emit()
    elif is_profitable(p, context.target):
        emit_amx_product(context, statement, p, plan_amx(p))
    else:
        plan = plan_gemm(p, context.target, 1 if context.parallel else statement.shares)
        emit_product(Product(context, statement, p, plan))
