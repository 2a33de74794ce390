"""Styles that change only the placements of a module's inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....nn.module import Module
from ...device_mesh import DeviceMesh
from ..dtensor import DTensor
from ..placement_types import Placement
from .cut_styles import ParallelStyle, as_dtensor, redistributed

__all__ = ["PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput"]

Layouts = tuple[Placement | None, ...]


def _tuple_of(layouts: Any) -> Layouts | None:
    return layouts if layouts is None or isinstance(layouts, tuple) else (layouts,)


def _convert(
    value: Any, mesh: DeviceMesh, source: Placement | None, target: Placement | None, local: bool
) -> Any:
    """Return a value as a DTensor in the wanted placement, or as its local part."""
    if source is None:
        return value
    tensor = as_dtensor(value, mesh, source)
    if not isinstance(tensor, DTensor):
        return value
    if target is not None:
        tensor = redistributed(tensor, target)
    return tensor.to_local() if local else tensor


class PrepareModuleInput(ParallelStyle):
    """Take the inputs of a module in `input_layouts`, and give it to it in the desired ones.

    None stands for inputs that stay as they are. `input_kwarg_layouts` name keyword arguments.
    """

    def __init__(
        self, *, input_layouts: Placement | Layouts | None = None,
        desired_input_layouts: Placement | Layouts | None = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = _tuple_of(input_layouts)
        self.desired_input_layouts = _tuple_of(desired_input_layouts)
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError(
                    "input_layouts and desired_input_layouts should have same length!")
        self.input_kwarg_layouts = dict(input_kwarg_layouts or {})
        self.desired_input_kwarg_layouts = dict(desired_input_kwarg_layouts or {})
        if self.input_kwarg_layouts and (
                len(self.input_kwarg_layouts) != len(self.desired_input_kwarg_layouts)):
            raise AssertionError(
                "input_kwarg_layouts and desired_input_kwarg_layouts should have same length!")

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_pre_hook(
            lambda owner, args, kwargs: self._prepare(args, kwargs, device_mesh), with_kwargs=True)
        return module

    def _prepare(self, args: Any, kwargs: Any, mesh: DeviceMesh) -> tuple[Any, Any]:
        """Convert positional and keyword arguments."""
        if self.input_layouts is not None:
            if len(args) != len(self.input_layouts):
                raise ValueError("module inputs and input_layouts should have same length!")
            assert self.desired_input_layouts is not None
            args = tuple(_convert(value, mesh, source, target, self.use_local_output)
                         for value, source, target in zip(args, self.input_layouts,
                                                          self.desired_input_layouts, strict=True))
        kwargs = {
            name: _convert(value, mesh, self.input_kwarg_layouts.get(name),
                           self.desired_input_kwarg_layouts.get(name), self.use_local_output)
            for name, value in kwargs.items()
        }
        return args, kwargs

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(input_layouts={self.input_layouts}, "
                f"desired_input_layouts={self.desired_input_layouts}, "
                f"input_kwarg_layouts={self.input_kwarg_layouts}, "
                f"desired_input_kwarg_layouts={self.desired_input_kwarg_layouts}, "
                f"use_local_output={self.use_local_output})")


class PrepareModuleOutput(ParallelStyle):
    """Take the outputs of a module in `output_layouts`, and return them in the desired ones."""

    def __init__(
        self, *, output_layouts: Placement | Layouts,
        desired_output_layouts: Placement | Layouts, use_local_output: bool = True,
    ) -> None:
        self.output_layouts = _tuple_of(output_layouts) or ()
        self.desired_output_layouts = _tuple_of(desired_output_layouts) or ()
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError(
                "output_layouts and desired_output_layouts should have same length!")

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_hook(
            lambda owner, args, outputs: self._prepare(outputs, device_mesh))
        return module

    def _prepare(self, outputs: Any, mesh: DeviceMesh) -> Any:
        """Convert the outputs."""
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(values) != len(self.output_layouts):
            raise ValueError("module outputs and output_layouts should have same length!")
        result = tuple(_convert(value, mesh, source, target, self.use_local_output)
                       for value, source, target in zip(values, self.output_layouts,
                                                        self.desired_output_layouts, strict=True))
        return result if isinstance(outputs, tuple) else result[0]

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(output_layouts={self.output_layouts}, "
                f"desired_output_layouts={self.desired_output_layouts}, "
                f"use_local_output={self.use_local_output})")


class PrepareModuleInputOutput(ParallelStyle):
    """PrepareModuleInput and PrepareModuleOutput in one."""

    def __init__(
        self, *, input_layouts: Placement | Layouts | None = None,
        desired_input_layouts: Placement | Layouts | None = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_input: bool = False, output_layouts: Placement | Layouts,
        desired_output_layouts: Placement | Layouts, use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input)
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        self.prepare_module_output._apply(module, device_mesh)
        return module

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.prepare_module_input}, {self.prepare_module_output})"
