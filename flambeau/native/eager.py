"""Kernels for eager operators: made on a thread in the background, used once they are ready."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compiled import Function
    from .loops import Kernel



class Policy:
    """Whether kernels are used at all.

    When one is ready is not the same in two runs, and its sums are rounded otherwise than NumPy's:
    where the same program must give the same bits, `allowed` is to be False.
    """

    allowed = True


_lock = threading.Lock()
_ready: dict[Hashable, Any] = {}  # None: being made, or could not be made
_waiting: list[tuple[Hashable, Callable[[], Any]]] = []
_working = False


def kernel_when_ready(key: Hashable, builder: Callable[[], Kernel]) -> Function | None:
    """The function of the kernel that `builder` gives, or None until it is there.

    It is asked for by the first call with this key. None too where Policy does not allow it.
    """
    global _working
    if not Policy.allowed:
        return None
    try:
        return _ready[key]
    except KeyError:
        pass
    with _lock:
        if key in _ready:
            return _ready[key]
        _ready[key] = None
        _waiting.append((key, builder))
        if not _working:
            _working = True
            threading.Thread(target=_work, name="flambeau-kernels", daemon=True).start()
    return None


def _work() -> None:
    """Makes what waits, then ends."""
    global _working
    from .compiled import compiled

    while True:
        with _lock:
            if not _waiting:
                _working = False
                return
            key, builder = _waiting.pop(0)
        try:
            _ready[key] = compiled(builder())
        except (NotImplementedError, RuntimeError, ValueError):
            continue  # the NumPy path goes on to be used


def _forked() -> None:
    """A child has no thread at work: what was being made is asked for again."""
    global _lock, _working
    _lock, _working = threading.Lock(), False
    _waiting.clear()
    for key in [key for key, found in _ready.items() if found is None]:
        del _ready[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
