"""What a followed call costs above a skipped one, of the six training steps of the compiler's
benchmark: proved (Python is skipped) and followed (Python runs), in turn, in fresh processes.

    python benchmarks/followed.py [--models REGEX] [--rounds N] [--checkout FOLDER ...]

A step is followed where it advances an iterator from outside, which nothing can prove harmless.
With several checkouts each is measured, in the same turns: the code before a change and after it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from models import MODELS
from processes import THREADS
from turns import Process, all_in_turn, wait_for_turn

HERE = Path(__file__).resolve().parent
LIMIT = 300.0  # seconds of a turn after which a process counts as one that does not run
WAYS = ("skipped", "followed")


def measure(way: str, name: str) -> float:
    """Seconds of a step, in this process."""
    from compiled_measure import library
    from measure import time_of

    torch = library("compiled")
    model = MODELS[name]
    module, loss_of = model.make(torch)
    batch = model.data(torch, model.batch)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    module.train()

    def take_step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        value = loss_of(module, x, y)
        value.backward()
        optimizer.step()
        return value

    calls = iter(int, 1)

    def take_followed_step(x: Any, y: Any) -> Any:
        next(calls)
        return take_step(x, y)

    function = take_followed_step if way == "followed" else take_step
    step = torch.compile(function, options={"mode": "now", "follow": True})
    result: float = time_of(lambda: step(*batch), "steps", wait_for_turn)
    if ("is followed" in step.explain()) != (way == "followed"):
        sys.exit(f"{name} is not {way}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", metavar="REGEX", default="", help="models whose name matches")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--checkout", nargs="+", metavar="FOLDER", default=[str(HERE.parent)],
                        help="whose benchmarks/followed.py is run (this one)")
    parser.add_argument("--job", nargs=2, metavar=("WAY", "MODEL"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        seconds = measure(*args.job)
        print(json.dumps(seconds))
        return
    print("step, ms a call".ljust(28), "skipped", "followed", "above", sep="\t")
    for name, checkout in itertools.product(MODELS, args.checkout):
        if re.search(args.models, name):
            times = [time_both(name, checkout) for _ in range(args.rounds)]
            skipped, followed = (1e3 * statistics.median(row[k] for row in times) for k in (0, 1))
            label = name if len(args.checkout) == 1 else f"{name} {Path(checkout).name}"
            print(label.ljust(28), f"{skipped:.3f}", f"{followed:.3f}",
                  f"{followed - skipped:.3f}", sep="\t", flush=True)


def time_both(name: str, checkout: str) -> list[float]:
    """Seconds of a skipped and a followed call, measured in turn."""
    with tempfile.TemporaryDirectory(prefix="flambeau-bench-") as folder:
        script = str(Path(checkout) / "benchmarks" / "followed.py")
        env = {**os.environ, **THREADS, "FLAMBEAU_CACHE_DIR": folder, "PYTHONPATH": checkout}
        processes = [Process([sys.executable, script, "--job", way, name], env, LIMIT)
                     for way in WAYS]
        all_in_turn(processes)
    for process in processes:
        if process.failed:
            sys.exit(process.errors[-2000:])
    return [json.loads(process.lines[-1]) for process in processes]


if __name__ == "__main__":
    main()
