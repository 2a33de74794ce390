"""split_module: split a module into submodules, with a callback that assigns each node."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

from .._compatibility import compatibility
from ..graph import Graph
from ..graph_module import GraphModule, make_graph_module
from ..module_paths import attribute_at
from ..node import Node, map_arg

__all__ = ["Partition", "split_module"]


@compatibility(is_backward_compatible=True)
class Partition:
    """A submodule under construction."""

    def __init__(self, name: str) -> None:
        self.name, self.submod_name = name, f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: "
            f"{self.outputs},\n partitions depended on: {self.dependencies},\n partition "
            f"dependents: {self.dependents}"
        )


class _Splitter:
    """State of one split_module call."""

    def __init__(
        self, module: GraphModule, place: Callable[[Node], Any], names: dict[str, str] | None,
        options: dict[str, Any],
    ) -> None:
        self.module, self.place, self.new_names, self.options = module, place, names, options
        self.partitions: dict[str, Partition] = {}
        self.home: dict[Node, str] = {}
        self.nodes: dict[str, Node] = {n.name: n for n in module.graph.nodes}
        self.graph = Graph()
        self.values: dict[str, Node] = {}
        self.attributes: dict[str, Any] = {}

    def split(self) -> GraphModule:
        """Return the module of submodules."""
        inner = [n for n in self.module.graph.nodes
                 if n.op not in ("placeholder", "get_attr", "output")]
        affix = self.options["partition_affix"]
        for node in inner:
            name = str(self.place(node))
            name = name if affix is None else f"{affix}_{name}"
            self.partitions.setdefault(name, Partition(name)).node_names.append(node.name)
            self.home[node] = name
            node.__dict__["_fx_partition"] = name
        for node in self.module.graph.nodes:
            if node.op == "output" or node in self.home:
                for value in node.all_input_nodes:
                    self.record_use(value, node)
        order = self.sorted_partitions()
        for name in order:
            self.add_inputs(self.partitions[name])
        for node in inner:
            self.copy_node(node)
        self.build(order)
        return make_graph_module(self.attributes, self.graph)

    def record_use(self, value: Node, user: Node) -> None:
        """Record a value that crosses from one partition into another."""
        defined, used = self.home.get(value), self.home.get(user)
        if defined == used:
            return
        if defined is not None:
            self.partitions[defined].outputs.setdefault(value.name)
            if used is not None:
                self.partitions[defined].dependents.setdefault(used)
        if used is not None:
            self.partitions[used].inputs.setdefault(value.name)
            if defined is not None:
                self.partitions[used].dependencies.setdefault(defined)

    def sorted_partitions(self) -> list[str]:
        """Return the partitions in dependency order. RuntimeError if they form a cycle."""
        waits = {name: dict(p.dependencies) for name, p in self.partitions.items()}
        ready = [name for name, before in waits.items() if not before]
        order = []
        while ready:
            name = ready.pop()
            order.append(name)
            for dependent in self.partitions[name].dependents:
                waits[dependent].pop(name)
                if not waits[dependent]:
                    ready.append(dependent)
        if len(order) != len(self.partitions):
            raise RuntimeError("cycle exists between partitions!")
        return order

    def add_inputs(self, partition: Partition) -> None:
        """Add a placeholder for each value that enters a submodule."""
        for i, name in enumerate(partition.inputs):
            node = self.nodes[name]
            label = name if self.options["keep_original_input_name"] else f"arg_{i}"
            default: Any = inspect.Signature.empty
            if node.op == "placeholder" and node.args:
                default = node.args[0]
            result = partition.graph.placeholder(label, type_expr=node.type, default_value=default)
            result.meta = node.meta.copy()
            partition.environment[node] = result

    def copy_node(self, node: Node) -> None:
        """Copy a node into its submodule, along with the module or attribute that it refers to."""
        partition = self.partitions[self.home[node]]
        values = partition.environment
        target: Any = node.target
        if node.op in ("call_module", "get_attr"):
            value = attribute_at(self.module, target)
            target = target.replace(".", "_")
            partition.targets[target] = value
            if self.new_names is not None:
                self.new_names[f"{partition.submod_name}.{target}"] = str(node.target)
        args, kwargs = map_arg(node.args, values.get), map_arg(node.kwargs, values.get)
        name = node.name if self.options["keep_original_node_name"] else None
        copied = partition.graph.create_node(node.op, target, args, kwargs, name, node.type)
        copied.meta = node.meta.copy()
        values[node] = copied

    def build(self, order: list[str]) -> None:
        """Build the outer graph: inputs, submodule calls, output."""
        if not self.options["keep_original_order"]:
            for node in self.module.graph.nodes:
                self.copy_outer(node)
            for name in order:
                self.call(self.partitions[name])
        else:
            self.build_in_order()
        output = self.module.graph.output_node()
        result = self.graph.output(map_arg(output.args[0], lambda n: self.values[n.name]))
        result.meta = output.meta.copy()

    def build_in_order(self) -> None:
        """Call the submodules in order of their first nodes, each after those it depends on."""
        remaining = list(self.partitions)
        for node in self.module.graph.nodes:
            self.copy_outer(node)
        while remaining:
            name = next(n for n in remaining
                        if all(i in self.values for i in self.partitions[n].inputs))
            remaining.remove(name)
            self.call(self.partitions[name])

    def copy_outer(self, node: Node) -> None:
        """Copy a placeholder or get_attr node to the outer graph; ignore other nodes."""
        if node.op == "placeholder":
            default = node.args[0] if node.args else inspect.Signature.empty
            name = node.name if self.options["keep_original_node_name"] else str(node.target)
            result = self.graph.placeholder(name, type_expr=node.type, default_value=default)
        elif node.op == "get_attr":
            result = self.graph.get_attr(str(node.target))
            self.attributes[str(node.target)] = attribute_at(self.module, str(node.target))
        else:
            return
        result.meta = node.meta.copy()
        self.values[node.name] = result

    def call(self, partition: Partition) -> None:
        """Finish a submodule and add a call to it."""
        results = tuple(partition.environment[self.nodes[name]] for name in partition.outputs)
        several = len(results) != 1 or self.options["tuple_return"]
        if results:
            partition.graph.output(results if several else results[0])
        else:
            partition.graph.output(())
        submodule = make_graph_module(partition.targets, partition.graph)
        self.attributes[partition.submod_name] = submodule
        arguments = tuple(self.values[name] for name in partition.inputs)
        call = self.graph.call_module(partition.submod_name, arguments)
        if not several:
            self.values[next(iter(partition.outputs))] = call
            return
        for i, name in enumerate(partition.outputs):
            part = self.graph.call_function(operator.getitem, (call, i))
            part.meta = self.nodes[name].meta.copy()
            self.values[name] = part


@compatibility(is_backward_compatible=True)
def split_module(
    m: GraphModule, root_m: Any, split_callback: Callable[[Node], Any],
    qualname_map: dict[str, str] | None = None, keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False, keep_original_input_name: bool = True, *,
    partition_affix: str | None = None, tuple_return: bool = False,
) -> GraphModule:
    """Split a module into `submod_0`, `submod_1`, ..., as numbered by `split_callback(node)`.

    `qualname_map`: a dict to fill with new path -> old path of each submodule. `partition_affix`:
    part of the submodules' names. `tuple_return`: submodules return tuples even for one value.
    RuntimeError if submodules depend on each other in a cycle.

    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(x + 1))
    >>> from flambeau.fx.passes.split_module import split_module
    >>> parts = split_module(gm, None, lambda node: int(node.name == "relu"))
    >>> [name for name, _ in parts.named_children()]
    ['submod_0', 'submod_1']
    """
    options = {
        "keep_original_order": keep_original_order, "partition_affix": partition_affix,
        "keep_original_node_name": keep_original_node_name, "tuple_return": tuple_return,
        "keep_original_input_name": keep_original_input_name,
    }
    return _Splitter(m, split_callback, qualname_map, options).split()
