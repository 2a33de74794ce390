"""Listing: what looks like a recorder to code that records, while a segment is followed.

Recorders of functions that are no operators hand over what they did. Here it is compared with the
list instead. Values are the arrays themselves.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ...tensor.tensor import Tensor
from ..trace.trace import UPDATE
from .event_listing import list_constant, list_empty, list_update, list_write
from .hooks import ACTIVE


class Listing:
    """The interface of a Recorder, for the session that is active."""

    counter = False  # no counted random numbers
    numbers: tuple = ()

    def __init__(self) -> None:
        self.deferred = self
        self.scalars: dict[int, Any] = {}
        self.trace = _NoTrace()
        self.public: set[str] = set()
        self.held: list[Any] = []
        self.drawing = False

    @property
    def on(self) -> bool:
        """Whether what happens now is to be listed."""
        return not ACTIVE.session.quiet

    here = on

    def silence(self) -> AbstractContextManager[None]:
        """Nothing is listed inside."""
        silence: AbstractContextManager[None] = ACTIVE.session.silence()
        return silence

    def compute(self) -> None:
        """Has values computed that are needed now."""
        ACTIVE.session.flush()

    def problem(self, what: str) -> None:
        """Something that cannot be listed comes next."""
        ACTIVE.session.flush()

    def refer(self, x: Any, line: str = "") -> Any:
        """Arguments as they are."""
        return x

    def note_state(self, *_: Any) -> None:
        """Nothing: what optimizers did is never taken back."""

    def note_version(self, tensor: Tensor) -> None:
        """Nothing."""
        self.held.clear()

    def write(self, target: np.ndarray, source: np.ndarray, **_: Any) -> None:
        """Lists that `source` is written over `target`."""
        list_write(ACTIVE.session, target, source)

    def constant(self, array: np.ndarray, function: Any = None) -> None:
        """Lists numbers made from nothing."""
        list_constant(ACTIVE.session, array, function)

    def empty(self, array: np.ndarray, function: Any = None) -> None:
        """Lists memory that was reserved."""
        list_empty(ACTIVE.session, array, function)

    def add(self, kind: str, **parts: Any) -> None:
        """Lists an optimizer's update; other events were computed by a barrier."""
        if kind != UPDATE:
            return
        list_update(ACTIVE.session, parts["args"], parts["kwargs"], self.scalars.pop(0),
                    parts["function"])


class _NoTrace:
    """What stands for a trace."""

    events: tuple = ()

    def __init__(self) -> None:
        self.existing_tensors: set[int] = set()
        self.known_owners: set[int] = set()

    def storage_of(self, array: np.ndarray) -> np.ndarray:
        """Something, for all memory."""
        return array

    def value_of(self, array: np.ndarray, fresh: bool = False) -> np.ndarray:
        """The array."""
        self.existing_tensors.clear()
        return array


class Nothing(Listing):
    """For the end of what a retired call began: everything has values, and nothing is listed."""

    on = here = False

    def __init__(self) -> None:
        super().__init__()
        self.deferred = None  # type: ignore[assignment]

    def silence(self) -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()

    def compute(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    problem = write = constant = empty = add = result = compute


LISTING, NOTHING = Listing(), Nothing()
