"""Position: where a followed call is in the tree of segments, while it is at an exit."""

from __future__ import annotations

from typing import Any

from .following import Following
from .segment import Exit, Segment


class Position:
    """An exit, and which of its segments the call has not tried yet.

    `fork`: the exit from which the call got here by leaving segments. `calls`: composite functions
    that may have started at the exit; the next segment may start inside one of them.
    """

    __slots__ = ("calls", "exit", "fork", "tried")

    def __init__(self, root: Exit) -> None:
        self.exit = root
        self.tried = 0  # segments that differ from the call, or were left
        self.fork: Exit | None = None
        self.calls: list[Any] = []

    def move_to(self, exit: Exit) -> None:
        """Arrive at an exit, of which nothing was tried."""
        self.exit, self.tried, self.calls = exit, 0, []

    def take_untried(self, modes: Any) -> Segment | None:
        """Return the next segment that was recorded in these modes, or None. Others remain
        untried: a backward pass may restore their grad mode."""
        segments = self.exit.segments
        for i in range(self.tried, len(segments)):
            if segments[i].is_ready and segments[i].modes == modes:
                self.tried = i + 1
                return segments[i]
        return None

    def add_calls(self, following: Following) -> None:
        """Note the composite functions that may have started where a segment is left."""
        calls = following.segment.calls.get(following.pos, ())
        self.calls += [call for call in calls if call not in self.calls]

    def take_calls(self) -> list[Any]:
        """Return the composite functions that may have started, and forget them."""
        calls, self.calls = self.calls, []
        return calls

    def vary(self, what: Any) -> None:
        """Try all segments again, now that a number or a constant became an input of theirs."""
        self.exit.varies, self.tried = what, 0
