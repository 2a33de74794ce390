"""Split a graph into submodules, one for each tag that its nodes carry."""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass, field
from typing import Any

from ...nn.modules.container import ModuleList
from .._compatibility import compatibility
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from .tools_common import NodeList, is_node_output_tensor
from .utils.common import HolderModule, lift_subgraph_as_module

__all__ = ["Component", "getattr_recursive", "move_non_tensor_nodes_on_boundary",
           "setattr_recursive", "split_by_tags"]


@compatibility(is_backward_compatible=False)
def getattr_recursive(obj: Any, name: str) -> Any:
    """Return the attribute at a dotted path, or None."""
    for part in name.split("."):
        if isinstance(obj, ModuleList):
            obj = obj._modules.get(part)
        else:
            obj = getattr(obj, part, None)
        if obj is None:
            return None
    return obj


@compatibility(is_backward_compatible=False)
def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Set the attribute at a dotted path."""
    *above, name = attr.split(".")
    for part in above:
        obj = getattr(obj, part)
    setattr(obj, name, value)


@compatibility(is_backward_compatible=False)
@dataclass
class Component:
    """The subgraph of one tag, and how its inputs and outputs map to the original graph."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


class _Split:
    """State of one split_by_tags call."""

    def __init__(self, gm: GraphModule, tags: list[str]) -> None:
        self.gm = gm
        self.components = [Component(Graph(), i, tag) for i, tag in enumerate(tags)]
        self.by_tag = dict(zip(tags, self.components, strict=True))
        self.home: dict[Node, Component] = {}
        self.copies: dict[Node, Node] = {}  # original node -> its copy in its component
        self.main = Graph()
        self.in_main: dict[Node, Node] = {}
        self.crossing: dict[Node, None] = {}  # values that leave their component

    def add(self, node: Node) -> None:
        """Copy a node into its tag's component."""
        if not hasattr(node, "tag"):
            raise AssertionError(f"Node does not have tag: {node.format_node()}")
        component = self.by_tag[node.tag]
        sources = [self.home[n] for n in node.all_input_nodes if n in self.home]
        latest = max((c.order for c in sources), default=0)
        if component.order < latest:
            raise AssertionError(
                f"Component {component.name} order must be >= max of its upstream components, "
                f"order={component.order} and max={latest}"
            )
        self.home[node] = component
        copied: Any = component.graph.node_copy(node, lambda x: self._value(component, x))
        copied.tag = node.tag
        self.copies[node] = copied

    def _value(self, component: Component, x: Node) -> Node:
        """Return what represents a value in a component: its copy there, or a placeholder."""
        graph = component.graph
        if x.op == "get_attr":
            if x not in component.getattr_maps:
                attribute = graph.get_attr(x.target, type_expr=x.type)
                attribute.meta = copy.copy(x.meta)
                component.getattr_maps[x] = attribute
            return component.getattr_maps[x]
        if self.home.get(x) is component:
            return self.copies[x]
        if x not in component.orig_inputs:
            component.orig_inputs.append(x)
            placeholder = graph.placeholder(x.name, type_expr=x.type)
            placeholder.meta = copy.copy(x.meta)
            component.input_placeholders.append(placeholder)
            self.crossing[x] = None
        return component.input_placeholders[component.orig_inputs.index(x)]

    def finish(self, component: Component, return_tuple: bool) -> dict[str, str]:
        """Build the component's module and call it; return the new paths of its attributes."""
        outputs = tuple(self.copies[n] for n in component.orig_outputs)
        is_single = len(outputs) == 1 and not return_tuple
        component.graph.output(outputs[0] if is_single else outputs)
        component.gm, paths = lift_subgraph_as_module(
            self.gm, subgraph=component.graph, comp_name=component.name
        )
        inputs = tuple(self.in_main[n] for n in component.orig_inputs)
        call = self.main.call_module(component.name, args=inputs)
        for i, node in enumerate(component.orig_outputs):
            self.in_main[node] = call if is_single else \
                self.main.call_function(operator.getitem, (call, i))
        return paths


def _find_nodes(argument: Any) -> NodeList:
    nodes: NodeList = []
    map_arg(argument, nodes.append)
    return nodes


