"""Restore a program from disk without planning its graph again."""

from __future__ import annotations

from ...native.jit.compile import load_cached
from ..ir.graph import Graph
from ..ir.serialization import deserialize_graph
from ..runtime.executable import Planned, Step
from ..schedule.arena import Arena
from ..schedule.program_table import load_table


def restore_program(edges: Graph, key: str, arena: Arena | None = None) -> Step | None:
    """Load the program stored under a key; return None if a part is missing.

    edges: a graph with only the program's inputs, outputs and writes. The plan is computed only if
    a report needs it.
    """
    table = load_table(key)
    addresses = None if table is None or not table.graph else load_cached(table.codes)
    if table is None or addresses is None:
        return None
    data = table.graph

    def plan() -> Planned:
        from .pipeline import optimize, plan

        better = optimize(deserialize_graph(data, edges.sources))
        return better, *plan(better)

    return Step(edges, table, table.list_addresses(addresses), plan, arena, key)
