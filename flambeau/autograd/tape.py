"""The tape: nodes that remember which operator ran, on what, and what its derivative needs.

An operator hands over its result and arguments; `record` hangs a node on the result when an input
requires grad. The tape knows no operator by name: a node's plan says what to save and which vjps
to call.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..tensor.dtypes import FLOAT32
from ..tensor.storage import VersionCounter
from ..tensor.tensor import INFERENCE, Tensor, wrap
from .mode import MODE, SPECIAL
from .outputs import Outputs, worked_out_again
from .plan import ATTRIBUTE, DTYPE, INPUT, OUTPUT, SHAPE, Plan

_next_sequence = itertools.count(1).__next__
_new = object.__new__


class SavedOutput:
    """A node's own output, kept without a cycle: its memory and version, not the tensor."""

    __slots__ = ("array", "counter", "index", "version")

    def __init__(self, tensor: Tensor, index: int | None = None) -> None:
        counter = tensor._counter
        if counter is None:
            tensor._counter = counter = VersionCounter()
        self.array, self.counter, self.index = tensor._array, counter, index
        self.version = counter.value

    def tensor(self, node: Node) -> Tensor:
        """The output again; part of the graph when backward is itself recorded."""
        if self.counter.value != self.version:
            again = worked_out_again(node, self.index)
            if again is not None:
                return again
            raise_stale(node, self.array, self.counter, self.version, "output")
        made = wrap(self.array)
        made._counter = self.counter
        if MODE.grad and self.array.dtype.kind in "fcV":
            made._requires_grad = made._tracked = True
            made._node = node if self.index is None else Output(node, self.index)
        return made


class PackedTensor:
    """What a saved-tensor hook made of a tensor."""

    __slots__ = ("packed", "unpack")

    def __init__(self, packed: Any, unpack: Callable) -> None:
        self.packed, self.unpack = packed, unpack


class Node:
    """An operator's application in the graph, as `tensor.grad_fn` shows it.

    `edges`: where each gradient goes, a node, an `Output` of one, or a leaf tensor. `saved` and
    `versions`: what the vjps need; None once freed. `restore`: (shape, dtype) for gradients of
    inputs that were broadcast or promoted.
    """

    __slots__ = (
        "__dict__", "__weakref__", "edges", "hooks", "plan", "restore", "saved", "sequence",
        "versions",
    )  # fmt: skip
    operator: Any = None
    outputs = 1
    edges: Sequence[Any]
    saved: Any
    versions: Any
    plan: Any
    restore: Any
    hooks: Any
    sequence: int

    def name(self) -> str:
        """Its class's name, as in 'MulBackward0'."""
        return type(self).__name__

    def shown(self) -> Node:
        """What `grad_fn` shows."""
        return self

    def output_number(self) -> int:
        """Which output of the node this is: the only one."""
        return 0

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(node, output number) for each input; None for those without a gradient."""
        return tuple(_shown_edge(target) for target in self._all_edges())

    def _all_edges(self) -> list[Any]:
        plan, operator = self.plan, self.operator
        if plan is None or operator is None or len(plan.inputs) != len(self.edges):
            return list(self.edges)
        given = dict(zip(plan.inputs, self.edges, strict=True))
        return [given.get(i) for i in operator.tensor_positions]

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for anybody's notes."""
        return self.__dict__.setdefault("_metadata", {})

    def _sequence_nr(self) -> int:
        return self.sequence

    def register_hook(self, hook: Callable) -> Any:
        """Calls hook(gradients of the inputs, gradients of the outputs) after the node."""
        from .hooks import add_node_hook

        return add_node_hook(self, "post", hook)

    def register_prehook(self, hook: Callable) -> Any:
        """Calls hook(gradients of the outputs) before the node."""
        from .hooks import add_node_hook

        return add_node_hook(self, "pre", hook)

    def values(self) -> Sequence[Any]:
        """The saved values, checked to be unchanged; RuntimeError when they were freed."""
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
                    raise_stale(self, value._array, counter, version, "input")
            else:
                if values is None:
                    values = list(saved)
                values[i] = unpacked(self, value, version)
        return saved if values is None else values

    def kept(self, k: int) -> Any:
        """One of the saved values, checked to be unchanged."""
        value, version = self.saved[k], self.versions[k]
        return value if version is None else unpacked(self, value, version)

    def apply(self, g: Any) -> Sequence[Any]:
        """The cotangents of the edges, from the cotangent of the output (a tuple for several)."""
        values = self.values()
        plan = self.plan
        grads: Any
        if g.__class__ is not tuple:
            kind = g._array.dtype
            if kind is not FLOAT32 and kind.kind == "c" and self.operator.holomorphic \
                    and not plan.joint:  # fmt: skip
                return self._apply_complex(g, values)
        if plan.only is not None and not self.operator.has_sequence:
            grads = (plan.only(g, *values),)
        elif plan.joint:
            grads = self._apply_joint(g, values)
        else:
            grads = [vjp(g, *[values[i] for i in indices]) for vjp, indices in plan.entries]
            if self.operator.has_sequence:
                grads = _flattened(grads)
        return grads if self.restore is None else self._restored(grads)

    def _apply_complex(self, g: Tensor, values: Sequence[Any]) -> Sequence[Any]:
        """A vjp is linear over the complex numbers, and gradients are conjugates."""
        g = g.conj()
        grads = [vjp(g, *[values[i] for i in indices]) for vjp, indices in self.plan.entries]
        if self.operator.has_sequence:
            grads = _flattened(grads)
        grads = [None if y is None else y.conj() for y in grads]
        return grads if self.restore is None else self._restored(grads)

    def _apply_joint(self, g: Any, values: Sequence[Any]) -> list[Any]:
        vjp, indices = self.plan.entries[0]
        found = vjp(g, *[values[i] for i in indices])
        every = found if found.__class__ is tuple else (found,)
        return _flattened([every[i] for i in self.joint_positions()])

    def _restored(self, grads: Sequence[Any]) -> list[Any]:
        return [
            y if kept is None or y is None else restored(y, *kept)
            for y, kept in zip(grads, self.restore, strict=True)
        ]

    def joint_positions(self) -> list[int]:
        """Which of a joint vjp's results belong to the inputs with a gradient."""
        order = self.operator.tensor_positions
        return [order.index(i) for i in self.plan.inputs]

    def release(self) -> None:
        """Frees the tensors that were saved; a node that saved none can run again."""
        if self.plan is not None and self.plan.plain and not self.versions:
            return
        for version in self.versions:
            if version is not None:
                self.saved = None
                return

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_"):
            return self._saved_value(name.removeprefix("_saved_"))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _saved_value(self, name: str) -> Any:
        names = self.operator.names if self.operator is not None else ()
        values = self.values()
        wanted = {"self": "input", "result": "y"}.get(name, name)
        for (kind, position), value in zip(self.plan.sources, values, strict=True):
            label = "y" if kind == OUTPUT else names[position]
            if label == wanted:
                return value
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '_saved_{name}'")


