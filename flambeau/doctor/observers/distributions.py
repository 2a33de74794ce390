"""Observers of distributions: parameters, samples, log-probabilities and entropies."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...autograd.mode import MODE
from ...tensor.tensor import Tensor
from ..places import find_spot
from . import Observer
from .calls import Call, report_after, report_before

if TYPE_CHECKING:
    from ..session import Session


def iterate_targets(session: Session) -> Iterator[tuple[Any, Observer]]:
    """Yield the methods of distributions to patch, with their observers."""
    package = importlib.import_module("flambeau.distributions")
    classes = {cls for cls in vars(package).values()
               if isinstance(cls, type) and issubclass(cls, package.Distribution)}
    for cls in (package.Categorical, package.Bernoulli):
        yield cls.__init__, report_before(session, _report_logits)
    reports = {"sample": _report_sample, "log_prob": _report_log_prob, "entropy": _report_entropy}
    for name, report in reports.items():
        methods = {vars(cls)[name] for cls in classes if inspect.isfunction(vars(cls).get(name))}
        for method in methods:
            yield method, report_after(session, report)


def _report_logits(session: Session, call: Call) -> None:
    session.emit("on_distribution", call.args[0], call.get(2, "logits"), find_spot())


def _report_sample(session: Session, call: Call) -> None:
    """Report a sample whose distribution has parameters that are trained."""
    is_trained = any(isinstance(value, Tensor) and value.requires_grad
                     for value in vars(call.args[0]).values())
    if is_trained and MODE.grad:
        session.emit("on_sample", call.args[0], call.result, find_spot())


def _report_log_prob(session: Session, call: Call) -> None:
    value = call.get(1, "value")
    session.emit("on_log_prob", call.args[0], value, call.result, find_spot())


def _report_entropy(session: Session, call: Call) -> None:
    if isinstance(call.result, Tensor):
        session.emit("on_entropy", call.result, find_spot())
