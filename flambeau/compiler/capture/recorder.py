"""The recorder: turns calls of operators, modules and other functions into a trace."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...autograd.node import Node
from ...native.foundation.source_hash import PACKAGE
from ...nn.module import Module
from ...ops.core import inplace
from ...ops.core.autocast import AUTOCAST, STATE, cast_inputs
from ...ops.core.dispatch import PASSES_NUMBERS
from ...ops.core.operator import Kind, Operator
from ...ops.core.out import write_out
from ...ops.interception import torch_function
from ...ops.interception.code_patching import STUB_FILE
from ...tensor.capture_marks import MODULE_MARK
from ...tensor.layout import find_owner
from ...tensor.size import Size
from ...tensor.storage import get_version
from ...tensor.tensor import Tensor
from ...tensor.tree import map_leaves_of
from ..ir.reasons import Advice, Reason
from ..proof.numbers.inputs import offers_number, take_number
from ..proof.watcher import Watcher
from ..trace.number_inputs import NumberInput, fix_number, rounds_exactly, takes_numbers_exactly
from ..trace.operands import (
    bind, collect_arrays, collect_tensors, flatten, takes_number_from_tensor, unbind,
)
from ..trace.plain_values import PLAIN
from ..trace.trace import CALL, CONSTANT, EMPTY, OPERATOR, WRITE, Event, Trace, Value
from .lazy_call import NOT_NOW, Deferred

_LIBRARY = PACKAGE + os.sep
_ARGUMENTS = ("args", "kwargs")  # of an event
_ENGINE = os.path.join(_LIBRARY, "autograd", "engine.py")


class Recorder:
    """Records the step that one thread runs; the stubs call it."""

    def __init__(self, values: bool = True) -> None:
        self.trace = Trace(values)
        self.thread = threading.get_ident()
        self.public: set[str] = set()  # names of the public functions that ran
        self.container_ids: list[int] = []  # ids of lists and dicts that the call returns or stores
        self.quiet = 0  # > 0 inside an operator, whose own calls are not recorded
        self.drawing = False  # inside a function that draws random numbers
        self.counter, self.streams = False, 0  # counter-based draws, and how many so far
        self.keys: dict[Any, np.ndarray] = {}  # of the call, by generator
        self.modules: list[Any] = []
        self.lines: dict[int, tuple[str, str]] = {}  # where each node of the tape was created
        self.keep_alive: list[Any] = []
        self.versions: list[tuple[Tensor, int]] = []  # of tensors that existed before the call
        self.begun: set[int] = set()  # ids of state that optimizers write as their steps begin
        self.watcher: Watcher | None = None  # tracks uses of numbers
        self.spaces: dict[int, tuple[Any, dict]] = {}  # module attributes before their calls
        self.deferred: Deferred | None = None  # set while operators may be skipped
        self.awaited: dict[int, str] = {}  # pending events, by the id of the waiting object
        self.number_inputs: dict[int, NumberInput] = {}  # by id of the number that operators get

    @property
    def on(self) -> bool:
        """Whether this thread's actions are recorded now."""
        return not self.quiet and threading.get_ident() == self.thread

    @property
    def here(self) -> bool:
        """Whether this is the recorded thread, inside an operator or not."""
        return threading.get_ident() == self.thread

    @contextmanager
    def silence(self) -> Any:
        """Suspend recording inside the block."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    def note_version(self, tensor: Tensor) -> None:
        """Count writes to a tensor from here on, as if it had existed before the call."""
        self.versions.append((tensor, get_version(tensor)))

    def compute(self) -> None:
        """Compute deferred values, because they are needed now."""
        if self.deferred is not None:
            self.deferred.compute()

    # ---------------------------------------------------------------------------- values

    def refer(self, x: Any, line: str = "") -> Any:
        """Replace tensors and arrays in arguments by Values."""
        if isinstance(x, Tensor):
            if id(x) in self.trace.existing_tensors:
                self.trace.externals[id(x)] = x
            return self.window(x._array, line)
        if isinstance(x, np.ndarray):
            return self.window(x, line)
        if isinstance(x, PLAIN):
            return self.number_inputs.get(id(x), x)
        if isinstance(x, tuple):
            if isinstance(x, Size) or not hasattr(x, "_fields"):
                return tuple(self.refer(item, line) for item in x)
            return type(x)(*(self.refer_setting(item, line) for item in x))
        if isinstance(x, list):
            return [self.refer(item, line) for item in x]
        if isinstance(x, dict):
            return {key: self.refer(single, line) for key, single in x.items()}
        return x

    def refer_setting(self, x: Any, line: str) -> Any:
        """Refer to a part of an operator's settings, whose own arrays are constants."""
        own = isinstance(x, np.ndarray) and self.trace.value_of(x) is None
        return x if own else self.refer(x, line)

    def window(self, array: np.ndarray, line: str = "") -> Value | None:
        """Return the Value of an array; add a problem if its memory has no known origin."""
        result = self.trace.value_of(array)
        if result is None and MODULE_MARK in _find_calling_module():
            return self.constant(array)
        if result is None:
            maker = self.trace.unrecorded_makers.get(id(find_owner(array)), "NumPy")
            result = self.trace.value_of(array, fresh=True)
            self.trace.add_problem(
                "it uses a tensor whose values were not computed by flambeau's operators, but by "
                f"{maker}", line or self.line()[0],
            )
        return result

    def describe_results(self, result: Any, arguments: Any = ()) -> Any:
        """Return results as Values on new memory, except those that are among the arguments."""
        if isinstance(result, Tensor):
            self.note_created([result], arguments)
            return self.trace.value_of(result._array, fresh=True)
        if isinstance(result, (tuple, list)):
            return tuple(self.describe_results(item, arguments) for item in result)
        return None

    # ---------------------------------------------------------------------------- events

    def add(self, kind: str, **parts: Any) -> Event:
        """Append an event, with the line and module that caused it."""
        if self.number_inputs and not (
                kind == OPERATOR and rounds_exactly(parts["operator"], parts["args"])):
            parts = _fix_numbers(parts)
        line, backward = self.line()
        module = ".".join(name for _, name in self.modules)
        event = Event(kind, line=line, module=module, backward=backward, **parts)
        self.trace.events.append(event)
        if self.deferred is not None:
            self.deferred.compare_event(event)
        return event

    def line(self) -> tuple[str, bool]:
        """Return ("file:line" of the running user code, whether it runs backward)."""
        frame: Any = sys._getframe(1)
        backward = False
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith((_LIBRARY, "<flambeau")):
                return f"{code.co_filename}:{frame.f_lineno}", backward
            if code.co_name == "apply" and isinstance(frame.f_locals.get("self"), Node):
                known = self.lines.get(id(frame.f_locals["self"]))
                backward = True
                if known is not None:
                    return known[0], True
            elif code.co_filename == _ENGINE:  # accumulates gradients
                backward = True
            frame = frame.f_back
        return "", backward

    def write(self, target: np.ndarray, source: np.ndarray, **parts: Any) -> None:
        """Record that `source` was written over `target`."""
        line, _ = self.line()
        fresh = id(find_owner(target)) not in self.trace.known_owners
        into = self.trace.value_of(target, fresh)
        self.add(WRITE, args=(into, self.window(source, line)), **parts)

    def constant(self, array: np.ndarray, function: Any = None) -> Value | None:
        """Record an array created without inputs. None, and a problem, if it is no plain array."""
        value = self.trace.value_of(array, fresh=True)
        if value is None:
            return None
        self.add(CONSTANT, function=function, results=(value,), array=self.trace.copy_array(array))
        return value

    def empty(self, array: np.ndarray, function: Any = None) -> None:
        """Record an allocation."""
        self.add(EMPTY, function=function, results=(self.trace.value_of(array, fresh=True),))

    def problem(self, message: str) -> None:
        """Add a reason why this step cannot be compiled, with the line."""
        self.trace.add_problem(message, self.line()[0])

    def visit(self, args: tuple) -> None:
        """Refuse the step if another thread runs an operator on its memory."""
        if not self.here and any(
            id(find_owner(x._array)) in self.trace.storage_numbers for x in collect_tensors(args)
        ):
            self.compute()
            self.trace.add_problem("another thread computes with its tensors", "")

    # ------------------------------------------------------------------------- operators

    def operator(self, operator: Operator, swapped: bool = False) -> Callable:
        """Return the recorder of an operator's function. `swapped`: operands are reversed."""
        policy = operator.autocast

        def record(original: Callable, args: tuple, kwargs: dict) -> Any:
            if not self.on:
                self.visit(args)
                return original(*args, **kwargs)
            self.public.add(operator.name)
            if self.watcher is not None and offers_number(self.watcher.facts):
                args, kwargs = _take_number(self, self.watcher, operator, args, kwargs)
            out = kwargs.pop("out", None) if "out" not in operator.names else None
            supplied = (args[1], args[0]) if swapped and len(args) == 2 else args
            bound = bind(operator, supplied, kwargs)
            if bound is None:  # the function raises, or normalizes its arguments
                return original(*args, **kwargs if out is None else {**kwargs, "out": out})
            if policy is not None and AUTOCAST.count and STATE.enabled:
                bound = cast_inputs(policy, bound)
                args, kwargs = unbind(operator, bound)
            if takes_number_from_tensor(operator, bound):
                self.compute()
                note_host_read(self, operator.name)
            refs = self.refer(bound)
            if self.deferred is None:
                with self.silence():
                    result = original(*args, **kwargs)
            else:
                result = self._defer_result(operator, refs, bound, original, args, kwargs, swapped)
            if result is NotImplemented:
                return result
            self.result(operator, refs, bound, result)
            return result if out is None else write_out(operator, result, out, bound)

        return record

    def _defer_result(
        self, operator: Operator, refs: tuple, bound: tuple, original: Callable, args: tuple,
        kwargs: dict, swapped: bool,
    ) -> Any:
        """Return an operator's result, without values if it can be deferred."""
        assert self.deferred is not None
        result = self.deferred.operator(operator, refs, bound, original, swapped)
        if result is NOT_NOW and not operator.writes:
            with self.silence():
                result = self.deferred.run_unrecorded(bound, original, args, kwargs)
        if result is NOT_NOW:
            self.compute()
            with self.silence():
                result = original(*args, **kwargs)
        return result

    def result(self, operator: Operator, refs: tuple, bound: tuple, result: Any) -> None:
        """Record an operator's results, unless they are views of its arguments."""
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        seen = {id(find_owner(a)) for a in collect_arrays(bound)}
        when = operator.value_dependent_shape
        if when == "always" or when == "masks" and any(
                a.dtype == np.bool_ for a in collect_arrays(bound[1:])):
            self.problem(f"the shape of what {operator.name} gives depends on values")
        fresh = [y for y in outputs if isinstance(y, Tensor)
                 and id(find_owner(y._array)) not in seen]
        self.note_created(outputs, bound)
        if not fresh and operator.kind is not Kind.COMPOSITE and not operator.writes:
            return
        results = tuple(
            self.trace.value_of(y._array, fresh=True) if isinstance(y, Tensor) else None
            for y in outputs
        )
        parts = tuple(isinstance(y, Tensor) and y._array.base is not None for y in outputs)
        event = self.add(OPERATOR, operator=operator, args=refs, results=results,
                         form=(isinstance(result, (tuple, list)), parts))
        node = outputs[0]._node if isinstance(outputs[0], Tensor) else None
        if node is not None:
            node = node.shown()
            self.lines.setdefault(id(node), (event.line, event.module))

    def note_created(self, results: Iterable[Any], arguments: Any) -> None:
        """Note that the call created the tensors among the results; a function that writes in place
        returns an argument, which it did not create."""
        before = {*map(id, collect_tensors(arguments))}
        for y in results:
            if isinstance(y, Tensor) and id(y) not in before:
                self.trace.tensors[id(y)] = weakref.ref(y)


