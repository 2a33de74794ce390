"""make_fx: trace a function into a graph of aten operators by one run on real tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...autograd.backward import require_gradients
from ...autograd.mode import no_grad
from ...export.recorder import Recorder
from ...nn.module import Module
from ...tensor.absent import make_absent_getattr
from ...tensor.tensor import Tensor
from ...utils import _pytree as pytree
from ..graph import Graph
from ..graph_module import GraphModule, make_graph_module
from ..node import Node

__all__ = ["get_proxy_mode", "make_fx"]

__getattr__ = make_absent_getattr(__name__, ("ProxyTorchDispatchMode",))


def get_proxy_mode() -> None:
    """Return None: there are no traces of PyTorch's compiler.

    >>> from flambeau.fx.experimental.proxy_tensor import get_proxy_mode
    >>> get_proxy_mode() is None
    True
    """
    return None


def make_fx(
    f: Callable[..., Any], decomposition_table: Any = None, tracing_mode: str = "real",
    **options: Any,
) -> Callable[..., GraphModule]:
    """Return a function that runs `f` on its arguments and returns the recorded GraphModule.

    `decomposition_table` and other options are accepted and ignored: sizes are those of the
    arguments, and operators are not decomposed. `tracing_mode="symbolic"`: numbers that `f` reads
    from tensors stay symbolic.

    >>> from flambeau.fx.experimental.proxy_tensor import make_fx
    >>> print(make_fx(lambda x: x * 2)(torch.ones(3)).code.strip())
    def forward(self, x_1):
        mul = torch.ops.aten.mul.Tensor(x_1, 2);  x_1 = None
        return mul
    """

    def wrapped(*args: Any) -> GraphModule:
        graph, root = Graph(), Module()

        def lift(value: Tensor) -> Node:
            name = f"_tensor_constant{len(root._buffers)}"
            root.register_buffer(name, value.detach())
            with graph.inserting_before(_find_first_call(graph)):
                return graph.create_node("get_attr", name)

        symbolic = tracing_mode == "symbolic"
        recorder = Recorder(graph, lift, symbolic, 1 if symbolic else None)
        inputs = [_add_input(recorder, graph, name, value)
                  for name, value in zip(_names(f, args), args, strict=True)]
        with no_grad(), recorder.active():
            result = f(*inputs)
        kind = getattr(f, "__annotations__", {}).get("return")
        graph.output(pytree.tree_map(recorder.node_of, result),
                     kind if isinstance(kind, type) else None)
        graph.eliminate_dead_code()
        for path, part in recorder.subgraphs.items():  # of cond, while_loop, map and scans
            _number_inputs(part)
            setattr(root, path, part)
        return make_graph_module(root, graph, getattr(f, "__name__", type(f).__name__))

    return wrapped


def _number_inputs(module: GraphModule) -> None:
    """Name the inputs of a subgraph, and of those inside it, by their positions, as PyTorch does.
    """
    graph, inputs = Graph(), {}
    for i, node in enumerate(module.graph.find_nodes(op="placeholder")):
        inputs[node] = graph.placeholder(f"arg{i}_1")
        inputs[node].meta = node.meta
    graph.output(graph.graph_copy(module.graph, inputs))
    module.graph = graph
    for part in module.children():
        if isinstance(part, GraphModule):
            _number_inputs(part)


def _find_first_call(graph: Graph) -> Node:
    return next((n for n in graph.nodes if n.op == "call_function"), graph._root)


def _names(f: Any, args: tuple[Any, ...]) -> list[str]:
    """Return a name for each argument."""
    parameters = list(inspect.signature(f).parameters.values())
    names = [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_POSITIONAL]
    return [names[i] if i < len(names) else f"arg{i}" for i in range(len(args))]


def _add_input(recorder: Recorder, graph: Graph, name: str, value: Any) -> Any:
    """Add placeholders for an argument; copy its tensors so that each has a distinct identity."""
    leaves, spec = pytree.tree_flatten(value)
    result = []
    for i, leaf in enumerate(leaves):
        node = graph.placeholder(f"{name}_{i + 1}")
        if isinstance(leaf, Tensor):
            leaf = require_gradients(leaf.detach(), leaf.requires_grad)
            recorder.register(leaf, node)
        result.append(leaf)
    return pytree.tree_unflatten(result, spec)
