"""Training steps over two processes: the six models of compiled.py at equal total batch.

    python benchmarks/data_parallel.py [--models REGEX] [--rounds N] [--json FILE]

Compared in one run, in turn: compiled flambeau in one process on two threads, compiled flambeau
with DistributedDataParallel in two processes of one thread over MPI (which takes shared memory on
one host) and over Gloo (TCP), and PyTorch with its DistributedDataParallel over Gloo in two such
processes. Shown are milliseconds a step (medians over the rounds), the throughput of two processes
against one, and how much faster than PyTorch's they are.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from models import MODELS
from processes import python_with_torch
from turns import Process, all_in_turn, wait_for_turn

HERE = Path(__file__).resolve().parent
VARIANTS = ("one process", "flambeau mpi", "flambeau gloo", "torch gloo")
TURN_PIPE = "DATA_PARALLEL_TURNS"  # names the pipe by which rank 0 wakes the other rank
RANKS = 2
WARM_UP = 8  # steps, in which programs are made
TURNS, TURN_S = 9, 0.25
LIMIT_S = 600.0


def library(variant: str, threads: int) -> Any:
    """What `import torch` gives."""
    sys.path[:0] = [str(HERE.parent / "examples")]
    if "torch" not in variant:
        sys.path.insert(0, str(HERE.parent))
        alias = importlib.import_module("flambeau.command.torch_alias")
        alias.install()
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    return torch


def training(torch: Any, variant: str, name: str) -> Callable[[], Any]:
    """The whole step on a batch of this process's share."""
    model, ranks = MODELS[name], 1 if variant == "one process" else RANKS
    net, loss_of = model.make(torch)
    batch = model.data(torch, model.batch // ranks)
    if ranks > 1:
        net = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(net, x, y)
        loss.backward()
        optimizer.step()
        return loss

    if "torch" not in variant:
        step = torch.compile(step, mode="now", fullgraph=False)
    return lambda: step(*batch)


def wait_for_rank_turn(rank: int, ranks: int) -> None:
    """Rank 0 waits for its turn and wakes the other, which sleeps: a collective may spin."""
    if rank == 0:
        wait_for_turn()
    if ranks > 1:
        with open(os.environ[TURN_PIPE], "r" if rank else "w", encoding="ascii") as pipe:
            pipe.readline() if rank else pipe.write("\n")


def measure(variant: str, name: str) -> None:
    """One process's part: rank 0 asks for turns and prints its median seconds a step."""
    ranks = 1 if variant == "one process" else RANKS
    torch = library(variant, RANKS // ranks)
    rank = 0
    if ranks > 1:
        torch.distributed.init_process_group(variant.split()[1])
        rank = torch.distributed.get_rank()

    def broadcast_from_rank_0(number: int) -> int:
        """Rank 0's number."""
        cell = torch.tensor([number])
        if ranks > 1:
            torch.distributed.broadcast(cell, 0)
        return int(cell.item())

    step = training(torch, variant, name)
    for _ in range(WARM_UP):
        step()
    begin_s = time.perf_counter()
    step()
    count = broadcast_from_rank_0(max(1, round(TURN_S / (time.perf_counter() - begin_s))))
    step_seconds = []
    for _ in range(TURNS):
        wait_for_rank_turn(rank, ranks)
        step()
        begin_s = time.perf_counter()
        for _ in range(count):
            step()
        broadcast_from_rank_0(0)
        step_seconds.append((time.perf_counter() - begin_s) / count)
    if rank == 0:
        print(json.dumps(statistics.median(step_seconds)), flush=True)
    os._exit(0) if "torch" in variant else None


def launch(variant: str, name: str) -> None:
    """Starts the ranks; is the first of them itself where no mpiexec starts them."""
    with contextlib.suppress(AttributeError):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:RANKS])
    if variant == "one process":
        measure(variant, name)
        return
    command = [sys.executable, __file__, "--rank", variant, name]
    with tempfile.TemporaryDirectory() as folder:
        pipe = os.environ[TURN_PIPE] = str(Path(folder, "turns"))
        os.mkfifo(pipe)
        if "mpi" in variant:
            mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or "mpiexec"
            subprocess.run([mpiexec, "-n", str(RANKS), *command], check=True)
        else:
            _launch_over_tcp(command)


def _launch_over_tcp(command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS)}
    second = subprocess.Popen(command, env={**os.environ, "RANK": "1"}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL)
    try:
        subprocess.run(command, env={**os.environ, "RANK": "0"}, check=True)
    finally:
        second.wait(60)


def measure_round(name: str, pythons: dict[str, str], backwards: bool) -> dict[str, float]:
    """Seconds a step by variant, all measured in turn."""
    processes = {}
    for variant in VARIANTS[::-1] if backwards else VARIANTS:
        threads = str(RANKS if variant == "one process" else 1)
        limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
                               threads)
        command = [pythons[variant], __file__, "--launch", variant, name]
        processes[variant] = Process(command, {**os.environ, **limits}, LIMIT_S)
    all_in_turn(list(processes.values()))
    for variant, process in processes.items():
        if process.failed:
            print(f"\n{variant} {name}:\n{process.errors[-2000:]}", file=sys.stderr)
    return {v: json.loads(p.lines[-1]) for v, p in processes.items() if not p.failed}


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", metavar="REGEX", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--torch-python", metavar="PYTHON")
    parser.add_argument("--launch", nargs=2, metavar=("VARIANT", "MODEL"))
    parser.add_argument("--rank", nargs=2, metavar=("VARIANT", "MODEL"))
    options = parser.parse_args()
    if options.launch or options.rank:
        (launch if options.launch else measure)(*(options.launch or options.rank))
        return
    pythons = dict.fromkeys(VARIANTS, sys.executable)
    pythons["torch gloo"] = python_with_torch(options.torch_python)
    table: dict[str, dict[str, float]] = {}
    print(f"{'ms a step':42}" + "".join(f"{v:>14}" for v in VARIANTS)
          + "  2 x 1 / 1 x 2: mpi gloo   torch / flambeau: mpi gloo")
    for name in (n for n in MODELS if re.search(options.models, n)):
        rounds = [measure_round(name, pythons, bool(number % 2))
                  for number in range(options.rounds)]
        row = table[name] = {v: statistics.median(r[v] for r in rounds) for v in VARIANTS
                             if all(v in r for r in rounds)}
        times = [row.get(v, float("nan")) for v in VARIANTS]
        print(f"{MODELS[name].title:42}" + "".join(f"{t * 1e3:14.2f}" for t in times)
              + f"{times[0] / times[1]:20.2f}{times[0] / times[2]:5.2f}"
              + f"{times[3] / times[1]:24.2f}{times[3] / times[2]:5.2f}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
