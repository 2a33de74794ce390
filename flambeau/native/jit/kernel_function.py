"""Kernels as callable functions: compiled once per canonical text, run on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..loop_ir.fingerprint import fingerprint
from ..loop_ir.ir import Kernel

_functions: dict[str, KernelFunction] = {}


@dataclass
class KernelFunction:
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
        """Run it in place on contiguous arrays, one per buffer.

        The threads' parts run one after another on the caller's thread. Only the number of arrays
        and sizes is checked, not whether the arrays are large enough.
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


def compile_kernel(kernel: Kernel) -> KernelFunction:
    """Return the compiled function of a kernel, shared by kernels of equal canonical text.

    Raises VerifyError for an illegal kernel.
    """
    return compile_all([kernel])[0]


def compile_all(kernels: Sequence[Kernel], threads: int = 1, aside: bool = False
                ) -> list[KernelFunction]:
    """`compile_kernel` for many kernels; new ones compile on several threads.

    `aside`: compile at low priority, since other work is running.
    """
    names = [f"kernel_{fingerprint(kernel)}" for kernel in kernels]
    missing = {n: k for n, k in zip(names, kernels, strict=True) if n not in _functions}
    if missing:
        from .compile import compile_kernels

        for name, address in compile_kernels(missing, threads, aside).items():
            _functions.setdefault(name, KernelFunction(missing[name], name, address))  # atomic
    return [_functions[name] for name in names]
