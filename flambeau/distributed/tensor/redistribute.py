"""Changing a tensor's placements: which collective runs on which mesh axis, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from ... import ops
from ...tensor import Tensor
from .. import collectives
from ..device_mesh import DeviceMesh
from ..reduce_op import ReduceOp
from .placement_types import (
    Partial, Placement, Replicate, Shard, _NormPartial, _StridedShard, sharded_dim,
)
from .spec import DTensorSpec, find_local_part

__all__ = ["estimate_cost", "redistribute_local"]

# Observers of the collectives run here, by name: `CommDebugMode` adds one.
OBSERVERS: list[Callable[[str], None]] = []

_OPS = {"sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "max": ReduceOp.MAX, "min": ReduceOp.MIN,
        "product": ReduceOp.PRODUCT}
# Starting a collective costs as much as sending this many bytes.
_START_BYTES = 1 << 16


def _announce(name: str) -> None:
    for observe in OBSERVERS:
        observe(name)


# ------------------------------------------------------------------------------ the plan


def plan_steps(
    current: Sequence[Placement], wanted: Sequence[Placement]
) -> Iterator[tuple[int, Placement, Placement]]:
    """Yield (mesh axis, placement before, placement after) steps from `current` to `wanted`.

    Where several mesh axes cut one tensor axis, the inner ones are undone before an outer one
    changes, and redone after it.
    """
    state = list(current)
    for axis in reversed(range(len(state))):
        source, there = state[axis], wanted[axis]
        keeps = source == there and _same_outside(state, wanted, axis, sharded_dim(source))
        if keeps:
            continue
        target = there if _same_outside(state, wanted, axis, sharded_dim(there)) else Replicate()
        if source == there:
            target = Replicate()
        if target != source:
            yield axis, source, target
            state[axis] = target
    for axis, there in enumerate(wanted):
        if state[axis] != there:
            yield axis, state[axis], there
            state[axis] = there


def _same_outside(
    state: Sequence[Placement], target: Sequence[Placement], axis: int, dim: int | None
) -> bool:
    """Return whether the mesh axes outside of `axis` cut `dim` already as they will."""
    if dim is None:
        return True
    return all(a == b or (sharded_dim(a) != dim and sharded_dim(b) != dim)
               for a, b in zip(state[:axis], target[:axis], strict=True))


def redistribute_local(
    local: Tensor, current: DTensorSpec, wanted: Sequence[Placement]
) -> Tensor:
    """Return this process's part of the tensor under other placements."""
    mesh, state = current.mesh, list(current.placements)
    if mesh.get_coordinate() is None:
        return local
    if local.is_meta:
        shape = find_local_part(current.shape, mesh, wanted)[0]
        return ops.empty(shape, dtype=local.dtype, device="meta")
    for axis, before, after in plan_steps(current.placements, wanted):
        others = [Replicate() if a == axis else p for a, p in enumerate(state)]
        shape = find_local_part(current.shape, mesh, others)[0]  # what this axis cuts
        local = _change(local, shape, mesh, axis, before, after)
        state[axis] = after
    return local


def _change(
    local: Tensor, shape: Sequence[int], mesh: DeviceMesh, axis: int, before: Placement,
    after: Placement,
) -> Tensor:
    """Change the placement along one mesh axis. `shape`: the part's, without a cut along it."""
    if isinstance(before, Partial):
        if isinstance(after, Partial):
            raise RuntimeError(f"redistribute from {before} to {after} not supported yet")
        _announce("all_reduce" if isinstance(after, Replicate) else "reduce_scatter_tensor")
        reduced = _reduce(local, mesh, axis, before)
        return reduced if isinstance(after, Replicate) else cut(reduced, mesh, axis, after)
    if isinstance(before, Replicate):
        if isinstance(after, Partial):
            return _split_value(local, mesh, axis, after)
        return cut(local, mesh, axis, after)
    if isinstance(after, Partial):
        raise RuntimeError(f"redistribute from {before} to {after} not supported yet")
    if isinstance(before, Shard) and isinstance(after, Shard):
        _announce("all_to_all_single")
        return _exchange(local, shape, mesh, axis, before.dim, after.dim)
    reduced = gather_parts(local, shape, mesh, axis, before)
    return reduced if isinstance(after, Replicate) else cut(reduced, mesh, axis, after)


# ------------------------------------------------------------------------------ the steps


def _rank_on(mesh: DeviceMesh, axis: int) -> int:
    return mesh.get_local_rank(axis)


def cut(whole: Tensor, mesh: DeviceMesh, axis: int, placement: Placement) -> Tensor:
    """Return this process's slice of a tensor that the processes of a mesh axis have whole."""
    dim = sharded_dim(placement)
    assert dim is not None
    factor = placement.split_factor if isinstance(placement, _StridedShard) else 1
    if factor > 1:
        whole = whole.reshape((*whole.shape[:dim], factor, -1, *whole.shape[dim + 1 :]))
    at = dim + (factor > 1)
    size, start = Shard.local_shard_size_and_offset(
        whole.shape[at], mesh.size(axis), _rank_on(mesh, axis))
    part = whole.narrow(at, start, size)
    if factor > 1:
        return part.flatten(dim, at).contiguous()
    return part.contiguous() if mesh.size(axis) > 1 else part.clone()


