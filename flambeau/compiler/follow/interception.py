"""The functions that a followed call intercepts, and how each is recorded and followed.

Operators are compared and listed. Other functions that write memory list their individual writes.
Functions that expose values to Python compute them first. All others run normally, and the
functions they call are intercepted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from ... import ops
from ...autograd import engine, inplace, views
from ...autograd.mode import MODE
from ...native.foundation.method_patches import library_attributes
from ...nn.module import Module
from ...nn.parameter import Parameter
from ...ops.core import inplace as in_place
from ...ops.core import out
from ...ops.core.autocast import AUTOCAST, STATE, cast_inputs
from ...ops.core.operator import OPERATORS, PUBLIC, Kind, Operator
from ...ops.core.value_rules import ValueRule
from ...ops.creation import copies, interchange
from ...ops.creation.factories import FACTORIES, Contents
from ...ops.indexing import index
from ...ops.normalization import norm_formulas
from ...optim.elementwise import Elementwise
from ...optim.lr_scheduler import LRScheduler
from ...tensor import tensor as tensors
from ...tensor.ambient import AMBIENT
from ...tensor.capture_marks import holds, may_write_arrays, peek, read_values
from ...tensor.exposed_memory import expose
from ...tensor.random import distributions, integers, rejection_sampling
from ...tensor.random import normal as normals
from ...tensor.storage import UntypedStorage
from ...tensor.tensor import Tensor
from ..capture import record_writes
from ..capture.record_draws_and_reads import (
    BY_ADDRESS, EXPOSING, record_draw, iterate_subclasses, shows_same_memory,
)
from ..capture.record_library import list_replacements
from ..capture.record_optimizer import record_group_step
from ..capture.recorder import (
    Recorder, bypass_fast_path, make_composite_recorder, make_module_recorder,
)
from ..trace.operands import bind, collect_arrays, collect_tensors, takes_number_from_tensor, unbind
from ..trace.trace import CALL
from .backward_pass import BackwardPass
from .event_listing import list_copy_of, list_draw, list_root, list_window_map, list_write
from .hooks import ACTIVE, Hook, build_key, build_key_of_classes
from .listing import LISTING, NOTHING
from .optimizer_update import GroupUpdate, has_states
from .replay import iterate_python_operators
from .session import NO, Session

# Methods of Python's own that write their tensor, which listed events may still read.
_WRITES = ("apply_", "map_", "map2_", "set_", "resize_", "resize_as_", "__setstate__")
# Methods that expose values or memory to Python.
_READS = (
    "item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__", "__complex__",
    "__repr__", "__format__", "__array__", "__dlpack__", "data_ptr", "untyped_storage", "storage",
    "__reduce_ex__", "__reduce__", "__deepcopy__", "share_memory_", "__contains__", *_WRITES,
)


class _Now:
    """Forwards to the current recorder or listing."""

    def __getattr__(self, name: str) -> Any:
        session = ACTIVE.session
        return getattr(NOTHING if session is None else session.recorder or LISTING, name)

    def __setattr__(self, name: str, value: Any) -> None:
        session = ACTIVE.session
        setattr(NOTHING if session is None else session.recorder or LISTING, name, value)


NOW: Any = _Now()


def hooks() -> list[Hook]:
    """Return a hook for each intercepted function."""
    result: dict[int, Hook] = {}
    for hook in (*_hook_special(), *_hook_operators(), *_hook_others()):
        result.setdefault(id(hook.function), hook)
    return list(result.values())


# ------------------------------------------------------------------------------------ operators


def _hook_operators() -> Iterator[Hook]:
    for operator in OPERATORS.values():
        if operator.kind is Kind.COMPOSITE:
            continue
        if operator.value_dependent_shape == "always":
            yield _barrier(operator.function)
            continue
        yield _hook_operator(operator.function, operator, False)
        twin = getattr(operator, "twin", None)
        if twin is not None:
            longer = bypass_fast_path(twin)
            yield Hook(twin, longer, lambda session, args, kwargs, longer=longer: longer(
                None, args, kwargs))
    for function, operator, reflected in iterate_python_operators():
        yield _hook_operator(function, operator, reflected)


def _hook_operator(function: Any, operator: Operator, swapped: bool) -> Hook:
    policy = operator.autocast
    binder = _Binder(operator)
    count = -1 if swapped or not binder.plain else binder.positional_count

    def follow(session: Session, args: tuple, kwargs: dict[str, Any]) -> Any:
        following = session.following
        if following is not None and not kwargs and len(args) == count and not (
            policy is not None and AUTOCAST.count
        ):
            entry = following.next
            if entry.operator is operator and following.matches(entry, args):
                return following.produce(entry, args)
        if "out" in kwargs and "out" not in operator.names:
            if kwargs["out"] is not None:
                return session.barrier(hook, args, kwargs)
            kwargs = {name: x for name, x in kwargs.items() if name != "out"}
        bound = binder((args[1], args[0]) if swapped and len(args) == 2 else args, kwargs)
        if bound is None:  # the function raises, or binds its arguments itself
            return hook.original(*args, **kwargs)
        if policy is not None and AUTOCAST.count and STATE.enabled:
            bound = cast_inputs(policy, bound)
            args, kwargs = unbind(operator, bound)
        if takes_number_from_tensor(operator, bound):
            return session.barrier(hook, args, kwargs)
        result = session.operator(hook, operator, bound, args, kwargs)
        return session.dispatch(hook, args, kwargs) if result is NO else result

    recorded = Recorder.operator(NOW, operator, swapped)

    def record(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        bound = binder((args[1], args[0]) if swapped and len(args) == 2 else args, kwargs)
        if bound is not None and takes_number_from_tensor(operator, bound):
            return ACTIVE.session.barrier(hook, args, kwargs)
        return recorded(original, args, kwargs)

    hook = Hook(function, record, follow, operator)
    if operator.values is not None:
        hook.follow = _check_values_first(hook, operator.values, binder)
    hook.binder, hook.swapped, hook.policy = binder, swapped, policy is not None
    return hook


def _check_values_first(hook: Hook, rule: ValueRule, binder: _Binder) -> Callable:
    """Return a `follow` for an operator that raises for some values; the call then raises too.

    If the values are still pending, the operator ends the segment and they are computed with it,
    unless they are indices that cannot be wrong.
    """
    list_operator, positions = hook.follow, [*map(binder.operator.names.index, rule.parameters)]

    def follow(session: Session, args: tuple, kwargs: dict[str, Any]) -> Any:
        following, bound = session.following, binder(args, kwargs)
        if bound is None or session.recorder is not None:
            return list_operator(session, args, kwargs)
        arrays = [array for i in positions for array in collect_arrays(bound[i])]
        if rule.holds is None or (
                following is not None and any(map(following.is_pending, arrays))):
            result = list_operator(session, args, kwargs)
            if following is None or session.following is not following \
                    or not following.segment.has_legal_indices(following.pos - 1):
                session.flush()
            return result
        if not rule.holds(*(x._array if isinstance(x, Tensor) else x for x in bound)):
            session.flush()
            with session.silence():
                return hook.original(*args, **kwargs)
        return list_operator(session, args, kwargs)

    return follow


class _Binder:
    """Binds arguments to an operator's parameters, in order."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        kinds = {p.kind for p in operator.parameters}
        self.plain = not any(p.VAR_POSITIONAL in kinds or p.VAR_KEYWORD in kinds
                             for p in operator.parameters)
        self.count = len(operator.parameters)
        self.positional = sum(p.kind is not p.KEYWORD_ONLY for p in operator.parameters)
        self.defaults = tuple([p.default for p in operator.parameters])
        self.positional_count = self.count if self.positional == self.count else -1
        self.required = tuple([p.default is p.empty for p in operator.parameters])

    def __call__(self, args: tuple, kwargs: dict[str, Any]) -> tuple | None:
        """Return a value for each parameter; None if the arguments do not fit."""
        n = len(args)
        if self.plain and not kwargs and n <= self.positional:
            if n == self.count:
                return args
            if not any(self.required[n:]):
                return args + self.defaults[n:]
        return bind(self.operator, args, kwargs)


