"""Quantized layers beside PyTorch's: seconds of int8 Linear, of an MLP and an LSTM after
`quantize_dynamic`, and what quantization costs in accuracy.

    python benchmarks/quantized.py [--threads 2] [--rounds 5] [--only REGEX]
    python benchmarks/quantized.py --accuracy      # MNIST and a small GPT on Hamlet, a minute

In an environment that has both libraries. Each round is a fresh process of each, in turn; shown are
the medians over the rounds. The accuracy is measured with flambeau alone, in one process.
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
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHAPES = [(1, 1024, 1024), (16, 512, 512), (64, 784, 256), (64, 2048, 2048), (128, 4096, 4096)]
SECONDS = 0.3  # that one case is repeated for
MNIST_EPOCHS, GPT_STEPS = 2, 200


def quantize(model: Any) -> Any:
    """The model with dynamically quantized layers, by whichever library runs."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(model.eval())


def cases() -> dict[str, Callable[[], tuple[Any, Any]]]:
    """By name: what makes a float model and its input."""
    import torch
    from torch import nn

    def linear(rows: int, width: int, out: int) -> Callable[[], tuple[Any, Any]]:
        return lambda: (nn.Sequential(nn.Linear(width, out)), torch.randn(rows, width))

    result = {f"Linear {m}x{k} to {n}": linear(m, k, n) for m, k, n in SHAPES}
    result["MLP 784-512-512-10, batch 64"] = lambda: (nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)),
        torch.randn(64, 784))
    result["LSTM 256, 32 steps, batch 16"] = lambda: (
        nn.Sequential(nn.LSTM(256, 256)), torch.randn(32, 16, 256))
    return result


def seconds_of(call: Callable[[], Any]) -> float:
    """Median seconds of one call."""
    for _ in range(16):
        call()
    times_s, until = [], time.perf_counter() + SECONDS
    while time.perf_counter() < until or len(times_s) < 5:
        began = time.perf_counter()
        call()
        times_s.append(time.perf_counter() - began)
    return statistics.median(times_s)


def measure(only: str, threads: int) -> None:
    """In a process of one library: prints {case: [float seconds, quantized seconds]}."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    result = {}
    with torch.no_grad():
        for name, prepare in cases().items():
            if re.search(only, name):
                model, x = prepare()
                small = quantize(model)
                result[name] = [seconds_of(lambda m=m, x=x: m(x)) for m in (model.eval(), small)]
    print(json.dumps(result))


def run(library: str, arguments: list[str], threads: int) -> str:
    """The output of a fresh process in which `torch` is the library."""
    start = ["-m", "flambeau"] if library == "flambeau" else []
    command = [sys.executable, *start, str(Path(__file__).resolve()), *arguments]
    path = os.pathsep.join([str(ROOT), str(ROOT / "examples"), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": path}
    env |= dict.fromkeys(("OMP_NUM_THREADS", "FLAMBEAU_THREADS"), str(threads))
    return subprocess.run(command, env=env, check=True, text=True, stdout=subprocess.PIPE).stdout


def compare(options: argparse.Namespace) -> None:
    """Prints a row for each case: milliseconds of both libraries, and the ratio."""
    arguments = ["--measure", "--only", options.only, "--threads", str(options.threads)]
    rounds: dict[str, list[dict[str, list[float]]]] = {"flambeau": [], "torch": []}
    for _ in range(options.rounds):
        for library, results in rounds.items():
            results.append(json.loads(run(library, arguments, options.threads).splitlines()[-1]))
    print(f"ms on {options.threads} thread(s), float32 and int8; "
          f"medians of {options.rounds} rounds")
    for name in rounds["torch"][0]:
        own, pytorch = ([statistics.median(r[name][i] for r in results) * 1e3 for i in (0, 1)]
                        for results in rounds.values())
        print(f"{name:30} flambeau {own[0]:8.3f} {own[1]:8.3f}  PyTorch {pytorch[0]:8.3f} "
              f"{pytorch[1]:8.3f}  flambeau/PyTorch {own[0] / pytorch[0]:5.2f} "
              f"{own[1] / pytorch[1]:5.2f}")


# ------------------------------------------------------------------------------------ accuracy


def forms(model: Any, group_size: int) -> dict[str, Any]:
    """The model in float32, dynamically quantized, and with weights of 8 and 4 bits."""
    from torch.ao.nn.weight_only import quantize_weights

    return {"float32": model.eval(), "quantize_dynamic": quantize(model),
            "8-bit weights": quantize_weights(model),
            "4-bit weights": quantize_weights(model, bits=4, group_size=group_size)}


def mnist() -> None:
    """An MLP on the images that come with the examples."""
    import torch
    from mnist_data import load
    from torch import nn

    torch.manual_seed(0)
    train, test = ([torch.from_numpy(a) for a in load(split)] for split in ("train", "test"))
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256),
                          nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(MNIST_EPOCHS):
        for at in torch.randperm(len(train[0])).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(train[0][at]), train[1][at]).backward()
            optimizer.step()
    with torch.no_grad():
        for name, form in forms(model, 64).items():
            correct = (form(test[0]).argmax(1) == test[1]).double().mean().item()
            print(f"MNIST MLP         {name:18} {correct:8.2%} correct", flush=True)


def gpt() -> None:
    """The examples' GPT on Hamlet: nats a letter of the passages to validate with."""
    import torch
    from char_gpt import GPT, training_step, validate
    from text_data import Text

    torch.manual_seed(0)
    text = Text()
    model = GPT(len(text.letters), 64, 2, 128, 4)
    step = training_step(model, torch.optim.AdamW(model.parameters(), 2e-3))
    for _ in range(GPT_STEPS):
        step(*text.batch(12, 64))
    x, y = text.validation(64)
    for name, form in forms(model, 64).items():
        print(f"GPT, 2 layers 128 {name:18} {validate(form, x, y):8.4f} nats", flush=True)


def main() -> None:
    """Compares the times, or prints the accuracies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure and options.accuracy:
        mnist()
        gpt()
    elif options.measure:
        measure(options.only, options.threads)
    elif options.accuracy:
        print(run("flambeau", ["--accuracy", "--measure"], options.threads), end="")
    else:
        compare(options)


if __name__ == "__main__":
    main()
