"""ShardedParameter: one parameter as each process's part, and whole while its module runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .... import ops
from ....nn.module import Module
from ....nn.parameter import Parameter
from ....tensor import Tensor
from ....tensor.tensor import wrap
from ...device_mesh import DeviceMesh
from ...tensor import DTensor, Replicate, Shard
from ...tensor.placement_types import Placement, _StridedShard, sharded_dim
from ...tensor.spec import DTensorSpec, TensorMeta, dense_strides
from ..released_memory import ReleasableArray

__all__ = ["MeshInfo", "ShardedParameter"]


class MeshInfo:
    """The processes that share a model. The last axis of the mesh shards, a first one replicates.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        if mesh.ndim not in (1, 2):
            raise ValueError(
                f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
        self.mesh = mesh
        self.shard_group = mesh.get_group(mesh.ndim - 1)
        self.replicate_group = mesh.get_group(0) if mesh.ndim == 2 else None
        self.parts, self.rank = self.shard_group.size(), self.shard_group.rank()


class ShardedParameter:
    """A parameter that modules see as a DTensor, or whole while it is gathered.

    `sharded` is the DTensor that the optimizer updates, `whole` the leaf that forward uses: its
    memory is filled before use and released after it.
    """

    def __init__(
        self, places: list[tuple[Module, str]], info: MeshInfo, placement: Shard | None,
        param_dtype: Any,
    ) -> None:
        module, name = places[0]
        parameter = module._parameters[name]
        assert parameter is not None
        self.places, self.info = places, info
        self.inner = parameter._spec if isinstance(parameter, DTensor) else None
        local = parameter._local_tensor if isinstance(parameter, DTensor) else parameter.detach()
        self.shape = tuple(local.shape)  # of the part that is whole in this process
        if not self.shape:
            raise ValueError("fully_shard doesn't support scalar parameters. Change "
                             f"{name} to a 1D tensor with numel equal to 1.")
        self.dim = (0 if placement is None else placement.dim) % len(self.shape)
        if self.dim and self.shape[self.dim] % info.parts:
            raise NotImplementedError(
                f"FSDP does not support uneven sharding on dim {self.dim}: {tuple(local.shape)} "
                f"(world size: {info.parts})")
        self.param_dtype = param_dtype
        self.size, start = Shard.local_shard_size_and_offset(
            self.shape[self.dim], info.parts, info.rank)
        part = local.narrow(self.dim, start, self.size).contiguous().clone()
        self.spec = self._find_spec(parameter)
        self.sharded = self._create_sharded(part, parameter.requires_grad)
        self.whole: Parameter | None = None
        self._memory: ReleasableArray | None = None
        self.show(self.sharded)

    # ------------------------------------------------------------------------ the sharded form

    def _find_spec(self, parameter: Tensor) -> DTensorSpec:
        """Return the spec of the sharded parameter, over the data-parallel and an inner mesh."""
        info = self.info
        outer: tuple[Placement, ...] = (Shard(self.dim),)
        if info.replicate_group is not None:
            outer = (Replicate(), *outer)
        meta = TensorMeta(tuple(parameter.shape), tuple(parameter.stride()), parameter.dtype)
        if self.inner is None:
            return DTensorSpec(info.mesh, outer, meta)
        factor = math.prod(self.inner.mesh.size(a) for a, p in enumerate(self.inner.placements)
                           if sharded_dim(p) == self.dim)
        if factor > 1:  # the inner mesh cuts first, though its axes come last
            outer = (*outer[:-1], _StridedShard(self.dim, split_factor=factor))
        mesh = info.mesh.joined(self.inner.mesh)
        return DTensorSpec(mesh, (*outer, *self.inner.placements), meta)

    def _create_sharded(self, part: Tensor, requires_grad: bool) -> Any:
        return Parameter(DTensor(part, self.spec), requires_grad)

    @property
    def part(self) -> np.ndarray:
        """This process's part, as an array."""
        return self.sharded._local_tensor._array

    def show(self, parameter: Any) -> None:
        """Let the modules have a form of the parameter."""
        for module, name in self.places:
            module._parameters[name] = parameter

    def adopt_replacement(self) -> None:
        """Take over a parameter that a program put in the place of the sharded one."""
        module, name = self.places[0]
        current = module._parameters.get(name)
        if current is not self.sharded and current is not self.whole \
                and isinstance(current, DTensor):
            self.sharded = current
            self.spec = current._spec

    # ------------------------------------------------------------------------ the whole form

    @property
    def dtype(self) -> np.dtype:
        """The dtype in which the parameter is gathered."""
        if self.param_dtype is None or self.part.dtype.kind not in "fV":
            return self.part.dtype
        return ops.empty(0, dtype=self.param_dtype)._array.dtype

    @property
    def padded_size(self) -> int:
        """The number of elements that each process sends."""
        rest = math.prod(self.shape) // max(self.shape[self.dim], 1)
        return -(-self.shape[self.dim] // self.info.parts) * rest

    def pack(self) -> np.ndarray:
        """Return this process's part for sending, as bytes, filled up to the longest part's."""
        row = np.zeros(self.padded_size, self.dtype)
        part = self.part
        row[: part.size] = part.reshape(-1)
        return row.view(np.uint8)

    def fill(self, rows: np.ndarray) -> None:
        """Write the parts of all processes, one row of bytes each, into the whole parameter."""
        self._allocate()
        assert self._memory is not None
        full = self._memory.array.reshape(self.shape)
        head = (slice(None),) * self.dim
        for rank, row in enumerate(rows):
            size, start = self._window(rank)
            window = full[(*head, slice(start, start + size))]
            window[...] = row.view(self.dtype)[: window.size].reshape(window.shape)

    def _window(self, rank: int) -> tuple[int, int]:
        return Shard.local_shard_size_and_offset(self.shape[self.dim], self.info.parts, rank)

    def _allocate(self) -> None:
        """Create the leaf of the graph on memory that can be released."""
        if self._memory is not None and self._memory.array.dtype == self.dtype:
            return
        self._memory = ReleasableArray(math.prod(self.shape), self.dtype)
        local = wrap(self._memory.array.reshape(self.shape))
        value = local
        if self.inner is not None:
            meta = TensorMeta(self.inner.shape, dense_strides(self.inner.shape, local.stride()),
                              local.dtype)
            value = DTensor(local, DTensorSpec(self.inner.mesh, self.inner.placements, meta))
        self.whole = Parameter(value, self.sharded.requires_grad)

    def release(self) -> None:
        """Free the whole parameter."""
        if self._memory is not None:
            self._memory.release()

    # ------------------------------------------------------------------------ gradients

    def take_gradient(self) -> np.ndarray | None:
        """Return the gradient of the whole parameter, and forget it."""
        if self.whole is None or self.whole._grad is None:
            return None
        gradient, self.whole.grad = self.whole._grad, None
        if isinstance(gradient, DTensor):
            assert self.inner is not None
            gradient = gradient.redistribute(placements=[
                Replicate() if sharded_dim(p) is None else p for p in self.inner.placements
            ])._local_tensor
        return gradient._array

    def pack_gradient(self, gradient: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return the gradient's part for each process, a row each, filled up with zeros."""
        rows = np.zeros((self.info.parts, self.padded_size), dtype)
        head = (slice(None),) * self.dim
        for rank, row in enumerate(rows):
            size, start = self._window(rank)
            window = gradient[(*head, slice(start, start + size))]
            row[: window.size] = window.reshape(-1)
        return rows

    def add_gradient(self, row: np.ndarray) -> None:
        """Add this process's part of the reduced gradient to the sharded parameter's."""
        part = self.part
        array = row[: part.size].reshape(part.shape).astype(part.dtype)
        if self.sharded._grad is not None:
            self.sharded._grad._local_tensor._array += array
        else:
            self.sharded.grad = DTensor(wrap(array), self.spec)
