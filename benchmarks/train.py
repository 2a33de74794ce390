"""What a training engine costs: flambeau.train beside ignite and Poutyne on PyTorch, each in fresh
processes with two threads; medians over the rounds.

    python benchmarks/train.py [--torch-python PYTHON] [--rounds N] [--steps N] [--json FILE]

Needs PyTorch, pytorch-ignite and Poutyne (the extra `bench`) in the interpreter or in PYTHON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from processes import THREADS, python_with_torch

HERE = Path(__file__).resolve().parent
ENGINES = ("flambeau", "torch", "ignite", "poutyne")

ROWS = {
    "engine, no handler": ("us", 1e6, "an empty step, over a bare `for`"),
    "engine, 5 handlers": ("us", 1e6, "the same with five functions at each step's end"),
    "trainer, no handler": ("us", 1e6, "a small net's step, over a loop written by hand"),
    "trainer, 5 handlers": ("us", 1e6, "the same with five functions at each step's end"),
    "mnist": ("s", 1.0, "the network of examples/mnist.py, training and test"),
    "mnist accuracy": ("", 1.0, "its share of right answers"),
}


def measure(python: str, engine: str, steps: int) -> dict[str, float]:
    """Runs train_engines.py once in a fresh process."""
    run = subprocess.run(
        [python, str(HERE / "train_engines.py"), engine, str(steps)],
        env={**os.environ, **THREADS}, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if run.returncode:
        sys.exit(f"{engine} failed in {python}; the extra `bench` has what it needs")
    return json.loads(run.stdout.splitlines()[-1])


def table(found: dict[str, dict[str, float]]) -> str:
    """The medians as text; behind those of the others, how many times flambeau's they are. Below
    zero: faster than the loop by hand, which is not compiled."""
    lines = [f"{'':<22}" + "".join(f"{engine:>18}" for engine in ENGINES)]
    for row, (unit, factor, _) in ROWS.items():
        line, ours = f"{row:<22}", found["flambeau"][row]
        for engine in ENGINES:
            value = found[engine].get(row)
            if value is None:
                line += f"{'-':>18}"
                continue
            ratio = f" ({value / ours:.1f}x)" if engine != "flambeau" and unit and ours > 0 else ""
            line += f"{f'{value * factor:.3g} {unit}{ratio}':>18}"
        lines.append(line)
    return "\n".join([*lines, "", *(f"{row}: {what}" for row, (_, _, what) in ROWS.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--torch-python", help="an interpreter with torch, ignite and poutyne")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--steps", type=int, default=157, help="of MNIST training (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write the medians there")
    args = parser.parse_args()

    theirs = python_with_torch(args.torch_python)
    samples: dict[str, dict[str, list[float]]] = {engine: {} for engine in ENGINES}
    for i in range(args.rounds):
        for engine in ENGINES if i % 2 == 0 else reversed(ENGINES):
            python = sys.executable if engine == "flambeau" else theirs
            for row, value in measure(python, engine, args.steps).items():
                samples[engine].setdefault(row, []).append(value)
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    found = {
        engine: {row: statistics.median(values) for row, values in rows.items()}
        for engine, rows in samples.items()
    }
    print(table(found))
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