class Output:
    """One output of a node with several: where its gradient goes."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node, self.index = node, index

    def shown(self) -> Node:
        return self.node

    def output_number(self) -> int:
        return self.index


def _shown_edge(target: Any) -> tuple[Any, int]:
    if target is None:
        return None, 0
    if isinstance(target, Tensor):
        from .hooks import accumulator_of

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


def restored(g: Tensor, shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
    """A cotangent in the shape and dtype of its input, undoing broadcast and promotion."""
    if g._array.dtype is not dtype and g._array.dtype != dtype:
        if g._array.dtype.kind == "c" and dtype.kind != "c":
            g = g.real
        g = g.to(Tensor_dtype(dtype))
    return g if g._array.shape == shape else g.sum_to_size(shape)


def Tensor_dtype(numpy_dtype: np.dtype) -> Any:
    from ..tensor.dtypes import FROM_NUMPY

    return FROM_NUMPY[numpy_dtype]


def unpacked(node: Node, value: Any, version: Any) -> Any:
    """A saved value as the vjp sees it."""
    if value.__class__ is SavedOutput:
        return value.tensor(node)
    if value.__class__ is PackedTensor:
        return value.unpack(value.packed)
    if value.__class__ is tuple:
        if value and value[0].__class__ is SavedOutput:
            return Outputs(node, value)
        return tuple(
            v if n is None else unpacked(node, v, n) for v, n in zip(value, version, strict=True)
        )
    counter = value._counter
    if counter is not None and counter.value != version:
        raise_stale(node, value._array, counter, version, "input")
    return value


def raise_freed(node: Node) -> None:
    """What PyTorch says when a graph is walked twice."""
    raise RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed). Saved intermediate values of the graph are freed "
        "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
        "backward through the graph a second time or if you need to access saved tensors after "
        f"calling backward. (first freed node: {node.name()})"
    )


def raise_stale(node: Node, array: np.ndarray, counter: Any, version: int, which: str) -> None:
    """What PyTorch says when a saved tensor was overwritten, and who did it."""
    where = ""
    if counter.writer is not None:
        where = f" It was last written in place at {counter.writer[0]}:{counter.writer[1]}."
    kind = Tensor_dtype(array.dtype)
    legacy = {"float32": "FloatTensor", "float64": "DoubleTensor", "float16": "HalfTensor",
              "int64": "LongTensor", "int32": "IntTensor"}.get(kind.name, f"{kind.name} tensor")
    raise RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [torch.{legacy} {list(array.shape)}], which is "
        f"{'output 0' if which == 'output' else 'an input'} of {node.name()}, is at version "
        f"{counter.value}; expected version {version} instead.{where} Hint: enable anomaly "
        "detection to find the operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True)."
    )


# -------------------------------------------------------------------------------- recording


def requires(x: Tensor) -> bool:
    """Whether a tracked tensor requires grad, now."""
    base = x._base
    if base is not None and base._node is not x._stamp:
        x._reattach()
    return x._requires_grad


def new_node(plan: Plan, edges: tuple, saved: tuple, versions: tuple, restore: Any) -> Node:
    """A node with everything set."""
    node = _new(plan.node_type)
    node.plan, node.edges, node.saved, node.versions = plan, edges, saved, versions
    node.restore, node.hooks = restore, None
    node.sequence = _next_sequence()
    if SPECIAL.count and MODE.anomaly:
        node.metadata["traceback_"] = traceback.format_stack()[:-3]
    return node


def record_unary(operator: Any, y: Tensor, x: Tensor) -> None:
    """Records y = operator(x), when x requires grad."""
    if not MODE.grad or not requires(x):
        return
    plan = operator.plans.get(1) or operator.plan(1)
    sources = plan.sources
    if SPECIAL.count or len(sources) > 1:
        saved, versions = save(plan, (x,), y, None)
    elif not sources:
        saved = versions = ()
    elif sources[0][0] == INPUT:
        if x._stamp is INFERENCE:
            raise_inference()
        counter = x._counter
        saved, versions = (x,), (0 if counter is None else counter.value,)
    elif sources[0][0] == OUTPUT:
        saved, versions = (SavedOutput(y),), (0,)
    else:
        saved, versions = save(plan, (x,), y, None)
    restore = None
    if x._array.dtype is not y._array.dtype and x._array.dtype != y._array.dtype:
        restore = operator.restores((x,), y)
    y._node = new_node(plan, (x._node or x,), saved, versions, restore)
    y._requires_grad = y._tracked = True


def record_binary(operator: Any, y: Tensor, x: Tensor, other: Tensor) -> None:
    """Records y = operator(x, other), when either requires grad."""
    if not MODE.grad:
        return
    mask = 0
    if x._tracked and (x._requires_grad if x._base is None else requires(x)):
        mask = 1
    if other._tracked and (other._requires_grad if other._base is None else requires(other)):
        mask |= 2
    if not mask:
        return
    plan = operator.plans.get(mask) or operator.plan(mask)
    node = _new(plan.node_type)
    node.plan = plan
    if not plan.sources:
        node.saved = node.versions = ()
    elif SPECIAL.count:
        node.saved, node.versions = save(plan, (x, other), y, None)
    else:
        node.saved, node.versions = _save_binary(plan, x, other, y)
    a, b = x._array, other._array
    shape = a.shape
    node.restore = node.hooks = None
    if shape != b.shape or a.dtype is not b.dtype or shape != y._array.shape:
        restore = operator.restores((x, other), y)
        if restore is not None:
            node.restore = tuple([restore[i] for i in plan.inputs])
    if mask == 3:
        node.edges = (x._node or x, other._node or other)
    else:
        node.edges = (x._node or x,) if mask == 1 else (other._node or other,)
    node.sequence = _next_sequence()
    if SPECIAL.count and MODE.anomaly:
        node.metadata["traceback_"] = traceback.format_stack()[:-2]
    y._node = node
    y._requires_grad = y._tracked = True


def _save_binary(plan: Plan, x: Tensor, other: Tensor, y: Tensor) -> tuple[tuple, tuple]:
    saved: tuple = ()
    versions: tuple = ()
    for kind, position in plan.sources:
        if kind == INPUT:
            value = other if position else x
            counter = value._counter
            if value._stamp is INFERENCE:
                raise_inference()
            saved += (value,)
            versions += (0 if counter is None else counter.value,)
        elif kind == OUTPUT:
            saved += (SavedOutput(y),)
            versions += (0,)
        else:
            return save(plan, (x, other), y, None)
    return saved, versions


def record_number(operator: Any, y: Tensor, args: tuple, position: int) -> None:
    """Records y = operator(*args), two operands of which only the one at `position` is a tensor."""
    x = args[position]
    if not MODE.grad or not requires(x):
        return
    mask = 1 << position
    plan = operator.plans.get(mask) or operator.plan(mask)
    sources = plan.sources
    if not sources:
        saved = versions = ()
    elif SPECIAL.count or len(sources) > 1 or sources[0] != (INPUT, 1 - position):
        saved, versions = save(plan, args, y, None)
    else:
        saved, versions = (args[1 - position],), (None,)
    restore = None
    if x._array.dtype is not y._array.dtype or x._array.shape != y._array.shape:
        restore = operator.restores(args, y)
        restore = None if restore is None else (restore[position],)
    y._node = new_node(plan, (x._node or x,), saved, versions, restore)
    y._requires_grad = y._tracked = True


def record(operator: Any, result: Any, args: tuple) -> None:
    """Records result = operator(*args), args being all its parameters in order."""
    if not MODE.grad:
        return
    single = operator.single
    if single is not None and result.__class__ is Tensor:
        _record_single(operator, result, args, single)
        return
    positions = operator.tensor_positions
    if result.__class__ is Tensor and not operator.sequence_positions:
        _record_several(operator, result, args)
        return
    mask, edges, needed = 0, [], []
    for position in positions:
        value = args[position]
        if value is None:
            needed.append(False)
        elif isinstance(value, Tensor):
            if value._tracked and (
                value._requires_grad if value._base is None else requires(value)
            ):
                mask |= 1 << position
                edges.append(value._node or value)
                needed.append(True)
            else:
                needed.append(False)
        elif value.__class__ in (tuple, list):
            found = [isinstance(v, Tensor) and v._tracked and requires(v) for v in value]
            if any(found):
                mask |= 1 << position
                edges += [(v._node or v) if f else None for v, f in zip(value, found, strict=True)]
            needed.append(any(found))
        else:
            needed.append(False)
    if mask:
        _hang(operator, result, args, mask, tuple(edges), tuple(needed))


def _record_single(operator: Any, y: Tensor, args: tuple, position: int) -> None:
    """Records an operator of one tensor with one output."""
    x = args[position]
    kind = y._array.dtype
    if kind is not FLOAT32 and kind.kind not in "fcV":
        return  # integers and bools have no gradient
    if not (x._requires_grad if x._base is None else requires(x)):
        return
    mask = 1 << position
    plan = operator.plans.get(mask) or operator.plan(mask)
    node = _new(plan.node_type)
    if plan.plain:
        node.saved, node.versions = plan.pack(args), plan.unversioned
    else:
        node.saved, node.versions = save(plan, args, y, (True,))
    node.plan, node.edges = plan, (x._node or x,)
    node.restore = node.hooks = None
    if x._array.dtype is not kind and not plan.joint:
        restore = operator.restores(args, y)
        node.restore = None if restore is None else (restore[position],)
    node.sequence = _next_sequence()
    if SPECIAL.count and MODE.anomaly:
        node.metadata["traceback_"] = traceback.format_stack()[:-3]
    y._node = node
    y._requires_grad = y._tracked = True


def _record_several(operator: Any, y: Tensor, args: tuple) -> None:
    """Records an operator of several tensors with one output."""
    kind = y._array.dtype
    if kind is not FLOAT32 and kind.kind not in "fcV":
        return  # integers and bools have no gradient
    mask, alike = 0, not operator.pointwise
    edges: tuple = ()
    needed: tuple = ()
    for position in operator.tensor_positions:
        value = args[position]
        if not isinstance(value, Tensor):
            needed += (False,)
            alike = alike and value is None
            continue
        alike = alike and value._array.dtype is kind
        if value._tracked and (value._requires_grad if value._base is None else requires(value)):
            mask |= 1 << position
            edges += (value._node or value,)
            needed += (True,)
        else:
            needed += (False,)
    if not mask:
        return
    plan = operator.plans.get(mask) or operator.plan(mask)
    node = _new(plan.node_type)
    try:
        node.saved, node.versions = (save if SPECIAL.count else plan.keep)(plan, args, y, needed)
    except AttributeError:  # an input that is no tensor
        node.saved, node.versions = save(plan, args, y, needed)
    node.plan, node.edges = plan, edges
    node.restore = node.hooks = None
    if not alike and not plan.joint:
        restore = operator.restores(args, y)
        if restore is not None:
            node.restore = _spread(tuple([restore[i] for i in plan.inputs]), plan, args)
    node.sequence = _next_sequence()
    if SPECIAL.count and MODE.anomaly:
        node.metadata["traceback_"] = traceback.format_stack()[:-3]
    y._node = node
    y._requires_grad = y._tracked = True


def _hang(operator: Any, result: Any, args: tuple, mask: int, edges: tuple, needed: tuple) -> None:
    several = result.__class__ is not Tensor
    if not several and result._array.dtype.kind not in "fcV":
        return  # integers and bools have no gradient
    plan = operator.plans.get(mask) or operator.plan(mask)
    saved, versions = save(plan, args, result, needed)
    first = result[0] if several else result
    restore = None
    if not plan.joint and (operator.pointwise or not _of_one_dtype(operator, args, first)):
        restore = operator.restores(args, first)
    if restore is not None:
        restore = _spread(tuple(restore[i] for i in plan.inputs), plan, args)
    node = new_node(plan, edges, saved, versions, restore)
    if not several:
        result._node = node
        result._requires_grad = result._tracked = True
        return
    node.outputs = len(result)
    for i, y in enumerate(result):
        if y is not None and y._array.dtype.kind in "fcV" and i not in operator.constant_outputs:
            y._node = Output(node, i)
            y._requires_grad = y._tracked = True


def _of_one_dtype(operator: Any, args: tuple, first: Tensor) -> bool:
    kind = first._array.dtype
    for i in operator.tensor_positions:
        value = args[i]
        if value is not None and (not isinstance(value, Tensor) or value._array.dtype is not kind):
            return False
    return True


def _spread(restore: tuple, plan: Plan, args: tuple) -> tuple:
    flat: list[Any] = []
    for kept, position in zip(restore, plan.inputs, strict=True):
        if args[position].__class__ in (tuple, list):
            flat.extend(kept or [None] * len(args[position]))
        else:
            flat.append(kept)
    return tuple(flat)


def save(plan: Plan, args: tuple, result: Any, needed: Any) -> tuple[tuple, tuple]:
    """The values that the plan's vjps read, and the versions of those that are tensors."""
    saved, versions = [], []
    special = SPECIAL.count
    for kind, position in plan.sources:
        if kind == ATTRIBUTE:
            value, version = args[position], None
        elif kind == INPUT:
            value = args[position]
            if special or not isinstance(value, Tensor) or value._stamp is INFERENCE:
                value, version = _keep(value)
            else:
                counter = value._counter
                version = 0 if counter is None else counter.value
        elif kind == OUTPUT:
            value, version = _keep_output(result)
        elif kind == SHAPE:
            value, version = _shapes(args[position]), None
        elif kind == DTYPE:
            value, version = args[position].dtype, None
        else:
            value, version = needed, None
        saved.append(value)
        versions.append(version)
    return tuple(saved), tuple(versions)


