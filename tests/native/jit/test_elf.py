"""Object files put into memory without LLVM: code, constants, variables, calls; what is unknown."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.native.jit import elf, elf_loader
from flambeau.native.jit.elf import UnsupportedObject, link, parse_object
from flambeau.native.target.machine import emit_object_code

by_hand = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="LLVM loads it"
)

CONSTANTS = """
define double @constant(i64 %i) {
  %v = sitofp i64 %i to double
  %x = fmul double %v, 0x400921FB54442D18
  %y = fadd double %x, 1.5
  ret double %y
}
"""
# A table of jumps, or of values: constants that the code finds by their distance.
CHOICE = """
define i64 @choice(i64 %i) {
entry:
  switch i64 %i, label %none [i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d
                              i64 4, label %e i64 5, label %f]
a:
  %r0 = call i64 @twice(i64 %i)
  br label %none
b:
  br label %none
c:
  br label %none
d:
  %r3 = call i64 @twice(i64 -50)
  br label %none
e:
  br label %none
f:
  %r5 = call i64 @twice(i64 500)
  br label %none
none:
  %r = phi i64 [-1, %entry], [%r0, %a], [17, %b], [1234567, %c], [%r3, %d], [-3, %e], [%r5, %f]
  ret i64 %r
}
define internal i64 @twice(i64 %i) noinline {
  %r = mul i64 %i, 2
  ret i64 %r
}
"""
COUNTER = """
@count = global i64 0
@first = global i64 40
define i64 @counted() {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  %from = load i64, ptr @first
  %sum = add i64 %new, %from
  ret i64 %sum
}
"""
OUTSIDE = """
declare double @cos(double)
declare i64 @labs(i64)
declare i64 @test_object_file_own(i64)
@PyLong_Type = external global i8
define double @of_libm(double %x) {
  %y = call double @cos(double %x)
  ret double %y
}
define i64 @of_c(i64 %x) {
  %y = call i64 @labs(i64 %x)
  ret i64 %y
}
define i64 @own(i64 %x) {
  %y = call i64 @test_object_file_own(i64 %x)
  ret i64 %y
}
define ptr @class() {
  ret ptr @PyLong_Type
}
"""
# An address in data that the code does not write, which a loader has to fill in.
POINTERS = """
@table = constant [2 x ptr] [ptr @one, ptr @two]
define i64 @one() {
  ret i64 1
}
define i64 @two() {
  ret i64 2
}
define i64 @chosen(i64 %i) {
  %at = getelementptr [2 x ptr], ptr @table, i64 0, i64 %i
  %function = load volatile ptr, ptr %at
  %r = call i64 %function()
  ret i64 %r
}
"""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is loaded, and nothing is on disk."""
    monkeypatch.setattr(elf_loader, "_codes", {})
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))


@pytest.fixture
def no_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    def engine(*_: object) -> None:
        raise AssertionError("LLVM's loader was asked")

    monkeypatch.setattr(elf_loader, "_load_with_llvm", engine)


def function(text: str, name: str, result: type, *kinds: type) -> ctypes._CFuncPtr:
    return ctypes.CFUNCTYPE(result, *kinds)(elf_loader.load(text, [name])[name])


I64, F64 = ctypes.c_int64, ctypes.c_double


@by_hand
def test_constants_and_jumps(no_llvm: None) -> None:
    constant = function(CONSTANTS, "constant", F64, I64)
    assert [constant(i) for i in (0, 2)] == [1.5, 2 * 3.141592653589793 + 1.5]
    choice = function(CHOICE, "choice", I64, I64)
    assert [choice(i) for i in range(-1, 7)] == [-1, 0, 17, 1234567, -100, -3, 1000, -1]


@by_hand
def test_variables_can_be_written(no_llvm: None) -> None:
    counted = function(COUNTER, "counted", I64)
    assert [counted(), counted(), counted()] == [41, 42, 43]


