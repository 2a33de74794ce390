"""Random steps whose Python cannot be skipped: counters, reads, branches and loops around the
operators, views and writes of random functions. Followed, they leave what eager calls leave."""

from __future__ import annotations

import random
import types
import warnings
from collections.abc import Iterator
from typing import Any

import flambeau as torch

from .random_functions import Pair, RandomFunction, _agree, _gap, _stages, _tensor

CALLS = 14
PYTHON = (
    "log.append(len(log))",
    "log.append({a}.tolist())",
    "log.append(float({a}.double().sum())) if len(log) % 3 == 1 else log.append(None)",
    "log.append(({a}._version, {a}.requires_grad, {a}.stride(), {a}.storage_offset()))",
    "log.append(str({a})) if len(log) % 4 == 2 else log.append(0)",
    "log.append(bool(({a} > 0).any()))",
    "log.append(({a} is {b}, {a}.data_ptr() == {b}.data_ptr()))",
    "log.append({a}.numpy(force=True).sum()) if calls[0] % 3 == 2 else None",
    "log.append(getattr({a}.grad_fn, 'name', lambda: None)())",
)
BRANCHES = (
    "if calls[0] % 3 == 1: {line}",
    "if calls[0] % 5 > 2: {line}",
    "for _ in range(calls[0] % 3): {line}",
    "if ({a} > 0).sum() > 1: {line}",
    "try:\n        {line}\n        if calls[0] % 4 == 2: raise KeyError(1)\n"
    "    except KeyError: log.append(-1)",
)


class RandomStep(RandomFunction):
    """A random function with Python in it that acts or goes its way in each call."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.aliasing = [*self.aliasing, *self.aliasing[:CALLS]]
        choose = self._choose
        known, lines = ["x0", "x1", "w0", "w1"], ["calls[0] += 1"]
        for line in self.lines[:-1]:
            a, b = choose.choice(known), choose.choice(known)
            if choose.random() < 0.4:
                lines.append(choose.choice(PYTHON).format(a=a, b=b))
            name = line.split(" = ")[0]
            if name.startswith("v") and name.isidentifier():
                known.append(name)
            elif not line.startswith("with") and choose.random() < 0.4:
                line = choose.choice(BRANCHES).format(line=line, a=a)
            lines.append(line)
        self.lines = [*lines, choose.choice(PYTHON).format(a=known[-1], b=known[0]), self.lines[-1]]
        self.source = "\n    ".join(["def step(x0, x1):", *self.lines, ""])

    def world(self) -> types.SimpleNamespace:
        """New captured tensors and logs, and the function on them."""
        generator = torch.Generator().manual_seed(self.seed)
        w0 = _tensor(self.captured[0], self.dtypes[0], generator)
        w1 = _tensor(self.captured[1], self.dtypes[1], generator)
        log: list[Any] = []
        names = {"torch": torch, "w0": w0, "w1": w1, "Pair": Pair, "log": log, "calls": [0]}
        exec(compile(self.source, f"<random step {self.seed}>", "exec"), names)
        return types.SimpleNamespace(step=names["step"], captured=[w0, w1], log=log)


class RandomLoops(RandomStep):
    """A random step with loops of random length, whose turns read values."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        choose = random.Random(seed)
        known, lines = ["x0", "x1", "w0", "w1"], []
        for line in self.lines:
            name = line.split(" = ")[0]
            is_plain = ":" not in line.partition("(")[0] and not line.startswith(("log", "calls"))
            if is_plain and "return" not in line and choose.random() < 0.5:
                a = choose.choice(known)
                lines.append(f"for turn in range(1 + calls[0] * {choose.randrange(3)} % 4):")
                lines += [f"    {line}", f"    log.append(float({a}.double().sum()))"]
                if choose.random() < 0.3:
                    lines.append(f"    if {a}.numel() and {a}.flatten()[0] > 0: break")
            else:
                lines.append(line)
            if name.startswith("v") and name.isidentifier():
                known.append(name)
        self.lines = lines
        self.source = "\n    ".join(["def step(x0, x1):", *self.lines, ""])


def differences(step: RandomStep, **options: Any) -> Iterator[str]:
    """What differs between eager and followed calls, for people."""
    eager, fast = step.world(), step.world()
    compiled = torch.compile(fast.step, options={"mode": "now", "follow": True},
                             **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in range(CALLS):
            stages: list[list[Any]] = []
            for world, function in ((eager, eager.step), (fast, compiled)):
                stages.append([*_stages(step, call, world, function), list(world.log)])
            for name, wanted, actual in zip(("call", "write", "backward", "log"), *stages,
                                            strict=True):
                if not _agree(wanted, actual):
                    yield f"call {call}, after {name}:\n{_gap(wanted, actual)}"
                    return
    step.explained = compiled.explain()
