"""Capture: run a Python step once, eagerly, and record everything it does.

Meanwhile, stubs replace the functions of all operators (patch_targets.py) and write to a trace
(recorder.py). Functions that bypass the operators have their own recorders (record_writes.py).
Calls from other threads pass through.
"""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from ...autograd.backward import partial_grad
from ...native.foundation.allocator import allocate_outside_heap
from ...native.foundation.transparent_frames import skip_in_stacks
from ...native.runtime.background_jit import KernelPolicy
from ...native.runtime.frameless_call import Steps, run_steps
from ...ops.interception.code_patching import end_followed_call
from ...tensor.layout import find_owner
from ...tensor.overlap import OverlappingCopies
from ...tensor.quantized import QuantizedCreated
from ...tensor.sparse import Created
from ...tensor.storage import get_version
from ...tensor.tensor import Tensor, wrap
from ...tensor.windows.opaque_window import OpaqueWindow
from ..proof.watcher import Watcher
from ..trace.ambient_modes import read_ambient_modes
from ..trace.carried_values import list_leaves, read_carried
from ..trace.host_numbers import Place
from ..trace.number_inputs import settle_number_inputs
from ..trace.operands import collect_arrays, collect_tensors, flatten, flatten_call
from ..trace.trace import UPDATE, Backward, Role, Trace, address, collect_values
from ..trace.trace_signature import TraceSignature
from .escapes import explain_lost_backward, find_live_outputs, finish, list_live_bases
from .lazy_call import Deferred
from .live_tensors import find_live_tensors
from .patch_targets import restore_all, swap_all
from .recorder import Recorder
from .returned_tensors import describe_returned
from .saved_versions import find_reach, note_saved_versions, select_bits
from .side_effects import is_unwritten, note_arrays, note_stores, watch_writes

_capturing = threading.RLock()  # one capture at a time: patches affect all threads


def is_recording() -> bool:
    """Whether this thread is recording a call."""
    return _recorders.current is not None


class _WarningWatch:
    """Replaces a function of `warnings` during a recording, and refuses steps that call it: their
    programs would not warn. Modules imported meanwhile keep it; it only forwards their later calls.
    """

    def __init__(self, function: Callable, recorder: Recorder, has_stacklevel: bool) -> None:
        self.function, self.has_stacklevel = function, has_stacklevel
        self.recorder: Recorder | None = recorder

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        recorder = self.recorder
        if recorder is not None and recorder.here:
            recorder.problem("it warns, which no compiled call would")
        if self.has_stacklevel:  # which does not count this frame
            if len(args) < 3:
                kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            else:
                args = (*args[:2], args[2] + 1, *args[3:])
        self.function(*args, **kwargs)


@contextmanager
def _refuse_warnings(recorder: Recorder) -> Iterator[None]:
    """Refuse steps in which the library warns, because their programs would not."""
    warn, explicit = warnings.warn, warnings.warn_explicit
    warnings.warn = first = _WarningWatch(warn, recorder, has_stacklevel=True)
    warnings.warn_explicit = second = _WarningWatch(explicit, recorder, has_stacklevel=False)
    try:
        yield
    finally:
        warnings.warn, warnings.warn_explicit = warn, explicit
        first.recorder = second.recorder = None


def note(problem: str) -> None:
    """Add a reason why the step being recorded cannot be compiled."""
    if _recorders.current is not None:
        _recorders.current.problem(problem)


def refuse(problem: str) -> None:
    """Like `note`, but first compute deferred values, for code that needs them."""
    end_followed_call()
    if _recorders.current is not None:
        _recorders.current.compute()
        _recorders.current.problem(problem)


def has_peers() -> bool:
    """Whether other processes take part. If so, calls are not followed: a deferred operator would
    run after a collective that needs its result."""
    groups = sys.modules.get("flambeau.distributed.process_group")  # if imported
    return groups is not None and groups.world.group is not None and groups.world.group.size() > 1


def refuse_kind(kind: str) -> None:
    """Refuse a step that uses sparse or quantized tensors."""
    if _recorders.current is not None:
        refuse(f"it uses {kind} tensors")


