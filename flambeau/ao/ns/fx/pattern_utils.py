"""torch.ao.ns.fx.pattern_utils: chains of operators that are compared as one."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import product
from typing import Any

from ....fx import GraphModule, Node
from ....nn import functional as F
from ....nn import modules as nn
from ....tensor.dtypes import float16
from ...quantization.backend_config import get_native_backend_config
from ...quantization.fake_quantize import FakeQuantizeBase
from ...quantization.observer import ObserverBase
from ...quantization.utils import getattr_from_fqn
from .ns_types import NSNodeTargetType

__all__ = ["end_node_matches_reversed_fusion", "get_reversed_fusions", "get_type_a_related_to_b"]

# A function, a module's class, a method's name, or (method's name, its first argument).
NSFusionElType = Any
NSFusionType = tuple[NSFusionElType, ...]


def get_type_a_related_to_b(
    base_name_to_sets_of_related_ops: dict[str, set[NSNodeTargetType]],
) -> set[tuple[NSNodeTargetType, NSNodeTargetType]]:
    """Return all ordered pairs of operators that are forms of the same one."""
    return {(a, b) for related in base_name_to_sets_of_related_ops.values()
            for a, b in product(related, related)}


def _flatten(pattern: Any) -> NSFusionType:
    """Return a pattern of graph mode, such as (relu, (norm, convolution)), as a flat tuple."""
    if not isinstance(pattern, tuple):
        return (pattern,)
    nested = len(pattern) == 2 and isinstance(pattern[1], tuple) and len(pattern[1]) == 2
    return (pattern[0], *pattern[1]) if nested else pattern


@functools.cache
def get_reversed_fusions() -> list[tuple[NSFusionType, int]]:
    """Return (operators from last to first, index of the base operator from the first).

    Earlier entries win. Each chain may end in an observer.
    """
    norms = [(getattr(nn, f"BatchNorm{rank}d"), getattr(nn, f"Conv{rank}d")) for rank in (1, 2, 3)]
    patterns = [(_flatten(pattern), 0) for pattern
                in get_native_backend_config()._pattern_complex_format_to_config]
    patterns += [((("to", float16), F.relu, F.linear, "dequantize"), 1)]
    patterns += [(norm, 0) for norm in norms] + [((nn.ReLU, *norm), 0) for norm in norms]
    return [(chain, base) for pattern, base in patterns
            for chain in (pattern, (ObserverBase, *pattern), (FakeQuantizeBase, *pattern))
            if len(chain) > 1]


def _calls(node: Node, element: NSFusionElType, gm: GraphModule) -> bool:
    """Whether a node calls the operator that a chain has at its place."""
    if node.op == "call_function":
        return not isinstance(element, str | type) and node.target == element
    if node.op == "call_module":
        return isinstance(element, type) and isinstance(getattr_from_fqn(gm, str(node.target)),
                                                        element)
    if node.op == "call_method" and isinstance(element, tuple):
        return (node.target, *node.args[1:2]) == element
    return node.op == "call_method" and isinstance(element, str) and node.target == element


def end_node_matches_reversed_fusion(
    end_node: Node, reversed_fusion: Sequence[NSFusionElType], gm: GraphModule,
    seen_nodes: set[Node],
) -> bool:
    """Whether a chain of operators ends at a node, and none of its nodes were seen before."""
    node: Any = end_node
    for element in reversed_fusion:
        if not isinstance(node, Node) or node in seen_nodes or not _calls(node, element, gm):
            return False
        node = node.args[0] if node.args else None
    return isinstance(node, Node)
