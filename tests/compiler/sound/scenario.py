"""Scenarios: a step, something in Python that changes around it, and all that may be observed.

A scenario runs eagerly, compiled at once, and compiled in the background, with the change at the
first calls, while the program is built, and after it is in use. Results, parameters, buffers,
gradients, versions and the scenario's own log must be those of the eager run.
"""

from __future__ import annotations

import time
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import flambeau as torch

UNDO = (types.FunctionType, types.MethodType)  # what a change returns to be called at the end
CALLS = 12
CHANGES = (1, 3, 4, 8)  # before which call the change happens
MODES = ("now", "default")


@dataclass
class Scene:
    """One run's objects: the step, what to change, and what to compare besides its results."""

    step: Callable[..., Any]
    change: Callable[[], Any] = lambda: None
    arguments: Callable[[], tuple] = lambda: (torch.randn(4, 3),)
    state: list[torch.Tensor] = field(default_factory=list)
    log: list[Any] = field(default_factory=list)


def collect(table: dict[str, Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds a function to a table under its name, in words."""
    def add(function: Any) -> Any:
        table[function.__name__.replace("_", " ").strip()] = function
        return function

    return add


def observe(
    make: Callable[[], Scene], mode: str | None, change_at: int, follow: bool = True
) -> list[Any]:
    """All that is seen of a run: for each call the results, then the state and the log."""
    torch.manual_seed(0)
    scene = make()
    options = {"mode": mode, "follow": follow or None}
    step = scene.step if mode is None else torch.compile(scene.step, options=options)
    seen: list[Any] = []
    undo = None
    try:
        for call in range(CALLS):
            if call == change_at:
                undo = scene.change()
            try:
                result = step(*scene.arguments())
            except Exception as error:
                result = type(error).__name__
            seen.append(freeze(result))
            if mode == "default" and call == 6:
                wait_for_program(step)
    finally:
        if isinstance(undo, UNDO):
            undo()
    seen += [freeze(t) for t in scene.state]
    seen += [freeze(t.grad) for t in scene.state]
    seen += [t._version for t in scene.state]
    return [*seen, *map(freeze, scene.log)]


def freeze(value: Any) -> Any:
    """A value as it is now, for comparison later."""
    if isinstance(value, torch.Tensor):
        data = None if value.device.type == "meta" else value.detach().numpy().copy()
        return ("tensor", tuple(value.shape), value.stride(), str(value.dtype), data)
    if isinstance(value, (tuple, list)):
        return [freeze(part) for part in value]
    if isinstance(value, dict):
        return [freeze(part) for item in value.items() for part in item]
    return value


def wait_for_program(step: Any, seconds: float = 60) -> None:
    """Waits until nothing is being built for a compiled step."""
    step = vars(step).get("_compiled", step)  # that of a module
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        builds = step._specializations.list_builds()
        followed = step._fallback.followed
        building = followed is not None and followed.is_building
        if not building and all(build.done.is_set() for build in builds):
            return
        time.sleep(0.01)


def assert_python_is_skipped(make: Callable[[], Scene]) -> None:
    """Asserts that programs serve at least five of nine calls."""
    torch.manual_seed(0)
    scene = make()
    step = torch.compile(scene.step, mode="now")
    for _ in range(9):
        step(*scene.arguments())
    compiled = vars(step).get("_compiled", step)
    programs = compiled._specializations.programs
    assert sum(program.calls for program in programs) >= 5, compiled.explain()


def compare(make: Callable[[], Scene], mode: str, change_at: int, follow: bool = True) -> None:
    """Asserts that a compiled run shows what the eager one does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = observe(make, None, change_at)
        actual = observe(make, mode, change_at, follow)
    assert_same(actual, expected, f"mode={mode}, change before call {change_at}")


def assert_same(actual: Any, expected: Any, where: str) -> None:
    """Asserts equality: tensors and numbers within rounding, everything else exactly."""
    if isinstance(expected, tuple) and expected[:1] == ("tensor",):
        assert actual[:4] == expected[:4], where
        if expected[4] is not None:
            np.testing.assert_allclose(actual[4], expected[4], rtol=2e-4, atol=2e-5, err_msg=where)
    elif isinstance(expected, list):
        assert len(actual) == len(expected), f"{where}: {actual} instead of {expected}"
        for k, (a, b) in enumerate(zip(actual, expected, strict=True)):
            assert_same(a, b, f"{where}, item {k}")
    elif isinstance(expected, float):
        np.testing.assert_allclose(actual, expected, rtol=2e-4, atol=2e-5, err_msg=where)
    else:
        assert actual == expected, where
