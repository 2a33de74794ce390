"""Styles: how a module's parameters are cut, and the placements of its inputs and outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

from ....nn import Embedding, Linear
from ....nn.module import Module
from ....nn.parameter import Parameter
from ....tensor import Tensor
from ...device_mesh import DeviceMesh
from ..distribution import distribute_module, distribute_tensor
from ..dtensor import DTensor
from ..placement_types import Placement, Replicate, Shard

__all__ = ["ColwiseParallel", "ParallelStyle", "RowwiseParallel", "SequenceParallel"]


class ParallelStyle(ABC):
    """How `parallelize_module` distributes a module."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        """Distribute the module, and return it."""


def as_dtensor(value: Any, mesh: DeviceMesh, placement: Placement | None) -> Any:
    """Take a local tensor as the part of a DTensor."""
    if placement is None or not isinstance(value, Tensor) or isinstance(value, DTensor):
        return value
    return DTensor.from_local(value, mesh, (placement,), run_check=False)


def redistributed(value: DTensor, placement: Placement) -> DTensor:
    """Return the tensor in a placement."""
    return value if value.placements == (placement,) else value.redistribute(
        placements=(placement,))


class _CutStyle(ParallelStyle):
    """A style that cuts the parameters of Linear and Embedding."""

    _weight_dims: dict[type, int]  # by class: the axis of the weight that is cut
    _cuts_bias: bool

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = (input_layouts or self._default_input,)
        self.output_layouts = (output_layouts or self._default_output,)
        self.desired_input_layouts: tuple[Placement, ...] = (self._default_input,)
        self.use_local_output = use_local_output

    _default_input: Placement
    _default_output: Placement

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        dim = next((d for kind, d in self._weight_dims.items() if isinstance(module, kind)), None)
        if dim is None:
            raise NotImplementedError(
                f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!")
        placement = self._find_input_placement(module)
        return distribute_module(
            module, device_mesh, partial(self._cut, dim),
            lambda owner, inputs, mesh: self._prepare_input(placement, inputs, mesh),
            lambda owner, outputs, mesh: self._prepare_output(outputs))

    def _find_input_placement(self, module: Module) -> Placement:
        return self.desired_input_layouts[0]

    def _cut(self, dim: int, name: str, module: Module, mesh: DeviceMesh) -> None:
        """Distribute a module's parameters."""
        for key, parameter in list(module._parameters.items()):
            if parameter is None:
                continue
            cut: Placement = Shard(dim)
            if key == "bias":
                cut = Shard(0) if self._cuts_bias else Replicate()
            sharded = distribute_tensor(parameter.detach(), mesh, (cut,),
                                        src_data_rank=self.src_data_rank)
            module.register_parameter(key, Parameter(sharded, parameter.requires_grad))

    def _prepare_input(self, placement: Placement, inputs: Any, mesh: DeviceMesh) -> Any:
        first = as_dtensor(inputs[0], mesh, self.input_layouts[0])
        return redistributed(first, placement), *inputs[1:]

    def _prepare_output(self, outputs: Any) -> Any:
        result = redistributed(outputs, _from_front(self.output_layouts[0], outputs.dim()))
        return result.to_local() if self.use_local_output else result

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(input_layouts={self.input_layouts}, "
                f"output_layouts={self.output_layouts}, use_local_output={self.use_local_output})")


def _from_front(placement: Placement, ndim: int) -> Placement:
    """Return the placement with its axis counted from the front."""
    if isinstance(placement, Shard) and placement.dim < 0:
        return Shard(placement.dim + ndim)
    return placement


class ColwiseParallel(_CutStyle):
    """Cut a Linear or Embedding by its output features.

    By default the input is whole in every process, and the output cut along its last axis.
    """

    _weight_dims = {Linear: 0, Embedding: 1}  # noqa: RUF012  # never changed
    _cuts_bias = True
    _default_input, _default_output = Replicate(), Shard(-1)


class RowwiseParallel(_CutStyle):
    """Cut a Linear by its input features, or an Embedding by its rows.

    By default the input is cut along its last axis (an Embedding's is whole), and the output is
    whole in every process.
    """

    _weight_dims = {Linear: 1, Embedding: 0}  # noqa: RUF012  # never changed
    _cuts_bias = False
    _default_input, _default_output = Shard(-1), Replicate()

    def _find_input_placement(self, module: Module) -> Placement:
        return Replicate() if isinstance(module, Embedding) else Shard(-1)

    def _prepare_input(self, placement: Placement, inputs: Any, mesh: DeviceMesh) -> Any:
        return super()._prepare_input(_from_front(placement, inputs[0].dim()), inputs, mesh)


class SequenceParallel(ParallelStyle):
    """Run LayerNorm, RMSNorm or Dropout on a part of the sequence; parameters are whole."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return distribute_module(
            module, device_mesh, self._replicate, self._prepare_input,
            lambda owner, outputs, mesh: outputs.to_local() if self.use_local_output else outputs)

    def _replicate(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        """Take each process's parameters, which norms initialize to constants, as replicas."""
        for key, parameter in list(module._parameters.items()):
            if parameter is not None:
                module.register_parameter(key, Parameter(
                    DTensor.from_local(parameter.detach(), mesh, (Replicate(),)),
                    parameter.requires_grad))

    def _prepare_input(self, owner: Module, inputs: Any, mesh: DeviceMesh) -> Any:
        (cut,) = self.sequence_sharding
        value = inputs[0]
        if isinstance(value, DTensor):
            return redistributed(value, cut), *inputs[1:]
        if isinstance(value, Tensor):
            return as_dtensor(value, mesh, cut), *inputs[1:]
        raise ValueError("expecting input of SequenceParallel to be a torch.Tensor or DTensor, but "
                         f"got {value}")

    def __repr__(self) -> str:
        return (f"SequenceParallel(sequence_dim={self.sequence_sharding[0].dim}, "
                f"use_local_output={self.use_local_output})")