Created.used = functools.partial(refuse_kind, "sparse")
QuantizedCreated.used = functools.partial(refuse_kind, "quantized")


def refuse_overlapping_copy() -> None:
    """Refuse a step that copies between overlapping windows: it reads what it has just written."""
    if _recorders.current is not None:
        refuse("it copies between overlapping windows of one storage")


OverlappingCopies.used = refuse_overlapping_copy


def get_recorder() -> Recorder | None:
    """The recorder of this thread's call, or None."""
    return _recorders.current


class _Current(threading.local):
    current: Recorder | None = None


_recorders = _Current()


def capture(
    function: Callable, args: tuple, kwargs: dict, values: bool = True, counter: bool = False
) -> tuple[Any, Trace | None]:
    """Run and record a function without a proof: `capture_steps` at once."""
    result: tuple[Any, Trace | None] = run_steps(
        capture_steps(function, args, kwargs, values, counter))
    return result


@skip_in_stacks
def capture_steps(
    function: Callable, args: tuple, kwargs: dict, values: bool = True, counter: bool = False,
    expected: TraceSignature | None = None, prove: bool = False, places: Sequence[Place] = (),
    varying: Container[str] = (),
) -> Steps:
    """Run function(*args, **kwargs), record it, and return the result and the trace.

    values: copy external memory, for the self-check.
    counter: draw counter-based random numbers.
    expected: the signature that the call should match. If it does, nothing is computed: the result
    has no values until the trace's `deferred` computes them.
    prove: watch the call opcode by opcode, for the trace's `proof`.
    places: where the call finds tensors that it takes over from the call before.
    varying: keys of the paths of numbers that changed between earlier calls.

    The trace is None if a recording is already running or an argument is sparse. Exceptions of the
    function propagate.
    """
    if not _capturing.acquire(blocking=False):
        return (yield function, args, kwargs), None
    try:
        if is_recording() or any(isinstance(a, OpaqueWindow)
                                 for a in collect_arrays((args, kwargs))):
            return (yield function, args, kwargs), None
        recorder = Recorder(values)
        recorder.counter = counter
        trace = recorder.trace
        trace.carried = read_carried(places)
        _remember(recorder, args, kwargs)
        watcher = _watch(function, args, kwargs, trace, varying) if prove else None
        recorder.watcher = watcher
        states = [(t, t._array, t._requires_grad, t._node) for t in recorder.keep_alive[0][0]]
        if expected is not None:
            _defer(recorder, expected, watcher)
        try:
            swap_all(recorder)
            _recorders.current = recorder
            KernelPolicy.counts = False
            fresh_memory = nullcontext() if expected is None else allocate_outside_heap()
            with _refuse_warnings(recorder), fresh_memory:
                result = yield from _record_call(
                    recorder, function, args, kwargs, expected, watcher)
        except BaseException:
            recorder.compute()
            raise
        finally:
            KernelPolicy.counts = True
            _recorders.current = None
            restore_all()
        _conclude(recorder, states, [*flatten((args, kwargs)), *list_leaves(trace.carried)])
        recorder.watcher = None
        return result, trace
    finally:
        _capturing.release()


def _watch(function: Callable, args: tuple, kwargs: dict, trace: Trace, varying: Container[str]
           ) -> Watcher:
    leaves = [*flatten_call(args, kwargs), *list_leaves(trace.carried)]
    watcher = Watcher(function, args, kwargs, leaves, trace.existing_tensors)
    watcher.facts.carried.take(trace.carried, leaves)
    watcher.facts.varying = varying
    watcher.facts.watch_writes = functools.partial(watch_writes, trace)
    watcher.facts.is_unwritten = functools.partial(is_unwritten, trace)
    return watcher


def _defer(recorder: Recorder, expected: TraceSignature, watcher: Watcher | None) -> None:
    """Defer the call's operators. If the proof reads shared memory, compute them first."""
    recorder.deferred = recorder.trace.deferred = Deferred(recorder, expected)
    if watcher is not None:
        watcher.facts.look = recorder.compute


