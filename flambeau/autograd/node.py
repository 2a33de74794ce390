"""The graph's node: the operator that ran, its inputs, and the values its derivative needs.

A node knows no operator by name: its plan says what was saved and which vjps to call. Saved values
are checked for changes before a vjp reads them.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ..tensor.dtypes import FLOAT32
from ..tensor.tensor import Tensor, wrap
from .errors.graph_errors import raise_freed, raise_stale
from .handle import RemovableHandle
from .mode import MODE
from .outputs import SavedOutput, SavedOutputs, with_history
from .save_plan import OUTPUT, SHAPE
from .unbroadcast import unbroadcast


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
        new._node = _LeafAgain(self.history) if leaf else self.history
        return new


def pack_tensor(
    value: Tensor, pack: Callable, unpack: Callable, is_output: bool = False
) -> PackedTensor:
    """Pack a tensor with a pair of saved-tensor hooks; RuntimeError if `pack` writes to it."""
    with_grad, MODE.grad = MODE.grad, False
    try:
        version = value._version
        packed = pack(value)
        if value._version != version:
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

    def register_hooks(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        """Save `pack_hook(tensor)` instead; backward reads `unpack_hook` of that.

        Raise RuntimeError for a second pair, if backward freed the tensor, or if none was saved.
        https://docs.pytorch.org/tutorials/intermediate/autograd_saved_tensors_hooks_tutorial.html
        """
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
        tensor = unpacked(node, value, node.versions[position])
        packed = pack_tensor(tensor, pack_hook, unpack_hook, value.__class__ is SavedOutput)
        node.saved = (*node.saved[:position], packed, *node.saved[position + 1:])


class Node:
    """An operator's call in the graph, as returned by `tensor.grad_fn`.

    `edges`: the target of each gradient: a node, an `Output` of one, or a leaf tensor. `saved`,
    `versions`: values the vjps need; `saved` is None once freed. `restore`: (shape, dtype) for
    gradients of inputs that were broadcast or promoted.
    """

    __slots__ = (
        "__dict__", "__weakref__", "edges", "hooks", "plan", "restore", "saved", "sequence",
        "versions",
    )
    operator: Any = None
    is_custom = False  # the node of a custom Function
    outputs = 1
    edges: Sequence[Any]
    saved: Any
    versions: Any
    plan: Any
    restore: Any
    hooks: Any
    sequence: int

    def name(self) -> str:
        """Return the class name, as in 'MulBackward0'."""
        return type(self).__name__

    def shown(self) -> Node:
        """Return the node that `grad_fn` exposes."""
        return self

    def output_number(self) -> int:
        """Return the output's index, 0 for a node with one output."""
        return 0

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(node, output number) per input; the node is None for inputs without a gradient."""
        return tuple(_shown_edge(target) for target in self._all_edges())

    def _all_edges(self) -> list[Any]:
        plan, operator = self.plan, self.operator
        if plan is None or operator is None or len(plan.inputs) != len(self.edges):
            return list(self.edges)
        edges = dict(zip(plan.inputs, self.edges, strict=True))
        return [edges.get(i) for i in operator.shown_edges]

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for arbitrary user data."""
        return self.__dict__.setdefault("_metadata", {})

    def _sequence_nr(self) -> int:
        return self.sequence

    def register_hook(self, hook: Callable) -> Any:
        """Call hook(gradients of the inputs, gradients of the outputs) after the node."""
        return self._add_hook("post", hook)

    def register_prehook(self, hook: Callable) -> Any:
        """Call hook(gradients of the outputs) before the node."""
        return self._add_hook("pre", hook)

    def _add_hook(self, when: str, hook: Callable) -> RemovableHandle:
        hooks = self.hooks_at((when, None))
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle

    def hooks_at(self, place: tuple[str, int | None]) -> OrderedDict[int, Callable]:
        """Return the mutable dict of hooks of one kind, for one output or the node itself."""
        if self.hooks is None:
            self.hooks = {}
        hooks: OrderedDict[int, Callable] = self.hooks.setdefault(place, OrderedDict())
        return hooks

    def values(self) -> Sequence[Any]:
        """Return the saved values. Raise RuntimeError if they were freed or overwritten."""
        saved = self.saved
        if saved is None:
            raise_freed(self)
        if self.plan is not None and self.plan.plain:
            return saved
        values = None
        for i, version in enumerate(self.versions):
            if version is None:
                continue
            value = saved[i]
            if isinstance(value, Tensor):
                counter = value._counter
                if counter is not None and counter.value != version:
                    raise_stale(self.name(), value._array, counter, version, value)
            else:
                if values is None:
                    values = list(saved)
                values[i] = unpacked(self, value, version)
        return saved if values is None else values

    def saved_value(self, k: int) -> Any:
        """Return a saved value, checked for changes."""
        value, version = self.saved[k], self.versions[k]
        return value if version is None else unpacked(self, value, version)

    def __call__(self, *grads: Any) -> Any:
        """Return the gradients of all inputs (None if missing), given those of the outputs."""
        if self.is_custom:
            raise TypeError(f"'{type(self).__name__}' object is not callable")
        results = self.apply(grads[0] if len(grads) == 1 else grads)
        if self.operator is not None and len(results) == len(self.plan.inputs):
            gradients = dict(zip(self.plan.inputs, results, strict=True))
            results = [gradients.get(i) for i in self.operator.shown_edges]
        return results[0] if len(results) == 1 else tuple(results)

    def apply(self, g: Any) -> Sequence[Any]:
        """Return the edges' cotangents, given the output's (a tuple for several outputs)."""
        values = self.values()
        plan = self.plan
        grads: Any
        if g.__class__ is not tuple:
            kind = g._array.dtype
            if kind is not FLOAT32 and kind.kind == "c" and self.operator.holomorphic \
                    and not plan.joint:
                return self._apply_complex(g, values)
        if plan.only is not None and not self.operator.has_sequence:
            grads = (plan.only(g, *values),)
        elif plan.joint:
            grads = self._apply_joint(g, values)
        else:
            grads = [vjp(g, *[values[i] for i in indices]) for vjp, indices in plan.entries]
            if self.operator.has_sequence:
                grads = _flattened(grads)
        return grads if self.restore is None else self._unbroadcast(grads)

    def _apply_complex(self, g: Tensor, values: Sequence[Any]) -> Sequence[Any]:
        """Apply the vjps of a holomorphic operator to the conjugated cotangent, and conjugate the
        results: vjps are complex-linear, and gradients are conjugates."""
        g = g.conj_physical()
        grads = [vjp(g, *[values[i] for i in indices]) for vjp, indices in self.plan.entries]
        if self.operator.has_sequence:
            grads = _flattened(grads)
        grads = [None if y is None else y.conj_physical() for y in grads]
        return grads if self.restore is None else self._unbroadcast(grads)

    def _apply_joint(self, g: Any, values: Sequence[Any]) -> list[Any]:
        vjp, indices = self.plan.entries[0]
        result = vjp(g, *[values[i] for i in indices])
        every = result if result.__class__ is tuple else (result,)
        return _flattened([every[i] for i in self.joint_positions()])

    def _unbroadcast(self, grads: Sequence[Any]) -> list[Any]:
        return [
            y if retained is None or y is None else unbroadcast(y, *retained)
            for y, retained in zip(grads, self.restore, strict=True)
        ]

    def joint_positions(self) -> list[int]:
        """Return the indices of a joint vjp's results that belong to inputs with a gradient."""
        order = self.operator.tensor_positions
        return [order.index(i) for i in self.plan.inputs]

    def release(self) -> None:
        """Free the saved tensors; a node that saved none can run again."""
        plan = self.plan
        if plan is not None and plan.frees:
            self.saved = None
            return
        if plan is not None and plan.plain and not self.versions:
            return
        for version in self.versions:
            if version is not None:
                self.saved = None
                return

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_"):
            position = self._saved_position(name, name.removeprefix("_saved_"))
            return None if position is None else self.values()[position]
        if name == "_raw_saved_tensors" and self.is_custom:
            return tuple(SavedTensor.of(self, k) for k in range(len(self.values())))
        if name.startswith("_raw_saved_"):
            position = self._saved_position(name, name.removeprefix("_raw_saved_"))
            return SavedTensor.of(self, position)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _saved_position(self, attribute: str, name: str) -> int | None:
        """Return the index of a saved value; None for an input this call's vjps do not need."""
        operator = self.operator
        if operator is not None:
            every = sum(1 << i for i in operator.tensor_positions)
            for plan in (self.plan, operator.plan(every)):
                for k, source in enumerate(plan.sources):
                    if _saved_name(operator, *source) == name:
                        return k if plan is self.plan else None
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute}'")


