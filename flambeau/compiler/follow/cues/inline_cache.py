"""Inline caches: straight-line code for each intercepted function of a followed call.

The first call that follows a segment to its end notes the functions it calls. Each gets a `Cue`:
generated code that compares the arguments with the expected ones and creates the result, without
loops or lookups. On a miss, the call takes the general path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..foreign_tensors import has_foreign
from ..hooks import ACTIVE, Hook
from ..segment import Segment
from .composite_code import Piece

_TRIES = (1, 4, 16)  # misses before the cues of a segment are regenerated


class Cue:
    """The inline cache of one intercepted call in a segment.

    take(args, kwargs): handles the call.
    views: the windows returned last; they are reused once nobody else holds them.
    piece: what the code of a composite around the call needs, while the composite runs.
    """

    __slots__ = ("hook", "next", "piece", "segment", "storages", "take", "views")

    def __init__(self, hook: Hook, segment: Segment) -> None:
        self.hook, self.segment = hook, segment
        self.next: Cue | None = None
        self.piece: Piece | None = None
        self.views: list[np.ndarray | None] | None = None
        self.storages: list[int] = []  # of the windows
        self.take: Callable[[tuple, dict[str, Any]], Any] = self.run

    def run(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Take the general path; the next cue is for a function that this one calls."""
        session = ACTIVE.session
        if session.is_guarded and has_foreign(args, kwargs):
            return session.follow(self.hook, args, kwargs)
        ACTIVE.cue = self.next
        return self.hook.follow(session, args, kwargs)

    def miss(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Take the general path: the call differs from what the cue expects."""
        ACTIVE.cue = None
        self.segment.misses += 1
        session = ACTIVE.session
        if session.is_guarded:
            return session.follow(self.hook, args, kwargs)
        return self.hook.follow(session, args, kwargs)

    def renew(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Recreate the windows by running the function."""
        result = self.renew_views(args, kwargs)
        ACTIVE.cue = self.next
        return result

    def renew_views(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Recreate the windows; another cue is active."""
        with ACTIVE.session.silence():
            result = self.hook.original(*args, **kwargs)
        several = result.__class__ in (tuple, list)
        assert self.views is not None
        self.views[:] = [t._array for t in (result if several else (result,))]
        recycled = self.segment.recycled
        if recycled.arrays[self.storages[0]] is not None:  # windows on constants do not count
            recycled.generation += 1
        return result


def find_inner_cues(cues: list[Cue | None]) -> list[Cue]:
    """Return the cues of functions called by the running one, whose place is the last empty one."""
    result: list[Cue] = []
    for cue in reversed(cues):
        if cue is None:
            break
        result.append(cue)
    return result[::-1]


def drop_pieces(cues: list[Cue | None]) -> None:
    """Drop what the code of a composite needed, once it ran: it refers to tensors."""
    for cue in cues:
        if cue is not None:
            cue.piece = None


def drop_inner(cues: list[Cue | None]) -> None:
    """Drop the cues of functions called by the running one, whose own cue does not call them.

    The last empty entry is the place of that cue.
    """
    while (cue := cues[-1]) is not None:
        cue.views = cue.piece = None  # these references would count as holders
        cues.pop()


def is_due(segment: Segment) -> bool:
    """Whether the next call should generate cues."""
    if segment.cue is None:
        return segment.notes < len(_TRIES)
    return segment.notes <= len(_TRIES) and segment.misses >= _TRIES[segment.notes - 1]


def link(segment: Segment, cues: list[Cue | None]) -> None:
    """Chain the cues that a call generated, and put them into use."""
    segment.notes += 1
    segment.misses = 0
    segment.cue = None
    recycled = segment.recycled
    recycled.generation += 1
    viewers = recycled.viewers
    for entries in viewers:
        entries[:] = [(viewer, k) for viewer, k in entries if not isinstance(viewer, Cue)]
    recycled.windows[:] = [pass_.views for pass_ in segment.backwards.values()]
    previous: Cue | None = None
    for cue in cues:
        if cue is None:
            break
        if previous is None:
            segment.cue = cue
        else:
            previous.next = cue
        previous = cue
        if cue.views:
            recycled.windows.append(cue.views)
        for k, s in enumerate(cue.storages):
            viewers[s].append((cue, k))
