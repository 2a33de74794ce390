"""torch.distributed.elastic.multiprocessing.tail_log: print output files as they grow."""

from .logs import TailLog

__all__ = ["TailLog"]
