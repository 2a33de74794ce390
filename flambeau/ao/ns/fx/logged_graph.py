"""Copies of graphs with loggers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....fx import Graph, GraphModule, Node
from ....fx.node import map_arg
from ...quantization.fx.utils import get_new_attr_name_with_prefix
from ...quantization.observer import _is_activation_post_process
from ...quantization.utils import getattr_from_fqn
from .node_types import (
    get_arg_indices_of_inputs_to_log, get_normalized_nth_input, get_target_type_str,
)
from .ns_types import NSSingleResultValuesType

__all__ = ["LoggedGraph", "Subject", "add_loggers_to_model", "find_path"]

NODE_INPUT = NSSingleResultValuesType.NODE_INPUT.value
NODE_OUTPUT = NSSingleResultValuesType.NODE_OUTPUT.value


def find_path(node: Node, gm: GraphModule) -> str | None:
    """Return the path of the module in which a node, or the one it observes, was traced."""
    scopes: Any = getattr(gm, "_node_name_to_scope", None)
    if scopes is None:
        return None
    if node.op == "call_module" and _is_activation_post_process(
            getattr_from_fqn(gm, str(node.target))):
        node = get_normalized_nth_input(node, gm, 0)
    path: str = scopes[node.name][0]
    return path


@dataclass(frozen=True)
class Subject:
    """The subgraph whose values a logger records: its model, name, operator and module's path."""

    model_name: str
    ref_name: str
    ref_node_target_type: str
    fqn: str | None


class LoggedGraph:
    """A copy of a model's graph, into which loggers are inserted as it grows."""

    def __init__(self, gm: GraphModule, logger_cls: Callable[..., Any]) -> None:
        self.gm, self.logger_cls, self.graph = gm, logger_cls, Graph()
        self.env: dict[str, Node] = {}  # by the original's name

    def load(self, arg: Any) -> Any:
        """Return arguments with the copies of the nodes in them."""
        return map_arg(arg, lambda node: self.env[node.name])

    def copy(self, node: Node) -> Node:
        """Copy a node and return the copy."""
        if node.op == "output":
            return self.graph.output(self.load(get_normalized_nth_input(node, self.gm, 0)))
        self.env[node.name] = self.graph.node_copy(node, self.load)
        return self.env[node.name]

    def attach(self, prefix: str, value: Any) -> str:
        """Add an attribute to the model and return its name: the prefix and a number."""
        name = get_new_attr_name_with_prefix(prefix)(self.gm)
        setattr(self.gm, name, value)
        return name

    def log(
        self, node: Node, suffix: str, subject: Subject, results_type: str, ref_node_name: str,
        index_within_arg: int = 0, index_of_arg: int = 0,
    ) -> Node:
        """Add a logger of a copied node's value and return the logger's node."""
        logger = self.logger_cls(
            ref_node_name, node.name, subject.model_name, subject.ref_name,
            get_target_type_str(node, self.gm), subject.ref_node_target_type, results_type,
            index_within_arg, index_of_arg, subject.fqn)
        return self.graph.create_node("call_module", self.attach(node.name + suffix, logger),
                                      (node,), {})

    def log_inputs(self, node: Node, suffix: str, subject: Subject, index: int) -> None:
        """Log the value, or list of values, that a node takes at a place."""
        value = get_normalized_nth_input(node, self.gm, index)
        for place, source in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(source, Node):
                self.env[source.name] = self.log(
                    self.env[source.name], suffix, subject, NODE_INPUT, node.name, place, index)

    def finish(self) -> GraphModule:
        """Return a model with the new graph."""
        return GraphModule(self.gm, self.graph)


def add_loggers_to_model(
    gm: GraphModule, node_to_instrument_inputs_to_ref_node_name: dict[Node, tuple[str, str]],
    node_to_instrument_outputs_to_ref_node_name: dict[Node, tuple[str, str]],
    logger_cls: Callable[..., Any], model_name: str,
) -> GraphModule:
    """Return the model with loggers of some nodes' inputs and of some nodes' outputs.

    The dictionaries give each node's (name of its subgraph, name of its operator).
    """
    inputs = node_to_instrument_inputs_to_ref_node_name
    outputs = node_to_instrument_outputs_to_ref_node_name
    logged = LoggedGraph(gm, logger_cls)
    for node in gm.graph.nodes:
        path = find_path(node, gm) if node in inputs or node in outputs else None
        if node in inputs:
            for index in get_arg_indices_of_inputs_to_log(node):
                logged.log_inputs(node, "_ns_logger_", Subject(model_name, *inputs[node], path),
                                  index)
        copy = logged.copy(node)
        if node in outputs:
            logged.env[node.name] = logged.log(
                copy, "_ns_logger_", Subject(model_name, *outputs[node], path), NODE_OUTPUT,
                node.name)
    return logged.finish()
