"""How a tensor lies on a mesh of processes: what `torch.distributed.tensor` calls placements.

They only say; tensors that lie on several processes (DTensor) are not in flambeau. Programs name
placements at the top of a file, in plans for runs that this one is not.
"""

from __future__ import annotations

from dataclasses import dataclass


class Placement:
    """The base of all placements."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each process has a part of the tensor, cut along `dim` if one is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each process has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether each process has a term of the tensor, to be reduced by `reduce_op`."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Cut along `dim`, a part for each process.

    >>> torch.distributed.tensor.Shard(1)
    Shard(dim=1)
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class _StridedShard(Placement):
    """Cut along `dim` after it was cut in `split_factor` for another axis of the mesh."""

    dim: int
    split_factor: int

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """The whole tensor in each process.

    >>> torch.distributed.tensor.Replicate().is_replicate()
    True
    """

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """A term of the tensor in each process, to be reduced by `reduce_op`.

    >>> torch.distributed.tensor.Partial("avg")
    Partial(avg)
    """

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


PLACEMENTS = (Partial, Placement, Replicate, Shard, _StridedShard)