def _saved_name(operator: Any, kind: int, position: int) -> str:
    """Return a saved value's name in PyTorch's attributes, e.g. `result` for `_saved_result`."""
    if kind == OUTPUT:
        return "result"
    name: str = operator.names[position]
    name = "self" if name == "input" else name
    return f"{name}_sym_sizes" if kind == SHAPE else name


class _LeafAgain(Node):
    """The history of a leaf unpacked by a saved-tensor hook: passes gradients to the leaf."""

    def __init__(self, leaf: Tensor) -> None:
        self.edges, self.saved, self.versions = (leaf,), (), ()
        self.plan = self.restore = self.hooks = None
        self.sequence = 0  # runs after all other nodes

    def apply(self, g: Any) -> Sequence[Any]:
        return (g,)


class AccumulatorHook:
    """A hook of a leaf's node, stored with the leaf's hooks; it takes tuples of gradients."""

    __slots__ = ("function",)

    def __init__(self, function: Callable) -> None:
        self.function = function

    def __call__(self, *grads: tuple) -> Any:
        """Call the hook and return its result."""
        return self.function(*grads)


class AccumulateGrad(Node):
    """The end of the graph at a leaf, as returned by `next_functions`."""

    __slots__ = ("_leaf",)

    _leaf: Tensor

    def __call__(self, *grads: Any) -> tuple:
        """Accumulate gradients into the leaf."""
        self._leaf.backward(*grads)
        return ()

    @property
    def variable(self) -> Tensor:
        """The leaf."""
        return self._leaf

    def _all_edges(self) -> list[Any]:
        return []

    def register_hook(self, hook: Callable) -> RemovableHandle:
        """Call hook((), (gradient,)) after the leaf's grad was accumulated."""
        return self._leaf.register_post_accumulate_grad_hook(AccumulatorHook(hook))

    def register_prehook(self, hook: Callable) -> RemovableHandle:
        """Call hook((gradient,)) before the gradient is accumulated."""
        return self._leaf.register_hook(AccumulatorHook(hook))


