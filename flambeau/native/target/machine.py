"""The target machine, and the LLVM pipeline from IR text to object code and assembly."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ..foundation.allocator import probe
from ..foundation.environment import CPU
from ..foundation.user_frames import warn
from ..loop_ir.ir import Type
from . import cache_sizes
from .cpu import describe_cpu


@dataclass(frozen=True)
class TileShape:
    """A register tile of a contraction: `rows` by `vectors` of accumulators."""

    rows: int
    vectors: int


@dataclass(frozen=True)
class Target:
    """A CPU and what the code generator must know about it.

    `tiles`: register tiles, widest first, whose accumulators fit the register file with one row
    of b and one broadcast of a. `halves`: converts float16. `parts`: AMX multiplies numbers of up
    to this many bfloat16 terms; 0 without AMX. `pairs`: has AVX512_BF16 dot products.
    `byte_quads`: has VPDPBUSD for whole vectors. `l2_bytes`, `llc_bytes`: of a core's L2 and the
    last-level cache.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    vector_registers: int
    tiles: tuple[TileShape, ...]
    halves: bool = True
    parts: int = 0
    pairs: bool = False
    byte_quads: bool = False
    l2_bytes: int = cache_sizes.DEFAULT_L2_BYTES
    llc_bytes: int = cache_sizes.DEFAULT_LLC_BYTES

    def lanes(self, type: Type) -> int:
        """Return how many elements fill a vector register; half precision counts as F32."""
        return self.vector_bytes // (4 if type in (Type.F16, Type.BF16) else type.size)


_TILES = {
    32: (TileShape(6, 4), TileShape(8, 3), TileShape(12, 2), TileShape(24, 1)),
    16: (TileShape(4, 3), TileShape(6, 2), TileShape(12, 1)),
}
TARGETS = {
    "amx": Target("x86_64-unknown-linux-gnu", "sapphirerapids", "-prefer-256-bit", 64, 32,
                  _TILES[32], parts=3, pairs=True, byte_quads=True),
    "avx512-bf16": Target("x86_64-unknown-linux-gnu", "cooperlake", "-prefer-256-bit", 64, 32,
                          _TILES[32], pairs=True, byte_quads=True),
    "avx512": Target("x86_64-unknown-linux-gnu", "skylake-avx512", "-prefer-256-bit", 64, 32,
                     _TILES[32]),
    "avx2": Target("x86_64-unknown-linux-gnu", "haswell", "", 32, 16, _TILES[16]),
    "sse4": Target("x86_64-unknown-linux-gnu", "x86-64-v2", "", 16, 16, _TILES[16],
                   halves=False),
    "neon": Target("aarch64-unknown-linux-gnu", "generic", "+neon", 16, 32, _TILES[32]),
}


