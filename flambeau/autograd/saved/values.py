"""Saved values: what a node keeps for its derivative, and the version check when it is read.

`read_saved_values` raises if a saved tensor was written to in place (its version counter moved).
Some derivatives here read outputs where PyTorch's read inputs (max pooling finds its maxima again),
so an overwritten output is recomputed if all inputs were saved, and of several outputs only those
that the derivative reads must be unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...tensor.deepcopy import alias_with_attributes
from ...tensor.meta import MetaArray
from ...tensor.storage import VersionCounter, get_version
from ...tensor.tensor import Tensor, wrap
from ..errors.graph_errors import raise_freed, raise_stale
from ..mode import MODE
from ..outputs import with_history

if TYPE_CHECKING:
    from ..node import Node


def read_saved_values(node: Node) -> Sequence[Any]:
    """Return a node's saved values. Raise RuntimeError if they were freed or overwritten.

    This is the check for in-place writes: the version counter of each saved tensor must be what it
    was when the tensor was saved.
    """
    saved = node.saved
    if saved is None:
        raise_freed(node)
    if node.plan is not None and node.plan.plain:
        return saved
    values = None
    for i, version in enumerate(node.versions):
        if version is None:
            continue
        value = saved[i]
        if isinstance(value, Tensor):
            counter = value._counter
            if counter is not None and counter.value != version:
                raise_stale(node.name(), value._array, counter, version, value)
        else:
            if values is None:
                values = list(saved)
            values[i] = read_saved_value(node, value, version)
    return saved if values is None else values


def read_saved_value(node: Node, value: Any, version: Any) -> Any:
    """Return a saved value as the vjp reads it; RuntimeError if it was overwritten."""
    if value.__class__ is SavedOutput:
        return value.tensor(node)
    if value.__class__ is PackedTensor:
        return value.tensor(node)
    if value.__class__ is tuple:
        if value and isinstance(value[0], SavedOutput):
            return SavedOutputs(node, value)
        return tuple(
            v if n is None else read_saved_value(node, v, n)
            for v, n in zip(value, version, strict=True)
        )
    if isinstance(value, SavedOutput):
        return value.tensor(node)
    counter = value._counter
    if counter is not None and counter.value != version:
        raise_stale(node.name(), value._array, counter, version, value)
    return value


class SavedOutput:
    """A node's own output, saved as array and version to avoid a reference cycle.

    `twin`: for a wrapper, whose array holds no numbers, an object like it without history.
    """

    __slots__ = ("array", "counter", "index", "twin", "version")

    def __init__(self, tensor: Tensor, index: int | None = None) -> None:
        counter = tensor._counter
        if counter is None:
            tensor._counter = counter = VersionCounter()
        self.array, self.counter, self.index = tensor._array, counter, index
        self.version = counter.value
        is_wrapper = tensor.__class__ is not Tensor and tensor._array.__class__ is MetaArray
        self.twin = alias_with_attributes(tensor) if is_wrapper else None

    def tensor(self, node: Node) -> Tensor:
        """Return the output as a tensor, with history if backward itself is recorded."""
        if self.counter.value != self.version:
            recomputed = recompute(node, self.index)
            if recomputed is not None:
                return recomputed
            raise_stale(node.name(), self.array, self.counter, self.version)
        result = wrap(self.array) if self.twin is None else alias_with_attributes(self.twin)
        result._counter = self.counter
        return with_history(result, node, self.index)


def recompute(node: Node, index: int | None) -> Any:
    """Recompute the node's output, the one at `index` if several; None if an input isn't saved."""
    if not can_recompute(node):
        return None
    operator, args, kwargs = node.operator, [], {}
    for position, k in sorted(node.plan.arguments):
        parameter, value = operator.parameters[position], node.read_saved(k)
        if parameter.kind is parameter.KEYWORD_ONLY:
            kwargs[parameter.name] = value
        elif parameter.kind is parameter.VAR_POSITIONAL:
            args += value
        else:  # by position: public functions of two operands have other names for them
            args.append(value)
    y = operator.function(*args, **kwargs)
    return y if index is None else y[index]


def can_recompute(node: Node) -> bool:
    """Return whether the node saved all arguments of its call."""
    operator, plan = node.operator, node.plan
    return (operator is not None and plan is not None
            and len(plan.arguments) >= len(operator.names))


class SavedOutputs:
    """The outputs of a multi-output node as its vjp sees them: version-checked when read."""

    __slots__ = ("node", "saved")

    def __init__(self, node: Node, saved: tuple) -> None:
        self.node, self.saved = node, saved

    def __len__(self) -> int:
        return len(self.saved)

    def __iter__(self) -> Iterator[Any]:
        return (item.tensor(self.node) for item in self.saved)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [item.tensor(self.node) for item in self.saved[index]]
        return self.saved[index].tensor(self.node)


class PackedTensor:
    """A tensor packed by a saved-tensor hook, with its place in the graph.

    `history`: its node, or the tensor itself if it is a leaf that requires grad; None for a
    constant, and for the node's own output (`is_output`), which would create a cycle.
    """

    __slots__ = ("history", "is_output", "packed", "unpack")

    def __init__(self, packed: Any, unpack: Callable, history: Any, is_output: bool) -> None:
        self.packed, self.unpack = packed, unpack
        self.history, self.is_output = history, is_output

    def tensor(self, node: Node) -> Any:
        """Return the unpacked tensor. If backward is recorded, restore its place in the graph,
        whatever the hook returned."""
        result = self.unpack(self.packed)
        if not isinstance(result, Tensor):
            raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor but got "
                            f"result of type {type(result).__name__}")
        if not MODE.grad:
            return result
        if self.is_output:
            return with_history(wrap(result._array), node, None)
        if self.history is None or result is self.history:
            return result
        new = wrap(result._array)
        new._requires_grad = new._tracked = True
        leaf = isinstance(self.history, Tensor)
        new._node = node.passing_to(self.history) if leaf else self.history
        return new


def pack_tensor(
    value: Tensor, pack: Callable, unpack: Callable, is_output: bool = False
) -> PackedTensor:
    """Pack a tensor with a pair of saved-tensor hooks; RuntimeError if `pack` writes to it."""
    with_grad, MODE.grad = MODE.grad, False
    try:
        version = get_version(value)
        packed = pack(value)
        if get_version(value) != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as "
                "input to pack hook cannot be modified by in-place operations as this can lead to "
                "unexpected side-effects. Please open an issue if you need to perform in-place "
                "operations on the input to a pack hook."
            )
        history = None
        if not is_output and value.requires_grad:
            history = value._history() or value
        return PackedTensor(packed, unpack, history, is_output)
    finally:
        MODE.grad = with_grad


class SavedTensor:
    """A tensor that a node saved, as returned by `node._raw_saved_self`.

    `position`: its index in `node.saved`; None for an input that the derivative does not need.
    """

    __slots__ = ("_node", "_position")
    _node: Node
    _position: int | None

    def __init__(self) -> None:
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    @classmethod
    def of(cls, node: Node, position: int | None) -> SavedTensor:
        """Return a node's saved tensor at a position."""
        result = object.__new__(cls)
        result._node, result._position = node, position
        return result

    def register_hooks(self, *hooks: Callable) -> None:
        """Save `pack_hook(tensor)` instead; backward reads `unpack_hook`, the second, of that.

        Raise TypeError unless these are two functions, RuntimeError for a second pair, if backward
        freed the tensor, or if none was saved.
        https://docs.pytorch.org/tutorials/intermediate/autograd_saved_tensors_hooks_tutorial.html
        """
        if len(hooks) != 2 or not all(map(callable, hooks)):
            raise TypeError(
                "register_hooks(): incompatible function arguments. The following argument types "
                "are supported:\n    1. (self: torch._C._autograd.SavedTensor, arg0: "
                "collections.abc.Callable, arg1: collections.abc.Callable) -> None\n\n"
                f"Invoked with: {', '.join(map(repr, (self, *hooks)))}"
            )
        pack_hook, unpack_hook = hooks
        node, position = self._node, self._position
        if node.saved is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved "
                "intermediate values of the graph are freed when you call .backward() or "
                "autograd.grad(). Specify retain_graph=True if you need to backward through the "
                "graph a second time or if you need to access saved variables after calling "
                "backward."
            )
        if position is None or node.versions[position] is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is "
                               "forbidden")
        value = node.saved[position]
        if value.__class__ is PackedTensor:
            raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already "
                               "been set. Hint: only one pair of hooks is allowed at a time.")
        tensor = read_saved_value(node, value, node.versions[position])
        packed = pack_tensor(tensor, pack_hook, unpack_hook, value.__class__ is SavedOutput)
        node.saved = (*node.saved[:position], packed, *node.saved[position + 1:])
