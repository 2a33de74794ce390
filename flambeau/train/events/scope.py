"""Scopes: the stages of a run, one inside the other, each with the events start, end and error.

    run > epoch > {train > {fetch, step > {forward, backward, optim}}, valid > step}
    test > step, predict > step, when evaluating or predicting
"""

from __future__ import annotations

from typing import Any, NoReturn

from .event import Event, Predicate
from .suggestions import suggest


_BUILTIN_NAMES: set[str] = set()  # of the scopes below: their handlers would hear a second scope


class Scope:
    """A stage of a run. `Scope("warm_up")` creates your own; `with run.scope(it):` enters it.

    `scope.start`, `.end` and `.error` are its events. Calling it, with the arguments of an event,
    filters it: a generator callback on `epoch(every=2)` lives through every second epoch. Raises
    ValueError for the name of a built-in scope.

    >>> Scope("warm_up").end
    warm_up.end
    """

    __test__ = False  # `test` is no test

    def __init__(self, name: str) -> None:
        if name in _BUILTIN_NAMES:
            raise ValueError(f"'{name}' is a scope of every run: from flambeau.train import it")
        self.name = name
        self.start = Event(f"{name}.start", name)
        self.end = Event(f"{name}.end", name)
        self.error = Event(f"{name}.error", name)

    def __call__(self, predicate: Predicate | None = None, **counts: Any) -> Scope:
        filtered = Scope.__new__(Scope)
        filtered.__dict__.update(vars(self))
        for event in ("start", "end", "error"):
            setattr(filtered, event, getattr(self, event)(predicate, **counts))
        return filtered

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        names = [attribute for attribute in vars(self) if attribute != "name"]
        raise AttributeError(f"scope '{self.name}' has no event '{name}'{suggest(name, names)}")

    def __repr__(self) -> str:
        return f"{self.name}{str(self.start).removeprefix(self.start.name)}"


class Stage(Scope):
    """A scope that iterates over data: it has steps, `valid.step`.

    >>> from flambeau.train import valid
    >>> valid.step.end
    valid.step.end
    """

    def __init__(self, name: str, step: Scope | None = None) -> None:
        super().__init__(name)
        self.step = Scope(f"{name}.step") if step is None else step


run = Scope("run")
epoch = Scope("epoch")
step = Scope("step")
train = Stage("train", step)
fetch = Scope("fetch")
forward = Scope("forward")
backward = Scope("backward")
optim = Scope("optim")
valid = Stage("valid")
test = Stage("test")
predict = Stage("predict")
stopped = Event("stopped")  # run.stop() was called

PARTS = frozenset((forward.name, backward.name, optim.name))  # of a step
SCOPES = (
    run, epoch, train, step, fetch, forward, backward, optim, valid, valid.step, test, test.step,
    predict, predict.step,
)
_BUILTIN_NAMES.update(scope.name for scope in SCOPES)
EVENTS = {
    event.name: event for scope in SCOPES for event in (scope.start, scope.end, scope.error)
} | {stopped.name: stopped}