class _Gate:
    """A lock that admits any number of threads into LLVM, but none while the process forks.

    A forked child would inherit locks held by threads that it lacks. LLVM objects must also be
    destroyed while holding the gate.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside = 0
        self._closing = False
        self._mine = threading.local()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._close, after_in_parent=self._open,
                                after_in_child=self._open)
        atexit.register(self._shut)

    def _shut(self) -> None:
        """At exit, wait up to 10 s for threads to leave LLVM, whose tables are freed next."""
        with self._condition:
            self._closing = True
            self._mine.depth = getattr(self._mine, "depth", 0) + 1  # exit handlers may compile
            self._condition.wait_for(lambda: self._inside == 0, timeout=10.0)

    def _close(self) -> None:
        self._condition.acquire()
        self._closing = True
        own_depth = 1 if getattr(self._mine, "depth", 0) else 0
        self._condition.wait_for(lambda: self._inside <= own_depth)

    def _open(self) -> None:
        self._closing = False
        self._condition.notify_all()
        self._condition.release()

    def __enter__(self) -> None:
        depth = getattr(self._mine, "depth", 0)
        if depth == 0:
            with self._condition:
                self._condition.wait_for(lambda: not self._closing)
                self._inside += 1
        self._mine.depth = depth + 1

    def __exit__(self, *exception: object) -> None:
        self._mine.depth -= 1
        if self._mine.depth == 0:
            with self._condition:
                self._inside -= 1
                self._condition.notify_all()


gate = _Gate()


@lru_cache(maxsize=1)
def host() -> Target:
    """Return this process's target: its CPU, or the one that FLAMBEAU_CPU names."""
    with gate:
        triple, cpu, cpu_features = describe_cpu(llvm_version())
    has = frozenset(cpu_features)
    features = ",".join(cpu_features)
    if triple.startswith("x86_64"):
        # LLVM tunes some AVX-512 processors for 256-bit vectors, which is slower for FMAs.
        features += ",-prefer-256-bit"
        if {"+avx512f", "+avx512vl"} <= has:
            has_amx = {"+amx-tile", "+amx-bf16"} <= has and _request_amx_permission()
            has_bf16 = "+avx512bf16" in has
            base = TARGETS["amx" if has_amx else "avx512-bf16" if has_bf16 else "avx512"]
            if not has_amx:
                features += ",-amx-tile"  # part of cache keys: the code differs without it
        elif {"+avx2", "+fma"} <= has:
            base = TARGETS["avx2"]
        else:
            base = TARGETS["sse4"]
    else:
        base = TARGETS["neon"]
    vnni = "+avx512vnni" if base.vector_bytes == 64 else "+avxvnni"
    byte_quads = triple.startswith("x86_64") and vnni in has and base.vector_bytes >= 32
    l2_bytes, llc_bytes = cache_sizes.detect_l2_bytes(), cache_sizes.detect_llc_bytes()
    selected = _select_target(base)
    if selected is not None:
        return replace(selected, triple=triple, l2_bytes=l2_bytes, llc_bytes=llc_bytes)
    return replace(base, triple=triple, cpu=cpu, features=features, parts=min(base.parts, 2),
                   byte_quads=byte_quads, l2_bytes=l2_bytes, llc_bytes=llc_bytes)


def _request_amx_permission() -> bool:
    """Ask Linux for permission to use AMX, whose state it saves only for processes that ask."""
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    if not sys.platform.startswith("linux"):
        return False
    try:
        return ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0
    except (AttributeError, OSError):
        return False


def _select_target(host_target: Target) -> Target | None:
    """Return the target that FLAMBEAU_CPU names, if this processor can run its code."""
    name = CPU.value()
    if not name:
        return None
    runnable = {
        key: target for key, target in TARGETS.items()
        if target.triple == host_target.triple
        and target.vector_bytes <= host_target.vector_bytes
        and target.parts <= host_target.parts and target.pairs <= host_target.pairs
    }
    if name in runnable:
        return runnable[name]
    warn(f"FLAMBEAU_CPU={name!r} is ignored: this processor can run code for "
         f"{', '.join(runnable)}")
    return None


# ----------------------------------------------------------------- from text to machine code


# The emitter writes kernels unrolled, vectorized and tidy. LLVM's usual passes would take as long
# as its code generator without making the code faster; these suffice.
_CLEANUP_PASSES = ("sroa", "new_gvn", "simplify_cfg")
# Memory that compiling may take: a minimum, and bytes per character of IR.
COMPILE_BYTES, _COMPILE_BYTES_PER_CHARACTER = 16 << 20, 40
# Part of cache keys. Raise it whenever the pipeline below generates different code.
_PIPELINE_VERSION = 2


@lru_cache(maxsize=1)
def _lock_free_entries() -> Any:
    """LLVM's slow entry points without llvmlite's lock, which separate contexts do not need.

    None if they are not found as expected.
    """
    from llvmlite.binding import ffi

    try:
        library = ctypes.CDLL(ffi.lib._name)
        for name in ("LLVMPY_RunNewModulePassManager", "LLVMPY_TargetMachineEmitToMemory"):
            locked, free = getattr(ffi.lib, name), getattr(library, name)
            free.argtypes, free.restype = locked.argtypes, locked.restype
    except (AttributeError, OSError):
        return None
    return library


