"""The engine: propagates cotangents from roots to leaves, newest node first, without recursion.

Nodes leave a heap in reverse order of creation, so all of a node's cotangents have arrived when it
runs. Its saved values are freed after it runs, unless the graph is retained.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ..native.foundation.reference_counts import ARGUMENT_REFERENCES, PARAMETER_REFERENCES
from ..native.foundation.user_frames import warn
from ..tensor.layout import empty_strided_array, find_dense_order
from ..tensor.meta import MetaArray, meta_array
from ..tensor.storage import get_version
from ..tensor.tensor import Tensor, wrap
from ..tensor.windows.batched_window import is_example
from .hooks import run_leaf_hooks, run_output_hooks, run_post_hooks, run_pre_hooks
from .mode import MODE, set_saved_hooks
from .node import Node
from .outputs import Output


MAX_PASSES_PER_THREAD = 30  # backward passes within one another; Python's stack holds some 100


def run(
    roots: Sequence[tuple[Any, Tensor]], retain_graph: bool, create_graph: bool,
    captures: dict[Any, int] | None = None, accumulate: bool = True, partial: bool = False,
) -> dict[Any, Tensor]:
    """Run backward from (target, cotangent) pairs; return the captured cotangents by target.

    A target is a node, an `Output` of one or a leaf tensor. With `captures`, only nodes that lead
    to them run, and only captured leaves accumulate, if `accumulate`. `partial` stops at captured
    targets: cotangents that reach one through another are not counted, and their hooks do not run.
    """
    if create_graph and accumulate and not _WARNED:
        _warn_of_cycle()
    if MODE.task is not None and MODE.task.depth == MAX_PASSES_PER_THREAD:
        return _run_in_thread(roots, retain_graph, create_graph, captures, accumulate, partial)
    previous = MODE.grad, MODE.task
    saved_hooks = MODE.saved_hooks
    # Fused derivative kernels cannot handle vmap examples; they are not used while grad is on.
    of_examples = not create_graph and any(
        is_example(g._array) for _, g in roots)
    MODE.grad = bool(create_graph) or of_examples
    try:
        task = MODE.task = _Task(retain_graph or create_graph, captures, accumulate, partial)
        if captures is None and len(roots) == 1 and isinstance(roots[0][0], Node):
            task.drain(*roots[0])
        else:
            task.running = [target for target, _ in roots]
            for target, g in roots:
                task.deliver(target, g)
            if captures is not None:
                task.needed = _find_leading_nodes(
                    [target for target, _ in roots], captures, partial
                )
                if accumulate:  # nodes of the tensors in `inputs` run too, with all their hooks
                    task.needed.update(k[0] if k.__class__ is tuple else k for k in captures)
            task.drain(None, None)
        if task.waiting:
            task.finish_leaves()
        for callback in task.callbacks:  # one may queue another
            callback()
        if of_examples:
            return {key: g.detach() for key, g in task.captured.items()}
        return task.captured
    finally:
        MODE.grad, MODE.task = previous
        if MODE.saved_hooks is not saved_hooks:  # changed by a hook
            set_saved_hooks(saved_hooks)


def _run_in_thread(*arguments: Any) -> dict[Any, Tensor]:
    """`run` with a stack of its own: a pass deep within others, which would overflow this one."""
    modes = {name: value for name, value in vars(MODE).items() if name != "task"}
    answer: list[Any] = []

    def work() -> None:
        vars(MODE).update(modes)
        try:
            answer.append(run(*arguments))
        except BaseException as error:
            answer.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(answer[0], BaseException):
        raise answer[0]
    return answer[0]


_WARNED: set[str] = set()  # warnings already given, once per process


def _warn_of_cycle() -> None:
    """Warn that a leaf's grad that holds the graph creates a reference cycle."""
    _WARNED.add("cycle")
    warn(
        "Using backward() with create_graph=True will create a reference cycle between the "
        "parameter and its gradient which can cause a memory leak. autograd.grad creates the "
        "graph without one; with backward(), set the .grad of the parameters to None after use.",
        UserWarning,
    )


def make_target_key(target: Any) -> Any:
    """Return a target's key: the id of a leaf or node, or (node id, index) of an output."""
    return (id(target.node), target.index) if target.__class__ is Output else id(target)


