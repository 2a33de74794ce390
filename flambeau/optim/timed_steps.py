"""Profile optimizer steps as events with PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from ..autograd.traces.recorder import Details, Recorder
from ..autograd.traces.tensor_records import OptimizerRecord
from ..ops.interception import operator_timing
from ..tensor.tensor import Tensor
from ..tensor.tree import collect_leaves
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


def _describe_implementation(optimizer: Optimizer, *args: Any) -> Details:
    """Return the remark `single_tensor` if PyTorch would loop over tensors on a CPU."""
    groups = optimizer.param_groups
    several = any(group.get("foreach") or group.get("fused") for group in groups)
    is_single = "foreach" in optimizer.defaults and not several
    return Details(arguments=("single_tensor",) if is_single else ())


def _optimizer_step_code(optimizer: Optimizer) -> None:
    """Do nothing: profiles with stacks show a step and its tensors as a call of this."""


def _record_state(recorder: Recorder, optimizer: Optimizer) -> OptimizerRecord:
    """Return what a profile notes of an optimizer's tensors."""
    numbers = recorder.numbers
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return OptimizerRecord(optimizer, tuple(
        (numbers.record(p), numbers.record_any(p.grad), tuple(
            (str(name), numbers.record(value))
            for name, value in optimizer.state.get(p, {}).items() if isinstance(value, Tensor)))
        for p in parameters))


def _name_events(
    recorder: Recorder, method: str, remarks: Callable[..., Details] | None = None
) -> Callable:
    def name(optimizer: Optimizer, *args: Any) -> str:
        return f"Optimizer.{method}#{type(optimizer).__name__}.{method}"

    record = operator_timing.time_as(recorder, name, _LABEL, remarks=remarks)
    running: set[int] = set()
    known: dict[Optimizer, OptimizerRecord] = {}
    notes_state = recorder.stack and method == "step"

    def note_state(optimizer: Optimizer, begin_ns: int) -> None:
        """Record the step also as a Python call, with the optimizer's tensors."""
        if optimizer not in known:
            known[optimizer] = _record_state(recorder, optimizer)
            if recorder.memory:
                for value in collect_leaves(Tensor, list(optimizer.state.values())):
                    recorder.watch(value._array)
        code = _optimizer_step_code.__code__
        recorder.events.append((
            f"{code.co_filename}({code.co_firstlineno}): {code.co_name}", begin_ns,
            perf_counter_ns(), get_ident(), None, None, 0, Details(subject=known[optimizer])))

    def outermost(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Record a step that calls its base class's step as one event."""
        if id(args[0]) in running:
            return original(*args, **kwargs)
        running.add(id(args[0]))
        begin_ns = perf_counter_ns()
        try:
            return record(original, args, kwargs)
        finally:
            running.discard(id(args[0]))
            if notes_state:
                note_state(args[0], begin_ns)

    return outermost


operator_timing.TIMED.append(_patch_steps)
