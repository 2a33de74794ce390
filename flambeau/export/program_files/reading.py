"""Rebuild a program from its JSON document and its tensors."""

from __future__ import annotations

from typing import Any

from ...fx.graph import Graph
from ...fx.graph_module import GraphModule
from ...fx.node import Node
from ...fx.qualified_names import torch_module
from ...utils import _pytree as pytree
from ..errors import ArchiveError
from ..exported_program import ExportedProgram
from ..graph_signature import (
    ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
    SymIntArgument, TensorArgument,
)
from .calls import find_function, require_identifier
from .values import decode_value

__all__ = ["rebuild_program"]

_ARGUMENTS = {c.__name__: c for c in (TensorArgument, SymIntArgument, ConstantArgument)}


def rebuild_program(
    program: dict[str, Any], state: Any, constants: Any, example: Any = None
) -> ExportedProgram:
    """Return the program of a document. Raise ArchiveError if it holds what no archive has."""
    inputs = [
        InputSpec(InputKind[s["kind"]], _read_argument(s["arg"]), s["target"], s["persistent"])
        for s in program["inputs"]]
    outputs = [OutputSpec(OutputKind[s["kind"]], _read_argument(s["arg"]), s["target"])
               for s in program["outputs"]]
    parameters = {s.target for s in inputs if s.kind is InputKind.PARAMETER}
    parameter = torch_module().nn.Parameter
    known = {id(v): parameter(v, v.requires_grad or v.is_floating_point())
             for k, v in state.items() if k in parameters}  # tied weights share one parameter
    state = {k: known.get(id(v), v) for k, v in state.items()}
    return ExportedProgram(
        _rebuild_module(program), ExportGraphSignature(inputs, outputs), state, constants,
        pytree.treespec_loads(program["in_spec"]), pytree.treespec_loads(program["out_spec"]),
        [require_identifier(n) for n in program["names"]], program["bounds"], example,
    )


def _rebuild_module(program: dict[str, Any]) -> GraphModule:
    """Rebuild a graph and its subgraphs as a module."""
    graph = Graph()
    nodes: dict[str, Node] = {}
    graphs = {require_identifier(path): _rebuild_module(inner)
              for path, inner in program.get("graphs", {}).items()}
    for entry in program["nodes"]:
        op = entry["op"]
        if op not in ("placeholder", "call_function", "output") and not (
                op == "get_attr" and entry["target"] in graphs):
            raise ArchiveError(f"torch.export.load: a node of kind {op!r}")
        target = find_function(entry["target"]) if op == "call_function" else str(entry["target"])
        args, kwargs = decode_value(entry["args"], nodes), decode_value(entry["kwargs"], nodes)
        node = graph.create_node(op, target, tuple(args), kwargs, str(entry["name"]))
        node.meta["nn_module_stack"] = {
            str(key): (str(path), str(kind)) for key, path, kind in
            ((p, p, "") if isinstance(p, str) else p for p in entry["stack"])
        }
        nodes[entry["name"]] = node
    graph.lint()
    return GraphModule(graphs, graph)


def _read_argument(parts: list[Any]) -> Any:
    kind, name, value = parts
    cls: Any = _ARGUMENTS[kind]
    return cls(name, decode_value(value, {})) if cls is ConstantArgument else cls(name)
