"""Profile optimizer steps as events with PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..autograd.traces.recorder import Recorder
from ..ops.interception import operator_timing
from .optimizer import Optimizer

_LABEL = 7  # the scope of user labels


def _iterate_classes(cls: type[Optimizer]) -> Iterator[type[Optimizer]]:
    yield cls
    for subclass in cls.__subclasses__():
        yield from _iterate_classes(subclass)


def _patch_steps(recorder: Recorder) -> Iterator[tuple[Any, Callable]]:
    step = _name_events(recorder, "step", _describe_implementation)
    for cls in _iterate_classes(Optimizer):
        if "step" in vars(cls):
            yield vars(cls)["step"], step
    yield Optimizer.zero_grad, _name_events(recorder, "zero_grad")


def _describe_implementation(optimizer: Optimizer, *args: Any) -> tuple[str, ...]:
    """Return the remark `single_tensor` if PyTorch would loop over tensors on a CPU."""
    groups = optimizer.param_groups
    several = any(group.get("foreach") or group.get("fused") for group in groups)
    return ("single_tensor",) if "foreach" in optimizer.defaults and not several else ()


def _name_events(
    recorder: Recorder, method: str, remarks: Callable[..., tuple] | None = None
) -> Callable:
    def name(optimizer: Optimizer, *args: Any) -> str:
        return f"Optimizer.{method}#{type(optimizer).__name__}.{method}"

    record = operator_timing.time_as(recorder, name, _LABEL, remarks=remarks)
    running: set[int] = set()

    def outermost(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Record a step that calls its base class's step as one event."""
        if id(args[0]) in running:
            return original(*args, **kwargs)
        running.add(id(args[0]))
        try:
            return record(original, args, kwargs)
        finally:
            running.discard(id(args[0]))

    return outermost


operator_timing.TIMED.append(_patch_steps)
