"""The training engine: one mechanism for decorators, hooks, callbacks and generators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .bands import CHECKPOINT, CONTROL, IO, METRICS, OUTER, USER, Band
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
    from .checkpoint import Checkpoint
    from .early_stopping import EarlyStopping
    from .experiment import Experiment
    from .loggers import CSVLogger, JSONLogger, MLflowLogger, TensorBoardLogger, WandbLogger
    from .plots import PlotCurves
    from .progress import Progress
    from .resume import Resume
    from .time_limit import TimeLimit
    from .timers import HandlerProfile, Timers

# Callbacks that are imported when they are first asked for, by their module.
_CALLBACKS = {
    "CSVLogger": "loggers", "Checkpoint": "checkpoint", "EarlyStopping": "early_stopping",
    "Experiment": "experiment", "HandlerProfile": "timers",
    "JSONLogger": "loggers", "MLflowLogger": "loggers", "PlotCurves": "plots",
    "Progress": "progress", "Resume": "resume", "TensorBoardLogger": "loggers",
    "TimeLimit": "time_limit", "Timers": "timers", "WandbLogger": "loggers",
}  # fmt: skip

__all__ = [
    "CHECKPOINT", "CONTROL", "IO", "METRICS", "OUTER", "USER", "Band", "CSVLogger",
    "Checkpoint", "EarlyStopping", "Event", "EventSet",
    "Events", "Experiment", "Handle", "HandlerProfile", "JSONLogger", "Loop", "MLflowLogger",
    "MissingMetric", "Outcome", "PlotCurves", "Progress", "Resume", "Scope", "State",
    "TensorBoardLogger",
    "TimeLimit", "Timers", "Trainer", "WandbLogger", "backward", "callback", "epoch", "fetch",
    "forward", "optim", "predict", "run", "step", "stopped", "test", "train", "valid",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    module = _CALLBACKS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{module}", __name__), name)
