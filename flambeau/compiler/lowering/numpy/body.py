"""An operator's own body, run on symbols: its arguments bound, promoted and rounded as eagerly."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter
from typing import Any

import numpy as np

from ....ops.core.registry import Kind, Operator, Promotion
from ....tensor import dtypes as types
from ....tensor.dtypes import BOOL, HALF, INTEGER
from ....tensor.size import Size
from ....tensor.tensor import Tensor
from ...ir.graph import Node, Op
from .node_builders import dtype_of
from ..registry import EXPLICIT
from .rebind_numpy import promoted, retargeted
from .symbolic_array import SymbolArray, is_symbol, node_of


def symbolic(value: Any) -> Any:
    """The value with symbols for the nodes and arrays for the tensors in it."""
    if isinstance(value, Node):
        return SymbolArray(value)
    if isinstance(value, Tensor):
        return value._array
    if hasattr(value, "_fields"):  # settings of an operator: arrays in them do not change
        return value.__class__(*map(_settled, value))
    if isinstance(value, (list, tuple)):
        return value.__class__([symbolic(v) for v in value])
    return value


def _settled(value: Any) -> Any:
    if isinstance(value, Node) and value.op in (Op.ARRAY, Op.CONSTANT):
        return np.full(value.shape, value.value, dtype_of(value.type))
    if isinstance(value, tuple) and not isinstance(value, Size):
        return symbolic(value) if hasattr(value, "_fields") else tuple(map(_settled, value))
    return symbolic(value)


def bound(operator: Operator, args: Sequence[Any], kwargs: dict) -> tuple[list, dict]:
    """Arguments by the body's parameters, starred ones spread: (positional, by name)."""
    positional: list[Any] = []
    named = dict(kwargs)
    given = list(args)
    for i, p in enumerate(operator.parameters):
        if p.kind is Parameter.VAR_POSITIONAL:
            rest = given[i] if len(given) > i and isinstance(given[i], (tuple, list)) else None
            if rest is None:
                positional.extend(given[i:])
                given = given[:i]
            else:
                positional.extend(rest)
            starred = named.pop(p.name, ())
            positional.extend(starred)
            continue
        if i >= len(given):
            continue
        if p.kind is Parameter.VAR_KEYWORD:
            named.update(given[i])
            continue
        if p.kind is Parameter.KEYWORD_ONLY:
            named[p.name] = given[i]
        else:
            positional.append(given[i])
    return positional, named


def run(operator: Operator, args: Sequence[Any], kwargs: dict) -> tuple[Any, list[SymbolArray]]:
    """What the lowering or the body gives on symbols, and the symbols that it was given."""
    positional, named = bound(operator, symbolic(list(args)), {
        name: symbolic(v) for name, v in kwargs.items()})  # fmt: skip
    given = [*_symbols(positional), *_symbols(list(named.values()))]
    explicit = EXPLICIT.get(operator.name)
    body = explicit or retargeted(operator.body)
    with np.errstate(all="ignore"):
        if operator.kind is not Kind.POINTWISE or operator.promotion is Promotion.NONE:
            return body(*positional, **named), given
        return _pointwise(operator, body, positional, named), given


def _symbols(values: Any) -> list[SymbolArray]:
    found = []
    for v in values:
        if is_symbol(v):
            found.append(v)
        elif v.__class__ in (list, tuple):
            found.extend(_symbols(v))
    return found


def _pointwise(operator: Operator, body: Any, positional: list, named: dict) -> Any:
    """As ops.promotion: operands cast to the dtype in which they meet, half rounded once."""
    names = operator.names
    keys: list[Any] = [i for i in range(len(positional)) if i in operator.tensor_positions]
    operands = [positional[i] for i in keys] + [
        named[n] for n in named if names.index(n) in operator.tensor_positions]
    common = promoted(operands)
    if operator.promotion is Promotion.FLOATING and common.category in (BOOL, INTEGER):
        common = types.get_default_dtype()
    half = common in HALF
    inside = types.float32.numpy if half else common.numpy
    for i in keys:
        positional[i] = _cast(positional[i], inside)
    named = {n: _cast(v, inside) if names.index(n) in operator.tensor_positions else v
             for n, v in named.items()}  # fmt: skip
    y = body(*positional, **named)
    return y.astype(common.numpy) if half and y.dtype == types.float32.numpy else y


def _cast(x: Any, inside: np.dtype) -> Any:
    if x is None:
        return None
    if is_symbol(x):
        return x.astype(inside, copy=False)
    if inside.kind in "iu" and x.__class__ is int:
        return np.asarray(x & (2**64 - 1), np.uint64).astype(inside)
    return np.asarray(x, inside)


def unwrapped(y: Any) -> Any:
    """Nodes for symbols, in tuples too; None stays."""
    if y is None:
        return None
    if y.__class__ in (tuple, list):
        return tuple(unwrapped(v) for v in y)
    return node_of(y)
