"""What a training engine costs: flambeau.train beside ignite and Poutyne on PyTorch, each in fresh
processes with two threads; medians over the rounds.

    python benchmarks/train.py [--torch-python PYTHON] [--rounds N] [--epochs N] [--json FILE]

Needs PyTorch, pytorch-ignite and Poutyne (the extra `bench`) in the interpreter or in PYTHON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import THREADS, python_with_torch

HERE = Path(__file__).resolve().parent
ENGINES = ("flambeau", "torch", "ignite", "poutyne")

ROWS = {
    "import": ("s", 1.0, "the library and the engine"),
    "engine, none": ("us", 1e6, "an empty step without handlers, over a bare `for`"),
    "engine, 5 handlers": ("us", 1e6, "the same with five functions at each step's end"),
    "trainer, none": ("us", 1e6, "a small net's step, over the same loop written by hand"),
    "trainer, 5 handlers": ("us", 1e6, "the same with five functions at each step's end"),
    "compiled, none": ("us", 1e6, "a compiled step, over a loop by hand around the same"),
    "compiled, 5 handlers": ("us", 1e6, "the same with five functions at each step's end"),
    "mnist, empty cache": ("s", 1.0, "the next row with an empty cache of machine code"),
    "mnist, first epoch": ("s", 1.0, "the network of examples/mnist.py: 10,000 images, then the "
                           "2,000 of the test; compiling included"),
    "mnist, later epoch": ("s", 1.0, "each of those that follow"),
    "mnist, all epochs": ("s", 1.0, "all of them"),
    "mnist accuracy": ("", 1.0, "the share of right answers after the last"),
}


def measure(python: str, engine: str, *options: str, **variables: str) -> dict[str, float]:
    """Runs train_engines.py once in a fresh process."""
    surroundings = {**os.environ, **THREADS, **variables}
    surroundings.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    run = subprocess.run(
        [python, str(HERE / "train_engines.py"), engine, *options],
        env=surroundings, stdout=subprocess.PIPE, text=True, check=False,
    )
    if run.returncode:
        sys.exit(f"{engine} failed in {python}; the extra `bench` has what it needs")
    return json.loads(run.stdout.splitlines()[-1])


def train_with_empty_cache() -> float:
    """flambeau's first epoch where every kernel has to be made."""
    with tempfile.TemporaryDirectory() as folder:
        times = measure(sys.executable, "flambeau", "1", "--digits", FLAMBEAU_CACHE_DIR=folder)
    return times["mnist, first epoch"]


def table(results: dict[str, dict[str, float]]) -> str:
    """The medians as text; behind those of the others, how many times flambeau's they are."""
    lines = [f"{'':<22}" + "".join(f"{engine:>18}" for engine in ENGINES)]
    for row, (unit, factor, _) in ROWS.items():
        line, ours = f"{row:<22}", results["flambeau"].get(row)
        if ours is None:  # --epochs 0 trains nothing
            continue
        for engine in ENGINES:
            value = results[engine].get(row)
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
    parser.add_argument("--epochs", type=int, default=3, help="of MNIST training (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write the medians there")
    args = parser.parse_args()

    theirs = python_with_torch(args.torch_python)
    samples: dict[str, dict[str, list[float]]] = {engine: {} for engine in ENGINES}
    for i in range(args.rounds):
        for engine in ENGINES if i % 2 == 0 else reversed(ENGINES):
            python = sys.executable if engine == "flambeau" else theirs
            for row, value in measure(python, engine, str(args.epochs)).items():
                samples[engine].setdefault(row, []).append(value)
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    results = {
        engine: {row: statistics.median(values) for row, values in rows.items()}
        for engine, rows in samples.items()
    }
    if args.epochs:
        results["flambeau"]["mnist, empty cache"] = train_with_empty_cache()
    print(table(results))
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
