"""Compile kernels to machine code, through the disk cache.

A cache hit emits no LLVM IR. The key covers everything that determines the code: canonical text,
CPU, and the sources of the code generator.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from threading import Thread

from ..foundation import disk_cache
from ..foundation.allocator import probe
from ..loop_ir.ir import Kernel
from ..target.compile_costs import COLLECT_AFTER_IR_CHARACTERS, MAX_LLVM_THREADS_PER_EMITTER
from ..target.machine import (
    COMPILE_BYTES, emit_object_code, external_functions, host, llvm_version,
)
from . import scratch_slots  # noqa: F401 - provides the functions that kernels take scratch by
from .elf_loader import find_loaded, load_codes
from .object_code import emit_text, hash_emitter
from .thread_priority import yield_to_others


def compile_kernels(kernels: Mapping[str, Kernel], threads: int = 1, aside: bool = False
                   ) -> dict[str, int]:
    """Return the addresses of functions by name. A name stands for a kernel's canonical text.

    Compile workers (`worker_pool`) do the work if there is enough of it; otherwise the caller's
    thread emits IR and up to `threads` threads run LLVM, at low priority if `aside`. Raises
    VerifyError for an illegal kernel and RuntimeError if LLVM fails.
    """
    version = hash_emitter()
    keys = {name: _make_key(name, version or "") for name in kernels}
    compiled_codes: dict[str, tuple[list[str], bytes]] = {}
    for name, key in keys.items():
        entry = None if version is None else disk_cache.get(key)
        if entry is not None:
            compiled_codes[name] = _unpack_entry(entry)

    def finish(name: str, needs: list[str], code: bytes) -> None:
        compiled_codes[name] = needs, code
        if version is not None:
            disk_cache.store(keys[name], _pack_entry(needs, code))

    def finish_text(name: str, text: str) -> None:
        finish(name, external_functions(text), emit_object_code(text))

    missing = {name: kernel for name, kernel in kernels.items() if name not in compiled_codes}
    if missing:
        probe(COMPILE_BYTES, "making machine code")
        from .worker_pool import WORKERS, compile_time_s

        remaining = WORKERS.compile(
            missing, finish, lambda name: finish_text(name, emit_text(kernels[name], name)),
            threads, aside,
        )
        if remaining:  # the costliest first, so that none is still compiling at the end
            remaining.sort(key=lambda name: -compile_time_s(kernels[name]))
            _compile_here(remaining, lambda name: emit_text(kernels[name], name), finish_text,
                          min(threads, MAX_LLVM_THREADS_PER_EMITTER), aside)
    return load_codes({name: (keys[name], *compiled_codes[name]) for name in kernels})


def _make_key(name: str, version: str) -> str:
    target = host()
    return disk_cache.make_key("kernel", llvm_version(), target.triple, target.cpu, target.features,
                               f"{target.l2_bytes} {target.llc_bytes}", version, name)


def load_cached(names: Sequence[str]) -> dict[str, int] | None:
    """Return the addresses of functions from memory or disk, by name; None if one is missing."""
    version = hash_emitter()
    if version is None:
        return None
    addresses: dict[str, int] = {}
    entries: dict[str, tuple[str, list[str], bytes]] = {}
    for name in dict.fromkeys(names):
        key = _make_key(name, version)
        address = find_loaded(key, name)
        if address is not None:
            addresses[name] = address
            continue
        entry = disk_cache.get(key)
        if entry is None:
            return None
        entries[name] = key, *_unpack_entry(entry)
    return addresses | load_codes(entries)


def _compile_here(
    names: Sequence[str], text: Callable[[str], str], finish: Callable[[str, str], None],
    threads: int, aside: bool,
) -> None:
    """Run finish(name, text(name)) for all names; raise the first error.

    Only the caller's thread emits texts, since Python runs one thread at a time. Daemon threads
    finish them meanwhile, as does the caller's thread unless `aside`.
    """
    ready: SimpleQueue[tuple[str, str] | None] = SimpleQueue()
    errors: list[BaseException] = []

    def work() -> None:
        while (item := ready.get()) is not None:
            try:
                if not errors:
                    finish(*item)
            except BaseException as error:
                errors.append(error)

    def helper() -> None:
        if aside:
            yield_to_others()
        work()

    count = min(threads, len(names)) if aside else min(threads, len(names)) - 1
    helpers = _start_threads(helper, count)
    characters = 0
    try:
        for name in names:
            if errors:
                break
            ready.put((name, llvm_text := text(name)))
            characters += len(llvm_text)
            if characters > COLLECT_AFTER_IR_CHARACTERS and not gc.isenabled():
                characters = 0
                gc.collect()  # IR nodes form reference cycles
    except BaseException as error:
        errors.insert(0, error)
    for _ in range(len(helpers) + 1):
        ready.put(None)
    if not aside or not helpers:
        work()
    for thread in helpers:
        thread.join()
    if errors:
        raise errors[0]


def _start_threads(work: Callable[[], None], count: int) -> list[Thread]:
    """Start up to `count` daemon threads, as many as the system allows."""
    threads_started: list[Thread] = []
    for _ in range(count):
        thread = Thread(target=work, name="flambeau-compile", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            break
        threads_started.append(thread)
    return threads_started


def _pack_entry(needs: list[str], code: bytes) -> bytes:
    return " ".join(needs).encode() + b"\n" + code


def _unpack_entry(entry: bytes) -> tuple[list[str], bytes]:
    needs, _, code = entry.partition(b"\n")
    return needs.decode().split(), code
