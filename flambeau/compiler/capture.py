"""Capture: a Python step is run once, eagerly, and everything that it does is recorded.

While it runs, the functions of all operators are swapped for stubs that record (swap.py); what
goes past the operators is swapped too (bypass.py). Other threads pass through.
"""

from __future__ import annotations

import builtins
import functools
import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..autograd.mode import MODE
from ..autograd.tape import Node
from ..native.eager import Policy
from ..native.precision import Chosen
from ..nn.module import Module
from ..ops.autocast import AUTOCAST, POLICIES, STATE, cast_inputs
from ..ops.dispatch import _stub as _unwritten
from ..ops.dispatch import written
from ..ops.inplace import write_out
from ..ops.registry import OPERATORS, PUBLIC, Kind, Operator
from ..tensor.size import Size
from ..tensor.storage import owner_of
from ..tensor.tensor import Tensor, wrap
from .effects import Surroundings
from .leftovers import finish, live_outputs
from .reads import Number, forgotten, plain, reads
from .swap import Swap, clone
from .trace import (
    CALL, CONSTANT, EMPTY, OPERATOR, UPDATE, WRITE, Backward, Event, Trace, Value, address,
    values_in,
)  # fmt: skip

_LIBRARY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_ENGINE = os.path.join(_LIBRARY, "autograd", "engine.py")
_ALIASES = {"axis": "dim", "keepdims": "keepdim"}
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_UNDISTURBED = 0.1  # seconds that other threads wait for their turn
_capturing = threading.RLock()  # functions are swapped for all threads: one capture at a time


