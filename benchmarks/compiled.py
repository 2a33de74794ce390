"""Measures compiled steps: PyTorch, torch.compile, JAX, flambeau eager and compiled, in turn, in
fresh processes on two processors. Shown are medians over the rounds and ratios; above 1 is better.

All engines of a job are there at once, and each in turn times its calls for a quarter of a second:
on a machine that others use too, where all takes twice as long for seconds at a time, one engine
after the other gave a char GPT's step as 1.33 of PyTorch's speed in a run and 1.8 in the next. An
engine that waits for its turn uses no processor.

    python benchmarks/compiled.py [--only PART ...] [--models REGEX] [--rounds N] [--readme]

The first round has cold caches of machine code, later ones have those that it left. torch.compile
wants a C++ compiler, JAX the extra `bench`; without them their columns are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compiled_table import markdown, merged, write
from eager import load_before, versions
from models import MODELS
from processes import THREADS, python_with, python_with_torch
from turns import Process, all_in_turn

HERE = Path(__file__).resolve().parent
ENGINES = ("torch", "inductor", "jax", "eager", "compiled")
PARTS = ("steps", "inference", "matmul", "first", "memory", "growth")
SIZES = (512, 1024, 2048)
GROWTH = ((2, 128), (4, 128), (8, 128), (16, 128), (4, 64), (4, 256), (4, 512))
LIMIT = 900.0  # seconds of a turn after which a process counts as one that does not run


def jobs(parts: set[str], models: str, rounds: int) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """(job, engines, rounds), everything that was asked for."""
    names = [name for name in MODELS if re.search(models, name)]
    if parts & {"steps", "first", "memory"}:
        yield from ((f"step:{name}", ENGINES, rounds) for name in names)
    if "inference" in parts:
        yield from ((f"inference:{name}:1,32", ("torch", "compiled"), rounds) for name in names)
    if "matmul" in parts:
        yield from ((f"matmul:{size}", ("torch", "eager", "compiled"), rounds) for size in SIZES)
    if "growth" in parts:
        yield from ((f"growth:{layers}:{width}", ("torch", "compiled"), 1)
                    for layers, width in GROWTH if re.search(models, f"{layers}x{width}"))


def caches(folder: Path) -> dict[str, str]:
    """Where an engine keeps what it compiled for one job."""
    return {
        "FLAMBEAU_CACHE_DIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder),
        "JAX_COMPILATION_CACHE_DIR": str(folder), "JAX_PLATFORMS": "cpu",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def measured(
    job: str, pythons: dict[str, str], folder: Path, quick: bool
) -> dict[str, dict | None]:
    """Runs compiled_measure.py once in a fresh process for each engine, all of them in turn; None
    for those that fail."""
    processes: dict[str, Process] = {}
    for engine, python in pythons.items():
        command = [python, str(HERE / "compiled_measure.py"), engine, job, "--turns"]
        place = folder / f"{engine}-{job.replace(':', '-')}"
        env = {**os.environ, **THREADS, **caches(place)}
        processes[engine] = Process(command + ["--quick"] * quick, env, LIMIT)
    all_in_turn(list(processes.values()))
    results: dict[str, dict | None] = {}
    for engine, process in processes.items():
        if process.failed:
            print(f"\n{engine} {job}:\n{process.errors[-2000:]}", file=sys.stderr)
        results[engine] = None if process.failed else json.loads(process.lines[-1])
        print(".", end="", file=sys.stderr, flush=True)
    return results


def engines(args: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """The interpreter of each engine that is here, and why others are not."""
    torch = python_with_torch(args.torch_python)
    pythons, missing = {"torch": torch, "eager": sys.executable, "compiled": sys.executable}, []
    if any(map(shutil.which, ("g++", "clang++", "c++"))):
        pythons["inductor"] = torch
    else:
        missing.append("torch.compile: there is no C++ compiler here, which it needs")
    jax = python_with("flax", args.jax_python or args.torch_python) or python_with("flax")
    if jax is None:
        missing.append("JAX: jax, flax and optax are not installed (the extra `bench`)")
    else:
        pythons["jax"] = jax
    return {name: pythons[name] for name in ENGINES if name in pythons}, missing


def collect(args: argparse.Namespace, pythons: dict[str, str]) -> dict[str, dict[str, list]]:
    """By job and engine the rounds' findings."""
    parts = set(args.only or PARTS)
    quick = args.quick or not parts & {"steps", "inference", "matmul", "growth"}
    todo = list(jobs(parts, args.models, args.rounds))
    samples: dict[str, dict[str, list]] = {}
    with tempfile.TemporaryDirectory(prefix="flambeau-bench-") as folder:
        for number in range(args.rounds):
            for job, wanted, rounds in todo:
                order = [engine for engine in wanted if engine in pythons and number < rounds]
                in_turn = order if number % 2 == 0 else order[::-1]
                some = {engine: pythons[engine] for engine in in_turn}
                for engine, result in measured(job, some, Path(folder), quick).items():
                    samples.setdefault(job, {}).setdefault(engine, []).append(result)
    print(file=sys.stderr)
    return samples


def summary(rounds: list[dict | None]) -> dict[str, Any]:
    """Medians of the rounds; what the first, with cold caches, took apart from the others."""
    done = [sample for sample in rounds if sample is not None]
    if len(done) != len(rounds):
        return {}
    result = dict(done[-1])
    for key, value in result.items():
        if isinstance(value, int | float):
            result[key] = statistics.median(sample[key] for sample in done)
    for key in ("first", "compiling", "memory", "own memory"):
        warm = [sample[key] for sample in done[1:] if sample.get(key) is not None]
        result[f"cold {key}"] = done[0].get(key)
        result[f"warm {key}"] = statistics.median(warm) if warm else None
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART",
                        help=f"of {', '.join(PARTS)}; all if not given")
    parser.add_argument("--models", metavar="REGEX", default="",
                        help="models whose name matches; of growth LAYERSxWIDTH, 8x128 for one")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--quick", action="store_true", help="three calls each: does it run?")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--readme", action="store_true",
                        help="put the figures into README.md, docs/speed.md and compiled.json")
    parser.add_argument("--torch-python", metavar="PYTHON", help="the interpreter that has PyTorch")
    parser.add_argument("--jax-python", metavar="PYTHON", help="the interpreter that has JAX")
    parser.add_argument("--busy", action="store_true", help="allow --readme on a busy machine")
    args = parser.parse_args()
    load = load_before(args)

    pythons, missing = engines(args)
    samples = collect(args, pythons)
    results = {
        "machine": versions(pythons), "load": load, "rounds": args.rounds, "missing": missing,
        "parts": [part for part in PARTS if part in (args.only or PARTS)],
        "jobs": {job: {engine: summary(rounds) for engine, rounds in by_engine.items()}
                 for job, by_engine in samples.items()},
    }
    print(markdown(results))
    if args.json:
        Path(args.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if args.readme:
        write(merged(results))


if __name__ == "__main__":
    main()
