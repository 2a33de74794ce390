"""The compiler's stance: whether compiled functions may compile new programs or use any."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple


def is_watched() -> bool:
    """Return whether a debugger, a coverage tool or a profiler watches this thread: the Python of a
    step is not skipped before its eyes."""
    return (sys.gettrace() is not None or sys.getprofile() is not None
            or any(map(_get_tool, _WATCHING)))


_WATCHING = (0, 1, 2)  # sys.monitoring's debuggers, coverage and profilers; not in Python 3.11
_monitoring: Any = getattr(sys, "monitoring", None)
_get_tool: Callable[[int], str | None]
_get_tool = (lambda tool: None) if _monitoring is None else _monitoring.get_tool


class Stance(NamedTuple):
    """The settings of `set_stance`."""

    name: str = "default"
    backend: str | Callable[..., Any] | None = None


class CurrentStance:
    """The current stance, as flags for calls to read."""

    __slots__ = ("forbids_new", "forces_eager", "stance")

    def __init__(self) -> None:
        self.set(Stance())

    def set(self, stance: Stance) -> None:
        """Replace the stance."""
        self.stance = stance
        self.forces_eager = stance.name == "force_eager" or stance.backend == "eager"
        self.forbids_new = stance.name not in _COMPILES

    def refuse(self, function: Any, is_known: bool) -> None:
        """Raise RuntimeError if the stance forbids calls without a program; if a call `is_known`,
        its program is on its way."""
        name = self.stance.name
        if name == "fail_on_recompile" and not is_known:
            code = getattr(function, "__code__", None)
            place = "" if code is None else (
                f" filename: '{code.co_filename}', function name: '{code.co_name}', line number: "
                f"{code.co_firstlineno}")
            raise RuntimeError("Detected recompile when torch.compile stance is "
                               f"'fail_on_recompile'.{place}")
        if name not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{self.stance}'")


_COMPILES = ("default", "eager_then_compile", "aot_eager_then_compile")
_STANCES = (*_COMPILES, "force_eager", "eager_on_recompile", "fail_on_recompile")
STANCE = CurrentStance()


class set_stance:
    """Set what calls of compiled functions do: as a function, a context or a decorator.

    stance: "default" and "eager_then_compile" compile (flambeau's first calls are eager in any
    case); "force_eager" ignores programs; "eager_on_recompile" uses existing programs and runs
    other calls eagerly; "fail_on_recompile" raises RuntimeError for calls of a new kind: those seen
    before, whose program isn't ready, run eagerly.
    skip_guard_eval_unsafe: accepted but ignored; guards are always checked.
    force_backend: "eager" runs eagerly; others have no effect. Raises RuntimeError with any stance
    but the default, and inside a compiled function.

    >>> double = torch.compile(lambda x: 2 * x)
    >>> with torch.compiler.set_stance("force_eager"):
    ...     double(torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False,
        force_backend: str | Callable[..., Any] | None = None,
    ) -> None:
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        capture = sys.modules.get("flambeau.compiler.capture.capture")
        if capture is not None and capture.is_recording():
            raise RuntimeError("attempted to set_stance in a torch.compile region")
        self.stance, self.prev = Stance(stance, force_backend), STANCE.stance
        STANCE.set(self.stance)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function so that the stance holds while it runs."""
        STANCE.set(self.prev)

        @functools.wraps(fn)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return fn(*args, **kwargs)

        return within

    def __enter__(self) -> None:
        STANCE.set(self.stance)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        STANCE.set(self.prev)

    def clone(self) -> set_stance:
        """Return a new context with the same stance."""
        return set_stance(self.stance.name, force_backend=self.stance.backend)
