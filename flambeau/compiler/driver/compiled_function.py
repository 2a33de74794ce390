"""flambeau.compile: record a step while it trains, compile it in the background, verify, switch.

With mode="now", the first call is recorded, and compiled if it is proved. Otherwise the first call
is a warm-up, and the next ones are recorded until a program is worth building. In both modes, a
program cached on disk serves the first call. A step whose Python must run is followed. A step that
cannot be compiled stays eager, with one warning that names the line. states.py lists the states.
"""

from __future__ import annotations

import copy
import functools
import operator
import sys
import threading
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any

from ...native.foundation.environment import CHECK
from ...native.foundation.transparent_frames import skip_in_stacks
from ...native.runtime.background_jit import recording
from ...native.runtime.frameless_call import DIRECT, MISS, Steps, call_in_python, install
from ...tensor.ambient import AMBIENT
from ..capture.capture import is_recording
from ..capture.record_writes import CALLED_THROUGH
from ..follow.hooks import ACTIVE
from ..trace.ambient_modes import read_ambient_modes
from ..trace.operands import flatten_call
from ..trace.trace_signature import load_signature, make_key
from .call_policy import CallPolicy
from .call_recorder import CallRecorder
from .explanation import write_explanation
from .fallback import Fallback
from .installation import Installer
from .program_builder import ProgramBuilder
from .specialization import Specialization
from .specializations import Specializations
from .stance import STANCE, is_watched
from .states import Building, Eager, Installed, New


