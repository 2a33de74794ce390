"""Trial: whether following a function pays, by what its calls take.

Once its programs are there, a few calls run eagerly and a few are followed, in turn. The faster
way is kept for good. What a call does is the same either way, so nobody waits for the outcome.
"""

from __future__ import annotations

CALLS = 6  # of each kind that are timed
LONG = 0.5  # seconds of each kind that are enough, however few calls they are
LEAST = 2  # calls of each kind
MARGIN = 1.02  # a followed call may take so much of an eager one: what is around it gains as well


class Trial:
    """The times of followed and of eager calls, until they say which are faster."""

    def __init__(self, is_needed: bool) -> None:
        self.followed: list[float] = []
        self.eager: list[float] = []
        self.is_over = not is_needed
        self.pays = True

    @property
    def wants_eager(self) -> bool:
        """Whether the next call is to be eager: in the order f e e f f e e f, so that steps that do
        more in every other call are seen in both states, and each way also right after itself."""
        done = len(self.followed) + len(self.eager)
        return not self.is_over and done % 4 in (1, 2)

    def add(self, seconds: float, is_eager: bool) -> None:
        """Counts a call."""
        (self.eager if is_eager else self.followed).append(seconds)
        if all(len(t) >= CALLS or len(t) >= LEAST and sum(t) >= LONG
               for t in (self.followed, self.eager)):
            self.is_over = True
            self.pays = usual(self.followed) <= MARGIN * usual(self.eager)

    def outcome(self) -> str:
        """What the trial said, for people."""
        if not self.eager or not self.followed:
            return ""
        return (f"a followed call takes {1e3 * usual(self.followed):.3g} ms, "
                f"an eager one {1e3 * usual(self.eager):.3g} ms")


def usual(seconds: list[float]) -> float:
    """The time of a call that nothing disturbed: the middle of the faster half."""
    faster = sorted(seconds)[: (len(seconds) + 1) // 2]
    return sum(faster) / len(faster)
