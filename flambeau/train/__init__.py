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
    from .averaging import EMA, SWA
    from .checkpoint import Checkpoint
    from .clipping import GradientClipping
    from .divergence import TerminateOnNaN
    from .early_stopping import EarlyStopping
    from .experiment import Experiment
    from .freeze import Freeze, Unfreeze
    from .kfold import KFold, cross_validate
    from .loggers import CSVLogger, JSONLogger, MLflowLogger, TensorBoardLogger, WandbLogger
    from .lr_finder import LRFinder
    from .plots import PlotCurves
    from .progress import Progress
    from .resume import Resume
    from .schedule import Schedule
    from .time_limit import TimeLimit
    from .timers import HandlerProfile, Timers
    from .warmup import Warmup

# Callbacks that are imported when they are first asked for, by their module.
_CALLBACKS = {
    "CSVLogger": "loggers", "Checkpoint": "checkpoint", "EMA": "averaging",
    "EarlyStopping": "early_stopping", "Experiment": "experiment", "Freeze": "freeze",
    "GradientClipping": "clipping", "HandlerProfile": "timers", "JSONLogger": "loggers",
    "KFold": "kfold", "LRFinder": "lr_finder", "MLflowLogger": "loggers", "PlotCurves": "plots",
    "Progress": "progress", "Resume": "resume", "SWA": "averaging", "Schedule": "schedule",
    "TensorBoardLogger": "loggers", "TerminateOnNaN": "divergence", "TimeLimit": "time_limit",
    "Timers": "timers", "Unfreeze": "freeze", "WandbLogger": "loggers", "Warmup": "warmup",
    "cross_validate": "kfold",
}  # fmt: skip

__all__ = [
    "CHECKPOINT", "CONTROL", "EMA", "IO", "METRICS", "OUTER", "SWA", "USER", "Band", "CSVLogger",
    "Checkpoint", "EarlyStopping", "Event", "EventSet", "Events", "Experiment", "Freeze",
    "GradientClipping", "Handle", "HandlerProfile", "JSONLogger", "KFold", "LRFinder", "Loop",
    "MLflowLogger", "MissingMetric", "Outcome", "PlotCurves", "Progress", "Resume", "Schedule",
    "Scope", "State", "TensorBoardLogger", "TerminateOnNaN", "TimeLimit", "Timers", "Trainer",
    "Unfreeze", "WandbLogger", "Warmup", "backward", "callback", "cross_validate", "epoch", "fetch",
    "forward", "optim", "predict", "run", "step", "stopped", "test", "train", "valid",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    module = _CALLBACKS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{module}", __name__), name)
