"""Random training programs: steps of random pieces, and random changes before random calls.

What may be observed of a compiled run must be that of the eager one: results, exceptions, what is
printed and logged, parameters, gradients and their versions, buffers, optimizer states.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import copy
import dataclasses
import enum
import functools
import gc
import io
import itertools
import logging
import pickle
import random
import textwrap
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

from .print_scenes import read_text
from .scenario import freeze, wait_for_program
from .training_pieces import (
    AFTER, BEFORE, BETWEEN, CHANGES, KEEPING, LOSSES, NETS, OPTIMIZERS, RETURNS, ZERO,
)

CALLS = 13
WAYS = ("now", "followed", "background")


class TrainingProgram:
    """The program of a seed: source of a step and the changes around it."""

    def __init__(self, seed: int) -> None:
        choose = self._choose = random.Random(seed)
        self.seed, self.way = seed, WAYS[seed % len(WAYS)]
        self.net, self.optimizer = choose.choice(list(NETS)), choose.choice(OPTIMIZERS)
        self.keeps_python = self.way == "followed" or choose.random() < 0.2
        lines = [
            *self._sample(BEFORE, 0, 3), *self._sample(ZERO, 1, 1), *self._sample(LOSSES, 1, 1),
            "loss.backward()", *self._sample(BETWEEN, 0, 2), "opt.step()",
            *self._sample(AFTER, 1, 4), *self._sample(RETURNS, 1, 1),
        ]
        body = textwrap.indent("\n".join(lines), "    ")
        self.source = f"def step(x, y):\n{body}\n"
        self.changes = sorted((choose.randint(1, CALLS - 2), choose.choice(CHANGES))
                              for _ in range(choose.randint(1, 4)))

    def _sample(self, pieces: tuple[str, ...], least: int, most: int) -> list[str]:
        """Between `least` and `most` pieces; in most steps none that keep Python."""
        allowed = [piece for piece in pieces
                   if self.keeps_python or not any(word in piece for word in KEEPING)]
        return self._choose.sample(allowed, self._choose.randint(least, most))

    def __str__(self) -> str:
        changes = "\n".join(f"before call {at}: {line}" for at, line in self.changes)
        return f"{self.source}{self.net}, {self.optimizer}, {self.way}\n{changes}"

    def observe(self, wrap: Callable[[Any], Any], wait: bool = False) -> list[Any]:
        """What is seen of a run, call by call, then of its objects."""
        seen: list[Any] = []
        out = io.StringIO()
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(out):
            warnings.simplefilter("always")
            names = self.make_names()
            exec(compile(self.source, f"<random training {self.seed}>", "exec"), names)
            step = wrap(names["step"])
            for call in range(CALLS):
                for at, line in self.changes:
                    if at == call:
                        seen.append(_attempt(lambda line=line: exec(line, names) and None))
                if wait and call in (6, 10):
                    wait_for_program(step)
                batch = torch.randn(6, 4), torch.randn(6, 1)
                seen.append(_attempt(lambda batch=batch: step(*batch)))
        texts = [str(item.message) for item in caught]
        seen += [read_text(out.getvalue()), texts.count("a step")]
        return [*seen, *(_Left(names).collect())]

    def make_names(self) -> dict[str, Any]:
        """New objects for a run: the globals of the step."""
        torch.manual_seed(self.seed)
        random.seed(self.seed)
        np.random.seed(self.seed)
        names: dict[str, Any] = {"torch": torch, "nn": nn, "F": F, **MODULES}
        net = names["net"] = eval(NETS[self.net], names)
        opt = names["opt"] = eval(self.optimizer, names)
        shift = np.full(4, 0.1, np.float32)
        log: list[Any] = []
        return names | _make_numbers() | {
            "first": next(m for m in net.modules() if isinstance(m, (nn.Linear, nn.Conv2d))),
            "target": copy.deepcopy(net), "extra": nn.Parameter(torch.ones(2)), "log": log,
            "scheduler": torch.optim.lr_scheduler.StepLR(opt, 3, 0.7),
            "buffer": torch.zeros(4), "shift_memory": shift,
            "numpy_shift": torch.from_numpy(shift), "saved": None, "handles": [],
            "logger": _make_logger(log), "rng": np.random.default_rng(self.seed),
            "scaler": types.SimpleNamespace(value=torch.tensor(1.5)),
            "norm": types.SimpleNamespace(mean=0.1, std=1.0, count=0, loss=F.mse_loss),
        }


class _Left:
    """What a run leaves in its objects."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names

    def collect(self) -> Iterator[Any]:
        """Freeze the logs, the models and the optimizer."""
        for name in LOGS:
            value = self.names[name]
            yield [name, freeze(list(value) if isinstance(value, collections.deque) else value)]
        yield [repr(self.names["count"]), self.names["conf"].calls, self.names["norm"].count]
        for name in ("net", "target"):
            for key, tensor in self.names[name].state_dict(keep_vars=True).items():
                yield [name, key, freeze(tensor), tensor._version, tensor.requires_grad]
                yield [freeze(tensor.grad), tensor.grad is not None and tensor.grad._version]
        opt = self.names["opt"]
        for group in opt.param_groups:
            yield [freeze({k: v for k, v in group.items() if k != "params"})]
            yield [freeze(dict(opt.state.get(p, {}))) for p in group["params"]]


