"""Observers of memory: aliases of weights through `.data`, and in-place mixing of tensors."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...native.foundation.user_frames import is_internal
from ...nn.parameter import Parameter
from ...tensor.tensor import Tensor
from ..places import find_spot
from . import Observer

if TYPE_CHECKING:
    from ..session import Session


def iterate_targets(session: Session) -> Iterator[tuple[Any, Observer]]:
    """Yield the tensor methods to patch, with their observers."""
    methods = vars(Tensor)
    yield methods["data"].fget, _alias(session)
    for name in ("mul_", "add_", "lerp_", "copy_"):
        if inspect.isfunction(methods.get(name)):
            yield methods[name], _observe_mix(session, name)


def _alias(session: Session) -> Observer:
    def read(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if not session.busy and isinstance(args[0], Parameter):
            session.emit("on_alias", result, find_spot())
        return result

    return read


def _observe_mix(session: Session, name: str) -> Observer:
    def mix(original: Callable, args: tuple, kwargs: dict) -> Any:
        result = original(*args, **kwargs)
        if session.busy or len(args) < 2 or is_internal(sys._getframe(2).f_code):
            return result
        tensor, other = args[0], args[1]
        if name == "mul_":
            if other.__class__ is float and 0 < other < 1:
                session.emit("on_mixed", name, tensor, other, other, find_spot())
        elif isinstance(other, Tensor) and other._array.shape == tensor._array.shape \
                and other.data_ptr() == tensor.data_ptr():
            factor = kwargs.get("alpha", 1) if name == "add_" else 0.0
            session.emit("on_mixed", name, tensor, other, float(factor), find_spot())
        return result

    return mix
