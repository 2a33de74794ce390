"""torch._export.pass_base: passes over exported graphs as interpreters that record what they call.

A pass runs a graph on the example values of its inputs. Its methods receive each call; what they
call becomes the new graph, whose nodes keep their names, lines and modules.
"""

from __future__ import annotations

import operator
from typing import Any

from .._subclasses.fake_tensor import FakeTensor
from ..export.control_flow import unrecorded
from ..export.symbolic.sizes import get_first_value
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.interpreter import Interpreter
from ..fx.module_paths import attribute_at
from ..fx.node import Node
from ..fx.passes.infra.pass_base import PassBase, PassResult
from ..library import OpOverload
from ..nn.module import Module
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree

__all__ = ["ExportPassBaseError", "NodeMetadata", "ProxyValue"]


class ExportPassBaseError(RuntimeError):
    """A graph that a pass cannot run."""


class NodeMetadata:
    """The `meta` of the node that a call comes from."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = dict(data)

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.data[key] = value

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def copy(self) -> NodeMetadata:
        """Return a copy."""
        return NodeMetadata(self.data)


class ProxyValue:
    """A value of the run, and the node that computes it in the new graph."""

    def __init__(self, data: Any, node: Node) -> None:
        self.data, self.node = data, node

    def to_tensor(self) -> Tensor:
        """Return the value, which must be a tensor."""
        assert isinstance(self.data, Tensor)
        return self.data

    def is_tensor(self) -> bool:
        """Return whether the value is a tensor."""
        return isinstance(self.data, Tensor)

    def __iter__(self) -> Any:
        yield from self.data

    def __bool__(self) -> bool:
        return bool(self.data)


def _values(args: Any) -> Any:
    return pytree.tree_map_only(ProxyValue, lambda x: x.data, args)


def _nodes(args: Any) -> Any:
    return pytree.tree_map_only(ProxyValue, lambda x: x.node, args)


class _PassInterpreter(Interpreter):
    """Hands each node of a graph to the pass."""

    def __init__(self, owner: _ExportPassBaseDeprecatedDoNotUse, module: GraphModule) -> None:
        super().__init__(module)
        self.owner = owner
        self.node: Any = None

    def run_node(self, n: Node) -> Any:
        self.node = n
        self.owner.source = n
        self.owner.node_debug_str = n.format_node()
        return super().run_node(n)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().placeholder(target, args, kwargs)
        return self.owner.placeholder(target, value, NodeMetadata(self.node.meta))

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.owner.output(args[0], NodeMetadata(self.node.meta)).data

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = attribute_at(self.module, target)
        return value if isinstance(value, GraphModule) else self.owner.attribute(
            target, value, NodeMetadata(self.node.meta))

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        owner, meta = self.owner, NodeMetadata(self.node.meta)
        name, space = getattr(target, "__name__", ""), getattr(target, "__module__", "")
        if name == "getitem" and space == "_operator":
            return owner.call_getitem(args[0], args[1], meta)
        if isinstance(target, OpOverload):
            return owner.call_operator(target, args, kwargs, meta)
        if space == "torch.ops.higher_order" and name == "cond":
            return owner.call_cond(args[0], args[1], args[2], args[3], meta)
        if space == "torch.ops.higher_order" and name == "map_impl":
            return owner.call_map(args[0], args[1], args[2], meta)
        if space in ("_operator", "builtins", "math") or name.startswith("sym_"):
            return owner.call_sym(target, args, meta)
        return owner._fx("call_function", target, args, kwargs, meta)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        raise ExportPassBaseError("call_module is not supported.")

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        raise ExportPassBaseError("call_method is not supported.")


class _ExportPassBaseDeprecatedDoNotUse(PassBase):
    """Base class of passes: override `call_operator` and its like to call something else.

    >>> from flambeau._export.pass_base import _ExportPassBaseDeprecatedDoNotUse
    >>> class Cosines(_ExportPassBaseDeprecatedDoNotUse):
    ...     def call_operator(self, op, args, kwargs, meta):
    ...         op = torch.ops.aten.cos.default if op == torch.ops.aten.sin.default else op
    ...         return super().call_operator(op, args, kwargs, meta)
    """

    def __init__(self) -> None:
        self.graph, self.root = Graph(), Module()
        self.node_debug_str: str | None = None
        self.source: Node | None = None
        self._initialized = True

    def _fx(
        self, kind: str, target: Any, args: Any, kwargs: Any, meta: NodeMetadata
    ) -> ProxyValue:
        """Run a call, and add its node to the new graph."""
        if kind == "output":
            return ProxyValue(_values(args[0]), self._add(kind, target, args, kwargs, meta))
        run_args, run_kwargs = pytree.tree_map(get_first_value, _values((args, kwargs)))
        with unrecorded():
            value = target(*run_args, **run_kwargs)
        node = self._add(kind, target, args, kwargs, meta)
        same = self.source is not None and self.source.target == target
        node.meta["val"] = meta.data["val"] if same and "val" in meta else value
        return ProxyValue(value, node)

    def _add(
        self, kind: str, target: Any, args: Any, kwargs: Any, meta: NodeMetadata
    ) -> Node:
        function: Any = target
        new_args, new_kwargs = pytree.tree_map_only(
            Module, self._attach, _nodes((args, kwargs)))
        name = None
        if self.source is not None and self.source.target == target:
            name = self.source.name
        elif isinstance(target, OpOverload):
            name = function.overloadpacket.__name__
        node: Node = self.graph.create_node(kind, target, tuple(new_args), dict(new_kwargs), name)
        node.meta.update({k: v for k, v in meta.data.items() if k != "val"})
        return node

    def _attach(self, module: Module) -> Node:
        """Return the node that reads a graph of control flow."""
        for node in self.graph.nodes:
            if node.op == "get_attr" and attribute_at(self.root, str(node.target)) is module:
                return node
        name = f"submodule_{len(self.root._modules)}"
        self.root.add_module(name, module)
        return self.graph.get_attr(name)

    # ------------------------------------------------------- what a pass may override

    def inputs(self, graph_module: GraphModule) -> list[Any]:
        """Return the values on which to run a graph."""
        values = []
        for node in graph_module.graph.nodes:
            if node.op == "placeholder":
                if "val" not in node.meta and node.users:
                    raise ExportPassBaseError(
                        f"Cannot construct an input for graph module: {graph_module}.")
                value = node.meta.get("val")
                constant = getattr(value, "constant", None) \
                    if isinstance(value, FakeTensor) else None
                values.append(value if constant is None else constant)
        return values

    def on_attr(self, attr: ProxyValue) -> None:
        """Observe a tensor that the graph reads from its module."""

    def attribute(self, name: str, value: Any, meta: NodeMetadata) -> ProxyValue:
        """Add a tensor that the graph reads from its module."""
        setattr(self.root, name, value)
        node = self.graph.get_attr(name)
        node.meta.update(meta.data)
        result = ProxyValue(value, node)
        self.on_attr(result)
        return result

    def placeholder(self, name: str, arg: Any, meta: NodeMetadata) -> ProxyValue:
        """Add an input."""
        node = self.graph.placeholder(name)
        node.meta.update(meta.data)
        node.meta.setdefault("val", arg)
        return ProxyValue(arg, node)

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: NodeMetadata) -> ProxyValue:
        """Call an operator."""
        return self._fx("call_function", op, args, kwargs, meta)

    def call_sym(self, target: Any, args: Any, meta: NodeMetadata) -> ProxyValue:
        """Call a function of numbers."""
        return self._fx("call_function", target, args, {}, meta)

    def call_getitem(self, value: Any, key: int, meta: NodeMetadata) -> ProxyValue:
        """Take a part of a result."""
        return self._fx("call_function", operator.getitem, (value, key), {}, meta)

    def call_cond(
        self, pred: Any, true_fn: GraphModule, false_fn: GraphModule, inputs: Any,
        meta: NodeMetadata,
    ) -> ProxyValue:
        """Transform both branches of a cond, and call it with them."""
        branches = [self.call_submodule(f, tuple(inputs)).graph_module
                    for f in (true_fn, false_fn)]
        assert self.source is not None
        return self._fx("call_function", self.source.target, (pred, *branches, inputs), {}, meta)

    def call_map(self, f: GraphModule, mapped_args: Any, operands: Any, meta: NodeMetadata
                 ) -> ProxyValue:
        """Transform the function that a map applies, and call it with that."""
        slices = [x.data[0] for x in mapped_args]
        call = self.source
        assert call is not None
        body = self.call_submodule(f, (*slices, *operands)).graph_module
        self.source = call
        return self._fx("call_function", call.target, (body, mapped_args, operands), {}, meta)

    def output(self, results: Any, meta: NodeMetadata) -> ProxyValue:
        """Add the results."""
        return self._fx("output", "output", (results,), {}, meta)

    def call_submodule(self, graph_module: GraphModule, inputs: tuple[Any, ...]) -> PassResult:
        """Transform a graph on these inputs."""
        outer = self.graph, self.root, self.source
        self.graph, self.root = Graph(), Module()
        self.graph.set_codegen(graph_module.graph._codegen)
        try:
            _PassInterpreter(self, graph_module).run(*_values(inputs))
            return PassResult(GraphModule(self.root, self.graph), True)
        finally:
            self.graph, self.root, self.source = outer

    def call(self, graph_module: GraphModule) -> PassResult:
        """Transform a module's graph."""
        if not getattr(self, "_initialized", False):
            raise ExportPassBaseError("ExportPass is not initialized with __init__().")
        return self.call_submodule(graph_module, tuple(self.inputs(graph_module)))
