"""Placements: descriptions of how a tensor is distributed over a device mesh.

They carry no behavior: flambeau has no DTensor. Programs name placements at the top of a file, even
for runs that do not use them.
"""

from __future__ import annotations

from dataclasses import dataclass


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
    """One slice along `dim` per process.

    >>> torch.distributed.tensor.Shard(1)
    Shard(dim=1)
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class _StridedShard(Placement):
    """Slices along `dim` after a split in `split_factor` for another mesh axis."""

    dim: int
    split_factor: int

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


PLACEMENTS = (Partial, Placement, Replicate, Shard, _StridedShard)
