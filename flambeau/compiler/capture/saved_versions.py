"""Saved versions: what the nodes of a recorded call saved, and which gradients run them.

Eager backward raises if a tensor that a node saved was written to since. A program saves other
values, so its backward node repeats the check from this list: for each saved tensor that is an
argument, lies outside or is returned. Nobody else can reach, and write to, what a call saves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...autograd.engine import make_target_key
from ...autograd.node import Node
from ...autograd.outputs import Output
from ...autograd.saved.values import SavedOutput, can_recompute
from ...ops.indexing.index import VersionedPositions
from ...tensor.storage import VersionCounter
from ...tensor.tensor import Tensor


@dataclass(eq=False)
class SavedVersion:
    """A tensor that a node saved.

    counter: its version counter in the recorded call, until the tensor is found.
    node, producer: names of the node and of the tensor's own node (None: it is the node's output).
    tensor: the tensor's id in the recorded call. is_owner: whether it is the object that its
        owner names, and not another on the same memory.
    order: the node's sequence number; backward runs newer nodes first.
    outputs, inputs: bit masks of the live outputs from which backward reaches the node, and of the
        inputs with gradients to which it leads.
    """

    counter: VersionCounter | None
    node: str
    producer: str | None
    tensor: int
    order: int
    shape: tuple[int, ...]
    dtype: np.dtype
    outputs: int = -1
    inputs: int = -1
    is_owner: bool = False


@dataclass(eq=False)
class Reach:
    """The nodes between a call's live outputs and its inputs, newest first, with bit masks.

    outputs: by node id, the outputs that reach it; inputs: the inputs that it reaches.
    of_outputs: by output, the inputs that it reaches.
    """

    nodes: list[Node]
    outputs: dict[int, int]
    inputs: dict[int, int]
    of_outputs: list[int]


def find_reach(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Reach:
    """Return which nodes lead from which of the outputs to which of the inputs."""
    ends: dict[Any, int] = {}
    for i, x in enumerate(inputs):
        key = make_target_key(x._history() or x)
        ends[key] = ends.get(key, 0) | 1 << i
    starts = [y._history() for y in outputs]
    nodes = _list_nodes(starts, ends)
    from_outputs, to_inputs = dict.fromkeys(map(id, nodes), 0), dict.fromkeys(map(id, nodes), 0)
    for k, start in enumerate(starts):
        key = _make_node_key(start)
        if key in from_outputs:
            from_outputs[key] |= 1 << k
    for node in nodes:
        for edge in node.edges:
            if _make_node_key(edge) in from_outputs and make_target_key(edge) not in ends:
                from_outputs[_make_node_key(edge)] |= from_outputs[id(node)]
    for node in reversed(nodes):
        for edge in node.edges:
            to_inputs[id(node)] |= (
                ends.get(make_target_key(edge)) or to_inputs.get(_make_node_key(edge), 0))
    reached = [ends.get(make_target_key(start)) or to_inputs.get(_make_node_key(start), 0)
               for start in starts]
    return Reach(nodes, from_outputs, to_inputs, reached)


def select_bits(mask: int, numbers: Sequence[int]) -> int:
    """Return the bits of a mask at the given numbers, in this order."""
    return sum(1 << i for i, number in enumerate(numbers) if mask >> number & 1)


def _make_node_key(target: Any) -> int:
    return id(target.node if target.__class__ is Output else target)


def _list_nodes(starts: list[Any], ends: dict[Any, int]) -> list[Node]:
    """Return the nodes on the way, newest first."""
    result: dict[int, Node] = {}
    stack = list(starts)
    while stack:
        target = stack.pop()
        if target is None or make_target_key(target) in ends:
            continue
        node = target.node if target.__class__ is Output else target
        if isinstance(node, Node) and id(node) not in result:
            result[id(node)] = node
            stack.extend(node.edges)
    return sorted(result.values(), key=lambda node: -node.sequence)


class _WatchedOutput(SavedOutput):
    """One of several outputs of a node, which notes whether the derivative reads it."""

    __slots__ = ("is_read",)

    def __init__(self, saved: SavedOutput) -> None:
        for name in SavedOutput.__slots__:
            setattr(self, name, getattr(saved, name))
        self.is_read = False

    def tensor(self, node: Node) -> Tensor:
        self.is_read = True
        return super().tensor(node)


@contextmanager
def note_saved_versions(reach: Reach) -> Iterator[list[SavedVersion]]:
    """Watch a backward pass; fill in the list of what its nodes saved and read."""
    before = []
    for node in reach.nodes:
        if any(_are_outputs(value) for value in node.saved or ()):
            before.append((node, node.saved))
            node.saved = tuple([tuple(map(_WatchedOutput, value)) if _are_outputs(value) else value
                                for value in node.saved])
    result: list[SavedVersion] = []
    try:
        yield result
        for node in reach.nodes:
            result += _list_saved(node, reach.outputs[id(node)], reach.inputs[id(node)])
    finally:
        for node, saved in before:
            node.saved = saved


def _are_outputs(value: Any) -> bool:
    return value.__class__ is tuple and bool(value) and value[0].__class__ is SavedOutput


def _list_saved(node: Node, outputs: int, inputs: int) -> list[SavedVersion]:
    """Return what a node needs unchanged. Outputs that it can compute again need not be."""
    result = []
    for value in _iterate_saved_values(node):
        tensor: Tensor | None = None
        if isinstance(value, Tensor):
            tensor = value
            if value._counter is None:
                value._counter = VersionCounter()
            counter, array = value._counter, value._array
            producer = "" if value.grad_fn is None else value.grad_fn.name()
        elif not can_recompute(node) and getattr(value, "is_read", True):
            counter, array, producer = value.counter, value.array, None
        else:
            continue
        result.append(SavedVersion(counter, node.name(), producer, id(tensor), node.sequence,
                                   array.shape, array.dtype, outputs, inputs))
    return result


def _iterate_saved_values(node: Node) -> Iterator[Any]:
    """Yield the tensors and SavedOutputs whose versions a node checks."""
    stack = list(zip(node.saved or (), node.versions, strict=False))
    while stack:
        value, version = stack.pop()
        if value.__class__ is VersionedPositions:
            stack += value.tensors
        elif version is None:
            continue
        elif value.__class__ is tuple:
            stack += zip(value, version if version.__class__ is tuple else (0,) * len(value),
                         strict=True)
        elif isinstance(value, (Tensor, SavedOutput)):  # else packed by a saved-tensor hook
            yield value
