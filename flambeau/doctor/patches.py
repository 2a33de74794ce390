"""Patches: replace the code of library functions while a session watches.

A patched function keeps its identity and gets its original code back at the end, so the doctor
costs nothing when off. `watch_closely` toggles the patches that slow down every operator. The
patches of a step (module calls, backward, updates) are removed while the session rests. Rare calls
(constructors, train(), state dicts, schedulers) stay patched for the whole session.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ops.interception.code_patching import Swap, swap_of
from .observers import operators, steps, updates

if TYPE_CHECKING:
    from .session import Session

_rare: list[Swap] = []
_step: list[Swap] = []
_close: list[Swap] = []
_lock = threading.Lock()
session: Session | None = None


def install(watcher: Session) -> None:
    """Start patching for a session. Raise RuntimeError if another session is active."""
    global session
    with _lock:
        if session is not None:
            raise RuntimeError("a doctor is watching already; they do not nest")
        session = watcher
    try:
        for function, observer in steps.list_rare_targets(watcher):
            _rare.append(_start(function, observer))
        watch_steps(True)
    except BaseException:
        remove()
        raise


def _start(function: Any, observer: Callable) -> Swap:
    swap = swap_of(function, observer)
    swap.start()
    return swap


def watch_steps(watched: bool) -> None:
    """Add or remove the patches that run once per step."""
    if session is None:
        return
    updates.remove_step_hooks()
    if not watched:
        _restore(_close)
        _restore(_step)
        if not session.compiled:  # optimizer hooks would keep a compiled step from running
            updates.add_heartbeat(session)
        return
    if not _step:
        for function, observer in steps.step_targets(session):
            _step.append(_start(function, observer))
    updates.add_step_hooks(session)


def watch_closely(closely: bool) -> None:
    """Add or remove the patches that run on every operator."""
    if closely and session is not None and not _close:
        for function, observer in operators.iterate_targets(session):
            _close.append(_start(function, observer))
    elif not closely:
        _restore(_close)


def remove() -> None:
    """Restore the original code of all patched functions."""
    global session
    _restore(_close)
    _restore(_step)
    _restore(_rare)
    updates.remove_step_hooks()
    session = None


def _restore(swaps: list[Swap]) -> None:
    while swaps:
        swaps[-1].restore()
        swaps.pop()
