"""Cases of a program: functions that return tensors and numbers.

`run()` calls each with the same seed and prints a line of JSON: its name, its seconds, the numbers
(of a tensor: its sum, the sum of magnitudes and a few elements) or the error.
"""

from __future__ import annotations

import json
import os
import random
import time
import traceback
import warnings
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.simplefilter("ignore")

import torch  # noqa: E402

_cases: dict[str, Any] = {}


def case(function: Any) -> Any:
    """A decorator: the function is a case of its own name."""
    _cases[function.__name__] = function
    return function


def cases(names: Any, function: Any) -> None:
    """One case, function(name), for each name."""
    for name in names:
        _cases[str(name)] = lambda name=name: function(name)


def numbers(value: Any) -> list[float]:
    """What of a result is compared."""
    if isinstance(value, torch.Tensor):
        flat = value.detach().double().reshape(-1)
        return [flat.sum().item(), flat.abs().sum().item(), *flat[:3].tolist()]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [number for part in value for number in numbers(part)]
    return [] if value is None else [float(value)]


def losses(model: Any, loss_of: Any, steps: int = 3) -> list[Any]:
    """The losses of a few steps of AdamW, and what the gradients sum up to after the first."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    results: list[Any] = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        if not step:
            gradients = [p.grad for p in model.parameters() if p.grad is not None]
            results.append(sum(g.abs().sum() for g in gradients))
        optimizer.step()
        results.append(loss)
    return results


def run() -> None:
    """Runs all cases."""
    torch.set_num_threads(1)
    for name, function in _cases.items():
        random.seed(0)
        torch.manual_seed(0)
        line: dict[str, Any] = {"id": name}
        started = time.perf_counter()
        try:
            line["numbers"] = numbers(function())
        except Exception as error:
            line["error"] = f"{type(error).__name__}: {error}"[:500]
            line["tb"] = traceback.format_exc()[-1500:]
        line["s"] = round(time.perf_counter() - started, 3)
        print("CASE " + json.dumps(line), flush=True)