_next_number = itertools.count().__next__


def get_task_number() -> int | None:
    """Return the number of this thread's backward pass, or None outside of one."""
    return None if MODE.task is None else MODE.task.number


def is_checkpoint_valid() -> bool:
    """Return whether gradients go to all leaves: False in grad() and backward(inputs=...)."""
    return MODE.task is None or MODE.task.captures is None


def is_graph_retained() -> bool:
    """Return whether this thread's backward pass retains its graph."""
    return MODE.task is not None and MODE.task.keep


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call `callback()` at the end of this thread's backward pass; RuntimeError outside of one."""
    if MODE.task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    MODE.task.callbacks.append(callback)


def will_run(targets: Sequence[Any], at_work: Any) -> list[bool]:
    """Return which targets the rest of this thread's backward pass will reach, given the running
    one (`at_work`)."""
    task = MODE.task
    if task is None:
        return [False] * len(targets)
    waiting = [leaf for leaf, _ in task.waiting.values()]
    reached = _find_reachable(
        [at_work, *task.running, *(entry[2] for entry in task.heap), *waiting]
    )
    if task.captures is not None:
        reached = {key for key in reached if key in (task.needed or ()) or key in task.captures}
        reached |= {key[0] for key in task.captures if key.__class__ is tuple}
    return [id(t.node if t.__class__ is Output else t) in reached for t in targets]


def find_needed_edges(edges: Sequence[Any]) -> list[bool]:
    """Return which of the running node's edges this thread's backward pass needs."""
    task = MODE.task
    if task is None or task.captures is None:
        return [True] * len(edges)
    needed = task.needed or ()
    return [make_target_key(edge) in task.captures or _node_id(edge) in needed for edge in edges]


def _node_id(target: Any) -> int:
    return id(target.node if target.__class__ is Output else target)


