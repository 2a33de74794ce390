"""`Loop(step).run(data)`: epochs and steps over any data with any step, independent of nets.

Adds to two `for` loops: scopes and their events, handlers of every kind, stopping, logs, and a
position that can be saved and restored in the middle of an epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, TypeVar

from ..events import scope as scopes
from ..events.handler_arguments import step_of
from ..events.handlers import Frame, Handle
from ..state.data import count_batches, skip_batches
from ..state.history import History
from ..state.numpy_packing import pack, unpack
from ..state.random_state import convert_to_plain, read_random_state, set_random_state
from .attach import as_list
from .run import Run

F = TypeVar("F", bound=Callable[..., Any])
_STEP, _START = scopes.step, scopes.step.start


class Loop(Run):
    """Run `step(run, batch)`, or `step(batch)`, for every batch of every epoch.

    Handlers get the loop itself as `run`. The step's result is `run.state.output`.

    >>> from flambeau.train import Loop, epoch
    >>> loop = Loop(lambda batch: batch * 2)
    >>> @loop.on(epoch.end)
    ... def show(run):
    ...     print(run.state.epoch, run.state.step, run.state.output)
    >>> _ = loop.run([1, 2, 3], epochs=2)
    1 3 6
    2 6 6
    """

    def __init__(
        self, step: Callable[..., Any] | None = None, *, callbacks: Iterable[Any] = ()
    ) -> None:
        super().__init__()
        self._body: Callable[[Any], Any] | None = None
        self._completed = 0  # the epoch's batches whose step is complete
        self._order: dict[str, Any] | None = None  # random state before drawing the epoch's order
        self._boundary: dict[str, Any] | None = None  # random state between training and validation
        self._position: dict[str, Any] | None = None  # loaded but not yet restored
        self._running = self._stepping = False
        if step is not None:
            self.step(step)
        for callback in as_list(callbacks):
            self.use(callback)

    def step(self, function: F) -> F:
        """Decorator: use the function `(run, batch)`, or `(batch)`, as the step."""
        self._body = step_of(function, self)
        return function

    # ---- running ----

    def run(
        self, data: Any, epochs: int = 1, *, callbacks: Iterable[Any] = ()
    ) -> History:
        """Iterate over `data` for `epochs` epochs; return `history`.

        Starts at epoch 1, or continues from `load_state_dict`. `callbacks` are
        attached for this run only. Raises ValueError for data without a batch.
        """
        if self._body is None:
            raise RuntimeError("the loop has no step: pass it as Loop(step) or decorate it with "
                               "@loop.step")
        if count_batches(data) == 0:
            raise ValueError("run: there are no batches")
        return self._run(data, epochs, callbacks)

    def _run(self, data: Any, epochs: int, callbacks: Iterable[Any]) -> History:
        if not isinstance(epochs, int) or isinstance(epochs, bool) or epochs < 0:
            raise ValueError(f"epochs must be a non-negative integer, got {epochs!r}")
        if self._running:
            raise RuntimeError("this loop is already running: use another loop for a second run")
        if self._position is None:
            self._forget()
        state = self.state
        state.data, state.batches, state.epochs = data, count_batches(data), epochs
        handles: list[Handle] = []
        state.resumed = self._position is not None
        self._running, self._stopping = True, None
        self.handlers.live["run"] += 1  # so that generators may join a running run
        try:
            handles.extend(map(self.use, as_list(callbacks)))
            with self.scope(scopes.run, 1):
                self._run_epochs(data, epochs)
        finally:
            self._running = False
            self.handlers.live["run"] -= 1
            for handle in reversed(handles):
                handle.detach()
        return self.history

    def _forget(self) -> None:
        """Reset counts and persisted values for a run from the beginning."""
        state = self.state
        state.epoch = state.step = state.batch_number = self._completed = 0
        state.metrics, state.diverged = {}, False
        self._rows, self._stage, self._order = [], "done", None
        self._counts.clear()
        self.persistence.forget()

    def _run_epochs(self, data: Any, epochs: int) -> None:
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
            is_first = not self._rows
            state.resumed = position is not None
            try:
                with self.scope(scopes.epoch, state.epoch):
                    self._run_epoch(data, position)
                    is_complete = self._stopping is None
                    if not self.stopping:
                        self._stage = "done"
                    self._rows.append((state.epoch, state.metrics))
            finally:
                state.resumed = False
            if is_first and is_complete:
                for name in self.monitored:
                    self.metric(name)
            if self._stopping is not None and not self.stopping:
                self._stopping = None

    def _begin_epoch(self) -> None:
        """Hook for subclasses: reset what accumulates over an epoch. Does nothing here."""

    def _run_epoch(self, data: Any, position: dict[str, Any] | None) -> None:
        self._train(data, position)

    def _train(self, data: Any, position: dict[str, Any] | None) -> None:
        state = self.state
        if position is not None and position["stage"] == "valid":
            set_random_state(position["random"], data)
            return
        with self.scope(scopes.train, state.epoch):
            iterator = self._iterate_batches(data, position)
            state.resumed = False
            if self._stopping is None:
                self._run_steps(iterator)
            if not self._completed and self._stopping is None:
                raise ValueError(
                    f"epoch {state.epoch}: there were no batches"
                    + (": an iterator can be consumed only once; pass a list or a loader"
                       if iterator is data else "")
                )
            self._finish_steps()
            if self._stopping is None:
                self._stage, self._boundary = "valid", read_random_state(data)
        if self._stopping is not None and self._stopping.name == "train":
            self._stopping = None

    def _finish_steps(self) -> None:
        """Hook for subclasses: called after the epoch's last step. Does nothing here."""

    def _iterate_batches(self, data: Any, position: dict[str, Any] | None) -> Iterator[Any]:
        """Return the epoch's batches, or those after a position, in the order drawn originally."""
        iterator: Iterator[Any]
        if position is None or position["order"] is None:
            if position is not None:
                set_random_state(position["random"], data)
            self._order = read_random_state(data)
            iterator = iter(data)
        else:
            count = count_batches(data)
            if position["batches"] != count:
                raise ValueError(
                    f"resuming in an epoch of {position['batches']} batches, but the data has "
                    f"{count}: it must be the same to resume in the middle of an epoch")
            self._order = position["order"]
            set_random_state(self._order, data)
            iterator = skip_batches(data, position["batch_number"])
            set_random_state(position["random"], data)
        if self.handlers.live["fetch"]:
            return _fetch_each(self, iterator)
        return iterator

    def _run_steps(self, iterator: Iterator[Any]) -> None:
        """The inner loop. A scope without listeners costs a dict lookup; one frame serves all
        steps; listeners are looked up each time, since they may change. Entering and leaving the
        scope is inlined, since the calls would cost as much as the handlers."""
        state, handlers = self.state, self.handlers
        live, plans, frames = handlers.live, handlers.plans, handlers.frames
        ends, step_frame = handlers.direct["step.end"], Frame(_STEP, 0)
        counters, frame = (count(state.step + 1), count(state.batch_number + 1)), None
        self._stepping = True
        for n, batch_number, batch in zip(*counters, iterator, strict=False):
            state.step, state.batch_number, state.batch = n, batch_number, batch
            try:
                if live["step"]:
                    frame, step_frame.n = step_frame, n
                    frames.append(step_frame)
                    if "step.start" in plans:
                        handlers.fire(_START, n)
                body = self._body  # looked up as a plain attribute, not as a method
                state.output = body(batch)  # type: ignore[misc]
                self._completed = batch_number
                if frame is None:
                    if live["step"]:
                        handlers.leave(_STEP, n, None)
                else:
                    if step_frame.tasks or ends.calls is None:
                        handlers.leave(_STEP, n, step_frame)
                    else:  # the same, if all handlers are functions of the run
                        for function in ends.calls:
                            function(self)
                        if frames[-1] is step_frame:
                            frames.pop()
                        else:
                            frames.remove(step_frame)
                    frame = None
            except BaseException as error:
                self._stepping = False
                handlers.fail(_STEP, n, frame, error)
                raise
            if self._stopping is not None:
                break
        self._stepping = False

    def update_parts(self) -> None:
        """Called when the listeners of a step's parts (forward, backward, optim) change."""

    # ---- saving ----

    def state_dict(self) -> dict[str, Any]:
        """Return the position: numbers, random states, logs and what callbacks persist.

        Saved at the end of a step or between steps, it suffices to continue bit for bit.
        """
        state = self.state
        n_unfinished = state.batch_number - self._completed  # 1 within an unfinished step
        random = self._boundary if self._stage == "valid" else None
        order = self._order if self._stage == "train" else None
        return {
            "epoch": state.epoch, "step": state.step - n_unfinished,
            "batch_number": self._completed, "batches": state.batches, "stage": self._stage,
            "order": None if order is None else convert_to_plain(order),
            "random": convert_to_plain(read_random_state(state.data) if random is None else random),
            "metrics": pack(state.metrics), "counts": dict(self._counts),
            "history": [(epoch, pack(logs)) for epoch, logs in self._rows],
            "persistence": pack(self.persistence.state_dict()),
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Make the next run continue from a saved position."""
        state = self.state
        state.epoch, state.step = saved["epoch"], saved["step"]
        state.batch_number = self._completed = saved["batch_number"]
        state.metrics = unpack(saved["metrics"])
        self._stage, self._order = saved["stage"], saved["order"]
        self._boundary = saved["random"] if self._stage == "valid" else None
        self._counts = dict(saved["counts"])
        # An epoch stopped before its end is not complete.
        last_complete = state.epoch if self._stage == "done" else state.epoch - 1
        self._rows = [(n, unpack(logs)) for n, logs in saved["history"] if n <= last_complete]
        self.persistence.load_state_dict(unpack(saved["persistence"]))
        self._position = saved
        state.resumed = state.resumed or self._running


def _fetch_each(run: Loop, iterator: Iterator[Any]) -> Iterator[Any]:
    """Iterate with a fetch scope around each step of the iterator."""
    end = object()
    while True:
        with run.scope(scopes.fetch, run.state.step + 1):
            batch = next(iterator, end)
        if batch is end:
            return
        yield batch
