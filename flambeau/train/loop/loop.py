"""`Loop(step).run(data)`: epochs and steps over any data with any step, independent of nets.

Adds to two `for` loops: scopes and their events, handlers of every kind, stopping, logs, and a
position that can be saved and restored in the middle of an epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, TypeVar

from ..._namespace import settings
from ..events import scope as scopes
from .attach import listed, use
from ..state.data import length_of, skipped
from ..state.history import History
from ..events.event import Event
from ..events.handlers import Entered, Frame, Handle, Handlers
from ..events.named_hooks import Hooks
from ..events.other_libraries import ELSEWHERE, Elsewhere
from ..events.suggestions import suggest
from ..state.numpy_packing import packed, unpacked
from ..state.persisted_state import Persisted, Persistence
from ..state.random_state import plain, random_state, set_random_state
from ..events.scope import Scope
from ..events.handler_arguments import step_of
from ..state.state import State

F = TypeVar("F", bound=Callable[..., Any])
_STEP, _START = scopes.step, scopes.step.start


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


class Loop:
    """Runs `step(run, batch)`, or `step(batch)`, for every batch of every epoch.

    The loop itself is the `run` that handlers get. What the step returns is `run.state.output`.

    >>> from flambeau.train import Loop, epoch
    >>> loop = Loop(lambda batch: batch * 2)
    >>> @loop.on(epoch.end)
    ... def show(run):
    ...     print(run.state.epoch, run.state.step, run.state.output)
    >>> _ = loop.run([1, 2, 3], epochs=2)
    1 3 6
    2 6 6
    """

    start, end, error = scopes.run.start, scopes.run.end, scopes.run.error
    vars().update({name: Elsewhere() for name in ELSEWHERE})

    def __init__(
        self, step: Callable[..., Any] | None = None, *, callbacks: Iterable[Any] = ()
    ) -> None:
        self.state = State()
        self.handlers = Handlers(self)
        self.persistence = Persistence()
        self.hooks = Hooks(self)
        self.monitored: list[str] = []
        self._rows: list[tuple[int, dict[str, Any]]] = []
        self._body: Callable[[Any], Any] | None = None
        self._stopping: Scope | None = None
        self._stage = "done"  # what of the epoch comes next: train, valid, done
        self._completed = 0  # batches of the epoch whose step is done
        self._order: dict[str, Any] | None = None  # random state when the epoch's order was drawn
        self._boundary: dict[str, Any] | None = None  # random state when training was done
        self._position: dict[str, Any] | None = None  # loaded, and not yet gone to
        self._counts: dict[str, int] = {}
        self._inexact: int | None = None  # the setting before `exact`
        self._running = self._stepping = False
        if step is not None:
            self.step(step)
        for callback in listed(callbacks):
            self.use(callback)

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) - set(ELSEWHERE))

    # ---- ways in ----

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
        """Take a function or callback out, wherever it is attached."""
        result = [handle for handle in self.handlers.handles if handle.function is function]
        if not result:
            raise ValueError(f"{getattr(function, '__qualname__', function)} is not attached")
        for handle in result:
            handle.detach()

    def step(self, function: F) -> F:
        """Decorator: the function `(run, batch)`, or `(batch)`, that a step is."""
        self._body = step_of(function, self)
        return function

    # ---- what handlers use ----

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
        """What `stop` was asked to end, until it has ended: run, epoch or train."""
        return self._stopping

    @property
    def epoch_over(self) -> bool:
        """Whether the epoch is complete: false in an epoch cut short by the run's end, which a
        resumed run continues."""
        return self._stage == "done"

    def exact(self, wanted: bool = True) -> None:
        """Make the following steps bit-exact in a process that resumes from here: no kernel takes
        over later, as with use_deterministic_algorithms. Resume calls it."""
        if wanted and self._inexact is None:
            self._inexact = settings.get_deterministic_debug_mode()
            settings.use_deterministic_algorithms(True)
        elif not wanted and self._inexact is not None:
            settings.set_deterministic_debug_mode(self._inexact)
            self._inexact = None

    def persist(self, name: str | None = None, /, **defaults: Any) -> Persisted:
        """Return attributes that are saved with the run and restored when it resumes.

        In a generator callback with a `name`, that name is used. Raises ValueError if another
        callback persists under it.
        """
        return self.persistence.persist(name, self.handlers.current, defaults)

    def log(self, **values: Any) -> None:
        """Put numbers into this epoch's logs."""
        self.state.metrics.update(values)

    @property
    def logs(self) -> dict[str, Any]:
        """The numbers of this epoch so far."""
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
        """The number of this epoch called `name`; MissingMetric, with those there are, if none."""
        try:
            return self.state.metrics[name]
        except KeyError:
            raise MissingMetric(
                f"there is no '{name}' in the logs of epoch {self.state.epoch}"
                f"{suggest(name, self.state.metrics)}"
            ) from None

    # ---- running ----

    def run(
        self, data: Any, epochs: int = 1, *, callbacks: Iterable[Any] = ()
    ) -> History:
        """Go through `data` `epochs` times; returns `history`.

        Starts at epoch 1, or continues from `load_state_dict`. `callbacks` are
        attached for this run only. Raises ValueError for data without a batch.
        """
        if self._body is None:
            raise RuntimeError("there is no step: Loop(step), or @loop.step")
        if length_of(data) == 0:
            raise ValueError("run: there are no batches")
        return self._run(data, epochs, callbacks)

    def _run(self, data: Any, epochs: int, callbacks: Iterable[Any]) -> History:
        if not isinstance(epochs, int) or isinstance(epochs, bool) or epochs < 0:
            raise ValueError(f"epochs is a whole number from 0 on, got {epochs!r}")
        if self._running:
            raise RuntimeError("this run is under way: a second one needs a loop of its own")
        if self._position is None:
            self._forget()
        state = self.state
        state.data, state.batches, state.epochs = data, length_of(data), epochs
        handles: list[Handle] = []
        state.resumed = self._position is not None
        self._running, self._stopping = True, None
        self.handlers.live["run"] += 1  # so that generators may join a running run
        try:
            handles.extend(map(self.use, listed(callbacks)))
            with self.scope(scopes.run, 1):
                self._epochs(data, epochs)
        finally:
            self._running = False
            self.handlers.live["run"] -= 1
            for handle in reversed(handles):
                handle.detach()
        return self.history

    def _forget(self) -> None:
        """A run from the beginning: counts and persisted values start anew."""
        state = self.state
        state.epoch = state.step = state.batch_number = self._completed = 0
        state.metrics, state.diverged = {}, False
        self._rows, self._stage, self._order = [], "done", None
        self._counts.clear()
        self.persistence.forget()

    def _epochs(self, data: Any, epochs: int) -> None:
        state = self.state
        while not self.stopping:
            position, self._position = self._position, None
            if position is not None and position["stage"] == "done":
                set_random_state(position["random"], data)
                position = None
            if position is None:
                if state.epoch >= epochs:
                    break
                state.epoch += 1
                state.metrics, state.batch_number, self._completed = {}, 0, 0
                self._stage, self._order = "train", None
                self._begin_epoch()
            first = not self._rows
            state.resumed = position is not None
            try:
                with self.scope(scopes.epoch, state.epoch):
                    self._epoch(data, position)
                    complete = self._stopping is None
                    if not self.stopping:
                        self._stage = "done"
                    self._rows.append((state.epoch, state.metrics))
            finally:
                state.resumed = False
            if first and complete:
                for name in self.monitored:
                    self.metric(name)
            if self._stopping is not None and not self.stopping:
                self._stopping = None

    def _begin_epoch(self) -> None:
        """Nothing to forget but the logs."""

    def _epoch(self, data: Any, position: dict[str, Any] | None) -> None:
        self._train(data, position)

    def _train(self, data: Any, position: dict[str, Any] | None) -> None:
        state = self.state
        if position is not None and position["stage"] == "valid":
            set_random_state(position["random"], data)
            return
        with self.scope(scopes.train, state.epoch):
            iterator = self._iterator(data, position)
            state.resumed = False
            if self._stopping is None:
                self._steps(iterator)
            if not self._completed and self._stopping is None:
                raise ValueError(
                    f"epoch {state.epoch}: there were no batches"
                    + (": an iterator serves once, a list or a loader every epoch"
                       if iterator is data else "")
                )
            self._trained()
            if self._stopping is None:
                self._stage, self._boundary = "valid", random_state(data)
        if self._stopping is not None and self._stopping.name == "train":
            self._stopping = None

    def _trained(self) -> None:
        """The epoch's last step is done."""

    def _iterator(self, data: Any, position: dict[str, Any] | None) -> Iterator[Any]:
        """The epoch's batches; those behind the position, in the order drawn then."""
        iterator: Iterator[Any]
        if position is None or position["order"] is None:
            if position is not None:
                set_random_state(position["random"], data)
            self._order = random_state(data)
            iterator = iter(data)
        else:
            if position["batches"] != length_of(data):
                raise ValueError(
                    f"resuming in an epoch of {position['batches']} batches, but the data has "
                    f"{length_of(data)}: it must be the same to go on in its middle"
                )
            self._order = position["order"]
            set_random_state(self._order, data)
            iterator = skipped(data, position["batch_number"])
            set_random_state(position["random"], data)
        if self.handlers.live["fetch"]:
            return self._fetching(iterator)
        return iterator

    def _fetching(self, iterator: Iterator[Any]) -> Iterator[Any]:
        end = object()
        while True:
            with self.scope(scopes.fetch, self.state.step + 1):
                batch = next(iterator, end)
            if batch is end:
                return
            yield batch

    def _steps(self, iterator: Iterator[Any]) -> None:
        """The inner loop. A scope without listeners costs a dict lookup; one frame serves all
        steps; listeners are looked up each time, since they may change. Entering and leaving the
        scope is inlined, since the calls would cost as much as the handlers."""
        state, handlers = self.state, self.handlers
        live, plans, frames = handlers.live, handlers.plans, handlers.frames
        ends, every = handlers.direct["step.end"], Frame(_STEP, 0)
        numbers, frame = (count(state.step + 1), count(state.batch_number + 1)), None
        self._stepping = True
        for n, number, batch in zip(*numbers, iterator, strict=False):
            state.step, state.batch_number, state.batch = n, number, batch
            try:
                if live["step"]:
                    frame, every.n = every, n
                    frames.append(every)
                    if "step.start" in plans:
                        handlers.fire(_START, n)
                body = self._body  # looked up as a plain attribute, not as a method
                state.output = body(batch)  # type: ignore[misc]
                self._completed = number
                if frame is None:
                    if live["step"]:
                        handlers.leave(_STEP, n, None)
                else:
                    if every.tasks or ends.calls is None:
                        handlers.leave(_STEP, n, every)
                    else:  # the same, if all handlers are functions of the run
                        for function in ends.calls:
                            function(self)
                        if frames[-1] is every:
                            frames.pop()
                        else:
                            frames.remove(every)
                    frame = None
            except BaseException as error:
                self._stepping = False
                handlers.fail(_STEP, n, frame, error)
                raise
            if self._stopping is not None:
                break
        self._stepping = False

    def parts_heard(self) -> None:
        """Who listens to the parts of a step (forward, backward, optim) has changed."""

    # ---- saving ----

    def state_dict(self) -> dict[str, Any]:
        """Return the position: numbers, random states, logs and what callbacks persist.

        Saved at the end of a step or between steps, it suffices to continue bit for bit.
        """
        state = self.state
        begun = state.batch_number - self._completed  # 1 within an unfinished step
        random = self._boundary if self._stage == "valid" else None
        order = self._order if self._stage == "train" else None
        return {
            "epoch": state.epoch, "step": state.step - begun, "batch_number": self._completed,
            "batches": state.batches, "stage": self._stage,
            "order": None if order is None else plain(order),
            "random": plain(random_state(state.data) if random is None else random),
            "metrics": packed(state.metrics), "counts": dict(self._counts),
            "history": [(number, packed(logs)) for number, logs in self._rows],
            "persistence": packed(self.persistence.state_dict()),
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Have the next run go on from there."""
        state = self.state
        state.epoch, state.step = saved["epoch"], saved["step"]
        state.batch_number = self._completed = saved["batch_number"]
        state.metrics = unpacked(saved["metrics"])
        self._stage, self._order = saved["stage"], saved["order"]
        self._boundary = saved["random"] if self._stage == "valid" else None
        self._counts = dict(saved["counts"])
        # An epoch that was stopped in its middle is not over.
        last = state.epoch if self._stage == "done" else state.epoch - 1
        self._rows = [(n, unpacked(logs)) for n, logs in saved["history"] if n <= last]
        self.persistence.load_state_dict(unpacked(saved["persistence"]))
        self._position = saved
        state.resumed = state.resumed or self._running
