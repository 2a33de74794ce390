"""Matrix products: a Contract with one row axis and one depth axis, and how each is best computed.

By the matrix unit where there is one and it pays, as dot products where there are few rows, else
by register tiles.
"""

from __future__ import annotations

from typing import Any

from ..loops import Contract
from .dot import Dot, suits
from .gemm_plan import Problem, known, planned, problem
from .pack import minimum
from .parts_plan import divided, pays
from .parts_product import PartsProduct
from .product import Product
from .tile import constant


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
