"""The graph's node: the operator that ran, its inputs, and the values its derivative needs.

A node knows no operator by name: its plan says what was saved and which vjps to call. Reading a
saved value checks it for changes (saved/values.py).
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from ..tensor.dtypes import FLOAT32
from ..tensor.tensor import Tensor
from .handle import RemovableHandle
from .saved.plan import OUTPUT, SHAPE
from .saved.values import SavedTensor, read_saved_value, read_saved_values
from .unbroadcast import unbroadcast


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

    @staticmethod
    def passing_to(leaf: Tensor) -> Node:
        """Create a node that passes gradients to the leaf: the history of its unpacked copy."""
        return _LeafAgain(leaf)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(node, output number) per input; the node is None for inputs without a gradient."""
        return tuple(_describe_edge(target) for target in self._all_edges())

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

    def _set_sequence_nr(self, sequence_nr: int) -> None:
        self.sequence = sequence_nr  # of two nodes that are ready the higher one runs first

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

    values = read_saved_values

    def read_saved(self, k: int) -> Any:
        """Return a saved value, checked for changes."""
        value, version = self.saved[k], self.versions[k]
        return value if version is None else read_saved_value(self, value, version)

    def __call__(self, *grads: Any) -> Any:
        """Return the gradients of all inputs (None if missing), given those of the outputs."""
        if self.is_custom:
            raise TypeError(f"'{type(self).__name__}' object is not callable")
        if self.outputs == 1 and len(grads) != 1:
            raise TypeError(f"expected 1 arguments, got {len(grads)} instead")
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
                grads = _flatten_gradients(grads)
        return grads if self.restore is None else self._unbroadcast(grads)

    def _apply_complex(self, g: Tensor, values: Sequence[Any]) -> Sequence[Any]:
        """Apply the vjps of a holomorphic operator to the conjugated cotangent, and conjugate the
        results: vjps are complex-linear, and gradients are conjugates."""
        g = g.conj_physical()
        grads = [vjp(g, *[values[i] for i in indices]) for vjp, indices in self.plan.entries]
        if self.operator.has_sequence:
            grads = _flatten_gradients(grads)
        grads = [None if y is None else y.conj_physical() for y in grads]
        return grads if self.restore is None else self._unbroadcast(grads)

    def _apply_joint(self, g: Any, values: Sequence[Any]) -> list[Any]:
        vjp, indices = self.plan.entries[0]
        result = vjp(g, *[values[i] for i in indices])
        gradients = result if result.__class__ is tuple else (result,)
        return _flatten_gradients([gradients[i] for i in self.joint_positions()])

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
            position = self._find_saved_position(name, name.removeprefix("_saved_"))
            return None if position is None else self.values()[position]
        if name == "_raw_saved_tensors" and self.is_custom:
            return tuple(SavedTensor.of(self, k) for k in range(len(self.values())))
        if name.startswith("_raw_saved_"):
            position = self._find_saved_position(name, name.removeprefix("_raw_saved_"))
            return SavedTensor.of(self, position)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _find_saved_position(self, attribute: str, name: str) -> int | None:
        """Return the index of a saved value; None for an input this call's vjps do not need."""
        operator = self.operator
        if operator is not None:
            mask = sum(1 << i for i in operator.tensor_positions)
            for plan in (self.plan, operator.plan(mask)):
                for k, source in enumerate(plan.sources):
                    if _name_saved(operator, *source) == name:
                        return k if plan is self.plan else None
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute}'")


def _name_saved(operator: Any, kind: int, position: int) -> str:
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


def get_accumulator(leaf: Tensor) -> AccumulateGrad:
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


def _describe_edge(target: Any) -> tuple[Any, int]:
    if target is None:
        return None, 0
    if isinstance(target, Tensor):
        return get_accumulator(target), 0
    return target.shown(), target.output_number()


def _flatten_gradients(grads: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for y in grads:
        if y.__class__ in (tuple, list):
            flat.extend(y)
        else:
            flat.append(y)
    return flat


_named_types: dict[tuple[type[Node], str], type[Node]] = {}


def name_node(y: Tensor, name: str) -> None:
    """Name the node that computed a tensor, if any, as PyTorch names it. Only the name differs."""
    node = None if y._node is None else y._node.shown()
    if node is None:
        return
    key = node.__class__, name
    if (named := _named_types.get(key)) is None:
        attributes = {"__slots__": (), "__module__": "builtins"}
        named = node.__class__ if node.__class__.__name__ == name else \
            type(name, (node.__class__,), attributes)
        _named_types[key] = named
    node.__class__ = named
