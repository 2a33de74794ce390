"""Loggers: callbacks that write a run's numbers to files and services."""

from __future__ import annotations

from .csv import CSVLogger
from .json_lines import JSONLogger
from .logger import Logger
from .service import MLflowLogger, WandbLogger
from .tensorboard import TensorBoardLogger

__all__ = [
    "CSVLogger", "JSONLogger", "Logger", "MLflowLogger", "TensorBoardLogger", "WandbLogger",
]
