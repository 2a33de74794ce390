"""Match operator patterns in a graph, from their last node back, and collect their nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....fx import Node
from ....nn.module import Module
from ....nn.utils.parametrize import type_before_parametrizations
from ....tensor.tree import collect_leaves
from ..backend_config import BackendConfig, BackendPatternConfig, ObservationType
from ..observer import _is_activation_post_process
from ..utils import MatchAllNode


def sort_patterns(patterns: dict[Any, Any]) -> dict[Any, Any]:
    """Sort longer patterns before shorter ones."""
    def length(pattern: Any) -> int:
        return sum(map(length, pattern)) if isinstance(pattern, tuple) else 1

    return dict(sorted(patterns.items(), key=lambda item: -length(item[0])
                       if isinstance(item[0], tuple) else 1))


def _is_match(modules: dict[str, Any], node: Any, pattern: Any, inner: bool = False) -> bool:
    """Whether the pattern ends at a node; its inner nodes must have no other users."""
    head, *arguments = pattern if isinstance(pattern, tuple) else (pattern,)
    if head is MatchAllNode or node is pattern:
        return True
    if not isinstance(node, Node) or (inner and len(node.users) > 1):
        return False
    if head is getattr:
        return node.target is getattr and node.args[1] == arguments[0]
    if isinstance(head, type) and issubclass(head, Module):
        matches = node.op == "call_module" \
            and type_before_parametrizations(modules[str(node.target)]) is head
    elif callable(head):
        matches = node.op == "call_function" and node.target is head
    else:
        matches = node.op == "call_method" and node.target == head
    if not matches or not arguments:
        return bool(matches)
    return len(arguments) == len(node.args) and all(
        _is_match(modules, arg, subpattern, True)
        for arg, subpattern in zip(node.args, arguments, strict=True))


def bind(pattern: Any, node: Any) -> Any:
    """Return the nodes that a pattern covers, nested like the pattern."""
    if not isinstance(pattern, tuple):
        return node
    head, *arguments = pattern
    if head is getattr:
        return node
    return (node, *map(bind, arguments, node.args))


def list_nodes(bound: Any) -> list[Node]:
    """All nodes of a bound pattern."""
    return collect_leaves(Node, bound)


def root_of(bound: Any, config: BackendPatternConfig | None) -> Any:
    """Return the node that takes the pattern's input: by default the deepest one."""
    if config is not None and config._root_node_getter is not None:
        return config._root_node_getter(bound)
    while isinstance(bound, (tuple, list)):
        bound = bound[-1]
    return bound


@dataclass
class Match:
    """A pattern that ends at `last`; without a pattern, a custom module."""

    last: Node
    bound: Any
    pattern: Any
    root: Any
    config: BackendPatternConfig | None = None
    shares: bool = False
    is_custom: bool = False
    is_standalone: bool = False
    qconfig: Any = None


def find_matches(
    graph: Any, modules: dict[str, Any], backend: BackendConfig, custom: list[type],
    is_standalone: Callable[[Node], bool],
) -> dict[str, Match]:
    """Return the match of each node, by the node's name."""
    result: dict[str, Match] = {}
    configs = sort_patterns(backend._pattern_complex_format_to_config)
    for node in reversed(list(graph.nodes)):
        if node.name in result:
            continue
        for pattern, config in configs.items():
            if _is_match(modules, node, pattern):
                bound = bind(pattern, node)
                match = Match(node, bound, pattern, root_of(bound, config), config)
                match.shares = _shares_observer(match, modules)
                for covered in list_nodes(bound):
                    result[covered.name] = match
                break
    for node in graph.nodes:
        if node.op != "call_module":
            continue
        if type(modules[node.target]) in custom:
            result[node.name] = Match(node, node, None, node, is_custom=True)
        if is_standalone(node):
            result[node.name] = Match(node, node, None, node, is_standalone=True)
    return result


def _shares_observer(match: Match, modules: dict[str, Any]) -> bool:
    config = match.config
    assert config is not None
    observation_type = config.observation_type
    by_tensors = config._num_tensor_args_to_observation_type
    if by_tensors:
        count = sum(isinstance(arg, Node) and not has_no_tensors(arg, modules)
                    for arg in match.root.args)
        if count not in by_tensors:
            raise AssertionError(
                f"Must provide observation_type config for tensor number {count} in "
                f"num_tensor_args_to_observation_type for {match.bound}")
        observation_type = by_tensors[count]
    return observation_type is ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT


def has_no_tensors(node: Any, modules: dict[str, Any]) -> bool:
    """Whether a value certainly contains no tensors: sizes, and values computed from them."""
    if not isinstance(node, Node):
        return True
    if node.op in ("placeholder", "get_attr"):
        return False
    if node.op == "call_module":
        return _is_activation_post_process(modules[str(node.target)]) \
            and has_no_tensors(node.args[0], modules)
    if node.op == "call_function" and node.target is operator.getitem:
        return has_no_tensors(node.args[0], modules)
    if node.target is getattr and node.args[1] in ("ndim", "shape"):
        return True
    if node.op == "call_method" and node.target == "size":
        return True
    return bool(node.args) and all(_is_number(arg, modules) for arg in node.args)


def _is_number(arg: Any, modules: dict[str, Any]) -> bool:
    if isinstance(arg, list):
        return all(has_no_tensors(element, modules) for element in arg)
    return isinstance(arg, int) or (isinstance(arg, Node) and has_no_tensors(arg, modules))
