"""Measures flambeau beside PyTorch: every round starts a fresh process of each with two threads,
which time each case in turn, a few hundredths of a second at a time. Shown are the medians over the
rounds, and flambeau's time over PyTorch's: below 1 is better.

    python benchmarks/eager.py [--only REGEX] [--rounds N] [--json FILE] [--readme]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from cases import GROUPS
from processes import THREADS, python_with_torch
from table import markdown, write_page
from turns import Process, all_in_turn

HERE = Path(__file__).resolve().parent
LIBRARIES = ("torch", "flambeau")
LIMIT = 300.0  # seconds of a turn after which a process counts as one that does not run
BUSY = 0.8  # a load above this before the first round spoils the figures


def measure(
    pythons: dict[str, str], order: tuple[str, ...], names: list[str]
) -> dict[str, dict[str, float | None]]:
    """Runs measure.py in a fresh process of each library, in turn: what each has found."""
    environment = {**os.environ, **THREADS}
    processes = {
        library: Process(
            [pythons[library], str(HERE / "measure.py"), library, *names], environment, LIMIT
        )
        for library in order
    }
    all_in_turn(list(processes.values()))
    results = {}
    for library, process in processes.items():
        print(process.errors, end="", file=sys.stderr)
        nothing: dict[str, float | None] = dict.fromkeys(names)
        results[library] = nothing if process.failed else json.loads(process.lines[-1])
    return results


def one_round(pythons: dict[str, str], chosen: dict[str, list[str]], order, samples) -> None:
    """Import alone; the small cases; each large one and each step by itself, since what others
    leave in the allocator decides whether a large result's pages are there already."""
    jobs = [[], *([chosen["small"]] if chosen["small"] else [])]
    jobs += [[name] for group in ("large", "steps") for name in chosen[group]]
    for names in jobs:
        for library, times in measure(pythons, order, names).items():
            keep = samples[library]
            for name in names:
                keep.setdefault(name, []).append(times[name])
            if not names:
                keep.setdefault("import", []).append(times.get("import"))
                keep.setdefault("import memory", []).append(times.get("peak"))
            elif names[0] in GROUPS["steps"]:
                peak = None if times[names[0]] is None else times["peak"]
                keep.setdefault(f"{names[0]} memory", []).append(peak)
        print(".", end="", file=sys.stderr, flush=True)


def medians(samples: dict[str, list[float | None]]) -> dict[str, float | None]:
    return {
        name: None if None in values else statistics.median(values)
        for name, values in samples.items()
    }


def processor() -> str:
    """The CPU's name, where the system tells it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return re.search(r"model name\s*:\s*(.+)", text).group(1)
    except (OSError, AttributeError):
        return platform.processor() or platform.machine()


def versions(pythons: dict[str, str]) -> dict[str, str]:
    show = "import torch; print(torch.__version__)"
    torch = subprocess.run(
        [pythons["torch"], "-c", show], capture_output=True, text=True, check=False, cwd="/"
    )
    return {
        "torch": torch.stdout.strip(), "python": platform.python_version(),
        "processor": processor(), "cores": str(os.cpu_count()),
        "date": datetime.now(UTC).date().isoformat(),
    }


def load_before(args: argparse.Namespace) -> float:
    """The machine's load; ends where that is too much for figures that are to be written down."""
    load = os.getloadavg()[0]
    if load > BUSY:
        print(f"the machine is busy (load {load:.1f}): ratios will be wrong", file=sys.stderr)
        if args.readme and not args.busy:
            sys.exit("figures for the documentation want a quiet machine; --busy takes them anyway")
    return load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="REGEX", default="", help="cases whose name matches")
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--readme", action="store_true",
                        help="put the figures into docs/speed.md and results.json")
    parser.add_argument("--torch-python", metavar="PYTHON", help="the interpreter that has PyTorch")
    parser.add_argument("--busy", action="store_true", help="allow --readme on a busy machine")
    args = parser.parse_args()
    load = load_before(args)

    pythons = {"torch": python_with_torch(args.torch_python), "flambeau": sys.executable}
    chosen = {
        group: [name for name in cases if re.search(args.only, name)]
        for group, cases in GROUPS.items()
    }
    samples: dict[str, dict[str, list[float | None]]] = {library: {} for library in LIBRARIES}
    for number in range(args.rounds):
        order = LIBRARIES if number % 2 == 0 else LIBRARIES[::-1]
        one_round(pythons, chosen, order, samples)
    print(file=sys.stderr)

    results = {
        "machine": versions(pythons), "load": load, "rounds": args.rounds,
        **{library: medians(samples[library]) for library in LIBRARIES},
    }
    print(markdown(results))
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if args.readme:
        write_page(results)


if __name__ == "__main__":
    main()