class Compiled:
    """A compiled function. Dispatches calls to programs, or runs eagerly if none applies."""

    def __init__(self, function: Callable, options: dict[str, Any]) -> None:
        self._function, self._options = function, options
        policy = CallPolicy(options)
        builder = ProgramBuilder(policy)
        self._policy = policy
        self._specializations = Specializations(function, policy.max_specializations)
        self._programs = self._specializations.programs
        self._fallback = Fallback(function, policy, builder, self._specializations)
        self._installer = Installer(builder, self._specializations, self._fallback)
        self._recorder = CallRecorder(function, self._installer, self._fallback,
                                      self._specializations)
        self._lock = threading.RLock()
        self._of_classes: weakref.WeakKeyDictionary[type, Any] = weakref.WeakKeyDictionary()
        functools.update_wrapper(self, function, updated=())
        _instances.add(self)

    @skip_in_stacks
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, compiled if possible."""
        return call_in_python(self, args, kwargs)

    @skip_in_stacks
    def _flambeau_serve(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Return a program's result; DIRECT for calls to run as written; MISS for others."""
        session = ACTIVE.session
        if session is not None and session.thread == threading.get_ident():
            return DIRECT  # part of the followed call
        if STANCE.forces_eager or is_watched() and not is_recording():
            return DIRECT
        for program in self._programs:
            result = program.call(args, kwargs)
            if result is not MISS:
                self._specializations.note_use(program)
                return result
        if STANCE.forbids_new:
            STANCE.refuse(self._function, self._specializations.awaits(args, kwargs))
            return DIRECT
        return MISS

    def _flambeau_steps(self, args: tuple, kwargs: dict[str, Any]) -> Steps:
        """Return the steps of a call that no program serves: followed, or towards a program."""
        followed = self._fallback.followed
        if followed is not None and not AMBIENT.observers and self._fallback.follows(args, kwargs):
            return followed.steps(args, kwargs)
        return self._call_without_program(args, kwargs)

    _flambeau_function = property(operator.attrgetter("_function"))

    def attempt(self, *args: Any) -> Any:
        """Return a program's result for this call, or MISS, having run nothing, if none applies."""
        if STANCE.forces_eager or is_watched():
            return MISS
        for program in self._programs:
            result = program.call(args, {})
            if result is not MISS:
                return self._function(*args) if result is DIRECT else result
        return MISS

    @property
    def ready(self) -> bool:
        """Whether any program is ready."""
        return bool(self._programs)

    def is_cached(self, *args: Any) -> bool:
        """Whether a program for these arguments is cached on disk."""
        if CHECK.value():
            return False
        return load_signature(self._make_signature_key(args, {})) is not None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind as the function does: as a method, with one compiled function per object."""
        if instance is None or not hasattr(self._function, "__get__"):
            return self
        name = f"_flambeau_compiled_{id(self)}"
        space: Any = self._of_classes if isinstance(instance, type) else \
            getattr(instance, "__dict__", None)
        if space is None:  # of a class with slots
            return MethodType(self, instance)
        key = instance if space is self._of_classes else name
        known = space.get(key)
        if getattr(known, "__self__", None) is not instance:  # a copy has its original's entry
            known = space[key] = BoundCompiled(self, self._function.__get__(instance, owner))
        return known

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._function, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return self for a plain function; recompile a bound method for its new owner."""
        function = copy.deepcopy(self._function, memo)
        return self if function is self._function else Compiled(function, self._options)

    def __reduce__(self) -> Any:
        """Pickle by name if this object replaced its function, as a decorator does."""
        known: Any = sys.modules.get(getattr(self._function, "__module__", None) or "")
        name = getattr(self._function, "__qualname__", "")
        for part in name.split("."):
            known = getattr(known, part, None)
        return name if known is self else (Compiled, (self._function, self._options))

    def explain(self, level: int = 1, html: Any = None) -> str:
        """Return a report on the last call's program: its time and its compiled form.

        Level 1 lists the kernels with time, bytes, flops and share of the machine's limit; 2 adds
        the graph; 3 the groups of nodes that share a kernel; 4 the loops; 5 LLVM IR; 6 assembly.
        `html` names a file to write a page to that draws the step. The program runs several times,
        without side effects. Without a program, the report says why. Raises ValueError for other
        levels, and RuntimeError if a page is requested without a program.

        >>> double = torch.compile(lambda x: 2 * x, mode="now")
        >>> for _ in range(4):
        ...     y = double(torch.ones(64))
        >>> print(double.explain())
        <lambda>: 1 kernel, ...
        """
        return write_explanation(self._specializations, self._fallback, level, html)

    def forget(self) -> None:
        """Drop all programs and recordings."""
        with self._lock:
            self._specializations.forget()
            self._fallback.forget()

    def __repr__(self) -> str:
        return f"<compiled {getattr(self._function, '__qualname__', self._function)!s}>"

    # --------------------------------------------------------------- calls without a program

    @skip_in_stacks
    def _call_without_program(self, args: tuple, kwargs: dict[str, Any]) -> Steps:
        """Handle a call that no program serves."""
        if is_recording() or AMBIENT.observers or not self._lock.acquire(blocking=False):
            return (yield self._function, args, kwargs)
        counted = [(program.grads, program.grads.count_references()) for program in self._programs]
        try:
            return (yield from self._advance(args, kwargs))
        finally:
            for grads, before in counted:
                grads.restore_counts(before)
            self._lock.release()

    @skip_in_stacks
    def _advance(self, args: tuple, kwargs: dict[str, Any]) -> Steps:
        """Advance the specialization of a call, and run the call."""
        specialization = self._specializations.find(args, kwargs)
        if specialization is None:
            self._fallback.refuse_another()
            return (yield self._function, args, kwargs)
        state = specialization.state
        if isinstance(state, New) and self._policy.may_grow and self._specializations.grow():
            self._fallback.start_following("its arguments grow from call to call")
            return (yield from self._fallback.followed.steps(args, kwargs))
        if isinstance(state, New) and self._policy.may_follow and (
            self._specializations.replaces_layouts()
        ):
            self._fallback.start_following("a tensor that it keeps has another shape in each call")
            return (yield from self._fallback.followed.steps(args, kwargs))
        if isinstance(state, Eager):
            return (yield self._function, args, kwargs)
        if isinstance(state, Building):
            return (yield from self._await_program(specialization, state, args, kwargs))
        if isinstance(state, Installed):
            absent = state.program.bindings.list_absent_grads()
            if self._specializations.note_accumulation(absent):
                return (yield from self._advance(args, kwargs))
            leaves = [*flatten_call(args, kwargs), *self._specializations.carried.read_leaves()]
            self._specializations.invalidate(specialization, leaves)
        specialization.calls += 1
        try:
            self._load_signature(specialization, args, kwargs)
            if (specialization.calls > 1 or specialization.is_variant or self._policy.is_settled
                    or self._recorder.blocks_on_build(specialization)):
                with recording(self._policy.is_synchronous):
                    return (yield from self._recorder.record(specialization, args, kwargs))
            return (yield self._function, args, kwargs)
        except BaseException:
            specialization.calls -= 1  # interrupted; the next call may be the first to create state
            raise

    @skip_in_stacks
    def _await_program(self, specialization: Specialization, state: Building, args: tuple,
                       kwargs: dict[str, Any]) -> Steps:
        """Run a call whose program is being built; use the program if it is ready and applies."""
        if not state.pending.done.is_set():
            return (yield self._function, args, kwargs)
        self._installer.adopt(specialization, state.pending)
        adopted = specialization.state
        if isinstance(adopted, Installed):
            result = adopted.program.call(args, kwargs)
            if result is not MISS and result is not DIRECT:
                return result
            self._specializations.note_accumulation(adopted.program.bindings.list_absent_grads())
        return (yield self._function, args, kwargs)

    def _make_signature_key(self, args: tuple, kwargs: dict[str, Any]) -> str | None:
        """Return the cache key of the signature for these arguments."""
        return make_key(self._function, args, kwargs, self._specializations.carried.read_leaves(),
                        read_ambient_modes(), self._specializations.list_roots(), self._options)

    def _load_signature(self, specialization: Specialization, args: tuple,
                        kwargs: dict[str, Any]) -> None:
        """Load the signature for these arguments, at most once."""
        if not specialization.is_looked_up:
            specialization.is_looked_up = True
            specialization.signature_key = self._make_signature_key(args, kwargs)
            if not CHECK.value():
                specialization.signature = load_signature(specialization.signature_key)


class BoundCompiled(Compiled):
    """A compiled function bound to an object, in whose dictionary it lies."""

    def __init__(self, compiled: Compiled, method: Any) -> None:
        super().__init__(method, compiled._options)
        self.__self__, self.__func__ = method.__self__, compiled

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        owner = copy.deepcopy(self.__self__, memo)
        return self.__func__.__get__(owner, type(owner))

    def __reduce__(self) -> Any:
        # If the object that holds it has no such attribute, it makes another one when called.
        return getattr, (self.__self__, getattr(self, "__name__", ""), None)


install(Compiled)
CALLED_THROUGH.append(Compiled._flambeau_serve)
_instances: weakref.WeakSet[Compiled] = weakref.WeakSet()


def reset() -> None:
    """Drop the programs of all compiled functions."""
    for item in list(_instances):
        item.forget()
