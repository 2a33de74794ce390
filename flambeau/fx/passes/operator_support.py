"""OperatorSupport: tell partitioners which nodes of a graph a backend can run."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...nn.module import Module
from ...tensor.dtypes import dtype
from .._compatibility import compatibility
from ..node import Node
from .shape_prop import TensorMetadata
from .tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain", "chain",
           "create_op_support"]

TargetTypeName = str
# Supported dtypes of positional arguments (None: any), and of keyword arguments by name.
SupportedArgumentDTypes = tuple[Sequence[Sequence[dtype]], dict[str, Sequence[dtype]]] | None
SupportDict = Mapping[TargetTypeName, SupportedArgumentDTypes]
IsNodeSupported = Callable[[Mapping[str, Module], Node], bool]


@compatibility(is_backward_compatible=False)
class OperatorSupportBase(abc.ABC):
    """Decides which nodes a backend can run."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Return whether the backend can run `node`; `submodules` maps paths to modules."""
        raise NotImplementedError


@compatibility(is_backward_compatible=False)
class OperatorSupport(OperatorSupportBase):
    """Decides by a table from target name to supported argument dtypes; None means any dtype.

    >>> from flambeau.fx.passes.operator_support import OperatorSupport
    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(x).neg())
    >>> support = OperatorSupport({"torch.relu": None})
    >>> [support.is_node_supported({}, n) for n in gm.graph.nodes if n.op.startswith("call")]
    [True, False]
    """

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Return whether the table lists the node's target with these argument dtypes."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        rule = self._support_dict[target]
        if rule is None:
            return True
        positional, by_name = rule
        pairs: list[tuple[Any, Any]] = list(zip(node.args, positional, strict=False))
        pairs += [(node.kwargs.get(name), dtypes) for name, dtypes in by_name.items()]
        return all(dtypes is None or not isinstance(argument, Node)
                   or _get_arg_dtype(argument) in dtypes for argument, dtypes in pairs)


class _ByFunction(OperatorSupportBase):
    def __init__(self, is_node_supported: IsNodeSupported) -> None:
        self._decide = is_node_supported

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        return self._decide(submodules, node)


@compatibility(is_backward_compatible=False)
def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """Return an OperatorSupport that decides by `is_node_supported(submodules, node)`."""
    return _ByFunction(is_node_supported)


@compatibility(is_backward_compatible=False)
def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Return the intersection: nodes that every given support accepts."""
    return create_op_support(
        lambda modules, node: all(s.is_node_supported(modules, node) for s in op_support)
    )


@compatibility(is_backward_compatible=False)
def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Return the union: nodes that at least one given support accepts."""
    return create_op_support(
        lambda modules, node: any(s.is_node_supported(modules, node) for s in op_support)
    )


@compatibility(is_backward_compatible=False)
class OpSupports:
    """Building blocks to combine with `chain` and `any_chain`."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: dtype) -> OperatorSupportBase:
        """Support all nodes except those with an input of this dtype."""
        return create_op_support(
            lambda modules, node: all(_get_arg_dtype(n) != dtype for n in node.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Support all nodes except those with these names."""
        return create_op_support(lambda modules, node: node.name not in disallow_set)


def _get_arg_dtype(arg: Node) -> Any:
    meta = arg.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else arg.meta["type"]