@compatibility(is_backward_compatible=False)
def split_by_tags(
    gm: GraphModule, tags: list[str], return_fqn_mapping: bool = False,
    return_tuple: bool = False, GraphModuleCls: type[GraphModule] = GraphModule,
) -> GraphModule | tuple[GraphModule, dict[str, str]]:
    """Split a module by node tag (`node.tag = "head"`) into submodules, in the order of `tags`.

    A node may only use values of its own tag and earlier ones. Placeholders, the output and
    get_attr nodes need no tag. `return_fqn_mapping`: also return a dict from old to new module and
    attribute paths. `return_tuple`: submodules always return tuples.

    >>> from flambeau.fx.passes.split_utils import split_by_tags
    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(x + 1))
    >>> for node, tag in zip(list(gm.graph.nodes)[1:3], ["first", "second"], strict=True):
    ...     node.tag = tag
    >>> [name for name, _ in split_by_tags(gm, ["first", "second"]).named_children()]
    ['first', 'second']
    """
    split = _Split(gm, tags)
    output: Node | None = None
    for node in gm.graph.nodes:
        if node.op == "output":
            if output is not None:
                raise RuntimeError("Multiple output nodes in graph!")
            output = node
        elif node.op == "placeholder":
            split.in_main[node] = split.main.placeholder(node.name, type_expr=node.type)
            split.in_main[node].meta = copy.copy(node.meta)
        elif node.op != "get_attr":
            split.add(node)
    if output is None:
        raise RuntimeError("Graph had no output node!")
    results = _find_nodes(output.args[0])
    constants = [x for x in results if x.op == "get_attr"]
    for x in constants:
        split.in_main[x] = split.main.get_attr(x.name, type_expr=x.type)
    split.crossing |= dict.fromkeys(x for x in results if x.op != "get_attr")
    for node in split.crossing:
        if node in split.home:
            split.home[node].orig_outputs.append(node)
    paths: dict[str, str] = {}
    for component in split.components:
        paths |= split.finish(component, return_tuple)
    split.main.output(map_arg(output.args[0], split.in_main.__getitem__))
    split.main._codegen = gm.graph._codegen
    root = HolderModule({c.name: c.gm for c in split.components})
    for x in constants:
        setattr(root, x.name, getattr_recursive(gm, x.target))
    whole = GraphModuleCls(root, split.main)
    return (whole, paths) if return_fqn_mapping else whole


@compatibility(is_backward_compatible=False)
def move_non_tensor_nodes_on_boundary(subgraphs: list[Any]) -> None:
    """Move non-tensors from the end of an accelerator's subgraph to the subgraph that uses them.

    Arguments:
        subgraphs: `Subgraph` objects, changed in place. A node moves together with what depends on
            it in its subgraph. It stays, with a note, if its users lie in several other subgraphs.
    """
    home = {node: i for i, subgraph in enumerate(subgraphs) for node in subgraph.nodes}
    for i, subgraph in enumerate(subgraphs):
        if not subgraph.is_acc:
            continue  # the CPU's nodes may be none that an accelerator can run
        pending = [node for node in subgraph.nodes if _is_used_elsewhere(node, i, home)]
        seen: set[Node] = set()
        for node in pending:  # grows meanwhile
            if node in seen or home[node] != i:
                continue
            seen.add(node)
            targets = {home[user] for user in _find_users(node, home)} - {i}
            if len(targets) != 1:
                print(f"Cannot move non-tensor node {node.name} on boundary because it has "
                      "children in multiple subgraphs")
                continue
            target = targets.pop()
            moving = _collect_dependents(node, i, target, home)
            if moving is None:
                continue
            for moved in moving:
                subgraph.nodes.remove(moved)
                subgraphs[target].nodes.append(moved)
                home[moved] = target
                print(f"In order move the non-tensor node {node.name} on boundary, moved node "
                      f"{moved.name} from acc_{i} to "
                      f"{'acc' if subgraphs[target].is_acc else 'gpu'}_{target}")
            pending += [n for n in node.all_input_nodes if home.get(n) == i
                        and n not in seen and _is_used_elsewhere(n, i, home)]


def _find_users(node: Node, home: dict[Node, int]) -> NodeList:
    return [user for user in node.users if user in home]


def _is_used_elsewhere(node: Node, i: int, home: dict[Node, int]) -> bool:
    """Tell whether a non-tensor of subgraph `i` is used in another."""
    return not is_node_output_tensor(node) and any(home[u] != i for u in _find_users(node, home))


def _collect_dependents(
    node: Node, i: int, target: int, home: dict[Node, int]
) -> dict[Node, None] | None:
    """Return a node and what depends on it in its subgraph; None if that is used elsewhere."""
    moving = {node: None}
    for member in (pending := [node]):  # grows meanwhile
        for user in _find_users(member, home):
            if home[user] not in (i, target):
                return None
            if home[user] == i and user not in moving:
                moving[user] = None
                pending.append(user)
    return moving
