"""Trains with DistributedDataParallel in several ways; rank 0 prints the losses as JSON.

The first argument is the library. Every way ends with the same parameters on all ranks.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import warnings
from typing import Any

library = sys.argv[1] if len(sys.argv) > 1 else "flambeau"
torch = importlib.import_module(library)
nn = torch.nn
hooks = importlib.import_module(f"{library}.distributed.algorithms.ddp_comm_hooks.default_hooks")
power = importlib.import_module(f"{library}.distributed.algorithms.ddp_comm_hooks.powerSGD_hook")
dist, DDP = torch.distributed, nn.parallel.DistributedDataParallel
torch.set_num_threads(1)

dist.init_process_group(os.environ.get("BACKEND", "gloo"))
rank, size = dist.get_rank(), dist.get_world_size()
losses: dict[str, list[float]] = {}


class Net(nn.Module):
    """Several buckets, a shared weight, a buffer, and a layer that not every step uses."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 300), nn.Linear(300, 300)
        self.norm, self.last = nn.BatchNorm1d(300), nn.Linear(300, 3)
        self.extra = nn.Linear(3, 3)

    def forward(self, x: Any, uses_extra: bool = True) -> Any:
        h = self.second(self.norm(self.first(x)).relu()).relu()
        y = self.last(self.second(h))
        return self.extra(y) if uses_extra else y


def batches(count: int) -> list[Any]:
    generator = torch.Generator().manual_seed(100 + rank)
    return [(torch.randn(6, 8, generator=generator),
             torch.randint(3, (6,), generator=generator)) for _ in range(count)]


def check_same(net: Any, name: str) -> None:
    for parameter in net.module.parameters():
        rows = [torch.zeros_like(parameter) for _ in range(size)]
        dist.all_gather(rows, parameter.detach())
        assert all(torch.equal(row, rows[0]) for row in rows), name