def _shapes(value: Any) -> Any:
    if value.__class__ in (tuple, list):
        return tuple(v._array.shape for v in value)
    return None if value is None else value._array.shape


def _keep(value: Any) -> tuple[Any, Any]:
    if value is None or isinstance(value, (float, int, complex)):
        return value, None
    if value.__class__ in (tuple, list):
        pairs = [_keep(v) for v in value]
        return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    if MODE.saved_hooks:
        return pack(value), 0
    if not isinstance(value, Tensor):
        return value, None  # a Python number
    if value._stamp is INFERENCE:
        raise_inference()
    counter = value._counter
    return value, (0 if counter is None else counter.value)


def raise_inference() -> None:
    """What PyTorch says when a tensor made in inference mode meets autograd."""
    raise RuntimeError(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
        "inference mode in computation tracked by autograd. To work around this, you can make a "
        "clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
        "`torch.inference_mode()`."
    )


def _keep_output(result: Any) -> tuple[Any, Any]:
    if result.__class__ is Tensor:
        if MODE.saved_hooks:
            return pack(result._alias()), 0
        return SavedOutput(result), 0
    return tuple(SavedOutput(y, i) for i, y in enumerate(result)), (0,) * len(result)


def pack(value: Tensor) -> PackedTensor:
    pack, unpack = MODE.saved_hooks[-1]
    with_grad, MODE.grad = MODE.grad, False
    try:
        return PackedTensor(pack(value), unpack)
    finally:
        MODE.grad = with_grad