@by_hand
def test_what_lies_elsewhere_is_called(no_llvm: None, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = ctypes.CFUNCTYPE(I64, I64)(lambda x: 2 * x)
    monkeypatch.setattr(elf_loader, "_defined", {})
    elf_loader.define("test_object_file_own", ctypes.cast(twice, ctypes.c_void_p).value or 0)
    assert function(OUTSIDE, "own", I64, I64)(21) == 42
    assert function(OUTSIDE, "of_libm", F64, F64)(0.0) == 1.0
    assert function(OUTSIDE, "of_c", I64, I64)(-5) == 5
    assert function(OUTSIDE, "class", ctypes.c_void_p)() == id(int)


@by_hand
def test_files_loaded_together_keep_to_themselves(no_llvm: None) -> None:
    """Constants and internal functions of one name, in four files at once."""
    texts = [CONSTANTS.replace("1.5", f"{i}.0") + CHOICE.replace("2\n", f"{i}\n").replace(
        "-50", f"{-50 - i}") for i in range(4)]
    codes = {str(i): ([], emit_object_code(text)) for i, text in enumerate(texts)}
    elf_loader._load(codes)
    for i in range(4):
        constant = ctypes.CFUNCTYPE(F64, I64)(elf_loader._codes[str(i)]("constant"))
        choice = ctypes.CFUNCTYPE(I64, I64)(elf_loader._codes[str(i)]("choice"))
        assert constant(0) == float(i)
        assert choice(3) == (-50 - i) * i


def test_what_is_unknown_is_left_to_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    engine = elf_loader._load_with_llvm
    monkeypatch.setattr(
        elf_loader, "_load_with_llvm", lambda *args: asked.append(args) or engine(*args)
    )
    chosen = function(POINTERS, "chosen", I64, I64)
    assert [chosen(0), chosen(1)] == [1, 2]
    assert len(asked) == 1


@by_hand
def test_every_damage_is_noticed_or_harmless() -> None:
    """Files cut short, and with other numbers where the format has numbers."""
    whole = emit_object_code(CHOICE + OUTSIDE)
    parse_object(whole)
    for length in range(0, len(whole) - 64 * 8, 37):  # the sections' table comes last
        with pytest.raises(UnsupportedObject):
            parse_object(whole[:length])
    table = struct.unpack_from("<Q", whole, 40)[0]
    for at in range(table, len(whole), 4):
        damaged = bytearray(whole)
        struct.pack_into("<I", damaged, at, 0xFFFFFFF0)
        try:
            parse_object(bytes(damaged))
        except UnsupportedObject:
            pass


@by_hand
def test_an_object_of_another_processor_is_unknown() -> None:
    data = bytearray(emit_object_code(CONSTANTS))
    struct.pack_into("<H", data, 18, 183)  # AArch64
    with pytest.raises(UnsupportedObject):
        parse_object(bytes(data))


@by_hand
def test_code_begins_at_its_alignment_and_variables_on_pages_of_their_own() -> None:
    files = [parse_object(emit_object_code(text)) for text in (CHOICE, COUNTER, CONSTANTS)]
    code = link(files, lambda name: 0)
    assert code.executed % elf.PAGE_BYTES == 0 and len(code.bytes) > code.executed
    for file, functions in zip(files, code.functions, strict=True):
        for name, section, offset in file.symbols:
            if name in functions and section is not None:
                here = file.sections[section]
                assert (functions[name] >= code.executed) == here.written
                assert (functions[name] - offset) % here.align == 0


SECOND_TIME = """
import sys
import flambeau as torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters())
x = torch.randn(8, 4)

@torch.compile(mode="now")
def step():
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss

losses = [step().item() for _ in range(4)]
assert step._programs, step.explain()
big = torch.randn(1000, 1000)
for _ in range(4):
    losses.append((big.exp().sum(1) + big @ big[0]).mean().item())
print(losses, "llvmlite.binding" in sys.modules)
"""


@by_hand
def test_a_process_that_finds_its_code_on_disk_needs_no_llvm() -> None:
    runs = [subprocess.run([sys.executable, "-c", SECOND_TIME], capture_output=True, text=True,
                           check=False) for _ in range(3)]
    assert not runs[0].returncode, runs[0].stderr
    first, _, last = (run.stdout.strip().rpartition(" ") for run in runs)
    assert first[2] == "True" and last[2] == "False"
    assert first[0] == last[0]