def initialize(target: Target) -> None:
    """Initialize LLVM for a target."""
    import llvmlite.binding as llvm

    if target == host():
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


_idle_machines: dict[Target, list[Any]] = {}


@contextmanager
def _borrow_machine(target: Target) -> Iterator[Any]:
    """LLVM's code generator for a target, used by one thread at a time and then kept: building its
    tables takes a sixth of a small kernel's compile time."""
    idle = _idle_machines.setdefault(target, [])
    try:
        machine = idle.pop()
    except IndexError:
        machine = _create_machine(target)
    try:
        yield machine
    finally:
        idle.append(machine)


def _create_machine(target: Target) -> Any:
    import llvmlite.binding as llvm

    initialize(target)
    triple = target.triple
    if os.name == "nt":
        triple += "-elf"  # the format that LLVM's loader reads, on this system too
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
    )


def _run_cleanup(module: Any, machine: Any, inline: bool) -> None:
    """Run _CLEANUP_PASSES on all functions."""
    import llvmlite.binding as llvm

    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
    passes = llvm.create_new_module_pass_manager()
    if inline:
        passes.add_always_inliner_pass()
    for name in _CLEANUP_PASSES:
        getattr(passes, f"add_{name}_pass")()
    library = _lock_free_entries()
    if library is None:
        passes.run(module, builder)
    else:
        library.LLVMPY_RunNewModulePassManager(passes, module, builder)


def _parse_module(text: str, machine: Any) -> Any:
    """Parse, verify and clean up a module for a code generator."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    _run_cleanup(module, machine, "alwaysinline" in text)
    return module


def emit_assembly(text: str, target: Target | None = None) -> str:
    """Return the assembly of LLVM IR on a target, which need not be this machine."""
    with gate, _borrow_machine(target or host()) as machine:
        return machine.emit_assembly(_parse_module(text, machine))


def emit_object_code(text: str, target: Target | None = None) -> bytes:
    """Return the object file of LLVM IR on a target.

    Raises RuntimeError with LLVM's message if the text is invalid.
    """
    probe(COMPILE_BYTES + _COMPILE_BYTES_PER_CHARACTER * len(text), "making machine code")
    with gate, _borrow_machine(target or host()) as machine:
        return _emit_object(_parse_module(text, machine), machine)


def _emit_object(module: Any, machine: Any) -> bytes:
    """TargetMachine.emit_object, without llvmlite's lock."""
    from llvmlite.binding import ffi

    library = _lock_free_entries()
    if library is None:
        return machine.emit_object(module)
    with ffi.OutputString() as message:
        buffer = library.LLVMPY_TargetMachineEmitToMemory(machine, module, 1, message)
        if not buffer:
            raise RuntimeError(str(message))
    try:
        size = ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


_DECLARATION = re.compile(r'^declare .*@"?([\w.$]+)"?\(', re.MULTILINE)


def external_functions(text: str) -> list[str]:
    """Return the functions that IR text declares and LLVM does not define."""
    return [name for name in _DECLARATION.findall(text) if not name.startswith("llvm.")]


@lru_cache(maxsize=1)
def llvm_version() -> str:
    """Return LLVM's version, from llvmlite's files if possible, since loading LLVM takes a while.
    """
    import llvmlite
    from llvmlite.utils import get_library_name

    path = os.path.join(os.path.dirname(llvmlite.__file__), "binding", get_library_name())
    try:
        return f"{_PIPELINE_VERSION} {llvmlite.__version__} {os.stat(path).st_size}"
    except OSError:
        import llvmlite.binding as llvm

        return f"{_PIPELINE_VERSION} {llvmlite.__version__} {llvm.llvm_version_info}"
