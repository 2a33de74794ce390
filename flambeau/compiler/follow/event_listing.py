"""List events other than operators: writes, constants, allocations, random draws and updates.

Each function steps past the segment's next event, or records the event if no segment matches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.mode import MODE
from ...autograd.views import Geometry
from ...tensor.ambient import AMBIENT
from ...tensor.exposed_memory import is_exposed
from ...tensor.layout import find_owner
from ...tensor.tensor import Tensor
from ..trace.trace import CONSTANT, DRAW, EMPTY, UPDATE, WINDOW, WRITE, Value, are_same_bits
from .following import Following
from .segment import Entry

if TYPE_CHECKING:
    from .session import Session


def list_write(session: Session, target: np.ndarray, source: np.ndarray) -> None:
    """List a copy of `source` into `target`."""

    def test(following: Following, entry: Entry) -> bool:
        into, source_value = entry.event.args
        fresh = into.storage in entry.allocated
        begun = (following.begins(entry, into, target) if fresh
                 else following.matches_window(into, target))
        return begun and following.matches_window(source_value, source)

    if is_exposed(find_owner(target)):
        session.flush()
    elif session.match(WRITE, test) is not None:
        return
    np.copyto(target, source, casting="unsafe")
    recorder = session.next_recorder()
    if recorder is not None:
        recorder.write(target, source)


def list_constant(session: Session, array: np.ndarray, function: Any = None) -> None:
    """List an array of constants. Its values are already there."""

    def test(following: Following, entry: Entry) -> bool:
        result = entry.event.array
        return result is not None and following.begins(entry, entry.event.results[0], array) \
            and are_same_bits(np.asarray(result), array)

    if session.following is None and session.recorder is None \
            and session.position.exit.varies == CONSTANT:
        return
    following = session.following
    if following is not None and following.segment.takes_constants:
        entry = following.next
        if entry.kind == CONSTANT and following.ambient == AMBIENT.changes \
                and test(following, entry):
            following.step()
        return
    other = following is not None and following.next.kind == CONSTANT \
        and following.next.event.array is not None \
        and np.shape(following.next.event.array) == array.shape
    if session.match(CONSTANT, test) is None:
        if other and session.recorder is None and not session.retired:
            session.position.vary(CONSTANT)
            return
        recorder = session.next_recorder()
        if recorder is not None:
            recorder.constant(array, function)


def list_wrapped(following: Following, bound: tuple) -> bool:
    """List the constants that library code wrapped for an operator on these operands. Return False
    if the operator gets others."""
    entries, start = following.segment.entries, following.pos
    end = next(i for i in range(start, len(entries) + 1)
               if i == len(entries) or not entries[i].is_wrapped)
    if end == len(entries) or following.ambient != AMBIENT.changes:
        return False
    arrays = {expected.storage: getattr(x, "_array", x)
              for (_, expected), x in zip(entries[end].operands, bound, strict=False)
              if expected.__class__ is Value}
    for entry in entries[start:end]:
        value, known = entry.event.results[0], entry.event.array
        array = arrays.get(value.storage)
        if known is None or array.__class__ is not np.ndarray \
                or not following.begins(entry, value, array) \
                or not are_same_bits(np.asarray(known), array):
            return False
        following.step()
    return True


def list_empty(session: Session, array: np.ndarray, function: Any = None) -> None:
    """List an uninitialized allocation, such as `torch.empty`."""
    if session.match(EMPTY, lambda f, e: f.begins(e, e.event.results[0], array)) is None:
        recorder = session.next_recorder()
        if recorder is not None:
            recorder.empty(array, function)


def list_root(session: Session, array: np.ndarray, function: Any) -> None:
    """List the root cotangent of a backward pass if the segment holds it as a constant."""
    following = session.following
    if following is None or following.next.kind != CONSTANT or array.base is not None \
            or id(array) in following.bound:
        return
    number = following.next.number
    if number is None or array.shape or following.ambient != AMBIENT.changes \
            or array.dtype is not number.dtype or array.tobytes() != number.tobytes():
        list_constant(session, array, function)
        return
    following.owners[following.next.allocated[0]] = array
    following.bound.add(id(array))
    following.step()


def list_copy_of(session: Session, leaf: Tensor, g: Tensor) -> Tensor | None:
    """List copying a cotangent into a leaf's new grad. Return that grad, or None on a mismatch."""

    def test(following: Following, entry: Entry) -> bool:
        into, source_value = entry.event.args
        return (into.storage in entry.allocated and into.strides == leaf._array.strides
                and following.matches_window(source_value, g._array))

    following = session.match(WRITE, test)
    if following is None:
        return None
    entry = following.segment.entries[following.pos - 1]
    owner, into = following.make(entry), entry.event.args[0]
    assert owner is not None
    part = into.shape != owner.shape or into.dtype != owner.dtype
    return following.tensor(into, part, None)


