"""Compute an operator's value and tangent in one kernel.

Some operators declare a rule (`@op.value_and_jvp`). For pointwise operators it is derived: operator
and jvp rule run once on meta tensors, and the tape of their operator calls is replayed on the
kernel's elements. Shared subexpressions, such as gelu's error function, are computed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...autograd import no_grad
from ...autograd.tangents import LEVELS
from ...native.foundation.generated_code import SourceBuilder
from ...native.target.eager_costs import (
    CALLS_BEFORE_COMPILING, MAX_NUMPY_COSTLY_ELEMENTS, MAX_NUMPY_POINTWISE_ELEMENTS,
    MAX_POINTWISE_KERNELS,
)
from ...tensor.dtypes import FLOATS
from ...tensor.meta import meta_array
from ...tensor.tensor import Tensor, wrap
from ..core.operator import Kind, Operator
from ..native.pointwise_pair import serve_pair
from . import tangent_rules

_SETTINGS = (float, int, bool, str, type(None))
# Formula, or None if there is none, by (operator, settings, which inputs have a tangent).
FORMULAS: dict[tuple, Callable | None] = {}
_calls: dict[tuple, int] = {}  # of keys without a formula yet: most of them never recur


class Tape:
    """The pointwise operator calls, in order, with arguments and results."""

    def __init__(self) -> None:
        self.calls: list[tuple[Operator, list[Any], Tensor]] = []

    def note(self, operator: Operator, values: list[Any], y: Any) -> None:
        """Add a call. Raise NotImplementedError if it is not pointwise."""
        if operator.kind is not Kind.POINTWISE or not isinstance(y, Tensor):
            raise NotImplementedError(operator.name)
        self.calls.append((operator, values, y))

    def write(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Callable:
        """Return a function from the inputs to the outputs, as a kernel's elements or as arrays."""
        builder = SourceBuilder()
        known = {id(x): f"x{i}" for i, x in enumerate(inputs)}
        for operator, values, y in self.calls:
            body = builder.name(operator.ufunc or operator.body, "body")
            arguments = []
            for parameter, value in zip(operator.parameters, values, strict=True):
                text = known.get(id(value)) or builder.name(
                    value._array if isinstance(value, Tensor) else value)
                named = parameter.kind is parameter.KEYWORD_ONLY
                arguments.append(f"{parameter.name}={text}" if named else text)
            kind = builder.name(y._array.dtype, "kind")
            known[id(y)] = result = f"y{len(known)}"
            builder.add(f"{result} = {body}({', '.join(arguments)})",
                        f"if {result}.dtype != {kind}: {result} = {result}.astype({kind})")
        builder.add(f"return {', '.join(known[id(y)] for y in outputs)}")
        head = f"formula({', '.join(known[id(x)] for x in inputs)})"
        return builder.define(head, f"<flambeau tangents of {self.calls[0][0].name}>")[1]


def push_fused(
    operator: Operator, primals: list[Any], tangents: list[Tensor | None]
) -> tuple[Any, Any] | None:
    """Return the operator's result and its tangent (tuples for several results), or None where the
    arguments are not large arrays, or the operator has no such kernel. Nothing has a history or
    further tangents."""
    if operator.kind is Kind.POINTWISE:
        pair = _push_pointwise(operator, primals, tangents)
        return None if pair is None else (wrap(pair[0]), wrap(pair[1]))
    if operator.value_and_jvp is not None:
        pair = _push_declared(operator, operator.value_and_jvp, primals, tangents)
    else:
        return None
    return None if pair is None else (_wrap_results(pair[0]), _wrap_results(pair[1]))


def _wrap_results(result: Any) -> Any:
    return tuple(map(wrap, result)) if result.__class__ is tuple else wrap(result)


def _push_declared(
    operator: Operator, rule: Callable, primals: list[Any], tangents: list[Tensor | None]
) -> tuple[Any, Any] | None:
    sources = operator.names
    read: list[Any] = []
    for name, position in tangent_rules.list_parameters(rule, operator):
        x = primals[sources.index(name)] if position is None else tangents[position]
        read.append(x._array if isinstance(x, Tensor) else x)
    result: tuple[Any, Any] | None = rule(*read)
    return result


