"""Measure this machine's peaks: multiply-adds in registers and copied bytes per second.

Kernels are judged by their share of these. The multiply-add loop touches only registers; the copy
uses memory too large for any cache.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ..jit.elf_loader import load
from ..loop_ir.ir import Type
from ..target.cost_model import MIN_PEAK_BURSTS, PEAK_COPY_BYTES, PEAK_MULTIPLY_ADD_ROUNDS
from ..target.machine import host


@lru_cache(maxsize=2)
def _multiply_add_chains(type: Type) -> tuple[Callable[..., None], int]:
    """Return `void(in, out, rounds)`, which runs chains of x * y + sum, and its flops per round."""
    lanes = host().lanes(type)
    chains = range(12 if host().vector_registers == 16 else 24)
    element = "float" if type is Type.F32 else "double"
    vector, suffix = f"<{lanes} x {element}>", f"v{lanes}f{type.size * 8}"
    pointers = [f"  %q{i} = getelementptr {vector}, ptr %out, i64 {i}" for i in chains]
    # LLVM would merge chains with equal start values.
    starts = [f"  %a{i} = load {vector}, ptr %q{i}, align 4" for i in chains]
    phis = [f"  %s{i} = phi {vector} [%a{i}, %entry], [%t{i}, %round]" for i in chains]
    steps = [f"  %t{i} = call {vector} @llvm.fma.{suffix}({vector} %x, {vector} %y, "
             f"{vector} %s{i})" for i in chains]
    stores = [f"  store {vector} %t{i}, ptr %q{i}, align 4" for i in chains]
    text = "\n".join([
        f"declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})",
        "define void @chains(ptr %in, ptr %out, i64 %rounds) {", "entry:",
        f"  %x = load {vector}, ptr %in, align 4", f"  %y = load {vector}, ptr %in, align 4",
        *pointers, *starts, "  br label %round",
        "round:", "  %n = phi i64 [0, %entry], [%m, %round]", *phis, *steps,
        "  %m = add i64 %n, 1", "  %more = icmp slt i64 %m, %rounds",
        "  br i1 %more, label %round, label %done", "done:", *stores, "  ret void", "}",
    ])
    kinds = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    address = load(text, ["chains"])["chains"]
    return ctypes.CFUNCTYPE(None, *kinds)(address), 2 * len(chains) * lanes


def _measure_rate(
    threads: int, seconds: float, work: Callable[[int], float], sustained: bool = False
) -> float:
    """Return the sum of all threads' best rates (`sustained`: mean rates), running together."""
    best, mean = [0.0] * threads, [0.0] * threads
    together = threading.Barrier(threads)

    def run(tid: int) -> None:
        together.wait()
        start, total, rounds = time.perf_counter(), 0.0, 0
        while time.perf_counter() < start + seconds or rounds < MIN_PEAK_BURSTS:
            rounds += 1
            began = time.perf_counter()
            amount = work(tid)
            now = time.perf_counter()
            total += amount
            best[tid], mean[tid] = max(best[tid], amount / (now - began)), total / (now - start)

    workers = [threading.Thread(target=run, args=(tid,)) for tid in range(1, threads)]
    for worker in workers:
        worker.start()
    run(0)
    for worker in workers:
        worker.join()
    return sum(mean if sustained else best)


def measure_flops_per_s(
    threads: int = 1, type: Type = Type.F32, seconds: float = 0.3, sustained: bool = False
) -> float:
    """Return the floating-point operations per second that `threads` threads reach together.

    The best of short bursts, or the mean over `seconds` if `sustained`.
    """
    function, amount = _multiply_add_chains(type)
    memory = [ctypes.create_string_buffer(64 * 32) for _ in range(threads)]

    def work(tid: int) -> float:
        function(memory[tid], memory[tid], PEAK_MULTIPLY_ADD_ROUNDS)
        return amount * PEAK_MULTIPLY_ADD_ROUNDS

    return _measure_rate(threads, seconds, work, sustained)


def measure_bandwidth_bytes_per_s(threads: int = 1, seconds: float = 0.3) -> float:
    """Return the bytes per second that `threads` threads read and write, copying large arrays."""
    size = PEAK_COPY_BYTES // threads
    arrays = [(np.ones(size, np.uint8), np.full(size, 2, np.uint8)) for _ in range(threads)]

    def work(tid: int) -> float:
        source, target = arrays[tid]
        np.copyto(target, source)
        return 2 * source.nbytes

    return _measure_rate(threads, seconds, work)


@lru_cache(maxsize=8)
def measure_peaks(threads: int) -> tuple[float, float]:
    """Return (flops, bytes) per second, measured once per process."""
    return measure_flops_per_s(threads, seconds=0.1), measure_bandwidth_bytes_per_s(
        threads, seconds=0.1
    )
