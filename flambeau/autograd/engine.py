"""The engine: carries cotangents from roots to leaves, newest node first, without recursion.

Nodes leave a heap in the reverse order of their creation, so that every gradient has arrived
before a node runs. What a node saved is freed after it ran, unless the graph is retained.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tensor.layout import dense_order, empty_strided_array
from ..tensor.tensor import Tensor, wrap
from .hooks import run_leaf_hooks, run_node_hooks
from .mode import MODE
from .tape import Node, Output


def run(
    roots: Sequence[tuple[Any, Tensor]], retain_graph: bool, create_graph: bool,
    captures: dict[Any, int] | None = None, accumulate: bool = True,
) -> dict[Any, Tensor]:  # fmt: skip
    """Backward from (target, cotangent) pairs; gives the cotangents captured by target.

    A target is a node, an (output's node, index) or a leaf tensor. With `captures`, only what
    leads to them runs; leaves accumulate only when `accumulate` and they are captured.
    """
    previous = MODE.grad
    MODE.grad = create_graph
    try:
        task = _Task(retain_graph or create_graph, captures, accumulate)
        for target, g in roots:
            task.deliver(target, g)
        if captures is not None:
            task.needed = _leading_to([target for target, _ in roots], captures)
        task.drain()
        return task.captured
    finally:
        MODE.grad = previous


def key_of(target: Any) -> Any:
    """What identifies a target: a leaf or a node by itself, an output by node and index."""
    return (id(target.node), target.index) if target.__class__ is Output else id(target)


class _Task:
    """One backward pass."""

    def __init__(self, keep: bool, captures: dict[Any, int] | None, accumulate: bool) -> None:
        self.keep, self.captures, self.accumulate = keep, captures, accumulate
        self.needed: set[int] | None = None
        self.captured: dict[Any, Tensor] = {}
        self.heap: list[tuple[int, int, Node]] = []
        self.pending: dict[int, Any] = {}

    def deliver(self, target: Any, g: Tensor) -> None:
        """Adds a cotangent to what a target has received."""
        if isinstance(target, Tensor):
            self.reach_leaf(target, g)
            return
        pending = self.pending
        index = None
        if target.__class__ is Output:
            target, index = target.node, target.index
        key = id(target)
        if key not in pending:
            heapq.heappush(self.heap, (-target.sequence, key, target))
            if target.outputs == 1 and index is None:
                pending[key] = g
                return
            pending[key] = [None] * target.outputs
        if index is None and pending[key].__class__ is not list:
            pending[key] = pending[key] + g
            return
        slots, index = pending[key], index or 0
        slots[index] = g if slots[index] is None else slots[index] + g

    def reach_leaf(self, leaf: Tensor, g: Tensor) -> None:
        """A cotangent has come to a leaf: to its grad, or to who asked for it."""
        if self.captures is not None:
            if id(leaf) not in self.captures:
                return
            if not self.accumulate:
                self.capture(id(leaf), run_leaf_hooks(leaf, g, before=True))
                return
        accumulate(leaf, g, self.keep and MODE.grad)

    def capture(self, key: Any, g: Tensor) -> None:
        """Keeps a cotangent for the caller."""
        held = self.captured.get(key)
        self.captured[key] = g if held is None else held + g

    def drain(self) -> None:
        """Runs the nodes, newest first, until no cotangent is left."""
        heap, pending, needed = self.heap, self.pending, self.needed
        pop = heapq.heappop
        while heap:
            _, key, node = pop(heap)
            g = pending.pop(key)
            several = g.__class__ is list
            if several:
                g = tuple(g)
            if node.hooks is not None:
                g = run_node_hooks(node, "tensor", g)
            if self.captures is not None:
                self.capture_node(node, key, g)
                if needed is not None and key not in needed:
                    continue
            if node.hooks is not None:
                g = run_node_hooks(node, "pre", g)
            grads = node.apply(g) if not MODE.anomaly else _apply_watched(node, g)
            if node.hooks is not None:
                grads = run_node_hooks(node, "post", grads, g)
            if not self.keep:
                node.release()
            del g
            edges = node.edges
            if len(edges) == 1:
                found = grads[0]
                grads = None
                if found is not None and edges[0] is not None:
                    self.deliver(edges[0], found)
                continue
            for target, found in zip(edges, grads, strict=True):
                if found is not None and target is not None:
                    self.deliver(target, found)

    def capture_node(self, node: Node, key: int, g: Any) -> None:
        """Keeps the cotangents of a node's outputs that the caller asked for."""
        if g.__class__ is not tuple:
            if key in self.captures:
                self.capture(key, g)
            return
        for i, one in enumerate(g):
            if (key, i) in self.captures and one is not None:
                self.capture((key, i), one)


def _leading_to(roots: list[Any], captures: dict[Any, int]) -> set[int]:
    """The ids of the nodes from which a captured target can be reached."""
    needed: set[int] = set()
    done: set[int] = set()
    stack = [(t.node if t.__class__ is Output else t, False) for t in roots]
    stack = [(n, seen) for n, seen in stack if not isinstance(n, Tensor)]
    while stack:
        node, children_done = stack.pop()
        key = id(node)
        if children_done:
            for target in node.edges:
                below = target.node if target.__class__ is Output else target
                if target is not None and (key_of(target) in captures or id(below) in needed):
                    needed.add(key)
                    break
            continue
        if key in done:
            continue
        done.add(key)
        stack.append((node, True))
        for target in node.edges:
            below = target.node if target.__class__ is Output else target
            if below is not None and not isinstance(below, Tensor) and id(below) not in done:
                stack.append((below, False))
    return needed


def _apply_watched(node: Node, g: Any) -> Sequence[Any]:
    """Applies a node in anomaly mode: says where it was made when it fails or makes NaN."""
    import warnings

    made_at = "".join(node.metadata.get("traceback_", ["(made outside anomaly mode)\n"]))
    try:
        grads = node.apply(g)
    except Exception:
        warnings.warn(
            f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
            f"{made_at}",
            UserWarning,
            stacklevel=2,
        )
        raise
    for i, found in enumerate(grads):
        if MODE.check_nan and found is not None and bool((found != found).any()):
            warnings.warn(
                f"Error detected in {node.name()}. Traceback of forward call that caused the "
                f"error:\n{made_at}",
                UserWarning,
                stacklevel=2,
            )
            raise RuntimeError(
                f"Function '{node.name()}' returned nan values in its {i}th output."
            )
    return grads


def accumulate(leaf: Tensor, g: Tensor, differentiable: bool) -> None:
    """Adds a cotangent to a leaf's grad, running its hooks."""
    attributes = leaf.__dict__
    hooked = "_backward_hooks" in attributes or "_post_accumulate_grad_hooks" in attributes
    if hooked:
        g = run_leaf_hooks(leaf, g, before=True)
    held = leaf._grad
    if held is None:
        leaf._grad = g if differentiable else _owned(leaf, g)
    elif differentiable or held._requires_grad:
        leaf._grad = held + g
    else:
        held.add_(g)
    if hooked:
        run_leaf_hooks(leaf, g, before=False)


def _owned(leaf: Tensor, g: Tensor) -> Tensor:
    """The cotangent as a leaf's own grad: itself when nobody else holds it, else a copy."""
    array = g._array
    if (
        array.base is None
        and array.strides == leaf._array.strides
        and sys.getrefcount(g) <= _HELD_BY_ENGINE
        and sys.getrefcount(array) <= 3
        and g._base is None
        and not g._requires_grad
    ):
        return g
    made = empty_strided_array(
        array.shape, [n // leaf._array.itemsize for n in leaf._array.strides], array.dtype
    ) if dense_order(leaf._array) is not None else np.empty(array.shape, array.dtype)
    made[...] = array
    return wrap(made)


# deliver, reach_leaf, accumulate and _owned each hold one, getrefcount's argument another, and the
# loop over a node's gradients up to two; a cotangent that went to two places has more.
_HELD_BY_ENGINE = 7
