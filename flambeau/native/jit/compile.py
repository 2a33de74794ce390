"""Machine code of kernels: found on disk by their structure, or emitted and compiled.

What is found needs no LLVM IR. A key has in it all that code depends on: structure, processor, and
the sources of what emits it.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from threading import Thread, get_native_id

from ..foundation import disk_cache
from ..foundation.allocator import probe
from ..foundation.source_hash import hash_sources
from ..loop_ir.ir import Kernel
from . import scratch_slots  # noqa: F401 - provides the functions that kernels take scratch by
from .elf_loader import load_codes, loaded
from ..target.machine import (
    COMPILE_BYTES, Target, emit_object_code, external_functions, host, llvm_version,
)

_LITTER = 2 << 20  # characters of IR, the nodes behind which take 30 times as many bytes
_NICE = 5  # a third of the share of other threads
_BESIDE = 3  # threads for each that emits, of which Python lets one run at a time
# What emits machine code, and nothing else: a change elsewhere keeps cached kernels valid.
_EMITTER = (
    "native/loop_ir", "native/target", "native/codegen", "native/jit/scratch_slots.py",
    "native/jit/compile.py",
)


def sources() -> str | None:
    """A hash of the files that decide what code a kernel becomes; None if one cannot be read."""
    return hash_sources(*_EMITTER)


def addresses(kernels: Mapping[str, Kernel], threads: int = 1, aside: bool = False
              ) -> dict[str, int]:  # fmt: skip
    """The addresses of functions by name. A name stands for a structure.

    They are made by other processes (`worker_pool`) where that is worth it; else emission is on the
    caller's thread, LLVM on so many, of low priority if `aside`. Raises VerifyError for a kernel
    that is not legal, RuntimeError where LLVM fails.
    """
    version = sources()
    keys = {name: _key(name, version or "") for name in kernels}
    found: dict[str, tuple[list[str], bytes]] = {}
    for name, key in keys.items():
        entry = None if version is None else disk_cache.get(key)
        if entry is not None:
            found[name] = _unpacked(entry)

    def finish(name: str, needs: list[str], code: bytes) -> None:
        found[name] = needs, code
        if version is not None:
            disk_cache.put(keys[name], _packed(needs, code))

    def finish_text(name: str, text: str) -> None:
        finish(name, external_functions(text), emit_object_code(text))

    missing = {name: kernel for name, kernel in kernels.items() if name not in found}
    if missing:
        probe(COMPILE_BYTES, "making machine code")
        from .worker_pool import MAKERS, cost

        left = MAKERS.make(
            missing, finish, lambda name: finish_text(name, _text(kernels[name], name)),
            threads, aside,
        )  # fmt: skip
        if left:  # the dearest first: nobody is to wait for one at the end
            left.sort(key=lambda name: -cost(kernels[name]))
            _make(left, lambda name: _text(kernels[name], name), finish_text,
                  min(threads, _BESIDE), aside)  # fmt: skip
    return load_codes({name: (keys[name], *found[name]) for name in kernels})


def _key(name: str, version: str) -> str:
    target = host()
    return disk_cache.make_key("kernel", llvm_version(), target.triple, target.cpu, target.features,
                     f"{target.near} {target.last}", version, name)  # fmt: skip


def known(names: Sequence[str]) -> dict[str, int] | None:
    """The addresses of functions that are here or on disk, by name; None where one is not."""
    version = sources()
    if version is None:
        return None
    found: dict[str, int] = {}
    entries: dict[str, tuple[str, list[str], bytes]] = {}
    for name in dict.fromkeys(names):
        key = _key(name, version)
        address = loaded(key, name)
        if address is not None:
            found[name] = address
            continue
        entry = disk_cache.get(key)
        if entry is None:
            return None
        entries[name] = key, *_unpacked(entry)
    return found | load_codes(entries)


def _text(kernel: Kernel, name: str) -> str:
    from ..codegen.kernel import emit
    from ..loop_ir.verify import verify

    verify(kernel)
    return emit(kernel, name=name)


def made(kernel: Kernel, name: str, target: Target) -> tuple[list[str], bytes]:
    """The functions from elsewhere that a kernel's code calls, and its code, for a target."""
    from ..codegen.kernel import emit
    from ..loop_ir.verify import verify

    verify(kernel)
    text = emit(kernel, target, name)
    return external_functions(text), emit_object_code(text, target)


def prepare() -> None:
    """Imports what makes code, before there is something to make."""
    from ..codegen import kernel  # noqa: F401
    from ..loop_ir import verify  # noqa: F401

    host()


def _make(
    names: Sequence[str], text: Callable[[str], str], finish: Callable[[str, str], None],
    threads: int, aside: bool,
) -> None:  # fmt: skip
    """finish(name, text(name)) for all names; the first error is raised.

    Texts, for which Python lets one thread run at a time, are made on the caller's thread, and
    finished on daemon threads meanwhile; without `aside` on the caller's thread too.
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
    helpers = _started(helper, count)
    made = 0
    try:
        for name in names:
            if errors:
                break
            ready.put((name, found := text(name)))
            made += len(found)
            if made > _LITTER and not gc.isenabled():
                made = 0
                gc.collect()  # nodes of IR refer to one another
    except BaseException as error:
        errors.insert(0, error)
    for _ in range(len(helpers) + 1):
        ready.put(None)
    if not aside or not helpers:
        work()
    for one in helpers:
        one.join()
    if errors:
        raise errors[0]


def _started(work: Callable[[], None], count: int) -> list[Thread]:
    """Daemon threads that do work: so many, or as many as the system allows."""
    found: list[Thread] = []
    for _ in range(count):
        one = Thread(target=work, name="flambeau-compile", daemon=True)
        try:
            one.start()
        except RuntimeError:
            break
        found.append(one)
    return found


def yield_to_others(level: int = _NICE) -> None:
    """Gives this thread a low priority, for good, where threads have priorities of their own. One
    that is lower already, as under `nice`, stays."""
    if sys.platform == "linux":
        thread = get_native_id()
        try:
            os.setpriority(os.PRIO_PROCESS, thread,
                           max(level, os.getpriority(os.PRIO_PROCESS, thread)))  # fmt: skip
        except OSError:
            pass  # not allowed here: it competes with the others


def _packed(needs: list[str], code: bytes) -> bytes:
    return " ".join(needs).encode() + b"\n" + code


def _unpacked(entry: bytes) -> tuple[list[str], bytes]:
    needs, _, code = entry.partition(b"\n")
    return needs.decode().split(), code
