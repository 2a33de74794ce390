"""Forward mode's plain case, where pushing tangents is cheap.

Plain means: one level, arrays in memory, no tangents of tangents. One pass over the arguments then
splits them, and linear operators and views are called again on the tangents. What is recorded takes
the operator and the rule in recorded operators.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd.mode import MODE
from ...autograd.tangents import LEVELS, alias_history, attach, get_primal
from ...autograd.tape import requires
from ...tensor.dtypes import FLOATS
from ...tensor.tensor import Tensor
from ..core.operator import Kind, Operator
from . import fused_tangents, tangent_rules
from .operator_arguments import bind_arguments, find_variadic_position, gather_arguments

Split = tuple[list[Any], list[Tensor | None], bool, bool]


def split_plain(args: Sequence[Any], kwargs: dict[str, Any], level: int) -> Split | None:
    """Return the arguments without tangents, their tangents, whether there is one, and whether a
    result will be recorded.

    None if this is not the plain case.
    """
    if LEVELS.has_late:
        return None
    primals = list(args)
    tangents: list[Any] = [None] * len(primals)
    is_dual = is_recorded = False
    for i, x in enumerate(args):
        if isinstance(x, Tensor):
            if x._array.__class__ is not np.ndarray:
                return None
            is_recorded = is_recorded or x._tracked and MODE.grad and requires(x)
            if "_tangents" in x.__dict__:
                pair = _split_tensor(x, level)
                if pair is None:
                    return None
                primal, tangent = pair
                if tangent is not None:
                    primals[i], tangents[i], is_dual = primal, tangent, True
                    is_recorded = is_recorded or _is_recorded(tangent)
        elif x.__class__ not in _NUMBERS and isinstance(x, (tuple, list, dict)) \
                and _holds_tensor(x):
            pairs = _split_sequence(x, level)
            if pairs is None:
                return None
            if pairs[1] is not None:
                primals[i], tangents[i], is_dual = *pairs, True
            is_recorded = is_recorded or any(
                t is not None and _is_recorded(t) for t in (*x, *(pairs[1] or ())))
    if kwargs:
        for x in kwargs.values():
            if isinstance(x, Tensor) or isinstance(x, (tuple, list, dict)) and _holds_tensor(x):
                return None
    return primals, tangents, is_dual, is_recorded


_NO_TANGENT: tuple[Any, Any] = (None, None)
_NUMBERS = frozenset((int, float, bool, str, type(None)))


def _is_recorded(x: Tensor) -> bool:
    return x._tracked and MODE.grad and requires(x)


def _split_tensor(x: Tensor, level: int) -> tuple[Any, Any] | None:
    """Return a tensor without its tangent, and that (twice None without); None for other duals."""
    if x._array.__class__ is not np.ndarray:
        return None
    carried = x.__dict__.get("_tangents")
    if not carried or level not in carried:
        return _NO_TANGENT
    pair: tuple[Any, Any] = carried[level]
    primal, tangent = pair
    if tangent._array.__class__ is not np.ndarray or "_tangents" in tangent.__dict__:
        return None
    return pair if primal is not None else (get_primal(x, level), tangent)


def _split_sequence(values: Any, level: int) -> tuple[Any, Any] | None:
    """Split a sequence of tensors as `_split_tensor` does: into lists, None for no tangents."""
    if values.__class__ is not list and values.__class__ is not tuple:
        return None
    pairs: list[Any] = [_split_tensor(x, level) if isinstance(x, Tensor) else None for x in values]
    if None in pairs:
        return None
    tangents = [tangent for _, tangent in pairs]
    if all(t is None for t in tangents):
        return values, None
    return [x if primal is None else primal
            for x, (primal, _) in zip(values, pairs, strict=True)], tangents


def _holds_tensor(values: Any) -> bool:
    """Return whether there is a tensor in nested containers; most hold a few plain numbers."""
    for x in values.values() if isinstance(values, dict) else values:
        if x.__class__ is int:
            continue
        if isinstance(x, Tensor) or isinstance(x, (tuple, list, dict)) and _holds_tensor(x):
            return True
    return False


def check_out(operator: Operator, kwargs: dict[str, Any]) -> None:
    if kwargs.get("out") is not None:
        raise RuntimeError(f"Trying to use forward AD with {operator.name.strip('_')}_out that "
                           "does not support it because it is an out= function")


def push_plain(
    operator: Operator, reflected: bool, original: Callable, split: Split, kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """Return the result and its tangent in the plain case. The rule runs with pushing disabled."""
    primals, tangents, is_dual, is_recorded = split
    if not is_dual or not operator.differentiable:
        return original(*primals, **kwargs), None
    if kwargs:
        check_out(operator, kwargs)
    is_simple, is_variadic = _classify(operator)
    if is_simple and not reflected:
        LEVELS.enabled = False
        try:
            y = original(*primals, **kwargs)
            dy = _repeat(operator, original, primals, tangents, kwargs)
        finally:
            LEVELS.enabled = True
        if dy is not None:
            return y, dy
    if is_variadic:
        values = bind_arguments(operator, gather_arguments(operator, tuple(primals), kwargs),
                                kwargs, reflected)
        tangents = tangents[:1]
    else:
        values = bind_arguments(operator, tuple(primals), kwargs, reflected)
        if reflected:
            tangents.reverse()
    tangents += [None] * (len(values) - len(tangents))
    pair = None if is_recorded else fused_tangents.push_fused(operator, values, tangents)
    if pair is None:
        y = original(*primals, **kwargs)
        if y is NotImplemented:
            return y, None
        grad, MODE.grad, LEVELS.enabled = MODE.grad, is_recorded, False
        try:
            dy = tangent_rules.apply_rule(operator, values, tangents, y)
        finally:
            MODE.grad, LEVELS.enabled = grad, True
    else:
        y, dy = pair
    return y, separate(dy, y, tangents)


@functools.cache
def _classify(operator: Operator) -> tuple[bool, bool]:
    """Whether the operator is called again on tangents, and whether it has a `*parameter`."""
    is_linear = operator.kind is Kind.VIEW or bool(operator.linear_in)
    return is_linear and operator.jvp is None and operator.value_and_jvp is None, \
        find_variadic_position(operator) is not None


def _repeat(
    operator: Operator, original: Callable, primals: list[Any], tangents: list[Any],
    kwargs: dict[str, Any],
) -> Any:
    """Return the tangent of a view, or of a sum of products, by further calls of the operator.

    None where that takes more than replacing arguments.
    """
    if operator.kind is Kind.VIEW:
        if tangents[0] is None:
            return None
        alike = tangent_rules.match_strides(primals[0], tangents[0])
        return original(alike, *primals[1:], **kwargs)
    factors, alone = tangent_rules.list_terms(operator)
    moved = [i for i, t in enumerate(tangents) if t is not None]
    if len(moved) == 1 and moved[0] in factors:  # most calls
        changed: list[Any] = list(primals)
        changed[moved[0]] = tangents[moved[0]]
        for i in alone:
            if i < len(changed):
                changed[i] = None
        return original(*changed, **kwargs)
    return tangent_rules.push_terms(
        operator, lambda values: original(*values, **kwargs), primals, tangents)


def separate(dy: Any, y: Any, tangents: Sequence[Any]) -> Any:
    """Return a result's tangent in memory of its own: that of an input must not change with it.

    A result that is an input's memory shares its tangent.
    """
    if dy.__class__ is tuple:
        return tuple([separate(part, own, tangents) for part, own in zip(dy, y, strict=True)])
    if dy is None or dy._array.__class__ is not np.ndarray:
        return dy
    return dy.clone() if dy._base is not None or any(dy is t for t in tangents) else dy


def as_dual(y: Any, dy: Any, level: int) -> Any:
    if isinstance(y, Tensor):
        if dy is None or y._array.dtype not in FLOATS and y._array.dtype.kind not in "fcV":
            return y
        dual = alias_history(y)
        attach(dual, level, y, dy)
        return dual
    if isinstance(y, tuple):
        if dy is None:
            return y
        parts = [as_dual(a, b, level) for a, b in zip(y, dy, strict=True)]
        return type(y)(*parts) if hasattr(y, "_fields") else type(y)(parts)
    return y
