"""Masked loads of several AVX2 registers: LLVM would abort, or read some without their mask."""

from __future__ import annotations

import re

import pytest
from llvmlite import ir

from flambeau.native.codegen.llvm.builder import I1, I64, MEMORY, POINTER, Builder, Module, vector
from flambeau.native.loop_ir.ir import Type
from flambeau.native.target.machine import TARGETS, assembly


def known(bits: list[bool]) -> ir.Constant:
    return ir.Constant(vector(I1, len(bits)), [int(bit) for bit in bits])


def loaded(type: Type, lanes: int, first: int, other: int) -> str:
    """The assembly that reads the first lanes where a test holds, else one other lane."""
    target = TARGETS["avx2"]
    module = Module("masked", target.vector_bytes)
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64])
    function = ir.Function(module, kind, "masked")
    b = Builder(function.append_basic_block())
    source, found, size = function.args
    test = b.icmp_signed("<", size, b.integer(33))
    few = b.both(test, known([i < first for i in range(lanes)]))
    one = b.both(b.not_(test), known([i == other for i in range(lanes)]))
    b.store(b.read(source, type, lanes, b.or_(few, one)), found, align=type.size)
    b.ret_void()
    assert str(vector(MEMORY[type], lanes)) in str(module)
    return assembly(str(module), target)


@pytest.mark.parametrize(("type", "lanes"), [(Type.F32, 16), (Type.F64, 16), (Type.I32, 64),
                                             (Type.F32, 64), (Type.I64, 32)])  # fmt: skip
@pytest.mark.parametrize("first", [1, 3, 5])
def test_each_register_is_read_under_its_mask(type: Type, lanes: int, first: int) -> None:
    text = loaded(type, lanes, first, lanes - 1)
    assert "maskmov" in text
    assert not re.findall(r"movup[sd]\t\d*\(%rdi\), %ymm", text)
