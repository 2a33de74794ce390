"""Graphs of functions that run: a change of the graph changes what the function does."""

from __future__ import annotations

import ast
from typing import Any

from .nodes import Graph
from .statements import build_graph
from .writing import GraphWriter

__all__ = ["build_function_graph", "follow_graph"]


def build_function_graph(function: Any, owner: Any = None, inlines: bool = False) -> Graph:
    """Return the graph of a function of an archive, which the function follows."""
    program = function.program
    graph = build_graph(ast.unparse(function.definition), program.texts(), owner, inlines,
                        program.constants)
    if not inlines:
        follow_graph(function, graph)
    return graph


def follow_graph(function: Any, graph: Graph) -> None:
    """Let a function run a graph, whatever passes make of it from now on."""
    function.own_graph = graph
    function.follow = _Follower(function, graph)


class _Follower:
    """Writes a function's code anew if its graph has changed."""

    def __init__(self, function: Any, graph: Graph) -> None:
        self._function, self._graph, self._version = function, graph, graph.version

    def __call__(self) -> None:
        if self._version == self._graph.version:
            return
        self._version = self._graph.version
        program, name = self._function.program, self._function.name
        space = f"__torch__.forked_by_{name}_{self._version}"
        writer = GraphWriter(list(program.constants), space)
        text = writer.write(self._graph, name)
        program.constants = tuple(writer.constants)
        for qualified, code in writer.functions.items():
            program.add_function(qualified, code)
        program.replace_function(self._function, text)