class _Task:
    """One backward pass."""

    __slots__ = (
        "accumulate", "callbacks", "captured", "captures", "delivered", "depth", "heap", "keep",
        "needed", "number", "partial", "paths", "pending", "running", "waiting",
    )

    def __init__(
        self, keep: bool, captures: dict[Any, int] | None, accumulate: bool, partial: bool
    ) -> None:
        self.partial, self.number = partial, _next_number()
        self.depth: int = 0 if MODE.task is None else MODE.task.depth + 1
        self.keep, self.captures, self.accumulate = keep, captures, accumulate
        self.needed: set[int] | None = None
        self.captured: dict[Any, Tensor] = {}
        self.heap: list[tuple[int, int, Node]] = []
        self.pending: dict[int, Any] = {}
        # `waiting`: leaves with hooks, until all paths have delivered: (leaf, sum) by id. `paths`:
        # the number of outstanding paths. `running`: the edges of the node that is running.
        self.waiting: dict[int, tuple[Tensor, Tensor]] = {}
        self.paths: dict[int, int] | None = None
        self.running: Sequence[Any] = ()
        self.delivered: dict[int, Any] = {}  # by id of a leaf: what the first cotangent became
        self.callbacks: list[Callable[[], Any]] = []

    def deliver(self, target: Any, g: Tensor) -> None:
        """Add a cotangent to a target's pending sum, or accumulate it in a leaf."""
        if isinstance(target, Tensor):
            attributes = target.__dict__
            if attributes and not self.partial and (attributes.get("_backward_hooks")
                               or attributes.get("_post_accumulate_grad_hooks")):
                self.wait(target, g)
            elif self.captures is None or self.accumulate and id(target) in self.captures:
                if target._requires_grad:  # else frozen after the graph was built
                    key = id(target)
                    if key in self.delivered and target._grad is not None:
                        self.add_again(target, g)
                        return
                    existing = target._grad is not None
                    add_to_grad(target, g, self.keep and MODE.grad)
                    self.delivered[key] = (
                        _EXISTING if existing else _OWN if target._grad is g else
                        weakref.ref(g) if g._array.base is None and
                        g._array.strides == target._array.strides else _COPY)
            else:
                self.reach_leaf(target, g)
            return
        pending = self.pending
        index = None
        if target.__class__ is Output:
            target, index = target.node, target.index
        key = id(target)
        if key not in pending:
            heappush(self.heap, (-target.sequence, key, target))
            if target.outputs == 1 and index is None:
                pending[key] = g
                return
            pending[key] = [None] * target.outputs
        if index is None and pending[key].__class__ is not list:
            pending[key] = add_cotangents(pending[key], g)
            return
        slots, index = pending[key], index or 0
        slots[index] = g if slots[index] is None else add_cotangents(slots[index], g)

    def add_again(self, leaf: Tensor, g: Tensor) -> None:
        """Add a further cotangent to a leaf's grad.

        Its version is as if all had been summed first: an existing grad has one write, a recorded
        sum is copied, and what has not the leaf's strides cannot be added to in place.
        """
        before, first = get_version(leaf._grad), self.delivered[id(leaf)]
        differentiable = self.keep and MODE.grad
        add_to_grad(leaf, g, differentiable)
        grad = leaf._grad
        assert grad is not None
        if grad._counter is not None and first == _EXISTING:
            grad._counter.value = before
        elif grad._counter is not None and (
                first == _COPY or first.__class__ is weakref.ref and first() is g):
            grad._counter.value, self.delivered[id(leaf)] = 0, _OWN
        elif differentiable and first != _EXISTING:
            grad._bump()

    def reach_leaf(self, leaf: Tensor, g: Tensor) -> None:
        """Accumulate a cotangent in a leaf's grad, or capture it for the caller."""
        if self.captures is not None:
            if id(leaf) not in self.captures:
                return
            if self.partial:
                self.capture(id(leaf), g)
                return
            if not self.accumulate:
                self.capture(id(leaf), run_leaf_hooks(leaf, g, before=True, accumulates=False))
                return
        accumulate(leaf, g, self.keep and MODE.grad)

    def wait(self, leaf: Tensor, g: Tensor) -> None:
        """Sum the cotangents of a leaf with hooks; process the leaf when the last one arrives."""
        if self.paths is None:
            self.paths = _count_paths_to_hooked([*self.running, *(entry[2] for entry in self.heap)])
        key = id(leaf)
        if key in self.waiting:
            g = self.sum_cotangents(self.waiting[key][1], g)
        self.waiting[key] = leaf, g
        remaining = self.paths[key] = self.paths.get(key, 0) - 1
        if remaining == 0:
            del self.waiting[key]
            self.reach_leaf(leaf, g)

    def finish_leaves(self) -> None:
        """Process the leaves that did not receive a cotangent from every path."""
        for leaf, g in self.waiting.values():
            self.reach_leaf(leaf, g)

    def capture(self, key: Any, g: Tensor) -> None:
        """Add a cotangent to those returned to the caller."""
        stored = self.captured.get(key)
        self.captured[key] = g if stored is None else self.sum_cotangents(stored, g)

    def sum_cotangents(self, a: Tensor, b: Tensor) -> Tensor:
        """Return a sum that is seen outside. Its version is that of `a` after a further write, as
        if added in place, unless that is recorded or the memory of `a` is also something else's."""
        result = add_cotangents(a, b)
        if not (self.keep and MODE.grad) and a is not b and a._array.base is None:
            result._bump(get_version(a) + 1)
        return result

    def drain(self, node: Node | None, g: Any) -> None:
        """Run nodes, newest first, until no cotangent is left; start with `node` if given."""
        heap, pending, keep = self.heap, self.pending, self.keep
        watched = self.captures is not None or MODE.anomaly
        while True:
            if node is None:
                if not heap:
                    return
                _, key, node = heappop(heap)
                g = pending.pop(key)
                if g.__class__ is list:
                    g = tuple(g)
            if watched or node.hooks is not None:
                grads = self.apply_watched(node, g)
                if grads is None:
                    node = None
                    continue
            else:
                grads = node.apply(g)
            if not keep:
                node.release()
            self.running = edges = node.edges
            node = g = None
            if len(edges) == 1:
                target, result = edges[0], grads[0]
                grads = None  # drop the reference, so the leaf can keep `result` without a copy
                if result is None or target is None:
                    continue
                if not heap and isinstance(target, Node) and target.outputs == 1:
                    node, g, result = target, result, None  # a chain skips the queue
                else:
                    self.deliver(target, result)
                continue
            if len(grads) != len(edges):
                raise RuntimeError(f"{len(grads)} gradients for {len(edges)} inputs")
            if grads.__class__ is not list:
                grads = list(grads)
            for i, target in enumerate(edges):
                result, grads[i] = grads[i], None
                if result is not None and target is not None:
                    self.deliver(target, result)
            grads = result = None

    def apply_watched(self, node: Node, g: Any) -> Sequence[Any] | None:
        """Apply a node with hooks, captures or anomaly mode; return None if it can be skipped."""
        if self.needed is not None and id(node) not in self.needed and not self.is_wanted(node):
            return None
        if node.hooks is not None and not self.partial:
            g = run_output_hooks(node, g)
        if self.captures is not None:
            self.capture_node(node, id(node), g)
            if self.needed is not None and id(node) not in self.needed:
                return None
        if node.hooks is not None:
            g = run_pre_hooks(node, g)
        grads = _apply_watched(node, g) if MODE.anomaly else node.apply(g)
        return grads if node.hooks is None else run_post_hooks(node, grads, g)

    def is_wanted(self, node: Node) -> bool:
        """Return whether the caller requested the cotangent of one of a node's outputs."""
        captures, key = self.captures or {}, id(node)
        return key in captures or any((key, i) in captures for i in range(node.outputs))

    def capture_node(self, node: Node, key: int, g: Any) -> None:
        """Capture the requested cotangents of a node's outputs."""
        captures = self.captures or {}
        if g.__class__ is not tuple:
            if key in captures:
                self.capture(key, g)
            return
        for i, item in enumerate(g):
            if (key, i) in captures and item is not None:
                self.capture((key, i), item)


