"""Kernels for eager operators: asked for by one call, made beside the program, used from the next.

Which call is a kernel's first depends on the calls alone, not on how long compiling takes: a
program that is run again gives the same bits.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..foundation.user_frames import warn
from ..foundation import fork_imports as fork_imports  # its hooks

if TYPE_CHECKING:
    from ..jit.kernel_function import Function
    from ..loop_ir.ir import Kernel


class Policy:
    """Whether kernels are used at all.

    Their sums are rounded otherwise than NumPy's, and they begin with a certain call: where a
    program that goes on in a new process must give the same bits, `allowed` is to be False.
    """

    allowed = True
    counts = True  # whether calls of small arrays count: how many are recorded is nobody's business


class _Recording(threading.local):
    """Whether this thread makes a call once, for a program that is then made at once and makes all
    others: kernels for it would take longer to make than they save."""

    calls: dict[Hashable, float] | None = None  # how often kernels were missed in it

    MANY = 64  # calls of one kind in one step, from which on they save more


_recording = _Recording()


@contextmanager
def recording(one: bool) -> Iterator[None]:
    """Meanwhile this thread asks for no kernels that were not asked for before, if `one`."""
    before = _recording.calls
    _recording.calls = {} if one else before
    try:
        yield
    finally:
        _recording.calls = before


_lock = threading.Lock()
_made: dict[Hashable, Any] = {}  # None: could not be made
_making: dict[Hashable, threading.Event] = {}
_waiting: list[tuple[Hashable, Callable[[], Any]]] = []
_working = 0  # threads that make kernels
faults: dict[Hashable, Exception] = {}  # of kernels that could have been made


def is_recording() -> bool:
    """Whether this thread makes a call once."""
    return _recording.calls is not None


def kernel_asked_for(
    key: Hashable, builder: Callable[[], Kernel], exact: bool = False, worth: float = 1
) -> Function | None:
    """The function of the kernel that `builder` gives; None for the first call with this key.

    The next waits for it. None too where Policy does not allow it, or where it cannot be made.
    Nor for calls that are made once (`recording`), but for many of a kind: a large one counts as
    so many as it is `worth`. Kernels that are `exact`, whose results are to the bit what there is
    without them, are not waited for, and always allowed.
    """
    if not (exact or Policy.allowed):
        return None
    try:
        return _made[key]
    except KeyError:
        pass
    event = _making.get(key)
    if event is None:
        if _is_worth_it(key, worth):
            _ask(key, builder)
        return None
    if exact:
        return None
    if not event.is_set():
        _hurry(key)
        event.wait()
    return _made.get(key)


def _is_worth_it(key: Hashable, worth: float) -> bool:
    """Whether a kernel that is not there is to be made; it depends on the calls alone."""
    calls = _recording.calls
    if calls is None:
        return True
    calls[key] = calls.get(key, 0) + worth
    return calls[key] >= _Recording.MANY


def _ask(key: Hashable, builder: Callable[[], Kernel]) -> None:
    """Has a kernel made."""
    with _lock:
        if key in _making or key in _made:
            return
        _making[key] = threading.Event()
        _waiting.append((key, builder))
        _start(1)


def _hurry(key: Hashable) -> None:
    """Somebody waits for a kernel: it comes first, and the waiting one's processor helps."""
    from ..jit.worker_pool import MAKERS

    with _lock:
        _waiting.sort(key=lambda item: item[0] != key)
        _start(max(2, len(MAKERS.ready)))


def _start(most: int) -> None:
    """Starts a thread to make what waits, unless so many are at work. Within the lock."""
    global _working
    if _waiting and _working < most:
        _working += 1
        if not beside("flambeau-kernels", _work):
            _working -= 1
            if not _working:
                _give_up()


def beside(name: str, work: Callable[..., None], *given: Any) -> bool:
    """Does work on a thread of its own; whether the system, or its own end, allowed one."""
    try:
        threading.Thread(target=work, args=given, name=name, daemon=True).start()
    except RuntimeError:
        return False
    return True


def _give_up() -> None:
    """Nobody can make what waits: the NumPy path goes on to be used. Within the lock."""
    for key, _ in _waiting:
        _made[key] = None
        _making[key].set()
    _waiting.clear()


def _work() -> None:
    """Makes what waits, then ends."""
    global _working
    from ..jit.kernel_function import compile_all
    from .thread_pool import threads

    while True:
        with _lock:
            if not _waiting:
                _working -= 1
                return
            key, builder = _waiting.pop(0)
        made = None
        try:
            made = compile_all([builder()], threads())[0]
        except Exception as error:  # the NumPy path goes on to be used
            if not _is_expected(error):
                _tell(key, error)
        finally:
            _made[key] = made
            _making[key].set()


def _is_expected(error: Exception) -> bool:
    """Whether it says that there is no kernel for this processor, or not now."""
    if isinstance(error, NotImplementedError | ImportError | OSError | MemoryError):
        return True
    from ..codegen.conv.direct_blocking import (
        Unsupported,
    )

    return isinstance(error, Unsupported)


def _tell(key: Hashable, error: Exception) -> None:
    """A fault of a kernel's builder is no user's affair, but must not go unseen."""
    if sys.is_finalizing() or not threading.main_thread().is_alive():
        return
    faults[key] = error
    with suppress(RuntimeWarning):  # warnings that are errors would end the thread
        warn(f"the kernel {key} could not be made, and NumPy does its work: "
             f"{type(error).__name__}: {error}", RuntimeWarning)  # fmt: skip


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
        if not Policy.counts:
            return 0
        count = self.calls[kind] = self.calls.get(kind, 0) + 1
        if count == self.ASKED:  # its code is then on disk, or on the way there
            kernel_asked_for((id(self), kind), lambda: self.builder(kind))
        elif count == self.USED:
            self[kind] = self._made(kind)
            return self[kind]
        return 0

    def _made(self, kind: Any) -> int:
        from ..jit.kernel_function import compiled

        try:
            return compiled(self.builder(kind)).address
        except (NotImplementedError, RuntimeError, ValueError, ImportError):
            return 0


def _forked() -> None:
    """A child has no thread at work: what was being made is asked for again."""
    global _lock, _working
    _lock, _working = threading.Lock(), 0
    _waiting.clear()
    for key in _making.keys() - _made.keys():
        del _making[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
