"""The training engine: one mechanism for decorators, hooks, callbacks and generators."""

from __future__ import annotations

from .bands import CONTROL, IO, METRICS, OUTER, USER, Band
from .event import Event, Events as EventSet
from .handlers import Handle
from .loop import Loop, MissingMetric
from .marks import callback
from .measures import Outcome
from .names import IgniteEvents as Events
from .scope import (
    Scope, backward, epoch, fetch, forward, optim, predict, run, step, stopped, test, train, valid,
)  # fmt: skip
from .state import State
from .trainer import Trainer

__all__ = [
    "CONTROL", "IO", "METRICS", "OUTER", "USER", "Band", "Event", "EventSet", "Events", "Handle",
    "Loop", "MissingMetric", "Outcome", "Scope", "State", "Trainer", "backward", "callback",
    "epoch", "fetch", "forward", "optim", "predict", "run", "step", "stopped", "test", "train",
    "valid",
]  # fmt: skip
