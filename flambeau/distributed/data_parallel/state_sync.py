"""Synchronize a module's state: broadcast parameters and buffers from rank 0; compare shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...autograd.inplace import bump
from ...tensor import Tensor
from ..collective_launch import get_recorder
from ..process_group import ProcessGroup
from ..work import Work

_MAX_SHAPE = 8


class _Broadcast:
    """A broadcast of the root's arrays to all members, one call per dtype."""

    def __init__(self, group: ProcessGroup, root: int) -> None:
        self._group, self._root = group, root
        self._packed: list[np.ndarray] = []
        self._work: Work | None = None

    def start(self, arrays: Sequence[np.ndarray]) -> None:
        """Broadcast flat arrays in place on the group's thread."""
        self._packed = list(arrays)
        self._work = self._group._communicator.start(self._run)

    def _run(self) -> None:
        for array in self._packed:
            self._group._engine.broadcast(array, self._root)

    def finish(self) -> list[np.ndarray]:
        """Wait for the broadcast; return the root's arrays."""
        assert self._work is not None
        self._work.wait()
        return self._packed

    def run(self, arrays: list[np.ndarray]) -> None:
        """Broadcast flat arrays in place."""
        self._packed = arrays
        self._group._communicator.run(self._run)


def broadcast_tensors(tensors: Sequence[Tensor], group: ProcessGroup, root: int = 0) -> None:
    """Copy the root's values to all members, with one broadcast per dtype."""
    by_dtype: dict[np.dtype, list[Tensor]] = {}
    for tensor in tensors:
        if tensor._array.size:
            by_dtype.setdefault(tensor._array.dtype, []).append(tensor)
    if group.size() == 1 or not by_dtype:
        return
    groups, recorder = list(by_dtype.values()), get_recorder()
    packed = [
        np.concatenate([member._array.reshape(-1) for member in members]) for members in groups
    ]
    broadcast, transfer = _Broadcast(group, root), None
    if recorder is not None:
        from ...compiler.capture.record_exchange import Transfer

        transfer = Transfer(recorder, "broadcast", 1, group, broadcast.start, broadcast.finish)
        transfer.sends(packed, groups)
    broadcast.run(packed)
    if group.rank() != root:
        for members, array in zip(groups, packed, strict=True):
            _unpack(members, array)
    if transfer is not None:
        transfer.note_received(packed, groups)


def _unpack(tensors: Sequence[Tensor], packed: np.ndarray) -> None:
    """Copy consecutive slices of a flat array to tensors."""
    start = 0
    for tensor in tensors:
        size = tensor._array.size
        np.copyto(tensor._array, packed[start : start + size].reshape(tensor._array.shape))
        start += size
        bump(tensor)


def check_same_parameters(parameters: Sequence[Tensor], group: ProcessGroup) -> None:
    """Raise RuntimeError on all members if any has other parameters than rank 0."""
    size = group.size()
    if size == 1:
        return
    engine, here = group._engine, group.rank()
    counts = np.empty((size, 1), np.int64)
    count = np.array([len(parameters)], np.int64)
    group._communicator.run(lambda: engine.all_gather(counts, count))
    for rank in range(size):
        if counts[rank, 0] != len(parameters):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank {here} has {len(parameters)} "
                f"params, while rank {rank} has inconsistent {counts[rank, 0]} params."
            )
    shapes = np.zeros((len(parameters), _MAX_SHAPE), np.int64)
    for row, parameter in zip(shapes, parameters, strict=True):
        lengths = list(parameter.shape)[: _MAX_SHAPE - 1]
        row[0], row[1 : 1 + len(lengths)] = parameter._array.ndim, lengths
    first = shapes.copy()
    group._communicator.run(lambda: engine.broadcast(first, 0))
    differing = np.flatnonzero((first != shapes).any(axis=1))
    agreed = np.array([differing.size], np.int64)
    rows = np.empty((size, 1), np.int64)
    group._communicator.run(lambda: engine.all_gather(rows, agreed))
    if differing.size:
        number = int(differing[0])
        raise RuntimeError(
            f"[{here}]: params[{number}] in this process with sizes "
            f"{list(parameters[number].shape)} appears not to match sizes of the same param in "
            "process 0."
        )
    for rank in range(size):
        if rows[rank, 0]:
            raise RuntimeError(
                f"[{here}]: the parameters of rank {rank} do not match those of process 0."
            )
