"""torch._export.utils: which of an exported graph's inputs are parameters, buffers, constants."""

from __future__ import annotations

from typing import Any

from ..export.dataclass_nodes import register_dataclass_node
from ..export.exported_program import ExportedProgram
from ..export.graph_signature import InputKind
from ..fx.node import Node
from ..tensor.tensor import Tensor
from .node_lists import (
    node_inline_ as node_inline_, node_replace_ as node_replace_, nodes_count as nodes_count,
    nodes_filter as nodes_filter, nodes_first as nodes_first, nodes_map as nodes_map,
    sequential_split as sequential_split,
)

__all__ = [
    "get_buffer", "get_lifted_tensor_constant", "get_param", "is_buffer",
    "is_lifted_tensor_constant", "is_param", "register_dataclass_as_pytree_node",
]


def register_dataclass_as_pytree_node(
    cls: type, flatten_fn: Any = None, unflatten_fn: Any = None, *,
    serialized_type_name: str | None = None, to_dumpable_context: Any = None,
    from_dumpable_context: Any = None, return_none_fields: bool = False,
) -> None:
    """Register a dataclass as a container; of the functions only the default ones are known."""
    if flatten_fn is not None or unflatten_fn is not None:
        raise NotImplementedError("register_dataclass_as_pytree_node: flatten_fn; register the "
                                  "class by torch.utils._pytree.register_pytree_node")
    register_dataclass_node(cls, serialized_type_name=serialized_type_name,
                            return_none_fields=return_none_fields)


def _value(program: ExportedProgram, node: Node, kind: InputKind) -> Tensor | None:
    for spec in program.graph_signature.input_specs:
        if spec.kind is kind and spec.arg.name == node.name:
            return program.value_of(spec)
    return None


def is_param(program: ExportedProgram, node: Node) -> bool:
    """Whether a node is a parameter."""
    return get_param(program, node) is not None


def get_param(program: ExportedProgram, node: Node) -> Tensor | None:
    """The parameter that a node is; None for other nodes."""
    return _value(program, node, InputKind.PARAMETER)


def is_buffer(program: ExportedProgram, node: Node) -> bool:
    """Whether a node is a buffer."""
    return get_buffer(program, node) is not None


def get_buffer(program: ExportedProgram, node: Node) -> Tensor | None:
    """The buffer that a node is; None for other nodes."""
    return _value(program, node, InputKind.BUFFER)


def is_lifted_tensor_constant(program: ExportedProgram, node: Node) -> bool:
    """Whether a node is a constant."""
    return get_lifted_tensor_constant(program, node) is not None


def get_lifted_tensor_constant(program: ExportedProgram, node: Node) -> Tensor | None:
    """The constant that a node is; None for other nodes."""
    return _value(program, node, InputKind.CONSTANT_TENSOR)
