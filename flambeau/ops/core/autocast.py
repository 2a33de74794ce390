"""Autocast: which operators compute in a lower precision, in float32 or in their widest input's.

The state is per thread; operators check `AUTOCAST.count`, the number of threads with open regions,
so programs without autocast pay for one attribute.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any

from ...tensor import dtypes as types
from ...tensor.dtypes import FLOATING, dtype
from ...tensor.tensor import Tensor
from .errors import answer_failed


class Policy(Enum):
    """How autocast casts the floating-point inputs of an operator."""

    LOWER = auto()  # cast to the region's dtype
    FULL = auto()  # cast to float32
    WIDEST = auto()  # cast to the widest dtype among them
    AS_IS = auto()  # no casts, also in the operators it calls


class _Count:
    __slots__ = ("count",)

    count: int


class _State(threading.local):
    enabled = False
    dtype: dtype = types.bfloat16
    nesting = 0
    cache = True


AUTOCAST = _Count()
AUTOCAST.count = 0
STATE = _State()


def cast_inputs(policy: Policy, values: Any) -> tuple[Any, ...]:
    """Cast an operator's arguments according to its policy, in this thread."""
    if not STATE.enabled or policy is Policy.AS_IS:
        return tuple(values)
    if policy is Policy.WIDEST:
        kinds = {t.dtype for v in values for t in (v if isinstance(v, (tuple, list)) else (v,))
                 if _is_eligible(t)}
        if len(kinds) < 2:
            return tuple(values)
        target = types.float32
    else:
        target = STATE.dtype if policy is Policy.LOWER else types.float32
    return tuple(_cast(v, target) for v in values)


def _is_eligible(value: Any) -> bool:
    return (isinstance(value, Tensor) and value.dtype.category == FLOATING
            and value.dtype is not types.float64)


def _cast(value: Any, target: dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(target) if _is_eligible(value) and value.dtype is not target else value
    if isinstance(value, (tuple, list)) and value and isinstance(value[0], Tensor):
        return type(value)(_cast(v, target) for v in value)
    return value


def make_autocasting(
    name: str, function: Callable[..., Any], policy: Policy
) -> Callable[..., Any]:
    """A composite operator that casts its inputs in an autocast region, then runs outside of it.

    An argument that is no tensor raises PyTorch's TypeError, as `answer_failed` words it.
    """

    @functools.wraps(function)
    def cast_first(*args: Any, **kwargs: Any) -> Any:
        if not AUTOCAST.count or not STATE.enabled:
            try:
                return function(*args, **kwargs)
            except AttributeError as error:
                return answer_failed(error, name, function, args, kwargs, cast_first)
        args = cast_inputs(policy, args)
        values = cast_inputs(policy, kwargs.values())
        STATE.enabled = False
        try:
            return function(*args, **dict(zip(kwargs, values, strict=True)))
        finally:
            STATE.enabled = True

    return cast_first


def get_autocast_dtype() -> tuple | None:
    """Return this thread's autocast dtype as a tuple, or None if autocast is off."""
    return (STATE.dtype,) if AUTOCAST.count and STATE.enabled else None


def get_autocast_settings() -> tuple[bool, dtype, bool]:
    """Return the settings that `with_autocast_settings` restores."""
    return STATE.enabled, STATE.dtype, STATE.cache


@contextmanager
def with_autocast_settings(settings: tuple[bool, dtype, bool]) -> Iterator[None]:
    """Context in which this thread uses the settings read earlier."""
    before = get_autocast_settings()
    _apply(settings)
    try:
        yield
    finally:
        _apply(before)


def _apply(settings: tuple[bool, dtype, bool]) -> None:
    AUTOCAST.count += settings[0] - STATE.enabled
    STATE.enabled, STATE.dtype, STATE.cache = settings
