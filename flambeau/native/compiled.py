"""Kernels as functions of this process: compiled once for each structure, run on arrays."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .loops import Kernel
from .structure import digest

_lock = threading.Lock()
_functions: dict[str, Function] = {}


@dataclass
class Function:
    """A kernel's machine code: `void(i64 tid, i64 threads, i64* cells)` at `address`."""

    kernel: Kernel
    name: str
    address: int
    _keep: Any = field(default=None, repr=False)

    @cached_property
    def _call(self) -> Any:
        kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
        return kind(self.address)

    def run(
        self, arrays: Sequence[np.ndarray], sizes: Sequence[int] = (), threads: int = 1
    ) -> None:
        """Runs it on the memory of contiguous arrays, one for each buffer, in place.

        The parts of the threads run one after another, on the caller's thread. Nothing is checked:
        the arrays have what the kernel reads and writes.
        """
        if len(arrays) != len(self.kernel.buffers) or len(sizes) != len(self.kernel.sizes):
            raise TypeError(
                f"{self.kernel.name} takes {len(self.kernel.buffers)} arrays and "
                f"{len(self.kernel.sizes)} sizes, not {len(arrays)} and {len(sizes)}"
            )
        values = [*(array.ctypes.data for array in arrays), *sizes]
        cells = (ctypes.c_int64 * max(len(values), 1))(*values)
        for tid in range(threads):
            self._call(tid, threads, cells)


def compiled(kernel: Kernel) -> Function:
    """The function of a kernel, for this machine; one for all kernels of its structure.

    Raises VerifyError where the kernel is not legal.
    """
    name = f"kernel_{digest(kernel)}"
    with _lock:
        found = _functions.get(name)
    if found is None:
        found = _made(kernel, name)
        with _lock:
            found = _functions.setdefault(name, found)
    return found


def compile_all(kernels: Sequence[Kernel], threads: int = 1) -> list[Function]:
    """`compiled` for many kernels, new ones on several threads at a time."""
    from .emit.kernel import emit
    from .target import load_all
    from .verify import verify

    names = [f"kernel_{digest(kernel)}" for kernel in kernels]
    missing = {n: k for n, k in zip(names, kernels, strict=True) if n not in _functions}
    for kernel in missing.values():
        verify(kernel)
    texts = [(emit(kernel, name=name), [name]) for name, kernel in missing.items()]
    loaded = load_all(texts, threads)
    with _lock:
        for (name, kernel), found in zip(missing.items(), loaded, strict=True):
            _functions.setdefault(name, Function(kernel, name, found[name]))
    return [_functions[name] for name in names]


def _made(kernel: Kernel, name: str) -> Function:
    from .emit.kernel import emit
    from .target import load
    from .verify import verify

    verify(kernel)
    return Function(kernel, name, load(emit(kernel, name=name), [name])[name])