def add_cotangents(a: Tensor, b: Tensor) -> Tensor:
    """Return the sum of two cotangents, adding a sparse one to a dense one."""
    return b + a if a.__class__ is not Tensor and a._array.strides is None else a + b


def _find_leading_nodes(roots: list[Any], captures: dict[Any, int], partial: bool) -> set[int]:
    """Return the ids of the nodes that lead to a captured target. With `partial`, paths end at
    captured nodes, which are excluded."""
    needed: set[int] = set()
    done: set[int] = set()
    if partial:
        done.update(key[0] if key.__class__ is tuple else key for key in captures)
    stack = [(t.node if t.__class__ is Output else t, False) for t in roots]
    stack = [(n, seen) for n, seen in stack if not isinstance(n, Tensor) and id(n) not in done]
    while stack:
        node, children_done = stack.pop()
        key = id(node)
        if children_done:
            for target in node.edges:
                below = target.node if target.__class__ is Output else target
                if target is not None and (
                        id(below) in needed or make_target_key(target) in captures):
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
    """Apply a node in anomaly mode: if it fails or returns NaN, warn with its forward traceback."""
    forward_trace = "".join(node.metadata.get("traceback_", ["(made outside anomaly mode)\n"]))
    try:
        grads = node.apply(g)
    except Exception:
        warn(
            f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
            f"{forward_trace}",
            UserWarning,
        )
        raise
    for i, grad in enumerate(grads):
        if MODE.check_nan and grad is not None and bool((grad != grad).any()):
            warn(
                f"Error detected in {node.name()}. Traceback of forward call that caused the "
                f"error:\n{forward_trace}",
                UserWarning,
            )
            raise RuntimeError(
                f"Function '{node.name()}' returned nan values in its {i}th output."
            )
    return grads


def _count_paths_to_hooked(targets: list[Any]) -> dict[int, int]:
    """Count the edges that lead from targets to each leaf, by id."""
    result: dict[int, int] = {}
    done: set[int] = set()
    stack = targets
    while stack:
        target = stack.pop()
        if isinstance(target, Tensor):
            result[id(target)] = result.get(id(target), 0) + 1
            continue
        node = target.node if target.__class__ is Output else target
        if node is not None and id(node) not in done:
            done.add(id(node))
            stack.extend(node.edges)
    return result


