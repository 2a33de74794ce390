"""Address arithmetic: 64-bit products, sums and offsets, folded where operands are known."""

from __future__ import annotations

from llvmlite import ir

from .constants import i64
from .types import BYTE, Number


def constant(value: Number) -> ir.Value:
    """An i64."""
    return i64(value) if isinstance(value, int) else value


def multiply(b: ir.IRBuilder, x: Number, y: Number) -> Number:
    """x * y, folded if both are known."""
    if isinstance(x, int) and isinstance(y, int):
        return x * y
    if isinstance(x, int):
        x, y = y, x
    if isinstance(y, int) and y in (0, 1):
        return x if y else 0
    return b.mul(constant(x), constant(y))


def add(b: ir.IRBuilder, x: Number, y: Number) -> Number:
    """x + y, folded if both are known."""
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    if isinstance(x, int):
        x, y = y, x
    return x if isinstance(y, int) and y == 0 else b.add(constant(x), constant(y))


def subtract(b: ir.IRBuilder, x: Number, y: Number) -> Number:
    """x - y, folded if both are known."""
    if isinstance(x, int) and isinstance(y, int):
        return x - y
    if isinstance(y, int):
        return add(b, x, -y)
    return b.sub(constant(x), y)


def ceil_divide(b: ir.IRBuilder, extent: Number, size: Number) -> Number:
    """extent / size, rounded up."""
    if isinstance(size, int) and size == 1:
        return extent
    if isinstance(extent, int) and isinstance(size, int):
        return -(-extent // size)
    return b.udiv(add(b, add(b, extent, size), -1), constant(size))


def offset_bytes(b: ir.IRBuilder, pointer: ir.Value, offset: Number) -> ir.Value:
    """A pointer `offset` bytes further on."""
    if isinstance(offset, int) and offset == 0:
        return pointer
    return b.gep(pointer, [constant(offset)], source_etype=BYTE)
