"""Machine code from LLVM IR: targets, what their assembly is made of, loading, errors."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time

import pytest

from flambeau.native.codegen.kernel import emit
from flambeau.native.jit.elf_loader import load, load_all
from flambeau.native.loop_ir.ir import (
    Affine, Buffer, Index, Kernel, Load, Loop, LoopKind, Store, Type,
)
from flambeau.native.target.machine import TARGETS, emit_assembly, emit_object_code, gate, host

# c[0] points to 16 floats, of which each becomes x * x + 1.
SQUARES = """
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
define void @squares(i64 %tid, i64 %threads, ptr %cells) {
  %p = load ptr, ptr %cells
  %x = load <16 x float>, ptr %p, align 4
  %y = call <16 x float> @llvm.fma.v16f32(<16 x float> %x, <16 x float> %x,
                                          <16 x float> splat (float 1.0))
  store <16 x float> %y, ptr %p, align 4
  ret void
}
"""
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def returns(value: int) -> str:
    return f"define i64 @value() {{\n  ret i64 {value}\n}}\n"


def value(addresses: dict[str, int]) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64)(addresses["value"])()


@pytest.mark.parametrize(
    ("name", "registers", "instruction"),
    [("avx512", "zmm", "vfmadd"), ("avx2", "ymm", "vfmadd"), ("neon", ".4s", "fmla")],
)
def test_vectors_are_as_wide_as_the_target(name: str, registers: str, instruction: str) -> None:
    text = emit_assembly(SQUARES, TARGETS[name])
    lines = [line for line in text.splitlines() if instruction in line]
    assert lines
    assert all(registers in line for line in lines)


def test_the_host_uses_its_widest_vectors() -> None:
    target = host()
    name = {64: "zmm", 32: "ymm"}.get(target.vector_bytes)
    if name:
        assert f"%{name}" in emit_assembly(SQUARES)
    assert emit_assembly(SQUARES) == emit_assembly(SQUARES, target)


@pytest.mark.parametrize("name", ["avx512", "avx2", "sse4"])
def test_a_lesser_processor_can_be_asked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if host().triple.split("-")[0] != "x86_64" or host().vector_bytes < TARGETS[name].vector_bytes:
        pytest.skip("not such a processor")
    program = f"""
import numpy as np, flambeau as torch
from flambeau.native.target.machine import TARGETS, host
assert host().tiles == TARGETS["{name}"].tiles
x = torch.linspace(-3, 3, 200_000).view(400, 500)
expected = np.exp(x.numpy().astype(float)) @ x.numpy().T
np.testing.assert_allclose((x.exp() @ x.t()).numpy(), expected, rtol=2e-5, atol=2e-3)
"""
    monkeypatch.setenv("FLAMBEAU_CPU", name)
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_processor_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAMBEAU_CPU", "abacus")
    with pytest.warns(UserWarning, match="FLAMBEAU_CPU='abacus' is ignored: "):
        assert host.__wrapped__() == host()


def test_float16_is_refused_where_it_cannot_be_converted() -> None:
    x, y, i = Buffer(Type.F16, "x"), Buffer(Type.F16, "y"), Index("i")
    at = Affine(0, ((i, 1),))
    kernel = Kernel(
        "twice", [x, y], [Loop(i, 64, [Store(y, at, Load(x, at))], LoopKind.VECTORIZED)]
    )
    assert emit(kernel, TARGETS["avx2"])
    with pytest.raises(NotImplementedError, match="float16"):
        emit(kernel, TARGETS["sse4"])


def test_lanes() -> None:
    types = (Type.F32, Type.F64, Type.F16, Type.BF16, Type.I64, Type.U8)
    assert [TARGETS["avx512"].lanes(t) for t in types] == [16, 8, 16, 16, 8, 64]
    assert [TARGETS["neon"].lanes(t) for t in types] == [4, 2, 4, 4, 2, 16]


@pytest.mark.parametrize("name", TARGETS)
def test_tiles_fit_into_the_registers(name: str) -> None:
    target = TARGETS[name]
    for tile in target.tiles:
        assert tile.rows * tile.vectors + tile.vectors + 1 <= target.vector_registers + 1
    assert max(t.rows * t.vectors for t in target.tiles) >= target.vector_registers * 3 // 4


def test_loaded_code_runs() -> None:
    numbers = (ctypes.c_float * 16)(*range(16))
    cells = (ctypes.c_int64 * 1)(ctypes.addressof(numbers))
    KERNEL(load(SQUARES, ["squares"])["squares"])(0, 1, ctypes.addressof(cells))
    assert list(numbers) == [x * x + 1 for x in range(16)]


def test_the_same_text_is_loaded_once() -> None:
    assert load(returns(5), ["value"]) == load(returns(5), ["value"])


def test_many_texts_on_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAMBEAU_CACHE_SIZE", "0")
    items = [(returns(1000 + i), ["value"]) for i in range(20)]
    assert [value(entry) for entry in load_all(items, threads=4)] == list(range(1000, 1020))


def test_an_error_on_another_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAMBEAU_CACHE_SIZE", "0")
    items = [(returns(3000 + i), ["value"]) for i in range(6)] + [("define x", [])]
    with pytest.raises(RuntimeError, match="expected type"):
        load_all(items, threads=3)


def test_several_threads_load_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAMBEAU_CACHE_SIZE", "0")
    results: dict[int, int] = {}

    def load_five(start: int) -> None:
        for i in range(start, start + 5):
            results[i] = value(load(returns(i), ["value"]))

    threads = [threading.Thread(target=load_five, args=(2000 + 5 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: i for i in range(2000, 2020)}


def test_errors_are_raised_and_do_not_end_the_process() -> None:
    with pytest.raises(RuntimeError, match="expected type"):
        load("define x", ["x"])
    with pytest.raises(RuntimeError, match="dominate"):
        emit_assembly(
            "define i64 @f() {\n  %x = add i64 %y, 1\n  %y = add i64 1, 1\n  ret i64 %x\n}\n"
        )
    with pytest.raises(KeyError, match="other"):
        load(returns(1), ["other"])
    outside = "declare void @no_such_function()\ndefine void @f() {\n" \
              "  call void @no_such_function()\n  ret void\n}\n"
    with pytest.raises(RuntimeError, match="no_such_function"):
        load(outside, ["f"])


def test_functions_may_call_others_of_their_text() -> None:
    text = "define internal i64 @inner() alwaysinline {\n  ret i64 7\n}\n" \
           "define i64 @value() {\n  %x = call i64 @inner()\n  ret i64 %x\n}\n"
    assert "call" not in emit_assembly(text)
    assert value(load(text, ["value"])) == 7


def test_object_code_is_reproducible() -> None:
    assert emit_object_code(SQUARES) == emit_object_code(SQUARES)
    assert emit_object_code(SQUARES)[:4] == b"\x7fELF" or host().triple.find("linux") < 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_waits_for_llvm() -> None:
    entered, left = threading.Event(), []

    def work() -> None:
        with gate, gate:
            entered.set()
            time.sleep(0.1)
            left.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if left else 1)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
