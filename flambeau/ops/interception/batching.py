"""Batching: run operators on all examples of a vmap at once.

While a vmap runs, operators have stubs. A call with an example argument computes on the tensors
below, which hold all examples (`batching_rules.py`), and returns an example, recorded on the tape
inside the vmap. The computation below passes through the same stubs, which handle nested vmaps and
the outer tape. A program without vmap pays no overhead.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any, NoReturn

from ...autograd import inplace
from ...autograd.inplace import check_writable
from ...autograd.mode import MODE, transforming
from ...autograd.tangents import LEVELS
from ...autograd.tape import record, requires
from ...native.foundation.method_patches import library_attributes
from ...tensor.dtypes import FROM_NUMPY
from ...tensor.promotion import check_cast
from ...tensor.storage import get_version
from ...tensor.tensor import Tensor, view_of
from ...tensor.tree import collect_leaves, get_leaves, map_leaves_of
from ...tensor.windows.batch import Batch, find_innermost_batch
from ...tensor.windows.batched_window import BatchedWindow, ExampleRead
from ..core import inplace as core_inplace
from ..core.dispatch import find_pointwise_operator
from ..core.operator import OPERATORS, PUBLIC, Kind, Operator
from . import batching_rules, forward_mode, operator_arguments
from .batched_loops import loop, loop_recorded
from .lingering_stubs import LingeringStubs
from .tangent_rules import call_with


class _State(threading.local):
    """This thread's batches, innermost last."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []


STATE = _State()


@contextmanager
def batch_of(size: int, randomness: str, refusal: str) -> Iterator[Batch]:
    """Context of a vmap over `size` examples; yields its batch."""
    batch = Batch(size, randomness, refusal, LEVELS.active[-1] if LEVELS.active else -1,
                  MODE.transforms + 1)
    _stubs.turn(True)
    STATE.batches.append(batch)
    try:
        with transforming():
            yield batch
    finally:
        STATE.batches.remove(batch)
        _stubs.turn(False)


def detach_inside(x: Tensor) -> Tensor | None:
    """Return `x` without its history inside the innermost vmap, keeping the history outside it.

    None outside of vmap.
    """
    if not STATE.batches:
        return None
    batch, window = STATE.batches[-1], _find_window(x)
    if window is None or window.batch is not batch:
        return batch.share(x)
    return batch.wrap(window.below, window.is_shared)


def is_inside(x: Tensor) -> bool:
    """Return whether `x` is an example of the innermost vmap."""
    window = _find_window(x)
    return window is not None and window.batch is STATE.batches[-1]


def leave(x: Any) -> Any:
    """Return what is left of `x` outside of the innermost vmap: its first example."""
    window = _find_window(x) if isinstance(x, Tensor) else None
    if window is None or window.batch is not STATE.batches[-1]:
        return x
    return window.below if window.is_shared else window.below[0]


