"""torch.distributed.elastic.multiprocessing.tail_log: output files shown as they grow."""

from .logs import TailLog

__all__ = ["TailLog"]
