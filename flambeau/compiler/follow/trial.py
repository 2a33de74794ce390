"""Trial: decide by measured time whether following a function pays.

Once its programs are ready, a few calls run eagerly and a few are followed, in turn. The faster way
then stays. Both ways do the same, so calls are useful work while the trial runs.
"""

from __future__ import annotations
from ...native.target.compile_costs import (
    MAX_FOLLOWED_RELATIVE_TIME, MAX_TIMED_SECONDS, MIN_TIMED_CALLS, TIMED_CALLS,
)


class Trial:
    """Times of followed and eager calls, until they decide."""

    def __init__(self, is_needed: bool) -> None:
        self.followed: list[float] = []
        self.eager: list[float] = []
        self.is_over = not is_needed
        self.pays = True

    @property
    def wants_eager(self) -> bool:
        """Whether the next call runs eagerly, in the order f e e f f e e f.

        A step that does more in every other call is then timed in both states, and each way also
        right after itself.
        """
        done = len(self.followed) + len(self.eager)
        return not self.is_over and done % 4 in (1, 2)

    def add(self, seconds: float, is_eager: bool) -> None:
        """Add the time of a call."""
        (self.eager if is_eager else self.followed).append(seconds)
        if all(map(_is_enough, (self.followed, self.eager))):
            self.is_over = True
            limit_s = MAX_FOLLOWED_RELATIVE_TIME * undisturbed_mean(self.eager)
            self.pays = undisturbed_mean(self.followed) <= limit_s

    def outcome(self) -> str:
        """The measured times, for explain(); empty before there are any."""
        if not self.eager or not self.followed:
            return ""
        return (f"a followed call takes {1e3 * undisturbed_mean(self.followed):.3g} ms, "
                f"an eager one {1e3 * undisturbed_mean(self.eager):.3g} ms")


def _is_enough(seconds: list[float]) -> bool:
    if len(seconds) >= TIMED_CALLS:
        return True
    return len(seconds) >= MIN_TIMED_CALLS and sum(seconds) >= MAX_TIMED_SECONDS


def undisturbed_mean(seconds: list[float]) -> float:
    """The mean of the faster half, which other work on the machine disturbs least."""
    faster = sorted(seconds)[: (len(seconds) + 1) // 2]
    return sum(faster) / len(faster)
