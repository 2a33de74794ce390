"""Hooks: stubs that replace the code of functions that a followed call intercepts.

A stub stays in place between followed calls. When eager code calls it, it restores the function's
original code. Eager code thus pays for a hook at most once per followed call, and processes without
followed calls pay nothing.
"""

from __future__ import annotations

import functools
import threading
import time
import types
from collections.abc import Callable
from typing import Any

from ...native.foundation.generated_code import define
from ...ops.core.dispatch import run_unwritten as _unwritten
from ...ops.interception.code_patching import (
    ENDS, FOLLOWING_STUB_FILE, STUBS, clone, hide_original, show_original, write_aside,
)


class _Active:
    """The followed call running in this process; at most one.

    thread: the thread of the latest followed call.
    cue: the inline cache of the next expected function; None if unknown.
    """

    __slots__ = ("cue", "session", "thread")

    cue: Any
    session: Any
    thread: int


ACTIVE = _Active()
ACTIVE.session, ACTIVE.thread, ACTIVE.cue = None, 0, None

_SOURCE = """
def outer({free}):
    def stub(*args, **kwargs):
        {free_or_pass}
        hook = 1234567
        active = 7654321
        cue = active.cue
        if cue is not None and cue.hook is hook and active.thread == hook.ident():
            return cue.take(args, kwargs)
        session = active.session
        if session is None or session.thread != hook.ident():
            return hook.outside(args, kwargs)
        if session.quiet{unless}:
            return hook.original(*args, **kwargs)
        if session.recorder is None:
            return session.follow(hook, args, kwargs)
        return session.record(hook, args, kwargs)
    return stub
"""


@functools.cache
def _template(free: int, always: bool) -> types.CodeType:
    names = [f"free{i}" for i in range(free)]
    source = _SOURCE.format(free=", ".join(names), free_or_pass="; ".join(names) or "pass",
                            unless=" and not hook.always" if always else "")
    space: dict[str, Any] = {}
    define(source, FOLLOWING_STUB_FILE, space)
    code: types.CodeType = space["outer"](*names).__code__
    return code


class Hook:
    """One intercepted function.

    record(original, args, kwargs): replaces the function while a segment is recorded.
    follow(session, args, kwargs): replaces the function while a segment is followed.
    always: intercept it inside operators too.
    only_recording: intercept it only while a segment is recorded.
    """

    ident = staticmethod(threading.get_ident)

    def __init__(self, function: Any, record: Callable, follow: Callable, operator: Any = None,
                 always: bool = False, only_recording: bool = False) -> None:
        self.only_recording = only_recording
        self.function, self.record, self.follow = function, record, follow
        self.operator, self.always = operator, always
        self.stub: Any = None
        # For inline caches. Operators: the binder, whether the operands arrive swapped, and whether
        # autocast casts them. Composites: a function that extracts the plain arguments.
        self.binder: Any = None
        self.swapped = self.policy = False
        self.plain: Callable[[tuple, dict[str, Any]], tuple] | None = None
        self.makes_constants = False  # from plain arguments alone
        # Whether it calls the same operators for the same arguments, so that it need not run, and
        # the settings that it reads.
        self.repeats_operators = False
        self.settings: tuple[Callable[[], Any], ...] = ()
        self.keep()

    def keep(self) -> None:
        """Save the function's current code as the original, and build a stub for it."""
        function = self.function
        self.code, self.defaults = function.__code__, function.__defaults__
        self.kwdefaults = function.__kwdefaults__
        if self.operator is not None and self.code is _unwritten.__code__:
            self.original: Callable = _Late(self)
        else:
            self.original = clone(function)
        template = _template(len(self.code.co_freevars), self.always)
        here = {1234567: self, 7654321: ACTIVE}
        constants = tuple([here.get(c, c) if c.__class__ is int else c
                           for c in template.co_consts])
        self.stub = template.replace(co_consts=constants)
        STUBS[id(self.stub)] = self

    def install(self) -> None:
        """Replace the function's current code with the stub. Stubs of other mechanisms share their
        code and differ in their keyword defaults."""
        code = self.function.__code__
        if code is not self.code or self.function.__kwdefaults__ is not self.kwdefaults:
            if code is self.stub:
                return
            STUBS.pop(id(self.stub), None)
            self.keep()
        self.function.__code__ = self.stub
        if self.operator is None:
            show_original(self.function, self.original)

    def restore(self) -> None:
        """Restore the function's original code."""
        function = self.function
        if function.__code__ is not self.stub:
            return
        function.__code__ = self.code
        if self.operator is None:
            hide_original(function, self.original)
        if function.__defaults__ is not self.defaults:
            function.__defaults__ = self.defaults
        if function.__kwdefaults__ is not self.kwdefaults:
            function.__kwdefaults__ = self.kwdefaults
        if not self.only_recording:
            TABLE.restored.append(self)

    def outside(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Handle a call from outside the followed call: restore the function and run it."""
        session = ACTIVE.session
        if session is not None:
            session.lend(args, kwargs)
        if session is not None or ACTIVE.thread != threading.get_ident():
            return self.original(*args, **kwargs)  # another thread may be patching it now
        self.restore()
        return self.function(*args, **kwargs)


class _Late:
    """An operator's function, whose source is generated on the first call."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        self.written: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        hook = self.hook
        if self.written is None:
            result = self.written = write_aside(hook.function)
            hook.code, hook.defaults = result.__code__, result.__defaults__
            hook.kwdefaults, hook.original = result.__kwdefaults__, result
        return self.written(*args, **kwargs)


class _Table:
    """All permanent hooks. `restored`: those whose functions currently run their original code."""

    def __init__(self) -> None:
        self.hooks: list[Hook] = []
        self.restored: list[Hook] = []

    def install(self, make: Callable[[], list[Hook]]) -> None:
        """Install all stubs. `make` creates the hooks on first use."""
        if not self.hooks:
            hooks = make()
            self.hooks = [hook for hook in hooks if not hook.only_recording]
            RECORDING.hooks = [hook for hook in hooks if hook.only_recording]
            self.restored = list(self.hooks)
        while self.restored:
            self.restored[-1].install()
            self.restored.pop()


class _Recording:
    """The hooks installed only while a segment is recorded."""

    def __init__(self) -> None:
        self.hooks: list[Hook] = []

    def install(self) -> None:
        """Install their stubs."""
        for hook in self.hooks:
            hook.install()

    def remove(self) -> None:
        """Remove their stubs."""
        for hook in self.hooks:
            hook.restore()


def _end() -> None:
    """End the running followed call, because another mechanism is about to patch functions."""
    session = ACTIVE.session
    if session is None:
        return
    if session.thread == threading.get_ident():
        session.flush()
        session.retire()
        return
    while ACTIVE.session is session:
        time.sleep(0.001)


ENDS.append(_end)
TABLE = _Table()
RECORDING = _Recording()


# Classes of arguments whose values may affect control flow.
_DECIDING = (bool, int, float, str, type(None))


def build_key(args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Return a key: plain arguments by value, as they may affect control flow; others by class."""
    result = tuple([x if x.__class__ in _DECIDING else x.__class__ for x in args])
    if not kwargs:
        return result
    return result, tuple([(k, x if x.__class__ in _DECIDING else x.__class__)
                         for k, x in kwargs.items()])


def build_key_of_classes(args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Return the classes of the arguments, for functions that use numbers only as operands."""
    result = (*map(type, args),)
    return (result, tuple([(k, type(x)) for k, x in kwargs.items()])) if kwargs else result
