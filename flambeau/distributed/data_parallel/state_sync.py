"""Copies of a module's state: parameters and buffers become those of rank 0, and are compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...autograd.inplace import bump
from ...tensor import Tensor
from ..engines.engine import bytes_of
from ..collective_launch import refuse_compilation
from ..process_group import ProcessGroup

_MAX_SHAPE = 8


def broadcast_tensors(tensors: Sequence[Tensor], group: ProcessGroup, root: int = 0) -> None:
    """Gives all members the root's values: one broadcast for all tensors together."""
    arrays = [tensor._array for tensor in tensors if tensor._array.size]
    if group.size() == 1 or not arrays:
        return
    refuse_compilation("broadcast of buffers")
    packed = np.concatenate([bytes_of(np.ascontiguousarray(array)) for array in arrays])
    group._communicator.run(lambda: group._engine.broadcast(packed, root))
    if group.rank() == root:
        return
    at = 0
    for array in arrays:
        part = packed[at : at + array.nbytes]
        np.copyto(array, part.view(array.dtype).reshape(array.shape))
        at += array.nbytes
    for tensor in tensors:
        bump(tensor)


def check_same_parameters(parameters: Sequence[Tensor], group: ProcessGroup) -> None:
    """RuntimeError, on all members, where they have other parameters than rank 0."""
    size = group.size()
    if size == 1:
        return
    engine, here = group._engine, group.rank()
    counts = np.empty((size, 1), np.int64)
    own = np.array([len(parameters)], np.int64)
    group._communicator.run(lambda: engine.all_gather(counts, own))
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
    wrong = np.flatnonzero((first != shapes).any(axis=1))
    agreed = np.array([wrong.size], np.int64)
    rows = np.empty((size, 1), np.int64)
    group._communicator.run(lambda: engine.all_gather(rows, agreed))
    if wrong.size:
        at = int(wrong[0])
        raise RuntimeError(
            f"[{here}]: params[{at}] in this process with sizes {list(parameters[at].shape)} "
            "appears not to match sizes of the same param in process 0."
        )
    for rank in range(size):
        if rows[rank, 0]:
            raise RuntimeError(
                f"[{here}]: the parameters of rank {rank} do not match those of process 0."
            )
