"""BackwardPass: `backward()` as one event of a followed call.

The recorded pass walked a graph of nodes and set the grads of leaves. If this call's graph has the
same shape and leaves, no vjp runs: the grads are set, the nodes freed, and the program computes
what the vjps would have. The engine runs as usual if there are hooks, user-defined Functions,
existing grads, or nodes from earlier calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...autograd.mode import SPECIAL
from ...tensor.ambient import AMBIENT
from ...tensor.storage import get_version
from ...tensor.tensor import Tensor
from ..trace.trace import OPERATOR, WINDOW, WRITE, Event, Value, collect_values
from .backward_graph import BackwardGraph
from .backward_walk import write_walk
from .segment import INTERNAL

if TYPE_CHECKING:
    from .following import Following
    from .segment import Memory
    from .segment_recorder import SegmentRecorder


class LeafGrad(NamedTuple):
    """A grad that the pass set.

    array: the leaf's.
    window: where the grad lies; `is_part`: whether that is only part of the array that owns it.
    version: the grad's, which is not 0 if the engine accumulated it in place.
    """

    leaf: Tensor
    array: np.ndarray
    window: Value
    is_part: bool
    version: int


class BackwardPass:
    """A recorded backward pass: the events from `start` to `end`."""

    def __init__(self, start: int, graph: BackwardGraph) -> None:
        self.start = self.end = start
        self.graph = graph
        self.grads: list[LeafGrad] = []
        self.views: list[Any] = []  # last windows of grads, for reuse
        # Generated when the same graph appears a second time.
        self.walk: Callable[[Following, Any], bool] | None = None

    @staticmethod
    def begin(root: Any, start: int, sequence: int) -> BackwardPass | None:
        """Describe the pass about to run from `root`; None if it cannot be a single event."""
        if SPECIAL.count:
            return None
        graph = BackwardGraph.describe(root, sequence)
        if graph is None or not all(map(_is_plain, graph.leaves)):
            return None
        return BackwardPass(start, graph)

    def finish(self, recorder: SegmentRecorder) -> bool:
        """Record the grads after the pass. Return False if it did anything but set new grads."""
        events = recorder.trace.events
        self.end = len(events)
        if any(e.kind not in (OPERATOR, WINDOW, WRITE) for e in events[self.start :]):
            return False
        for leaf in self.graph.leaves:
            grad = leaf._grad
            window = None if grad is None else recorder.trace.value_of(grad._array)
            if grad is None or window is None or grad._base is not None or grad._requires_grad:
                return False
            whole = recorder.trace.storages[window.storage].whole
            is_part = grad._array.base is not None or window.shape != whole.shape
            self.grads.append(LeafGrad(leaf, leaf._array, window, is_part, get_version(grad)))
        return self.end > self.start

    def is_closed(self, events: list[Event], memory: list[Memory]) -> bool:
        """Whether no later event uses the pass's intermediate results."""
        if self.end > len(events):  # the recording was cut within the pass
            return False
        used = _collect_storages(events[self.start : self.end])
        new = used - _collect_storages(events[: self.start])
        if any(memory[s].kind != INTERNAL for s in new):
            return False
        grads = {grad.window.storage for grad in self.grads}
        return not (new - grads) & _collect_storages(events[self.end :])

    # ------------------------------------------------------------------------------ following

    def follow(self, following: Following, root: Any) -> bool:
        """List the pass from `root`. Return False, with no side effects, if it differs."""
        if SPECIAL.count or following.ambient != AMBIENT.changes:
            return False
        before = following.pos
        try:
            if self.walk is not None:
                is_same = self.walk(following, root)
            else:
                is_same = self._walk_nodes(following, root)
            if not is_same:
                return False
            following.walked += 1
            following.pos = self.end - 1
            following.step()
            return True
        except BaseException:  # interrupted: undo, as if the pass had not begun
            if following.pos in (before, self.end - 1):
                following.pos = before
                for grad in self.grads:
                    grad.leaf._grad = None
            raise

    def _walk_nodes(self, following: Following, root: Any) -> bool:
        """Do what `walk` will do from now on, and generate it."""
        nodes = self.graph.match(root, following.sequence)
        if nodes is None or not all(
            grad.leaf._array is grad.array and _is_plain(grad.leaf) for grad in self.grads
        ):
            return False
        self.walk = write_walk(self, following, nodes)
        for leaf, _, window, is_part, version in self.grads:
            owner = following.segment.recycled.take(window.storage)
            following.owners[window.storage] = owner
            following.bound.add(id(owner))
            leaf._grad = following.tensor(window, is_part, None)
            if version:
                leaf._grad._bump(version)
        for node in nodes:
            node.release()
        return True


def _collect_storages(events: Iterable[Event]) -> set[int]:
    """Return the storages that events read or write."""
    return {v.storage for e in events for v in collect_values((e.results, e.args))}


def _is_plain(leaf: Tensor) -> bool:
    """Whether a leaf has neither a grad nor hooks."""
    attributes = leaf.__dict__
    return leaf._grad is None and leaf._requires_grad and not (
        attributes and (attributes.get("_backward_hooks")
                        or attributes.get("_post_accumulate_grad_hooks")))
