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


def kernel_when_ready(
    key: Hashable, builder: Callable[[], Kernel], exact: bool = False
) -> Function | None:
    """The function of the kernel that `builder` gives, or None until it is there.

    It is asked for by the first call with this key. None too where Policy does not allow it, but
    for kernels that are `exact`: whose results are to the bit what there is without them.
    """
    global _working
    if not (exact or Policy.allowed):
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


class Small(dict[Any, int]):
    """Addresses, by dtype, of a kernel for arrays so small that NumPy's calls are what they cost.

    0 up to the call number USED, and where there can be none: so that it depends on the calls
    alone, not on how long compiling takes, which call is the kernel's first.
    """

    ASKED, USED = 32, 256

    def __init__(self, builder: Callable[[Any], Kernel]) -> None:
        super().__init__()
        self.builder = builder  # of the dtype
        self.calls: dict[Any, int] = {}

    def __missing__(self, kind: Any) -> int:
        count = self.calls[kind] = self.calls.get(kind, 0) + 1
        if count == self.ASKED:  # its code is then on disk, or on the way there
            kernel_when_ready((id(self), kind), lambda: self.builder(kind))
        elif count == self.USED:
            self[kind] = self._made(kind)
            return self[kind]
        return 0

    def _made(self, kind: Any) -> int:
        from .compiled import compiled

        try:
            return compiled(self.builder(kind)).address
        except (NotImplementedError, RuntimeError, ValueError, ImportError):
            return 0


def _forked() -> None:
    """A child has no thread at work: what was being made is asked for again."""
    global _lock, _working
    _lock, _working = threading.Lock(), False
    _waiting.clear()
    for key in [key for key, found in _ready.items() if found is None]:
        del _ready[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
