"""The machine's limit in fused multiply-adds: a loop that touches nothing but registers.

    python benchmarks/peak.py [--dtype float64]

`peak(threads)` gives GFLOP/s of all threads together; benchmarks divide by it.
"""

from __future__ import annotations

import argparse
import ctypes
import threading
import time
from functools import lru_cache

from flambeau.native.loops import Type
from flambeau.native.target import host, load

_ROUNDS = 200_000


@lru_cache(maxsize=2)
def _function(type: Type) -> tuple[ctypes._CFuncPtr, int]:
    """void(double, double, pointer): chains of x * y + sum; and flops a round."""
    lanes = host().lanes(type)
    chains = 12 if host().vector_registers == 16 else 24
    element = "float" if type is Type.F32 else "double"
    vector, suffix = f"<{lanes} x {element}>", f"v{lanes}f{type.size * 8}"
    starts = []  # chains that are not the same, or LLVM makes one of them
    for i in range(chains):
        starts += [f"  %q{i} = getelementptr {vector}, ptr %out, i64 {i}",
                   f"  %a{i} = load {vector}, ptr %q{i}, align 4"]  # fmt: skip
    phis = [f"  %s{i} = phi {vector} [%a{i}, %entry], [%t{i}, %round]" for i in range(chains)]
    steps = [f"  %t{i} = call {vector} @llvm.fma.{suffix}({vector} %x, {vector} %y, "
             f"{vector} %s{i})" for i in range(chains)]  # fmt: skip
    stores = []
    for i in range(chains):
        stores += [f"  %p{i} = getelementptr {vector}, ptr %out, i64 {i}",
                   f"  store {vector} %t{i}, ptr %p{i}, align 4"]  # fmt: skip
    text = "\n".join([
        f"declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})",
        "define void @chains(ptr %in, ptr %out, i64 %rounds) {", "entry:",
        f"  %x = load {vector}, ptr %in, align 4", f"  %y = load {vector}, ptr %in, align 4",
        *starts, "  br label %round", "round:", "  %n = phi i64 [0, %entry], [%m, %round]",
        *phis, *steps,
        "  %m = add i64 %n, 1", "  %more = icmp slt i64 %m, %rounds",
        "  br i1 %more, label %round, label %done", "done:", *stores, "  ret void", "}",
    ])  # fmt: skip
    address = load(text, ["chains"])["chains"]
    arguments = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    return ctypes.CFUNCTYPE(None, *arguments)(address), 2 * chains * lanes


def peak(threads: int = 1, type: Type = Type.F32, seconds: float = 0.3) -> float:
    """GFLOP/s that `threads` threads reach together: the best of many short runs."""
    function, flops = _function(type)
    best = [0.0] * threads
    start = threading.Barrier(threads)

    def run(tid: int) -> None:
        memory = ctypes.create_string_buffer(64 * 32)
        start.wait()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            began = time.perf_counter()
            function(memory, memory, _ROUNDS)
            best[tid] = max(best[tid], flops * _ROUNDS / (time.perf_counter() - began) / 1e9)

    workers = [threading.Thread(target=run, args=(tid,)) for tid in range(1, threads)]
    for worker in workers:
        worker.start()
    run(0)
    for worker in workers:
        worker.join()
    return sum(best)


def main() -> None:
    """Prints the peak on one core and on two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    type = Type(parser.parse_args().dtype)
    for threads in (1, 2):
        print(f"{threads} thread{'s' * (threads > 1)}: {peak(threads, type):.0f} GFLOP/s")


if __name__ == "__main__":
    main()
