"""A program as one JSON document: its nodes, subgraphs, signature and bounds."""

from __future__ import annotations

from typing import Any

from ...fx.node import Node
from ...utils import _pytree as pytree
from ..exported_program import ExportedProgram
from .calls import find_name
from .values import encode_value

__all__ = ["describe_program"]


def describe_program(ep: ExportedProgram) -> dict[str, Any]:
    """Return a program without its tensors, ready for JSON."""
    signature = ep.graph_signature
    return {
        "nodes": _describe_nodes(ep.graph_module),
        "graphs": _describe_graphs(ep.graph_module),
        "inputs": [_describe_spec(s) for s in signature.input_specs],
        "outputs": [_describe_spec(s) for s in signature.output_specs],
        "in_spec": pytree.treespec_dumps(ep._in_spec),
        "out_spec": pytree.treespec_dumps(ep._out_spec),
        "names": ep._names, "bounds": ep._bounds,
    }


def _describe_nodes(module: Any) -> list[dict[str, Any]]:
    return [_describe_node(n) for n in module.graph.nodes]


def _describe_graphs(module: Any) -> dict[str, Any]:
    """Return the subgraphs of a module, by path."""
    return {str(n.target): {"nodes": _describe_nodes(getattr(module, str(n.target))),
                            "graphs": _describe_graphs(getattr(module, str(n.target)))}
            for n in module.graph.nodes if n.op == "get_attr"}


def _describe_spec(spec: Any) -> dict[str, Any]:
    return {"kind": spec.kind.name, "target": spec.target,
            "persistent": getattr(spec, "persistent", None),
            "arg": [type(spec.arg).__name__, spec.arg.name,
                    encode_value(getattr(spec.arg, "value", None))]}


def _describe_node(node: Node) -> dict[str, Any]:
    target = node.target if isinstance(node.target, str) else find_name(node)
    stack = [[key, path, str(kind)]
             for key, (path, kind) in node.meta.get("nn_module_stack", {}).items()]
    return {"op": node.op, "name": node.name, "target": target,
            "args": encode_value(list(node.args)),
            "kwargs": encode_value(dict(node.kwargs)), "stack": stack}
