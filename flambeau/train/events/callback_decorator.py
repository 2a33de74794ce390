"""`@callback(...)`: declare a generator callback's scope and name, for `use` and `callbacks=`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .order import Band, as_band
from .scope import Scope, run

F = TypeVar("F", bound=Callable[..., Any])


def callback(
    scope: Scope = run, *, band: Any = Band.USER, name: str | None = None,
    monitor: str | None = None,
) -> Callable[[F], F]:
    """Declare a generator callback's scope, its band, the name of its saved state, and the metric
    it monitors.

    >>> from flambeau.train import Loop, callback, epoch, step
    >>> @callback(epoch)
    ... def count(run):
    ...     first = run.state.step
    ...     yield
    ...     print(run.state.step - first, "steps")
    >>> _ = Loop(lambda batch: None, callbacks=[count]).run([1, 2, 3])
    3 steps
    """

    def mark(function: F) -> F:
        attributes = {"scope": scope, "band": as_band(band), "name": name, "monitor": monitor}
        for attribute, value in attributes.items():
            setattr(function, attribute, value)
        return function

    return mark
