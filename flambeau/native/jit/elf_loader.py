"""Load object files into this process and look up their functions.

Uses `elf` if it supports the file, else LLVM's loader. Loaded code stays for the life of the
process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..foundation import disk_cache
from ..foundation.allocator import build_memory_error, probe
from ..target.compile_costs import LLVM_LOADER_TABLE_BYTES
from ..target.machine import (
    emit_object_code, external_functions, gate, host, initialize, llvm_version,
)
from . import elf
from .elf import LinkedImage, UnsupportedObject

_READ, _WRITE, _EXECUTE = 1, 2, 4  # PROT_ flags of mprotect
_defined: dict[str, int] = {}  # external functions besides the process's own symbols
# Functions that look up an address, by key. Never removed: a thread may be running the code.
_codes: dict[str, Callable[[str], int]] = {}


# Functions that define an external function when code first refers to it.
PROVIDERS: dict[str, Callable[[], None]] = {}


def define(name: str, address: int) -> None:
    """Define an external function for code loaded from now on."""
    _defined[name] = address


# ------------------------------------------------------------------------------- without LLVM


def _find_process_symbol(name: str) -> int:
    """Return the address of a symbol of this process. Raises UnsupportedObject if missing."""
    if name in PROVIDERS:
        PROVIDERS[name]()
    known = _defined.get(name)
    if known is not None:
        return known
    try:
        address = ctypes.cast(ctypes.CDLL(None)[name], ctypes.c_void_p).value
    except AttributeError:
        address = None
    if address is None:
        raise UnsupportedObject(f"{name} is not in this process")
    return address


def _map_image(code: LinkedImage) -> int:
    """Map code into executable memory and return its address."""
    try:
        area = mmap.mmap(-1, len(code.bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        raise build_memory_error(len(code.bytes), "loaded machine code") from None
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    for start in code.offsets:
        offset = int.from_bytes(code.bytes[start : start + 8], "little")
        code.bytes[start : start + 8] = (base + offset).to_bytes(8, "little")
    area[:] = bytes(code.bytes)
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if protect(base, code.executed, _READ | _EXECUTE):
        raise UnsupportedObject("the system lets nobody but LLVM's loader make code")
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(area))
    return base


def _load_without_llvm(codes: Mapping[str, bytes]) -> None:
    """Load object files without LLVM. Raises UnsupportedObject if `elf` cannot link them."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        raise UnsupportedObject("another kind of system")
    code = elf.link(
        [elf.parse_object(code_bytes) for code_bytes in codes.values()], _find_process_symbol
    )
    base = _map_image(code)
    for key, functions in zip(codes, code.functions, strict=True):
        addresses = {name: base + offset for name, offset in functions.items()}
        _codes.setdefault(key, addresses.__getitem__)


# ---------------------------------------------------------------------------------- by LLVM


def _check_external(names: Iterable[str]) -> None:
    """Raise RuntimeError for missing external functions, on which LLVM would abort."""
    import llvmlite.binding as llvm

    for name in PROVIDERS.keys() & set(names):
        PROVIDERS[name]()
    for name, address in _defined.items():
        llvm.add_symbol(name, address)
    for name in names:
        if not llvm.address_of_symbol(name):
            raise RuntimeError(f"load: the text declares {name!r}, which this process has not")


