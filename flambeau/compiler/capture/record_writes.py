"""Recorders for non-operator functions that write memory: gradient accumulation, the tape's copies,
in-place writes and factories.

record_draws_and_reads.py has random draws and host reads, record_library.py the rest. Each recorder
records what the original does, or performs it with operators.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np

from ... import ops
from ...autograd import engine, inplace, no_grad, views
from ...native.runtime.frameless_call import DIRECT
from ...nn.module import Module
from ...ops.core import inplace as in_place
from ...ops.core import out
from ...ops.core.operator import DERIVATIVES
from ...ops.creation import copies, interchange
from ...ops.creation.factories import FACTORIES, Contents
from ...ops.indexing import index, value_shapes
from ...ops.interception.code_patching import FOLLOWING_STUB_FILE, STUB_FILE
from ...ops.normalization import norm_formulas
from ...tensor import tensor as tensors
from ...tensor.capture_marks import SHAPE_ONLY
from ...tensor.determinism import should_fill
from ...tensor.layout import find_owner
from ...tensor.overlap import check_put, has_internal_overlap
from ...tensor.tensor import Tensor
from ..ir.reasons import Advice, Reason
from ..trace.operands import collect_tensors
from ..trace.trace import WINDOW, WRITE, GradAccess
from .escapes import walk
from .record_draws_and_reads import (
    draws, iterate_host_reads, iterate_schedules, pass_through_unless_on,
)
from .record_library import list_replacements
from .recorder import Recorder, make_module_recorder, note_host_read

Pairs = Iterator[tuple[Any, Callable]]
# Calls of compiled functions, which recorded steps inline; the driver registers them here.
CALLED_THROUGH: list[Callable] = []


def bypasses(r: Recorder) -> Pairs:
    """Yield (function, recorder) for each function that bypasses the operators."""
    yield from _writes(r)
    yield from _patch_factories(r)
    yield from _patch_gradients(r)
    yield from draws(r)
    yield from iterate_host_reads(r)
    yield from iterate_schedules(r)
    for function, replacement in list_replacements(r):
        yield function, pass_through_unless_on(r, lambda _, *args, replacement=replacement,
                                               **kwargs: replacement(
            *args, **kwargs))
    yield Module.__call__, make_module_recorder(r)
    yield Module._call_impl, make_module_recorder(r)
    for function in CALLED_THROUGH:
        yield function, pass_through_unless_on(r, _call_directly)


def _call_directly(r: Recorder, original: Callable, *args: Any) -> Any:
    """Inline a compiled function that is called inside a recorded step."""
    return DIRECT


# -------------------------------------------------------------------------------- writes


def _record_write(r: Recorder, original: Callable, target: Any, y: Any, name: Any) -> Any:
    if not _can_defer_write(r, target._array, y):
        original(target, y, name)
    r.write(target._array, y)


def _can_defer_write(r: Recorder, target: np.ndarray, source: np.ndarray) -> bool:
    """Whether a write can be deferred: same shape and dtype, no overlap."""
    if r.deferred is None:
        return False
    if target.shape == source.shape and target.dtype == source.dtype and 0 not in target.strides:
        return True
    r.compute()
    return False


def _write_into(
    r: Recorder, original: Callable, target: Any, result: np.ndarray, warns: bool = True
) -> None:
    r.compute()
    r.refer(target)  # refer to its memory before the write
    original(target, result, warns)
    r.write(target._array, result)


def copy_array(r: Recorder, original: Callable, target: Any, source: Any) -> Any:
    if _can_defer_write(r, target._array, source._array):
        copies.check_copy(target._array, source._array)
    else:
        original(target, source)
    r.write(target._array, source._array)


def _record_copy_before_write(r: Recorder, original: Callable, x: Any, keep: Any) -> Any:
    r.refer(x)
    result = original(x, keep)
    if keep:
        r.write(result._array, x._array)
    return result


def _fill_(r: Recorder, original: Callable, input: Any, value: Any) -> Any:
    source = value
    r.compute()
    if not isinstance(value, Tensor):
        with r.silence():
            source = ops.full((), value, dtype=input.dtype)
        r.constant(source._array, original)
    r.refer((input, source))
    before = len(r.trace.events)
    result = original(input, source)
    if not any(e.kind == WRITE for e in r.trace.events[before:]):
        r.write(input._array, source._array)
    return result


def _record_zero_(r: Recorder, original: Callable, input: Any) -> Any:
    return ops.fill_(input, 0)


def _put_at(
    r: Recorder, original: Callable, self: Any, values: Any, where: Any, accumulate: Any, name: Any
) -> Any:
    if inplace.check_writable(self, name) or (values._tracked and values.requires_grad):
        return original(self, values, where, accumulate, name)
    if has_internal_overlap(self._array):
        r.problem("it writes at positions of an expanded tensor")
        return original(self, values, where, accumulate, name)
    check_put(self._array, values._array, where)
    with no_grad():
        y = index.put_at_positions(self, values, where, accumulate)
    in_place.write(self, y._array, name)
    inplace.bump(self)
    return self


def _record_setitem(r: Recorder, original: Callable, self: Any, item: Any, value: Any) -> Any:
    source = index.as_value(self, value)
    basic, rest = index.split_index(self, item)
    target = self if basic is None or index.selects_whole(basic, rest) else index.view_basic(
        self, basic
    )
    if rest is not None:
        if value is source:
            index.check_dtypes(self, source, rest)
        values = index.cast_like(value_shapes.drop_leading_ones(source), target)
        index.put_at(target, values, rest, False, "index_put_")
        return
    if not value_shapes.is_broadcastable(source, target):
        original(self, item, value)  # raises eager mode's error
    if source._array.shape == target._array.shape:
        target.copy_(source)
        return
    values = value_shapes.drop_leading_axes(source, target)
    # A broadcast value may lie in the target.
    overlaps = np.may_share_memory(values._array, target._array)
    target.copy_(values.clone() if overlaps else values)


def as_value(r: Recorder, original: Callable, self: Any, value: Any) -> Any:
    with r.silence():
        result = original(self, value)
    if not isinstance(value, (Tensor, np.ndarray)):
        r.constant(result._array, original)
    return result


def as_index(r: Recorder, original: Callable, item: Any) -> Any:
    if isinstance(item, Tensor) and item._array.size == 1:
        r.compute()
    result = original(item)
    if isinstance(item, Tensor) and isinstance(result, int):
        r.problem(Reason("Python reads a tensor of one element that is used as an index",
                         Advice.READ_OUTSIDE))
    elif isinstance(item, (list, tuple, range, bool)) and isinstance(result, np.ndarray):
        r.constant(result, original)
    return result


def _writes(r: Recorder) -> Pairs:
    yield in_place.write, pass_through_unless_on(r, _record_write)
    yield out.write_into, pass_through_unless_on(r, _write_into)
    yield copies.copy_array, pass_through_unless_on(r, copy_array)
    yield inplace.prepare_write, pass_through_unless_on(r, _record_copy_before_write)
    yield ops.fill_, pass_through_unless_on(r, _fill_)
    yield ops.zero_, pass_through_unless_on(r, _record_zero_)
    yield index.put_at, pass_through_unless_on(r, _put_at)
    yield index.setitem, pass_through_unless_on(r, _record_setitem)
    yield index.as_value, pass_through_unless_on(r, as_value)
    yield index.as_index, pass_through_unless_on(r, as_index)


# ----------------------------------------------------------------------------- factories


def reads_numbers(factory: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether a factory reads tensors: as an extent, a bound, a fill value."""
    named = [x for key, x in kwargs.items() if key not in ("out", factory.template)]
    first = 0 if factory.template is None else 1
    return bool(collect_tensors((args[first:], named)))


