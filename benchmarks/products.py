"""Matrix products by flambeau's kernels, NumPy's library and PyTorch, beside the machine's peak.

    python benchmarks/products.py [--threads 2] [--only REGEX]

In one process, in turn; shown is the best of many rounds, in GFLOP/s. With one thread the time is
the thread's own, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import time
from collections.abc import Callable
from typing import Any

SHAPES = [(32, 64, 64), (64, 784, 256), (64, 256, 128), (64, 128, 10), (768, 128, 512),
          (768, 512, 128), (1, 784, 256), (512, 512, 512), (1024, 1024, 1024),
          (2048, 2048, 2048)]
STACK = (48, 64, 32, 64)  # of products: how many, m, k, n
_SECONDS = 0.15  # for one way of one shape


def repeat() -> Callable[[int, int, int], None]:
    """A native loop that calls a kernel many times: Python's call would hide small ones."""
    from flambeau.native.jit.elf_loader import load

    text = """
define void @repeat(ptr %kernel, ptr %cells, i64 %count) {
entry:
  br label %round
round:
  %i = phi i64 [0, %entry], [%next, %round]
  call void %kernel(i64 0, i64 1, ptr %cells)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %round, label %done
done:
  ret void
}"""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return kind(load(text, ["repeat"])["repeat"])


def best(run: Callable[[int], None], flops: float, clock: Callable[[], float]) -> float:
    """GFLOP/s of the best of many rounds of `run(count)`."""
    count = max(1, int(2e8 / flops))
    run(1)
    least, until = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < until or least == float("inf"):
        began = clock()
        run(count)
        least = min(least, (clock() - began) / count)
    return flops / least / 1e9


def rates(a: Any, b: Any, threads: int, again: Any, torch: Any) -> list[float]:
    """flambeau's, NumPy's and PyTorch's GFLOP/s for a @ b."""
    import numpy as np

    from flambeau.native.jit.kernel_function import compile_kernel
    from flambeau.native.kernels.gemm import GemmLayout, build_product
    from flambeau.native.loop_ir.ir import Type
    from flambeau.native.runtime.thread_pool import run

    clock = time.thread_time if threads == 1 else time.perf_counter
    flops = 2.0 * a.size * b.shape[-1]
    y = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
    strides = [tuple(s // a.itemsize for s in x.strides) for x in (a, b)]
    kernel = build_product(GemmLayout(Type.F32, a.shape[:-2], a.shape[-2], b.shape[-1], a.shape[-1],
                                      strides[0], strides[1]))
    address = compile_kernel(kernel).address
    cells = (ctypes.c_int64 * 3)(*[x.ctypes.data for x in (a, b, y)])
    at = ctypes.addressof(cells)

    def native(count: int) -> None:
        if threads == 1:
            again(address, at, count)
        else:
            for _ in range(count):
                run(address, at, threads)

    def times(call: Callable[[], Any]) -> Callable[[int], None]:
        return lambda count: [call() for _ in range(count)][-1]

    speeds = [best(native, flops, clock), best(times(lambda: np.matmul(a, b, out=y)), flops, clock)]
    if torch is not None:
        x, w, z = (torch.from_numpy(each) for each in (a, b, y))
        speeds.append(best(times(lambda: torch.matmul(x, w, out=z)), flops, clock))
    return speeds


def main() -> None:
    """Prints a row for each shape and transposition."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "FLAMBEAU_THREADS"):
        os.environ[name] = str(options.threads)
    import numpy as np
    from peak import peak

    try:
        import torch

        torch.set_num_threads(options.threads)
    except ImportError:
        torch = None
    limit, again, rng = peak(options.threads), repeat(), np.random.default_rng(0)
    print(f"peak {limit:.0f} GFLOP/s on {options.threads} thread(s)")
    for m, k, n in SHAPES:
        for flip in ("NN", "NT", "TN"):
            a = rng.normal(size=(k, m) if flip[0] == "T" else (m, k)).astype("f")
            b = rng.normal(size=(n, k) if flip[1] == "T" else (k, n)).astype("f")
            row(f"{m}x{k} @ {k}x{n} {flip}", a.T if flip[0] == "T" else a,
                b.T if flip[1] == "T" else b, options, limit, again, torch)
    count, m, k, n = STACK
    row(f"{count} of {m}x{k} @ {k}x{n} NN", rng.normal(size=(count, m, k)).astype("f"),
        rng.normal(size=(count, k, n)).astype("f"), options, limit, again, torch)


def row(name: str, a: Any, b: Any, options: Any, limit: float, again: Any, torch: Any) -> None:
    """Measures and prints one product."""
    if not re.search(options.only, name):
        return
    native, *others = rates(a, b, options.threads, again, torch)
    named = zip(("NumPy", "PyTorch"), others, strict=False)
    beside = "  ".join(f"{what} {rate:6.1f} ({native / rate:4.2f}x)" for what, rate in named)
    print(f"{name:32} flambeau {native:6.1f} ({native / limit:4.0%} of peak)  {beside}", flush=True)


if __name__ == "__main__":
    main()
