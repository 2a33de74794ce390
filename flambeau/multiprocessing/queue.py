"""Queues that send tensors through shared memory."""

from __future__ import annotations

import io
import multiprocessing.queues
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

__all__ = ["ConnectionWrapper", "Queue", "SimpleQueue"]


class ConnectionWrapper:
    """A connection that pickles with multiprocessing's reducers, which tensors have."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn

    def send(self, obj: Any) -> None:
        """Pickle and send an object."""
        buffer = io.BytesIO()
        ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(obj)
        self.send_bytes(buffer.getvalue())

    def recv(self) -> Any:
        """Receive and unpickle an object."""
        return pickle.loads(self.recv_bytes())

    def __getattr__(self, name: str) -> Any:
        if "conn" in self.__dict__:
            return getattr(self.conn, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute 'conn'")


class Queue(multiprocessing.queues.Queue):
    """multiprocessing's queue, for tensors."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        queue: Any = self
        queue._reader, queue._writer = map(ConnectionWrapper, (queue._reader, queue._writer))
        queue._send, queue._recv = queue._writer.send, queue._reader.recv


class SimpleQueue(multiprocessing.queues.SimpleQueue):
    """multiprocessing's simple queue, for tensors."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._wrap()

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self._wrap()

    def _wrap(self) -> None:
        queue: Any = self
        if not isinstance(queue._reader, ConnectionWrapper):
            queue._reader, queue._writer = map(ConnectionWrapper, (queue._reader, queue._writer))