@dataclasses.dataclass
class Configuration:
    """A step's options."""

    scale: float = 1.0
    enabled: bool = True
    calls: int = 0


class Mode(enum.Enum):
    """A choice that a step makes."""

    TANH = 0
    SIN = 1


MODULES = {m.__name__: m for m in (
    collections, contextlib, copy, dataclasses, gc, itertools, logging, pickle, random, types,
    warnings,
)} | {"np": np}
LOGS = ("st", "log", "mean", "total", "last", "results", "best", "seen", "votes", "waiting",
        "table", "buffer")
OPTIONS = {
    "scale": 1.0, "noise": 0.1, "flip": False, "drop": 0.0, "take": 6, "seed": 0, "inputs": False,
    "weight": 1.0, "decay": 0.01, "half": False, "clip": 1.0, "factor": 0.9, "every": 3,
    "limit": 0.5, "rate": 0.1, "cycle": 2, "factors": [0.5, 1.0], "stop": -1, "bound": 1.0,
    "floor": 0.5, "low": -9.0, "divisor": 0, "name": "tanh", "key": "a", "end": " \n",
}


def _make_numbers() -> dict[str, Any]:
    """Plain objects around a step."""
    factors = {"a": 1.0, "b": 0.5}

    @functools.lru_cache
    def lookup(key: str) -> float:
        return factors[key]

    def make_augment(size: float) -> Callable[[Any], Any]:
        calls = 0

        def augment(x: Any) -> Any:
            nonlocal calls
            calls += 1
            return x + size * (calls % 3)

        return augment

    def yield_factors() -> Iterator[float]:
        for k in itertools.count():
            yield 1.0 + k % 2

    return {
        "st": {"i": 0}, "cfg": copy.deepcopy(OPTIONS), "mean": {"number": 0.0,
                                                               "tensor": torch.zeros(())},
        "total": [0.0], "last": collections.deque(maxlen=3), "count": itertools.count(),
        "results": [], "best": {"value": 9.0, "state": None}, "seen": {}, "waiting": [],
        "votes": collections.Counter(), "table": [None] * 4, "conf": Configuration(),
        "Configuration": _copy_class(Configuration), "mode": Mode.TANH, "Mode": Mode,
        "gain": contextvars.ContextVar("gain", default=1.0), "FACTORS": factors, "lookup": lookup,
        "make_augment": make_augment, "augment": make_augment(0.1), "factors": yield_factors(),
    }


def _copy_class(cls: type) -> type:
    """Return a subclass for one run."""
    return type(cls.__name__, (cls,), {})


def _make_logger(log: list[Any]) -> logging.Logger:
    """A logger for one run, whose messages land in `log`."""
    handler = logging.Handler()
    handler.emit = lambda record: log.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.Logger("a run", logging.INFO)
    logger.addHandler(handler)
    return logger


def _attempt(act: Callable[[], Any]) -> Any:
    """What a call gives: a frozen value, or an exception's class and text."""
    try:
        return freeze(act())
    except Exception as error:
        return [type(error).__name__, str(error)[:200]]


def run_both(program: TrainingProgram, **options: Any) -> tuple[list[Any], list[Any]]:
    """What is seen of the eager and of the compiled run."""
    chosen = {"now": {"mode": "now"}, "followed": {"mode": "now", "follow": True},
              "background": {}}[program.way]
    eager = program.observe(lambda step: step)
    compiled = program.observe(lambda step: torch.compile(step, options=chosen, **options),
                               wait=program.way == "background")
    torch.compiler.reset()
    return eager, compiled
