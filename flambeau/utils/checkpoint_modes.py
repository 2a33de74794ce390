"""Modes that also receive the calls of a checkpointed function when backward runs it again.

Backward is itself a call that modes receive, and a mode is off during its own call, so that most
modes see no recomputation. One that changes results must: its class sets `reaches_recomputation`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from ..ops.interception.torch_function import STATE, enable_dispatch, enter, leave

__all__ = ["list_lasting_modes", "resume_modes"]


def list_lasting_modes() -> list[Any]:
    """Return the active modes that receive the calls of recomputations."""
    return [mode for mode in STATE.modes if getattr(mode, "reaches_recomputation", False)]


@contextlib.contextmanager
def resume_modes(modes: Sequence[Any]) -> Iterator[None]:
    """Context in which these modes receive calls, in an entry point of autograd too."""
    if not modes:
        yield
        return
    with enable_dispatch(), contextlib.ExitStack() as stack:
        for mode in modes:
            if not any(mode is other for other in STATE.modes):
                enter(mode)
                stack.callback(leave, mode)
        yield
