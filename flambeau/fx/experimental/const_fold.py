"""Constant folding: compute what depends only on parameters once, on the first call."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ... import nn
from ...nn.parameter import Parameter
from ...tensor.tensor import Tensor
from .._symbolic_trace import symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from ..passes.split_module import split_module

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A module that runs `const_subgraph_module` before its first call."""

    def __init__(
        self, root: Any, graph: Graph, const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None, device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = (
            None if const_subgraph is None else GraphModule(root, const_subgraph)
        )
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Compute the constants and store them as parameters."""
        name = self.fx_const_folded_attrs_name
        if self.const_subgraph_module is None or name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        folded = self.const_subgraph_module()

        if isinstance(folded, (tuple, list)):
            setattr(self, name, nn.ParameterList(map(_create_parameter, folded)))
        else:
            setattr(self, name, _create_parameter(folded))


def _create_parameter(value: Any) -> Parameter:
    """Return a folded value as a parameter; it requires a gradient if the value does."""
    if not isinstance(value, Tensor):
        return Parameter(value, requires_grad=False)
    return Parameter(value.detach().clone(), requires_grad=value.requires_grad)


def get_unique_attr_name_in_module(mod_traced: Any, name: str) -> str:
    """Return a valid name similar to `name` that the module does not use yet."""
    name = re.sub("[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        match = re.match(r"(.*)_(\d+)$", name)
        name = f"{match[1]}_{int(match[2]) + 1}" if match else f"{name}_1"
    return name


def _inline_module(gm: GraphModule, inline_mod_name: str, run_dce: bool = True) -> dict:
    """Inline a submodule in place of its call; return a map from its nodes to their copies."""
    inner = dict(gm.named_modules())[inline_mod_name]
    if not isinstance(inner, GraphModule):
        raise AssertionError(f"Expected GraphModule, got {type(inner)}")
    call = next((n for n in gm.graph.nodes
                 if n.op == "call_module" and n.target == inline_mod_name), None)
    if call is None:
        raise AssertionError(f"Could not find call_module node for {inline_mod_name}")
    values: dict[Node, Any] = {}

    def read_value(node: Node) -> Any:
        if isinstance(values[node], Node):
            values[node].meta = node.meta.copy()
        return values[node]

    arguments = iter(call.args)
    for node in inner.graph.nodes:
        if node.op == "placeholder":
            passed = next(arguments, None)
            values[node] = call.kwargs.get(node.name, passed)
        elif node.op == "output":
            result = map_arg(node.args[0], read_value)
            _replace_call(gm, call, result)
        else:
            with gm.graph.inserting_before(call):
                values[node] = gm.graph.node_copy(node, read_value)
    gm.graph.erase_node(call)
    if run_dce:
        gm.graph.eliminate_dead_code()
    return values


def _replace_call(gm: GraphModule, call: Node, result: Any) -> None:
    """Replace all uses of a call, including getitem nodes, by `result`."""
    if isinstance(result, (tuple, list)):
        for user in list(call.users):
            if user.op == "call_function" and getattr(user.target, "__name__", "") == "getitem" \
                    and isinstance(user.args[1], int):
                user.replace_all_uses_with(result[user.args[1]])
                gm.graph.erase_node(user)
    for user in list(call.users):
        user.args = map_arg(user.args, lambda n: result if n is call else n)
        user.kwargs = map_arg(user.kwargs, lambda n: result if n is call else n)


def _has_impure_calls(module: GraphModule) -> bool:
    for node in module.graph.nodes:
        if node.op == "call_function" and node.is_impure():
            return True
        if node.op == "call_module":
            child = module.get_submodule(node.target)
            if isinstance(child, GraphModule) and _has_impure_calls(child):
                return True
    return False


def _find_constant_nodes(
    module: GraphModule, skip: Callable[[Node], bool] | None
) -> tuple[set[Node], bool]:
    """Return the nodes that depend only on attributes, and whether they compute anything."""
    constant: set[Node] = set()
    computes = False
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op != "get_attr" and not constant.issuperset(node.all_input_nodes):
            continue
        if (skip is not None and skip(node)) or node.is_impure():
            continue
        if node.op == "call_module":
            child = module.get_submodule(node.target)
            if isinstance(child, GraphModule) and _has_impure_calls(child):
                continue
        constant.add(node)
        computes = computes or node.op != "get_attr"
    return constant, computes


def split_const_subgraphs(
    module: Any, skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:
    """Fold what depends only on parameters into attributes computed on the first call.

    `skip_folding_node_fn`: nodes for which it returns True are not folded.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant, computes = _find_constant_nodes(traced, skip_folding_node_fn)
    if not computes:
        return FoldedGraphModule(traced, traced.graph)
    split = split_module(traced, module, lambda node: 0 if node in constant else 1)
    folded: Any = split.submod_0
    rest: Any = getattr(split, "submod_1", None)
    for part in (rest, folded):
        for node in part.graph.nodes if part is not None else ():
            if node.op == "call_module":
                setattr(split, node.target, getattr(part, node.target))
    call = next(n for n in split.graph.nodes
                if n.op == "call_module" and n.target == "submod_0")
    constants = GraphModule(split, folded.graph)
    _read_attributes(constants.graph, call)
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    has_several = isinstance(constants.graph.output_node().args[0], tuple)
    setattr(split, name, nn.ParameterList() if has_several else Parameter())
    with split.graph.inserting_before(call):
        read = split.graph.get_attr(name)
    read.meta = call.meta.copy()
    call.replace_all_uses_with(read)
    if rest is not None:
        _inline_module(split, "submod_1")
    split.graph.eliminate_dead_code()
    return FoldedGraphModule(split, split.graph, constants.graph, name, device_for_folded_attrs)


def _read_attributes(constants: Graph, call: Node) -> None:
    """Replace the inputs of the constant part by the attributes that its call passes."""
    sources = iter(call.args)
    for node in constants.nodes:
        if node.op != "placeholder":
            continue
        source: Any = next(sources)
        if source.op != "get_attr":
            raise AssertionError(f"Expected get_attr, got {source.op}")
        with constants.inserting_before(node):
            read = constants.get_attr(source.target)
        read.meta = node.meta.copy()
        node.replace_all_uses_with(read)
        constants.erase_node(node)
