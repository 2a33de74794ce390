"""torch.distributed.elastic.events: record what launchers and workers do."""

from __future__ import annotations

import logging
import os
import socket
import sys
import traceback

from .api import Event, EventMetadataValue, EventSource, NodeState, RdzvEvent
from .handlers import get_logging_handler

__all__ = ["Event", "EventMetadataValue", "EventSource", "NodeState", "RdzvEvent",
           "construct_and_record_rdzv_event", "get_logging_handler", "record",
           "record_rdzv_event"]

_events_loggers: dict[str, logging.Logger] = {}


def _get_or_create_logger(destination: str = "null") -> logging.Logger:
    """Return the destination's logger, which does not pass messages on to the root."""
    logger = _events_loggers.get(destination)
    if logger is None:
        logger = logging.getLogger(f"torchelastic-events-{destination}")
        logger.setLevel(os.environ.get("LOGLEVEL", "INFO"))
        logger.propagate = False
        logger.addHandler(get_logging_handler(destination))
        _events_loggers[destination] = logger
    return logger


def record(event: Event, destination: str = "null") -> None:
    """Log an event."""
    _get_or_create_logger(destination).info(event.serialize())


def record_rdzv_event(event: RdzvEvent) -> None:
    """Log an event of a rendezvous."""
    _get_or_create_logger("dynamic_rendezvous").info(event.serialize())


def construct_and_record_rdzv_event(
    run_id: str, message: str, node_state: NodeState, name: str = "", hostname: str = "",
    pid: int | None = None, master_endpoint: str = "", local_id: int | None = None,
    rank: int | None = None,
) -> None:
    """Log what the calling function does in a rendezvous, if anything listens."""
    if isinstance(get_logging_handler("dynamic_rendezvous"), logging.NullHandler):
        return
    caller = sys._getframe(1).f_code
    trace = traceback.format_exc() if node_state == NodeState.FAILED else ""
    record_rdzv_event(RdzvEvent(
        name=f"{os.path.basename(caller.co_filename)}:{name or caller.co_name}",
        run_id=run_id, message=message, hostname=hostname or socket.getfqdn(),
        pid=pid or os.getpid(), node_state=node_state, master_endpoint=master_endpoint, rank=rank,
        local_id=local_id, error_trace=trace))
