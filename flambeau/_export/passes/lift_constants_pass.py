"""A pass that turns the tensors which a graph reads from its module into inputs."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from ...export.graph_signature import ExportGraphSignature, InputKind, InputSpec, TensorArgument
from ...fx.graph_module import GraphModule
from ...fx.module_paths import attribute_at
from ...fx.node import Node
from ...tensor.tensor import Tensor
from ...utils import _pytree as pytree
from ..verifier import SpecViolationError

__all__ = ["ConstantAttrMap", "get_constant_fqn", "lift_constants_pass"]


class ConstantAttrMap(MutableMapping):
    """The paths at which a module has each constant; constants are keys by identity."""

    def __init__(self) -> None:
        self._paths: dict[int, tuple[Any, list[Any]]] = {}

    def __getitem__(self, key: Any) -> list[Any]:
        return self._paths[id(key)][1]

    def __setitem__(self, key: Any, value: Any) -> None:
        raise NotImplementedError(
            "Directly setting values for ConstantAttrMap is not supported, please use add(key, "
            "value) instead.\nThe same key can be mapped to multiple values, for handling constant "
            "aliasing.")

    def add(self, key: Any, value: Any) -> None:
        """Add a path of a constant. Raises TypeError for what is no tensor."""
        if not isinstance(key, Tensor):
            raise TypeError(f"Expected key to be a tensor or ScriptObject, got {type(key)}")
        self._paths.setdefault(id(key), (key, []))[1].append(value)

    def __delitem__(self, key: Any) -> None:
        del self._paths[id(key)]

    def __iter__(self) -> Iterator[Any]:
        for key, _ in self._paths.values():
            yield key

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, key: object) -> bool:
        return id(key) in self._paths


def get_constant_fqn(node: Node, constant_name: str) -> str:
    """Return the path of a constant: in the module that reads it."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    above = stack[-1][0] if stack else ""
    return f"{above}.{constant_name}" if above else constant_name


def lift_constants_pass(
    gm: GraphModule, graph_signature: ExportGraphSignature, constant_attrs: ConstantAttrMap | dict,
) -> dict[str, Tensor]:
    """Turn constants into inputs before the first of the caller's; return them by path.

    Changes the graph and its signature. `constant_attrs`: paths of those that are attributes of the
    original module.
    """
    specs = graph_signature.input_specs
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    if len(inputs) != len(specs):
        raise AssertionError(
            f"input nodes count {len(inputs)} != input specs count {len(specs)}")
    index = next((i for i, s in enumerate(specs) if s.kind is InputKind.USER_INPUT), len(specs))
    first = inputs[index] if index < len(inputs) else next(
        node for node in gm.graph.nodes if node.op != "placeholder")
    used_paths = {spec.target for spec in specs[:index]}
    lifted: dict[int, Node] = {}
    constants: dict[str, Tensor] = {}
    for node in list(gm.graph.nodes):
        if node.op != "get_attr":
            continue
        value = attribute_at(gm, str(node.target))
        if isinstance(value, (GraphModule, pytree.TreeSpec)):
            continue
        if not isinstance(value, Tensor):
            raise SpecViolationError(
                f"getattr node {node} referencing unsupported type {type(value)}")
        if id(value) not in lifted:
            path = _choose_path(node, value, constant_attrs, used_paths)
            lifted[id(value)] = _add_input(gm, node, value, path, first)
            arg = TensorArgument(name=lifted[id(value)].name)
            specs.insert(index, InputSpec(InputKind.CONSTANT_TENSOR, arg, path))
            index += 1
            constants[path] = value.detach() if value.requires_grad else value
        node.replace_all_uses_with(lifted[id(value)])
        gm.graph.erase_node(node)
    gm.recompile()
    return constants


def _choose_path(node: Node, value: Tensor, paths: Any, used_paths: set[Any]) -> str:
    known = paths.get(value) if paths else None
    if known:
        return str(known[0])
    number = 0
    while (path := get_constant_fqn(node, f"lifted_tensor_{number}")) in used_paths:
        number += 1
    used_paths.add(path)
    return path


def _add_input(gm: GraphModule, node: Node, value: Tensor, path: str, first: Node) -> Node:
    name = path.rpartition(".")[2] if "lifted_tensor_" in path else path.replace(".", "_")
    with gm.graph.inserting_before(first):
        result: Node = gm.graph.placeholder(name)
    result.target = result.name
    result.meta.update({k: v for k, v in node.meta.items()
                        if k not in ("nn_module_stack", "stack_trace")})
    result.meta["val"] = value
    return result
