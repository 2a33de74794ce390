"""Other threads during a followed call, which may hold tensors whose values are still missing.

A thread that uses such a tensor computes the listed events first, whether or not the threads
synchronize. It computes them itself, because the followed call may be waiting for it. Meanwhile, a
gate replaces the session, and the followed call waits at the gate.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...native.target.compile_costs import MAX_WAIT_FOR_USER_CODE_S
from ...tensor.layout import find_owner
from ..trace.operands import collect_tensors
from .hooks import ACTIVE, Hook

if TYPE_CHECKING:
    from .session import Session

_OWN = (str(Path(__file__).parents[2]), "<flambeau")
_CALLED = (str(Path(np.__file__).parent), "<frozen", *(str(Path(m.__file__)) for m in (
    sys.modules["contextlib"], sys.modules["functools"]) if m.__file__))  # called by the package


class Gate:
    """Stands in for a session while another thread computes its events."""

    quiet, recorder = 0, None

    def __init__(self, session: Session) -> None:
        self.session, self.thread = session, session.thread
        self.visitor = threading.get_ident()
        self.lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def follow(self, hook: Hook, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Make the followed call wait for the gate, then run the function."""
        with self.lock:
            pass
        return hook.function(*args, **kwargs)

    def lend(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """Make any third thread wait; let the computing thread pass."""
        if threading.get_ident() != self.visitor:
            with self.lock:
                pass


def compute_for_another(session: Session, args: tuple, kwargs: dict[str, Any]) -> None:
    """Compute the listed events if another thread's call uses memory of the session."""
    end = time.monotonic() + MAX_WAIT_FOR_USER_CODE_S
    while ACTIVE.session is session and _is_concerned(session, args, kwargs):
        gate = Gate(session)
        with gate.lock:
            ACTIVE.cue, ACTIVE.session = None, gate
            try:
                if not session.quiet and _is_at_rest(session.thread):
                    session.flush()
                    return
            finally:
                if ACTIVE.session is gate:
                    ACTIVE.session = session
        if time.monotonic() > end:
            return
        time.sleep(0.001)


def _is_concerned(session: Session, args: tuple, kwargs: dict[str, Any]) -> bool:
    following = session.following
    return following is not None and following.pos > 0 and any(
        id(find_owner(x._array)) in following.bound for x in collect_tensors((args, kwargs)))


def _is_at_rest(thread: int) -> bool:
    """Whether a thread is in user code, running or waiting."""
    frame: FrameType | None = sys._current_frames().get(thread)
    while frame is not None and frame.f_code.co_filename.startswith(_CALLED):
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.startswith(_OWN)
