"""Prepare a module for inference: fold batch norms into the layers before them, drop dropout."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from ...nn.module import Module
from ...nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from ...nn.modules.conv import Conv1d, Conv2d, Conv3d
from ...nn.modules.dropout import Dropout
from ...nn.modules.linear import Linear
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from .._symbolic_trace import Tracer, symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Argument, Node

__all__ = ["extract_subgraph", "fuse", "matches_module_pattern", "optimize_for_inference",
           "remove_dropout", "replace_node_module"]

_FUSIBLE = [(Conv1d, BatchNorm1d), (Conv2d, BatchNorm2d), (Conv3d, BatchNorm3d),
            (Linear, BatchNorm1d)]


def matches_module_pattern(
    pattern: Iterable[type], node: Node, modules: dict[str, Any]
) -> bool:
    """Tell whether a node and its first argument call modules of exactly these two classes."""
    if not node.args:
        return False
    pair = (node.args[0], node)
    return all(isinstance(n, Node) and n.op == "call_module"
               and type(modules.get(str(n.target))) is expected
               for expected, n in zip(pattern, pair, strict=True))


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Module) -> None:
    """Put another module where a node's is, in the dict by path too."""
    path = str(node.target)
    above, _, name = path.rpartition(".")
    modules[path] = new_module
    setattr(modules[above], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """Fold batch norms into the convolutions and linear layers before them, for inference.

    Arguments:
        model: a module in eval mode. Batch norms without running statistics stay.
        inplace: change its layers instead of a copy's.
        no_trace: use a graph module's graph as it is.

    >>> from flambeau.fx.experimental.optimization import fuse
    >>> net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    >>> [node.target for node in fuse(net).graph.nodes if node.op == "call_module"]
    ['0']
    """
    if not inplace:
        model = copy.deepcopy(model)
    gm = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(gm.named_modules())
    graph = copy.deepcopy(gm.graph)
    for pattern in _FUSIBLE:
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules):
                continue
            layer, norm = modules[node.args[0].target], modules[node.target]
            if len(node.args[0].users) > 1 or not norm.track_running_stats:
                continue
            fold = fuse_linear_bn_eval if pattern[0] is Linear else fuse_conv_bn_eval
            replace_node_module(node.args[0], modules, fold(layer, norm))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(gm, graph)


def remove_dropout(model: Module) -> GraphModule:
    """Trace a module and leave out its nn.Dropout layers.

    >>> from flambeau.fx.experimental.optimization import remove_dropout
    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    >>> [node.target for node in remove_dropout(net).graph.nodes if node.op == "call_module"]
    ['0']
    """
    class WithoutDropout(Transformer):
        def call_module(
            self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]
        ) -> Any:
            if not isinstance(self.submodules[target], Dropout):
                return super().call_module(target, args, kwargs)
            if len(args) != 1:
                raise AssertionError(f"Expected 1 arg for Dropout, got {len(args)}")
            return args[0]

    return WithoutDropout(symbolic_trace(model)).transform()


def extract_subgraph(
    orig_module: Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """Return a module that runs some nodes of a graph.

    Arguments:
        orig_module: the module whose submodules and parameters the nodes use.
        nodes: the nodes, in order.
        inputs: the nodes whose values become arguments.
        outputs: the nodes whose values are returned, in a list.
    """
    graph = Graph()
    copies = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([copies[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def optimize_for_inference(
    model: Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> GraphModule:
    """Return a module for inference: batch norms folded, dropout left out.

    Arguments:
        model: a module in eval mode.
        pass_config: `{"conv_bn_fuse": False}` or `{"remove_dropout": False}` leaves a pass out.
            "mkldnn_layout_optimize" changes nothing: the layouts are those of a C++ library.
        tracer: the class that traces the result.
    """
    settings = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if settings["conv_bn_fuse"]:
        model = fuse(model)
    if settings["remove_dropout"]:
        model = remove_dropout(model)
    traced = tracer()
    graph = traced.trace(copy.deepcopy(model))
    return GraphModule(traced.root, graph)
