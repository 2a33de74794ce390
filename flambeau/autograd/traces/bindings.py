"""torch._C._profiler: the parts of PyTorch's C++ profiler that programs import."""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterable
from time import perf_counter_ns
from typing import Any

from ...tensor.absent import make_absent_getattr
from ...tensor.tensor import Tensor
from ..profiler_util import DeviceType as DeviceType
from .chrome_trace import TraceSwitches
from .event_fields import (
    _EventType, _ExtraFields_Allocation, _ExtraFields_PyCall, _ExtraFields_PyCCall,
    _ExtraFields_TorchOp, _NNModuleInfo, _OptimizerInfo, _PyFrameState, _TensorMetadata,
)
from .kineto_results import _ProfilerEvent
from .recorder import Details, Recording, RecordScope as RecordScope, collect_user_stack

__all__ = [
    "ActiveProfilerType", "_EventType", "_ExperimentalConfig", "_ExtraFields_Allocation",
    "_ExtraFields_PyCCall", "_ExtraFields_PyCall", "_ExtraFields_TorchOp", "_NNModuleInfo",
    "_OptimizerInfo", "_ProfilerEvent", "_PyFrameState", "_RecordFunctionFast", "_TensorMetadata",
]


class ActiveProfilerType(enum.Enum):
    """The kinds of profilers."""

    NONE, LEGACY, KINETO, NVTX, ITT, PRIVATEUSE1 = range(6)


def find_profiler_type() -> ActiveProfilerType:
    """Return the kind of profiler that is on."""
    if Recording.now is None:
        return ActiveProfilerType.NONE
    return ActiveProfilerType.LEGACY if Recording.now.is_legacy else ActiveProfilerType.KINETO


class _ExperimentalConfig:
    """Options of kineto, stored unchanged; none affects what a profile records."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.__dict__.update(options)


class _RecordFunctionFast:
    """Labels the enclosed code, with values whose shapes are recorded."""

    def __init__(
        self, name: str, input_values: Iterable[Any] | None = None,
        keyword_values: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.input_values = list(input_values or ())
        self.keyword_values = dict(keyword_values or {})
        self._begin_ns = 0

    def __enter__(self) -> None:
        self._begin_ns = perf_counter_ns() if Recording.target is not None else 0

    def __exit__(self, *exception: object) -> None:
        recorder = Recording.target
        if recorder is None or self._begin_ns < recorder.began_ns:
            return
        shapes = [list(v.shape) if isinstance(v, Tensor) else [] for v in self.input_values] \
            if recorder.shapes else None
        recorder.events.append((
            self.name, self._begin_ns, perf_counter_ns(), threading.get_ident(), shapes,
            collect_user_stack(2) if recorder.stack else None, RecordScope.USER_SCOPE,
            Details(described=None if recorder.observer is None else (
                recorder.observer.describe(self.input_values), None, ""))))


def _record_function_with_args_enter(name: str, *args: Any) -> _RecordFunctionFast:
    """Begin a label with values whose shapes are recorded; return its handle."""
    label = _RecordFunctionFast(name, args)
    label.__enter__()
    return label


def _record_function_with_args_exit(handle: _RecordFunctionFast) -> None:
    """End the label."""
    handle.__exit__()


def _set_record_concrete_inputs_enabled_val(enabled: bool) -> None:
    """Set whether trace files include the scalar arguments of operators."""
    TraceSwitches.arguments = bool(enabled)


def _set_fwd_bwd_enabled_val(enabled: bool) -> None:
    """Set whether trace files link operators to the nodes of the backward pass."""
    TraceSwitches.links = bool(enabled)


_absent = make_absent_getattr("torch._C._profiler", (
    "symbolize_addresses", "gather_traceback", "symbolize_tracebacks", "CapturedTraceback",
    "ProfilerConfig", "_ExtraFields_Backend", "_ExtraFields_Kineto", "_ExtraFields_OutOfMemory",
    "_set_cuda_sync_enabled_val",
    "_set_record_concrete_inputs_enabled_fn", "_set_fwd_bwd_enabled_fn",
))


def __getattr__(name: str) -> Any:
    return _absent(name)
