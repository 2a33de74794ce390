"""Operators that compute value and tangent in one kernel.

Some declare how (`@op.value_and_jvp`). For pointwise operators the formula is derived: operator and
rule run once on tensors without memory, and the tape of the operators that they call is replayed on
the kernel's elements. What the two share, such as gelu's error function, is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd import no_grad
from ...autograd.tangents import LEVELS, attach, primal_at, same_history, tangent_at
from ...native.target.eager_costs import MAX_NUMPY_POINTWISE_ELEMENTS, MAX_POINTWISE_KERNELS
from ...tensor.dtypes import FLOATS
from ...tensor.meta import meta_array
from ...tensor.tensor import Tensor, wrap
from ..core.operator import Kind, Operator
from ..native.pointwise_pair import serve_pair
from . import tangent_rules

_SETTINGS = (float, int, bool, str, type(None))
# By operator, settings and what has a tangent: the formula, None where there is none.
FORMULAS: dict[tuple, Callable | None] = {}
_called_once: set[tuple] = set()  # with settings that may never come again


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


def push_fused(operator: Operator, values: list[Any], level: int) -> Tensor | None:
    """Return the operator's result with its tangent at `level`, the only one there is, or None
    where the arguments are not large plain arrays, or an operator has no such kernel."""
    if operator.kind is Kind.POINTWISE:
        pair = _push_pointwise(operator, values, level)
    elif operator.value_and_jvp is not None:
        pair = _push_declared(operator, operator.value_and_jvp, values, level)
    else:
        return None
    if pair is None:
        return None
    y, dy = map(wrap, pair)
    dual = same_history(y)
    attach(dual, level, y, dy)
    return dual


def _plain_arrays(x: Tensor, level: int) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Return the arrays of a tensor and of its tangent, or None unless both are plain and have no
    history."""
    primal, tangent = primal_at(x, level), tangent_at(x, level)
    if primal._array.__class__ is not np.ndarray or primal._tracked:
        return None
    if tangent is None:
        return primal._array, None
    if tangent._array.__class__ is not np.ndarray or tangent._tracked:
        return None
    return primal._array, tangent._array


def _push_declared(
    operator: Operator, rule: Callable, values: list[Any], level: int
) -> tuple[np.ndarray, np.ndarray] | None:
    arrays: list[Any] = list(values)
    tangents: list[Any] = [None] * len(values)
    for i in operator.tensor_positions:
        if values[i].__class__ is Tensor:
            both = _plain_arrays(values[i], level)
            if both is None:
                return None
            arrays[i], tangents[i] = both
        elif values[i] is not None:
            return None
    read = [arrays[operator.names.index(name)] if position is None else tangents[position]
            for name, position in tangent_rules.parameters_of(rule, operator)]
    result: tuple[np.ndarray, np.ndarray] | None = rule(*read)
    return result


def _push_pointwise(
    operator: Operator, values: list[Any], level: int
) -> tuple[np.ndarray, np.ndarray] | None:
    arrays: list[np.ndarray] = []
    key: list[Any] = [operator]
    for value in values:
        if value.__class__ is Tensor:
            both = _plain_arrays(value, level)
            if both is None or both[0].size <= MAX_NUMPY_POINTWISE_ELEMENTS:
                return None
            arrays += [a for a in both if a is not None]
            key.append(both[1] is not None)
        elif value.__class__ in _SETTINGS:
            key += (value if value else repr(value), value.__class__)
        else:
            return None
    if not arrays or not _are_alike(arrays):
        return None
    formula = _formula_of(tuple(key), operator, values, level)
    return None if formula is None else serve_pair(tuple(key), formula, arrays)


def _formula_of(key: tuple, operator: Operator, values: list[Any], level: int) -> Callable | None:
    """Return the formula of elements and their tangents, from the second call with these settings
    on; None if there is none."""
    try:
        return FORMULAS[key]
    except KeyError:
        pass
    if key not in _called_once:
        if len(FORMULAS) + len(_called_once) >= MAX_POINTWISE_KERNELS:
            _called_once.clear()
            FORMULAS.clear()
        _called_once.add(key)
        return None
    formula = FORMULAS[key] = _derive(operator, values, level)
    return formula


def _derive(operator: Operator, values: list[Any], level: int) -> Callable | None:
    """Run the operator and its rule on tensors without memory; return the tape as a formula."""
    probes, inputs = list(values), []
    tangents: list[Tensor | None] = [None] * len(values)
    for i, value in enumerate(values):
        if isinstance(value, Tensor):
            probes[i] = probe = _probe(value)
            inputs.append(probe)
            if tangent_at(value, level) is not None:
                tangents[i] = probe = _probe(value)
                inputs.append(probe)
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
