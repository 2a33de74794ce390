"""Checks scaling_model.py against training on several "hosts": network namespaces of this machine
whose links have little bandwidth.

    sudo python benchmarks/network_hosts.py [--hosts 2 4] [--megabit 100 400]

Linux only; needs root, `ip` and `tc`. Each host has a namespace with one network device, which
sends at most so many bits a second. Measured and modelled are a 4 MB all-reduce, and the compiled
step of a perceptron with 9 MB of gradients. The last column is the share of the shorter of
computation and communication that the longer one hides: 100 % where they overlap completely.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scaling_model import Network, overlapped_s

ROOT = Path(__file__).resolve().parent.parent
PREFIX = f"fb{os.getpid()}"
FRAME_SHARE = 1448 / 1514  # of a full Ethernet frame that is TCP's payload
REDUCED_BYTES = 4_000_000
WIDTHS = (784, *(512,) * 8, 10)
CALLS = 10


def shell(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def hosts_on_a_bridge(count: int, megabit: float) -> Iterator[list[str]]:
    """The names of namespaces at 10.77.0.1, .2 ..., each of which sends at most that fast."""
    bridge, names = f"{PREFIX}b", [f"{PREFIX}h{k}" for k in range(count)]
    shell("ip", "netns", "add", bridge)
    try:
        inside = ("ip", "netns", "exec", bridge)
        shell(*inside, "ip", "link", "add", "br0", "type", "bridge")
        shell(*inside, "ip", "link", "set", "br0", "up")
        for k, name in enumerate(names):
            shell("ip", "netns", "add", name)
            shell("ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", "name",
                  f"p{k}", "netns", bridge)
            shell(*inside, "ip", "link", "set", f"p{k}", "master", "br0", "up")
            host = ("ip", "netns", "exec", name)
            shell(*host, "ip", "address", "add", f"10.77.0.{k + 1}/24", "dev", "eth0")
            shell(*host, "ip", "link", "set", "lo", "up")
            # Else the device hands over packets of 64 KB, which no limit cuts.
            shell(*host, "ip", "link", "set", "eth0", "gso_max_size", "4096", "up")
            shell(*host, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate",
                  f"{megabit}mbit", "burst", "64kb", "latency", "200ms")
        yield names
    finally:
        for name in (*names, bridge):
            subprocess.run(["ip", "netns", "delete", name], check=False,
                           stderr=subprocess.DEVNULL)


def seconds_of(call: Callable[[], Any], before: Callable[[], Any]) -> float:
    """The best of some calls, which all ranks begin together: other programs only add time."""
    seconds = []
    for _ in range(CALLS):
        before()
        begin_s = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin_s)
    return min(seconds)


def compiled_step(torch: Any, net: Any) -> Callable[[], Any]:
    """A training step on a batch of its own, with its program."""
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    x, y = torch.randn(256, WIDTHS[0]), torch.randint(WIDTHS[-1], (256,))

    @torch.compile(mode="now")
    def step() -> Any:
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    for _ in range(6):
        step()
    return step


def measure() -> None:
    """One host's part; rank 0 prints what it measured."""
    sys.path.insert(0, str(ROOT))
    import flambeau as torch
    from flambeau import nn

    dist = torch.distributed
    torch.set_num_threads(1)
    size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    torch.manual_seed(0)

    def perceptron() -> Any:
        layers = [layer for inputs, outputs in itertools.pairwise(WIDTHS)
                  for layer in (nn.Linear(inputs, outputs), nn.ReLU())]
        return nn.Sequential(*layers[:-1])

    net = nn.parallel.DistributedDataParallel(perceptron(), bucket_cap_mb=1)
    buckets = [bucket.buffer.clone() for bucket in net.reducer.buckets]
    both, alone = compiled_step(torch, net), compiled_step(torch, perceptron())
    small, large = torch.ones(size), torch.ones(REDUCED_BYTES // 4)
    dist.all_reduce(large)
    measured = {
        "compute": seconds_of(alone, dist.barrier),
        "communication": seconds_of(lambda: [dist.all_reduce(b) for b in buckets], dist.barrier),
        "step": seconds_of(both, dist.barrier),
        "latency": seconds_of(lambda: dist.all_reduce(small), dist.barrier) / (2 * (size - 1)),
        "all_reduce": seconds_of(lambda: dist.all_reduce(large), dist.barrier),
        "buckets": [bucket.nbytes for bucket in buckets],
    }
    if int(os.environ["RANK"]) == 0:
        print(json.dumps(measured), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def run(names: list[str]) -> dict[str, Any]:
    """What rank 0 measured, with a rank on each host."""
    settings = {
        **os.environ, "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500",
        "WORLD_SIZE": str(len(names)), "OMP_NUM_THREADS": "1", "FLAMBEAU_NUM_THREADS": "1",
    }
    processes = [
        subprocess.Popen(["ip", "netns", "exec", name, sys.executable, __file__, "--measure"],
                         env={**settings, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank, name in enumerate(names)
    ]
    printed = [process.communicate(timeout=300)[0] for process in processes]
    return json.loads(printed[0].splitlines()[-1])


def main() -> None:
    """Measures, and prints it beside the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--megabit", type=float, nargs="+", default=[100, 400])
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    if options.measure:
        measure()
        return
    print("hosts  Mbit/s   4 MB all-reduced, model   computing   communicating   both, model (ms)"
          "   hidden")
    for count in options.hosts:
        for megabit in options.megabit:
            with hosts_on_a_bridge(count, megabit) as names:
                measured = run(names)
            network = Network(measured["latency"], megabit * 1e6 / 8 * FRAME_SHARE)
            reduced_s = network.all_reduce_s(REDUCED_BYTES, count)
            step_s = overlapped_s(measured["compute"], measured["buckets"], count, network)
            parts = measured["compute"], measured["communication"]
            hidden = (sum(parts) - measured["step"]) / min(parts)
            times = (measured["all_reduce"], reduced_s, *parts, measured["step"], step_s)
            a, b, c, d, e, f = (f"{seconds * 1e3:.0f}" for seconds in times)
            print(f"{count:5} {megabit:7g} {a:>16} {b:>8} {c:>11} {d:>15} {e:>7} {f:>9}"
                  f" {hidden:12.0%}", flush=True)


if __name__ == "__main__":
    main()
