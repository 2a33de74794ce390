"""The five examples as they are: a step's time and the losses, on PyTorch, on flambeau, and there
with --compile, whose program an earlier run kept. The three take turns, a few steps at a time.

    python benchmarks/examples.py [--only REGEX] [--readme]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import statistics
import sys
import tempfile
import time

from eager import versions
from processes import THREADS, python_with_torch
from table import ROOT, duration, put
from turns import Process, all_in_turn, wait_for_turn

EXAMPLES = {
    "mlp": "MLP 784-256-128-10", "mnist": "CNN, 28x28", "lstm": "LSTM 128",
    "char_gpt": "char GPT, 4 layers, 128 wide", "autograd_tour": "derivatives of a network",
}
STEPS = 200  # of mlp.py's 250 or so after which rounding at ReLU's kinks takes any two builds apart
OPTIONS = {"char_gpt": ("--write", "0"), "lstm": ("--write", "0")}
ENGINES = ("torch", "eager", "compiled")
TURN = 0.25  # seconds
BEGIN = "<!-- examples: begin (written by benchmarks/examples.py --readme) -->"
END = "<!-- examples: end -->"


class StopTraining(Exception):
    """The example has made its steps."""


def run(engine: str, name: str, steps: int, turns: bool, rest: float = 0.0) -> None:
    """In a process of its own: an example's losses, and the seconds of each step, as JSON.

    `rest`: seconds after each step, in which its program is made.
    """
    if engine != "torch":
        from flambeau.command import torch_alias

        torch_alias.install()
    sys.path.insert(0, str(ROOT / "examples"))
    import progress

    losses: list[float] = []
    seconds: list[float] = []
    begun = {"step": 0.0, "turn": 0.0}

    def record(self: progress.Progress, loss: float) -> None:
        now = time.perf_counter()
        losses.append(loss)
        seconds.append(now - begun["step"])
        if len(losses) == steps:
            raise StopTraining
        time.sleep(rest)
        if turns and now - begun["turn"] > TURN:
            wait_for_turn()
            begun["turn"] = time.perf_counter()
        begun["step"] = time.perf_counter()

    progress.Progress.record = record
    path = ROOT / "examples" / f"{name}.py"
    sys.argv = [str(path), *OPTIONS.get(name, ()), *["--compile"] * (engine == "compiled")]
    if turns:
        wait_for_turn()
    try:
        runpy.run_path(str(path), run_name="__main__")
    except StopTraining:
        print()
        print(json.dumps({"losses": losses, "seconds": statistics.median(seconds[steps // 4 :])}))


def measured(name: str, python: str, folder: str) -> dict[str, dict]:
    """By engine what `run` found, all in turn; the program is made beforehand."""
    env = {**os.environ, **THREADS, "FLAMBEAU_CACHE_DIR": folder}

    def process(engine: str, *more: str) -> Process:
        command = [python if engine == "torch" else sys.executable, __file__, "--run", engine, name]
        return Process([*command, *more], env, 900.0)

    process("compiled", "--alone")
    processes = {engine: process(engine) for engine in ENGINES}
    all_in_turn(list(processes.values()))
    for engine, child in processes.items():
        if child.failed:
            sys.exit(f"{engine} {name}:\n{child.errors[-2000:]}")
    return {engine: json.loads(child.lines[-1]) for engine, child in processes.items()}


def apart(actual: dict, wanted: dict, steps: int) -> str:
    """The greatest relative distance between two runs' losses over the first steps."""
    pairs = zip(actual["losses"][:steps], wanted["losses"][:steps], strict=True)
    return f"{max(abs(a - b) / abs(b) for a, b in pairs):.0e}"


def markdown(results: dict[str, dict[str, dict]], machine: dict) -> str:
    """The table: times, ratios, and how far losses are apart."""
    lines = ["| Example, with its data and `item()` | PyTorch | flambeau | with `--compile` "
             "| over PyTorch | over flambeau | losses apart, 10 steps | 50 steps | 200 steps |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for name, by_engine in results.items():
        torch, eager, compiled = (by_engine[engine] for engine in ENGINES)
        times = [time["seconds"] for time in (torch, eager, compiled)]
        cells = [f"`{name}.py`: {EXAMPLES[name]}", *map(duration, times),
                 *(f"{time / times[2]:.2f}" for time in times[:2]),
                 *(apart(compiled, torch, n) for n in (10, 50, STEPS))]
        lines.append(f"| {' | '.join(cells)} |")
    note = (f"PyTorch {machine['torch']}, Python {machine['python']}, {machine['processor']}, "
            f"2 threads, {machine['date']}; medians over the steps after the first quarter, in "
            "turn. Losses of the compiled run beside PyTorch's: the greatest gap.")
    return "\n".join([*lines, "", note])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="REGEX", default="", help="examples whose name matches")
    parser.add_argument("--readme", action="store_true", help="put the table into docs/speed.md")
    parser.add_argument("--torch-python", metavar="PYTHON", help="the interpreter that has PyTorch")
    parser.add_argument("--run", nargs=2, metavar=("ENGINE", "EXAMPLE"), help=argparse.SUPPRESS)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        if args.alone:
            run(*args.run, steps=12, turns=False, rest=0.4)
        else:
            run(*args.run, steps=STEPS, turns=True)
        return
    python = python_with_torch(args.torch_python)
    with tempfile.TemporaryDirectory(prefix="flambeau-bench-") as folder:
        results = {name: measured(name, python, folder) for name in EXAMPLES
                   if re.search(args.only, name)}
    text = markdown(results, versions({"torch": python}))
    print(text)
    if args.readme:
        put(ROOT / "docs" / "speed.md", BEGIN, END, text)


if __name__ == "__main__":
    main()