def train(name: str, steps: int = 8, uses_extra: Any = lambda step: True, accumulate: int = 1,
          hook: Any = None, **options: Any) -> None:
    torch.manual_seed(rank)  # DDP makes the ranks alike
    net = DDP(Net(), bucket_cap_mb=0.1, **options)
    if hook is not None:
        net.register_comm_hook(*hook())
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    results = losses[name] = []
    for step, (x, y) in enumerate(batches(steps)):
        if step % accumulate < accumulate - 1:
            with net.no_sync():
                nn.functional.cross_entropy(net(x), y).backward()
            continue
        loss = nn.functional.cross_entropy(net(x, uses_extra(step)), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        results.append(loss.item())
    check_same(net, name)


def train_compiled(name: str, makes_optimizer: Any, **options: Any) -> Any:
    """Losses of a step with several buckets and buffers; compiled, its programs."""
    torch.manual_seed(rank)
    net = DDP(Net(), bucket_cap_mb=0.1, **options)
    opt = makes_optimizer(net.parameters())

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    if name == "compiled":
        step = torch.compile(step, mode="now")
    results = [step(x, y).item() for x, y in batches(10)]
    check_same(net, name)
    return results, step


def compiled() -> None:
    """A compiled step trains as an eager one; its collectives are part of its one program."""
    for options in ({}, {"gradient_as_bucket_view": True}):
        for optimizer in (torch.optim.Adam, lambda p: torch.optim.SGD(p, 0.05, momentum=0.9)):
            eager, _ = train_compiled("eager", optimizer, **options)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                actual, step = train_compiled("compiled", optimizer, **options)
            apart = [abs(a - b) for a, b in zip(eager, actual, strict=True)]
            assert max(apart) < 1e-5, (eager, actual)
            assert step.ready
            if rank == 0:  # a measurement needs no other rank
                told = step.explain()
                starts = [line for line in told.splitlines() if "call_start_" in line]
                assert len(starts) > 2, told
                lines = told.splitlines()
                last_start = max(i for i, line in enumerate(lines) if "call_start_all" in line)
                first_wait = min(i for i, line in enumerate(lines) if "call_finish_all" in line)
                assert last_start < first_wait, told  # reductions overlap with backward


def compiled_forward_stays_eager() -> None:
    """Of a forward alone no program is made, since its backward would not reduce."""
    torch.manual_seed(0)
    net = DDP(nn.Linear(8, 3))
    forward = torch.compile(lambda x: net(x), mode="now")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for x, y in batches(4):
            net.zero_grad()
            nn.functional.cross_entropy(forward(x), y).backward()
    check_grads(net)
    assert any("DistributedDataParallel awaits a backward" in str(w.message) for w in seen)


def check_grads(net: Any) -> None:
    for parameter in net.module.parameters():
        rows = [torch.zeros_like(parameter) for _ in range(size)]
        dist.all_gather(rows, parameter.grad)
        assert all(torch.equal(row, rows[0]) for row in rows)


def compiled_module() -> None:
    """torch.compile of the whole module compiles the one inside, and gradients are averaged."""
    torch.manual_seed(rank)
    net = DDP(Net(), bucket_cap_mb=0.1)
    model = torch.compile(net, mode="now")
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, y in batches(8):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            results.append(loss.item())
    assert "kernels" in model.explain()
    check_same(net, "compiled module")
    assert all(abs(a - b) < 1e-5 for a, b in zip(losses["plain"], results, strict=False)), results


def hooked() -> Any:
    net = DDP(nn.Linear(8, 3))
    net.register_comm_hook(None, hooks.allreduce_hook)
    return net


def normalized() -> Any:
    return DDP(nn.Sequential(nn.Linear(8, 8), nn.SyncBatchNorm(8), nn.Linear(8, 3)))


OTHERWISE = {
    "hook": hooked,
    "unused parameters": lambda: DDP(nn.Linear(8, 3), find_unused_parameters=True),
    "static graph": lambda: DDP(nn.Linear(8, 3), static_graph=True),
    "SyncBatchNorm": normalized,
    "join": lambda: DDP(nn.Linear(8, 3)),
}


def other_communication_stays_eager(kind: str) -> None:
    """A step that communicates otherwise stays eager, and says so."""
    figures = {}
    for name in ("eager", "compiled"):
        torch.manual_seed(0)
        net = OTHERWISE[kind]()
        opt = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(x: Any, y: Any, net: Any = net, opt: Any = opt) -> Any:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            return loss.detach()

        if name == "compiled":
            step = torch.compile(step, mode="now")
        with net.join() if kind == "join" else contextlib.nullcontext():
            figures[name] = [step(x, y).item() for x, y in batches(6)]
        check_same(net, name)
    pairs = zip(*figures.values(), strict=True)
    assert all(abs(a - b) < 1e-5 for a, b in pairs), (kind, figures)
    assert "communicates with other processes" in step.explain(), (kind, step.explain())


def uneven() -> None:
    torch.manual_seed(0)
    net = DDP(nn.Linear(8, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    results = losses["uneven"] = []
    with net.join():
        for x, y in batches(4 + 3 * (size - 1 - rank)):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            results.append(loss.item())
    check_same(net, "uneven")


def refusals() -> None:
    torch.manual_seed(0)
    net = DDP(Net())
    x, y = batches(1)[0]
    nn.functional.cross_entropy(net(x, False), y).backward()
    said = ""
    try:
        net(x)
    except RuntimeError as error:
        said = str(error)
    assert "Expected to have finished reduction in the prior iteration" in said, said
    said = ""
    try:
        DDP(nn.Linear(2 + rank, 3))
    except RuntimeError as error:
        said = str(error)
    assert "params[0] in this process" in said or "do not match those of process 0" in said \
        or "appears not to match" in said, said


train("plain", steps=50)
train("view", gradient_as_bucket_view=True)
train("unused", uses_extra=lambda step: step % 3 != rank, find_unused_parameters=True)
train("accumulated", steps=12, accumulate=3)
train("static", static_graph=True)
train("allreduce hook", hook=lambda: (None, hooks.allreduce_hook))
train("fp16 hook", hook=lambda: (None, hooks.fp16_compress_hook))
uneven()
if library != "torch":  # which wants a GPU for these, or ends the process
    train("bf16 hook", hook=lambda: (None, hooks.bf16_compress_hook))
    state = power.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=3)
    train("powerSGD", hook=lambda: (state, power.powerSGD_hook))
    refusals()
    compiled()
    compiled_forward_stays_eager()
    compiled_module()
    for kind in OTHERWISE:
        other_communication_stays_eager(kind)
dist.barrier()
dist.destroy_process_group()
if rank == 0:
    print(json.dumps(losses), flush=True)
