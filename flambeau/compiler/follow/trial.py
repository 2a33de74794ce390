"""Trial: decide by measurement whether following a function pays off.

Once its programs are ready, eager and followed calls alternate for a while; then the faster way is
kept. Both compute the same, so the calls of a trial do useful work.
"""

from __future__ import annotations

from ...native.target.compile_costs import (
    MAX_FOLLOWED_RELATIVE_TIME, MAX_TIMED_SECONDS, MIN_TIMED_CALLS, TIMED_CALLS,
)


class Trial:
    """Times of followed and eager calls, collected until they are conclusive."""

    def __init__(self, is_needed: bool) -> None:
        self.followed: list[float] = []
        self.eager: list[float] = []
        self.is_over = not is_needed
        self.pays = True

    @property
    def wants_eager(self) -> bool:
        """Whether the next call runs eagerly, in the order f e e f f e e f.

        This order times both kinds of a step that does more in every other call, and also times
        each way right after itself.
        """
        done = len(self.followed) + len(self.eager)
        return not self.is_over and done % 4 in (1, 2)

    def add(self, seconds: float, is_eager: bool) -> None:
        """Add the time of a call."""
        (self.eager if is_eager else self.followed).append(seconds)
        if all(map(_is_enough, (self.followed, self.eager))):
            self.is_over = True
            limit_s = MAX_FOLLOWED_RELATIVE_TIME * average_faster_half(self.eager)
            self.pays = average_faster_half(self.followed) <= limit_s

    def describe_outcome(self) -> str:
        """Describe the measured times, for explain(); empty until both ways were timed."""
        if not self.eager or not self.followed:
            return ""
        return (f"a followed call takes {1e3 * average_faster_half(self.followed):.3g} ms, "
                f"an eager one {1e3 * average_faster_half(self.eager):.3g} ms")


def _is_enough(seconds: list[float]) -> bool:
    if len(seconds) >= TIMED_CALLS:
        return True
    return len(seconds) >= MIN_TIMED_CALLS and sum(seconds) >= MAX_TIMED_SECONDS


def average_faster_half(seconds: list[float]) -> float:
    """Return the mean of the faster half, which other load on the machine disturbs least."""
    faster = sorted(seconds)[: (len(seconds) + 1) // 2]
    return sum(faster) / len(faster)