def with_below(x: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor | None:
    """Return an example without history on change(tensor below); None if `x` is not an example."""
    window = _find_window(x)
    return None if window is None else window.batch.wrap(change(window.below), window.is_shared)


def _find_window(x: Tensor) -> Any:
    window: Any = x._array
    return window if window.__class__ is BatchedWindow else None


# -------------------------------------------------------------------------------- operators


def _call(
    operator: Operator, reflected: bool, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    batch = find_innermost_batch(args) if not kwargs else find_innermost_batch((*args,
                                                                                *kwargs.values()))
    if batch is None:
        _stubs.count_idle_call()
        return original(*args, **kwargs)
    if _has_tangents(args, kwargs):
        below = functools.partial(_call_again, operator, reflected, original)
        return forward_mode.push(operator, reflected, below, args, kwargs)
    if kwargs.get("out") is not None:
        raise RuntimeError(f"vmap: {operator.name.strip('_')} with out= writes in place, which is "
                           "not possible inside of vmap")
    args = operator_arguments.gather_arguments(operator, args, kwargs)
    values = operator_arguments.bind_arguments(operator, args, kwargs, reflected)
    is_shared = not batch.holds_any(values)
    if not is_shared and operator.written_positions and not all(
        batch.holds(values[p]) for p in operator.written_positions
    ):
        raise ExampleRead(f"vmap: {operator.name} writes into what all examples share")
    if is_shared:
        result = call_with(operator, batch.lower_all(values))
    else:
        result = batching_rules.compute(operator, batch, batch.lower_shared(values))
        if result is NotImplemented:
            result = loop(functools.partial(call_with, operator), batch, (values,), operator.name)
    example = as_example(batch, result, values[0] if operator.kind is Kind.VIEW else None,
                         is_shared)
    if MODE.grad and operator.differentiable and _requires(batch, values):
        shared = map_leaves_of(Tensor, functools.partial(_share, batch), tuple(values))
        record(operator, example, shared)
    return example


def _call_again(
    operator: Operator, reflected: bool, original: Callable, *args: Any, **kwargs: Any
) -> Any:
    return _call(operator, reflected, original, args, kwargs)


def _has_tangents(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Return whether an argument carries a tangent that forward mode must handle first."""
    return bool(LEVELS.active) and LEVELS.enabled \
        and forward_mode.find_call_level((*args, *kwargs.values())) is not None


def as_example(batch: Batch, result: Any, source: Any = None, is_shared: bool = False) -> Any:
    """Wrap results for all examples as those of one, as views of `source` if that is an example."""
    if isinstance(result, Tensor):
        if source is None or find_innermost_batch((source,)) is not batch:
            return batch.wrap(result, is_shared)
        window: Any = BatchedWindow(batch, result, is_shared)
        return view_of(source, window)
    if result is None:
        return None
    parts = [as_example(batch, y, source, is_shared) for y in result]
    return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)


def _requires(batch: Batch, values: Sequence[Any]) -> bool:
    """Return whether any example of the batch requires grad on the tape inside the vmap."""
    for x in collect_leaves(Tensor, values):
        window: Any = x._array
        if x._tracked and window.__class__ is BatchedWindow and window.batch is batch \
                and requires(x):
            return True
    return False


def _share(batch: Batch, x: Tensor) -> Tensor:
    """Wrap an outer tensor that requires grad for the vmap, keeping its history outside."""
    if x._tracked and requires(x) and find_innermost_batch((x,)) is not batch:
        return batch.share(x)
    return x


def _run_composite(
    name: str, function: Any, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """Run a composite function; if it reads elements, loop over examples instead."""
    if not STATE.batches:  # between vmaps: nested data is not searched, however long or circular
        _stubs.count_idle_call()
        return original(*args, **kwargs)
    batch = find_innermost_batch(args) if not kwargs else find_innermost_batch((*args,
                                                                                *kwargs.values()))
    if batch is None:
        return original(*args, **kwargs)
    rule = getattr(getattr(function, "operator", None), "batch", None)
    if rule is not None:
        return rule(batch, *args, **kwargs)
    tensors = [x for x in get_leaves((args, kwargs)) if isinstance(x, Tensor)]
    versions = [get_version(x) for x in tensors]
    try:
        return original(*args, **kwargs)
    except ExampleRead as read:
        if name.endswith("_") and not batch.holds(tensors[0]):
            refuse_write()
        if versions != [get_version(x) for x in tensors]:
            raise NotImplementedError(
                f"vmap: {name} writes into its arguments before it reads elements"
            ) from read
        return loop_recorded(lambda args, kwargs: original(*args, **kwargs), batch,
                             (args, kwargs), name)


# ------------------------------------------------------------------------------ writes in place


def refuse_write(name: str = "arithmetic") -> NoReturn:
    """Raise ExampleRead for a write of examples into a tensor that they share.

    An enclosing composite that owns the tensor then loops over examples.
    """
    raise ExampleRead(
        f"vmap: inplace {name}(self, *extra_args) is not possible because there exists a Tensor "
        "`other` in extra_args that has more elements than `self`. This happened due to `other` "
        "being vmapped over but `self` not being vmapped over in a vmap. Please try to use "
        "out-of-place operators instead of inplace "
        f"{name}. If said operator is being called "
        "inside the PyTorch framework, please file a bug report instead."
    )


def _call_in_place(
    operator: Operator, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    batch = find_innermost_batch((*args, *kwargs.values()))
    if batch is None:
        return original(*args, **kwargs)
    if _has_tangents(args, kwargs):
        below = functools.partial(_call_in_place_again, operator, original)
        return forward_mode.push_in_place(operator, below, args, kwargs)
    target, rest = args[0], args[1:]
    if not batch.holds(target):
        refuse_write()
    old = _copy_old_value(target) if MODE.grad else target
    y = operator.function(old, *rest, **kwargs)
    return write(target, y, operator.name)


def _call_in_place_again(
    operator: Operator, original: Callable, *args: Any, **kwargs: Any
) -> Any:
    return _call_in_place(operator, original, args, kwargs)


def _copy_old_value(target: Tensor, name: str = "") -> Tensor:
    """Return a copy of a write target's old value, with its history."""
    check_writable(target, name)
    window: Any = target._array
    old = window.batch.wrap(window.below.clone(), window.is_shared)
    old._node, old._requires_grad = target._history(), target._requires_grad
    old._tracked = target._requires_grad
    return old


def write(target: Tensor, y: Tensor, name: str) -> Tensor:
    """Write results into the tensor below `target`, for all examples; return `target`."""
    window: Any = target._array
    batch, array = window.batch, y._array
    if array.shape != window.shape:
        raise RuntimeError(
            f"output with shape {list(window.shape)} doesn't match the broadcast shape "
            f"{list(array.shape)}"
        )
    if array.dtype != window.dtype:
        check_cast(FROM_NUMPY[array.dtype], target.dtype)
    if not batch.holds(target) and batch.holds(y):
        refuse_write()
    _write_below(batch, window.below, y)
    inplace.bump(target)
    if y._node is not None and find_innermost_batch((y,)) is batch:
        inplace.rebase(target, y._node)
    return target


def _write_below(batch: Batch, below: Tensor, y: Tensor) -> None:
    source = batch.lower(y)
    if source._array.dtype.kind == "c" and below._array.dtype.kind != "c":
        source = source.real
    below.copy_(source)


def _copy(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Handle copy_, fill_ and zero_: write the value in the target's shape and dtype."""
    batch = find_innermost_batch(args)
    if batch is None:
        return original(*args, **kwargs)
    target = args[0]
    value = args[1] if len(args) > 1 else next(iter(kwargs.values()), 0)
    if _has_tangents(args, kwargs):
        pushed = forward_mode.WRITES["copy_" if isinstance(value, Tensor) else "fill_"]
        return pushed(functools.partial(_copy_again, original), args, kwargs)
    if not batch.holds(target):
        if batch.holds(value):
            refuse_write()
        return original(*args, **kwargs) if find_innermost_batch((target,)) is None else \
            write(target, _overwrite(target, value), "copy_")
    return write(target, _overwrite(target, value), "copy_")


def _copy_again(original: Callable, *args: Any, **kwargs: Any) -> Any:
    return _copy(original, args, kwargs)


def _overwrite(target: Tensor, value: Any) -> Tensor:
    """Return the value of `target` after a copy."""
    if not isinstance(value, Tensor):
        value = PUBLIC["torch"]["full"]((), value, dtype=target.dtype)
    old = _copy_old_value(target) if MODE.grad and target._tracked and requires(target) else target
    return OPERATORS["_overwrite"].function(old, value)


def _prepare_write(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    x = args[0]
    return _copy_old_value(x) if x._array.__class__ is BatchedWindow else original(*args, **kwargs)


def _assign(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Assign a composite's result to its first argument."""
    target, y, name = args
    if find_innermost_batch((target, y)) is None:
        return original(*args, **kwargs)
    if target._array.__class__ is not BatchedWindow:
        refuse_write()
    check_writable(target, name)
    return write(target, y, name)


# ------------------------------------------------------------------------- element reads


def _refuse_read(message: str) -> Callable:
    """Return a handler that raises ExampleRead for batched tensors."""
    def handle(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        if find_innermost_batch(args) is None:
            return original(*args, **kwargs)
        raise ExampleRead(message)

    return handle


_refuse_item = _refuse_read(
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over "
    "calling .item() on a Tensor, please try to rewrite what you're doing with other "
    "operations. If error is occurring somewhere inside PyTorch internals, please file a bug "
    "report.")
_refuse_truth = _refuse_read(
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
    "flow. We don't support that yet, please file an issue at "
    "https://github.com/pytorch/pytorch/issues .")
_refuse_memory = _refuse_read(
    "Cannot access data pointer of Tensor that doesn't have storage")


def _refuse_shape(
    name: str, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """Reject a function whose result shape depends on values."""
    if find_innermost_batch((*args, *kwargs.values())) is None:
        return original(*args, **kwargs)
    raise RuntimeError(
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to "
        f"vmap over aten::{name}. Please file an issue at "
        "https://github.com/pytorch/pytorch/issues if you need this feature."
    )


def _refuse_answer(
    name: str, original: Callable, args: tuple, kwargs: dict[str, Any]
) -> Any:
    """Reject a function that returns a Python value computed from elements."""
    if find_innermost_batch((*args, *kwargs.values())) is None:
        return original(*args, **kwargs)
    raise RuntimeError(
        f"vmap over torch.{name} isn't supported yet. Please file an issue at "
        "https://github.com/pytorch/pytorch/issues if you need this feature."
    )


def _detach(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    x = args[0]
    batch = find_innermost_batch((x,))
    if batch is None:
        return original(*args, **kwargs)
    window: Any = x._array
    return batch.wrap(window.below.detach(), window.is_shared)


# ------------------------------------------------------------------------------------ targets


def _call_operator(name: str, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Call the operator of a method with a fast path."""
    if find_innermost_batch(args) is None:
        return original(*args, **kwargs)
    return forward_mode.SHORT_CUTS[name](original, args, kwargs, True)


def _find_targets() -> list[tuple[Any, Callable]]:
    """Return the functions to intercept, with their stubs.

    These are operators, their in-place twins and Python operators, and composites of them.
    """
    result: dict[Any, Callable] = {}
    for operator in OPERATORS.values():
        if operator.kind is Kind.COMPOSITE:
            continue
        result[operator.function] = functools.partial(_call, operator, False)
        twin = getattr(operator, "twin", None)
        if twin is not None:
            result[twin] = functools.partial(_call_in_place, operator)
    methods = library_attributes(Tensor)
    for name, function in methods.items():
        if isinstance(function, FunctionType) and function not in result:
            if (pointwise := find_pointwise_operator(function)) is not None:
                result[function] = functools.partial(_call, *pointwise)
            elif name in forward_mode.SHORT_CUTS:
                result[function] = functools.partial(_call_operator, name)
    for name in ("copy_", "fill_", "zero_"):
        result[PUBLIC["Tensor"].get(name) or methods[name]] = _copy
    result[inplace.prepare_write], result[core_inplace.assign] = _prepare_write, _assign
    result[methods["detach"]] = _detach
    result |= dict.fromkeys([methods[n] for n in ("item", "__float__", "__int__", "__complex__",
                                                  "__index__")], _refuse_item)
    result |= dict.fromkeys([methods[n] for n in ("tolist", "numpy", "__array__")], _refuse_memory)
    result[methods["__bool__"]] = _refuse_truth
    for find in OTHER_TARGETS:
        result |= find()
    for names in (*PUBLIC.values(), methods):
        for name, function in names.items():
            if isinstance(function, FunctionType) and function not in result \
                    and not name.startswith("__") and name not in _NEVER:
                handle: Callable = functools.partial(_run_composite, name, function)
                if getattr(function, "shape_depends_on_values", False):
                    handle = functools.partial(_refuse_shape, name)
                elif getattr(function, "answers_from_values", False):
                    handle = functools.partial(_refuse_answer, name)
                result[function] = handle
    return list(result.items())


# Further targets, registered by modules that import this one.
OTHER_TARGETS: list[Callable[[], dict[Any, Callable]]] = []
# Frequent functions that only read a shape, strides or dtype: not intercepted.
_NEVER = frozenset("size dim numel stride is_floating_point is_complex is_contiguous".split())

_stubs = LingeringStubs(_find_targets)
