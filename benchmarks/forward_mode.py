"""Forward mode beside PyTorch's: what jvp costs, as a ratio to the plain function.

    python benchmarks/forward_mode.py [--threads 1] [--rounds 3] [--only REGEX] [--recorded]

In an environment that has both libraries. Each round is a fresh process of each, in turn; shown are
medians over the rounds of the processor time of the fastest tenth of calls, which other programs on
the machine change little; - where a library has no rule. A product of two arguments that both have
tangents takes three products: its ratio is 3 at least. --recorded: the parameters of models require
gradients.
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

import forward_models

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 0.2  # that one case is repeated for
WARM_CALLS = 45  # operators of medium size get kernels after 32


Cases = dict[str, tuple[Callable, tuple]]  # by name: a function and its arguments


def list_pointwise() -> Cases:
    """Functions of each element."""
    import torch
    from torch.nn import functional as F

    draw = torch.randn
    x, small, mask = draw(256, 512), draw(32, 32), draw(256, 512) > 0
    return {
        "relu": (torch.relu, (x,)),
        "relu, 32x32": (torch.relu, (small,)),
        "tanh": (torch.tanh, (x,)),
        "tanh, 32x32": (torch.tanh, (small,)),
        "gelu": (F.gelu, (x,)),
        "silu": (F.silu, (x,)),
        "exp": (torch.exp, (x,)),
        "sin": (torch.sin, (x,)),
        "glu": (F.glu, (x,)),
        "mul": (torch.mul, (x, draw(256, 512))),
        "div by a column": (torch.div, (x, draw(256, 1) + 9)),
        "maximum": (torch.maximum, (x, draw(256, 512))),
        "where": (lambda x, y: torch.where(mask, x, y), (x, draw(256, 512))),
    }


def list_reductions() -> Cases:
    """Functions of rows, and copies."""
    import torch
    from torch.nn import functional as F

    draw = torch.randn
    x, where = draw(256, 512), torch.randint(0, 256, (300,))
    scores, classes = draw(256, 1000), torch.randint(0, 1000, (256,))
    return {
        "softmax": (lambda x: x.softmax(-1), (scores,)),
        "log_softmax": (lambda x: x.log_softmax(-1), (scores,)),
        "logsumexp": (lambda x: x.logsumexp(-1), (scores,)),
        "sum": (lambda x: x.sum(1), (x,)),
        "max": (lambda x: x.max(1).values, (x,)),
        "amax": (lambda x: x.amax(1), (x,)),
        "norm": (lambda x: x.norm(dim=1), (x,)),
        "std": (lambda x: x.std(1), (x,)),
        "cumsum": (lambda x: x.cumsum(1), (x,)),
        "sort": (lambda x: x.sort(1).values, (x,)),
        "cat": (lambda x, y: torch.cat([x, y]), (x, draw(256, 512))),
        "rows by index": (lambda x: x[where], (x,)),
        "transposed copy": (lambda x: x.t().contiguous(), (x,)),
        "mse_loss": (F.mse_loss, (x, draw(256, 512))),
        "cross_entropy": (lambda x: F.cross_entropy(x, classes), (scores,)),
    }


def list_layers() -> Cases:
    """Layers, products and decompositions."""
    import torch
    from torch.nn import functional as F

    draw = torch.randn
    x, small, image = draw(256, 512), draw(32, 32), draw(8, 32, 28, 28)
    heads, definite = [draw(4, 4, 64, 32) for _ in range(3)], draw(64, 64) + 8 * torch.eye(64)
    return {
        "layer_norm": (lambda x, w, b: F.layer_norm(x, (512,), w, b), (x, draw(512), draw(512))),
        "group_norm": (lambda x, w, b: F.group_norm(x, 4, w, b), (image, draw(32), draw(32))),
        "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
                       (image, draw(32), draw(32))),
        "linear": (F.linear, (x, draw(512, 512), draw(512))),
        "linear, 32x32": (F.linear, (small, draw(32, 32), draw(32))),
        "bmm": (torch.bmm, (draw(16, 64, 64), draw(16, 64, 64))),
        "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1),
                   (image, draw(64, 32, 3, 3), draw(64))),
        "max_pool2d": (lambda x: F.max_pool2d(x, 2), (image,)),
        "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (image,)),
        "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (image,)),
        "attention": (F.scaled_dot_product_attention, tuple(heads)),
        "solve": (torch.linalg.solve, (definite, draw(64, 8))),
        "cholesky": (lambda x: torch.linalg.cholesky(x @ x.t()), (definite,)),
    }


def seconds_of(call: Callable[[], Any]) -> float:
    """Seconds of this thread for one call: of the fastest tenth, the slowest."""
    for _ in range(WARM_CALLS):
        call()
    time.sleep(0.2)  # kernels compile meanwhile
    for _ in range(5):
        call()
    times_s, until = [], time.perf_counter() + SECONDS
    while time.perf_counter() < until or len(times_s) < 7:
        began = time.thread_time()
        call()
        times_s.append(time.thread_time() - began)
    return sorted(times_s)[len(times_s) // 10]


def measure(only: str, threads: int, recorded: bool) -> None:
    """In a process of one library: prints {case: [seconds plain, with one tangent, with all]}."""
    import torch
    from torch.func import jvp

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    result = {}
    models = {name: (model.requires_grad_(recorded), (x,))
              for name, (model, x) in forward_models.build().items()}
    functions = {} if recorded else {**list_pointwise(), **list_reductions(), **list_layers()}
    for name, (function, args) in {**functions, **models}.items():
        if not re.search(only, name):
            continue
        tangents = tuple(torch.randn_like(x) for x in args)
        rest = args[1:]

        def of_input(x: Any, f: Any = function, rest: Any = rest) -> Any:
            return f(x, *rest)

        result[name] = [seconds_of(lambda f=function, a=args: f(*a))]
        try:
            result[name].append(
                seconds_of(lambda f=of_input, a=args, t=tangents: jvp(f, a[:1], t[:1])))
            if rest:
                result[name].append(
                    seconds_of(lambda f=function, a=args, t=tangents: jvp(f, a, t)))
        except (NotImplementedError, RuntimeError):  # PyTorch: running statistics, attention
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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.only, options.threads, options.recorded)
        return
    arguments = ["--measure", "--only", options.only, "--threads", str(options.threads)]
    arguments += ["--recorded"] * options.recorded
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
            text = " ".join([f"{ratio:6.2f}" for ratio in ratios] + [f"{'-':>6}"] * 2)[:13]
            cells.append(f"{library} {plain * 1e6:9.1f} {text}")
        print(f"{name:36} {'   '.join(cells)}")


if __name__ == "__main__":
    main()
