"""Watch CPython execute one call, opcode by opcode, to prove that its Python may be skipped.

Each frame outside the library gets a shadow stack that advances in lock-step with the opcodes that
CPython executes. Nothing is interpreted: code that the watcher does not understand runs as usual,
but leaves the call unproved. A watched opcode costs 2 to 6 us.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from ...native.foundation.context_wrappers import is_wrapper_code
from ...native.foundation.transparent_frames import is_skipped
from ...nn import functional
from ..trace.host_numbers import Read
from . import control_opcodes, newer_opcodes, object_opcodes, stack_opcodes
from .bytecode import keeps_locals
from .call_results import settle
from .calls import enter, invoke, is_collection_callback
from .consumption import handle, returns_to_stack
from .contents import guard_if_container
from .declarations import (
    READS_VALUES, UNGUARDED, is_in_library, is_in_standard_library, is_served,
)
from .facts import Facts, collect_outside_containers
from .guards import Proof, Test
from .numbers.decisions import name_arguments
from .numbers.inputs import conclude
from .provenance import UNKNOWN, Kind, NotProvedError, Provenance
from .shadow_frame import Runs, ShadowFrame
from .state.carried_places import list_replaced
from .state.module_state import declare_called_module
from .state.tensor_state import TensorState
from .stores import Store, replace_numbers

TABLES = (control_opcodes, object_opcodes, stack_opcodes, newer_opcodes)
# Python versions whose opcodes have handlers.
WATCHED_VERSIONS = ((3, 11), (3, 12), (3, 13), (3, 14))
# Before 3.13, `f_locals` is a copy that only another access refreshes. A stale copy would keep
# deleted objects alive.
SNAPSHOTS_LOCALS = sys.version_info < (3, 13)
_SERVES = "_flambeau_serve"  # runs before a compiled function that the step calls


def _describe_shared_container(ids: Sequence[int], outside: Container[int]) -> str:
    """Return why a program cannot recreate the lists and dicts of these ids; "" if it can."""
    if len(set(ids)) < len(ids):
        return "one list or dict lies at two places of what it returns or stores"
    if any(i in outside for i in ids):
        return "it returns or stores a list or dict that was there before"
    return ""


def _guard_public_functions(facts: Facts, public: Iterable[str]) -> None:
    names = vars(functional)
    path = facts.constant(names)
    for name in sorted(names.keys() & public):
        facts.guard(f"{path}[{name!r}]", Test.IDENTITY, names[name])


class Watcher:
    """A context that watches one call of a function; `conclude` returns what was proved."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
        leaves: list[Any], existing: Container[int], oracle: Callable[..., int] | None = None,
    ) -> None:
        """`leaves`: the flattened arguments. `existing`: see Facts. `oracle`: for tests; counts
        slots of the real stack whose objects differ from the shadow's."""
        self.facts = Facts(existing)
        self.proof: Proof = self.facts.proof
        self.shadows: dict[Any, ShadowFrame] = {}
        self._function, self._args, self._kwargs, self._leaves = function, args, kwargs, leaves
        self._oracle = oracle
        self.mismatches = 0
        self._is_tracing = False
        self._library_code: dict[int, types.CodeType] = {}  # by id: comparing code is slow
        self._outside: dict[int, Any] = {}  # outside lists and dicts seen during the call, by id
        self._root = ShadowFrame()  # the frame that calls the function
        self._result: Provenance | None = None  # what the call returned
        self.stores: list[Store] = []  # writes to outside objects, until read

    def __enter__(self) -> Watcher:
        if sys.version_info[:2] not in WATCHED_VERSIONS:
            self._refuse("", 0, "the opcodes of this version of Python are not known")
            return self
        if sys.gettrace() is not None:
            self._refuse("", 0, "a debugger or a coverage tool watches this thread")
            return self
        caller = _find_caller(sys._getframe(1))
        self.shadows[caller], self.facts.root = self._root, caller
        try:
            self._bind_arguments(self._root)
        except NotProvedError as error:
            self._refuse("", 0, error.reason)
            return self
        self._is_tracing = True
        sys._getframe().f_trace_opcodes = True  # Python 3.12 reads this flag when tracing starts
        sys.settrace(self._start)
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self._is_tracing:
            sys.settrace(None)
        if error is not None:
            self._refuse("", 0, "it raised an exception")
        call = self._root.call
        self._result = None if call is None else call.seen.watched_result
        if problem := conclude(self.facts, call is not None and call.seen.entered_callee):
            self._refuse("", 0, problem)
        self.stores = self.facts.close_stores()
        self.proof.replaced = list_replaced(self.facts.reads, self.facts.stores)
        self._refuse_cleanups()
        self.shadows.clear()
        self._outside = collect_outside_containers(self.facts)
        self.facts.forget()

    def _refuse_cleanups(self) -> None:
        """Refuse a generator suspended within `try` or `with`: its handlers run when it dies, after
        watching has ended."""
        for frame, shadow in [*self.shadows.items()]:
            if shadow.is_suspended and shadow.cleans_up():
                self._refuse_at(frame, "a generator is dropped before its `try` or `with` ends")

    def conclude(self, public: Iterable[str] = (), container_ids: Sequence[int] = (),
                 compared: Container[int] = ()) -> Proof:
        """Check all guards again after the call and return the proof. `public`: names of the public
        functions that ran; library modules look them up in `nn.functional`. `container_ids`: ids of
        lists and dicts that the call returned or stored; a program recreates them. `compared`: ids
        of outside tensors whose memory the program compares."""
        proof = self.proof
        if problem := _describe_shared_container(container_ids, self._outside):
            self._refuse("", 0, problem)
        _guard_public_functions(self.facts, public)
        self.facts.guard_classes()
        self.facts.guard_tensors(compared)
        self.facts.drop_guards()
        proof.replaced = proof.replaced if proof.holds else []
        if proof.holds and (failing := proof.first_failing(self._leaves, is_after=True)):
            self._refuse(*failing.line, proof.depends_on(failing.path))
        return proof

    def read_result(self, returned: Any) -> Any:
        """Return the call's result, with Reads in place of numbers from tensors."""
        try:
            return replace_numbers(returned, self._result, self.proof.reads_numbers)
        except NotProvedError as error:
            self._refuse(*self.facts.read_line, error.reason)
        return returned

    def read_stores(self) -> list[tuple[Store, Any]]:
        """Return (store, current value) pairs, with Reads in place of tensors' numbers."""
        result = []
        for store in self.stores if self.proof.holds else ():
            try:
                result.append((store, store.read(self.proof.reads_numbers)))
            except NotProvedError as error:
                self._refuse(*store.line, error.reason)
        self.stores, self._result = [], None
        return result if self.proof.holds else []

    def note_module(self, frame: Any, module: Any) -> None:
        """Record that a module runs, called from `frame`."""
        if self._is_tracing and not self.proof.refusals:
            self._attempt(frame, lambda: declare_called_module(self.facts, module))

    def note_number(self, value: Any, read: Read, line: tuple[str, int]) -> None:
        """Record that item() returned a number at this line; its uses are watched."""
        self.facts.last_read, self.proof.reads_numbers = (value, read), True
        self.facts.read_line = line

    def _refuse(self, file: str, line: int, why: str) -> None:
        self.proof.refusals.append((file, line, why))
        self.stores, self._result, self._root = [], None, ShadowFrame()
        self.facts.forget()  # the step may check whether its objects are alive
        self.facts.tensors = TensorState()
        self.shadows.clear()

    def _bind_arguments(self, root: ShadowFrame) -> None:
        facts, function = self.facts, self._function
        operands, named = name_arguments(facts, self._args, self._kwargs, self._leaves)
        callee = Provenance(Kind.OUTSIDE, function, facts.constant(function))
        facts.known[id(function)] = callee
        root.stack.append(invoke(facts, sys._getframe(2), root, callee, operands, named))

    # ------------------------------------------------------------------------------- frames

    def _start(self, frame: Any, event: str, arg: Any) -> Any:
        """Trace function for a frame that starts or resumes."""
        caller, code = _find_watched_caller(frame), frame.f_code
        above = self.shadows.get(caller)
        if id(code) in self._library_code or is_in_library(code):
            self._library_code[id(code)] = code
            return None if above is None else self._start_library(frame, above)
        if self.proof.refusals or is_collection_callback(frame):
            return None
        if SNAPSHOTS_LOCALS and keeps_locals(code):
            self._refuse_at(frame, "it keeps a dict of its local variables")
            return None  # each event would refresh the dict
        shadow = self.shadows.get(frame)
        if shadow is None:
            if above is None and _is_called_by_library(self.shadows, frame, caller):
                return None  # called by the library internally
            if _is_performed(self.shadows, caller):
                return None
            shadow = self._attempt(frame, lambda: enter(self.facts, frame, above))
            if shadow is None:
                return None
            self.shadows[frame] = shadow
        frame.f_trace = self._step  # set before the flag: Python 3.13 reads both at once
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _start_library(self, frame: Any, above: ShadowFrame) -> Any:
        name = frame.f_code.co_name
        if above.call is None or name == _SERVES or is_skipped(frame.f_code):
            return None
        if name in UNGUARDED and not self.proof.refusals:
            self._refuse_at(frame.f_back, f"it reads {name} of a tensor, which no guard covers")
            return None
        if name in READS_VALUES and above.call.name != name:
            above.call.seen.read_values = True
        frame.f_trace_lines = False
        return self._leave_library

    def _leave_library(self, frame: Any, event: str, arg: Any) -> Any:
        above = self.shadows.get(frame.f_back)
        if event == "return" and above is not None and above.call is not None:
            returned = above.call.seen.library_result
            # Later returns come from callbacks that belong to the operands.
            if returned is None or returned[0] is NotImplemented:
                above.call.seen.library_result = arg, frame.f_code.co_name
        return self._leave_library

    def _attempt(self, frame: Any, action: Callable[[], Any]) -> Any:
        """Run a part of the proof, without letting its errors reach the step."""
        try:
            return action()
        except NotProvedError as error:
            self._refuse_at(frame, error.reason)
        except Exception as error:
            self._refuse_at(frame, f"the watcher does not follow ({describe_failure(error)})")
        return None

    def _refuse_at(self, frame: Any, why: str) -> None:
        """Refuse with the line in user code; if it happened in other code, name that line too."""
        self.facts.look()  # the step's next actions are unknown
        code = frame.f_code
        caller = frame
        while caller is not None and (
            is_in_standard_library(caller.f_code) or caller.f_code.co_filename.startswith("<")
            or is_in_library(caller.f_code)
        ):
            caller = caller.f_back
        if caller is None or caller is frame:
            self._refuse(code.co_filename, frame.f_lineno, why)
        else:
            location = f"{code.co_filename}:{frame.f_lineno}"
            self._refuse(caller.f_code.co_filename, caller.f_lineno, why + f", in {location}")

    # ------------------------------------------------------------------------------ opcodes

    def _step(self, frame: Any, event: str, arg: Any) -> Any:
        """Trace function for an opcode about to run, or for leaving the frame."""
        if self.proof.refusals:
            frame.f_trace_opcodes = SNAPSHOTS_LOCALS
            return self._step if SNAPSHOTS_LOCALS and frame.f_locals is not None else None
        shadow = self.shadows[frame]
        if event == "opcode":
            self._attempt(frame, lambda: self._handle_opcode(frame, shadow))
        elif event == "return":
            self._attempt(frame, lambda: self._leave(frame, shadow, arg))
        return self._step

    def _handle_opcode(self, frame: Any, shadow: ShadowFrame) -> None:
        self.proof.opcodes += 1
        offset = frame.f_lasti
        instruction = shadow.instructions[offset]
        if _repeats(shadow, instruction, offset):
            return
        if shadow.last >= 0:
            settle(self.facts, shadow)
        self.facts.last_read = None
        if shadow.after_jump is not None:
            after, shadow.after_jump = shadow.after_jump, None
            after(offset)
        shadow.enter_handler(offset)
        if self._oracle is not None:
            self.mismatches += self._oracle(frame, shadow)
        shadow.last = instruction.offset
        self.facts.line = frame.f_code.co_filename, frame.f_lineno
        handle(self.facts, frame, shadow, instruction)

    def _leave(self, frame: Any, shadow: ShadowFrame, arg: Any) -> None:
        """Handle a watched function that returns or yields."""
        result = shadow.result or Provenance(Kind.PLAIN)
        if result.tainted:
            _taint_caller(self.shadows, frame)
        shadow.is_suspended = shadow.instructions[shadow.last].opname == "YIELD_VALUE"
        if shadow.is_suspended:
            return
        if result.value is UNKNOWN:
            result = self.facts.resolve(result, arg)
        above = self.shadows.get(_find_watched_caller(frame))
        call = None if above is None else above.call
        if not returns_to_stack(call, shadow, above, self._root):
            self.facts.need(result)
            guard_if_container(self.facts, result)
        if call is not None and (call.callee_code is shadow.code or call.runs is Runs.ANY_CODE):
            call.seen.watched_result = result


