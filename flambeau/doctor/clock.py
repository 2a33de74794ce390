"""The clock: when to watch closely, and how much watching may cost.

Close watching records the line of every operator on the tape and walks the graph at every backward
pass. It covers the first passes, a few at each power of two, and a few after each change: a new
epoch, mode or optimizer. Once watching exceeds its share of the run time, steps go unobserved until
the program has run long enough to pay for it.
"""

from __future__ import annotations

import time

FIRST = 48  # backward passes watched closely at the start: 8 rounds of a GAN with two of each
AGAIN = 4  # passes watched closely after a change
SHARE = 0.1  # allowed share of the program's time
GRACE_S = 2.0  # seconds always allowed, however short the program


class Clock:
    """Counts backward passes and the seconds spent watching."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.spent_s = 0.0
        self.passes = 0
        self.left = FIRST
        self.suspended_at: list[int] = []  # passes at which watching became too expensive
        self.too_dear = False
        self._rearmed = 0
        self._own_s = self._own_cpu_s = 0.0  # wall and CPU time of handlers that never wait

    @property
    def elapsed_s(self) -> float:
        """Seconds since the session began."""
        return time.perf_counter() - self.started

    @property
    def allowed_s(self) -> float:
        """Seconds that watching may have cost by now. On a loaded machine the same work takes
        longer: the grace scales with measured wall time per CPU second, the share already does."""
        undisturbed = self._own_cpu_s / self._own_s if self._own_s > 0.01 else 1.0
        return max(GRACE_S / min(max(undisturbed, 0.1), 1.0), SHARE * self.elapsed_s)

    def compare(self, own_s: float, own_cpu_s: float) -> None:
        """Add the wall time and the CPU time of some work."""
        self._own_s += own_s
        self._own_cpu_s += own_cpu_s

    def again(self) -> None:
        """Watch the next few passes closely because something new begins. After 64 calls only
        powers of two count, so an event that repeats at every step soon stops being new."""
        self._rearmed += 1
        if self._rearmed < 64 or self._rearmed & (self._rearmed - 1) == 0:
            self.left = max(self.left, AGAIN)

    def tick(self) -> bool:
        """Count a backward pass and return whether to watch the next one closely."""
        self.passes += 1
        self.left -= 1
        if self.passes & (self.passes - 1) == 0:
            self.left = max(self.left, AGAIN)
        if self.spent_s > 0.8 * self.allowed_s:
            if not self.too_dear:
                self.suspended_at.append(self.passes)
            self.too_dear = True
        return self.left > 0 and not self.too_dear

    @property
    def affordable(self) -> bool:
        """Whether a resting session may watch again; clears `too_dear` if so."""
        if self.too_dear and self.spent_s > 0.4 * self.allowed_s:
            return False
        self.too_dear = False
        return True
