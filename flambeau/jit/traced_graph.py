"""The graph of a traced module, with the sizes of its example inputs."""

from __future__ import annotations

import ast
from typing import Any

from ..tensor.tensor import Tensor
from .graphs.nodes import Graph
from .graphs.passes.constants import propagate_constants
from .graphs.passes.dead_code import eliminate_dead_code
from .graphs.passes.subexpressions import eliminate_common_subexpressions
from .graphs.statements import build_graph
from .graphs.types import TensorType
from .trace_graph import convert_graph

__all__ = ["build_trace_graph"]


def build_trace_graph(module: Any, method: str) -> Graph:
    """Return the graph of a traced module's method; a traced function's has no `self`.

    Where TorchScript cannot express a call, the graph has one under its public name.
    """
    program = module.__dict__["_flambeau_programs"][method]
    try:
        graph = _build(module, method)
    except NotImplementedError:
        return convert_graph(program.graph)
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    for value in graph.list_values():
        name, _, number = value.debugName().partition(".")
        known = values.get(name.removeprefix("v_"))
        if name.startswith("v_"):
            name = name.removeprefix("v_")
            value._name = name if number in ("", "1") else f"{name}.{number}"
        if isinstance(known, Tensor) and number in ("", "1") \
                and value.type().annotation_str == "Tensor":
            value.setType(TensorType(known))
    first = next(graph.inputs(), None)
    if module.__dict__.get("_flambeau_is_function") and first is not None and not first.uses():
        graph.eraseInput(0)
    graph.version = 0
    return graph


def _build(module: Any, method: str) -> Graph:
    kind = module._flambeau_compile()._flambeau_type
    program = kind.program
    graph = build_graph(ast.unparse(kind.methods[method].definition), program.texts(),
                        kind.qualified_name, inlines=True, constants=program.constants)
    propagate_constants(graph)
    eliminate_common_subexpressions(graph)
    eliminate_dead_code(graph)
    return graph
