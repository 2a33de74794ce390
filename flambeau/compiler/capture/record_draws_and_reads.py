"""Recorders for state that a step shares with the rest of the program: random numbers, values read
by Python, schedulers."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...native.foundation.source_hash import PACKAGE
from ...nn.parameter import Parameter
from ...ops.core import inplace as in_place
from ...optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from ...tensor import tensor as tensors
from ...tensor.capture_marks import holds, may_write_arrays, peek, read_values
from ...tensor.exposed_memory import expose
from ...tensor.layout import find_owner
from ...tensor.random import generator as generators
from ...tensor.random import integers, rejection_sampling, distributions
from ...tensor.random import normal as normals
from ...tensor.storage import UntypedStorage
from ...tensor.tensor import Tensor
from ..ir.reasons import Advice, Reason
from ..proof.declarations import is_in_library
from ..proof.numbers.decisions import guard_truth
from ..trace.counter_rng import replace_draw, draw_key
from ..trace.host_numbers import Read
from ..trace.operands import collect_arrays
from ..trace.trace import CHECK, DRAW, HostCall, address, count_updates
from .recorder import Recorder, note_host_read

Pairs = Iterator[tuple[Any, Callable]]
_COMPILER = os.path.join(PACKAGE, "compiler", "")


def pass_through_unless_on(r: Recorder, record: Callable) -> Callable:
    """Wrap a recorder so that calls pass through unless the step is being recorded."""

    def guarded(original: Callable, args: tuple, kwargs: dict) -> Any:
        if not r.on:
            r.visit(args)
            return original(*args, **kwargs)
        return record(r, original, *args, **kwargs)

    return guarded


# --------------------------------------------------------------------------------- draws


def record_draw(r: Recorder, original: Callable, args: Any, kwargs: Any) -> Any:
    if not r.here or r.drawing:
        return original(*args, **kwargs)
    if original.__name__ == "fill_bernoulli" and isinstance(args[1], np.ndarray):
        return _draw_each(r, *args, **kwargs)
    if r.quiet:
        r.problem(f"{original.__name__} draws random numbers inside an operator")
        return original(*args, **kwargs)
    if r.counter and _draw_counted(r, original, args, kwargs):
        return args[0]
    result, later = args[0], r.deferred is not None
    if not later:
        r.drawing = True
        try:
            result = original(*args, **kwargs)
        finally:
            r.drawing = False
    line = r.line()[0]
    if collect_arrays((args[1:], kwargs)):
        r.trace.add_problem("random numbers are drawn with tensors as parameters", line)
    r.add(DRAW, function=original, args=(r.trace.value_of(args[0], fresh=True), *args[1:]),
          kwargs=kwargs, array=None if later else r.trace.copy_array(args[0]))
    return result


def _draw_counted(r: Recorder, original: Callable, args: Any, kwargs: Any) -> bool:
    """Make a counter-based draw, if one exists for this function; return whether it did."""
    result = replace_draw(original, args, kwargs, r.streams)
    if result is None:
        return False
    draw, generator = result
    r.streams += 1
    key = r.keys.get(generator)
    if key is None:
        key = r.keys[generator] = np.zeros(1, np.uint64)
        if r.deferred is None:
            draw_key(key, generator)
    if r.deferred is None:
        draw.fill(args[0], int(key[0]))
    r.add(DRAW, function=draw, args=(r.trace.value_of(args[0], fresh=True), draw, generator),
          array=key)
    return True


def _draw_each(r: Recorder, array: Any, p: Any, generator: Any = None) -> Any:
    precision = np.float64 if p.dtype == np.float64 else np.float32
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    drawn = np.empty(array.transpose(order).shape, precision)
    distributions.fill_uniform(drawn, generator)
    target = tensors.wrap(array)
    r.trace.value_of(array, fresh=True)
    below = tensors.wrap(drawn).permute(*map(int, np.argsort(order))) < tensors.wrap(p)
    in_place.write(target, below._array, "bernoulli")
    return array


def _record_permutation(
    r: Recorder, original: Callable, n: Any, dtype: Any, generator: Any = None
) -> Any:
    r.compute()
    with r.silence():
        result = original(n, dtype, generator)

    def randperm(array: np.ndarray, *_: Any) -> None:
        array[...] = original(n, dtype, generator)

    r.add(DRAW, function=randperm, args=(r.trace.value_of(result, fresh=True), n, dtype, generator),
          array=r.trace.copy_array(result))
    return result


def _record_seeding(r: Recorder, original: Callable, *args: Any, **kwargs: Any) -> Any:
    r.compute()
    r.problem(f"{original.__name__} changes the state of a random generator")
    return original(*args, **kwargs)


def _refuse_draw(r: Recorder, original: Callable, *args: Any, **kwargs: Any) -> Any:
    r.compute()
    r.problem(f"{original.__name__} draws random numbers that depend on tensors")
    with r.silence():
        return original(*args, **kwargs)


def draws(r: Recorder) -> Pairs:
    """Yield (function, recorder) for functions that draw random numbers."""
    function: Callable
    for function in (
        distributions.fill_uniform, distributions.fill_bernoulli, distributions.fill_dropout,
        distributions.fill_exponential, distributions.fill_cauchy, distributions.fill_geometric,
        normals.fill_normal, normals.fill_log_normal, integers.fill_random,
    ):
        yield function, functools.partial(record_draw, r)
    yield integers.randperm, pass_through_unless_on(r, _record_permutation)
    for function in (integers.multinomial, rejection_sampling.poisson, rejection_sampling.binomial,
                     rejection_sampling.standard_gamma, rejection_sampling.dirichlet):
        yield function, pass_through_unless_on(r, _refuse_draw)
    for name in ("_reseed", "set_state"):
        yield getattr(generators.Generator, name), pass_through_unless_on(r, _record_seeding)


# ---------------------------------------------------------------------------- schedulers


def _record_scheduler_step(
    r: Recorder, original: Callable, self: Any, *args: Any, **kwargs: Any
) -> Any:
    """Record a scheduler's step: pure Python on numbers that programs read at each call."""
    if args or kwargs:
        r.problem("a scheduler's step gets a number, which may be another at each call")
    optimizer = self.optimizer
    updates = count_updates(r.trace, optimizer)
    with r.silence():
        result = original(self, *args, **kwargs)
    r.trace.host_calls.append(HostCall(self.step, optimizer, updates, r.line()[0]))
    return result


