"""Observers of distributions: parameters, samples, log-probabilities and entropies."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...autograd.mode import MODE
from ...tensor.tensor import Tensor
from ..places import find_spot
from . import Observer

if TYPE_CHECKING:
    from ..session import Session


def iterate_targets(session: Session) -> Iterator[tuple[Any, Observer]]:
    """Yield the methods of distributions to patch, with their observers."""
    package = importlib.import_module("flambeau.distributions")
    classes = {cls for cls in vars(package).values()
               if isinstance(cls, type) and issubclass(cls, package.Distribution)}
    for cls in (package.Categorical, package.Bernoulli):
        yield cls.__init__, _observe_logits(session)
    for name, observer in (
        ("sample", _observe_sample(session)), ("log_prob", _log_prob(session)),
        ("entropy", _observe_entropy(session)),
    ):
        yield from ((function, observer) for function in {
            vars(cls)[name] for cls in classes if inspect.isfunction(vars(cls).get(name))
        })


def _observe_logits(session: Session) -> Observer:
    def make(original: Callable, args: tuple, kwargs: dict) -> Any:
        logits = args[2] if len(args) > 2 else kwargs.get("logits")
        if not session.busy:
            session.emit("on_distribution", args[0], logits, find_spot())
        return original(*args, **kwargs)

    return make


def _observe_sample(session: Session) -> Observer:
    def sample(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        trained = any(isinstance(value, Tensor) and value.requires_grad
                      for value in vars(args[0]).values())
        if not session.busy and trained and MODE.grad:
            session.emit("on_sample", args[0], result, find_spot())
        return result

    return sample


def _log_prob(session: Session) -> Observer:
    def log_prob(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy:
            value = args[1] if len(args) > 1 else kwargs.get("value")
            session.emit("on_log_prob", args[0], value, result, find_spot())
        return result

    return log_prob


def _observe_entropy(session: Session) -> Observer:
    def entropy(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy and isinstance(result, Tensor):
            session.emit("on_entropy", result, find_spot())
        return result

    return entropy
