"""Chunks: the blocks of a tensor that this process has, for saving and loading."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...tensor import Tensor
from ..tensor import DTensor, Replicate, Shard
from ..tensor.placement_types import Partial, _StridedShard, sharded_dim

__all__ = ["Chunk", "list_chunks", "overlap"]


class Chunk(NamedTuple):
    """A block of a tensor: its start in the whole, and its memory."""

    offsets: tuple[int, ...]
    values: Tensor


def list_chunks(value: Tensor, once: bool = False) -> list[Chunk]:
    """Return the blocks of a tensor that this process has: all of a plain one.

    `once`: leave out those that a process with a lower coordinate has, too. A tensor of summands is
    summed first.
    """
    if not isinstance(value, DTensor):
        return [Chunk((0,) * value.dim(), value.detach())]
    if any(isinstance(p, Partial) for p in value.placements):
        value = value.redistribute(placements=[
            Replicate() if isinstance(p, Partial) else p for p in value.placements])
    mesh, placements = value.device_mesh, value.placements
    coordinate = mesh.get_coordinate()
    if coordinate is None or (once and any(
            at and isinstance(p, Replicate) for at, p in zip(coordinate, placements, strict=True))):
        return []
    local = value._local_tensor.detach()
    axes = [list(_find_runs(value, dim)) for dim in range(value.dim())]
    return [
        Chunk(tuple(run[1] for run in runs),
              local[tuple(slice(start, start + length) for start, _, length in runs)]
              if runs else local)
        for runs in itertools.product(*axes)
    ]


def _find_runs(value: DTensor, dim: int) -> Iterator[tuple[int, int, int]]:
    """Yield (local start, global start, length) of the runs of this process along an axis."""
    positions, mesh = np.arange(value.shape[dim]), value.device_mesh
    for axis, placement in enumerate(value.placements):
        if sharded_dim(placement) != dim:
            continue
        factor = placement.split_factor if isinstance(placement, _StridedShard) else 1
        parts = positions.reshape(factor, -1)
        size, start = Shard.local_shard_size_and_offset(
            parts.shape[1], mesh.size(axis), mesh.get_local_rank(axis))
        positions = parts[:, start : start + size].reshape(-1)
    if not positions.size:
        return
    breaks = [0, *(np.flatnonzero(np.diff(positions) != 1) + 1).tolist(), positions.size]
    for start, end in itertools.pairwise(breaks):
        yield start, int(positions[start]), end - start


def overlap(
    offsets: tuple[int, ...], sizes: tuple[int, ...], chunk: Chunk
) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Return the windows of a saved block and of a chunk that they share; None if they share none.
    """
    saved, own = [], []
    for start, size, other, length in zip(offsets, sizes, chunk.offsets, chunk.values.shape,
                                          strict=True):
        low, high = max(start, other), min(start + size, other + length)
        if low >= high:
            return None
        saved.append(slice(low - start, high - start))
        own.append(slice(low - other, high - other))
    return tuple(saved), tuple(own)
