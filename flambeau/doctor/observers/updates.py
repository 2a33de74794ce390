"""Hooks of optimizers: report every step while a session watches, and count them while it rests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...optim import optimizer as optimizers
from ..events import Update
from ..places import find_spot

if TYPE_CHECKING:
    from ..session import Session


_handles: list[Any] = []


def add_step_hooks(session: Session) -> None:
    """Register hooks that report the steps of every optimizer."""
    numbers = session.step_numbers
    pending: list[Update] = []

    def before(optimizer: Any, args: tuple, kwargs: dict) -> None:
        if session.busy:
            return
        numbers[optimizer] = number = numbers.get(optimizer, 0) + 1
        session.adopt(optimizer)
        update = Update(optimizer, number, find_spot(), session.watching)
        pending.append(update)
        session.emit("on_step", update)

    def after(optimizer: Any, args: tuple, kwargs: dict) -> None:
        if session.busy or not pending:
            return
        session.updates += 1
        session.emit("after_step", pending.pop())
        if session.steps is not None and session.updates >= session.steps:
            raise StopWatching

    _handles.append(optimizers.register_optimizer_step_pre_hook(before))
    _handles.append(optimizers.register_optimizer_step_post_hook(after))


_HEARTBEAT_UPDATES = 64  # between two checks of the clock while the session rests


def add_heartbeat(session: Session) -> None:
    """Count updates while the session rests; now and then, wake it if affordable."""
    remaining = [_HEARTBEAT_UPDATES]
    numbers = session.step_numbers

    def beat(optimizer: Any, args: tuple, kwargs: dict) -> None:
        numbers[optimizer] = numbers.get(optimizer, 0) + 1
        session.updates += 1
        remaining[0] -= 1
        if not remaining[0]:
            remaining[0] = _HEARTBEAT_UPDATES
            if session.clock.affordable:
                session.wake()

    _handles.append(optimizers.register_optimizer_step_pre_hook(beat))


class StopWatching(BaseException):
    """Raised to end a program after the requested number of steps."""


def remove_step_hooks() -> None:
    """Remove the optimizer hooks."""
    while _handles:
        _handles.pop().remove()