def _find_caller(frame: Any) -> Any:
    """Return the frame that calls the step: the one below the steps of a frameless call."""
    while frame is not None and is_skipped(frame.f_code) \
            and frame.f_code.co_flags & inspect.CO_GENERATOR:
        frame = frame.f_back
    return frame


def _find_watched_caller(frame: Any) -> Any:
    """Return the frame that called a frame, but for wrappers that only enter a context."""
    caller = frame.f_back
    while caller is not None and is_wrapper_code(caller.f_code):
        caller = caller.f_back
    return caller


def _taint_caller(shadows: Mapping[Any, ShadowFrame], frame: Any) -> None:
    caller = frame.f_back
    while caller is not None and caller not in shadows:
        caller = caller.f_back
    shadow = shadows.get(caller)
    if shadow is not None and shadow.call is not None:
        shadow.call.seen.read_values = True


def _is_called_by_library(shadows: Mapping[Any, ShadowFrame], frame: Any, caller: Any) -> bool:
    """Whether a frame of Python's or NumPy's code runs on behalf of the library."""
    while caller is not None and caller not in shadows:
        if is_in_library(caller.f_code):
            return is_served(frame)
        caller = caller.f_back
    return False


def _is_performed(shadows: Mapping[Any, ShadowFrame], caller: Any) -> bool:
    """Whether a frame started by `caller` runs on behalf of a call that the program makes."""
    while caller is not None:
        shadow = shadows.get(caller)
        if shadow is not None:
            return shadow.call is not None and shadow.call.runs is Runs.PERFORMED
        caller = caller.f_back
    return False


def _repeats(shadow: ShadowFrame, instruction: Any, offset: int) -> bool:
    """Whether this instruction was already handled at its EXTENDED_ARG prefix."""
    return (
        shadow.last == instruction.offset == offset
        and shadow.instructions.get(offset - 2) is instruction
    )


def describe_failure(error: Exception) -> str:
    """Describe an error of the watcher itself."""
    return f"{type(error).__name__}: {error}"
