"""distribute_tensor and distribute_module: DTensors from what every process has whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...nn.module import Module
from ...nn.parameter import Parameter
from ...tensor import Tensor
from .. import collectives
from ..device_mesh import DeviceMesh
from .dtensor import DTensor
from .placement_types import Placement, Replicate, sharded_dim
from .redistribute import redistribute_local
from .spec import DTensorSpec, TensorMeta, normalize_placements

__all__ = ["distribute_module", "distribute_tensor"]


def distribute_tensor(
    tensor: Tensor, device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None, *, src_data_rank: int | None = 0,
) -> DTensor:
    """Cut or copy a tensor over the mesh; the result is a leaf.

    The data are those of rank `src_data_rank` of each mesh axis, or each process's own for None.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> from flambeau.distributed.tensor import Shard, distribute_tensor
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> distribute_tensor(torch.ones(2), mesh, [Shard(0)]).to_local()
    tensor([1., 1.])
    >>> torch.distributed.destroy_process_group()
    """
    mesh = DeviceMesh.current() if device_mesh is None else device_mesh
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but "
                           "found non-leaf tensor!")
    if isinstance(tensor, DTensor):
        return _check_same(tensor, mesh, placements)
    chosen = normalize_placements(placements, mesh, tensor.dim())
    for placement in chosen:
        dim = sharded_dim(placement)
        if dim is not None and dim >= tensor.dim():
            raise AssertionError(f"Sharding dim {dim} greater than tensor ndim {tensor.dim()}")
    meta = TensorMeta(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
    replicated = DTensorSpec(mesh, (Replicate(),) * mesh.ndim, meta)
    local = tensor.detach()
    if mesh.get_coordinate() is None:
        local = local.new_empty(0)
    elif src_data_rank is not None:
        local = _copy_from(local, mesh, src_data_rank)
    local = redistribute_local(local, replicated, chosen)
    return DTensor(local, replicated.with_placements(chosen), requires_grad=tensor.requires_grad)


def _copy_from(local: Tensor, mesh: DeviceMesh, rank: int) -> Tensor:
    """Return the tensor of the first process of the mesh, sent along its axes."""
    if mesh.size() == 1 or local.is_meta:
        return local
    local = local.clone().contiguous()
    for axis in range(mesh.ndim):
        collectives.broadcast(local, group=mesh.get_group(axis), group_src=rank)
    return local


def _check_same(
    tensor: DTensor, mesh: DeviceMesh, placements: Sequence[Placement] | None
) -> DTensor:
    """Return a DTensor that is distributed already as asked for."""
    if tensor.device_mesh != mesh:
        raise ValueError(f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a "
                         f"different device mesh {mesh}.")
    if tensor.placements != normalize_placements(placements, mesh, tensor.dim()):
        raise ValueError(
            f"Cannot distribute a DTensor with placements {tensor.placements} to a different "
            f"placements {placements}. do you want to call `redistribute` instead?")
    return tensor


def distribute_module(
    module: Module, device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None, output_fn: Callable[..., Any] | None = None,
) -> Module:
    """Turn a module's parameters and buffers into DTensors.

    `partition_fn(name, submodule, mesh)` distributes those of a submodule; the rest is replicated.
    `input_fn(module, inputs, mesh)` and `output_fn(module, outputs, mesh)` run around forward.
    """
    mesh = DeviceMesh.current() if device_mesh is None else device_mesh
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError("distribute_module should only be called once on a module, but it has "
                           "already been called on this module!")
    for name, submodule in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, submodule, mesh)
        _replicate_members(submodule, mesh)
    if input_fn is not None:
        before = input_fn
        module.register_forward_pre_hook(lambda owner, inputs: before(owner, inputs, mesh))
    if output_fn is not None:
        after = output_fn
        module.register_forward_hook(lambda owner, inputs, outputs: after(owner, outputs, mesh))
    vars(module)["_distribute_module_applied"] = True
    return module


def _replicate_members(module: Module, mesh: DeviceMesh) -> None:
    """Replicate the parameters and buffers that are not DTensors yet."""
    replicated = [Replicate()] * mesh.ndim
    for name, parameter in list(module._parameters.items()):
        if parameter is not None and not isinstance(parameter, DTensor):
            module.register_parameter(name, Parameter(
                distribute_tensor(parameter.detach(), mesh, replicated), parameter.requires_grad))
    for name, buffer in list(module._buffers.items()):
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[name] = distribute_tensor(buffer, mesh, replicated)


