"""torch.profiler.profiler: PyTorch's location of the profile and of its schedules."""

from .profile import ProfilerActivity, profile, supported_activities, tensorboard_trace_handler
from .schedule import ProfilerAction, _default_schedule_fn as _default_schedule_fn, schedule

__all__ = [
    "ProfilerAction", "ProfilerActivity", "profile", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]
