"""LoaderObserver: reports iterators of DataLoaders, their batches, and what is collated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...native.foundation.user_frames import is_internal
from ..places import find_spot

if TYPE_CHECKING:
    from ..session import Session


class LoaderObserver:
    """Observers of a DataLoader's iterator and of the fetcher that builds its batches."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def begin(self, original: Callable, args: tuple, kwargs: dict) -> None:
        """The iterator's `__init__`."""
        original(*args, **kwargs)
        session = self.session
        session.wake()
        loader = session.loaders[args[0]] = args[1] if len(args) > 1 else kwargs["loader"]
        if not session.busy:
            session.emit("on_iterator", loader, find_spot())

    def advance(self, original: Callable, args: tuple, kwargs: dict) -> Any:
        """The iterator's `__next__`."""
        batch = original(*args, **kwargs)
        iterator, session = args[0], self.session
        if not session.busy and iterator in session.loaders:
            session.emit("on_batch", iterator, batch, find_spot())
            if iterator._num_yielded == 1:
                session.clock.again()
        return batch

    def fetch(self, original: Callable, args: tuple, kwargs: dict) -> Any:
        """`fetch`: reports the samples passed to a user's collate function, with the batch."""
        session, fetcher = self.session, args[0]
        collate = fetcher.collate_fn
        code = getattr(collate, "__code__", None)
        if session.busy or not session.watching or code is None or is_internal(code):
            return original(*args, **kwargs)
        calls: list[list[Any]] = []

        def catch(samples: Any) -> Any:
            if isinstance(samples, list):
                calls.append(list(samples))
            return collate(samples)

        fetcher.collate_fn = catch
        try:
            batch = original(*args, **kwargs)
        finally:
            fetcher.collate_fn = collate
        for samples in calls:
            session.emit("on_collate", collate, samples, batch)
        return batch
