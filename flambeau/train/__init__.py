"""The training engine: one mechanism for decorators, hooks, callbacks and generators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from .experiment import Experiment
    from .loggers import CSVLogger, JSONLogger, MLflowLogger, TensorBoardLogger, WandbLogger
    from .plots import PlotCurves
    from .progress import Progress
    from .time_limit import TimeLimit
    from .timers import HandlerProfile, Timers

# Callbacks that are imported when they are first asked for, by their module.
_CALLBACKS = {
    "CSVLogger": "loggers", "Experiment": "experiment", "HandlerProfile": "timers",
    "JSONLogger": "loggers", "MLflowLogger": "loggers", "PlotCurves": "plots",
    "Progress": "progress", "TensorBoardLogger": "loggers", "TimeLimit": "time_limit",
    "Timers": "timers", "WandbLogger": "loggers",
}  # fmt: skip

__all__ = [
    "CONTROL", "IO", "METRICS", "OUTER", "USER", "Band", "CSVLogger", "Event", "EventSet",
    "Events", "Experiment", "Handle", "HandlerProfile", "JSONLogger", "Loop", "MLflowLogger",
    "MissingMetric", "Outcome", "PlotCurves", "Progress", "Scope", "State", "TensorBoardLogger",
    "TimeLimit", "Timers", "Trainer", "WandbLogger", "backward", "callback", "epoch", "fetch",
    "forward", "optim", "predict", "run", "step", "stopped", "test", "train", "valid",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    module = _CALLBACKS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{module}", __name__), name)
