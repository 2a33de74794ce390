"""Collectives of flambeau over Gloo and MPI beside PyTorch's over Gloo, in one run.

    python benchmarks/collectives.py [--ranks 2] [--rounds 3]

Each round runs each library in turn; the table has each one's best batch of calls, since other
programs only add time. The constants of docs/scaling.md (latency, bandwidth) are fitted to it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES = {"4 B": 1, "4 KB": 1_000, "400 KB": 100_000, "40 MB": 10_000_000}  # in float32
BATCHES = 25
CALLS = {"4 B": 20, "4 KB": 20, "400 KB": 5, "40 MB": 1}
LIBRARIES = ("flambeau mpi", "flambeau gloo", "torch gloo")
COLLECTIVES = ("all_reduce", "all_gather", "broadcast")


def seconds_per_call(call: Callable[[], Any], count: int) -> float:
    """The mean of a batch of `count` calls."""
    call()
    start_s = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start_s) / count


def measure(library: str, backend: str) -> None:
    """One rank's part; rank 0 prints {collective: {size: seconds}}."""
    torch = importlib.import_module(library)
    dist = torch.distributed
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    results: dict[str, dict[str, float]] = {name: {} for name in COLLECTIVES}
    cases: list[tuple[str, str, Callable[[], Any]]] = []
    for label, count in SIZES.items():
        x = torch.ones(count)
        rows = [torch.empty(count) for _ in range(dist.get_world_size())]
        calls: dict[str, Callable[[], Any]] = {
            "all_reduce": lambda x=x: dist.all_reduce(x, dist.ReduceOp.MAX),
            "all_gather": lambda x=x, rows=rows: dist.all_gather(rows, x),
            "broadcast": lambda x=x: dist.broadcast(x, 0),
        }
        cases += [(name, label, call) for name, call in calls.items()]
    for _ in range(BATCHES):  # all in turn: each sees the same states of the machine
        for name, label, call in cases:
            dist.barrier()
            seconds = seconds_per_call(call, CALLS[label])
            results[name][label] = min(seconds, results[name].get(label, seconds))
    if dist.get_rank() == 0:
        print(json.dumps(results), flush=True)
    dist.barrier()
    os._exit(0) if library == "torch" else dist.destroy_process_group()


def start(variant: str, ranks: int) -> dict[str, dict[str, float]]:
    """Runs a library's ranks; the seconds that rank 0 measured."""
    library, backend = variant.split()
    command = [sys.executable, str(Path(__file__)), "--measure", library, backend]
    root = str(Path(__file__).resolve().parent.parent)
    settings = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    if backend == "mpi":
        mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or "mpiexec"
        done = subprocess.run([mpiexec, "-n", str(ranks), *command], env=settings, text=True,
                              capture_output=True, check=True)
        return json.loads(done.stdout)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    settings |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    processes = [
        subprocess.Popen(command, env={**settings, "RANK": str(rank)}, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for rank in range(ranks)
    ]
    printed = [process.communicate()[0] for process in processes]
    return json.loads(printed[0])


def _variants() -> list[str]:
    there = [v for v in LIBRARIES if importlib.util.find_spec(v.split()[0])]
    if not importlib.util.find_spec("mpi4py"):
        there.remove("flambeau mpi")
    return there


def fitted(seconds: dict[str, float], ranks: int) -> tuple[float, float]:
    """(latency_s, bytes per second) of an all-reduce, from its smallest and its largest size.

    A ring of n ranks sends 2 (n - 1) / n of the bytes, in 2 (n - 1) rounds.
    """
    latency_s = seconds["4 B"] / (2 * (ranks - 1))
    sent_bytes = 2 * (ranks - 1) / ranks * 4 * SIZES["40 MB"]
    return latency_s, sent_bytes / (seconds["40 MB"] - seconds["4 B"])


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("LIBRARY", "BACKEND"))
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure)
        return
    variants = _variants()
    rounds: dict[str, list[dict[str, dict[str, float]]]] = {v: [] for v in variants}
    for _ in range(options.rounds):
        for variant in variants:
            rounds[variant].append(start(variant, options.ranks))
    best = {
        v: {c: {s: min(r[c][s] for r in sample) for s in SIZES} for c in COLLECTIVES}
        for v, sample in rounds.items()
    }
    print(f"{options.ranks} ranks, us per call" + "".join(f"{v:>16}" for v in variants))
    for collective in COLLECTIVES:
        for size in SIZES:
            times = "".join(f"{best[v][collective][size] * 1e6:16.1f}" for v in variants)
            print(f"{collective:>12} {size:>8}{times}")
    for variant in variants:
        latency_s, rate = fitted(best[variant]["all_reduce"], options.ranks)
        print(f"{variant}: latency {latency_s * 1e6:.1f} us, bandwidth {rate / 1e9:.2f} GB/s")


if __name__ == "__main__":
    main()
