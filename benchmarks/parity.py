"""Runs every example for a hundred steps under PyTorch and under flambeau, with the same seed, says
how far their losses are apart, and draws the curves into docs/parity.png.

    python benchmarks/parity.py [EXAMPLE ...] [--steps N] [--picture PNG] [--torch-python PYTHON]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import THREADS, python_with_torch

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ("mnist", "mlp", "char_gpt", "lstm", "autograd_tour")
EARLY = 20
BOUNDS = {"early": 1e-4, "all": 1e-2}  # relative, over the first 20 steps and over 100


def losses(command: list[str], example: str, steps: int) -> list[float]:
    """The losses of the example's first steps, run by `command` in a process of its own.

    Raises RuntimeError, with what the program wrote, where it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "losses.json"
        program = str(ROOT / "examples" / f"{example}.py")
        run = subprocess.run(
            [*command, program, "--steps", str(steps), "--losses", str(file)],
            env={**os.environ, **THREADS, "PYTHONPATH": str(ROOT)},
            check=False, capture_output=True, text=True,
        )
        if run.returncode:
            raise RuntimeError(f"{' '.join(run.args)} failed:\n{run.stderr[-2000:]}")
        return json.loads(file.read_text(encoding="utf-8"))


def curves(example: str, steps: int, torch_python: str) -> tuple[list[float], list[float]]:
    """The losses under PyTorch, and under flambeau."""
    theirs = losses([torch_python], example, steps)
    return theirs, losses([sys.executable, "-m", "flambeau"], example, steps)


def distances(theirs: list[float], ours: list[float]) -> list[float]:
    """Each step's relative difference."""
    return [abs(a - b) / abs(a) for a, b in zip(theirs, ours, strict=True)]


def draw(curves_of: dict[str, tuple[list[float], list[float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, grid = pyplot.subplots(
        2, len(curves_of), figsize=(3.2 * len(curves_of), 4.8), sharex=True, squeeze=False,
        height_ratios=(2, 1), layout="constrained",
    )
    for (example, (theirs, ours)), (above, below) in zip(curves_of.items(), grid.T, strict=True):
        steps = range(1, len(theirs) + 1)
        above.plot(steps, theirs, color="tab:orange", linewidth=4, alpha=0.6, label="PyTorch")
        above.plot(steps, ours, color="black", linewidth=1, label="flambeau")
        above.set(title=f"{example}.py", yscale="log")
        below.plot(steps, [max(d, 1e-9) for d in distances(theirs, ours)], color="tab:red")
        below.set(yscale="log", ylim=(1e-9, 1e-1), xlabel="step")
    grid[0, 0].legend(frameon=False)
    grid[0, 0].set_ylabel("training loss")
    grid[1, 0].set_ylabel("relative difference")
    figure.savefig(path, dpi=90)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help=", ".join(EXAMPLES))
    parser.add_argument("--steps", type=int, default=100, help="(%(default)s)")
    parser.add_argument("--picture", metavar="PNG", default=ROOT / "docs" / "parity.png", type=Path)
    parser.add_argument("--torch-python", metavar="PYTHON", help="the interpreter that has PyTorch")
    args = parser.parse_args()

    python = python_with_torch(args.torch_python)
    curves_of, near = {}, True
    print(f"largest relative difference over the first {EARLY} and {args.steps} steps")
    for example in args.examples or EXAMPLES:
        curves_of[example] = curves(example, args.steps, python)
        apart = distances(*curves_of[example])
        early, every = max(apart[:EARLY]), max(apart)
        within = early <= BOUNDS["early"] and every <= BOUNDS["all"]
        near = near and within
        mark = "" if within else "   OUT OF BOUNDS"
        print(f"{example:>14}  {early:.1e}  {every:.1e}{mark}", flush=True)
    draw(curves_of, args.picture)
    return 0 if near else 1


if __name__ == "__main__":
    sys.exit(main())
