"""Inline caches: what a followed call does at each intercepted function, as straight-line code.

The first call that follows a segment to its end notes which functions it goes through. Of each, a
`Cue` is written: source that compares the arguments with what is expected there and makes the
result, without loops or lookups. A cue that misses leaves the call to the general path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .foreign_tensors import needs_dispatch
from .hooks import ACTIVE, Hook
from .segment import Segment

_TRIES = (1, 4, 16)  # after so many misses the cues of a segment are written anew


class Cue:
    """One intercepted function at its place. `take(args, kwargs)` runs it; `views` are the windows
    that it gave last, which are given again once nobody else holds them."""

    __slots__ = ("hook", "next", "segment", "storages", "take", "views")

    def __init__(self, hook: Hook, segment: Segment) -> None:
        self.hook, self.segment = hook, segment
        self.next: Cue | None = None
        self.views: list[np.ndarray | None] | None = None
        self.storages: list[int] = []  # of the windows
        self.take: Callable[[tuple, dict[str, Any]], Any] = self.run

    def run(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The general path; what it calls is expected next."""
        session = ACTIVE.session
        if session.is_guarded and needs_dispatch(args, kwargs):
            return session.follow(self.hook, args, kwargs)
        ACTIVE.cue = self.next
        return self.hook.follow(session, args, kwargs)

    def miss(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Something else happens than was noted."""
        ACTIVE.cue = None
        self.segment.misses += 1
        session = ACTIVE.session
        if session.is_guarded:
            return session.follow(self.hook, args, kwargs)
        return self.hook.follow(session, args, kwargs)

    def renew(self, source: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Makes the windows anew."""
        with ACTIVE.session.silence():
            result = self.hook.original(*args, **kwargs)
        several = result.__class__ in (tuple, list)
        self.views = [t._array for t in (result if several else (result,))]
        ACTIVE.cue = self.next
        return result


def is_due(segment: Segment) -> bool:
    """Whether a call is to note what it goes through."""
    if segment.cue is None:
        return segment.notes < len(_TRIES)
    return segment.notes <= len(_TRIES) and segment.misses >= _TRIES[segment.notes - 1]


def link(segment: Segment, cues: list[Cue | None]) -> None:
    """Puts the cues that a call noted to use."""
    segment.notes += 1
    segment.misses = 0
    segment.cue = None
    viewers = segment.recycled.viewers
    for entries in viewers:
        entries[:] = [(viewer, k) for viewer, k in entries if not isinstance(viewer, Cue)]
    previous: Cue | None = None
    for cue in cues:
        if cue is None:
            break
        if previous is None:
            segment.cue = cue
        else:
            previous.next = cue
        previous = cue
        for k, s in enumerate(cue.storages):
            viewers[s].append((cue, k))

