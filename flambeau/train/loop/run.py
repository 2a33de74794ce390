"""`Run`, the argument of handlers: attaches them, fires events, stops, and collects logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..._namespace import settings
from ..events import scope as scopes
from ..events.event import Event
from ..events.handlers import Entered, Handle, Handlers
from ..events.named_hooks import Hooks
from ..events.other_libraries import ELSEWHERE, Elsewhere
from ..events.scope import Scope
from ..events.suggestions import suggest
from ..state.history import History
from ..state.persisted_state import Persisted, Persistence
from ..state.state import State
from .attach import use

F = TypeVar("F", bound=Callable[..., Any])


class MissingMetric(KeyError):
    """A monitored metric is missing; the message lists those that exist.

    >>> from flambeau.train import EarlyStopping, Loop
    >>> try:
    ...     Loop(lambda batch: 1.0, callbacks=[EarlyStopping("vald_loss")]).run([1])
    ... except MissingMetric as error:
    ...     print(error)
    there is no 'vald_loss' in the logs of epoch 1. There are none
    """

    def __str__(self) -> str:
        return str(self.args[0])


class Run:
    """A run as its handlers see it; `Loop` executes it."""

    start, end, error = scopes.run.start, scopes.run.end, scopes.run.error
    vars().update({name: Elsewhere() for name in ELSEWHERE})

    def __init__(self) -> None:
        self.state = State()
        self.handlers = Handlers(self)
        self.persistence = Persistence()
        self.hooks = Hooks(self)
        self.monitored: list[str] = []
        self._rows: list[tuple[int, dict[str, Any]]] = []
        self._stopping: Scope | None = None
        self._stage = "done"  # the epoch's next part: train, valid, done
        self._counts: dict[str, int] = {}
        self._saved_mode: int | None = None  # the deterministic mode before `exact`

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) - set(ELSEWHERE))

    def on(self, where: Any, band: Any = None) -> Callable[[F], F]:
        """Decorator: have a function called at an event, or a generator function at a scope."""

        def attach(function: F) -> F:
            self.attach(where, function, band)
            return function

        return attach

    def attach(self, where: Any, function: Callable[..., Any], band: Any = None) -> Handle:
        """Attach without a decorator. Detach by `detach()` of the result, or use it in a `with`."""
        return self.handlers.attach(where, function, band)

    def use(self, callback: Any) -> Handle:
        """Attach an object with methods `on_...`, or a generator callback."""
        return use(self.handlers, self.persistence, callback)

    def detach(self, function: Any) -> None:
        """Detach a function or callback from all its events."""
        handles = [handle for handle in self.handlers.handles if handle.function is function]
        if not handles:
            raise ValueError(f"{getattr(function, '__qualname__', function)} is not attached")
        for handle in handles:
            handle.detach()

    def scope(self, stage: Scope, n: int | None = None) -> Entered:
        """`with run.scope(backward):` fires its start, and its end or error."""
        return Entered(self.handlers, stage, self._count(stage.name) if n is None else n)

    def fire(self, event: Event, n: int | None = None) -> None:
        """Fire a custom event."""
        self.handlers.fire(event, self._count(event.name) if n is None else n)

    def _count(self, name: str) -> int:
        n = self._counts[name] = self._counts.get(name, 0) + 1
        return n

    def stop(self, stage: Scope = scopes.run) -> None:
        """End at the next step's boundary; `end` events still fire.

        `run` (the default) ends all, `epoch` the epoch, without its validation, and `train` the
        epoch's training alone.
        """
        if not isinstance(stage, Scope) or stage.name not in ("run", "epoch", "train"):
            raise ValueError(f"stop ends run, epoch or train, not {stage!r}")
        if self._stopping is None or self._stopping.name != "run":
            self._stopping = stage
        self.fire(scopes.stopped)

    @property
    def stopping(self) -> bool:
        """Whether the run is about to end."""
        return self._stopping is not None and self._stopping.name == "run"

    @property
    def ending(self) -> Scope | None:
        """The scope that `stop` is about to end: run, epoch or train; else None."""
        return self._stopping

    @property
    def epoch_over(self) -> bool:
        """Whether the epoch is complete. A resumed run continues an incomplete one."""
        return self._stage == "done"

    def exact(self, wanted: bool = True) -> None:
        """Make the following steps equal, bit for bit, those of a process that resumes from here:
        no kernel takes over later, as with use_deterministic_algorithms. Resume calls it."""
        if wanted and self._saved_mode is None:
            self._saved_mode = settings.get_deterministic_debug_mode()
            settings.use_deterministic_algorithms(True)
        elif not wanted and self._saved_mode is not None:
            settings.set_deterministic_debug_mode(self._saved_mode)
            self._saved_mode = None

    def persist(self, name: str | None = None, /, **defaults: Any) -> Persisted:
        """Return attributes that are saved with the run and restored when it resumes.

        In a generator callback with a `name`, that name is used. Raises ValueError if another
        callback persists under it.
        """
        return self.persistence.persist(name, self.handlers.current, defaults)

    def log(self, **values: Any) -> None:
        """Add values to this epoch's logs."""
        self.state.metrics.update(values)

    @property
    def logs(self) -> dict[str, Any]:
        """This epoch's logs so far."""
        return dict(self.state.metrics)

    @property
    def history(self) -> History:
        """The logs of every epoch, with its number."""
        return History({"epoch": number, **logs} for number, logs in self._rows)

    def plot(self, path: Any = None) -> Any:
        """Plot the learning curves so far, for a notebook to display; save as .html, .svg or .png
        if given a path. Raises ValueError before the end of the first epoch."""
        from ..reporting.learning_curves import plot

        return plot(self, path)

    def monitor(self, name: str) -> None:
        """Check at the end of the first epoch that this metric exists."""
        self.monitored.append(name)

    def metric(self, name: str) -> Any:
        """Return this epoch's metric `name`. Raises MissingMetric, which lists the others."""
        try:
            return self.state.metrics[name]
        except KeyError:
            raise MissingMetric(
                f"there is no '{name}' in the logs of epoch {self.state.epoch}"
                f"{suggest(name, self.state.metrics)}"
            ) from None