def iterate_subclasses(base: Any) -> Iterator[Any]:
    yield base
    for kind in base.__subclasses__():
        yield from iterate_subclasses(kind)


def iterate_schedules(r: Recorder) -> Pairs:
    """Yield (function, recorder) for schedulers' steps; ReduceLROnPlateau reads a value."""
    for kind in iterate_subclasses(LRScheduler):
        step = vars(kind).get("step")
        if hasattr(step, "__code__") and not issubclass(kind, ReduceLROnPlateau):
            yield step, pass_through_unless_on(r, _record_scheduler_step)


# ---------------------------------------------------------------------------- host reads


def _read(r: Recorder, original: Callable, args: Any, kwargs: Any) -> Any:
    if r.on:
        name = original.__name__
        if name == "__bool__" and r.watcher is not None and guard_truth(r.watcher.facts, args[0]):
            with r.silence():
                return original(*args)
        r.compute()
        if name in ("item", "__float__") and args and not kwargs:
            with r.silence():
                value = original(*args)
            if _is_watched(r, args[0], value):
                return value
        note_host_read(r, name)
        with r.silence():
            return original(*args, **kwargs)
    r.visit(args)
    return original(*args, **kwargs)


def _is_watched(r: Recorder, tensor: Tensor, value: Any) -> bool:
    """Whether a watcher tracks this number of a tensor; it gets a copy of the tensor."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(("<flambeau", _COMPILER)):
        frame = frame.f_back
    if r.watcher is None or frame is None or is_in_library(frame.f_code) \
            or value.__class__ not in (int, float) or tensor._array.dtype.kind == "V":
        return False
    copy = tensor.detach().clone()
    r.watcher.note_number(value, Read("item", copy), (frame.f_code.co_filename, frame.f_lineno))
    return True


def shows_same_memory(self: Any, value: Any) -> bool:
    """Whether two tensors are one window on one memory: after `w.data -= g`, Python assigns to
    `w.data` what it already is."""
    a, b = self._array, getattr(value, "_array", None)
    return a is b or (
        a.__class__ is b.__class__ is np.ndarray and a.dtype == b.dtype and a.shape == b.shape
        and a.strides == b.strides and address(a) == address(b))


def _set_data(r: Recorder, original: Callable, self: Any, value: Any) -> Any:
    if shows_same_memory(self, value):
        return None
    if r.trace.has_created(self) and self._node is None and _is_known(r, self, value):
        r.trace.moved.append(self)
        return original(self, value)
    r.compute()
    r.problem(Reason("a tensor's .data is replaced", Advice.COPY_DATA))
    return original(self, value)


def _is_known(r: Recorder, *tensors: Any) -> bool:
    """Whether tensors are plain ones in memory that the recording knows."""
    return all(x.__class__ in (Tensor, Parameter) and x._array.__class__ is np.ndarray
               and id(find_owner(x._array)) in r.trace.storage_numbers for x in tensors)


def _read_data(r: Recorder, original: Callable, self: Any) -> Any:
    r.refer(self)
    return original(self)


def _holds(r: Recorder, original: Callable, x: Tensor, condition: Callable) -> bool:
    r.compute()
    with r.silence():
        result = bool(original(x, condition))
    value = r.trace.value_of(x._array)
    if not result or value is None:
        r.problem("it looks at values that are not as they must be")
    else:
        r.add(CHECK, function=condition, args=(value,))
    return result


def _expose(r: Recorder, original: Callable, args: Any, kwargs: Any) -> Any:
    """Record a function that gives Python a way to the memory: it may keep it, and later calls,
    which are perhaps followed, do not see what it reads and writes there."""
    if r.on and isinstance(args[0], Tensor) and isinstance(args[0]._array, np.ndarray):
        expose(args[0]._array, original.__name__ in BY_ADDRESS)
    return _read(r, original, args, kwargs)


def _peek(r: Recorder, original: Callable, x: Tensor) -> np.ndarray:
    r.compute()
    return np.asarray(original(x))


def _read_bytes(r: Recorder, original: Callable, args: Any, kwargs: Any) -> Any:
    if r.on:
        r.compute()
        r.problem(Reason("it reads or writes the bytes of a storage", Advice.READ_OUTSIDE))
    return original(*args, **kwargs)


# Methods of tensors that give Python a way to their memory.
EXPOSING = ("numpy", "__array__", "__dlpack__", "data_ptr", "untyped_storage", "storage",
            "share_memory_")
BY_ADDRESS = ("data_ptr", "untyped_storage", "storage")


def iterate_host_reads(r: Recorder) -> Pairs:
    """Yield (function, recorder) for functions that expose a tensor's values to Python."""
    for name in ("item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__",
                 "__complex__", "__repr__", "__format__", "__array__", "__dlpack__",
                 "apply_", "map_", "map2_", "data_ptr", "untyped_storage"):
        function = getattr(Tensor, name)
        if hasattr(function, "__code__"):
            yield function, functools.partial(_expose if name in EXPOSING else _read, r)
    yield read_values, functools.partial(_read, r)
    yield UntypedStorage._array, functools.partial(_read_bytes, r)
    yield peek, pass_through_unless_on(r, _peek)
    yield holds, pass_through_unless_on(r, _holds)
    yield may_write_arrays, pass_through_unless_on(r, lambda r, original: False)
    data: Any = Tensor.data
    yield data.fset, pass_through_unless_on(r, _set_data)
    yield data.fget, pass_through_unless_on(r, _read_data)
