"""Write the calls of a graph in one form: arguments by name, operators of Python."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

from ...ops.pointwise.arithmetic import add, mul, sub
from ...ops.pointwise.compare import eq, ge, gt, le, lt, ne
from ...ops.pointwise.division import div, floor_divide, remainder
from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Argument, Node, map_aggregate
from ..operator_schemas import create_type_hint, normalize_function, normalize_module
from ..proxy import Proxy
from .schema_type_annotation import AnnotateTypesWithSchema

__all__ = ["NormalizeArgs", "NormalizeOperators"]


class NormalizeArgs(Transformer):
    """Copies a graph with arguments in the order of signatures, and with their defaults.

    Arguments:
        module: the graph module.
        normalize_to_only_use_kwargs: pass all arguments by name.

    >>> from flambeau.fx.experimental.normalize import NormalizeArgs
    >>> gm = torch.fx.symbolic_trace(lambda x: nn.functional.relu(x))
    >>> node = list(NormalizeArgs(gm).transform().graph.nodes)[1]
    >>> node.args, node.kwargs
    ((), {'input': x, 'inplace': False})
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}  # from new values to the nodes before
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs
        self._types: tuple[Any, Any] = (None, None)

    def run_node(self, n: Node) -> Any:
        """Copy a node, with its type and its meta."""
        def type_of(argument: Any) -> Any:
            return n.meta.get("type") if isinstance(argument, Node) else type(argument)

        positional: Any = map_aggregate(n.args, type_of)
        self._types = (tuple(create_type_hint(x) for x in positional),
                       {name: type_of(x) for name, x in n.kwargs.items()})
        value = super().run_node(n)
        if n.op != "output":
            self.node_map[value] = n
            value.node.meta, value.node.type = n.meta, n.type
        return value

    def call_function(
        self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function in the one form, if its signature is known."""
        normal = normalize_function(target, args, kwargs, *self._types,
                                    self.normalize_to_only_use_kwargs)
        if normal is None:
            return super().call_function(target, args, kwargs)
        return self.tracer.create_proxy("call_function", target, normal[0], normal[1])

    def call_module(
        self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a module in the one form, if it is one of torch.nn's."""
        normal = normalize_module(self.module, target, args, kwargs,
                                  self.normalize_to_only_use_kwargs)
        return super().call_module(target, *(normal or (args, kwargs)))


class NormalizeOperators(AnnotateTypesWithSchema):
    """Copies a graph with Python's operators in place of torch's functions of two arguments.

    >>> from flambeau.fx.experimental.normalize import NormalizeOperators
    >>> gm = NormalizeOperators(torch.fx.symbolic_trace(lambda x, y: torch.add(x, y))).transform()
    >>> list(gm.graph.nodes)[2].target
    <built-in function add>
    """

    binary_magic_method_remap: ClassVar[dict[Callable[..., Any], Callable[..., Any]]] = {
        add: operator.add, mul: operator.mul, sub: operator.sub,
        div: operator.truediv, floor_divide: operator.floordiv,
        remainder: operator.mod, eq: operator.eq, ne: operator.ne,
        lt: operator.lt, le: operator.le, gt: operator.gt,
        ge: operator.ge,
    }

    def call_function(
        self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call an operator of Python for a function of two arguments that is one."""
        if target in self.binary_magic_method_remap and len(args) == 2:
            return super().call_function(self.binary_magic_method_remap[target], args, {})
        return super().call_function(target, args, kwargs)
