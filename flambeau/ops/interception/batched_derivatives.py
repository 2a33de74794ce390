"""Runs derivatives that read elements inside vmap example by example.

The derivative of prod, for instance, looks for zeros. Such a node is applied once per example, to
that example's cotangents and saved values; forward-mode rules likewise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...autograd.node import Node
from ...autograd.saved.values import SavedOutputs
from ...tensor.windows.batch import find_innermost_batch
from ...tensor.windows.batched_window import ExampleRead
from . import tangent_rules
from .batched_loops import loop_recorded
from .batching import OTHER_TARGETS


def _apply(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    node, g = args
    try:
        return original(node, g)
    except ExampleRead:
        values = [tuple(v) if v.__class__ is SavedOutputs else v for v in node.values()]
        batch = find_innermost_batch((g, values))
        if batch is None:
            raise
        return loop_recorded(lambda g, values: _with_values(node, values).apply(g), batch,
                             (g, values), f"{node.name()}")


def _push(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    operator, *rest = args
    try:
        return original(*args)
    except ExampleRead:
        batch = find_innermost_batch(rest)
        if batch is None:
            raise
        return loop_recorded(functools.partial(tangent_rules.push, operator), batch, tuple(rest),
                             operator.name)


def _with_values(node: Node, values: list[Any]) -> Node:
    """Return a copy of a node with other saved values."""
    result = object.__new__(type(node))
    result.plan, result.restore = node.plan, node.restore
    result.edges, result.hooks, result.sequence = (), None, node.sequence
    result.saved, result.versions = tuple(values), (None,) * len(values)
    return result


def _find_targets() -> dict[Any, Callable]:
    return {vars(Node)["apply"]: _apply, tangent_rules.push: _push}


OTHER_TARGETS.append(_find_targets)
