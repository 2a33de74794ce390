"""Observers of comparisons, and of differences that broadcast both operands."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...ops.core.operator import PUBLIC
from ...tensor.tensor import Tensor
from ..places import find_spot
from . import Observer
from .calls import Call, Report, report_after, report_before

if TYPE_CHECKING:
    from ..session import Session


def iterate_targets(session: Session) -> Iterator[tuple[Any, Observer]]:
    """Yield the comparisons to patch, with their observers."""
    reports: tuple[tuple[str, Any, Report], ...] = (
        ("eq", report_after, _report_equality),
        ("ne", report_after, _report_mask),
        ("gt", report_before, _report_threshold),
        ("ge", report_before, _report_threshold),
    )
    methods, functions = vars(Tensor), PUBLIC["torch"]
    for name, observe, report in reports:
        for function in {methods[f"__{name}__"], methods[name], functions[name]}:
            if inspect.isfunction(function):
                yield function, observe(session, report)
    if inspect.isfunction(methods["__sub__"]):
        yield methods["__sub__"], report_after(session, _report_difference)


def _report_equality(session: Session, call: Call) -> None:
    if len(call.args) > 1 and all(isinstance(value, Tensor) for value in call.args[:2]):
        session.emit("on_compare", call.args[0], call.args[1], call.result, find_spot())
    else:
        _report_mask(session, call)


def _report_mask(session: Session, call: Call) -> None:
    if len(call.args) > 1 and call.args[1].__class__ is int:
        session.emit("on_mask", call.result, find_spot())


def _report_threshold(session: Session, call: Call) -> None:
    if len(call.args) > 1 and call.args[1].__class__ in (int, float) \
            and isinstance(call.args[0], Tensor):
        session.emit("on_threshold", call.args[0], call.args[1], find_spot())


def _report_difference(session: Session, call: Call) -> None:
    """Report an unrecorded difference that is larger than both operands."""
    if len(call.args) < 2 or call.args[1].__class__ is not Tensor:
        return
    a, b = call.args[:2]
    result = call.result
    if isinstance(result, Tensor) and result._node is None \
            and result._array.size > max(a._array.size, b._array.size):
        session.emit("on_spread", a, b, find_spot())
