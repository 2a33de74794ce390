"""The compile worker process: receives kernels over a pipe, returns object code.

`worker_pool` starts it with only this part of the package. It exits with its parent.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import time
from threading import Thread
from typing import Any

from ..target.compile_costs import COLLECT_AFTER_KERNEL_OBJECTS, PARENT_CHECK_S
from ..target.machine import llvm_version
from .object_code import compile_for, hash_emitter, import_emitter
from .thread_priority import yield_to_others

_HEADER_BYTES = 8  # a message's length prefix


def send(place: int, message: object) -> None:
    """Write a message to a pipe. Raises OSError if it has no reader."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    remaining = memoryview(len(data).to_bytes(_HEADER_BYTES, "little") + data)
    while remaining:
        remaining = remaining[os.write(place, remaining) :]


def receive(place: int) -> Any:
    """Read the next message from a pipe. Raises EOFError at its end."""
    return pickle.loads(
        _read_exactly(place, int.from_bytes(_read_exactly(place, _HEADER_BYTES), "little"))
    )


def _read_exactly(place: int, count: int) -> bytes:
    parts = []
    while count:
        part = os.read(place, min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def serve(parent: int) -> None:
    """Announce the version of the code generator, then answer requests until the pipe closes.

    A request is (aside, name, kernel, target). The answer is (True, external functions, object
    code) or (False, error).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    requests, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # keep prints out of the answers
    if os.name == "posix":
        Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    import_emitter()
    gc.disable()
    gc.freeze()  # later collections skip the modules
    try:
        send(answers, (hash_emitter(), llvm_version()))
        while True:
            aside, *request = receive(requests)
            send(answers, _answer_at_low_priority(request) if aside else _answer_request(request))
            if gc.get_count()[0] > COLLECT_AFTER_KERNEL_OBJECTS:
                gc.collect()  # IR nodes form reference cycles
    except (EOFError, OSError):
        os._exit(0)


def _exit_with_parent(parent: int) -> None:
    """Exit when the parent does: a forked process may keep the pipe open after its death."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os._exit(0)


def _answer_request(request: list[Any]) -> tuple[Any, ...]:
    name, kernel, target = request
    try:
        return True, *compile_for(kernel, name, target)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # an error that cannot be pickled
            error = RuntimeError(f"{type(error).__name__}: {error}")
        return False, error


class _Niceness:
    """The niceness of the next background job.

    LOWEST, unless the previous job got at most LOW_SHARE of a processor; then LOW.
    """

    LOWEST, LOW = 19, 5
    LOW_SHARE = 0.25
    level = LOWEST


def _answer_at_low_priority(request: list[Any]) -> tuple[Any, ...]:
    """Return the answer, computed on a low-priority thread.

    A thread can lower its priority but not raise it again, so each job gets a new thread.
    """
    answers: list[tuple[Any, ...]] = []

    def work() -> None:
        yield_to_others(_Niceness.level)
        begun, used = time.perf_counter(), time.thread_time()
        answers.append(_answer_request(request))
        share = (time.thread_time() - used) / max(time.perf_counter() - begun, 1e-6)
        _Niceness.level = _Niceness.LOWEST if share > _Niceness.LOW_SHARE else _Niceness.LOW

    thread = Thread(target=work)
    thread.start()
    thread.join()
    return answers[0]
