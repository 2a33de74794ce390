"""For a profile: the steps of optimisers are events, as PyTorch names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..autograd.profiler import Recorder
from ..ops.interception import operator_timing
from .optimizer import Optimizer

_LABEL = 7  # the scope of labels


def _classes(cls: type[Optimizer]) -> Iterator[type[Optimizer]]:
    yield cls
    for below in cls.__subclasses__():
        yield from _classes(below)


def _timed_steps(recorder: Recorder) -> Iterator[tuple[Any, Callable]]:
    for cls in _classes(Optimizer):
        if "step" in vars(cls):
            yield vars(cls)["step"], _named(recorder, "step")
    yield Optimizer.zero_grad, _named(recorder, "zero_grad")


def _named(recorder: Recorder, method: str) -> Callable:
    def name(optimizer: Optimizer, *args: Any) -> str:
        return f"Optimizer.{method}#{type(optimizer).__name__}.{method}"

    return operator_timing.timed_as(recorder, name, _LABEL)


operator_timing.TIMED.append(_timed_steps)
