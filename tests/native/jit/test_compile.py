"""Machine code of kernels on disk, by structure: found again without LLVM IR, or made again."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from flambeau.native.jit import (
    compile, elf_loader, kernel_function, object_code, thread_priority,
)
from flambeau.native.codegen import kernel as emission
from flambeau.native.loop_ir.ir import (
    Affine, Apply, Buffer, Constant, Index, Kernel, Load, Loop, LoopKind, Scalar, Store, Type,
)


def scaled(factor: float, name: str = "scaled") -> Kernel:
    """y = factor * x, over ten elements."""
    x, y, i = Buffer(Type.F32, "x"), Buffer(Type.F32, "y"), Index("i")
    place = Affine(0, ((i, 1),))
    value = Apply(Scalar.MUL, (Load(x, place), Constant(Type.F32, factor)), Type.F32)
    return Kernel(name, [x, y], [Loop(i, 10, [Store(y, place, value)], LoopKind.VECTORIZED)])


def run(kernel: Kernel) -> float:
    x, y = np.ones(10, np.float32), np.zeros(10, np.float32)
    kernel_function.compile_kernel(kernel).run([x, y])
    assert (y == y[0]).all()
    return float(y[0])


@pytest.fixture
def emitted(settled: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of kernels that are emitted, with an empty cache."""
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("FLAMBEAU_COMPILE_WORKERS", "0")  # emit in this process
    names: list[str] = []
    emit = emission.emit

    def noted(kernel: Kernel, *rest: object, name: str) -> str:
        names.append(kernel.name)
        return emit(kernel, *rest, name=name)

    monkeypatch.setattr(emission, "emit", noted)
    new_process(monkeypatch)
    return names


def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is loaded, as in another process."""
    monkeypatch.setattr(kernel_function, "_functions", {})
    monkeypatch.setattr(elf_loader, "_codes", {})


def test_a_kernel_is_emitted_once_for_all_processes(
    emitted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(scaled(3.0)) == 3
    assert run(scaled(3.0, "of another name")) == 3
    new_process(monkeypatch)
    assert run(scaled(3.0)) == 3
    assert emitted == ["scaled"]
    assert run(scaled(4.0)) == 4  # another structure
    assert emitted == ["scaled", "scaled"]


def test_the_kernels_of_a_program_are_loaded_together(
    emitted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    factors = (2.0, 3.0, 5.0)
    kernels = [scaled(factor) for factor in factors]
    names = [kernel.name for kernel in kernel_function.compile_all(kernels)]
    new_process(monkeypatch)
    assert compile.load_cached([*names, "another"]) is None
    assert not elf_loader._codes
    together: list[int] = []
    load = elf_loader._load
    monkeypatch.setattr(
        elf_loader, "_load", lambda codes: together.append(len(codes)) or load(codes)
    )
    addresses = compile.load_cached(names)
    assert addresses is not None
    assert together == [3]
    assert compile.load_cached(names) == addresses  # as they are loaded already
    assert [run(kernel) for kernel in kernels] == list(factors)
    assert len(emitted) == 3


def test_a_damaged_entry_is_made_again(
    emitted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(scaled(5.0))
    for path in tmp_path.iterdir():
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
    new_process(monkeypatch)
    assert run(scaled(5.0)) == 5
    assert len(emitted) == 2


def test_another_emitter_makes_its_own_code(
    emitted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(scaled(6.0))
    new_process(monkeypatch)
    monkeypatch.setattr(compile, "hash_emitter", lambda: "other sources")
    assert run(scaled(6.0)) == 6
    assert len(emitted) == 2
    new_process(monkeypatch)
    monkeypatch.setattr(compile, "hash_emitter", lambda: None)  # not known: nothing is kept
    assert run(scaled(6.0)) == 6
    assert len(emitted) == 3


def test_the_sources_are_those_of_the_emitter(monkeypatch: pytest.MonkeyPatch) -> None:
    version = object_code.hash_emitter()
    assert version == object_code.hash_emitter()
    monkeypatch.setattr(object_code, "_EMITTER_SOURCES", ("native/codegen",))
    assert object_code.hash_emitter() not in (None, version)


@pytest.mark.parametrize("aside", (False, True))
def test_many_kernels_on_several_threads(emitted: list[str], aside: bool) -> None:
    kernels = [scaled(float(k)) for k in range(10, 17)]
    functions = kernel_function.compile_all(kernels, threads=3, aside=aside)
    assert len(emitted) == 7 and len({f.address for f in functions}) == 7
    assert [run(kernel) for kernel in kernels] == list(range(10, 17))
    assert len(emitted) == 7


@pytest.mark.parametrize("aside", (False, True))
def test_errors_of_emission_and_of_llvm_are_raised(
    emitted: list[str], monkeypatch: pytest.MonkeyPatch, aside: bool
) -> None:
    kernels = [scaled(float(k)) for k in range(20, 24)]
    monkeypatch.setattr(emission, "emit", lambda kernel, name: "not LLVM IR")
    with pytest.raises(RuntimeError, match="expected"):
        kernel_function.compile_all(kernels, threads=2, aside=aside)

    def fail(kernel: Kernel, name: str) -> str:
        raise NotImplementedError(name)

    monkeypatch.setattr(emission, "emit", fail)
    with pytest.raises(NotImplementedError, match="kernel_"):
        kernel_function.compile_all(kernels, threads=2, aside=aside)


def test_priorities_are_of_one_thread_alone() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0) if os.name == "posix" else 0
    levels: list[int] = []

    def work() -> None:
        thread_priority.yield_to_others()
        if sys.platform == "linux":
            levels.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if os.name == "posix":
        assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
    assert all(level > before or level == before >= 5 for level in levels)
