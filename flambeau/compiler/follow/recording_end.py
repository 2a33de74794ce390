"""The end of a recorded segment: store it at its exit, build its program, or give up.

Segments of different lengths may merge at an exit (`FollowedFunction.grow`). If calls reached that
exit only by leaving older segments, those are parts of one growing list too, so the next calls are
recorded from the fork where that began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .growing_segment import SEEN_LENGTHS
from .hooks import RECORDING
from .segment import FAILURES, Exit

if TYPE_CHECKING:
    from .session import Session


def end_recording(session: Session) -> None:
    """Finish the recorded segment and start to build its program."""
    recorder, session.recorder = session.recorder, None
    assert recorder is not None
    with session.silence():
        RECORDING.remove()
        result = recorder.finish()
        if recorder.why:
            session.driver.note(recorder.why)
        if result is None:
            if recorder.trace.events:
                _count_failure(session, recorder.why)
            return
        exit, segment = session.exit, result[0]
        exit.segments.insert(0, segment)
        grown = session.driver.grow(exit, result[3])
        is_partial = exit.fresh > 0 or recorder.cut is not None
        if grown is not None:
            segment = grown
            _record_from_fork(session, exit)
        elif exit.fresh:
            _count_fresh(exit)
        else:
            session.driver.build(segment, segment.count, *result[1:])
    if not is_partial:
        session.exit, session.tried = segment.exit(segment.count), 0
    else:  # the events behind the cut ran eagerly and belong to no segment
        session.retire()


def _record_from_fork(session: Session, exit: Exit) -> None:
    """Segments merged at an exit: record the next calls from the fork that led there, if any."""
    exit.fresh, fork = 0, session.fork
    if fork is not None and fork is not exit and fork.grows:
        fork.fresh = SEEN_LENGTHS


def _count_fresh(exit: Exit) -> None:
    """Count a call recorded for a longer list; after the last, return to the known segments."""
    exit.fresh -= 1
    if not exit.fresh:
        exit.grows = False
        exit.segments = [s for s in exit.segments if s.is_ready or s.exit(s.count).pending]


def _count_failure(session: Session, why: str) -> None:
    """Count a recording that led to nothing; close the exit after the second."""
    exit = session.exit
    exit.failures += 1
    if exit.failures >= FAILURES:
        exit.closed = why or "it cannot be recorded"
        session.driver.stop_at(exit)