def _find_calling_module() -> dict[str, Any]:
    """Return the globals of the library function that called the recorded operator."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        space: dict[str, Any] = frame.f_globals
        is_library = not frame.f_code.co_filename.startswith("<flambeau")
        if is_library and space.get("__name__") != __name__:
            return space
        frame = frame.f_back
    return {}


def _fix_numbers(parts: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of an event whose arguments programs do not compute anew."""
    return {key: map_leaves_of(NumberInput, fix_number, x) if key in _ARGUMENTS else x
            for key, x in parts.items()}


def _take_number(recorder: Recorder, watcher: Watcher, operator: Operator, args: tuple,
                 kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Replace a number that the step hands to an operator, and that the program may compute anew in
    each call, by an object of its own, by which the operator's derivatives know it."""
    values = (*args, *kwargs.values())
    operand = take_number(watcher.facts, watcher.shadows.get(_find_caller()), values) \
        if takes_numbers_exactly(operator, values) else None
    if operand is None:
        return args, kwargs
    position, number = operand
    recorder.number_inputs[id(number.value)] = number
    if position < len(args):
        return (*args[:position], number.value, *args[position + 1 :]), kwargs
    name = [*kwargs][position - len(args)]
    return args, {**kwargs, name: number.value}


# Files of the library between an operator's recorder and the step that calls the operator, its twin
# in place, or a composite that passes numbers on.
_PASSING = (__file__, inplace.__file__, torch_function.__file__, STUB_FILE)


def _find_caller() -> Any:
    """Return the frame that hands numbers to the recorded operator."""
    frame: Any = sys._getframe(2)
    while frame is not None and (frame.f_code.co_filename in _PASSING
                                 or frame.f_code in PASSES_NUMBERS):
        frame = frame.f_back
    return frame


def _flatten(result: Any) -> tuple:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def bypass_fast_path(twin: Any) -> Callable:
    """Return the recorder of an in-place function, which calls the operator's function."""
    return lambda original, args, kwargs: twin.by_function(*args, **kwargs)


def record_nothing(original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Call the function below a stub that no recording uses."""
    return original(*args, **kwargs)


def note_host_read(recorder: Recorder, name: str) -> None:
    """Note that a function returned a number read from a tensor."""
    recorder.problem(Reason(f"{name}() reads a tensor's values in Python", Advice.READ_OUTSIDE))


def _find_write(
    recorder: Recorder, function: Callable, first: Tensor | None, version: int, start: int
) -> tuple[Value | None, ...]:
    """Return the window that a call wrote in place, unless events since `start` say how.

    A function that only turns its tensor's window counts as a write, but writes nothing.
    """
    if first is None or get_version(first) <= version or hasattr(function, "turns_window"):
        return ()
    if any(e.kind not in (CONSTANT, EMPTY) for e in recorder.trace.events[start:]):
        return ()
    return (recorder.trace.value_of(first._array),)


def make_composite_recorder(recorder: Recorder, name: str, function: Any) -> Callable:
    """Return the recorder of the public function `name`, which is not an operator.

    The operators it calls are recorded. If they do not explain its results and writes, the
    whole call becomes one event.
    """

    def record(original: Callable, args: tuple, kwargs: dict) -> Any:
        if not recorder.on:
            return original(*args, **kwargs)
        recorder.public.add(name)
        first = args[0] if args and isinstance(args[0], Tensor) else None
        version = 0 if first is None else get_version(first)
        trace, refs = recorder.trace, None
        start = len(trace.events)
        if name.endswith("_") and not name.endswith("__"):
            refs = recorder.refer((args, kwargs))
            if not hasattr(function, "writes_by_operators"):
                recorder.compute()
        result = original(*args, **kwargs)
        if not recorder.on or recorder.trace is not trace:  # it ended the recording
            return result
        unknown = [y for y in collect_tensors(result) if recorder.trace.storage_of(y._array)
                   is None]
        if unknown and recorder.deferred is not None:
            del recorder.trace.events[start:]
            recorder.compute()
            result = original(*args, **kwargs)
            unknown = [y for y in collect_tensors(result) if recorder.trace.storage_of(y._array)
                       is None]
        wrote = () if refs is None else _find_write(recorder, function, first, version, start)
        if hasattr(function, "shape_depends_on_values"):
            recorder.problem(f"the shape of what {name} gives depends on values")
        if unknown or wrote:
            if any(item.__class__ is np.ndarray for item in _flatten((*args, *kwargs.values()))):
                recorder.problem(f"{name} gets a NumPy array")
            refs = refs or recorder.refer((args, kwargs))
            recorder.add(CALL, function=original, args=refs[0], kwargs=refs[1], written=wrote,
                         results=recorder.describe_results(flatten(result), (args, kwargs)))
        elif (result.__class__ in (bool, float) and collect_tensors(args)
              and hasattr(function, "answers_from_values")):
            note_host_read(recorder, name)
        return result

    return record


def make_module_recorder(recorder: Recorder) -> Callable:
    """Return the recorder of Module.__call__: it notes which modules run and their names."""

    def record(original: Callable, args: tuple, kwargs: dict) -> Any:
        if not recorder.on or not args:
            return original(*args, **kwargs)
        module = args[0]
        parent = recorder.modules[-1][0] if recorder.modules else None
        if parent is module:  # __call__ calls _call_impl
            return original(*args, **kwargs)
        running = recorder.modules  # a module may end the recording that it began in
        running.append((module, _find_name(parent, module)))
        recorder.trace.modules.append(weakref.ref(module))
        recorder.spaces.setdefault(id(module), (module, {**vars(module)}))
        if recorder.watcher is not None:
            recorder.watcher.note_module(sys._getframe(1), module)
        try:
            return original(*args, **kwargs)
        finally:
            running.pop()

    return record


def _find_name(parent: Module | None, module: Module) -> str:
    if parent is not None:
        for name, single in parent.named_modules():
            if single is module and name:
                return name
    return type(module).__name__
