"""Collectives on Python objects, sent as pickles.

Unpickling can run arbitrary code: use them only among processes that trust each other.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from .collective_launch import launch
from .engines.engine import Array
from .process_group import NON_MEMBER, ProcessGroup, rank_in, require_member

__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list",
    "scatter_object_list", "send_object_list",
]


def _pickle(value: Any) -> Array:
    file = io.BytesIO()
    pickle.Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return np.frombuffer(bytearray(file.getbuffer()), np.uint8)


def _unpickle(data: Array) -> Any:
    return pickle.loads(data.tobytes())


def _gather_sizes(pg: ProcessGroup, size: int) -> list[int]:
    """Gather each member's number of bytes."""
    sizes = np.empty((pg.size(), 1), np.int64)
    pg._engine.all_gather(sizes, np.array([size], np.int64))
    return [int(value) for value in sizes[:, 0]]


def _gather_objects(pg: ProcessGroup, obj: Any, root: int | None) -> list[Any]:
    """Gather each member's object, padded to the longest pickle. With a root, others get []."""
    data = _pickle(obj)
    sizes = _gather_sizes(pg, data.size)
    padded = np.zeros(max(sizes), np.uint8)
    padded[: data.size] = data
    rows = np.empty((pg.size(), padded.size), np.uint8)
    if root is None:
        pg._engine.all_gather(rows, padded)
    else:
        pg._engine.gather(rows if pg.rank() == root else None, padded, root)
        if pg.rank() != root:
            return []
    return [_unpickle(row[:size]) for row, size in zip(rows, sizes, strict=True)]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Copy each process's object into `object_list`."""
    if group == NON_MEMBER:
        return
    pg = require_member(group)
    if len(object_list) != pg.size():
        raise ValueError(f"object_list has {len(object_list)} elements for a group of {pg.size()}")
    result: list[Any] = []
    launch(pg, "ALLGATHER", lambda: result.extend(_gather_objects(pg, obj, None)), [], [], False)
    object_list[:] = result


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
                  group: Any = None, group_dst: int | None = None) -> None:
    """Copy each process's object into `object_gather_list` of process `dst` (default 0)."""
    if group == NON_MEMBER:
        return
    pg = require_member(group)
    root = 0 if dst is None and group_dst is None else rank_in(pg, dst, group_dst)
    if pg.rank() == root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if pg.rank() != root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    result: list[Any] = []
    launch(pg, "GATHER", lambda: result.extend(_gather_objects(pg, obj, root)), [], [], False)
    if object_gather_list is not None:
        object_gather_list[:] = result


def _broadcast_object(pg: ProcessGroup, value: Any, root: int) -> Any:
    """Broadcast the root's object and return it."""
    data = _pickle(value) if pg.rank() == root else np.empty(0, np.uint8)
    size = np.array([data.size], np.int64)
    pg._engine.broadcast(size, root)
    if pg.rank() != root:
        data = np.empty(int(size[0]), np.uint8)
    pg._engine.broadcast(data, root)
    return value if pg.rank() == root else _unpickle(data)


def broadcast_object_list(object_list: list[Any], src: int | None = None, group: Any = None,
                          device: Any = None, group_src: int | None = None) -> None:
    """Copy the objects of process `src` (default 0) to every process."""
    if group == NON_MEMBER:
        return
    pg = require_member(group)
    root = 0 if src is None and group_src is None else rank_in(pg, src, group_src)
    result: list[Any] = []
    launch(pg, "BROADCAST", lambda: result.extend(_broadcast_object(pg, object_list, root)), [], [],
           False)
    if len(result) != len(object_list):
        raise ValueError(f"object_list has {len(object_list)} elements, and {len(result)} on the "
                         "source rank")
    object_list[:] = result


def _scatter_objects(pg: ProcessGroup, objects: list[Any] | None, root: int) -> Any:
    """Return this member's element of the root's list. Pickles are padded to the longest."""
    pickles = [_pickle(x) for x in objects] if objects is not None and pg.rank() == root else None
    sizes = np.empty(pg.size(), np.int64)
    if pickles is not None:
        sizes[:] = [data.size for data in pickles]
    pg._engine.broadcast(sizes, root)
    padded = np.empty(int(sizes.max()), np.uint8)
    rows = None
    if pickles is not None:
        rows = [np.zeros_like(padded) for _ in pickles]
        for row, data in zip(rows, pickles, strict=True):
            row[: data.size] = data
    pg._engine.scatter(padded, rows, root)
    return _unpickle(padded[: int(sizes[pg.rank()])])


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
) -> None:
    """Store this process's element of the list on process `src` as the output's element 0."""
    if group == NON_MEMBER:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at "
                         "least 1.")
    pg = require_member(group)
    root = 0 if src is None and group_src is None else rank_in(pg, src, group_src)
    objects = scatter_object_input_list
    if pg.rank() == root and (objects is None or len(objects) != pg.size()):
        raise ValueError("Expected argument scatter_object_input_list to have an object for each "
                         "rank")
    result: list[Any] = []
    launch(pg, "SCATTER", lambda: result.append(_scatter_objects(pg, objects, root)), [], [], False)
    scatter_object_output_list[0] = result[0]


def send_object_list(object_list: list[Any], dst: int | None = None, group: Any = None,
                     device: Any = None, group_dst: int | None = None,
                     use_batch: bool = False) -> None:
    """Send objects to process `dst`, which calls `recv_object_list`."""
    pg = require_member(group)
    peer = rank_in(pg, dst, group_dst)
    data = _pickle(list(object_list))

    def call() -> None:
        pg._engine.send(np.array([data.size], np.int64), peer, 0)
        pg._engine.send(data, peer, 0)

    pg._communicator.run(call, lane=("send", peer, 0))


def recv_object_list(object_list: list[Any], src: int | None = None, group: Any = None,
                     device: Any = None, group_src: int | None = None,
                     use_batch: bool = False) -> int:
    """Receive the objects sent by process `src`; return the sender's rank."""
    pg = require_member(group)
    peer = None if src is None and group_src is None else rank_in(pg, src, group_src)
    result: list[Any] = []

    def call() -> None:
        size = np.empty(1, np.int64)
        sender = pg._engine.receive(size, peer, 0)
        data = np.empty(int(size[0]), np.uint8)
        pg._engine.receive(data, sender, 0)
        result.extend((sender, _unpickle(data)))

    pg._communicator.run(call, lane=("receive", peer, 0))
    object_list[:] = result[1]
    return pg._ranks[result[0]]