def _push_pointwise(
    operator: Operator, primals: list[Any], tangents: list[Tensor | None]
) -> tuple[np.ndarray, np.ndarray] | None:
    arrays: list[np.ndarray] = []
    key: list[Any] = [operator]
    kind, shape = None, None
    for x, tangent in zip(primals, tangents, strict=True):
        if isinstance(x, Tensor):
            array = x._array
            arrays.append(array)
            key += (array.dtype, tangent is not None)
            if shape is None:
                shape = array.shape
            elif array.shape != shape:
                shape = _broadcast(shape, array.shape)
                if shape is None:
                    return None
            if tangent is not None:
                arrays.append(tangent._array)
                kind = array.dtype
                if tangent._array.dtype is not kind:
                    return None
        elif x.__class__ in _SETTINGS:
            key += (x if x else repr(x), x.__class__)
        else:
            return None
    if kind is None or shape is None:
        return None
    whole_key, size = tuple(key), math.prod(shape)
    formula = _find_formula(whole_key, operator, primals, tangents, size)
    if formula is None:
        return None
    return _compute_small_pair(formula, arrays) if size <= MAX_NUMPY_COSTLY_ELEMENTS \
        else serve_pair(whole_key, formula, arrays, shape, kind)


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:  # the operator's own error is better
        return None


def _compute_small_pair(
    formula: Callable, arrays: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Apply the formula to small arrays in NumPy, which spares the rule's operators their calls."""
    for a in arrays:
        if not a.flags.c_contiguous:
            return None
    y, dy = formula(*arrays)
    if y.__class__ is not np.ndarray or y.base is not None or any(y is a for a in arrays):
        y = np.array(y)
    if dy.shape != y.shape:
        dy = np.array(np.broadcast_to(dy, y.shape), order="C")
    return y, dy if dy.__class__ is np.ndarray else np.array(dy)


def _find_formula(
    key: tuple, operator: Operator, primals: list[Any], tangents: list[Tensor | None], size: int
) -> Callable | None:
    """Return the formula for elements and tangents, or None if there is none.

    Derives it on the second call with a key, since one-off settings are not worth a kernel, or
    after many with arrays of medium size.
    """
    try:
        return FORMULAS[key]
    except KeyError:
        pass
    _calls[key] = calls = _calls.get(key, 0) + 1
    if len(FORMULAS) + len(_calls) > MAX_POINTWISE_KERNELS:
        _calls.clear()
        FORMULAS.clear()
    if calls < (2 if size > MAX_NUMPY_POINTWISE_ELEMENTS else CALLS_BEFORE_COMPILING):
        return None
    _calls.pop(key, None)
    formula = FORMULAS[key] = _derive(operator, primals, tangents)
    return formula


def _derive(
    operator: Operator, primals: list[Any], tangents: list[Tensor | None]
) -> Callable | None:
    """Run the operator and its rule on meta tensors; return the tape as a formula, or None."""
    kinds = {x._array.dtype for x, t in zip(primals, tangents, strict=True) if t is not None}
    if len(kinds) != 1 or not kinds <= FLOATS:
        return None  # half precision is rounded once per operator
    probes, inputs = list(primals), []
    probes_t: list[Tensor | None] = [None] * len(primals)
    for i, x in enumerate(primals):
        if isinstance(x, Tensor):
            probes[i] = _create_probe(x)
            inputs.append(probes[i])
            if tangents[i] is not None:
                probes_t[i] = probe = _create_probe(x)
                inputs.append(probe)
    tape = LEVELS.tape = Tape()
    enabled, LEVELS.enabled = LEVELS.enabled, False
    try:
        with no_grad():
            y = tangent_rules.call_with(operator, probes)
            dy = tangent_rules.apply_rule(operator, probes, probes_t, y)
    except Exception:  # reads values or calls non-pointwise operators
        return None
    finally:
        LEVELS.tape, LEVELS.enabled = None, enabled
    known = {id(x) for x in inputs} | {id(result) for *_, result in tape.calls}
    if {y._array.dtype, dy._array.dtype} != kinds:
        return None
    for _, read, _ in tape.calls:
        if any(isinstance(x, Tensor) and id(x) not in known and not _is_constant(x) for x in read):
            return None
    return tape.write(inputs, (y, dy)) if {id(y), id(dy)} <= known else None


def _is_constant(x: Tensor) -> bool:
    """Whether the rule created a tensor of one number, which cannot depend on the probes."""
    return x._array.__class__ is np.ndarray and not x._array.ndim


def _create_probe(x: Tensor) -> Tensor:
    return wrap(meta_array((2,), x._array.dtype))
