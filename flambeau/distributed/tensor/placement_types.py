"""Placements: how a tensor is distributed over one axis of a device mesh.

`Shard` cuts it along an axis of its own, `Replicate` copies it, `Partial` leaves one summand of it
in each process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import ops
from ...tensor import Tensor

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """Base class of placements."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether each process has a slice of the tensor, cut along `dim` if given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Return whether each process has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether each process has a summand of the tensor, to be reduced by `reduce_op`."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """One slice along `dim` per process. The first slices have ceil(n / processes) elements.

    >>> torch.distributed.tensor.Shard(1)
    Shard(dim=1)
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """Return the length and the offset of a process's slice.

        >>> torch.distributed.tensor.Shard.local_shard_size_and_offset(5, 2, 1)
        (2, 3)
        """
        chunk = -(-curr_local_size // num_chunks)
        start = min(rank * chunk, curr_local_size)
        return min(chunk, curr_local_size - start), start

    def _split_tensor(
        self, tensor: Tensor, num_chunks: int, *, with_padding: bool = True,
        contiguous: bool = True,
    ) -> tuple[list[Tensor], list[int]]:
        """Return the slices of all processes, filled up with zeros to equal lengths if asked for,
        and how much was added to each."""
        size, parts, added = tensor.shape[self.dim], [], []
        longest = -(-size // num_chunks)
        for rank in range(num_chunks):
            length, start = self.local_shard_size_and_offset(size, num_chunks, rank)
            part = tensor.narrow(self.dim, start, length)
            missing = (longest - length) * with_padding
            if missing:
                shape = [*part.shape]
                shape[self.dim] = missing
                part = ops.cat([part, part.new_zeros(shape)], self.dim)
            parts.append(part.contiguous() if contiguous else part)
            added.append(longest - length)
        return parts, added


@dataclass(frozen=True)
class _StridedShard(Placement):
    """A slice along `dim` of each of its `split_factor` parts: a shard of an axis inside."""

    dim: int
    split_factor: int

    def __init__(self, dim: int, *, split_factor: int) -> None:
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "split_factor", split_factor)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """The whole tensor on each process.

    >>> torch.distributed.tensor.Replicate().is_replicate()
    True
    """

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """A summand of the tensor on each process, to be reduced by `reduce_op`.

    >>> torch.distributed.tensor.Partial("avg")
    Partial(avg)
    """

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


@dataclass(frozen=True)
class _NormPartial(Partial):
    """The norm of each process's part; the norm of those is the whole's."""

    reduce_op: str = "sum"
    norm_type: Any = 2

    def __repr__(self) -> str:
        return f"_NormPartial({self.norm_type})"

    def __str__(self) -> str:
        return f"_NP({self.norm_type})"


def sharded_dim(placement: Placement) -> int | None:
    """Return the axis that a placement cuts, None if it cuts none."""
    return placement.dim if isinstance(placement, (Shard, _StridedShard)) else None


def moved_shard(placement: Placement, dim: int) -> Placement:
    """Return the same cut along another axis."""
    if isinstance(placement, _StridedShard):
        return _StridedShard(dim, split_factor=placement.split_factor)
    return Shard(dim)


PLACEMENTS = (Partial, Placement, Replicate, Shard, _StridedShard)
