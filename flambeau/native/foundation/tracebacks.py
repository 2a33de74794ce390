"""Shortened tracebacks: they end at the user's line, with one line for flambeau's frames below it.

Only the printed text is shortened, in programs run by `flambeau`, in notebooks and under pytest.
The traceback object stays whole for debuggers.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from .call_advice import advise
from .environment import TRACEBACK
from .user_frames import is_internal_file, is_own_file

# Folders of the libraries that flambeau calls.
_LIBRARIES = tuple(f"{os.sep}{name}{os.sep}"
                   for name in ("numpy", "scipy", "llvmlite", "ml_dtypes"))


def shows_all_frames() -> bool:
    """Return whether FLAMBEAU_TRACEBACK asks for every frame."""
    return TRACEBACK.value() == "full"


def select_frames(files: Sequence[str]) -> list[bool]:
    """Return whether to show each frame, given the frames' files, outermost first.

    A flambeau frame hides itself and the frames of flambeau, the standard library and NumPy that
    follow it, up to the next user frame.
    """
    shown, inside = [], False
    for file in files:
        is_library = is_internal_file(file) or any(name in file for name in _LIBRARIES)
        inside = is_own_file(file) or (inside and is_library)
        shown.append(not inside)
    return shown if any(shown) else [True] * len(files)


def count_hidden_at_end(shown: Sequence[bool]) -> int:
    """Return how many frames are hidden after the last shown one."""
    return next((k for k, keep in enumerate(reversed(shown)) if keep), 0)


def format_hidden_frames(count: int) -> str:
    """Return the line that stands for hidden frames."""
    frames = f"{count} frame{'s' * (count != 1)}"
    return f"  ... {frames} inside flambeau (FLAMBEAU_TRACEBACK=full shows them)\n"


class _Stack(traceback.StackSummary):
    """The frames to show, and the line for the hidden ones."""

    hidden = 0  # after the last shown frame

    def format(self, **options: Any) -> list[str]:
        lines = super().format(**options)
        return [*lines, format_hidden_frames(self.hidden)] if self.hidden else lines


def _shorten(error: traceback.TracebackException | None) -> None:
    if error is None:
        return
    shown = select_frames([frame.filename for frame in error.stack])
    stack = _Stack([f for f, keep in zip(error.stack, shown, strict=True) if keep])
    stack.hidden = count_hidden_at_end(shown)
    error.stack = stack
    for other in (error.__cause__, error.__context__, *(error.exceptions or ())):
        _shorten(other)


def has_own_frame(error: BaseException | None, trace: TracebackType | None) -> bool:
    """Return whether the traceback of an error or of its causes contains a flambeau frame."""
    if any(is_own_file(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(trace)):
        return True
    cause = None if error is None else error.__cause__ or error.__context__
    return cause is not None and has_own_frame(cause, cause.__traceback__)


def format_shortened(error: BaseException, trace: TracebackType | None) -> Iterator[str]:
    """Return the pieces of an uncaught error's text."""
    formatted = traceback.TracebackException(type(error), error, trace)
    if sys.version_info < (3, 12) and isinstance(error, (AttributeError, NameError)) \
            and not getattr(error, "__notes__", None):
        formatted._str += _suggest_name(error, trace)  # type: ignore[attr-defined]
    if not hasattr(formatted, "exceptions"):
        formatted.exceptions = None
    _shorten(formatted)
    return formatted.format()


def _suggest_name(error: AttributeError | NameError, trace: TracebackType | None) -> str:
    """Return CPython's "Did you mean" hint, which its traceback module lacks before 3.12."""
    from .call_advice import find_nearest_name

    known: list[str] = []
    if isinstance(error, AttributeError):
        known = [] if error.obj is None else dir(error.obj)
    elif trace is not None:
        frame = [frame for frame, _ in traceback.walk_tb(trace)][-1]
        known = [*frame.f_locals, *frame.f_globals, *frame.f_builtins]
    match = find_nearest_name(error.name or "", known)
    return f". Did you mean: '{match}'?" if match else ""


def excepthook(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """`sys.excepthook` of programs run by `flambeau`."""
    advise(error, trace, attributes=False)
    if shows_all_frames() or not has_own_frame(error, trace):
        sys.__excepthook__(kind, error, trace)
        return
    print("".join(format_shortened(error, trace)), end="", file=sys.stderr)


# ------------------------------------------------------------------------- notebooks


def shorten_in_notebooks(shell: Any) -> None:
    """Make an IPython shell show shortened tracebacks, unless the user set a handler."""
    if not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), _show_in_shell)


def _show_in_shell(
    shell: Any, kind: type[BaseException], error: BaseException, trace: Any, tb_offset: Any = None
) -> list[str]:
    advise(error, trace)
    links = list(_iterate_links(trace))
    shown = select_frames([link.tb_frame.f_code.co_filename for link in links])
    hidden = 0 if shows_all_frames() else count_hidden_at_end(shown)
    short = trace if shows_all_frames() else _link_again(links, shown)
    lines: list[str] = shell.InteractiveTB.structured_traceback(
        kind, error, short, tb_offset=tb_offset
    )
    if hidden:
        message_lines = 1 + len(getattr(error, "__notes__", ()))
        lines.insert(len(lines) - message_lines, format_hidden_frames(hidden).rstrip("\n"))
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    shell.InteractiveTB.tb = trace  # for %debug
    shell._showtraceback(kind, error, lines)
    return lines


def _iterate_links(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _link_again(links: list[TracebackType], shown: list[bool]) -> TracebackType | None:
    """Return a traceback of only the shown frames."""
    chain: TracebackType | None = None
    for link, keep in reversed(list(zip(links, shown, strict=True))):
        if keep:
            chain = TracebackType(chain, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return chain


# ------------------------------------------------------------------------- pytest


def hide_from_pytest(excinfo: Any = None) -> bool:
    """Return whether pytest should hide flambeau's frames; serves as `__tracebackhide__`, which
    pytest calls with the error. Also marks modules imported since the last call."""
    if excinfo is not None:
        advise(excinfo.value, excinfo.tb)
    for name, module in list(sys.modules.items()):
        if name == "flambeau" or name.startswith("flambeau."):
            vars(module)["__tracebackhide__"] = hide_from_pytest
    return not shows_all_frames()


def install() -> None:
    """Shorten tracebacks under pytest and IPython; leave plain scripts alone."""
    if "_pytest" in sys.modules:
        hide_from_pytest()
    if "IPython" in sys.modules:
        shell = sys.modules["IPython"].get_ipython()
        if shell is not None:
            shorten_in_notebooks(shell)