class Recorder:
    """What the stubs write to: the trace of the step that one thread runs."""

    def __init__(self, values: bool = True) -> None:
        self.trace = Trace(values)
        self.thread = threading.get_ident()
        self.quiet = 0  # inside an operator: what it calls is its own business
        self.drawing = False  # inside a function that draws random numbers
        self.counter, self.streams = False, 0  # whether draws are counted; how many there were
        self.keys: dict[Any, np.ndarray] = {}  # of the call, by generator
        self.modules: list[Any] = []
        self.lines: dict[int, tuple[str, str]] = {}  # where a node of the tape was made
        self.held: list[Any] = []
        self.surroundings: Surroundings | None = None
        self.code: Any = None  # of the step's own function
        self.floats: dict[int, Any] = {}  # floats read that are only returned, by id
        self.numbers: list[Any] = []  # weak references to the Numbers made, see reads.py

    @property
    def on(self) -> bool:
        """Whether what this thread does now is to be recorded."""
        return not self.quiet and threading.get_ident() == self.thread

    @property
    def here(self) -> bool:
        """Whether this is the thread of the step, inside an operator or not."""
        return threading.get_ident() == self.thread

    @contextmanager
    def silence(self) -> Any:
        """Nothing is recorded inside."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    # ---------------------------------------------------------------------------- values

    def refer(self, x: Any, line: str = "") -> Any:
        """Arguments with Values in place of tensors and arrays."""
        if isinstance(x, Tensor):
            if id(x) in self.trace.existing:
                self.trace.externals[id(x)] = x
            return self.window(x._array, line)
        if isinstance(x, np.ndarray):
            return self.window(x, line)
        if isinstance(x, _PLAIN):
            return x
        if isinstance(x, tuple):
            if isinstance(x, Size) or not hasattr(x, "_fields"):
                return tuple(self.refer(one, line) for one in x)
            return type(x)(*(self.setting(one, line) for one in x))
        if isinstance(x, list):
            return [self.refer(one, line) for one in x]
        if isinstance(x, dict):
            return {key: self.refer(one, line) for key, one in x.items()}
        return x

    def setting(self, x: Any, line: str) -> Any:
        """A part of an operator's settings: arrays in them are its own, and do not change."""
        own = isinstance(x, np.ndarray) and self.trace.value(x) is None
        return x if own else self.refer(x, line)

    def window(self, array: np.ndarray, line: str = "") -> Value | None:
        """The Value of an array; a problem where nobody knows how its memory came to be."""
        found = self.trace.value(array)
        if found is None and _caller() in _OF_SHAPES:
            return self.constant(array)
        if found is None:
            maker = self.trace.makers.get(id(owner_of(array)), "NumPy")
            found = self.trace.value(array, fresh=True)
            self.trace.problem(
                "it uses a tensor whose values were not computed by flambeau's operators, but by "
                f"{maker}", line or self.line()[0],
            )  # fmt: skip
        return found

    def made(self, result: Any) -> Any:
        """Results as Values on new memory."""
        if isinstance(result, Tensor):
            self.trace.tensors[id(result)] = weakref.ref(result)
            return self.trace.value(result._array, fresh=True)
        if isinstance(result, (tuple, list)):
            return tuple(self.made(one) for one in result)
        return None

    # ---------------------------------------------------------------------------- events

    def add(self, kind: str, **parts: Any) -> Event:
        """Appends an event, with the line and module that it comes from."""
        line, backward = self.line()
        module = ".".join(name for _, name in self.modules)
        event = Event(kind, line=line, module=module, backward=backward, **parts)
        self.trace.events.append(event)
        return event

    def line(self) -> tuple[str, bool]:
        """(file:line of the user's code that is running, whether it runs backward)."""
        frame: Any = sys._getframe(1)
        backward = False
        while frame is not None:
            code = frame.f_code
            if code.co_name == "apply" and isinstance(frame.f_locals.get("self"), Node):
                found = self.lines.get(id(frame.f_locals["self"]))
                backward = True
                if found is not None:
                    return found[0], True
            elif code.co_filename == _ENGINE:  # which adds gradients up
                backward = True
            if not code.co_filename.startswith((_LIBRARY, "<flambeau")):
                return f"{code.co_filename}:{frame.f_lineno}", backward
            frame = frame.f_back
        return "", backward

    def write(self, target: np.ndarray, source: np.ndarray, **parts: Any) -> None:
        """Records that `source` was written over `target`."""
        line, _ = self.line()
        into = self.trace.value(target, fresh=True)
        self.add(WRITE, args=(into, self.window(source, line)), **parts)

    def constant(self, array: np.ndarray, function: Any = None) -> Value:
        """Records that an array was made from nothing."""
        value = self.trace.value(array, fresh=True)
        assert value is not None
        self.add(CONSTANT, function=function, results=(value,), array=array.copy())
        return value

    def empty(self, array: np.ndarray, function: Any = None) -> None:
        """Records that memory was reserved."""
        self.add(EMPTY, function=function, results=(self.trace.value(array, fresh=True),))

    def problem(self, what: str) -> None:
        """Notes why this step cannot be compiled, and the line."""
        self.trace.problem(what, self.line()[0])

    # ------------------------------------------------------------------------- operators

    def operator(self, operator: Operator, swapped: bool = False) -> Callable:
        """The recorder of an operator's function; `swapped`: its operands arrive reversed."""
        policy = POLICIES.get(operator.name)

        def record(original: Callable, args: tuple, kwargs: dict) -> Any:
            if not self.on:
                return original(*args, **kwargs)
            if self.numbers:
                args = tuple(one._used() if one.__class__ is Number else one for one in args)
            out = kwargs.pop("out", None) if "out" not in operator.names else None
            given = (args[1], args[0]) if swapped and len(args) == 2 else args
            bound = bind(operator, given, kwargs)
            if bound is None:
                return original(*args, **kwargs)  # says what is wrong with them
            if policy is not None and AUTOCAST.count and STATE.enabled:
                bound = cast_inputs(policy, bound)
                args, kwargs = unbind(operator, bound)
            refs = self.refer(bound)
            with self.silence():
                result = original(*args, **kwargs)
            if result is NotImplemented:
                return result
            self.result(operator, refs, bound, result)
            return result if out is None else write_out(operator, result, out)

        return record

    def result(self, operator: Operator, refs: tuple, bound: tuple, result: Any) -> None:
        """Records an operator's results, unless they are windows on memory of its arguments."""
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        seen = {id(owner_of(a)) for a in arrays_in(bound)}
        by_mask = operator.name in ("index", "_masked_select") and any(
            a.dtype == np.bool_ for a in arrays_in(bound[1:])
        )
        if by_mask or operator.name in _SHAPED_BY_VALUES:
            self.problem(f"the shape of what {operator.name} gives depends on values")
        fresh = [y for y in outputs if isinstance(y, Tensor)
                 and id(owner_of(y._array)) not in seen]  # fmt: skip
        for y in outputs:
            if isinstance(y, Tensor):
                self.trace.tensors[id(y)] = weakref.ref(y)
        if not fresh and operator.kind is not Kind.COMPOSITE and not _writes(operator):
            return
        results = tuple(
            self.trace.value(y._array, fresh=True) if isinstance(y, Tensor) else None
            for y in outputs
        )
        event = self.add(OPERATOR, operator=operator, args=refs, results=results)
        node = outputs[0]._node if isinstance(outputs[0], Tensor) else None
        if node is not None:
            node = node.shown()
            self.lines.setdefault(id(node), (event.line, event.module))

    # --------------------------------------------------------- functions made of operators

    def checked(self, name: str) -> Callable:
        """The recorder of a public function that is no operator.

        What it calls is recorded. Results or writes that nothing recorded explains make an event
        of the whole call.
        """

        def record(original: Callable, args: tuple, kwargs: dict) -> Any:
            if not self.on:
                return original(*args, **kwargs)
            first = args[0] if args and isinstance(args[0], Tensor) else None
            version = 0 if first is None else first._version
            start = len(self.trace.events)
            refs = None
            if name.endswith("_") and not name.endswith("__"):
                refs = self.refer((args, kwargs))
            result = original(*args, **kwargs)
            if not self.on:
                return result
            unknown = [y for y in tensors_in(result) if self.trace.storage(y._array) is None]
            wrote = ()
            if refs is not None and first is not None and first._version > version:
                new = self.trace.events[start:]
                if not any(e.kind not in (CONSTANT, EMPTY) for e in new):
                    wrote = (self.trace.value(first._array),)
            if name in _SHAPED_BY_VALUES:
                self.problem(f"the shape of what {name} gives depends on values")
            if unknown or wrote:
                refs = refs or self.refer((args, kwargs))
                self.add(CALL, function=original, args=refs[0], kwargs=refs[1],
                         results=self.made(_flat(result)), written=wrote)  # fmt: skip
            elif result.__class__ in (bool, float) and tensors_in(args) and name in _ANSWERS:
                self.problem(f"{name}() reads values of tensors in Python")
            return result

        return record


