"""Pointwise operators that compute value and tangent in one kernel.

The formula of both is derived: operator and rule run once on tensors without memory, and the tape
of the operators that they call is replayed on the kernel's elements. What the two share, such as
the error function in gelu and its slope, is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd import no_grad
from ...autograd.tangents import LEVELS, attach, primal_at, same_history, tangent_at
from ...native.target.eager_costs import (
    MAX_NUMPY_POINTWISE_ELEMENTS, MAX_POINTWISE_KERNELS,
)
from ...tensor.dtypes import FLOATS
from ...tensor.meta import meta_array
from ...tensor.tensor import Tensor, wrap
from ..core.operator import Kind, Operator
from ..native.pointwise_pair import serve_pair
from . import tangent_rules

_SETTINGS = (float, int, bool, str, type(None))
# By operator, settings and what has a tangent: the formula, None where there is none, or False
# after the first call, whose settings may never come again.
FORMULAS: dict[tuple, Callable | bool | None] = {}


class Tape:
    """The pointwise operators that were called, in order, with their arguments and results."""

    def __init__(self) -> None:
        self.calls: list[tuple[Operator, list[Any], Tensor]] = []

    def note(self, operator: Operator, values: list[Any], y: Any) -> None:
        """Add a call; NotImplementedError for one that is not pointwise on its elements."""
        if operator.kind is not Kind.POINTWISE or not isinstance(y, Tensor):
            raise NotImplementedError(operator.name)
        self.calls.append((operator, values, y))

    def replay(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Callable:
        """Return a function from elements of the inputs to those of the outputs."""

        def formula(*elements: Any) -> tuple[Any, ...]:
            known = {id(x): element for x, element in zip(inputs, elements, strict=True)}
            for operator, values, y in self.calls:
                result = _apply_body(operator, [
                    known[id(v)] if isinstance(v, Tensor) else v for v in values])
                known[id(y)] = result.astype(y._array.dtype)
            return tuple([known[id(y)] for y in outputs])

        return formula


def _apply_body(operator: Operator, values: list[Any]) -> Any:
    args, named = [], {}
    for parameter, value in zip(operator.parameters, values, strict=True):
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            args.append(value)
    return (operator.ufunc or operator.body)(*args, **named)


def push_large(operator: Operator, values: list[Any], level: int) -> Tensor | None:
    """Return the operator's result with its tangent at `level`, the only one there is, or None
    where the arguments are not large plain arrays of one shape."""
    arrays: list[np.ndarray] = []
    key: list[Any] = [operator]
    for value in values:
        if value.__class__ is Tensor:
            primal, tangent = primal_at(value, level), tangent_at(value, level)
            array = primal._array
            if array.__class__ is not np.ndarray or array.size <= MAX_NUMPY_POINTWISE_ELEMENTS:
                return None
            if primal._tracked or (tangent is not None and tangent._tracked):
                return None
            arrays.append(array)
            if tangent is not None:
                arrays.append(tangent._array)
            key.append(tangent is not None)
        elif value.__class__ in _SETTINGS:
            key += (value if value else repr(value), value.__class__)
        else:
            return None
    if not arrays or not _are_alike(arrays):
        return None
    formula = _formula_of(tuple(key), operator, values, level)
    pair = formula and serve_pair(tuple(key), formula, arrays)
    if not pair:
        return None
    y, dy = map(wrap, pair)
    dual = same_history(y)
    attach(dual, level, y, dy)
    return dual


def _formula_of(key: tuple, operator: Operator, values: list[Any], level: int) -> Callable | None:
    """Return the formula of elements and their tangents, from the second call with these settings
    on; None if there is none."""
    known = FORMULAS.get(key)
    if known is None and key not in FORMULAS:
        if len(FORMULAS) >= MAX_POINTWISE_KERNELS:
            FORMULAS.clear()
        FORMULAS[key] = False
    elif known is False:
        known = FORMULAS[key] = _derive(operator, values, level)
    return known or None


def _derive(operator: Operator, values: list[Any], level: int) -> Callable | None:
    """Run the operator and its rule on tensors without memory; return the tape as a formula."""
    probes, tangents, inputs = list(values), [None] * len(values), []
    for i, value in enumerate(values):
        if isinstance(value, Tensor):
            probes[i] = _probe(value)
            inputs.append(probes[i])
            if tangent_at(value, level) is not None:
                tangents[i] = _probe(value)
                inputs.append(tangents[i])
    tape = LEVELS.tape = Tape()
    enabled, LEVELS.enabled = LEVELS.enabled, False
    try:
        with no_grad():
            y = tangent_rules.call_with(operator, probes)
            dy = tangent_rules.apply_rule(operator, probes, tangents, y)
    except Exception:  # it reads values, or calls what is not pointwise
        return None
    finally:
        LEVELS.tape, LEVELS.enabled = None, enabled
    known = {id(x) for x in inputs} | {id(result) for *_, result in tape.calls}
    if {y._array.dtype, dy._array.dtype} != {inputs[0]._array.dtype}:
        return None
    for _, read, _ in tape.calls:
        if any(isinstance(x, Tensor) and id(x) not in known for x in read):
            return None
    return tape.replay(inputs, (y, dy)) if {id(y), id(dy)} <= known else None


def _probe(x: Tensor) -> Tensor:
    return wrap(meta_array((2,), x._array.dtype))


def _are_alike(arrays: list[np.ndarray]) -> bool:
    """Whether all are contiguous, of one shape and one floating dtype."""
    shape, kind = arrays[0].shape, arrays[0].dtype
    return kind in FLOATS and all(
        a.__class__ is np.ndarray and a.dtype is kind and a.shape == shape
        and a.flags.c_contiguous for a in arrays)
