"""Matrix products: a Contract with one row axis and one depth axis, and how each is best computed.

By the matrix unit where there is one and it pays, as dot products where there are few rows, else
by register tiles.
"""

from __future__ import annotations

from typing import Any

from ...loop_ir.ir import Contract
from .dot_products import Dot, suits
from .blocking import Problem, known, planned, problem
from .pack import minimum
from .amx_blocking import divided, pays
from .amx_gemm import PartsProduct
from .macro_kernel import Product
from ..llvm.address import constant


def gemm(context: Any, statement: Contract) -> bool:
    """Emits a matrix product; False where the Contract is none."""
    p = problem(context, statement)
    if p is None:
        return False
    if p.m == 0 or p.n == 0:
        return True
    b, least = context.builder, minimum(context.builder, p.m, p.n)
    if known(least):
        _emit(context, statement, p)
    else:
        with b.if_then(b.icmp_signed(">", least, constant(0))):
            _emit(context, statement, p)
    return True


def _emit(context: Any, statement: Contract, p: Problem) -> None:
    if suits(p, context.target):
        Dot(context, statement, p).emit()
    elif pays(p, context.target):
        PartsProduct(context, statement, p, divided(p)).emit()
    else:
        plan = planned(p, context.target, 1 if context.parallel else statement.shares)
        Product(context, statement, p, plan).emit()
