"""Listing: stands in for the recorder while a segment is followed.

Functions other than operators report their writes to a recorder. While a segment is followed, the
writes are compared with its events instead. Arrays stand in for Values.
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
    """The interface of a Recorder, forwarding to the active session."""

    counter = False  # no counter-based random numbers
    numbers: tuple = ()

    def __init__(self) -> None:
        self.deferred = self
        self.scalars: dict[int, Any] = {}
        self.defers_update = False  # whether the update that was added last was listed
        self.trace = _NoTrace()
        self.public: set[str] = set()
        self.keep_alive: list[Any] = []
        self.drawing = False

    @property
    def on(self) -> bool:
        """Whether this thread's work is currently listed."""
        return not ACTIVE.session.quiet

    here = on

    @property
    def versions(self) -> list[tuple[Tensor, int]]:
        """A list for versions that is dropped: they are already exact."""
        return []

    @property
    def begun(self) -> set[int]:
        """A set for state that optimizers write as steps begin; dropped, as versions are."""
        return set()

    def silence(self) -> AbstractContextManager[None]:
        """List nothing inside the block."""
        silence: AbstractContextManager[None] = ACTIVE.session.silence()
        return silence

    def compute(self) -> None:
        """Compute the listed events, because their values are needed."""
        ACTIVE.session.flush()

    def problem(self, message: str) -> None:
        """Compute the listed events, because the next one cannot be listed."""
        ACTIVE.session.flush()

    def refer(self, x: Any, line: str = "") -> Any:
        """Return the argument itself."""
        return x

    def note_state(self, *_: Any) -> None:
        """Do nothing: no pages are prefaulted here."""

    def note_version(self, tensor: Tensor) -> None:
        """Ignore the version, which is already exact."""
        self.keep_alive.clear()

    def write(self, target: np.ndarray, source: np.ndarray, **_: Any) -> None:
        """List a copy of `source` into `target`."""
        list_write(ACTIVE.session, target, source)

    def constant(self, array: np.ndarray, function: Any = None) -> None:
        """List an array of constants."""
        list_constant(ACTIVE.session, array, function)

    def empty(self, array: np.ndarray, function: Any = None) -> None:
        """List an uninitialized allocation."""
        list_empty(ACTIVE.session, array, function)

    def add(self, kind: str, **parts: Any) -> None:
        """List an optimizer update. Barriers have already computed all other events."""
        self.defers_update = kind == UPDATE and list_update(
            ACTIVE.session, parts["args"], parts["kwargs"], self.scalars.pop(0), parts["function"])


class _NoTrace:
    """Stands in for a trace."""

    events: tuple = ()

    def __init__(self) -> None:
        self.existing_tensors: set[int] = set()
        self.known_owners: set[int] = set()

    def storage_of(self, array: np.ndarray) -> np.ndarray:
        """Return the array itself."""
        return array

    def value_of(self, array: np.ndarray, fresh: bool = False) -> np.ndarray:
        """Return the array itself."""
        self.existing_tensors.clear()
        return array


class Nothing(Listing):
    """The listing of a retired call: all values are computed, and nothing is listed."""

    on = here = False

    def __init__(self) -> None:
        super().__init__()
        self.deferred = None  # type: ignore[assignment]

    def silence(self) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()

    def compute(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    problem = write = constant = empty = add = result = compute


LISTING, NOTHING = Listing(), Nothing()