def _load_with_llvm(codes: Iterable[bytes], needs: Iterable[str]) -> Any:
    """Load object files that call the functions in `needs`; return the LLVM engine.

    Creating an engine takes five times as long as loading a kernel, so one serves all files.
    """
    import llvmlite.binding as llvm

    initialize(host())
    probe(LLVM_LOADER_TABLE_BYTES + sum(map(len, codes)), "loaded machine code", pages=True)
    machine = llvm.Target.from_triple(host().triple).create_target_machine(
        reloc="pic", codemodel="small"
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    _check_external(needs)  # LLVM knows the process's symbols only once an engine exists
    for code in codes:
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _load(codes: Mapping[str, tuple[Sequence[str], bytes]]) -> None:
    """Load the object files that are not loaded yet, by key: (external functions, bytes)."""
    new = {key: entry for key, entry in codes.items() if key not in _codes}
    if not new:
        return
    files = {key: code for key, (_, code) in new.items()}
    try:
        _load_without_llvm(files)
    except UnsupportedObject:
        engine = _load_with_llvm(
            files.values(), {name for needs, _ in new.values() for name in needs}
        )
        for key in new:
            _codes.setdefault(key, engine.get_function_address)


# ------------------------------------------------------------------------------------- for all


def find_loaded(key: str, name: str) -> int | None:
    """Return a function's address in the object file loaded under a key; None if not loaded."""
    with gate:
        lookup = _codes.get(key)
        return None if lookup is None else lookup(name)


def load_codes(kernels: Mapping[str, tuple[str, Sequence[str], bytes]]) -> dict[str, int]:
    """Load object files and return function addresses by name.

    `kernels` maps a name to (key, names of its external functions, object file). A key is loaded
    once; the caller guarantees that the function is in the file.
    """
    with gate:
        _load({key: (needs, code) for key, needs, code in kernels.values()})
        return {name: _codes[key](name) for name, (key, _, _) in kernels.items()}


def _make_key(text: str) -> str:
    """Return the cache key of a text's object code, in memory and on disk."""
    target = host()
    return disk_cache.make_key(
        "object", llvm_version(), target.triple, target.cpu, target.features, text
    )


def _look_up(key: str, text: str, names: Sequence[str]) -> dict[str, int]:
    """Return addresses by name, checking the text: LLVM would abort on an unknown name."""
    for name in names:
        if f"@{name}(" not in text and f'@"{name}"(' not in text:
            raise KeyError(f"load: no function {name!r} is defined in the text")
    return {name: _codes[key](name) for name in names}


def load(text: str, names: Sequence[str]) -> dict[str, int]:
    """Compile LLVM IR for this machine; return the addresses of the functions in `names`.

    Object code is cached on disk and stays loaded for the life of the process. Any thread may call
    this without blocking the others. Raises RuntimeError with LLVM's message for invalid text, and
    KeyError for a name that the text does not define.
    """
    return load_all([(text, names)])[0]


def _run_on_threads(work: Callable[[str], None], keys: Sequence[str], threads: int) -> None:
    """Run work(key) for all keys on the caller's and daemon threads; raise the first error."""
    waiting, errors = [*reversed(keys)], list[BaseException]()

    def take() -> None:
        try:
            while waiting and not errors:
                try:
                    key = waiting.pop()
                except IndexError:
                    return
                work(key)
        except BaseException as error:
            errors.append(error)

    others = [threading.Thread(target=take, name="flambeau-compile", daemon=True)
              for _ in range(min(threads, len(keys)) - 1)]
    for other in others:
        other.start()
    take()
    for other in others:
        other.join()
    if errors:
        raise errors[0]


def load_all(items: Sequence[tuple[str, Sequence[str]]], threads: int = 1) -> list[dict[str, int]]:
    """`load` for many texts, compiled on several threads."""
    keys = [_make_key(text) for text, _ in items]
    texts = {key: text for key, (text, _) in zip(keys, items, strict=True) if key not in _codes}
    code = {key: disk_cache.get(key) for key in texts}
    missing = [key for key, object_bytes in code.items() if object_bytes is None]

    def compiled(key: str) -> None:
        code[key] = object_bytes = emit_object_code(texts[key])
        disk_cache.store(key, object_bytes)

    _run_on_threads(compiled, missing, threads)
    with gate:
        for key, object_bytes in code.items():
            if object_bytes is not None:
                _load({key: (external_functions(texts[key]), object_bytes)})
        return [_look_up(key, *item) for key, item in zip(keys, items, strict=True)]
