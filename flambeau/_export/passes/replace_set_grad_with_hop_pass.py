"""Nodes that switch gradients on and off, and submodules that begin with one."""

from __future__ import annotations

from typing import Any

from ... import _C
from ...autograd.mode import is_grad_enabled
from ...fx.module_paths import attribute_at
from ...fx.node import Node
from ..node_lists import nodes_first

__all__ = ["_is_set_grad_enabled_node", "_is_set_grad_enabled_sub_mod"]


def _is_set_grad_enabled_node(node: Node) -> bool:
    """Return whether a node switches gradients on or off."""
    return node.op == "call_function" and node.target is _C._set_grad_enabled


def _is_set_grad_enabled_sub_mod(node: Node, omit_if_same_with_ambient: bool = False) -> bool:
    """Return whether a node calls a submodule that begins by switching gradients."""
    if node.op != "call_module":
        return False
    module: Any = attribute_at(node.graph.owning_module, str(node.target))
    first = nodes_first(module.graph.nodes, lambda n: n.op != "placeholder")
    if first is None or not _is_set_grad_enabled_node(first):
        return False
    return not omit_if_same_with_ambient or first.args[0] != is_grad_enabled()
