"""Listing: the interface of a recorder while a segment is followed.

Functions other than operators tell a recorder which writes they consist of. While a segment is
followed, these are compared with its events instead. A Value is the array itself.
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
        self.keep_alive: list[Any] = []
        self.drawing = False

    @property
    def on(self) -> bool:
        """Whether this thread's work is being listed now."""
        return not ACTIVE.session.quiet

    here = on

    def silence(self) -> AbstractContextManager[None]:
        """List nothing inside the block."""
        silence: AbstractContextManager[None] = ACTIVE.session.silence()
        return silence

    def compute(self) -> None:
        """Compute the listed events: their values are needed."""
        ACTIVE.session.flush()

    def problem(self, what: str) -> None:
        """Compute the listed events: what comes next cannot be listed."""
        ACTIVE.session.flush()

    def refer(self, x: Any, line: str = "") -> Any:
        """The argument itself."""
        return x

    def note_state(self, *_: Any) -> None:
        """Ignored: nothing prefaults pages here."""

    def note_version(self, tensor: Tensor) -> None:
        """Ignored: versions are exact already."""
        self.keep_alive.clear()

    def write(self, target: np.ndarray, source: np.ndarray, **_: Any) -> None:
        """List that `source` is written over `target`."""
        list_write(ACTIVE.session, target, source)

    def constant(self, array: np.ndarray, function: Any = None) -> None:
        """List an array of constants."""
        list_constant(ACTIVE.session, array, function)

    def empty(self, array: np.ndarray, function: Any = None) -> None:
        """List memory that was reserved."""
        list_empty(ACTIVE.session, array, function)

    def add(self, kind: str, **parts: Any) -> None:
        """List an optimizer's update; barriers have computed all other events."""
        if kind != UPDATE:
            return
        list_update(ACTIVE.session, parts["args"], parts["kwargs"], self.scalars.pop(0),
                    parts["function"])


class _NoTrace:
    """Takes the place of a trace."""

    events: tuple = ()

    def __init__(self) -> None:
        self.existing_tensors: set[int] = set()
        self.known_owners: set[int] = set()

    def storage_of(self, array: np.ndarray) -> np.ndarray:
        """The array, whatever memory it is on."""
        return array

    def value_of(self, array: np.ndarray, fresh: bool = False) -> np.ndarray:
        """The array."""
        self.existing_tensors.clear()
        return array


class Nothing(Listing):
    """The listing of a retired call: everything has values, and nothing is listed."""

    on = here = False

    def __init__(self) -> None:
        super().__init__()
        self.deferred = None  # type: ignore[assignment]

    def silence(self) -> AbstractContextManager[None]:
        """A block without effect."""
        return nullcontext()

    def compute(self, *_: Any, **__: Any) -> None:
        """Ignored."""

    problem = write = constant = empty = add = result = compute


LISTING, NOTHING = Listing(), Nothing()
