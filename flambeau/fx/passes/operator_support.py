"""OperatorSupport: which nodes of a graph a backend can run, for partitioners."""

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
# The dtypes of positional arguments (None: any), and of those by name.
SupportedArgumentDTypes = tuple[Sequence[Sequence[dtype]], dict[str, Sequence[dtype]]] | None
SupportDict = Mapping[TargetTypeName, SupportedArgumentDTypes]
IsNodeSupported = Callable[[Mapping[str, Module], Node], bool]


@compatibility(is_backward_compatible=False)
class OperatorSupportBase(abc.ABC):
    """Says which nodes a backend can run."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether the backend can run the node; `submodules` are the graph's modules by path."""
        raise NotImplementedError


@compatibility(is_backward_compatible=False)
class OperatorSupport(OperatorSupportBase):
    """Says it by a table from what a node calls to the dtypes of its arguments; None is any.

    >>> from flambeau.fx.passes.operator_support import OperatorSupport
    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(x).neg())
    >>> support = OperatorSupport({"torch.relu": None})
    >>> [support.is_node_supported({}, n) for n in gm.graph.nodes if n.op.startswith("call")]
    [True, False]
    """

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether the table has what the node calls, with these dtypes."""
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
    """The support that a function of (submodules, node) describes."""
    return _ByFunction(is_node_supported)


@compatibility(is_backward_compatible=False)
def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What all of them support."""
    return create_op_support(
        lambda modules, node: all(s.is_node_supported(modules, node) for s in op_support)
    )


@compatibility(is_backward_compatible=False)
def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """What at least one of them supports."""
    return create_op_support(
        lambda modules, node: any(s.is_node_supported(modules, node) for s in op_support)
    )


@compatibility(is_backward_compatible=False)
class OpSupports:
    """Small supports to be combined by `chain` and `any_chain`."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: dtype) -> OperatorSupportBase:
        """All nodes but those with an input of the dtype."""
        return create_op_support(
            lambda modules, node: all(_get_arg_dtype(n) != dtype for n in node.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """All nodes but those of these names."""
        return create_op_support(lambda modules, node: node.name not in disallow_set)


def _get_arg_dtype(arg: Node) -> Any:
    meta = arg.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else arg.meta["type"]