def accumulator_of(leaf: Tensor) -> AccumulateGrad:
    """Return the leaf's node, the same object as long as it is referenced."""
    reference = leaf.__dict__.get("_accumulator")
    result = None if reference is None else reference()
    if result is None:
        result = object.__new__(AccumulateGrad)
        result._leaf, result.edges, result.saved, result.versions = leaf, (), (), ()
        result.plan = result.restore = result.hooks = None
        result.sequence = 1 << 62
        leaf.__dict__["_accumulator"] = weakref.ref(result)
    return result


def _shown_edge(target: Any) -> tuple[Any, int]:
    if target is None:
        return None, 0
    if isinstance(target, Tensor):
        return accumulator_of(target), 0
    return target.shown(), target.output_number()


def _flattened(grads: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for y in grads:
        if y.__class__ in (tuple, list):
            flat.extend(y)
        else:
            flat.append(y)
    return flat


def unpacked(node: Node, value: Any, version: Any) -> Any:
    """Return a saved value as the vjp reads it; RuntimeError if it was overwritten."""
    if value.__class__ is SavedOutput:
        return value.tensor(node)
    if value.__class__ is PackedTensor:
        return value.tensor(node)
    if value.__class__ is tuple:
        if value and isinstance(value[0], SavedOutput):
            return SavedOutputs(node, value)
        return tuple(
            v if n is None else unpacked(node, v, n) for v, n in zip(value, version, strict=True)
        )
    if isinstance(value, SavedOutput):
        return value.tensor(node)
    counter = value._counter
    if counter is not None and counter.value != version:
        raise_stale(node.name(), value._array, counter, version, value)
    return value
