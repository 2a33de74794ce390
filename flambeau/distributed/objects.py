"""Collectives on Python objects, sent as pickles.

Unpickling can run arbitrary code: use them only among processes that trust each other.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from .engines.engine import Array
from .collective_launch import launch
from .process_group import NON_MEMBER, ProcessGroup, member, rank_in

__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list",
    "scatter_object_list", "send_object_list",
]


def _packed(value: Any) -> Array:
    file = io.BytesIO()
    pickle.Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return np.frombuffer(bytearray(file.getbuffer()), np.uint8)


def _unpacked(data: Array) -> Any:
    return pickle.loads(data.tobytes())


def _sizes(pg: ProcessGroup, size: int) -> list[int]:
    """Gather each member's number of bytes."""
    sizes = np.empty((pg.size(), 1), np.int64)
    pg._engine.all_gather(sizes, np.array([size], np.int64))
    return [int(value) for value in sizes[:, 0]]


def _all_pickles(pg: ProcessGroup, obj: Any, root: int | None) -> list[Any]:
    """Gather each member's object, padded to the longest pickle. With a root, others get []."""
    data = _packed(obj)
    sizes = _sizes(pg, data.size)
    padded = np.zeros(max(sizes), np.uint8)
    padded[: data.size] = data
    rows = np.empty((pg.size(), padded.size), np.uint8)
    if root is None:
        pg._engine.all_gather(rows, padded)
    else:
        pg._engine.gather(rows if pg.rank() == root else None, padded, root)
        if pg.rank() != root:
            return []
    return [_unpacked(row[:size]) for row, size in zip(rows, sizes, strict=True)]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Copy each process's object into `object_list`."""
    if group == NON_MEMBER:
        return
    pg = member(group)
    if len(object_list) != pg.size():
        raise ValueError(f"object_list has {len(object_list)} elements for a group of {pg.size()}")
    result: list[Any] = []
    launch(pg, "ALLGATHER", lambda: result.extend(_all_pickles(pg, obj, None)), [], [], False)
    object_list[:] = result


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
                  group: Any = None, group_dst: int | None = None) -> None:
    """Copy each process's object into `object_gather_list` of process `dst` (default 0)."""
    if group == NON_MEMBER:
        return
    pg = member(group)
    root = 0 if dst is None and group_dst is None else rank_in(pg, dst, group_dst)
    if pg.rank() == root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if pg.rank() != root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    result: list[Any] = []
    launch(pg, "GATHER", lambda: result.extend(_all_pickles(pg, obj, root)), [], [], False)
    if object_gather_list is not None:
        object_gather_list[:] = result


def _broadcast_pickle(pg: ProcessGroup, value: Any, root: int) -> Any:
    """Broadcast the root's object and return it."""
    data = _packed(value) if pg.rank() == root else np.empty(0, np.uint8)
    size = np.array([data.size], np.int64)
    pg._engine.broadcast(size, root)
    if pg.rank() != root:
        data = np.empty(int(size[0]), np.uint8)
    pg._engine.broadcast(data, root)
    return value if pg.rank() == root else _unpacked(data)


def broadcast_object_list(object_list: list[Any], src: int | None = None, group: Any = None,
                          device: Any = None, group_src: int | None = None) -> None:
    """Copy the objects of process `src` (default 0) to every process."""
    if group == NON_MEMBER:
        return
    pg = member(group)
    root = 0 if src is None and group_src is None else rank_in(pg, src, group_src)
    result: list[Any] = []
    launch(pg, "BROADCAST", lambda: result.extend(_broadcast_pickle(pg, object_list, root)), [], [],
           False)
    if len(result) != len(object_list):
        raise ValueError(f"object_list has {len(object_list)} elements, and {len(result)} on the "
                         "source rank")
    object_list[:] = result


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
    pg = member(group)
    root = 0 if src is None and group_src is None else rank_in(pg, src, group_src)
    objects = scatter_object_input_list
    if pg.rank() == root and (objects is None or len(objects) != pg.size()):
        raise ValueError("Expected argument scatter_object_input_list to have an object for each "
                         "rank")
    result: list[Any] = []
    launch(
        pg, "SCATTER", lambda: result.append(_broadcast_pickle(pg, objects, root)), [], [], False
    )
    scatter_object_output_list[0] = result[0][pg.rank()]


def send_object_list(object_list: list[Any], dst: int | None = None, group: Any = None,
                     device: Any = None, group_dst: int | None = None,
                     use_batch: bool = False) -> None:
    """Send objects to process `dst`, which calls `recv_object_list`."""
    pg = member(group)
    peer = rank_in(pg, dst, group_dst)
    data = _packed(list(object_list))

    def call() -> None:
        pg._engine.send(np.array([data.size], np.int64), peer, 0)
        pg._engine.send(data, peer, 0)

    pg._communicator.run(call, lane=("send", peer, 0))


def recv_object_list(object_list: list[Any], src: int | None = None, group: Any = None,
                     device: Any = None, group_src: int | None = None,
                     use_batch: bool = False) -> int:
    """Receive the objects sent by process `src`; return the sender's rank."""
    pg = member(group)
    peer = None if src is None and group_src is None else rank_in(pg, src, group_src)
    result: list[Any] = []

    def call() -> None:
        size = np.empty(1, np.int64)
        sender = pg._engine.receive(size, peer, 0)
        data = np.empty(int(size[0]), np.uint8)
        pg._engine.receive(data, sender, 0)
        result.extend((sender, _unpacked(data)))

    pg._communicator.run(call, lane=("receive", peer, 0))
    object_list[:] = result[1]
    return pg._ranks[result[0]]
