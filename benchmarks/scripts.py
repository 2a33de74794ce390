"""Whole programs from start to finish, imports included, on PyTorch and on flambeau.

    python benchmarks/scripts.py [--rounds N] [--only REGEX] [--readme | --draw]

Each program is an unchanged PyTorch program in benchmarks/scripts/. The engines take turns in fresh
processes; the table has medians, and the last line of each program's output, which must agree.
"cold" is flambeau's first run ever, with nothing in its cache; "flambeau" the runs after it. With
--readme what was measured also goes into scripts.json, from which --draw draws docs/scripts.png.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from eager import versions
from processes import THREADS, python_with_torch
from table import ROOT, duration, put

SCRIPTS = {
    "cnn": "CNN with DataLoader, 250 steps",
    "char_rnn": "character LSTM, 150 steps, sampling",
    "vae": "variational autoencoder, 158 steps",
    "gan": "GAN, two optimizers, 100 steps",
    "transformer": "transformer with `torch.compile`, 120 steps",
    "with_ignite": "ignite, 314 steps",
    "with_poutyne": "Poutyne, 314 steps",
    "with_lightning": "Lightning, 314 steps",
}
MEASURED, FIGURE = ROOT / "benchmarks" / "scripts.json", ROOT / "docs" / "scripts.png"
BEGIN = "<!-- scripts: begin (written by benchmarks/scripts.py --readme) -->"
END = "<!-- scripts: end -->"


def run(command: list[str], script: str, cache: str) -> tuple[float, str]:
    """Seconds from start to exit, and the last line printed; RuntimeError where it fails."""
    path = ROOT / "benchmarks" / "scripts" / f"{script}.py"
    environment = {**os.environ, **THREADS, "FLAMBEAU_CACHE_DIR": cache,
                   "PYTHONPATH": str(ROOT), "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.perf_counter()
    process = subprocess.run([*command, str(path)], env=environment, capture_output=True, text=True,
                             check=False, cwd=tempfile.gettempdir())
    seconds = time.perf_counter() - begin
    if process.returncode:
        raise RuntimeError(f"{command} {script}: {process.stderr[-2000:]}")
    return seconds, process.stdout.strip().splitlines()[-1]


def measure(script: str, python: str, rounds: int) -> dict[str, object]:
    """Median seconds of each engine, and what each printed."""
    flambeau = [python, "-m", "flambeau"]
    times: dict[str, list[float]] = {"torch": [], "flambeau": []}
    with tempfile.TemporaryDirectory() as cache:
        cold, _ = run(flambeau, script, cache)
        for _ in range(rounds):
            for engine, command in (("torch", [python]), ("flambeau", flambeau)):
                seconds, printed = run(command, script, cache)
                times[engine].append(seconds)
                if engine == "torch":
                    expected = printed
    return {**{engine: statistics.median(t) for engine, t in times.items()}, "cold": cold,
            "printed": {"torch": expected, "flambeau": printed}}


def table(results: dict[str, dict]) -> str:
    lines = ["| Whole program | PyTorch | flambeau | times faster | first run ever |",
             "|---|---:|---:|---:|---:|"]
    for script, row in results.items():
        lines.append(
            f"| {SCRIPTS[script]} | {duration(row['torch'])} | {duration(row['flambeau'])} "
            f"| {row['torch'] / row['flambeau']:.1f} | {duration(row['cold'])} |"
        )
    return "\n".join(lines)


def draw() -> None:
    """What was measured as bars: seconds from start to exit, and how many times faster."""
    from matplotlib import pyplot

    results = json.loads(MEASURED.read_text(encoding="utf-8"))
    names = [SCRIPTS[script] for script in results]
    torch = [row["torch"] for row in results.values()]
    flambeau = [row["flambeau"] for row in results.values()]
    figure, axes = pyplot.subplots(figsize=(9, 4.4), layout="constrained")
    places = range(len(names))
    axes.barh([p - 0.19 for p in places], torch, 0.38, color="#c9ced3", label="PyTorch")
    axes.barh([p + 0.19 for p in places], flambeau, 0.38, color="#d6604d", label="flambeau")
    for place, theirs, ours in zip(places, torch, flambeau, strict=True):
        axes.annotate(f"{theirs / ours:.1f} times faster", (ours, place + 0.19), (6, 0),
                      textcoords="offset points", va="center", fontsize=9)
    axes.set_yticks(places, [name.replace("`", "") for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("seconds from start to exit, imports included")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--readme", action="store_true")
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--torch-python")
    options = parser.parse_args()
    if options.draw:
        draw()
        return
    python = python_with_torch(options.torch_python)
    results = {}
    for script in SCRIPTS:
        if re.search(options.only, script):
            try:
                results[script] = measure(script, python, options.rounds)
            except RuntimeError as error:  # a library that is not installed
                print(error, file=sys.stderr)
                continue
            print(script, json.dumps(results[script]), flush=True)
    about = versions({"torch": python})
    text = (f"{table(results)}\n\nPyTorch {about['torch']}, Python {about['python']}, "
            f"{about['processor']}, 2 threads, {about['date']}; from start to exit, imports "
            f"included; medians of {options.rounds} runs in turn, each a process of its own.")
    print(text)
    if options.readme:
        for page in ("README.md", "README.zh-CN.md"):
            put(ROOT / page, BEGIN, END, text)
        MEASURED.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        draw()


if __name__ == "__main__":
    main()
