"""torch.ao.ns.fx.ns_types: what the numeric suite on graphs passes between its parts."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from ....fx import Node

# The values that one logger recorded, or one layer's weight, and where they come from.
NSSingleResultType = dict[str, Any]
# {layer: {type of values: {model: results}}}
NSResultsType = dict[str, dict[str, dict[str, list[NSSingleResultType]]]]
# What a node calls: a function, a module's class or a method's name.
NSNodeTargetType = Callable[..., Any] | str


class NSSingleResultValuesType(str, enum.Enum):  # noqa: UP042  # prints as PyTorch's does
    """The type of the values in a result."""

    WEIGHT = "weight"
    NODE_OUTPUT = "node_output"
    NODE_INPUT = "node_input"


class NSSubgraph(NamedTuple):
    """A chain of nodes that are compared as one, such as a convolution and its ReLU."""

    start_node: Node
    end_node: Node
    base_op_node: Node
