"""What goes wrong between processes: the argument says what. Ranks print what they saw."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import flambeau as torch
import flambeau.distributed as dist
import flambeau.distributed.checkpoint as checkpoint
from flambeau import nn

fault = sys.argv[1]
rank = int(os.environ["RANK"])
LIMIT = timedelta(seconds=3)


def report(call: Callable[[], Any]) -> None:
    """Prints the error that a call ends with, and after how many seconds."""
    start_s = time.monotonic()
    try:
        call()
        text = "no error"
    except (RuntimeError, ValueError) as error:
        text = f"{type(error).__name__}: {error} {' '.join(getattr(error, '__notes__', ()))}"
    print(f"{time.monotonic() - start_s:.2f} {text}", flush=True)


def train_until(last_step: int) -> None:
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(nn.Sequential(
        nn.Linear(50, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 1)
    ))
    steps = 0

    def die(_: Any) -> None:
        if rank == 1 and steps == last_step:
            os.kill(os.getpid(), signal.SIGKILL)

    net.module[2].weight.register_hook(die)
    while steps < 1000:
        steps += 1
        net(torch.randn(8, 50)).sum().backward()


def save_until_killed(folder: str, seconds: float) -> None:
    """Saves checkpoints until rank 1 is gone; the ones that are complete can be loaded."""
    torch.manual_seed(0)
    state = {f"w{k}": torch.randn(300, 300) for k in range(8)}
    if rank == 1:
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
    for step in range(10_000):
        checkpoint.save(state, checkpoint_id=f"{folder}/{step}")


def load_what_is_complete(folder: str) -> None:
    for saved in Path(folder).iterdir():
        if (saved / ".metadata").exists():
            state = {f"w{k}": torch.zeros(300, 300) for k in range(8)}
            checkpoint.load(state, checkpoint_id=saved, no_dist=True)
            assert all(w.abs().sum() > 0 for w in state.values())


def train_compiled() -> None:
    """A compiled step whose other rank dies: the error is the collective's."""
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(nn.Linear(50, 400))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    @torch.compile(mode="now")
    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    for number in range(20):
        if number == 10:
            assert step.ready
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
        step(torch.randn(8, 50))


def store_fault() -> None:
    if fault == "in use":
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
            report(lambda: dist.init_process_group("gloo", init_method=address, rank=0,
                                                   world_size=2, timeout=LIMIT))
    elif fault == "one of three":
        report(lambda: dist.init_process_group("gloo", timeout=timedelta(seconds=2)))
    elif fault == "nobody":
        report(lambda: dist.init_process_group("gloo", timeout=timedelta(seconds=1)))
    elif fault == "wrong address":
        address = "tcp://127.0.0.1:1"
        report(lambda: dist.init_process_group("gloo", init_method=address, rank=1, world_size=2,
                                               timeout=timedelta(seconds=1)))
    sys.exit()


if fault in ("nobody", "wrong address", "in use", "one of three"):
    store_fault()
dist.init_process_group("gloo", timeout=LIMIT)
if fault == "killed":
    report(lambda: train_until(3 + int(sys.argv[2])))
elif fault == "silent":
    if rank == 0:
        report(lambda: dist.all_reduce(torch.ones(3)))
    else:
        time.sleep(LIMIT.total_seconds() + 1)
elif fault == "missing":
    if rank == 0:
        report(lambda: dist.monitored_barrier(timeout=timedelta(seconds=1), wait_all_ranks=True))
    elif rank == 1:
        report(lambda: dist.monitored_barrier(timeout=timedelta(seconds=1)))
    else:
        time.sleep(2.5)
elif fault == "shape":
    report(lambda: dist.all_reduce(torch.ones(2 + rank)))
elif fault == "dtype":
    dtype = torch.float64 if rank else torch.float32
    report(lambda: dist.all_reduce(torch.ones(2, dtype=dtype)))
elif fault == "checkpoint":
    report(lambda: save_until_killed(sys.argv[2], float(sys.argv[3])))
    load_what_is_complete(sys.argv[2])
elif fault == "compiled":
    report(train_compiled)
elif fault == "order":
    report(lambda: dist.all_reduce(torch.ones(2)) if rank else dist.broadcast(torch.ones(2), 0))
elif fault == "interrupted":
    print("ready", flush=True)
    if rank == 1:
        time.sleep(60)
    dist.all_reduce(torch.ones(3))
