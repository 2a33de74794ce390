"""Other libraries' names for the same events: ignite's Events, tnt's hooks, Poutyne's and Keras's
methods; and the error for an unknown name."""

from __future__ import annotations

from typing import Any, NoReturn

from . import scope
from .event import Event, Events
from .suggestions import suggest


def _is_training(run: Any, n: int) -> bool:
    return run.state.training


def _is_evaluating(run: Any, n: int) -> bool:
    return not run.state.training


class _Ignite(type):
    """Raise for names that Events lacks, with suggestions."""

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"Events has no '{name}'{suggest(name, IGNITE)}")


class IgniteEvents(metaclass=_Ignite):
    """ignite's `Events`, as events of the scopes; filters (`every=`, ...) work as there.

    >>> from flambeau.train import Loop
    >>> loop = Loop(lambda batch: None)
    >>> @loop.on(IgniteEvents.ITERATION_COMPLETED(every=2))
    ... def show(run):
    ...     print(run.state.step)
    >>> _ = loop.run([1, 2, 3, 4])
    2
    4
    """

    STARTED = scope.run.start
    COMPLETED = scope.run.end
    EXCEPTION_RAISED = scope.run.error
    EPOCH_STARTED = scope.epoch.start
    EPOCH_COMPLETED = scope.epoch.end
    ITERATION_STARTED = scope.step.start
    ITERATION_COMPLETED = scope.step.end
    GET_BATCH_STARTED = scope.fetch.start
    GET_BATCH_COMPLETED = scope.fetch.end
    DATALOADER_STOP_ITERATION = scope.train.end
    TERMINATE = scope.stopped


IGNITE = tuple(name for name in vars(IgniteEvents) if name.isupper())

# torchnet's Python engine calls on_forward after the backward pass when it trains.
TNT: dict[str, Event | Events] = {
    "on_start": scope.run.start | scope.test.start,
    "on_start_epoch": scope.epoch.start,
    "on_sample": scope.step.start | scope.valid.step.start | scope.test.step.start,
    "on_forward": scope.backward.end(_is_training) | scope.forward.end(_is_evaluating),
    "on_forward_criterion": scope.forward.end,
    "on_backward": scope.backward.end,
    "on_update": scope.step.end,
    "on_end_epoch": scope.epoch.end,
    "on_end": scope.run.end | scope.test.end,
}

# Method: its event, and the state attribute to pass if not the event's number.
METHODS: dict[str, tuple[Event, str | None]] = {
    "on_train_begin": (scope.run.start, None),
    "on_train_end": (scope.run.end, None),
    "on_run_start": (scope.run.start, None),
    "on_run_end": (scope.run.end, None),
    "on_run_error": (scope.run.error, None),
    "on_exception": (scope.run.error, None),
    "on_stopped": (scope.stopped, None),
    "on_epoch_begin": (scope.epoch.start, None),
    "on_epoch_start": (scope.epoch.start, None),
    "on_epoch_end": (scope.epoch.end, None),
    "on_batch_begin": (scope.step.start, "batch_number"),
    "on_batch_end": (scope.step.end, "batch_number"),
    "on_train_batch_begin": (scope.step.start, "batch_number"),
    "on_train_batch_end": (scope.step.end, "batch_number"),
    "on_step_start": (scope.step.start, None),
    "on_step_end": (scope.step.end, None),
    "on_forward_start": (scope.forward.start, None),
    "on_forward_end": (scope.forward.end, None),
    "on_backward_start": (scope.backward.start, "batch_number"),
    "on_backward_end": (scope.backward.end, "batch_number"),
    "on_optim_start": (scope.optim.start, None),
    "on_optim_end": (scope.optim.end, None),
    # Lightning's
    "on_fit_start": (scope.run.start, None),
    "on_fit_end": (scope.run.end, None),
    "on_train_start": (scope.run.start, None),
    "on_train_epoch_start": (scope.epoch.start, None),
    "on_train_epoch_end": (scope.epoch.end, None),
    "on_train_batch_start": (scope.step.start, "batch_number"),
    "on_validation_start": (scope.valid.start, None),
    "on_validation_end": (scope.valid.end, None),
    "on_validation_epoch_start": (scope.valid.start, None),
    "on_validation_epoch_end": (scope.valid.end, None),
    "on_test_epoch_start": (scope.test.start, None),
    "on_test_epoch_end": (scope.test.end, None),
} | {
    f"on_{stage.name}_{word}": (getattr(stage, moment), None)
    for stage in (scope.valid, scope.test, scope.predict)
    for word, moment in (("begin", "start"), ("start", "start"), ("end", "end"))
} | {
    f"on_{stage.name}_batch_{word}": (getattr(stage.step, moment), None)
    for stage in (scope.valid, scope.test, scope.predict)
    for word, moment in (("begin", "start"), ("end", "end"))
}


# Other libraries' names of engine attributes: ours.
ELSEWHERE = {
    "model": "the network is trainer.net", "network": "the network is trainer.net",
    "terminate": "run.stop() ends the run", "terminate_epoch": "run.stop(epoch) ends the epoch",
    "stop_training": "run.stop() ends the run", "should_stop": "run.stop() ends the run",
    "add_event_handler": "attach(event, function) does that, and what it returns detaches",
    "remove_event_handler": "detach(function) does that, and what attach returned",
    "has_event_handler": "handlers.at(event) are those of an event",
    "fire_event": "fire(event) does that", "add_callback": "use(callback) does that",
    "fit_generator": "fit(loader, valid, epochs) takes what gives batches",
    "fit_dataset": "fit(dataset, valid, epochs) takes datasets",
    "evaluate_generator": "evaluate(loader) takes what gives batches",
    "predict_generator": "predict(loader) takes what gives batches",
}


class Elsewhere:
    """Raise for a missing attribute; name our equivalent if another library has it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> NoReturn:
        owner_name = getattr(owner, "__name__", "trainer")
        raise AttributeError(f"{owner_name} has no '{self.name}': {ELSEWHERE[self.name]}")

    def __set__(self, instance: Any, value: Any) -> NoReturn:
        self.__get__(instance, type(instance))


def find_event(name: str) -> Event | Events:
    """Return the event called "epoch.end", or ignite's "EPOCH_COMPLETED".

    Raises ValueError, with suggestions, for an unknown name.
    """
    if name in scope.EVENTS:
        return scope.EVENTS[name]
    if name in IGNITE:
        return getattr(IgniteEvents, name)
    known = list(scope.EVENTS) if "." in name else [*scope.EVENTS, *IGNITE]
    raise ValueError(f"there is no event '{name}'{suggest(name, known)}")
