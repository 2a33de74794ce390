"""What goes wrong between processes: the argument says what. Ranks print what they saw."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import flambeau as torch
import flambeau.distributed as dist
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
    ))  # fmt: skip
    steps = 0

    def die(_: Any) -> None:
        if rank == 1 and steps == last_step:
            os.kill(os.getpid(), signal.SIGKILL)

    net.module[2].weight.register_hook(die)
    while steps < 1000:
        steps += 1
        net(torch.randn(8, 50)).sum().backward()


def store_fault() -> None:
    if fault == "nobody":
        report(lambda: dist.init_process_group("gloo", timeout=timedelta(seconds=1)))
    elif fault == "wrong address":
        address = "tcp://127.0.0.1:1"
        report(lambda: dist.init_process_group("gloo", init_method=address, rank=1, world_size=2,
                                               timeout=timedelta(seconds=1)))  # fmt: skip
    sys.exit()


if fault in ("nobody", "wrong address"):
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
elif fault == "order":
    report(lambda: dist.all_reduce(torch.ones(2)) if rank else dist.broadcast(torch.ones(2), 0))
elif fault == "interrupted":
    print("ready", flush=True)
    if rank == 1:
        time.sleep(60)
    dist.all_reduce(torch.ones(3))