# Families whose operators get plain arrays that were made of nothing but shapes.
_OF_SHAPES = frozenset(("flambeau.ops.interpolation", "flambeau.ops.adaptive_pool"))


def _caller() -> str:
    """The library's module that called what is being recorded."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != __name__ and not frame.f_code.co_filename.startswith("<flambeau"):
            return name
        frame = frame.f_back
    return ""


_SHAPED_BY_VALUES = frozenset((
    "nonzero", "argwhere", "unique", "unique_consecutive", "masked_select", "bincount",
))  # fmt: skip
_ANSWERS = frozenset(("equal", "allclose", "is_nonzero"))


def _flat(result: Any) -> tuple:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _writes(operator: Operator) -> bool:
    from .lower.registry import WRITES

    return operator.name in WRITES


def bind(operator: Operator, args: tuple, kwargs: dict) -> tuple | None:
    """All the parameters of an operator in order, as its body gets them; None for a misfit."""
    found = []
    given = {_ALIASES[k] if k in _ALIASES and k not in operator.names else k: v
             for k, v in kwargs.items() if k != "out" or "out" in operator.names}  # fmt: skip
    at = 0
    for p in operator.parameters:
        if p.kind is p.VAR_POSITIONAL:
            rest = given.pop(p.name) if p.name in given else args[at:]
            at = len(args)
            if len(rest) == 1 and rest[0].__class__ in (tuple, list, Size):
                rest = tuple(rest[0])
            found.append(tuple(rest))
        elif at < len(args) and p.kind is not p.KEYWORD_ONLY:
            found.append(args[at])
            at += 1
        elif p.name in given:
            found.append(given.pop(p.name))
        elif p.kind is p.VAR_KEYWORD:
            found.append(given)
            given = {}
        elif p.default is not p.empty:
            found.append(p.default)
        else:
            return None
    return tuple(found) if not given and at == len(args) else None


def unbind(operator: Operator, bound: tuple) -> tuple[tuple, dict]:
    """(args, kwargs) for a body or function from all the parameters in order."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for p, value in zip(operator.parameters, bound, strict=True):
        if p.kind is p.VAR_POSITIONAL:
            args.extend(value)
        elif p.kind is p.KEYWORD_ONLY:
            kwargs[p.name] = value
        elif p.kind is p.VAR_KEYWORD:
            kwargs.update(value)
        else:
            args.append(value)
    return tuple(args), kwargs


