"""torch.utils.tensorboard: event files for TensorBoard, written without it."""

from __future__ import annotations

from .event_file import FileWriter
from .records import RecordWriter
from .writer import SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
