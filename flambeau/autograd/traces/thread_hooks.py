"""`sys.setprofile` in all running threads, not only the caller's.

CPython 3.12 has a function for this. Before 3.12, `_PyEval_SetProfile` sets the hook of a given
thread, but needs the C function that calls a Python hook. That is read from the state of a thread
whose hook `sys.setprofile` has set: it lies two words before the hook.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_WORDS = 24  # words of a thread's state to search for the hook
_BEFORE_HOOK = 2  # words: the C functions of profiles and of traces


def set_in_all_threads(hook: Callable[..., Any] | None) -> None:
    """Set the profile hook of all running threads; None removes it."""
    if sys.version_info >= (3, 12):
        sys._setprofileallthreads(hook)  # type: ignore[attr-defined, unused-ignore]
        return
    caller, current = _find_c_caller(), _load_api().PyThreadState_Get()
    if caller is not None:
        for state in _iterate_states():
            if state != current:
                _load_api()._PyEval_SetProfile(state, None if hook is None else caller, hook)
    sys.setprofile(hook)


def _load_api() -> Any:
    """Return Python's C API with argument and result types set."""
    api: Any = ctypes.pythonapi
    pointer = ctypes.c_void_p
    for name, arguments in (("PyThreadState_Get", []), ("PyInterpreterState_Get", []),
                            ("PyInterpreterState_ThreadHead", [pointer]),
                            ("PyThreadState_Next", [pointer])):
        function = getattr(api, name)
        function.restype, function.argtypes = pointer, arguments
    api._PyEval_SetProfile.argtypes = [pointer, pointer, ctypes.py_object]
    return api


def _iterate_states() -> Iterator[int]:
    """Yield the addresses of the states of all threads."""
    api = _load_api()
    state = api.PyInterpreterState_ThreadHead(api.PyInterpreterState_Get())
    while state:
        yield state
        state = api.PyThreadState_Next(state)


def _ignore(frame: FrameType, event: str, argument: Any) -> None:
    """A hook that does nothing."""


def _find_c_caller() -> int | None:
    """Return the C function that calls a thread's hook, or None if it isn't found."""
    words = (ctypes.c_void_p * _WORDS).from_address(_load_api().PyThreadState_Get())
    sys.setprofile(_ignore)
    state = list(words)
    sys.setprofile(None)
    place = state.index(id(_ignore)) if id(_ignore) in state else 0
    return state[place - _BEFORE_HOOK] if place >= _BEFORE_HOOK else None