def tensors_in(x: Any) -> list[Tensor]:
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(x, Tensor):
        return [x]
    if isinstance(x, (tuple, list)):
        return [t for one in x for t in tensors_in(one)]
    if isinstance(x, dict):
        return tensors_in(list(x.values()))
    return []


def arrays_in(x: Any) -> list[np.ndarray]:
    """The arrays of tensors, and plain arrays, in nested tuples, lists and dicts."""
    if isinstance(x, Tensor):
        return [x._array]
    if isinstance(x, np.ndarray):
        return [x]
    if isinstance(x, (tuple, list)):
        return [a for one in x for a in arrays_in(one)]
    if isinstance(x, dict):
        return arrays_in(list(x.values()))
    return []


# ------------------------------------------------------------------------------ swapping


class LateSwap(Swap):
    """An operator whose function is not written yet: it is when the capture calls it."""

    __slots__ = ("made", "operator")

    def __init__(self, function: Any, recorder: Callable, operator: Operator) -> None:
        self.operator, self.made = operator, None
        super().__init__(function, lambda _, args, kwargs: recorder(self.call, args, kwargs))

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the operator's own function, writing it first."""
        if self.made is None:
            self.operator.source, self.made = written(self.operator)
            self.function.__globals__.update(self.made.__globals__)
            self.code, self.defaults = self.made.__code__, self.made.__defaults__
            self.kwdefaults = self.made.__kwdefaults__
        return self.made(*args, **kwargs)


def _functions(recorder: Recorder) -> list[tuple[Any, Callable, Operator | None]]:
    """Every function to swap, with its recorder."""
    from .bypass import bypasses

    found: dict[int, tuple[Any, Callable, Operator | None]] = {}
    for function, record in bypasses(recorder):
        found[id(function)] = (function, record, None)
    for operator in OPERATORS.values():
        if operator.kind is not Kind.COMPOSITE:
            entry = (operator.function, recorder.operator(operator), operator)
            found.setdefault(id(operator.function), entry)
            twin = getattr(operator, "twin", None)
            if twin is not None:
                found.setdefault(id(twin), (twin, _through(twin), None))
    for function in vars(Tensor).values():
        if _is_function(function) and id(function) not in found:
            free = function.__code__.co_freevars
            if "operator" in free and "body" in free:  # the closures of Python's own operators
                operator = function.__closure__[free.index("operator")].cell_contents
                record = recorder.operator(operator, swapped="forward" in free)
                found[id(function)] = (function, record, operator)
    for names in PUBLIC.values():
        for name, function in names.items():
            if _is_function(function) and id(function) not in found:
                found[id(function)] = (function, recorder.checked(name), None)
    return list(found.values())


def _is_function(x: Any) -> bool:
    return type(x) is type(_is_function)


def _through(twin: Any) -> Callable:
    """The recorder of an in-place twin: it runs without its short cut, so that its parts show."""
    free = twin.__code__.co_freevars
    cells = list(twin.__closure__)
    cells[free.index("direct")] = type(cells[0])(None)
    longer = clone(twin, tuple(cells))
    return lambda original, args, kwargs: longer(*args, **kwargs)


