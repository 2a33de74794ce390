"""BackwardPass: `backward()` as one event of a followed call.

The recorded pass walked a graph of nodes and set the grads of leaves. If this call's graph has the
same shape and leaves, no vjp runs: the grads are set, the nodes freed, and the program computes
what the vjps would have. The engine runs as usual if there are hooks, user-defined Functions,
existing grads, or nodes from earlier calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...autograd.mode import SPECIAL
from ...autograd.node import Node
from ...autograd.outputs import Output
from ...tensor.ambient import AMBIENT
from ...tensor.storage import get_version
from ...tensor.tensor import Tensor
from ..trace.trace import OPERATOR, WRITE, Event, Value, collect_values
from .backward_walk import write_walk

if TYPE_CHECKING:
    from .following import Following
    from .segment import Memory
    from .segment_recorder import SegmentRecorder


class BackwardPass:
    """A recorded backward pass.

    shapes: (class, plan, restore, edges) of each node, in breadth-first order. An edge is a leaf,
        None, or (node index, output index).
    grads: (leaf, its array, window of its grad, whether the window is only part of its owner).
    """

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.output = -1  # output index of the root; -1 if its node has one output
        self.shapes: list[tuple[Any, Any, Any, tuple]] = []
        self.leaves: list[Tensor] = []
        self.grads: list[tuple[Tensor, Any, Value, bool]] = []
        self.versions: list[int] = []  # of the grads: the engine accumulates some in place
        self.views: list[Any] = []  # last windows of grads, for reuse
        self.walk: Any = None  # generated when the same graph appears a second time

    @staticmethod
    def begin(root: Any, start: int, sequence: int) -> BackwardPass | None:
        """Describe the pass about to run from `root`; None if it cannot be a single event."""
        result = BackwardPass(start)
        root, result.output = _find_node_and_output(root)
        if not isinstance(root, Node) or SPECIAL.count:
            return None
        return result if result._describe(root, sequence) else None

    def _describe(self, root: Node, sequence: int) -> bool:
        nodes, numbers = [root], {id(root): 0}
        leaves: dict[int, Tensor] = {}
        for node in nodes:
            if node.hooks is not None or node.operator is None or node.sequence < sequence:
                return False
            edges: list[Any] = []
            for edge in node.edges:
                if edge is None or isinstance(edge, Tensor):
                    edges.append(edge)
                    if edge is not None:
                        leaves[id(edge)] = edge
                    continue
                below, output = _find_node_and_output(edge)
                if id(below) not in numbers:
                    numbers[id(below)] = len(nodes)
                    nodes.append(below)
                edges.append((numbers[id(below)], output))
            self.shapes.append((node.__class__, node.plan, node.restore, tuple(edges)))
        self.leaves = list(leaves.values())
        return all(_is_plain(leaf) for leaf in self.leaves)

    def finish(self, recorder: SegmentRecorder) -> bool:
        """Record the grads after the pass. Return False if it did anything but set new grads."""
        events = recorder.trace.events
        self.end = len(events)
        if any(e.kind not in (OPERATOR, WRITE) for e in events[self.start :]):
            return False
        for leaf in self.leaves:
            grad = leaf._grad
            value = None if grad is None else recorder.trace.value_of(grad._array)
            if grad is None or value is None or grad._base is not None or grad._requires_grad:
                return False
            geometry = recorder.trace.storages[value.storage].whole
            part = grad._array.base is not None or value.shape != geometry.shape
            self.grads.append((leaf, leaf._array, value, part))
            self.versions.append(get_version(grad))
        return self.end > self.start

    def is_closed(self, events: list[Event], memory: list[Memory]) -> bool:
        """Whether no later event uses the pass's intermediate results."""
        result: set[int] = set()
        for event in events[self.start : self.end]:
            result.update(v.storage for v in collect_values((event.results, event.args)))
        before: set[int] = set()
        for event in events[: self.start]:
            before.update(v.storage for v in collect_values((event.results, event.args)))
        grads = {value.storage for _, _, value, _ in self.grads}
        inner = {s for s in result - before - grads if memory[s].kind == 0}
        bound = {s for s in result - before if memory[s].kind != 0}
        after = {v.storage for e in events[self.end :] for v in collect_values((e.results, e.args))}
        return not inner & after and not bound and self.end <= len(events)

    # ------------------------------------------------------------------------------ following

    def follow(self, following: Following, root: Any) -> bool:
        """List the pass from `root`. Return False, with no side effects, if it differs."""
        if SPECIAL.count or following.ambient != AMBIENT.changes:
            return False
        before = following.pos
        try:
            return self._follow(following, root)
        except BaseException:  # interrupted: undo, as if the pass had not begun
            if following.pos in (before, self.end - 1):
                following.pos = before
                for leaf, _, _, _ in self.grads:
                    leaf._grad = None
            raise

    def _follow(self, following: Following, root: Any) -> bool:
        if self.walk is not None:
            if not self.walk(following, root):
                return False
            following.walked += 1
            following.pos = self.end - 1
            following.step()
            return True
        root, output = _find_node_and_output(root)
        nodes = self._walk(root, following.sequence) if output == self.output else None
        if nodes is None:
            return False
        for leaf, array, _, _ in self.grads:
            if leaf._array is not array or not _is_plain(leaf):
                return False
        self.walk = write_walk(self, following, nodes)
        for (leaf, _, value, part), version in zip(self.grads, self.versions, strict=True):
            s = value.storage
            following.owners[s] = following.segment.recycled.take(s)
            following.bound.add(id(following.owners[s]))
            leaf._grad = following.tensor(value, part, None)
            if version:
                leaf._grad._bump(version)
        for node in nodes:
            node.release()
        following.walked += 1
        following.pos = self.end - 1
        following.step()
        return True

    def _walk(self, root: Any, sequence: int) -> list[Node] | None:
        """Return the nodes below `root` if they form the recorded graph, else None."""
        nodes, numbers = [root], {id(root): 0}
        count = len(self.shapes)
        for number, node in enumerate(nodes):
            kind, plan, restore, edges = self.shapes[number]
            if node.__class__ is not kind or node.plan is not plan or node.hooks is not None \
                    or node.sequence < sequence or len(node.edges) != len(edges) \
                    or node.restore != restore:
                return None
            for edge, expected in zip(node.edges, edges, strict=True):
                if edge is expected:
                    continue
                if expected.__class__ is not tuple or edge is None or isinstance(edge, Tensor):
                    return None
                below, output = _find_node_and_output(edge)
                known = numbers.get(id(below))
                if known is None:
                    known = numbers[id(below)] = len(nodes)
                    if known >= count:
                        return None
                    nodes.append(below)
                if (known, output) != expected:
                    return None
        return nodes if len(nodes) == count else None


def _find_node_and_output(target: Any) -> tuple[Any, int]:
    """Return an edge's node and output index; the index is -1 if the node has one output."""
    return (target.node, target.index) if target.__class__ is Output else (target, -1)


def _is_plain(leaf: Tensor) -> bool:
    """Whether a leaf has neither a grad nor hooks."""
    attributes = leaf.__dict__
    return leaf._grad is None and leaf._requires_grad and not (
        attributes and (attributes.get("_backward_hooks")
                        or attributes.get("_post_accumulate_grad_hooks")))