def list_window_map(session: Session, original: Callable, g: Tensor, geometry: Geometry) -> Tensor:
    """List a map between the cotangents of a base and of its view. Return its result."""
    if geometry.bits or g._array.__class__ is not np.ndarray or (MODE.grad and g._tracked):
        session.flush()
        with session.silence():
            return original(g, geometry)
    description = geometry.describe()

    def test(following: Following, entry: Entry) -> bool:
        event = entry.event
        return event.function.__name__ == original.__name__ and event.args[1] == description \
            and following.matches_window(event.args[0], g._array)

    following = session.match(WINDOW, test)
    if following is not None:
        entry = following.segment.entries[following.pos - 1]
        owner, result = following.make(entry), entry.event.results[0]
        assert owner is not None
        return following.tensor(result, result.shape != owner.shape, None)
    recorder = session.next_recorder()
    with session.silence():
        y = original(g, geometry)
    if recorder is not None:
        recorder.add(WINDOW, function=original, args=(recorder.refer(g), description),
                     kwargs={"geometry": geometry}, results=(recorder.describe_results(y),))
    return y


def list_draw(session: Session, original: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """List a random draw, and draw right away into the buffer that the program reads."""
    array, *rest = args

    def test(following: Following, entry: Entry) -> bool:
        event = entry.event
        if event.function.__name__ != original.__name__:
            return False
        into = event.args[0]
        fresh = into.storage in entry.allocated
        begun = (following.begins(entry, into, array) if fresh
                 else following.matches_window(into, array))
        return begun and following.all_same(event.args[1:], rest) and following.same(
            event.kwargs, kwargs)

    following = session.match(DRAW, test)
    with session.silence():
        if following is not None:
            following.segment.entries[following.pos - 1].buffer.fill()
            return array
        original(*args, **kwargs)
    recorder = session.next_recorder()
    if recorder is not None:
        into = recorder.trace.value_of(array, fresh=True)
        recorder.add(DRAW, function=original, args=(into, *rest), kwargs=kwargs,
                     array=array.copy())
    return array


def list_update(
    session: Session, rows: tuple, fields: dict[str, Any], scalars: Any, formula: Callable
) -> bool:
    """List an optimizer update. `rows`: (parameter, grad, states) of each parameter. Return False
    if it is not listed, but recorded or eager: then it must run now."""

    def test(following: Following, entry: Entry) -> bool:
        event = entry.event
        return event.kwargs == fields and following.all_same(event.args, rows)

    following = session.match(UPDATE, test)
    if following is not None:
        following.updates[following.pos - 1] = scalars
        if following.shows_writes:
            session.flush()
        return True
    recorder = session.next_recorder()
    if recorder is not None:
        refs = tuple([(recorder.refer(p), recorder.refer(g), tuple(map(recorder.refer, s)))
                      for p, g, s in rows])
        recorder.add(UPDATE, function=formula, args=refs, kwargs=fields,
                     array=np.array(scalars, np.float64))
    return False
