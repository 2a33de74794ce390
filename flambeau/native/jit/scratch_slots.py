"""Scratch memory for kernels: slots of 8 MB that a thread takes and gives back.

A stack is too small for packed matrix panels, and a thread number does not identify memory (two
callers may both be thread 0), so native code claims slots with an atomic flag.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from typing import Any

from ..codegen.llvm.scratch_abi import GIVE, TAKE
from ..foundation.allocator import build_memory_error
from ..target.cost_model import SCRATCH_SLOT_BYTES
from .elf_loader import PROVIDERS, define, load

# A thread that finds all slots taken spins until one is free.
_SLOT_COUNT = max(64, 1 << ((os.cpu_count() or 1) - 1).bit_length())

_IR_TEXT = f"""
@slots = global ptr null
define void @flambeau_scratch_start(ptr %base) {{
  store ptr %base, ptr @slots
  ret void
}}
define ptr @{TAKE}(i64 %tid) {{
entry:
  %base = load ptr, ptr @slots
  br label %try
try:
  %i = phi i64 [%tid, %entry], [%next, %busy]
  %slot = and i64 %i, {_SLOT_COUNT - 1}
  %offset = mul i64 %slot, {SCRATCH_SLOT_BYTES}
  %flag = getelementptr i8, ptr %base, i64 %offset
  %pair = cmpxchg ptr %flag, i64 0, i64 1 acquire monotonic
  %won = extractvalue {{i64, i1}} %pair, 1
  br i1 %won, label %done, label %busy
busy:
  %next = add i64 %i, 1
  br label %try
done:
  %memory = getelementptr i8, ptr %flag, i64 4096
  ret ptr %memory
}}
define void @{GIVE}(ptr %memory) {{
  %flag = getelementptr i8, ptr %memory, i64 -4096
  store atomic i64 0, ptr %flag release, align 8
  ret void
}}
"""

_lock = threading.Lock()
_area: Any = None


def install() -> None:
    """Allocate the slots and define the scratch functions for code loaded from now on."""
    global _area
    with _lock:
        if _area is not None:
            return
        size = _SLOT_COUNT * SCRATCH_SLOT_BYTES
        try:
            if os.name == "nt":
                area = mmap.mmap(-1, size)
            else:  # private: a forked child gets its own slots; untouched pages cost nothing
                area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise build_memory_error(size, "the working memory of kernels") from error
        if hasattr(mmap, "MADV_HUGEPAGE"):
            area.madvise(mmap.MADV_HUGEPAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(area))
        names = ("flambeau_scratch_start", TAKE, GIVE)
        addresses = load(_IR_TEXT, names)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(addresses[names[0]])(base)
        for name in (TAKE, GIVE):
            define(name, addresses[name])
        # Never unmapped: at exit a thread may still be in a kernel.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(area))
        _area = area


PROVIDERS[TAKE] = install


def _release_all() -> None:
    """Free all slots in a forked child: the threads that held them do not exist there."""
    global _lock
    _lock = threading.Lock()
    if _area is not None:
        for start in range(0, _SLOT_COUNT * SCRATCH_SLOT_BYTES, SCRATCH_SLOT_BYTES):
            if any(_area[start : start + 8]):  # write only where needed: reading costs no memory
                _area[start : start + 8] = bytes(8)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_all)
