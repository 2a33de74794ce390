"""Arithmetic on expressions: linear where it can be, else a new symbol with bounds."""

from __future__ import annotations

from .expressions import INFINITE, Expression, SymbolTable, ValueRange

__all__ = ["combine"]

_SIGNS = {"mul": "*", "floordiv": "//", "mod": "%", "pow": "**"}


def combine(
    name: str, operands: list[Expression], value: int, other: int, table: SymbolTable
) -> Expression:
    """Return the expression of a computed size. `value`, `other`: its values in the two runs."""
    a, b = operands if len(operands) == 2 else (Expression(()), *operands)
    linear = _combine_linearly(name, a, b)
    if linear is not None:
        return linear
    left, right = (f"({x})" if " " in repr(x) else repr(x) for x in (a, b))
    symbol = table.find_or_add(f"({left}{_SIGNS.get(name, name)}{right})", value, other,
                               _bound_term(name, a, b), a.unbacked or b.unbacked)
    return Expression([(symbol, 1)])


def _combine_linearly(name: str, a: Expression, b: Expression) -> Expression | None:
    """Return a sum, a difference or a product with a number; None for other operations."""
    if name == "add":
        return a.add(b)
    if name in ("sub", "neg"):  # neg(b) is 0 - b
        return a.add(b, -1)
    if name == "mul" and not (a.terms and b.terms):
        return a.scale(b.constant) if a.terms else b.scale(a.constant)
    return None


def _bound_term(name: str, a: Expression, b: Expression) -> ValueRange:
    """Return the bounds of a nonlinear term."""
    if not b.terms and b.constant > 0:
        if name == "mod":
            return ValueRange(0, b.constant - 1)
        if name == "floordiv":
            return ValueRange(*(n if abs(n) >= INFINITE else n // b.constant for n in a.range))
    elif a.range.lower >= 0 and b.range.lower >= 0:
        return ValueRange(0, INFINITE)
    return ValueRange(-INFINITE, INFINITE)