def _note_numbers(r: Recorder, factory: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
    if reads_numbers(factory, args, kwargs):
        r.compute()
        note_host_read(r, factory.__name__)


def _record_factory(r: Recorder, original: Callable, *args: Any, **kwargs: Any) -> Any:
    target = kwargs.get("out")
    _note_numbers(r, original, args, kwargs)
    with r.silence():
        result = original(*args, **kwargs)
    if target is not None:
        r.problem("out= of a factory is not captured")
    elif type(result._array) is np.ndarray:
        r.constant(result._array, original)
    return result


def record_reserved(r: Recorder, original: Callable, *args: Any, **kwargs: Any) -> Any:
    _note_numbers(r, original, args, kwargs)
    with r.silence():
        result = original(*args, **kwargs)
    if type(result._array) is np.ndarray:
        (r.constant if should_fill() else r.empty)(result._array, original)
    return result


def _record_tensor(r: Recorder, original: Callable, *args: Any, **kwargs: Any) -> Any:
    data = kwargs["data"] if "data" in kwargs else args[-1]
    if not isinstance(data, Tensor) and collect_tensors(data):
        r.compute()
        note_host_read(r, original.__name__)
    with r.silence():
        result = original(*args, **kwargs)
    if isinstance(data, (Tensor, np.ndarray)):
        r.write(result._array, data._array if isinstance(data, Tensor) else data)
    else:
        r.constant(result._array, original)
    return result


def _record_from_numpy(r: Recorder, original: Callable, ndarray: Any) -> Any:
    result = original(ndarray)
    storage = r.trace.storage_of(ndarray)
    if storage is not None:
        r.trace.alias_storage(result._array, storage)
    return result


def _record_statistics(r: Recorder, original: Callable, shape: Any, kind: Any) -> Any:
    with r.silence():
        result = original(shape, kind)
    for item in result:
        r.empty(item._array, original)
    return result


def _find_stub_caller() -> FrameType:
    """Return the frame that called the recorded function."""
    frame: Any = sys._getframe(1)
    while frame.f_code.co_filename not in (STUB_FILE, FOLLOWING_STUB_FILE):
        frame = frame.f_back
    caller: FrameType = frame.f_back
    return caller


def _record_wrap(r: Recorder, original: Callable, array: Any) -> Any:
    result = original(array)
    if r.trace.storage_of(result._array) is None:
        frame = _find_stub_caller()
        zero = result._array.size == 1 and not result._array.any()
        if frame.f_code in SHAPE_ONLY or (zero and frame.f_code in DERIVATIVES):
            r.constant(result._array, original)
        else:
            name = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"
            r.trace.unrecorded_makers[id(find_owner(result._array))] = name
    return result


def _patch_factories(r: Recorder) -> Pairs:
    for factory in FACTORIES[Contents.FIXED]:
        yield factory, pass_through_unless_on(r, _record_factory)
    for factory in FACTORIES[Contents.UNDEFINED]:
        yield factory, pass_through_unless_on(r, record_reserved)
    yield ops.tensor, pass_through_unless_on(r, _record_tensor)
    yield interchange.new_tensor, pass_through_unless_on(r, _record_tensor)
    yield interchange.create_from_data, pass_through_unless_on(r, _record_tensor)
    yield interchange.from_numpy, pass_through_unless_on(r, _record_from_numpy)
    yield norm_formulas.allocate_statistics, pass_through_unless_on(r, _record_statistics)
    yield tensors.wrap, pass_through_unless_on(r, _record_wrap)


# ----------------------------------------------------------------------------- gradients


def _record_grad_access(r: Recorder, leaf: Tensor, read: bool) -> None:
    if id(leaf) not in r.trace.grads:
        outside = id(leaf) in r.trace.existing_tensors or id(leaf) in r.trace.argument_tensors
        r.trace.grads[id(leaf)] = GradAccess(leaf, leaf._grad, read, outside)


def _record_grad_read(r: Recorder, original: Callable, leaf: Any) -> Any:
    _record_grad_access(r, leaf, True)
    return original(leaf)


def _record_grad_set(r: Recorder, original: Callable, leaf: Any, *value: Any) -> Any:
    _record_grad_access(r, leaf, False)
    return original(leaf, *value)


def _record_grad_added(
    r: Recorder, original: Callable, leaf: Any, g: Any, differentiable: Any
) -> Any:
    _record_grad_access(r, leaf, True)
    return original(leaf, g, differentiable)


def _set_flag(
    r: Recorder, original: Callable, tensor: Any, *args: Any, **kwargs: Any
) -> Any:
    r.refer(tensor)  # its requires_grad is compared at each call
    return original(tensor, *args, **kwargs)


def _alias(r: Recorder, original: Callable, tensor: Any, *args: Any) -> Any:
    r.refer(tensor)
    return original(tensor, *args)


def _detach(r: Recorder, original: Callable, tensor: Any) -> Any:
    if id(tensor) in r.trace.existing_tensors or id(tensor) in r.trace.argument_tensors:
        r.problem("detach_() of a tensor from outside")
    return original(tensor)


def _own_gradient(r: Recorder, original: Callable, leaf: Any, g: Any) -> Any:
    result = None if r.deferred is None else r.deferred.copy_of(leaf, g)
    if result is None:
        result = original(leaf, g)
    if result is not g:
        r.write(result._array, g._array)
    return result


def _record_engine_run(
    r: Recorder, original: Callable, roots: Any, retain_graph: Any, *args: Any, **kwargs: Any
) -> Any:
    for target, g in roots:
        if r.trace.storage_of(g._array) is None:
            r.constant(g._array, original)
        if not retain_graph:
            walk(r.trace, target)
    return original(roots, retain_graph, *args, **kwargs)


def _record_between(r: Recorder, original: Callable, g: Any, geometry: Any) -> Any:
    r.compute()
    ref = r.refer(g)
    with r.silence():
        result = original(g, geometry)
    r.add(WINDOW, function=original, args=(ref, geometry.describe()),
          results=(r.describe_results(result),))
    return result


def _patch_gradients(r: Recorder) -> Pairs:
    grad: Any = Tensor.grad
    yield grad.fget, pass_through_unless_on(r, _record_grad_read)
    yield grad.fset, pass_through_unless_on(r, _record_grad_set)
    yield grad.fdel, pass_through_unless_on(r, _record_grad_set)
    yield Tensor._alias, pass_through_unless_on(r, _alias)
    yield Tensor.requires_grad_, pass_through_unless_on(r, _set_flag)
    yield Tensor.detach_, pass_through_unless_on(r, _detach)
    yield engine.add_to_grad, pass_through_unless_on(r, _record_grad_added)
    yield engine.own_cotangent, pass_through_unless_on(r, _own_gradient)
    yield engine.run, pass_through_unless_on(r, _record_engine_run)
    for function in (views.read_window, views.clear_window, views.spread_into):
        yield function, pass_through_unless_on(r, _record_between)
