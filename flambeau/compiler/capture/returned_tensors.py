"""Returned tensors: a description of each tensor that a call returns, comparable between calls.

A tensor is an argument, an outside tensor, or new. A new tensor lies in memory of the call, of an
argument or from outside, and may be a view or a detached alias of another tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...autograd.mode import MODE
from ...autograd.tape import requires
from ...tensor.storage import get_version
from ...tensor.tensor import Tensor
from ..trace.operands import read_flags
from ..trace.trace import SavedOwner, Trace, Value
from .escapes import iterate_tensors
from .saved_versions import SavedVersion


class ReturnedTensor(NamedTuple):
    """A tensor that a call returns, or the base of one.

    `leaf` is its argument number, `outside` the outside tensor; both are None for a new tensor.
    `window` is a new tensor's location. `source` is the entry whose version counter it shares: its
    base if `is_view`, else any tensor in the same memory. `is_whole`: it has the same array as
    `source`.
    """

    leaf: int | None = None
    outside: Any = None
    window: Value | None = None
    source: int | None = None
    is_view: bool = False
    is_whole: bool = False
    version: int = 0  # of a new tensor with its own counter
    requires_grad: bool = False
    is_leaf: bool = True
    node_name: str = ""  # the class of its node
    is_inference: bool | None = None  # None: as the mode around the call makes it

    @property
    def is_new(self) -> bool:
        """Whether the call created it."""
        return self.leaf is None and self.outside is None


def describe_returned(trace: Trace, leaves: Sequence[Any], existing: Sequence[Tensor]) -> None:
    """Fill in the trace's description of the tensors in its result.

    `leaves` are the flattened arguments; `existing` are all tensors that existed before the call.
    """
    description = _Description(trace, leaves, existing)
    returned = list(iterate_tensors(trace.result))
    for tensor in returned:
        description.locate(tensor)
    trace.layout = _describe_structure(trace.result, trace.positions)
    if trace.backward is not None:
        outputs = enumerate(trace.backward.outputs)
        trace.backward.positions = {trace.positions[id(y)]: k for k, y in outputs
                                    if id(y) in trace.positions}
        trace.backward.saved_owners = description.find_owners(trace.backward.saved)


class _Description:
    """Entries in topological order: each follows its source."""

    def __init__(self, trace: Trace, leaves: Sequence[Any], existing: Sequence[Tensor]) -> None:
        self.trace = trace
        self.leaves = {id(leaf): i for i, leaf in reversed([*enumerate(leaves)])
                       if issubclass(type(leaf), Tensor)}
        self.arguments = {i: leaf for i, leaf in enumerate(leaves)
                          if issubclass(type(leaf), Tensor)}
        self.existing = existing
        self.counters: dict[int, int] = {}  # positions of new entries, by id of their counter

    def locate(self, tensor: Tensor) -> int:
        """Return the position of a tensor's entry."""
        trace = self.trace
        known = trace.positions.get(id(tensor))
        if known is not None:
            return known
        entry = self._describe_tensor(tensor)
        position = trace.positions[id(tensor)] = len(trace.returned)
        trace.returned.append(entry)
        trace.returned_arrays.append(tensor._array)
        if entry.is_new and tensor._counter is not None:
            self.counters.setdefault(id(tensor._counter), position)
        return position

    def _describe_tensor(self, tensor: Tensor) -> ReturnedTensor:
        trace = self.trace
        leaf = self.leaves.get(id(tensor))
        if leaf is not None:
            return ReturnedTensor(leaf=leaf)
        if id(tensor) in trace.existing_tensors or id(tensor) in trace.argument_tensors:
            return ReturnedTensor(outside=tensor)
        if tensor.__class__ is not Tensor:
            trace.add_problem(f"it returns a new tensor of class {tensor.__class__.__name__}", "")
        elif tensor.__dict__:
            trace.add_problem("it returns a new tensor with attributes or hooks of its own", "")
        base, source = tensor._base, None
        if base is not None:
            source = self._locate_base(base)
        elif tensor._counter is not None:
            source = self._locate_sharer(tensor._counter)
        version = get_version(tensor) if source is None else 0
        node = tensor._history()
        is_unchanged = source is not None and trace.returned_arrays[source] is tensor._array
        return ReturnedTensor(
            None, None, trace.value_of(tensor._array), source, base is not None, is_unchanged,
            version, tensor._tracked and requires(tensor), node is None,
            "" if node is None else type(node.shown()).__name__,
            self._find_inference_switch(tensor, source),
        )

    def _find_inference_switch(self, tensor: Tensor, source: int | None) -> bool | None:
        """Return whether a tensor was made in inference mode if the mode around the call does not
        tell, because the call switched it; else None. A view is like its base."""
        if tensor._base is not None:
            return None
        _, is_inference = read_flags(tensor)
        usual = MODE.inference if source is None else False
        return None if is_inference == usual else is_inference

    def find_owners(self, saved: list[SavedVersion]) -> list[tuple[SavedVersion, SavedOwner]]:
        """Return those saved tensors that code outside of the call can write to, and what they are.

        Tensors with one version counter are one for this purpose.
        """
        owners = {key: SavedOwner(position=position) for key, position in self.counters.items()}
        objects: dict[int, SavedOwner] = {}
        for key, position in self.trace.positions.items():
            if self.trace.returned[position].is_new:
                objects[key] = SavedOwner(position=position)
        for tensor in (*self.existing, *self.trace.externals.values()):
            owners[id(tensor._counter)] = objects[id(tensor)] = SavedOwner(outside=tensor)
        for number, leaf in self.arguments.items():
            owners[id(leaf._counter)] = objects[id(leaf)] = SavedOwner(leaf=number)
        result = []
        for item in saved:
            item.is_owner = item.tensor in objects
            owner = objects.get(item.tensor) or owners.get(id(item.counter))
            item.counter = None  # a second derivative counts who else refers to it
            if owner is not None:
                result.append((item, owner))
        return result

    def _locate_base(self, base: Tensor) -> int:
        """Return the entry of an argument whose views have this base, or of the base itself."""
        for leaf in self.arguments.values():
            if (leaf if leaf._base is None else leaf._base) is base:
                return self.locate(leaf)
        return self.locate(base)

    def _locate_sharer(self, counter: Any) -> int | None:
        """Return the entry of a tensor with the same version counter, or None."""
        if id(counter) in self.counters:
            return self.counters[id(counter)]
        # Tensors that the call used come first; others may be results of earlier calls.
        for tensor in (*self.arguments.values(), *self.trace.externals.values(), *self.existing):
            if tensor._counter is counter:
                return self.locate(tensor)
        return None


def _describe_structure(x: Any, positions: dict[int, int]) -> Any:
    """Return the structure of a result: classes, keys, and positions for tensors."""
    kind = type(x)
    if issubclass(kind, Tensor):
        return positions[id(x)]
    if issubclass(kind, (tuple, list)):
        return kind, None, tuple(_describe_structure(part, positions) for part in x)
    if issubclass(kind, dict):
        return kind, tuple(x), tuple(_describe_structure(part, positions) for part in x.values())
    return x if issubclass(kind, str) else kind
