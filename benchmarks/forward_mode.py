"""Forward mode beside PyTorch's: what jvp costs, as a ratio to the plain function.

    python benchmarks/forward_mode.py [--threads 1] [--rounds 5] [--only REGEX]

In an environment that has both libraries. Each round is a fresh process of each, in turn; shown are
medians over the rounds, of processor time, which other programs on the machine change little; -
where a library has no rule. A product of two arguments that both have tangents takes three
products: its ratio is 3 at least.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 0.4  # that one case is repeated for


def cases() -> dict[str, tuple[Callable, tuple]]:
    """By name: a function and its arguments."""
    import torch
    from torch.nn import functional as F

    draw = torch.randn
    x, image, heads = draw(256, 512), draw(8, 32, 28, 28), [draw(4, 4, 64, 32) for _ in range(3)]
    scores, classes = draw(256, 1000), torch.randint(0, 1000, (256,))
    return {
        "relu": (torch.relu, (x,)),
        "gelu": (F.gelu, (x,)),
        "softmax": (lambda x: x.softmax(-1), (scores,)),
        "log_softmax": (lambda x: x.log_softmax(-1), (scores,)),
        "sum": (lambda x: x.sum(1), (x,)),
        "max": (lambda x: x.max(1).values, (x,)),
        "mse_loss": (F.mse_loss, (x, draw(256, 512))),
        "cross_entropy": (lambda x: F.cross_entropy(x, classes), (scores,)),
        "layer_norm": (lambda x, w, b: F.layer_norm(x, (512,), w, b), (x, draw(512), draw(512))),
        "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
                       (image, draw(32), draw(32))),
        "linear": (F.linear, (x, draw(512, 512), draw(512))),
        "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1),
                   (image, draw(64, 32, 3, 3), draw(64))),
        "max_pool2d": (lambda x: F.max_pool2d(x, 2), (image,)),
        "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (image,)),
        "attention": (F.scaled_dot_product_attention, tuple(heads)),
        "MLP": (mlp(), (draw(64, 256),)),
    }


def mlp() -> Callable:
    """A small network as a function of its input."""
    from torch import nn

    return nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 10)).requires_grad_(False)


def seconds_of(call: Callable[[], Any]) -> float:
    """Median seconds of the processor for one call."""
    for _ in range(12):
        call()
    times_s, until = [], time.process_time() + SECONDS
    while time.process_time() < until or len(times_s) < 5:
        began = time.process_time()
        call()
        times_s.append(time.process_time() - began)
    return statistics.median(times_s)


def measure(only: str, threads: int) -> None:
    """In a process of one library: prints {case: [seconds plain, with one tangent, with all]}."""
    import torch
    from torch.func import jvp

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    result = {}
    for name, (function, args) in cases().items():
        if not re.search(only, name):
            continue
        tangents = tuple(torch.randn_like(x) for x in args)
        rest = args[1:]

        def of_input(x: Any, f: Any = function, rest: Any = rest) -> Any:
            return f(x, *rest)

        result[name] = [seconds_of(lambda f=function, a=args: f(*a))]
        try:
            result[name] += [
                seconds_of(lambda f=of_input, a=args, t=tangents: jvp(f, a[:1], t[:1])),
                seconds_of(lambda f=function, a=args, t=tangents: jvp(f, a, t)),
            ]
        except NotImplementedError:
            pass
    print(json.dumps(result))


def run(library: str, arguments: list[str], threads: int) -> str:
    """The output of a fresh process in which `torch` is the library."""
    start = ["-m", "flambeau"] if library == "flambeau" else []
    command = [sys.executable, *start, str(Path(__file__).resolve()), *arguments]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": path}
    env |= dict.fromkeys(("OMP_NUM_THREADS", "FLAMBEAU_THREADS"), str(threads))
    return subprocess.run(command, env=env, check=True, text=True, stdout=subprocess.PIPE).stdout


def main() -> None:
    """Prints a row for each case: microseconds of the plain function, and both ratios to it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.only, options.threads)
        return
    arguments = ["--measure", "--only", options.only, "--threads", str(options.threads)]
    rounds: dict[str, list[dict[str, list[float]]]] = {"flambeau": [], "torch": []}
    for _ in range(options.rounds):
        for library, results in rounds.items():
            results.append(json.loads(run(library, arguments, options.threads).splitlines()[-1]))
    print(f"{options.threads} thread(s), medians of {options.rounds} rounds: us of the plain "
          "function, jvp's time over it with a tangent of the input, and of all arguments")
    for name in rounds["torch"][0]:
        cells = []
        for library, results in rounds.items():
            plain = statistics.median(r[name][0] for r in results)
            counts = range(1, len(results[0][name]))
            ratios = [statistics.median(r[name][i] / r[name][0] for r in results) for i in counts]
            text = " ".join(f"{ratio:6.2f}" for ratio in ratios) or f"{'-':>6} {'-':>6}"
            cells.append(f"{library} {plain * 1e6:9.1f} {text}")
        print(f"{name:14} {'   '.join(cells)}")


if __name__ == "__main__":
    main()