def _swapped(recorder: Recorder) -> list[Swap]:
    swaps: list[Swap] = []
    try:
        for function, record, operator in _functions(recorder):
            if operator is not None and function.__code__ is _unwritten.__code__:
                swaps.append(LateSwap(function, record, operator))
            else:
                swaps.append(Swap(function, record))
    except BaseException:
        _restore(swaps)
        raise
    return swaps


def _restore(swaps: list[Swap]) -> None:
    for swap in reversed(swaps):
        swap.restore()


# ------------------------------------------------------------------------------ capturing


def busy() -> bool:
    """Whether this thread is inside a capture."""
    return _recorders.current is not None


def _printed(recorder: Recorder, real: Callable, *args: Any, **kwargs: Any) -> None:
    """print while a step is recorded."""
    if recorder.on:
        recorder.problem("print() would be silent in compiled calls")
    real(*args, **kwargs)


def note(problem: str) -> None:
    """Adds a reason why the step that is being recorded cannot be compiled."""
    if _recorders.current is not None:
        _recorders.current.problem(problem)


class _Current(threading.local):
    current: Recorder | None = None


_recorders = _Current()


def capture(
    function: Callable, args: tuple, kwargs: dict, values: bool = True, counter: bool = False
) -> tuple[Any, Trace | None]:
    """Runs function(*args, **kwargs); what it gives, and its trace.

    `values`: whether the trace is to have what memory held, as a graph's check wants it.
    `counter`: whether random numbers are those of a counter.

    The trace is None when another thread is capturing. What the function raises goes through.
    """
    if not _capturing.acquire(blocking=False):
        return function(*args, **kwargs), None
    try:
        if busy():
            return function(*args, **kwargs), None
        recorder = Recorder(values)
        recorder.counter = counter
        trace = recorder.trace
        recorder.held.append(_remember(trace, args, kwargs))
        recorder.surroundings = Surroundings(function, args, kwargs)
        swaps = _swapped(recorder)
        _recorders.current = recorder
        Policy.counts = False
        real = builtins.print
        builtins.print = functools.partial(_printed, recorder, real)
        try:
            recorder.code = getattr(getattr(function, "__func__", function), "__code__", None)
            returned = function(*args, **kwargs)
            result = plain(returned)
            trace.result = recorder.surroundings.note(trace, reads(returned, recorder.floats))
            record_backward(recorder, args, kwargs)
            del returned
        finally:
            builtins.print = real
            Policy.counts = True
            _recorders.current = None
            _restore(swaps)
            if recorder.numbers:
                recorder.surroundings.clean()
                if not forgotten(recorder.numbers):
                    trace.problem("item() reads a tensor's values in Python", "")
        finish(trace)
        _find_holders(trace, recorder.held[0][0])
        return result, trace
    finally:
        _capturing.release()


def _find_holders(trace: Trace, tensors: list[Any]) -> None:
    """Tensors outside whose memory the step met through views alone (`w[:]`, `w.detach()`): when
    they are given other memory, that must be seen."""
    arguments = {s.number for s in trace.storages if s.name.startswith("argument")}
    met = {v.storage for e in trace.events if e.kind != UPDATE
           for v in values_in((e.args, e.kwargs))}  # fmt: skip
    updated = {v.storage for e in trace.events if e.kind == UPDATE for v in values_in(e.args)}
    covered = {id(owner_of(t._array)) for t in trace.externals.values()}
    owners = {id(s.owner) for s in trace.storages
              if s.external and s.number in met - arguments - updated} - covered  # fmt: skip
    for tensor in tensors if owners else ():
        if id(tensor) in trace.existing and id(owner_of(tensor._array)) in owners:
            trace.externals[id(tensor)] = tensor


