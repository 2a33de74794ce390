"""A program's state: parameters, buffers and constants, by their paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..nn.module import Module
from ..nn.parameter import Parameter
from ..tensor.tensor import Tensor
from .graph_signature import InputKind

__all__ = [
    "StateTensor", "collect_state_tensors", "find_constant_paths", "find_transient_buffers",
    "format_class_name",
]


class StateTensor(NamedTuple):
    """A parameter or buffer, under the first of its paths."""

    kind: InputKind
    path: str
    value: Tensor
    persistent: bool | None


def collect_state_tensors(module: Module) -> Iterator[StateTensor]:
    """Return each parameter and buffer once."""
    for path, value in module.named_parameters():
        yield StateTensor(InputKind.PARAMETER, path, value, None)
    transient = find_transient_buffers(module)
    for path, buffer in module.named_buffers():
        yield StateTensor(InputKind.BUFFER, path, buffer, path not in transient)


def find_transient_buffers(module: Module) -> dict[str, Tensor]:
    """Return the buffers that no state dict contains."""
    return {
        f"{prefix}{'.' if prefix else ''}{name}": buffer
        for prefix, owner in module.named_modules(remove_duplicate=False)
        for name, buffer in owner._buffers.items()
        if buffer is not None and name in owner._non_persistent_buffers_set
    }


def find_constant_paths(module: Module) -> dict[int, list[str]]:
    """The paths of tensors that are plain attributes of modules, by the tensor's id."""
    paths: dict[int, list[str]] = {}
    for prefix, owner in module.named_modules(remove_duplicate=False):
        for name, value in vars(owner).items():
            if isinstance(value, Tensor) and not isinstance(value, Parameter):
                paths.setdefault(id(value), []).append(f"{prefix}.{name}" if prefix else name)
    return paths


def format_class_name(module: Any) -> str:
    """A module's class, as PyTorch's graphs name it: `torch.nn.modules.linear.Linear`."""
    cls = type(module)
    package, dot, rest = cls.__module__.partition(".")
    package = "torch" if package == __name__.partition(".")[0] else package
    return f"{package}{dot}{rest}.{cls.__qualname__}"