# --------------------------------------------------------------- functions other than operators


def _hook(function: Any, both: Callable) -> Hook:
    """Return a hook that records and follows the same way: both(original, *args, **kwargs)."""

    def record(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        return both(original, *args, **kwargs)

    def follow(session: Session, args: tuple, kwargs: dict[str, Any]) -> Any:
        return both(hook.original, *args, **kwargs)

    hook = Hook(function, record, follow)
    return hook


def _barrier(function: Any) -> Hook:
    """Return a hook on a function that reads values, which ends the segment."""

    def record(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        return ACTIVE.session.barrier(hook, args, kwargs)

    def follow(session: Session, args: tuple, kwargs: dict[str, Any]) -> Any:
        return session.barrier(hook, args, kwargs)

    hook = Hook(function, record, follow)
    return hook


def _hook_data(setter: Any) -> Hook:
    """Return a hook on the setter of `data`. A tensor that gets other memory holds it like any new
    tensor does. Its memory differs from call to call from then on."""

    def record(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        return follow(ACTIVE.session, args, kwargs)

    def follow(session: Session, args: tuple, kwargs: dict[str, Any]) -> Any:
        if shows_same_memory(*args):
            return None
        target, value = args
        if not (_is_dense(target) and _is_dense(value)):
            return session.barrier(hook, args, kwargs)
        session.note_move(target)
        with session.silence():
            return hook.original(target, value)

    hook = Hook(setter, record, follow)
    return hook


def _is_dense(x: Any) -> bool:
    return x.__class__ in (Tensor, Parameter) and x._array.__class__ is np.ndarray


def _read(function: Any, exposes: bool = False) -> Hook:
    """Return a hook on a function that exposes its first argument's values to Python.

    exposes: it also exposes the memory, which Python may then write unnoticed.
    """

    def run(session: Session, args: tuple, kwargs: dict[str, Any]) -> Any:
        x = args[0] if args else None
        if exposes and isinstance(x, Tensor):
            expose(x._array, function.__name__ in BY_ADDRESS)
        if exposes or len(collect_tensors((args[1:], kwargs))):
            session.flush()
        else:
            session.settle(x)
        with session.silence():
            return hook.original(*args, **kwargs)

    hook = Hook(function, lambda _, args, kwargs: run(ACTIVE.session, args, kwargs), run)
    return hook


def _hook_recording(function: Any, record: Callable) -> Hook:
    """Return a hook that is active only while recording."""

    def follow(session: Session, args: tuple, kwargs: dict[str, Any]) -> Any:
        return hook.original(*args, **kwargs)

    hook = Hook(function, record, follow, only_recording=True)
    return hook


def _split(function: Any, record: Callable, follow: Callable) -> Hook:
    """Return a hook with record(recorder, original, *args) and follow(original, *args)."""

    def recorded(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        return record(NOW, original, *args, **kwargs)

    def followed(session: Session, args: tuple, kwargs: dict[str, Any]) -> Any:
        return follow(hook.original, *args, **kwargs)

    hook = Hook(function, recorded, followed)
    return hook


def _hook_special() -> Iterator[Hook]:
    yield from _hook_writes()
    yield from _hook_factories()
    yield from _hook_gradients()
    yield from _hook_draws()
    for function, replacement in list_replacements(NOW):
        yield _hook(function, replacement)
    record = make_module_recorder(NOW)
    yield _hook_recording(Module.__call__, record)
    yield _hook_recording(Module._call_impl, record)
    for name in _READS:
        function = getattr(Tensor, name, None)
        if _is_function(function):
            yield _barrier(function) if name in _WRITES else _read(function, name in EXPOSING)
    yield _read(read_values)
    yield _read(UntypedStorage._array, exposes=True)  # of a storage that the program has kept
    yield _peek(peek)
    yield _peek(holds)
    yield Hook(may_write_arrays, lambda original, args, kwargs: False,
               lambda session, args, kwargs: False)
    yield _hook_data(library_attributes(Tensor)["data"].fset)


def _peek(function: Callable) -> Hook:
    def follow(session: Session, args: tuple, kwargs: dict[str, Any]) -> Any:
        session.settle(args[0])
        return hook.original(*args)

    hook = Hook(function, lambda original, args, kwargs: original(*args), follow)
    return hook


def _hook_writes() -> Iterator[Hook]:
    r = record_writes
    yield _split(in_place.write, r._record_write, _write)
    yield _barrier(out.write_into)
    yield _split(copies.copy_array, r.copy_array, _copy)
    yield _split(inplace.prepare_write, r._record_copy_before_write, _list_copy_before_write)
    yield _split(ops.fill_, r._fill_, _fill)
    yield _hook(ops.zero_, lambda original, input: ops.fill_(input, 0))
    yield _hook(index.put_at, functools.partial(r._put_at, NOW))
    yield _hook(index.setitem, functools.partial(r._record_setitem, NOW))
    yield _hook(index.as_value, functools.partial(r.as_value, NOW))
    yield _hook(index.as_index, _list_index)


def _write(original: Callable, target: Any, y: Any, name: Any) -> None:
    session, array = ACTIVE.session, target._array
    if array.shape != y.shape or array.dtype != y.dtype or 0 in array.strides:
        session.flush()  # the write may raise
        original(target, y, name)
        NOW.write(array, y)
        return
    list_write(session, array, y)


def _copy(original: Callable, target: Any, source: Any) -> None:
    copies.check_copy(target._array, source._array)
    list_write(ACTIVE.session, target._array, source._array)


def _list_copy_before_write(original: Callable, x: Any, keep: Any) -> Any:
    result = original(x, False)
    if keep:
        result._array = np.empty_like(x._array)
        list_write(ACTIVE.session, result._array, x._array)
    return result


def _fill(original: Callable, input: Any, value: Any) -> Any:
    session = ACTIVE.session
    if input._array.__class__ is not np.ndarray:
        return original(input, value)
    source = value
    if not isinstance(value, Tensor):
        with session.silence():
            source = ops.full((), value, dtype=input.dtype)
        NOW.constant(source._array, original)
    if source._array.ndim or (MODE.grad and (
        inplace.check_writable(input, "fill_") or source.requires_grad)
    ):
        return original(input, source)
    list_write(session, input._array, source._array)
    inplace.bump(input)
    return input


def _list_index(original: Callable, item: Any) -> Any:
    session = ACTIVE.session
    if isinstance(item, Tensor) and item._array.size == 1:
        session.settle(item)
    result = original(item)
    if isinstance(item, (list, tuple, range, bool)) and isinstance(result, np.ndarray):
        NOW.constant(result, original)
    return result


# ------------------------------------------------------------------------------- new memory


def _hook_factories() -> Iterator[Hook]:
    r = record_writes
    for factory in FACTORIES[Contents.FIXED]:
        hook = _hook(factory, _list_constant)
        hook.makes_constants = True
        yield hook
    for factory in FACTORIES[Contents.UNDEFINED]:
        yield _hook(factory, _list_allocation)
    yield _hook(ops.tensor, _tensor)
    yield _hook(interchange.new_tensor, _tensor)
    yield _hook(interchange.create_from_data, _tensor)
    yield _hook(interchange.from_numpy, _adopt_numpy)
    yield _hook(norm_formulas.allocate_statistics, functools.partial(r._record_statistics, NOW))
    yield _hook_recording(tensors.wrap, _adapt_recorder(r._record_wrap))


def _adapt_recorder(record: Callable) -> Callable:
    return lambda original, args, kwargs: record(NOW, original, *args, **kwargs)


def _list_allocation(original: Callable, *args: Any, **kwargs: Any) -> Any:
    if record_writes.reads_numbers(original, args, kwargs):
        return _list_constant(original, *args, **kwargs)
    return record_writes.record_reserved(NOW, original, *args, **kwargs)


def _list_constant(original: Callable, *args: Any, **kwargs: Any) -> Any:
    session = ACTIVE.session
    special = (kwargs.get("out") is not None
               or record_writes.reads_numbers(original, args, kwargs))
    if special:
        session.flush()
    with session.silence():
        result = original(*args, **kwargs)
    if not special and type(result._array) is np.ndarray:
        NOW.constant(result._array, original)
    elif session.recorder is not None:
        session.recorder.adopt(result._array)
    return result


def _tensor(original: Callable, *args: Any, **kwargs: Any) -> Any:
    session = ACTIVE.session
    data = kwargs["data"] if "data" in kwargs else args[-1]
    foreign = not isinstance(data, Tensor) and (
        hasattr(data, "__array__") or hasattr(data, "__array_interface__"))
    if not isinstance(data, Tensor) and collect_tensors(data):
        session.flush()
        foreign = True
    with session.silence():
        result = original(*args, **kwargs)
    if isinstance(data, Tensor):
        NOW.write(result._array, data._array)
    elif foreign:
        if session.recorder is not None:
            session.recorder.adopt(result._array)
    else:
        NOW.constant(result._array, original)
    return result


def _adopt_numpy(original: Callable, ndarray: Any) -> Any:
    session = ACTIVE.session
    with session.silence():
        result = original(ndarray)
    expose(result._array)
    if session.recorder is not None:
        session.recorder.adopt(result._array)
    return result


# -------------------------------------------------------------------------------- gradients


def _hook_gradients() -> Iterator[Hook]:
    r, grad = record_writes, library_attributes(Tensor)["grad"]
    for function, record in (
        (grad.fget, r._record_grad_read), (grad.fset, r._record_grad_set),
        (grad.fdel, r._record_grad_set),
        (Tensor._alias, r._alias),
        (Tensor.requires_grad_, r._set_flag), (engine.add_to_grad, r._record_grad_added),
    ):
        yield _hook_recording(function, _adapt_recorder(record))
    yield _split(engine.own_cotangent, r._own_gradient, _list_own_cotangent)
    yield _split(engine.run, _record_engine_run, _run_engine)
    yield _hook(Elementwise._flambeau_step_group, _step_group)
    for function in (views.read_window, views.clear_window, views.spread_into):
        yield _hook(function, lambda original, *args: list_window_map(
            ACTIVE.session, original, *args))


def _list_own_cotangent(original: Callable, leaf: Any, g: Any) -> Any:
    session = ACTIVE.session
    result = list_copy_of(session, leaf, g)
    if result is None:
        recorder = session.next_recorder()
        result = original(leaf, g)
        if recorder is not None and result is not g:
            recorder.write_new(result._array, g._array)
    return result


def _run_engine(original: Callable, roots: Any, *args: Any, **kwargs: Any) -> Any:
    session = ACTIVE.session
    for _, g in roots:
        list_root(session, g._array, original)
    following = session.following
    if following is not None and args in _PLAIN_PASS and not kwargs and len(roots) == 1:
        known = following.segment.backwards.get(following.pos)
        if known is not None and known.follow(following, roots[0][0]):
            return {}
    return original(roots, *args, **kwargs)


def _record_engine_run(_: Any, original: Callable, roots: Any, *args: Any, **kwargs: Any) -> Any:
    session = ACTIVE.session
    recorder = session.recorder
    for _, g in roots:
        if recorder.trace.storage_of(g._array) is None:
            recorder.constant(g._array, original)
    start, new = len(recorder.trace.events), None
    if args in _PLAIN_PASS and not kwargs and len(roots) == 1:
        new = BackwardPass.begin(roots[0][0], start, recorder.sequence)
    result = original(roots, *args, **kwargs)
    if new is not None and session.recorder is recorder and new.finish(recorder):
        recorder.backwards.append(new)
    return result


_PLAIN_PASS = ((False, False), (None, False))  # retain_graph, create_graph


def _step_group(original: Callable, optimizer: Any, group: dict[str, Any]) -> None:
    """Follow or record an optimizer's step over a group; as one event if it was recorded as one."""
    session = ACTIVE.session
    following, recorder = session.following, session.recorder
    if following is not None and following.pos in following.segment.group_updates \
            and following.ambient == AMBIENT.changes:
        entry = following.next
        if entry.update is None and entry.event.kwargs["optimizer"] is optimizer \
                and has_states(following, entry):
            with session.silence():
                entry.update = GroupUpdate(entry)
        if entry.update is not None and entry.update.follow(following, group):
            if following.shows_writes:
                session.flush()
            return
    count = 0 if recorder is None else len(recorder.trace.events)
    try:
        record_group_step(NOW, original, optimizer, group)
    except BaseException:  # an update is recorded before it runs
        if recorder is not None and (recorder.cut is None or recorder.cut > count):
            recorder.cut, recorder.why = count, f"an update raised ({recorder.line()[0]})"
        raise
    if recorder is not None and session.recorder is recorder and recorder.cut is None \
            and len(recorder.trace.events) == count + 1:
        recorder.group_updates.add(count)


# ------------------------------------------------------------------------------------ draws


def _hook_draws() -> Iterator[Hook]:
    for function in (
        distributions.fill_uniform, distributions.fill_bernoulli, distributions.fill_dropout,
        distributions.fill_exponential, distributions.fill_cauchy, distributions.fill_geometric,
        normals.fill_normal, normals.fill_log_normal, integers.fill_random,
    ):
        yield _hook_draw(function)
    by_values: tuple[Any, ...] = (
        integers.randperm, integers.multinomial, rejection_sampling.poisson,
        rejection_sampling.binomial, rejection_sampling.standard_gamma,
        rejection_sampling.dirichlet,
    )
    for function in by_values:
        yield _barrier(function)
    for kind in iterate_subclasses(LRScheduler):
        step = vars(kind).get("step")
        if _is_function(step):
            yield _hook_recording(step, lambda original, args, kwargs: original(*args, **kwargs))


def _hook_draw(function: Any) -> Hook:
    def follow(session: Session, args: tuple, kwargs: dict[str, Any]) -> Any:
        if session.quiet:
            return hook.original(*args, **kwargs)
        if collect_arrays((args[1:], kwargs)):
            return session.barrier(hook, args, kwargs)
        return list_draw(session, hook.original, args, kwargs)

    def record(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        if collect_arrays((args[1:], kwargs)) and not ACTIVE.session.quiet:
            return ACTIVE.session.barrier(hook, args, kwargs)
        return record_draw(NOW, original, args, kwargs)

    hook = Hook(function, record, follow, always=True)
    return hook


# ----------------------------------------------------------------------------------- others


def _hook_others() -> Iterator[Hook]:
    """Yield hooks on public non-operators: composites, in-place and value-dependent functions."""
    for names in PUBLIC.values():
        for name, function in names.items():
            if not _is_function(function):
                continue
            writes = name.endswith("_") and not name.endswith("__") \
                and not hasattr(function, "writes_by_operators")
            reads = hasattr(function, "shape_depends_on_values")
            if writes or reads or hasattr(function, "answers_from_values"):
                yield _barrier(function)
            else:
                yield _hook_composite(function, name)


def _hook_composite(function: Any, name: str) -> Hook:
    """Return a hook on a composite, whose operators are listed.

    A followed call runs it only at the recorded position with the same plain arguments, because
    others might make it compute without operators. A composite that does so becomes a barrier, for
    the function that called it and for arguments of these classes.
    """
    inner = make_composite_recorder(NOW, name, function)

    def record(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        return _record_composite(hook, inner, original, args, kwargs)

    def follow(session: Session, args: tuple, kwargs: dict[str, Any]) -> Any:
        opaque = session.driver.opaque
        if opaque and (hook, build_key_of_classes(args, kwargs)) in opaque:
            return session.barrier(hook, args, kwargs)
        if hasattr(function, "numbers_are_operands"):
            return hook.original(*args, **kwargs)
        key = hook, build_key(args, kwargs)
        while session.following is not None or session.advance():
            following: Any = session.following
            if key in following.segment.calls.get(following.pos, ()):
                return hook.original(*args, **kwargs)
            session.mismatch()
        if (hook, build_key_of_classes(args, kwargs)) in session.position.exit.idle:
            session.position.calls.append(key)
            return hook.original(*args, **kwargs)
        return session.dispatch(hook, args, kwargs)

    hook = Hook(function, record, follow)
    hook.plain = build_key_of_classes if hasattr(function, "numbers_are_operands") else build_key
    if hasattr(function, "repeats_operators"):
        hook.settings, hook.repeats_operators = function.repeats_operators, True
    return hook


def _record_composite(hook: Hook, inner: Callable, original: Callable, args: tuple,
                      kwargs: dict[str, Any]) -> Any:
    """Call a composite while recording, and note whether it computes by operators, or at all."""
    session = ACTIVE.session
    opaque, call = session.driver.opaque, (hook, build_key_of_classes(args, kwargs))
    if call in opaque:
        return session.barrier(hook, args, kwargs)
    recorder = session.recorder
    events, count = recorder.trace.events, len(recorder.trace.events)
    recorder.calls.setdefault(count, []).append((hook, build_key(args, kwargs)))
    result = inner(original, args, kwargs)
    if session.recorder is not recorder:
        if len(events) == count:
            opaque.add(call)  # it read values or drew numbers before any operator
        return result
    if any(e.kind == CALL and e.function is original for e in events[count:]):
        opaque.add(call)
        if recorder.cut is not None:
            recorder.cut = min(recorder.cut, count)
    if not events and recorder.cut is None:
        session.position.exit.idle.add(call)
    return result


def _is_function(x: Any) -> bool:
    return isinstance(x, FunctionType)
