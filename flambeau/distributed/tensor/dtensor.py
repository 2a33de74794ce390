"""DTensor: a tensor whose parts lie in the processes of a device mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...autograd.function import Function
from ...autograd.mode import MODE
from ...tensor import Tensor
from ..device_mesh import DeviceMesh
from .dispatch import run_operator
from .placement_types import Partial, Placement, Replicate
from .redistribute import redistribute_local
from .spec import (
    DTensorSpec, TensorMeta, dense_strides, normalize_gradient, normalize_placements,
    whole_summands,
)

__all__ = ["DTensor"]


class DTensor(Tensor):
    """A tensor that is cut or copied over a device mesh, one placement for each mesh axis.

    Operators run on the parts; where the parts do not fit, they communicate first. Create one with
    `distribute_tensor`, `DTensor.from_local` or the factories of `torch.distributed.tensor`.

    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> from flambeau.distributed.tensor import Shard, distribute_tensor
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> x = distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)])
    >>> (x @ x.t()).placements, (x @ x.t()).full_tensor().sum()
    ((Shard(dim=0),), tensor(32.))
    >>> torch.distributed.destroy_process_group()
    """

    _local_tensor: Tensor
    _spec: DTensorSpec

    @staticmethod
    def __new__(
        cls: Any, local_tensor: Tensor, spec: DTensorSpec, *, requires_grad: bool = False
    ) -> Any:
        """Wrap a local part. Programs use `DTensor.from_local` instead."""
        make: Any = Tensor._make_wrapper_subclass
        result = make(cls, spec.shape, spec.stride, dtype=local_tensor.dtype,
                      device=local_tensor.device, requires_grad=requires_grad)
        result.__dict__.update(_spec=spec, _local_tensor=local_tensor)
        return result

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run an operator on the parts."""
        return run_operator(func, tuple(args), kwargs or {}, DTensor)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return (f"DTensor(local_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, "
                f"placements={self._spec.placements})")

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """The placement on each mesh axis."""
        return self._spec.placements

    @staticmethod
    def from_local(
        local_tensor: Tensor, device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None, *, run_check: bool = False,
        shape: Sequence[int] | None = None, stride: Sequence[int] | None = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """Make a DTensor of the processes' parts, without communication.

        Without `shape` (with `stride`), parts along a cut axis are taken to have equal sizes.
        `run_check`: copy rank 0's part to the processes that should have the same. Gradients arrive
        at the local tensor in `grad_placements`, by default those of the tensor.
        """
        mesh = DeviceMesh.current() if device_mesh is None else device_mesh
        chosen = normalize_placements(placements, mesh, local_tensor.dim())
        if (shape is None) != (stride is None):
            raise RuntimeError(
                f"Found shape:{shape}, stride:{stride}. Please pass both shape and stride at the "
                "same time.")
        result: DTensor = _FromLocal.apply(
            local_tensor, mesh, chosen, run_check, shape, stride, grad_placements)
        return result

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return this process's part. `grad_placements`: those of the gradient that comes back."""
        if not MODE.grad:
            return self._local_tensor
        local: Tensor = _ToLocal.apply(self, grad_placements)
        return local

    def redistribute(
        self, device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None, *, async_op: bool = False,
        forward_dtype: Any = None, backward_dtype: Any = None,
    ) -> DTensor:
        """Return the tensor with other placements; processes exchange what each is missing."""
        mesh = self._spec.mesh if device_mesh is None else device_mesh
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        chosen = normalize_placements(placements, mesh, self.dim())
        if mesh != self._spec.mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        for here, target in zip(self._spec.placements, chosen, strict=True):
            if isinstance(target, Partial) and here != target:
                raise RuntimeError(
                    f"Can not redistribute from {here} to {target}, redistributing to Partial is "
                    "for internal use only!")
        source = self if forward_dtype is None else self.to(forward_dtype)
        result: DTensor = _Redistribute.apply(source, chosen)
        return result

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return the whole tensor in every process."""
        replicated = (Replicate(),) * self._spec.mesh.ndim
        result: Tensor = _ToLocal.apply(self.redistribute(placements=replicated), grad_placements)
        return result


# ------------------------------------------------------------------------------ derivatives


class _FromLocal(Function):
    """Wrap a local tensor."""

    @staticmethod
    def forward(
        ctx: Any, local: Tensor, mesh: DeviceMesh, placements: tuple[Placement, ...],
        run_check: bool, shape: Any, stride: Any, grad_placements: Any,
    ) -> DTensor:
        """Return the DTensor; its shape follows from the local one if not given."""
        part = local.detach()
        if run_check:
            part = _copy_replicas(part, mesh, placements)
        if shape is None:
            sizes = list(part.shape)
            for axis, placement in enumerate(placements):
                dim = getattr(placement, "dim", None)
                if dim is not None:
                    if not -1 < dim < len(sizes):
                        raise RuntimeError(
                            f"Sharding dim {dim} greater than tensor ndim {len(sizes)} for "
                            f"placement number {axis}.")
                    sizes[dim] *= mesh.size(axis)
            shape = tuple(sizes)
            stride = dense_strides(shape, part.stride())
        spec = DTensorSpec(mesh, placements, TensorMeta(tuple(shape), tuple(stride), part.dtype))
        ctx.is_explicit = grad_placements is not None
        ctx.spec = spec if grad_placements is None else spec.with_placements(
            normalize_placements(grad_placements, mesh, len(shape)))
        return DTensor(part if mesh.get_coordinate() else part.new_empty(0), spec)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """Return the local part of the gradient."""
        (g,) = gs
        placements = normalize_gradient(g._spec, ctx.spec.placements) if ctx.is_explicit \
            else whole_summands(ctx.spec.placements)
        if g._spec.placements != placements:
            g = _Redistribute.apply(g, placements)
        return _ToLocal.apply(g, None), *(None,) * 6


def _copy_replicas(
    part: Tensor, mesh: DeviceMesh, placements: Sequence[Placement]
) -> Tensor:
    """Copy the part of the first process of each mesh axis that should have equal parts."""
    from .. import collectives

    part = part.clone().contiguous()
    for axis, placement in enumerate(placements):
        if isinstance(placement, Replicate):
            collectives.broadcast(part, group=mesh.get_group(axis), group_src=0)
    return part


class _ToLocal(Function):
    """The local part of a DTensor."""

    @staticmethod
    def forward(ctx: Any, tensor: DTensor, grad_placements: Any) -> Tensor:
        """Return the part, sharing its memory."""
        spec = tensor._spec
        ctx.spec = spec.with_placements(
            whole_summands(spec.placements) if grad_placements is None
            else normalize_placements(grad_placements, spec.mesh, spec.ndim))
        return tensor._local_tensor.view_as(tensor._local_tensor)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """Wrap the gradient of the part."""
        spec = ctx.spec
        g = _FromLocal.apply(gs[0].contiguous(), spec.mesh, spec.placements, False, spec.shape,
                             spec.stride, None)
        return g, None


class _Redistribute(Function):
    """Other placements."""

    @staticmethod
    def forward(ctx: Any, tensor: DTensor, placements: tuple[Placement, ...]) -> DTensor:
        """Return the redistributed tensor."""
        spec = ctx.spec = tensor._spec
        local = redistribute_local(tensor._local_tensor, spec, placements)
        if local is tensor._local_tensor:
            local = local.view_as(local)
        return DTensor(local, spec.with_placements(placements))

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """Redistribute the gradient back."""
        (g,) = gs
        return _Redistribute.apply(g, normalize_gradient(g._spec, ctx.spec.placements)), None
