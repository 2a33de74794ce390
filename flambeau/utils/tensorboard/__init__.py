"""torch.utils.tensorboard: event files for TensorBoard, through tensorboardX."""

from __future__ import annotations

try:
    from tensorboardX import RecordWriter
except ImportError as error:
    error.add_note("SummaryWriter needs tensorboardX: pip install 'flambeau[tensorboard]'")
    raise

from .event_file import FileWriter
from .writer import SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
