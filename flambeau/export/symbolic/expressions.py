"""Symbols and linear expressions over them, with ranges: what are the bounds of `2*s0 + 1`?

A symbol is the length of a dynamic dimension (s0), a number read from a tensor (u0), or a
nonlinear term such as `(s0//2)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...fx.node import Node

__all__ = ["INFINITE", "Expression", "Guard", "Symbol", "SymbolTable", "ValueRange"]

INFINITE = 2**63 - 2


class ValueRange(NamedTuple):
    """The minimum and maximum of a number."""

    lower: int
    upper: int


class Guard(NamedTuple):
    """A decision of the program: `factor` times a symbol plus `constant` has a relation to zero."""

    relation: str
    factor: int
    constant: int
    location: str  # source line


class Symbol:
    """A number without a fixed value, in [low, high]; `unbacked`: not determined by any size."""

    def __init__(self, name: str, value: int, other: int, low: int, high: int,
                 unbacked: bool) -> None:
        self.name, self.value, self.other, self.unbacked = name, value, other, unbacked
        self.low, self.high = low, high
        self.guards: list[Guard] = []

    def __repr__(self) -> str:
        return self.name


class Expression:
    """A sum of symbols with integer factors, and a constant."""

    __slots__ = ("constant", "terms")

    def __init__(self, terms: Iterable[tuple[Symbol, int]], constant: int = 0) -> None:
        self.terms = tuple(sorted(((s, n) for s, n in terms if n), key=lambda t: t[0].name))
        self.constant = constant

    def add(self, other: Expression, times: int = 1) -> Expression:
        """Return the sum with a multiple of another expression."""
        factors = dict(self.terms)
        for symbol, n in other.terms:
            factors[symbol] = factors.get(symbol, 0) + times * n
        return Expression(factors.items(), self.constant + times * other.constant)

    def scale(self, times: int) -> Expression:
        """Return the product with a number."""
        return Expression([(s, n * times) for s, n in self.terms], self.constant * times)

    @property
    def unbacked(self) -> bool:
        """Whether it contains an unbacked symbol."""
        return any(s.unbacked for s, _ in self.terms)

    @property
    def range(self) -> ValueRange:
        """Return its bounds, computed from those of its symbols."""
        low = high = self.constant
        for symbol, n in self.terms:
            least, most = (symbol.low, symbol.high) if n > 0 else (symbol.high, symbol.low)
            low = -INFINITE if abs(least) >= INFINITE else low + n * least
            high = INFINITE if abs(most) >= INFINITE else high + n * most
        return ValueRange(max(low, -INFINITE), min(high, INFINITE))

    def __repr__(self) -> str:
        text = ""
        for symbol, n in self.terms:
            sign = (" - " if n < 0 else " + ") if text else ("-" if n < 0 else "")
            text += f"{sign}{'' if abs(n) == 1 else f'{abs(n)}*'}{symbol}"
        if not text:
            return str(self.constant)
        if self.constant:
            text += f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}"
        return text


class SymbolTable:
    """The symbols of a trace, and the relations that the program asserted about them."""

    def __init__(self) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.lengths: dict[tuple[int, int], Expression] = {}  # keyed by values in the two runs
        # Keyed by terms: the greatest known lower bound of the sum, and differences.
        self.lower: dict[tuple, int] = {}
        self.unequal: set[tuple] = set()
        self.note: Callable[[Node], None] = lambda node: None  # tells a node where it comes from

    def add(self, prefix: str, value: int, other: int, low: int = -INFINITE, high: int = INFINITE,
            *, unbacked: bool = False) -> Symbol:
        """Create a symbol."""
        count = sum(name.startswith(prefix) for name in self.symbols)
        symbol = Symbol(f"{prefix}{count}", value, other, low, high, unbacked)
        self.symbols[symbol.name] = symbol
        self.lengths.setdefault((value, other), Expression([(symbol, 1)]))
        return symbol

    def find_or_add(
        self, name: str, value: int, other: int, bounds: ValueRange, unbacked: bool
    ) -> Symbol:
        """Return the symbol of a nonlinear term; equal names give the same symbol."""
        return self.symbols.setdefault(name, Symbol(name, value, other, *bounds, unbacked))

    def find(self, value: int, other: int) -> Expression | None:
        """Return an expression that has these values in the two runs."""
        return self.lengths.get((value, other))

    # ---------------------------------------------------------------- what is known

    def assume(self, relation: str, difference: Expression) -> None:
        """Record that a difference has this relation to zero."""
        negative, minus_one = difference.scale(-1), Expression((), -1)
        if relation == "ne":
            self.unequal |= {(e.terms, e.constant) for e in (difference, negative)}
            return
        bounds = {
            "ge": [difference],
            "gt": [difference.add(minus_one)],
            "le": [negative],
            "lt": [negative.add(minus_one)],
            "eq": [difference, negative],
        }
        for bound in bounds[relation]:
            self._assume_not_negative(bound)

    def _assume_not_negative(self, difference: Expression) -> None:
        """Record that an expression is zero or more."""
        least = -difference.constant
        self.lower[difference.terms] = max(least, self.lower.get(difference.terms, least))
        if len(difference.terms) == 1:
            (symbol, n), = difference.terms
            if n > 0:
                symbol.low = max(symbol.low, -(-least // n))
            else:
                symbol.high = min(symbol.high, least // n)

    def answer(self, relation: str, difference: Expression) -> bool | None:
        """Whether a difference has this relation to zero; None if unknown."""
        if relation in ("lt", "gt", "ne"):
            inverse = self.answer({"lt": "ge", "gt": "le", "ne": "eq"}[relation], difference)
            return None if inverse is None else not inverse
        if relation == "le":
            return self.answer("ge", difference.scale(-1))
        low = self._find_lower_bound(difference)
        high = -self._find_lower_bound(difference.scale(-1))
        if relation == "ge":
            return True if low >= 0 else False if high < 0 else None
        if low == high == 0:
            return True
        unequal = (difference.terms, difference.constant) in self.unequal
        return False if low > 0 or high < 0 or unequal else None

    def _find_lower_bound(self, expression: Expression) -> int:
        stated = self.lower.get(expression.terms, -INFINITE)
        lower = expression.range.lower
        return lower if stated == -INFINITE else max(lower, stated + expression.constant)