def _conclude(recorder: Recorder, states: list[tuple], leaves: list[Any]) -> None:
    """Add the call's effects and its proof to the trace. If that fails, the Python of the call has
    run nevertheless: compute its operators as well. `states`: existing tensors' state before it."""
    try:
        _add_effects(recorder, states, leaves)
        if recorder.watcher is not None:
            recorder.trace.proof = recorder.watcher.conclude(
                recorder.public, recorder.container_ids, recorder.trace.externals.keys())
            recorder.trace.pins = recorder.trace.proof.pins
            settle_number_inputs(recorder.trace.events)
            note_arrays(recorder.trace)
    except BaseException:
        recorder.compute()
        raise


def _add_effects(recorder: Recorder, states: list[tuple], leaves: list[Any]) -> None:
    trace, existing = recorder.trace, recorder.keep_alive[0][0]
    for problem in recorder.awaited.values():
        trace.add_problem(f"{problem} outside of it: compile the whole step, backward included", "")
    finish(trace)
    _count_writes(recorder)
    _compare_states(trace, states)
    describe_returned(trace, leaves, existing)
    if trace.problems and trace.deferred is not None:
        trace.deferred.compute()
    _find_holders(trace, existing)


@skip_in_stacks
def _record_call(
    recorder: Recorder, function: Callable, args: tuple, kwargs: dict,
    expected: TraceSignature | None, watcher: Watcher | None,
) -> Steps:
    """Run the function under the recorder and return its result."""
    trace = recorder.trace
    with watcher or nullcontext():
        result = yield function, args, kwargs
    if read_ambient_modes() != trace.modes:
        trace.add_problem("it leaves another grad mode, autocast, default dtype or device", "")
    try:
        note_stores(recorder, watcher, result)
    except RecursionError:
        trace.add_problem("it returns a list or dict that holds itself", "")
        return result
    if trace.deferred is not None and not _is_finished(trace, expected):
        trace.deferred.compute()
    record_backward(recorder, args, kwargs)
    return result


def _is_finished(trace: Trace, expected: TraceSignature | None) -> bool:
    """Whether a deferred call did everything that the expected signature lists."""
    return expected is not None and expected.matches_outline(trace) and not find_live_outputs(trace)


def _find_holders(trace: Trace, tensors: list[Any]) -> None:
    """Add outside tensors that the step reached only through views (`w[:]`, `w.detach()`), so that
    guards notice when their memory is replaced."""
    arguments = {s.number for s in trace.storages if s.role is not Role.STATE}
    met = {v.storage for e in trace.events if e.kind != UPDATE
           for v in collect_values((e.args, e.kwargs))}
    met |= {entry.window.storage for entry in trace.returned if entry.window is not None}
    updated = {v.storage for e in trace.events if e.kind == UPDATE for v in collect_values(e.args)}
    covered = {id(find_owner(t._array)) for t in trace.externals.values()}
    owners = {id(s.owner) for s in trace.storages
              if s.external and s.number in met - arguments - updated} - covered
    for tensor in tensors if owners else ():
        if id(tensor) in trace.existing_tensors and id(find_owner(tensor._array)) in owners:
            trace.externals[id(tensor)] = tensor


def record_backward(recorder: Recorder, args: tuple, kwargs: dict) -> None:
    """Record a backward pass from outputs that require grad to outside tensors.

    The graph is retained, for a backward pass through the recorded call itself.
    """
    trace = recorder.trace
    outputs = find_live_outputs(trace)
    if not outputs or trace.problems:
        return
    supplied = {id(t): t for t in collect_tensors((args, kwargs, list_leaves(trace.carried)))}
    inputs = [t for t in {**supplied, **trace.externals}.values() if t.requires_grad]
    problem = explain_lost_backward(trace, outputs, inputs)
    if problem is not None:
        trace.add_problem(problem, "")
        return
    bases = list_live_bases(trace, outputs)
    cotangents = _draw_cotangents(trace, outputs, bases)
    outputs = [*outputs, *bases]
    backward = trace.backward = Backward(len(trace.events), outputs, cotangents, inputs)
    backward.bases = len(bases)
    for cotangent in cotangents:
        storage = trace.storage_of(cotangent)
        assert storage is not None
        storage.role, storage.position = Role.COTANGENT, storage.number
    reach = find_reach(outputs, inputs)
    backward.reached = reach.of_outputs
    try:
        with note_saved_versions(reach) as backward.saved:
            result = partial_grad(outputs, inputs, [wrap(g) for g in cotangents])
    except RuntimeError:  # part of the graph was freed; calling backward will raise
        trace.add_problem("it returns a tensor of whose graph backward has been through a part; "
                          "return tensor.detach()", "")
        return
    for g in result:
        backward.grads.append(None if g is None else trace.value_of(g._array))
        backward.arrays.append(None if g is None else trace.copy_array(g._array))
        backward.versions.append(0 if g is None else get_version(g))
    numbers = [i for i, value in enumerate(backward.grads) if value is not None]
    backward.reached = [select_bits(mask, numbers) for mask in backward.reached]
    for item in backward.saved:
        item.inputs = select_bits(item.inputs, numbers)


