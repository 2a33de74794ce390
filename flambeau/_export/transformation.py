"""Passes over a program's graph, and the signature of the graph that they return."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from ..export.graph_signature import ConstantArgument
from ..fx.node import Node
from ..fx.passes.infra.pass_manager import PassManager
from ..utils import _pytree as pytree

__all__ = ["transform"]


def transform(program: Any, passes: Sequence[Any]) -> Any:
    """Return the program with its graph rewritten by passes.

    They may change neither the number of inputs nor that of outputs: AssertionError.
    """
    outcome = PassManager(list(passes))(copy.deepcopy(program.graph_module))
    if not outcome.modified:
        return program
    result = copy.copy(program)
    result._graph_module = outcome.graph_module
    signature = result._graph_signature = copy.deepcopy(program.graph_signature)
    graph = outcome.graph_module.graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    outputs = pytree.tree_leaves(graph.output_node().args[0], is_leaf=lambda x: x is None)
    for kind, specs, values in (("inputs", signature.input_specs, inputs),
                                ("outputs", signature.output_specs, outputs)):
        if len(specs) != len(values):
            raise AssertionError(f"Number of {kind} changed after transformation: got "
                                 f"{len(values)} but there are {len(specs)} specs")
        for spec, value in zip(specs, values, strict=True):
            if isinstance(value, Node) and not isinstance(spec.arg, ConstantArgument):
                spec.arg.name = value.name
    return result
