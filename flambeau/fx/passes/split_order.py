"""Divide a graph's nodes into subgraphs that alternate between the accelerator and the CPU."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass

from .._compatibility import compatibility
from ..graph import Graph
from ..node import Node
from .tools_common import CALLABLE_NODE_OPS

__all__ = ["FxNetSplitterInternalError", "Subgraph"]

Fusions = dict[Node, set[Node]]


@compatibility(is_backward_compatible=False)
class FxNetSplitterInternalError(Exception):
    """The splitter cannot divide a graph: its groups depend on each other in a circle."""


@compatibility(is_backward_compatible=False)
@dataclass
class Subgraph:
    """Nodes that run together: on the accelerator (`is_acc`) or on the CPU."""

    is_acc: bool
    nodes: list[Node]
    device_ordinal: int | None = None


def find_dependencies(graph: Graph, fusions: Fusions) -> dict[Node, set[Node]]:
    """Return the calls that each node waits for.

    The members of a group wait for what any of them waits for outside, and what uses one member
    waits for all.
    """
    waits: dict[Node, set[Node]] = defaultdict(set)
    for node in graph.nodes:
        if node.op in CALLABLE_NODE_OPS:
            for user in node.users:
                if user.op != "output":
                    waits[user].add(node)
    for node, group in fusions.items():
        for member in group:
            waits[node] |= waits[member] - group
            for user in member.users:
                if user not in group and user.op != "output":
                    waits[user].add(node)
    return waits


def alternate(graph: Graph, acc_nodes: set[Node], waits: dict[Node, set[Node]]) -> list[Subgraph]:
    """Return subgraphs as long as possible, in an order in which they can run.

    Nodes whose inputs are ready join the present subgraph in the graph's order; when none is left
    for its device, the other device's turn comes. This starts with the CPU if it can.
    """
    place = {n: i for i, n in enumerate(graph.nodes) if n.op in CALLABLE_NODE_OPS}
    pending = {node: len(waits[node]) for node in place}
    after: dict[Node, list[Node]] = defaultdict(list)
    for node in place:
        for source in waits[node]:
            after[source].append(node)
    ready: dict[bool, list[tuple[int, Node]]] = {True: [], False: []}

    def release(node: Node) -> None:
        heapq.heappush(ready[node in acc_nodes], (place[node], node))

    for node, count in pending.items():
        if not count:
            release(node)
    is_acc = not ready[False]
    subgraphs: list[Subgraph] = []
    done = 0
    while done < len(place):
        nodes: list[Node] = []
        while ready[is_acc]:
            node = heapq.heappop(ready[is_acc])[1]
            nodes.append(node)
            for user in after[node]:
                pending[user] -= 1
                if not pending[user]:
                    release(user)
        if not nodes:
            raise FxNetSplitterInternalError("Subgraph can't be empty")
        subgraphs.append(Subgraph(is_acc, nodes))
        done += len(nodes)
        is_acc = not is_acc
    if not subgraphs:
        raise FxNetSplitterInternalError("Couldn't create subgraphs")
    return subgraphs


def merge_small(subgraphs: list[Subgraph], min_acc_module_size: int) -> list[Subgraph]:
    """Give accelerator subgraphs of fewer nodes to the CPU's subgraph before them."""
    result: list[Subgraph] = []
    for subgraph in subgraphs:
        stays = subgraph.is_acc and len(subgraph.nodes) >= min_acc_module_size
        if subgraph.is_acc and not stays:
            print("Eliminating acc subgraph because it's smaller than the threshold: "
                  f"{len(subgraph.nodes)} < {min_acc_module_size}")
        if not stays and result and (subgraph.is_acc or not result[-1].is_acc):
            result[-1].nodes.extend(subgraph.nodes)
        else:
            subgraph.is_acc = stays
            result.append(subgraph)
    return result
