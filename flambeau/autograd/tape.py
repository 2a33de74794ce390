"""The tape: records operators while they run.

An operator passes its result and arguments; `record` attaches a node to the result if an input
requires grad. The tape knows no operator by name: a node's plan says what to save. These functions
run at every operator in training, so the common calls have specialized versions.
"""

from __future__ import annotations

import itertools
import traceback
from typing import Any

from ..tensor.dtypes import FLOAT32
from ..tensor.layout import suggest_format
from ..tensor.storage import get_version
from ..tensor.tensor import INFERENCE, Tensor
from .errors.graph_errors import raise_inference
from .mode import MODE, SPECIAL
from .outputs import Output
from .saved.plan import ATTRIBUTE, DTYPE, FORMAT, INPUT, OUTPUT, SHAPE, N, Plan, list_shapes
from .saved.values import PackedTensor, SavedOutput, pack_tensor

next_sequence = itertools.count(1).__next__
_new = object.__new__


def requires(x: Tensor) -> bool:
    """Return whether a tracked tensor requires grad, after updating a stale view."""
    base = x._base
    if base is not None and base._node is not x._stamp:
        x._reattach()
    return x._requires_grad


def create_node(
    plan: Plan[N], edges: tuple, saved: tuple, versions: tuple, restore: Any, args: tuple = (),
) -> N:
    """Create a node with all fields set. `args`: the call's, which choose among overloads."""
    node = _new(plan.node_type if plan.choose_node is None else plan.choose_node(args))
    node.plan, node.edges, node.saved, node.versions = plan, edges, saved, versions
    node.restore, node.hooks = restore, None
    node.sequence = next_sequence()
    if SPECIAL.count and MODE.anomaly:
        node.metadata["traceback_"] = traceback.format_stack()[:-3]
    return node


def record_unary(operator: Any, y: Tensor, x: Tensor) -> None:
    """Record y = operator(x) if x requires grad."""
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
    y._node = create_node(plan, (x._node or x,), saved, versions, restore, (x,))
    y._requires_grad = y._tracked = True


def record_binary(operator: Any, y: Tensor, x: Tensor, other: Tensor) -> None:
    """Record y = operator(x, other) if either requires grad."""
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
    node = _new(plan.node_type if plan.choose_node is None else plan.choose_node((x, other)))
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
    node.sequence = next_sequence()
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
    """Record y = operator(*args): two operands, of which only the one at `position` is a tensor."""
    x = args[position]
    if not MODE.grad or not requires(x):
        return
    mask = 1 << position
    plan = operator.plans.get(mask) or operator.plan(mask)
    sources = plan.sources
    saved: tuple
    versions: tuple
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
    y._node = create_node(plan, (x._node or x,), saved, versions, restore, args)
    y._requires_grad = y._tracked = True


def record(operator: Any, result: Any, args: tuple) -> None:
    """Record result = operator(*args), where args are all its parameters in order."""
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
            matches = [isinstance(v, Tensor) and v._tracked and requires(v) for v in value]
            if any(matches):
                mask |= 1 << position
                edges += [
                    (v._node or v) if f else None for v, f in zip(value, matches, strict=True)
                ]
            needed.append(any(matches))
        else:
            needed.append(False)
    if mask:
        _attach_results(operator, result, args, mask, tuple(edges), tuple(needed))


def _record_single(operator: Any, y: Tensor, args: tuple, position: int) -> None:
    """Record an operator of one tensor with one output."""
    x = args[position]
    kind = y._array.dtype
    if kind is not FLOAT32 and kind.kind not in "fcV":
        return  # integers and bools have no gradient
    if not (x._requires_grad if x._base is None else requires(x)):
        return
    mask = 1 << position
    plan = operator.plans.get(mask) or operator.plan(mask)
    node = _new(plan.node_type if plan.choose_node is None else plan.choose_node(args))
    if plan.plain:
        node.saved, node.versions = plan.pack(args), plan.unversioned
    else:
        node.saved, node.versions = (save if SPECIAL.count else plan.keep)(plan, args, y, (True,))
    node.plan, node.edges = plan, (x._node or x,)
    node.restore = node.hooks = None
    if x._array.dtype is not kind and not plan.joint:
        restore = operator.restores(args, y)
        node.restore = None if restore is None else (restore[position],)
    node.sequence = next_sequence()
    if SPECIAL.count and MODE.anomaly:
        node.metadata["traceback_"] = traceback.format_stack()[:-3]
    y._node = node
    y._requires_grad = y._tracked = True


