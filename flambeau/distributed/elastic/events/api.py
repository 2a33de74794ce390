"""Events of a launcher and its workers, and of launchers that agree on a group."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Union

__all__ = ["Event", "EventMetadataValue", "EventSource", "NodeState", "RdzvEvent"]

EventMetadataValue = Union[str, int, float, bool, None]  # noqa: UP007  # as PyTorch's prints


class EventSource(str, Enum):  # noqa: UP042  # str() of a member is PyTorch's
    """Who produces an event."""

    AGENT = "AGENT"
    WORKER = "WORKER"


class NodeState(str, Enum):  # noqa: UP042
    """Where a machine is in a rendezvous."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass
class Event:
    """Something that happened at `timestamp` (milliseconds), with additional data.

    >>> from flambeau.distributed.elastic.events import Event, EventSource
    >>> text = Event("saved", EventSource.WORKER, metadata={"step": 3}).serialize()
    >>> Event.deserialize(text).metadata
    {'step': 3}
    """

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict[str, EventMetadataValue] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.serialize()

    @staticmethod
    def deserialize(data: str | Event) -> Event:
        """Return the event of a text that `serialize` wrote."""
        if isinstance(data, Event):
            return data
        fields = json.loads(data)
        fields["source"] = EventSource[fields["source"]]
        return Event(**fields)

    def serialize(self) -> str:
        """Return the event as JSON."""
        return json.dumps(asdict(self))


@dataclass
class RdzvEvent:
    """What a machine did in a rendezvous."""

    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""

    def __str__(self) -> str:
        return self.serialize()

    @staticmethod
    def deserialize(data: str | RdzvEvent) -> RdzvEvent:
        """Return the event of a text that `serialize` wrote."""
        if isinstance(data, RdzvEvent):
            return data
        fields = json.loads(data)
        fields["node_state"] = NodeState[fields["node_state"]]
        return RdzvEvent(**fields)

    def serialize(self) -> str:
        """Return the event as JSON."""
        return json.dumps(asdict(self))
