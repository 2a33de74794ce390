"""DTensorSpec: a global tensor's shape and dtype, and how it is distributed over a mesh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..device_mesh import DeviceMesh
from .placement_types import (
    Partial, Placement, Replicate, Shard, _StridedShard, moved_shard, sharded_dim,
)

__all__ = ["DTensorSpec", "TensorMeta", "normalize_placements"]


class TensorMeta(NamedTuple):
    """The shape, strides and dtype of a global tensor."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class DTensorSpec:
    """One placement for each mesh axis, and the global tensor's metadata."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta

    @property
    def shape(self) -> tuple[int, ...]:
        """The global shape."""
        return self.tensor_meta.shape

    @property
    def ndim(self) -> int:
        """The number of the global tensor's axes."""
        return len(self.tensor_meta.shape)

    @property
    def stride(self) -> tuple[int, ...]:
        """The strides that the global tensor would have."""
        return self.tensor_meta.stride

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of this process's part."""
        return find_local_part(self.shape, self.mesh, self.placements)[0]

    @property
    def nbytes(self) -> int:
        """The size of the global tensor in bytes."""
        return math.prod(self.shape) * self.tensor_meta.dtype.itemsize

    def with_placements(self, placements: Sequence[Placement]) -> DTensorSpec:
        """Return the spec of the same tensor with other placements."""
        return DTensorSpec(self.mesh, tuple(placements), self.tensor_meta)

    def __str__(self) -> str:
        name = _SHORT_NAMES.get(str(self.tensor_meta.dtype), str(self.tensor_meta.dtype))
        placements = "".join(map(str, self.placements))
        return f"Spec({name}[{', '.join(map(str, self.shape))}]({placements}))"


_SHORT_NAMES = {
    f"torch.{kind}{bits}": f"{short}{bits}"
    for kind, short in (("float", "f"), ("int", "i"), ("uint", "u"), ("complex", "c"))
    for bits in (8, 16, 32, 64, 128)
} | {"torch.bfloat16": "bf16", "torch.bool": "b8"}


def find_local_part(
    shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of this process's part, and its offsets in the global tensor.

    Outer mesh axes cut first. Offsets within strided shards are those of their first element.
    """
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return (0,), (0,)
    sizes, offsets = list(shape), [0] * len(shape)
    for axis, placement in enumerate(placements):
        dim = sharded_dim(placement)
        if dim is None:
            continue
        parts, rank = mesh.size(axis), coordinate[axis]
        factor = placement.split_factor if isinstance(placement, _StridedShard) else 1
        size, start = Shard.local_shard_size_and_offset(sizes[dim] // factor, parts, rank)
        sizes[dim], offsets[dim] = size * factor, offsets[dim] + start
    return tuple(sizes), tuple(offsets)


def normalize_placements(
    placements: Sequence[Placement] | None, mesh: DeviceMesh, ndim: int
) -> tuple[Placement, ...]:
    """Return one placement per mesh axis, with axes counted from the front.

    Raises ValueError for another number of placements.
    """
    if placements is None:
        return (Replicate(),) * mesh.ndim
    if len(placements) != mesh.ndim:
        raise ValueError("`placements` must have the same length as `device_mesh.ndim`! Found "
                         f"placements length: {len(placements)}, and device_mesh.ndim: "
                         f"{mesh.ndim}.")
    result: list[Placement] = []
    for placement in placements:
        dim = sharded_dim(placement)
        result.append(moved_shard(placement, dim + ndim) if dim is not None and dim < 0
                      else placement)
    return tuple(result)


def dense_strides(shape: Sequence[int], local: Sequence[int]) -> tuple[int, ...]:
    """Return strides of a global tensor whose axes lie in memory in the order of a local part's."""
    strides = [0] * len(shape)
    step = 1
    for dim in sorted(range(len(shape)), key=lambda d: (local[d], -d)):
        if local[dim] == 0 and shape[dim] != 1:  # an expanded axis
            continue
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def whole_summands(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """Return the placements of a gradient: every summand of a tensor has the whole gradient."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)


def normalize_gradient(spec: DTensorSpec, wanted: Sequence[Placement]) -> tuple[Placement, ...]:
    """Return the placements `wanted` of a gradient, which a sum has if it does already."""
    return tuple(Replicate() if isinstance(after, Partial) and not isinstance(before, Partial)
                 else after for before, after in zip(spec.placements, wanted, strict=True))