def _record_several(operator: Any, y: Tensor, args: tuple) -> None:
    """Record an operator of several tensors with one output."""
    kind = y._array.dtype
    if kind is not FLOAT32 and kind.kind not in "fcV":
        return  # integers and bools have no gradient
    mask, alike = 0, True  # whether cotangents have the shapes and dtypes of their inputs
    shape = y._array.shape if operator.pointwise else None
    edges: tuple = ()
    needed: tuple = ()
    for position in operator.tensor_positions:
        value = args[position]
        if isinstance(value, Tensor) and value._tracked and (
                value._requires_grad if value._base is None else requires(value)):
            mask |= 1 << position
            edges += (value._node or value,)
            needed += (True,)
            a = value._array
            alike = alike and a.dtype is kind and (shape is None or a.shape == shape)
        else:
            needed += (False,)
    if not mask:
        return
    plan = operator.plans.get(mask) or operator.plan(mask)
    node = _new(plan.node_type if plan.choose_node is None else plan.choose_node(args))
    try:
        node.saved, node.versions = (save if SPECIAL.count else plan.keep)(plan, args, y, needed)
    except AttributeError:  # an input is not a tensor
        node.saved, node.versions = save(plan, args, y, needed)
    node.plan, node.edges = plan, edges
    node.restore = node.hooks = None
    if not alike and not plan.joint:
        restore = operator.restores(args, y)
        if restore is not None:
            node.restore = _spread(tuple([restore[i] for i in plan.inputs]), plan, args)
    node.sequence = next_sequence()
    if SPECIAL.count and MODE.anomaly:
        node.metadata["traceback_"] = traceback.format_stack()[:-3]
    y._node = node
    y._requires_grad = y._tracked = True


def _attach_results(
    operator: Any, result: Any, args: tuple, mask: int, edges: tuple, needed: tuple
) -> None:
    several = not isinstance(result, Tensor)
    if not several and result._array.dtype.kind not in "fcV":
        return  # integers and bools have no gradient
    if several and not result:  # an empty tensor in no parts
        return
    plan = operator.plans.get(mask) or operator.plan(mask)
    try:
        saved, versions = (save if SPECIAL.count else plan.keep)(plan, args, result, needed)
    except AttributeError:  # an input is not a tensor
        saved, versions = save(plan, args, result, needed)
    first = result[0] if several else result
    restore = None
    if not plan.joint and (operator.pointwise or not _has_one_dtype(plan, args, first)):
        restore = operator.restores(args, first)
    if restore is not None:
        restore = _spread(tuple(restore[i] for i in plan.inputs), plan, args)
    node = create_node(plan, edges, saved, versions, restore, args)
    if not several:
        result._node = node
        result._requires_grad = result._tracked = True
        return
    node.outputs = len(result)
    for i, y in enumerate(result):
        if y is not None and y._array.dtype.kind in "fcV" and i not in operator.constant_outputs:
            y._node = Output(node, i)
            y._requires_grad = y._tracked = True


def _has_one_dtype(plan: Plan, args: tuple, first: Tensor) -> bool:
    """Whether the inputs that get a gradient have the result's dtype."""
    kind = first._array.dtype
    for i in plan.inputs:
        value = args[i]
        for x in value if value.__class__ in (tuple, list) else (value,):
            if x is not None and (not isinstance(x, Tensor) or x._array.dtype is not kind):
                return False
    return True


def _spread(restore: tuple, plan: Plan, args: tuple) -> tuple:
    flat: list[Any] = []
    for retained, position in zip(restore, plan.inputs, strict=True):
        if args[position].__class__ in (tuple, list):
            flat.extend(retained or [None] * len(args[position]))
        else:
            flat.append(retained)
    return tuple(flat)


def save(plan: Plan, args: tuple, result: Any, needed: Any) -> tuple[tuple, tuple]:
    """Return the values that the plan's vjps read, and their versions (None for non-tensors)."""
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
            value, version = list_shapes(args[position]), None
        elif kind == DTYPE:
            value, version = args[position].dtype, None
        elif kind == FORMAT:
            value, version = suggest_format(args[position]._array), None
        else:
            value, version = needed, None
        saved.append(value)
        versions.append(version)
    return tuple(saved), tuple(versions)


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


def _keep_output(result: Any) -> tuple[Any, Any]:
    if result.__class__ is Tensor:
        if MODE.saved_hooks:
            return pack(result._alias(), is_output=True), 0
        return SavedOutput(result), 0
    if isinstance(result, Tensor):  # a subclass can't be rebuilt from its array alone
        return result, get_version(result)
    return tuple(SavedOutput(y, i) for i, y in enumerate(result)), (0,) * len(result)


def pack(value: Tensor, is_output: bool = False) -> PackedTensor:
    """Pack a tensor with the innermost pair of saved-tensor hooks."""
    pack, unpack = MODE.saved_hooks[-1]
    return pack_tensor(value, pack, unpack, is_output)
