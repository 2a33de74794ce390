"""torch.profiler: profiles of programs, over the steps selected by a schedule."""

from __future__ import annotations

from ..autograd.profiler import DeviceType as DeviceType
from ..autograd.traces.recorder import RecordScope as RecordScope
from ..autograd.profiler import KinetoStepTracker, kineto_available, record_function
from ..tensor.absent import make_absent_getattr
from . import _memory_profiler as _memory_profiler, _pattern_matcher as _pattern_matcher
from . import _utils as _utils
from .execution_trace import ExecutionTraceObserver
from .flame_graph import write_flame_graph
from .profile import ProfilerActivity, profile, supported_activities, tensorboard_trace_handler
from .schedule import ProfilerAction, schedule

__all__ = [
    "ExecutionTraceObserver", "KinetoStepTracker", "ProfilerAction", "ProfilerActivity",
    "kineto_available", "profile",
    "record_function", "schedule", "supported_activities", "tensorboard_trace_handler",
    "write_flame_graph",
]

__getattr__ = make_absent_getattr(__name__, ("itt", "profile_memory_timeline"))