def record_backward(recorder: Recorder, args: tuple, kwargs: dict) -> None:
    """Records how cotangents of outputs that are part of a graph reach the tensors outside.

    The graph stays whole, for whoever goes backward through the recorded call itself.
    """
    from ..autograd import grad

    trace = recorder.trace
    outputs = live_outputs(trace)
    if not outputs or trace.problems:
        return
    given = {id(t): t for t in tensors_in((args, kwargs))}
    inputs = [t for t in {**given, **trace.externals}.values() if t.requires_grad]
    draw = np.random.RandomState(0)
    cotangents = []
    for y in outputs:
        shape = y._array.shape
        made = np.asarray(draw.standard_normal(shape)).astype(y._array.dtype)
        trace.known.add(id(made))
        cotangents.append(made)
    backward = trace.backward = Backward(len(trace.events), outputs, cotangents, inputs)
    for made in cotangents:
        storage = trace.storage(made)
        assert storage is not None
        storage.name = f"argument cotangent {storage.number}"
    try:
        found = grad(outputs, inputs, [wrap(g) for g in cotangents], retain_graph=True,
                     allow_unused=True)  # fmt: skip
    except RuntimeError:  # a part of the graph was freed: who goes backward will hear of it
        trace.problem("it returns a tensor of whose graph backward has been through a part; return "
                      "tensor.detach()", "")  # fmt: skip
        return
    for g in found:
        backward.grads.append(None if g is None else trace.value(g._array))
        backward.arrays.append(None if g is None else g._array.copy())


def autocast_now() -> tuple | None:
    """This thread's autocast dtype, as a tuple; None where it is off."""
    return (STATE.dtype,) if AUTOCAST.count and STATE.enabled else None


def _remember(trace: Trace, args: tuple, kwargs: dict) -> list[Any]:
    """Notes which memory is there before the step; the objects, to keep their ids theirs."""
    trace.modes = (MODE.grad, MODE.inference, autocast_now(), Chosen.parts)
    tensors = _alive(_classes(Tensor))
    arrays = [o._array for o in tensors]
    owners = [owner_of(a) for a in (*arrays, *arrays_in((args, kwargs)))]
    trace.known.update(map(id, owners))
    given = {id(t) for t in tensors_in((args, kwargs))}
    trace.existing = {id(t) for t in tensors} - given
    for i, array in enumerate(arrays_in((args, kwargs))):
        storage = trace.storage(array)
        if storage is not None and not storage.name:
            storage.name = f"argument {i}"
            storage.start = address(array) - address(storage.owner)
    return [tensors, owners]


def _alive(kinds: set[type]) -> list[Any]:
    """All objects of these classes. No other thread runs meanwhile: what holds all objects also
    holds a tuple that a thread is about to fill, which would be a SystemError there."""
    interval, collects = sys.getswitchinterval(), gc.isenabled()
    sys.setswitchinterval(_UNDISTURBED)
    gc.disable()
    try:
        time.sleep(0)  # who asked for a turn before has it; the next waits for so long
        return [o for o in gc.get_objects() if type(o) in kinds]
    finally:
        sys.setswitchinterval(interval)
        if collects:
            gc.enable()


def _classes(base: type) -> set[type]:
    """A class and all that are made of it: looked up faster than issubclass answers."""
    return {base}.union(*map(_classes, type.__subclasses__(base)))


def module_recorder(recorder: Recorder) -> Callable:
    """The recorder of Module.__call__: which modules run, and under which names."""

    def record(original: Callable, args: tuple, kwargs: dict) -> Any:
        if not recorder.on or not args:
            return original(*args, **kwargs)
        module = args[0]
        parent = recorder.modules[-1][0] if recorder.modules else None
        if parent is module:  # __call__ goes on to _call_impl
            return original(*args, **kwargs)
        recorder.modules.append((module, _name_in(parent, module)))
        recorder.trace.modules.append(weakref.ref(module))
        try:
            return original(*args, **kwargs)
        finally:
            recorder.modules.pop()

    return record


def _name_in(parent: Module | None, module: Module) -> str:
    if parent is not None:
        for name, one in parent.named_modules():
            if one is module and name:
                return name
    return type(module).__name__
