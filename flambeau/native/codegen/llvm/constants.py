"""Interned constants: llvmlite would check and format each new one again."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from llvmlite import ir

I32, I64 = ir.IntType(32), ir.IntType(64)
_LITERALS: dict[tuple[str, str], Literal] = {}


class Literal(ir.Constant):  # type: ignore[misc]
    """A constant written as LLVM reads it."""

    def __init__(self, type: ir.Type, text: str) -> None:
        self.type, self.constant = type, text

    def _get_reference(self) -> str:
        return self.constant


@lru_cache(maxsize=1 << 14, typed=True)
def i64(value: int) -> Any:
    """An i64."""
    return ir.Constant(I64, value)


@lru_cache(maxsize=1 << 10)
def lane_indices(indices: tuple[int, ...]) -> Any:
    """Which lanes of two vectors a shuffle takes."""
    return ir.Constant(ir.VectorType(I32, len(indices)), list(indices))


def zero(kind: ir.Type) -> Literal:
    """All lanes of a vector type zero."""
    return _create_literal(kind, "zeroinitializer")


def undefined(kind: ir.Type) -> Literal:
    """A vector of whatever there is."""
    return _create_literal(kind, "undef")


def _create_literal(kind: ir.Type, text: str) -> Literal:
    literal = _LITERALS.get((str(kind), text))
    if literal is None:
        literal = _LITERALS[str(kind), text] = Literal(kind, text)
    return literal
