"""Mutations: a step is proved, then everything that it can reach is changed, a thing at a time;
either a guard fails, or the call gives what the eager one gives."""

from __future__ import annotations

import enum
import functools
import importlib.util
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

from .scenario import assert_same, freeze

MAX_DEPTH = 7
STEP = Path(__file__).with_name("mutated_step.py")


def world() -> tuple[Callable, list[Any]]:
    """A step, and what it reaches beside its arguments, with classes of their own."""
    spec = importlib.util.spec_from_file_location(STEP.stem, STEP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[STEP.stem] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module.world()


# ----------------------------------------------------------------------------- mutations


def mutations(roots: list[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(what, change) for all that the roots reach."""
    seen: set[int] = set()
    stack = [(root, str(i), 0) for i, root in enumerate(roots)]
    while stack:
        x, path, depth = stack.pop()
        if id(x) in seen or depth > MAX_DEPTH:
            continue
        seen.add(id(x))
        for name, value, put in places(x):
            where = f"{path}{name}"
            for number, other in enumerate(others(value)):
                yield f"{where} ({number})", functools.partial(put, other)
            if not isinstance(value, (torch.Tensor, enum.Enum, str, int, float)):
                stack.append((value, where, depth + 1))


def places(x: Any) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    """(name, value, setter) of the parts of an object."""
    if isinstance(x, dict):
        for key, value in list(x.items()):
            yield f"[{key!r:.20}]", value, functools.partial(x.__setitem__, key)
    elif isinstance(x, list):
        for at, value in enumerate(x):
            yield f"[{at}]", value, functools.partial(x.__setitem__, at)
    elif isinstance(x, np.ndarray):
        for at in range(x.size):
            yield f"[{at}]", float(x[at]), functools.partial(x.__setitem__, at)
    elif isinstance(x, types.FunctionType):
        for name in ("__defaults__", "__kwdefaults__"):
            yield f".{name}", getattr(x, name), functools.partial(setattr, x, name)
        for name, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True):
            put = functools.partial(setattr, cell, "cell_contents")
            yield f"<{name}>", cell.cell_contents, put
    elif type(x).__module__ in (STEP.stem, "types") or isinstance(x, nn.Module):
        for name, value in list(getattr(x, "__dict__", {}).items()):
            yield f".{name}", value, functools.partial(setattr, x, name)
        for name in getattr(type(x), "__slots__", ()):
            yield f".{name}", getattr(x, name), functools.partial(setattr, x, name)
        for kind in type(x).__mro__:
            if kind.__module__ == STEP.stem:
                for name, value in list(vars(kind).items()):
                    if not name.startswith("__") or name == "__init__":
                        yield f".{kind.__name__}.{name}", value, functools.partial(
                            setattr, kind, name)
    elif isinstance(x, torch.optim.Optimizer):
        yield ".param_groups", x.param_groups, lambda value: None


def others(value: Any) -> Iterator[Any]:
    """Other values that may stand in place of one."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield value + 1
        yield type(value)(0)
    elif value is None:
        return
    elif isinstance(value, tuple) and value and all(isinstance(v, float) for v in value):
        yield tuple(v + 1 for v in value)
    elif isinstance(value, set):
        yield value | {"z"}
    elif isinstance(value, dict) and all(isinstance(v, float) for v in value.values()):
        yield {key: v + 1 for key, v in value.items()}
    elif isinstance(value, torch.nn.Parameter):
        yield torch.nn.Parameter(value.detach() * 2)
    elif isinstance(value, enum.Enum):
        yield type(value)["SLOW"]
    elif isinstance(value, property):
        yield property(lambda self: 3.0)
    elif isinstance(value, types.FunctionType) and value.__name__ == "factor":
        yield lambda self, more=0.0: 2.0


def run(name: str, mode: str | None) -> list[Any]:
    """The losses of calls around a mutation."""
    step, roots = world()
    call = step if mode is None else torch.compile(step, mode=mode)
    seen = []
    for at in range(7):
        torch.manual_seed(at)
        if at == 4:
            dict(mutations(roots))[name]()
        try:
            seen.append(freeze(call(torch.randn(4, 3), torch.randn(4, 1))))
        except Exception as error:
            seen.append(type(error).__name__)
    return seen


NAMES = sorted({name for name, _ in mutations(world()[1]) if "_flambeau" not in name})


def test_the_step_is_proved():
    step, _ = world()
    compiled = torch.compile(step, mode="now")
    for _ in range(5):
        compiled(torch.randn(4, 3), torch.randn(4, 1))
    assert compiled.ready, compiled.explain()


@pytest.mark.parametrize(
    "name", [n if i % 8 == 0 else pytest.param(n, marks=pytest.mark.slow)
             for i, n in enumerate(NAMES)])
def test_a_mutation_is_seen(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(run(name, "now"), run(name, None), name)
