"""How speed grows with threads: training steps and large operators on 1 to 16 of them.

    python benchmarks/threads.py [--threads 1 2 4 8 16] [--only REGEX] [--torch-python PYTHON]

A process for each library and number of threads; they take turns. Steps are compiled by flambeau
(mode="now"), PyTorch is eager.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from processes import python_with_torch
from turns import PAUSE, Process, wait_for_turn

HERE = Path(__file__).resolve().parent
ENGINES = ("torch", "flambeau")
ROUNDS, SPAN = 3, 0.05  # repeats, and seconds that one lasts at least
WARM_UP = 42  # calls: a convolution's own kernel is used from the fortieth on
WARM_UP_SECONDS = 0.4  # seconds of calls that warm up
LIMIT = 120.0  # seconds of a turn
LARGER = {"mlp": 1024, "cnn": 512, "resnet": 128, "char_gpt": 64, "lstm": 256}  # batches
Work = Callable[[], Any]


def library(engine: str, threads: int) -> Any:
    """What `import torch` gives to an engine."""
    sys.path[:0] = [str(HERE.parent / "examples")]
    if engine == "flambeau":
        sys.path.insert(0, str(HERE.parent))
        from flambeau.command import torch_alias

        torch_alias.install()
    import torch

    torch.set_num_threads(threads)
    return torch


def steps(torch: Any, engine: str) -> dict[str, Callable[[], Work]]:
    """The six models' training steps, and five of them with larger batches."""
    from compiled_measure import training
    from models import MODELS

    def prepare(name: str, batch: int) -> Work:
        torch.manual_seed(0)
        module, loss = MODELS[name].make(torch)
        step = training(torch, "compiled" if engine == "flambeau" else engine, module, loss)
        tensors = MODELS[name].data(torch, batch)
        return lambda: step(*tensors)

    sizes = [(name, model.batch) for name, model in MODELS.items()] + [*LARGER.items()]
    return {f"{name}, batch {size}": partial(prepare, name, size) for name, size in sizes}


def operators(torch: Any) -> dict[str, Callable[[], Work]]:
    """Large operators."""
    functional = torch.nn.functional

    def on(work: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], Work]:
        def prepare() -> Work:
            torch.manual_seed(0)
            tensors = [torch.randn(*shape) for shape in shapes]
            return lambda: work(*tensors)

        return prepare

    heads = (16, 8, 512, 64)
    cases = {f"matmul {n}": on(lambda a, b: a @ b, (n, n), (n, n)) for n in (256, 1024, 2048, 4096)}
    cases["conv 3x3, 64 to 64, 32x32, batch 32"] = on(
        lambda x, w: functional.conv2d(x, w, padding=1), (32, 64, 32, 32), (64, 64, 3, 3)
    )
    cases["attention, 16x8 heads of 512x64"] = on(
        functional.scaled_dot_product_attention, heads, heads, heads
    )
    cases["x + x, 64K"] = on(lambda x: x + x, (256, 256))
    cases["softmax, 128K"] = on(lambda x: x.softmax(-1), (512, 256))
    for name, shape in (("4M", (2048, 2048)), ("64M", (8192, 8192))):
        cases[f"x + x, {name}"] = on(lambda x: x + x, shape)
        cases[f"gelu, {name}"] = on(functional.gelu, shape)
        cases[f"sum, {name}"] = on(lambda x: x.sum(), shape)
        cases[f"softmax, {name}"] = on(lambda x: x.softmax(-1), shape)
        cases[f"layer_norm, {name}"] = on(
            lambda x: functional.layer_norm(x, x.shape[-1:]), shape
        )
    return cases


def seconds(work: Work, warm_up: int) -> float:
    """The median over some turns of what a call takes."""
    begin = time.perf_counter()
    calls = 0
    while calls < 2 or (calls < warm_up and time.perf_counter() < begin + WARM_UP_SECONDS):
        work()
        calls += 1
    begin = time.perf_counter()
    work()
    calls = max(1, round(SPAN / max(time.perf_counter() - begin, 1e-7)))
    repeats = []
    for _ in range(ROUNDS):
        wait_for_turn()
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        repeats.append((time.perf_counter() - begin) / calls)
    return statistics.median(repeats)


def measure(engine: str, threads: int, only: str) -> None:
    """One process: prints a line of JSON for each case."""
    wait_for_turn()
    torch = library(engine, threads)
    for name, prepare in {**steps(torch, engine), **operators(torch)}.items():
        if re.search(only, name):
            wait_for_turn()
            warm_up = WARM_UP if engine == "flambeau" else 4
            print(json.dumps([name, seconds(prepare(), warm_up)]), flush=True)


def main() -> None:
    """Prints a table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--torch-python", metavar="PYTHON")
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "THREADS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options.one[0], int(options.one[1]), options.only)
        return
    pythons = {"torch": python_with_torch(options.torch_python), "flambeau": sys.executable}
    print("| | " + " | ".join(map(str, options.threads)) + " |")
    print("|---|" + "---:|" * len(options.threads), flush=True)
    with tempfile.TemporaryDirectory(prefix="flambeau-bench-") as folder:
        started = {(engine, count): _process(pythons[engine], engine, count, options.only, folder)
                   for count in options.threads for engine in ENGINES}
        shown = 0
        while any(not process.ended for process in started.values()):
            for process in [process for process in started.values() if not process.ended]:
                process.turn()
                time.sleep(PAUSE)
            while all(len(process.lines) > shown for process in started.values()):
                lines = {key: json.loads(process.lines[shown]) for key, process in started.items()}
                print(row(lines, options.threads), flush=True)
                shown += 1
    for key, process in started.items():
        if process.failed:
            print(f"{key}: {process.errors[-2000:]}", file=sys.stderr)


def _process(python: str, engine: str, threads: int, only: str, folder: str) -> Process:
    command = [python, __file__, "--only", only, "--one", engine, str(threads)]
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "FLAMBEAU_THREADS")
    cache = {"FLAMBEAU_CACHE_DIR": os.environ.get("FLAMBEAU_CACHE_DIR", folder)}
    return Process(command, {**os.environ, **dict.fromkeys(names, str(threads)), **cache}, LIMIT)


def row(lines: dict[tuple[str, int], tuple[str, float]], counts: list[int]) -> str:
    """By number of threads: flambeau's time and how often faster than PyTorch it is."""
    cells = []
    for count in counts:
        ours, theirs = (lines[engine, count][1] for engine in ("flambeau", "torch"))
        cells.append(f"{_time(ours)}, {theirs / ours:.2f}")
    return f"| {lines['flambeau', counts[0]][0]} | " + " | ".join(cells) + " |"


def _time(seconds: float) -> str:
    unit, name = (1e3, "ms") if seconds >= 1e-3 else (1e6, "us")
    return f"{seconds * unit:.3g} {name}"


if __name__ == "__main__":
    main()