def _draw_cotangents(
    trace: Trace, outputs: list[Any], bases: list[Any]
) -> list[np.ndarray]:
    """Return random cotangents for outputs; zeros, which change nothing where the cotangents of
    views are added to them, for bases."""
    draw, result = np.random.RandomState(0), []
    for k, y in enumerate([*outputs, *bases]):
        shape = y._array.shape
        value = draw.standard_normal(shape) if k < len(outputs) else np.zeros(shape)
        cotangent = np.asarray(value).astype(y._array.dtype)
        trace.known_owners.add(id(cotangent))
        result.append(cotangent)
    return result


def _remember(recorder: Recorder, args: tuple, kwargs: dict) -> None:
    """Note the memory that exists before the step, and hold its owners so that ids stay unique."""
    trace = recorder.trace
    supplied = (args, kwargs, list_leaves(trace.carried))
    trace.modes = read_ambient_modes()
    tensors = find_live_tensors()
    arrays = [o._array for o in tensors]
    owners = [find_owner(a) for a in (*arrays, *collect_arrays(supplied))]
    trace.known_owners.update(map(id, owners))
    trace.argument_tensors = {id(t) for t in collect_tensors(supplied)}
    trace.existing_tensors = {id(t) for t in tensors} - trace.argument_tensors
    for i, array in enumerate(collect_arrays(supplied)):
        known = trace.value_of(array)  # None, and a problem, for a window without dense memory
        storage = None if known is None else trace.storages[known.storage]
        if storage is not None and storage.role is Role.STATE:
            storage.role, storage.position = Role.ARGUMENT, i
            assert storage.owner is not None
            storage.argument_offset = address(array) - address(storage.owner)
    recorder.keep_alive.append([tensors, owners])
    recorder.versions = [(t, get_version(t)) for t in tensors]


def _count_writes(recorder: Recorder) -> None:
    """Count the call's writes to memory that existed before it and that it used; meanwhile other
    threads may have written to other memory."""
    trace = recorder.trace
    most: dict[int, tuple[Tensor, int]] = {}
    for tensor, before in recorder.versions:
        if id(find_owner(tensor._array)) not in trace.storage_numbers \
                and id(tensor) not in recorder.begun:
            continue
        writes = get_version(tensor) - before
        # State that the call created is noted twice: after its first write, and as if before it.
        if writes and writes > most.get(id(tensor._counter), (tensor, 0))[1]:
            most[id(tensor._counter)] = tensor, writes
    trace.version_bumps += most.values()


def _compare_states(trace: Trace, states: list[tuple]) -> None:
    """Refuse calls that change an outside tensor's shape, memory, history or requires_grad: a
    program writes values only."""
    for tensor, array, requires_grad, node in states:
        if id(find_owner(array)) not in trace.storage_numbers:
            continue  # belongs to another thread
        if tensor._requires_grad is not requires_grad or tensor._node is not node:
            trace.add_problem("it changes whether a tensor from outside requires grad, or writes "
                              "to one that is part of a graph", "")
            return
        if tensor._array is not array:
            trace.add_problem("it gives a tensor from outside another shape or other memory", "")
            return
