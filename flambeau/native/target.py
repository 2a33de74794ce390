"""The machine that code is made for, and the way from LLVM IR to code: text, object, addresses."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .loops import Type


@dataclass(frozen=True)
class Tile:
    """A register tile of a contraction: `rows` by `vectors` of accumulators."""

    rows: int
    vectors: int


@dataclass(frozen=True)
class Target:
    """A processor, and what the emitter must know of it.

    `tiles` are register tiles, the widest first: accumulators, a row of b and a broadcast of a fit
    into the registers of each.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    vector_registers: int
    tiles: tuple[Tile, ...]

    def lanes(self, type: Type) -> int:
        """How many elements of a type fill a vector register; half precision counts as F32."""
        return self.vector_bytes // (4 if type in (Type.F16, Type.BF16) else type.size)


_TILES = {
    32: (Tile(6, 4), Tile(8, 3), Tile(12, 2), Tile(24, 1)),
    16: (Tile(4, 3), Tile(6, 2), Tile(12, 1)),
}  # fmt: skip
TARGETS = {
    "avx512": Target("x86_64-unknown-linux-gnu", "skylake-avx512", "-prefer-256-bit", 64, 32,
                     _TILES[32]),
    "avx2": Target("x86_64-unknown-linux-gnu", "haswell", "", 32, 16, _TILES[16]),
    "neon": Target("aarch64-unknown-linux-gnu", "generic", "+neon", 16, 32, _TILES[32]),
}  # fmt: skip


@lru_cache(maxsize=1)
def host() -> Target:
    """The processor that this process runs on."""
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    found = llvm.get_host_cpu_features()
    features = found.flatten()
    if triple.startswith("x86_64"):
        # Some processors with AVX-512 are tuned for half its width, which is slower for FMAs.
        features += ",-prefer-256-bit"
        if found.get("avx512f") and found.get("avx512vl"):
            like = TARGETS["avx512"]
        elif found.get("avx2") and found.get("fma"):
            like = TARGETS["avx2"]
        else:
            like = Target("", "", "", 16, 16, _TILES[16])
    else:
        like = TARGETS["neon"]
    return Target(triple, llvm.get_host_cpu_name(), features, like.vector_bytes,
                  like.vector_registers, like.tiles)  # fmt: skip


# LLVM is called by one thread at a time. A fork waits for its end, so that no child inherits a
# lock whose owner it does not have.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release,
                        after_in_child=_lock.release)  # fmt: skip


@lru_cache(maxsize=8)
def _machine(target: Target, level: int) -> Any:
    """LLVM's code generator for a target."""
    import llvmlite.binding as llvm

    if target == host():
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    triple = target.triple
    if os.name == "nt":
        triple += "-elf"  # what LLVM's loader reads, there too
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="small"
    )


def _optimised(text: str, target: Target, level: int, vectorize: bool) -> tuple[Any, Any]:
    """A parsed and optimised module, and the code generator for it."""
    import llvmlite.binding as llvm

    machine = _machine(target, level)
    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = options.loop_interleaving = vectorize
    options.slp_vectorization = vectorize
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module, machine


def optimised(text: str, target: Target | None = None, level: int = 2, vectorize: bool = False
              ) -> str:  # fmt: skip
    """LLVM IR after LLVM's passes."""
    with _lock:
        return str(_optimised(text, target or host(), level, vectorize)[0])


def assembly(text: str, target: Target | None = None, level: int = 2, vectorize: bool = False
             ) -> str:  # fmt: skip
    """The assembly that LLVM IR becomes on a target, which need not be this machine."""
    with _lock:
        module, machine = _optimised(text, target or host(), level, vectorize)
        return machine.emit_assembly(module)


def object_code(text: str, target: Target | None = None, level: int = 2, vectorize: bool = False
                ) -> bytes:  # fmt: skip
    """The object file that LLVM IR becomes on a target."""
    with _lock:
        module, machine = _optimised(text, target or host(), level, vectorize)
        return machine.emit_object(module)


_engines: list[Any] = []  # they own the memory that addresses point to


def _addresses(code: bytes, names: Sequence[str]) -> dict[str, int]:
    """Loads an object file into this process."""
    import llvmlite.binding as llvm

    empty = llvm.parse_assembly("", llvm.create_context())
    engine = llvm.create_mcjit_compiler(empty, _fresh_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return {name: engine.get_function_address(name) for name in names}


def _fresh_machine() -> Any:
    """A code generator that an engine may own."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(host().triple)
    return target.create_target_machine(reloc="pic", codemodel="small")


def load(text: str, names: Sequence[str], level: int = 2, vectorize: bool = False
         ) -> dict[str, int]:  # fmt: skip
    """Makes machine code of LLVM IR for this machine; the addresses of the functions in `names`.

    The code stays for the life of the process. Safe to call from any thread; other threads of
    Python go on meanwhile. RuntimeError with LLVM's message where the text is not valid.
    """
    with _lock:
        return _addresses(object_code(text, None, level, vectorize), names)
