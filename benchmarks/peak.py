"""The machine's limit in fused multiply-adds, by which benchmarks divide.

    python benchmarks/peak.py [--dtype float64]
"""

from __future__ import annotations

import argparse

from flambeau.native.runtime.roofline import measure_flops_per_s
from flambeau.native.loop_ir.ir import Type


def peak(threads: int = 1, type: Type = Type.F32, seconds: float = 0.3) -> float:
    """GFLOP/s that `threads` threads reach together with operands in registers."""
    return measure_flops_per_s(threads, type, seconds) / 1e9


def main() -> None:
    """Prints the peak on one core and on two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    type = Type(parser.parse_args().dtype)
    for threads in (1, 2):
        print(f"{threads} thread{'s' * (threads > 1)}: {peak(threads, type):.0f} GFLOP/s")


if __name__ == "__main__":
    main()
