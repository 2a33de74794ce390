"""Masked loads: consecutive elements of which only those are read for which a mask is true.

LLVM's own intrinsic, but for vectors of several AVX2 registers. Where LLVM (20 to 22) finds out
late that a mask is false for the whole of a register, it reads that register without the mask, or
aborts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from .constants import zero
from .intrinsics import declared, suffix

_I32 = ir.IntType(32)
_POINTER = ir.PointerType()
_REGISTER = 32  # bytes
_AVX2 = {"float": ("avx.maskload.ps.256", 4), "double": ("avx.maskload.pd.256", 8),
         "i32": ("avx2.maskload.d.256", 4), "i64": ("avx2.maskload.q.256", 8)}  # fmt: skip


def masked_load(b: ir.IRBuilder, pointer: ir.Value, kind: Any, align: int, mask: ir.Value) -> Any:
    """The elements of a vector type that lie at a pointer; zero where the mask is false."""
    name, size = _AVX2.get(str(kind.element), ("", 0))
    several = size * kind.count > _REGISTER
    if several and b.module.vector_bytes == _REGISTER and not isinstance(mask, ir.Constant):
        return _by_registers(b, pointer, kind, mask, name, _REGISTER // size)
    function = declared(b, f"llvm.masked.load.{suffix(kind)}.p0", kind,
                        [_POINTER, _I32, mask.type, kind])  # fmt: skip
    return b.call(function, [pointer, ir.Constant(_I32, align), mask, zero(kind)])


def _by_registers(
    b: ir.IRBuilder, pointer: ir.Value, kind: Any, mask: ir.Value, name: str, lanes: int
) -> Any:
    """The processor's own instruction for each register of a vector."""
    part, integers = ir.VectorType(kind.element, lanes), ir.IntType(_REGISTER * 8 // lanes)
    wanted = ir.VectorType(integers, lanes)
    function = declared(b, f"llvm.x86.{name}", part, [_POINTER, wanted])
    found = []
    for first in range(0, kind.count, lanes):
        where = b.sext(_lanes(b, mask, range(first, first + lanes)), wanted)
        at = b.gep(pointer, [ir.Constant(_I32, first)], source_etype=kind.element)
        found.append(b.call(function, [at, where]))
    while len(found) > 1:
        found = [_joined(b, *found[i : i + 2]) for i in range(0, len(found), 2)]
    return found[0]


def _lanes(b: ir.IRBuilder, value: ir.Value, which: Sequence[int]) -> ir.Value:
    """Some lanes of a vector."""
    chosen = ir.Constant(ir.VectorType(_I32, len(which)), list(which))
    return b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), chosen)


def _joined(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """One vector of two, one behind the other."""
    count = 2 * x.type.count
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(_I32, count), list(range(count))))
