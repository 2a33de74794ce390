"""The training engine: one mechanism for decorators, hooks, callbacks and generators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .events.order import CHECKPOINT, CONTROL, IO, METRICS, OUTER, USER, Band
from .events.event import Event, Events as EventSet
from .events.handlers import Handle
from .loop.loop import Loop
from .loop.run import MissingMetric
from .events.callback_decorator import callback
from .state.epoch_numbers import Outcome
from .events.other_libraries import IgniteEvents as Events
from .events.scope import (
    Scope, backward, epoch, fetch, forward, optim, predict, run, step, stopped, test, train, valid,
)
from .state.state import State
from .trainer import Trainer
from .training_step.trainable_module import TrainableModule

if TYPE_CHECKING:
    from .callbacks.averaging import EMA, SWA
    from .callbacks.batch_size_finder import BatchSizeFinder
    from .checkpointing.checkpoint import Checkpoint
    from .callbacks.clipping import GradientClipping
    from .callbacks.divergence import TerminateOnNaN
    from .callbacks.early_stopping import EarlyStopping
    from .reporting.experiment import Experiment
    from .callbacks.freeze import Freeze, Unfreeze
    from .kfold import KFold, cross_validate
    from .loggers import CSVLogger, JSONLogger, MLflowLogger, TensorBoardLogger, WandbLogger
    from .callbacks.lr_finder import LRFinder
    from .callbacks.memory_monitor import MemoryMonitor
    from .reporting.learning_curves import PlotCurves
    from .reporting.progress import Progress
    from .checkpointing.resume import Resume
    from .callbacks.lr_schedule import Schedule
    from .callbacks.time_limit import TimeLimit
    from .reporting.timers import HandlerProfile, Timers
    from .callbacks.warmup import Warmup

# Callbacks that are imported when they are first asked for, by their module.
_CALLBACKS = {
    **dict.fromkeys(("EMA", "SWA"), "callbacks.averaging"),
    **dict.fromkeys(("Freeze", "Unfreeze"), "callbacks.freeze"),
    **dict.fromkeys(("HandlerProfile", "Timers"), "reporting.timers"),
    **dict.fromkeys(("KFold", "cross_validate"), "kfold"),
    **dict.fromkeys(
        ("CSVLogger", "JSONLogger", "MLflowLogger", "TensorBoardLogger", "WandbLogger"), "loggers"
    ),
    "BatchSizeFinder": "callbacks.batch_size_finder",
    "Checkpoint": "checkpointing.checkpoint",
    "EarlyStopping": "callbacks.early_stopping",
    "Experiment": "reporting.experiment",
    "GradientClipping": "callbacks.clipping",
    "LRFinder": "callbacks.lr_finder",
    "MemoryMonitor": "callbacks.memory_monitor",
    "PlotCurves": "reporting.learning_curves",
    "Progress": "reporting.progress",
    "Resume": "checkpointing.resume",
    "Schedule": "callbacks.lr_schedule",
    "TerminateOnNaN": "callbacks.divergence",
    "TimeLimit": "callbacks.time_limit",
    "Warmup": "callbacks.warmup",
}

__all__ = [
    "CHECKPOINT", "CONTROL", "EMA", "IO", "METRICS", "OUTER", "SWA", "USER", "Band",
    "BatchSizeFinder", "CSVLogger", "Checkpoint", "EarlyStopping", "Event", "EventSet", "Events",
    "Experiment", "Freeze", "GradientClipping", "Handle", "HandlerProfile", "JSONLogger", "KFold",
    "LRFinder", "Loop", "MLflowLogger", "MemoryMonitor", "MissingMetric", "Outcome", "PlotCurves",
    "Progress", "Resume", "Schedule", "Scope", "State", "TensorBoardLogger", "TerminateOnNaN",
    "TimeLimit", "Timers", "TrainableModule", "Trainer", "Unfreeze", "WandbLogger", "Warmup",
    "backward", "callback", "cross_validate", "epoch", "fetch", "forward", "optim", "predict",
    "run", "step", "stopped", "test", "train", "valid",
]


def __getattr__(name: str) -> Any:
    module = _CALLBACKS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{module}", __name__), name)