def gather_parts(
    local: Tensor, shape: Sequence[int], mesh: DeviceMesh, axis: int, placement: Placement
) -> Tensor:
    """Return the whole tensor, of the given shape, from the slices along a mesh axis."""
    _announce("all_gather_into_tensor")
    dim, parts = sharded_dim(placement), mesh.size(axis)
    assert dim is not None
    factor = placement.split_factor if isinstance(placement, _StridedShard) else 1
    chunk = -(-(shape[dim] // factor) // parts)
    if factor > 1:
        local = local.reshape((*local.shape[:dim], factor, -1, *local.shape[dim + 1 :]))
        dim += 1
    sizes = [Shard.local_shard_size_and_offset(shape[dim - (factor > 1)] // factor, parts, r)[0]
             for r in range(parts)]
    padded = _pad(local, dim, chunk)
    rows = ops.empty((parts, *padded.shape), dtype=local.dtype)
    collectives.all_gather_into_tensor(rows, padded, mesh.get_group(axis))
    if dim == 0 and all(size == chunk for size in sizes):
        return rows.flatten(0, 1)
    gathered = ops.cat([row.narrow(dim, 0, size) for row, size in zip(rows, sizes, strict=True)],
                       dim)
    return gathered.flatten(dim - 1, dim) if factor > 1 else gathered


def _pad(local: Tensor, dim: int, size: int) -> Tensor:
    """Return a contiguous tensor of `size` along an axis, filled up with zeros."""
    missing = size - local.shape[dim]
    if not missing:
        return local.contiguous()
    shape = list(local.shape)
    shape[dim] = missing
    return ops.cat([local, ops.zeros(shape, dtype=local.dtype)], dim)


def _exchange(
    local: Tensor, shape: Sequence[int], mesh: DeviceMesh, axis: int, before: int, after: int
) -> Tensor:
    """Cut along another axis: each process sends each other one what it has of its slice."""
    parts, at = mesh.size(axis), _rank_on(mesh, axis)
    windows = [Shard.local_shard_size_and_offset(shape[after], parts, r) for r in range(parts)]
    sent = [local.narrow(after, start, size).contiguous() for size, start in windows]
    received = []
    for rank in range(parts):
        size = list(shape)
        size[before] = Shard.local_shard_size_and_offset(shape[before], parts, rank)[0]
        size[after] = windows[at][0]
        received.append(ops.empty(size, dtype=local.dtype))
    collectives.all_to_all(received, sent, mesh.get_group(axis))
    return ops.cat(received, before)


def _reduce(local: Tensor, mesh: DeviceMesh, axis: int, placement: Partial) -> Tensor:
    """Return the sum (or another reduction) of the processes' summands."""
    group = mesh.get_group(axis)
    if isinstance(placement, _NormPartial):
        order = float(placement.norm_type)
        if math.isinf(order):
            total = local.clone()
            collectives.all_reduce(total, ReduceOp.MAX if order > 0 else ReduceOp.MIN, group)
            return total
        powers = local ** order if order else local.clone()
        collectives.all_reduce(powers, ReduceOp.SUM, group)
        return powers ** (1.0 / order) if order else powers
    total = local.clone().contiguous()
    collectives.all_reduce(total, _OPS[placement.reduce_op], group)
    return total


def _split_value(local: Tensor, mesh: DeviceMesh, axis: int, placement: Partial) -> Tensor:
    """Return this process's summand of a tensor that each process has whole."""
    if placement.reduce_op == "sum" and not isinstance(placement, _NormPartial):
        return local.clone() if _rank_on(mesh, axis) == 0 else ops.zeros_like(local)
    return local


# ------------------------------------------------------------------------------ the cost


def estimate_cost(spec: DTensorSpec, axis: int, wanted: Placement) -> float:
    """Return the bytes that a change of placement along one mesh axis sends, inf if impossible."""
    placement, parts = spec.placements[axis], max(spec.mesh.size(axis), 2)  # one decides as two do
    if placement == wanted:
        return 0.0
    if isinstance(placement, Replicate):
        return 1.0 if isinstance(wanted, Partial) else 0.0
    if isinstance(wanted, Partial):
        return math.inf
    others = math.prod(spec.mesh.size(a) for a, p in enumerate(spec.placements)
                       if a != axis and sharded_dim(p) is not None)
    sent = _START_BYTES + spec.nbytes / others * (parts - 1) / parts
    if isinstance(placement, Partial):
        return 2 * sent if isinstance(wanted, Replicate) else sent
    return sent if isinstance(wanted, Replicate) else sent + spec.nbytes / others
