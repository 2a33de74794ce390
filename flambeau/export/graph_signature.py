"""The kinds of an exported graph's inputs and outputs."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ConstantArgument", "CustomObjArgument", "ExportGraphSignature", "InputKind",
           "InputSpec", "OutputKind", "OutputSpec", "SymIntArgument", "TensorArgument",
           "TokenArgument"]


@dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclass
class SymIntArgument:
    """A varying number, by the name of its node."""

    name: str


@dataclass
class ConstantArgument:
    """A constant value."""

    name: str
    value: Any


@dataclass
class CustomObjArgument:
    """A custom object, by the name of its node and its class; flambeau's exports have none."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclass
class TokenArgument:
    """A token that orders effects, by the name of its node; flambeau's exports have none."""

    name: str


class InputKind(enum.Enum):
    """The kind of an input."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()
    CUSTOM_OBJ = enum.auto()
    TOKEN = enum.auto()


class OutputKind(enum.Enum):
    """The kind of an output."""

    USER_OUTPUT = enum.auto()
    LOSS_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()


@dataclass
class InputSpec:
    """One input: its kind, its node, and the path of its parameter or buffer."""

    kind: InputKind
    arg: Any
    target: str | None
    persistent: bool | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclass
class OutputSpec:
    """One output: its kind and its node."""

    kind: OutputKind
    arg: Any
    target: str | None = None

    def __str__(self) -> str:
        return f"{self.arg.name}: {self.kind.name}"


@dataclass
class ExportGraphSignature:
    """The inputs and outputs of a graph, in order."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec] = field(default_factory=list)

    def _select_kind(self, kind: InputKind) -> list[InputSpec]:
        return [s for s in self.input_specs if s.kind is kind]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The paths of the parameters that are inputs."""
        return tuple(str(s.target) for s in self._select_kind(InputKind.PARAMETER))

    @property
    def buffers(self) -> tuple[str, ...]:
        """The paths of the buffers that are inputs."""
        return tuple(str(s.target) for s in self._select_kind(InputKind.BUFFER))

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """The paths of the buffers that no state dict contains."""
        return tuple(
            str(s.target) for s in self._select_kind(InputKind.BUFFER) if s.persistent is False
        )

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """The names of the constants that are inputs."""
        return tuple(str(s.target) for s in self._select_kind(InputKind.CONSTANT_TENSOR))

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """The caller's inputs: names of nodes, and constants."""
        return tuple(s.arg.value if isinstance(s.arg, ConstantArgument) else s.arg.name
                     for s in self._select_kind(InputKind.USER_INPUT))

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """The caller's outputs: names of nodes, and constants."""
        return tuple(s.arg.value if isinstance(s.arg, ConstantArgument) else s.arg.name
                     for s in self.output_specs if s.kind is OutputKind.USER_OUTPUT)

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """Parameter paths, by the name of their node."""
        return {s.arg.name: str(s.target) for s in self._select_kind(InputKind.PARAMETER)}

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """Buffer paths, by the name of their node."""
        return {s.arg.name: str(s.target) for s in self._select_kind(InputKind.BUFFER)}

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """Constant names, by the name of their node."""
        return {s.arg.name: str(s.target) for s in self._select_kind(InputKind.CONSTANT_TENSOR)}

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """Always empty: graphs write to buffers with in-place operators."""
        return {}

    parameters_to_mutate = user_inputs_to_mutate = buffers_to_mutate

    def replace_all_uses(self, old: str, new: str) -> None:
        """Rename a node in all inputs and outputs."""
        specs: list[Any] = [*self.input_specs, *self.output_specs]
        for spec in specs:
            if not isinstance(spec.arg, ConstantArgument) and spec.arg.name == old:
                spec.arg.name = new

    def get_replace_hook(self, replace_inputs: bool = False) -> Callable[..., None]:
        """Return a hook for `GraphModule._set_replace_hook` that renames outputs with their nodes.

        `replace_inputs`: whether it also renames inputs.
        """

        def rename(old: Any, new: str, user: Any) -> None:
            if user.op == "output" or replace_inputs and old.op == "placeholder":
                self.replace_all_uses(old.name, new)

        return rename

    def __str__(self) -> str:
        inputs, outputs = ("\n".join(map(str, specs)) for specs in
                           (self.input_specs, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"
