"""How long a data parallel step takes on 1 to 1024 hosts, by a model of four numbers.

    python benchmarks/scaling_model.py [--compute-ms 100] [--gradient-mb 100] [--bucket-mb 25]
                                       [--latency-us 50] [--gigabit 10]

Every host works on its own batch (the batch grows with the hosts), then all add up their gradients.
docs/scaling.md says where the numbers come from, and how far the model is to be trusted;
network_hosts.py checks it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

FIRST_BUCKET_BYTES = 1 << 20  # as in DistributedDataParallel, whose first bucket starts early
RING_MIN_BYTES = 1 << 20  # as in the Gloo engine
BACKWARD_SHARE = 2 / 3  # of a step's computation: backward has two products where forward has one


@dataclass(frozen=True)
class Network:
    """What connects the hosts: seconds that a message takes, bytes a second that a host sends."""

    latency_s: float
    bytes_per_s: float

    def all_reduce_s(self, size_bytes: float, hosts: int) -> float:
        """Seconds of an all-reduce: each host sends 2 (n - 1) / n of the data.

        A ring does it in 2 (n - 1) messages, one after another; below a megabyte exchanges between
        hosts at distances 1, 2, 4 ... need 2 log2 n.
        """
        steps = hosts - 1 if size_bytes >= RING_MIN_BYTES else math.ceil(math.log2(hosts))
        sent_bytes = 2 * (hosts - 1) / hosts * size_bytes
        return 2 * steps * self.latency_s + sent_bytes / self.bytes_per_s


@dataclass(frozen=True)
class Step:
    """A training step of one host: seconds of computation, bytes of gradients and of a bucket."""

    compute_s: float
    gradient_bytes: float
    bucket_bytes: float = 25 << 20

    def buckets(self) -> list[float]:
        """The sizes of the buckets, in the order in which backward fills them."""
        sizes, remaining_bytes = [], self.gradient_bytes
        while remaining_bytes > 0:
            cap = self.bucket_bytes if sizes else min(FIRST_BUCKET_BYTES, self.bucket_bytes)
            sizes.append(min(cap, remaining_bytes))
            remaining_bytes -= sizes[-1]
        return sizes

    def seconds(self, hosts: int, network: Network) -> float:
        """The step's time: a bucket travels once it is full and the one before has arrived.

        Gradients come evenly over backward.
        """
        if hosts == 1:
            return self.compute_s
        return overlapped_s(self.compute_s, self.buckets(), hosts, network)


def overlapped_s(
    compute_s: float, buckets: Sequence[float], hosts: int, network: Network
) -> float:
    """Seconds until the last of some buckets, filled one after another by backward, is reduced."""
    total, filled, done_s = sum(buckets), 0.0, 0.0
    forward_s = compute_s * (1 - BACKWARD_SHARE)
    for size in buckets:
        filled += size
        ready_s = forward_s + compute_s * BACKWARD_SHARE * filled / total
        done_s = max(done_s, ready_s) + network.all_reduce_s(size, hosts)
    return max(done_s, compute_s)


def main() -> None:
    """Prints step time and efficiency by number of hosts, for some sizes of buckets."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--compute-ms", type=float, default=100)
    parser.add_argument("--gradient-mb", type=float, default=100)
    parser.add_argument("--bucket-mb", type=float, nargs="+", default=[1, 25, 100])
    parser.add_argument("--latency-us", type=float, default=50)
    parser.add_argument("--gigabit", type=float, default=10)
    options = parser.parse_args()
    network = Network(options.latency_us * 1e-6, options.gigabit * 1e9 / 8)
    step = Step(options.compute_ms * 1e-3, options.gradient_mb * 1e6)
    print("hosts" + "".join(f"{f'{mb:g} MB buckets':>22}" for mb in options.bucket_mb))
    for hosts in (1 << k for k in range(11)):
        cells = []
        for mb in options.bucket_mb:
            seconds = replace(step, bucket_bytes=mb * 1e6).seconds(hosts, network)
            cells.append(f"{seconds * 1e3:12.1f} ms {step.compute_s / seconds:6.0%}")
        print(f"{hosts:5}" + "".join(cells))


if __name__ == "__main__":
    main()
