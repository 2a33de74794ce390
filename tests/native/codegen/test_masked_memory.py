"""Masked loads and stores where LLVM's own would touch memory whose mask is false."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from llvmlite import ir

from flambeau.native.codegen.llvm.builder import I1, I64, MEMORY, POINTER, Builder, Module, vector
from flambeau.native.jit.elf_loader import load
from flambeau.native.loop_ir.ir import Type
from flambeau.native.target.machine import TARGETS, emit_assembly


def known(bits: list[bool]) -> ir.Constant:
    return ir.Constant(vector(I1, len(bits)), [int(bit) for bit in bits])


def loaded(type: Type, lanes: int, first: int, other: int) -> str:
    """The assembly that reads the first lanes where a test holds, else one other lane."""
    target = TARGETS["avx2"]
    module = Module("masked", target.vector_bytes)
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64])
    function = ir.Function(module, kind, "masked")
    b = Builder(function.append_basic_block())
    source, destination, size = function.args
    test = b.icmp_signed("<", size, b.integer(33))
    first_lanes = b.and_masks(test, known([i < first for i in range(lanes)]))
    other_lanes = b.and_masks(b.not_(test), known([i == other for i in range(lanes)]))
    value = b.read(source, type, lanes, b.or_(first_lanes, other_lanes))
    b.store(value, destination, align=type.size)
    b.ret_void()
    assert str(vector(MEMORY[type], lanes)) in str(module)
    return emit_assembly(str(module), target)


@pytest.mark.parametrize(("type", "lanes"), [(Type.F32, 16), (Type.F64, 16), (Type.I32, 64),
                                             (Type.F32, 64), (Type.I64, 32)])
@pytest.mark.parametrize("first", [1, 3, 5])
def test_each_register_is_read_under_its_mask(type: Type, lanes: int, first: int) -> None:
    text = loaded(type, lanes, first, lanes - 1)
    assert "maskmov" in text
    assert not re.findall(r"movup[sd]\t\d*\(%rdi\), %ymm", text)


NARROW = [(Type.BOOL, 8), (Type.U8, 4), (Type.I8, 8), (Type.I16, 4), (Type.F16, 4), (Type.F32, 2),
          (Type.F32, 3), (Type.BF16, 6), (Type.U8, 12), (Type.I32, 3), (Type.I8, 15)]


def masked_copy(type: Type, lanes: int) -> str:
    """LLVM IR: void(ptr source, ptr target, i64 count) copies the first `count` lanes."""
    module = Module("copy", TARGETS["avx512"].vector_bytes)
    kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64])
    b = Builder(ir.Function(module, kind, "copy").append_basic_block())
    source, target, count = b.function.args
    mask = b.first_lanes(count, lanes)
    b.write(target, b.read(source, type, lanes, mask), type, mask)
    b.ret_void()
    return str(module)


@pytest.mark.parametrize(("type", "lanes"), NARROW)
def test_narrow_vectors_go_lane_by_lane_on_avx512(type: Type, lanes: int) -> None:
    """A masked instruction on an XMM register would trust the bits that LLVM added to the mask."""
    text = masked_copy(type, lanes)
    assert "flambeau_load_lanes" in text
    assert "flambeau_store_lanes" in text
    assert not re.findall(r"llvm\.masked\.(load|store)", text)


@pytest.mark.parametrize(("type", "lanes"), NARROW)
def test_narrow_vectors_are_copied_up_to_the_mask(type: Type, lanes: int) -> None:
    text = masked_copy(type, lanes)
    address = load(text, ["copy"])["copy"]
    copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)
    for count in range(lanes + 1):
        source = np.arange(1, 1 + 8 * lanes, dtype=np.uint8) % 2
        target = np.full(8 * lanes, 0xFF, np.uint8)
        copy(source.ctypes.data, target.ctypes.data, count)
        size = count * type.size
        np.testing.assert_array_equal(target[:size], source[:size])
        assert (target[size:] == 0xFF).all()