def _find_reachable(targets: list[Any]) -> set[int]:
    """Return the ids of the nodes and leaves reachable from targets."""
    result: set[int] = set()
    while targets:
        target = targets.pop()
        place = target.node if target.__class__ is Output else target
        if place is not None and id(place) not in result:
            result.add(id(place))
            if not isinstance(place, Tensor):
                targets.extend(place.edges)
    return result


def accumulate(leaf: Tensor, g: Tensor, differentiable: bool) -> None:
    """Add a cotangent to a leaf's grad, and run its hooks."""
    g = run_leaf_hooks(leaf, g, before=True)
    if leaf._requires_grad:
        add_to_grad(leaf, g, differentiable)
    if leaf.__dict__.get("_post_accumulate_grad_hooks"):
        run_leaf_hooks(leaf, g, before=False)


# What a leaf's first cotangent of a backward pass became: a part of the grad that was there before,
# the grad, or its copy. A weak reference to the cotangent stands for a copy that would have been
# the grad if nothing else had referred to the cotangent.
_EXISTING, _OWN, _COPY = range(3)
# Threads may share leaves, and NumPy releases the GIL while adding.
_ADDING = threading.RLock()


def add_to_grad(leaf: Tensor, g: Tensor, differentiable: bool) -> None:
    with _ADDING:
        stored = leaf._grad
        if stored is None:
            if differentiable:
                leaf._grad = _copy_recorded(leaf, g)
                return
            leaf._grad = grad = own_cotangent(leaf, g)
            if g._array.strides != leaf._array.strides and grad is not g:
                grad._bump()  # the copy wrote to it
        elif differentiable or stored._requires_grad or (stored.__class__ is not Tensor and (
            stored._array.__class__ is MetaArray  # a wrapper, perhaps of an expanded tensor
            or stored.is_sparse and not g.is_sparse
        )):
            leaf._grad = add_cotangents(stored, g)
        else:
            stored.add_(g)


def _copy_recorded(leaf: Tensor, g: Tensor) -> Tensor:
    """Return a recorded copy of a cotangent, in the leaf's memory layout, as its grad."""
    if None in (leaf._array.strides, g._array.strides) or find_dense_order(leaf._array) is None \
            or not g._requires_grad:
        return g.clone()
    strides = [n // leaf._array.itemsize for n in leaf._array.strides]
    return wrap(empty_strided_array(g._array.shape, strides, g._array.dtype)).copy_(g)


def own_cotangent(leaf: Tensor, g: Tensor) -> Tensor:
    """Return the cotangent as a leaf's grad: itself if nothing else references it, else a copy."""
    array = g._array
    if g.__class__ is not Tensor:  # a subclass can't be built from its array alone
        shared = sys.getrefcount(g) > _held
        return g if array.strides is not None else g._owned(shared)
    if (
        array.base is None
        and array.strides == leaf._array.strides
        and sys.getrefcount(g) <= _held
        and sys.getrefcount(array) <= _HELD_BY_COTANGENT
        and g._base is None
        and not g._requires_grad
    ):
        return g
    if array.__class__ is MetaArray:
        return wrap(meta_array(array.shape, array.dtype))
    strides = leaf._array.strides  # None of a sparse leaf, whose gradient may be dense
    result = empty_strided_array(
        array.shape, [n // leaf._array.itemsize for n in strides], array.dtype
    ) if strides is not None and find_dense_order(leaf._array) is not None else \
        np.empty(array.shape, array.dtype)
    result[...] = array
    return wrap(result)


# References to a cotangent: the engine's loop, the parameters of deliver, add_to_grad and
# own_cotangent, and getrefcount's argument. Any other holder (a hook, a second target) would see
# it change.
_HELD_BY_ENGINE = 1 + 3 * PARAMETER_REFERENCES + ARGUMENT_REFERENCES
_held = _HELD_BY_ENGINE  # the same while observers of `add_to_grad` refer to its arguments
_HELD_BY_COTANGENT = 2 + ARGUMENT_REFERENCES  # to its array: the cotangent and a variable


def set_observers_of_leaves(count: int) -> None:
    """Note how many observers are on `_add`; each refers to its arguments once more."""
    global _held
    _held = _HELD_BY_ENGINE + count
