"""Observers of memory: aliases of weights through `.data`, and in-place mixing of tensors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...nn.parameter import Parameter
from ...tensor.tensor import Tensor
from ..places import find_spot
from . import Observer
from .calls import Call, is_called_by_user, report_after

if TYPE_CHECKING:
    from ..session import Session


def iterate_targets(session: Session) -> Iterator[tuple[Any, Observer]]:
    """Yield the tensor methods to patch, with their observers."""
    methods = vars(Tensor)
    yield methods["data"].fget, report_after(session, _report_alias)
    reports = {"mul_": _report_scale, "add_": _report_mix, "lerp_": _report_mix,
               "copy_": _report_mix}
    for name, report in reports.items():
        if inspect.isfunction(methods.get(name)):
            yield methods[name], report_after(session, report, name)


def _report_alias(session: Session, call: Call) -> None:
    if isinstance(call.args[0], Parameter):
        session.emit("on_alias", call.result, find_spot())


def _report_scale(session: Session, call: Call) -> None:
    """Report a product with a factor between 0 and 1: the first half of a moving average."""
    if len(call.args) < 2 or not is_called_by_user():
        return
    tensor, factor = call.args[:2]
    if factor.__class__ is float and 0 < factor < 1:
        session.emit("on_mixed", call.name, tensor, factor, factor, find_spot())


def _report_mix(session: Session, call: Call) -> None:
    """Report a write of a tensor into itself, with its factor."""
    if len(call.args) < 2 or not is_called_by_user():
        return
    tensor, other = call.args[:2]
    if isinstance(other, Tensor) and other._array.shape == tensor._array.shape \
            and other.data_ptr() == tensor.data_ptr():
        factor = call.kwargs.get("alpha", 1) if call.name == "add_" else 0.0
        session.emit("on_mixed", call.name, tensor, other, float(factor), find_spot())
