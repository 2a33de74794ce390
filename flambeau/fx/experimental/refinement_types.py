"""Equality: a constraint that two sizes, or two types, of a graph are equal."""

from __future__ import annotations

__all__ = ["Equality"]


class Equality:
    """States that two sizes or types are equal."""

    def __init__(self, lhs: object, rhs: object) -> None:
        self.lhs, self.rhs = lhs, rhs

    def __repr__(self) -> str:
        return f"{self.lhs} = {self.rhs}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equality) and (self.lhs, self.rhs) == (other.lhs, other.rhs)

    __hash__ = None  # type: ignore[assignment]
