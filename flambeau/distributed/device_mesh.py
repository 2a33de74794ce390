"""DeviceMesh: a grid of processes with a group along each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ops
from ..tensor import Tensor
from .group import get_world_size, init_process_group, is_initialized, new_group
from .process_group import ProcessGroup, require_member, world

__all__ = ["DeviceMesh", "init_device_mesh"]

_UNKNOWN: Any = object()  # a coordinate that nobody has asked for yet
_ACTIVE: list[DeviceMesh] = []  # the meshes of `with mesh:`, innermost last


class DeviceMesh:
    """A grid of processes; `get_group(dim)` is the group of this process's line along an axis.

    All processes must construct it with the same arguments.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))
    >>> mesh.size(), mesh["dp"].get_local_rank()
    (1, 0)
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self, device_type: str, mesh: Any, *, mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None, _init_backend: bool = True, _rank: int | None = None,
    ) -> None:
        if device_type != "cpu":
            raise RuntimeError(f"DeviceMesh: device_type={device_type!r}, and flambeau has the CPU")
        if not is_initialized():
            init_process_group()
        self.device_type = device_type
        self._ranks = np.array(mesh.tolist() if isinstance(mesh, Tensor) else mesh, np.int64)
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        self._rank = require_member().rank()
        self._coordinate = _UNKNOWN
        self._root: DeviceMesh | None = None
        self._groups = [self._find_line(axis) for axis in range(self._ranks.ndim)]

    def _find_line(self, axis: int) -> Any:
        """Return this process's group along an axis. Every process creates all its groups."""
        containing: Any = None
        for ranks in self._list_lines(axis):
            is_world = sorted(ranks) == list(range(get_world_size()))
            result = require_member() if is_world else new_group(ranks,
                                                                 group_desc=f"mesh_dim_{axis}")
            if self._rank in ranks:
                containing = result
        return containing

    def _list_lines(self, axis: int) -> list[list[int]]:
        """Return the ranks of all lines along an axis."""
        lines = np.moveaxis(self._ranks, axis, -1).reshape(-1, self._ranks.shape[axis])
        result: list[list[int]] = lines.tolist()
        return result

    @property
    def mesh(self) -> Tensor:
        """The ranks of the processes."""
        return ops.tensor(self._ranks.tolist(), dtype=None)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._ranks.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self._ranks.shape

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the number of processes, along one axis or in total."""
        return self._ranks.size if mesh_dim is None else self._ranks.shape[mesh_dim]

    def _find_axis(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` "
                    "needs to be specified when device_mesh.ndim > 1."
                )
            return 0
        if isinstance(mesh_dim, int):
            return mesh_dim
        if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
            raise KeyError(f"Invalid mesh_dim_name {mesh_dim}; the mesh has {self.mesh_dim_names}")
        return self.mesh_dim_names.index(mesh_dim)

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group of this process's line along an axis."""
        return self._groups[self._find_axis(mesh_dim)]

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return the groups along all axes."""
        return list(self._groups)

    @staticmethod
    def current() -> DeviceMesh:
        """Return the mesh of the innermost `with mesh:`. RuntimeError outside of any."""
        if not _ACTIVE:
            raise RuntimeError("No device mesh is currently active!")
        return _ACTIVE[-1]

    def __enter__(self) -> DeviceMesh:
        _ACTIVE.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _ACTIVE.pop()

    def get_coordinate(self) -> list[int] | None:
        """Return this process's coordinates in the grid, or None if it is outside."""
        if self._coordinate is _UNKNOWN:
            result = np.argwhere(self._ranks == self._rank)
            self._coordinate = None if not len(result) else result[0].tolist()
        return self._coordinate

    def get_rank(self) -> int:
        """Return this process's global rank."""
        return self._rank

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return this process's coordinate along an axis."""
        coordinate = self.get_coordinate()
        if coordinate is None:
            raise RuntimeError(f"rank {self._rank} is not in the mesh")
        return coordinate[self._find_axis(mesh_dim)]

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """Return the submesh along the named axes that contains this process."""
        chosen = [self._find_axis(name) for name in ((names,) if isinstance(names, str) else names)]
        coordinate = self.get_coordinate()
        if coordinate is None:
            raise RuntimeError(f"rank {self._rank} is not in the mesh")
        window = tuple(slice(None) if a in chosen else at for a, at in enumerate(coordinate))
        part = object.__new__(DeviceMesh)
        part.device_type, part._rank, part._coordinate = self.device_type, self._rank, _UNKNOWN
        retained = sorted(chosen)
        part._ranks = self._ranks[window].transpose([retained.index(axis) for axis in chosen])
        part.mesh_dim_names = tuple((self.mesh_dim_names or ())[axis] for axis in chosen)
        part._groups = [self._groups[axis] for axis in chosen]
        part._root = self._root or self
        return part

    @staticmethod
    def from_group(
        group: ProcessGroup | list[ProcessGroup], device_type: str, mesh: Any = None, *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """Return the mesh of a group, or of several groups along the axes of `mesh`."""
        groups = group if isinstance(group, list) else [group]
        if not groups:
            raise ValueError("Must provide at least one process group, got []")
        if mesh is None and len(groups) > 1:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        ranks = groups[0]._ranks if mesh is None else \
            mesh.tolist() if isinstance(mesh, Tensor) else mesh
        result = object.__new__(DeviceMesh)
        result.device_type, result._rank = device_type, require_member().rank()
        result._coordinate, result._root = _UNKNOWN, None
        result._ranks = np.array(ranks, np.int64)
        if result._ranks.ndim != len(groups):
            raise ValueError("Expects mesh with ndim equal to number of ProcessGroups but got "
                             f"mesh {result._ranks.tolist()} and {len(groups)} ProcessGroups")
        result.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        result._groups = groups
        return result

    def _get_root_mesh(self) -> DeviceMesh:
        """Return the mesh that this one was sliced from."""
        return self._root or self

    def joined(self, inner: DeviceMesh) -> DeviceMesh:
        """Return the mesh of this one's axes followed by another's, sliced from the same mesh.

        Raises ValueError for meshes of different origin.
        """
        root = self._get_root_mesh()
        if root != inner._get_root_mesh() or not (self.mesh_dim_names and inner.mesh_dim_names):
            raise ValueError(f"{self} and {inner} are not parts of one mesh with named axes")
        return root[(*self.mesh_dim_names, *inner.mesh_dim_names)]

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items()
                 if name not in ("_groups", "_root", "_coordinate")}
        return {**state, "_ranks": self._ranks.tolist()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a mesh; its groups are those that this process has, or new ones."""
        self.__dict__.update(state)
        self._ranks, self._rank = np.array(state["_ranks"], np.int64), require_member().rank()
        self._coordinate, self._root = _UNKNOWN, None
        lines = [[tuple(ranks) for ranks in self._list_lines(axis)]
                 for axis in range(self._ranks.ndim)]
        known = {tuple(group._ranks): group for group in world.groups}
        self._groups = [
            next((known[ranks] for ranks in line if self._rank in ranks), None)
            if all(ranks in known or self._rank not in ranks for ranks in line)
            else self._find_line(axis) for axis, line in enumerate(lines)
        ]

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, DeviceMesh) and self.mesh_dim_names == other.mesh_dim_names
            and np.array_equal(self._ranks, other._ranks))

    def __hash__(self) -> int:
        return hash((self._ranks.tobytes(), self._ranks.shape, self.mesh_dim_names))

    def __repr__(self) -> str:
        if self.mesh_dim_names:
            axes = ", ".join(f"{name}={n}" for name, n in
                             zip(self.mesh_dim_names, self.shape, strict=True))
            shape = f"({axes})"
        else:
            shape = str(self.shape)
        return f"DeviceMesh({shape}, '{self.device_type}', stride={self._compute_strides()})"

    def _compute_strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(self.ndim))


def init_device_mesh(
    device_type: str, mesh_shape: tuple[int, ...], *,
    mesh_dim_names: tuple[str, ...] | None = None, backend_override: Any = None,
) -> DeviceMesh:
    """Arrange the first `prod(mesh_shape)` ranks in a grid, in order."""
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError("Each mesh_dim_name must be unique.")
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError("mesh_shape and mesh_dim_names should have same length!")
    if not is_initialized():
        init_process_group()
    if math.prod(mesh_shape) > get_world_size():
        raise RuntimeError(f"Mesh should not be bigger than default world size {get_world_size()}, "
                           f"but found {math.prod(mesh_shape)} ranks!")
    ranks = np.arange(math.prod(mesh_shape)).reshape(mesh_shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
