"""Run an operator's NumPy body on symbols, binding, promoting and rounding as in eager mode."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter
from typing import Any

import numpy as np

from ....native.loop_ir.numpy_forms import dtype_of
from ....ops.core.operator import Kind, Operator, Promotion
from ....ops.core.promotion import rounds_operands
from ....tensor import dtypes as types
from ....tensor.dtypes import BOOL, HALF, INTEGER
from ....tensor.size import Size
from ....tensor.tensor import Tensor
from ...ir.graph import Node, Op
from ..registry import EXPLICIT
from .rebind_numpy import promote_symbols, rebind_to_symbols
from .symbolic_array import SymbolArray, convert_to_node, is_symbol


def to_symbols(value: Any) -> Any:
    """Replace nodes with symbols and tensors with arrays, inside lists and tuples too."""
    if isinstance(value, Node):
        return SymbolArray(value)
    if isinstance(value, Tensor):
        return value._array
    if hasattr(value, "_fields"):  # settings of an operator: arrays in them are constant
        return value.__class__(*map(_settle, value))
    if isinstance(value, (list, tuple)):
        return value.__class__([to_symbols(v) for v in value])
    return value


def _settle(value: Any) -> Any:
    if isinstance(value, Node) and value.op in (Op.ARRAY, Op.CONSTANT):
        return np.full(value.shape, value.value, dtype_of(value.type))
    if isinstance(value, tuple) and not isinstance(value, Size):
        return to_symbols(value) if hasattr(value, "_fields") else tuple(map(_settle, value))
    return to_symbols(value)


def bind_arguments(operator: Operator, args: Sequence[Any], kwargs: dict) -> tuple[list, dict]:
    """Bind arguments to the body's parameters, spreading starred ones: (positional, by name)."""
    positional: list[Any] = []
    named = dict(kwargs)
    arguments = list(args)
    for i, p in enumerate(operator.parameters):
        if p.kind is Parameter.VAR_POSITIONAL:
            rest = (
                arguments[i]
                if len(arguments) > i and isinstance(arguments[i], (tuple, list))
                else None
            )
            if rest is None:
                positional.extend(arguments[i:])
                arguments = arguments[:i]
            else:
                positional.extend(rest)
            starred = named.pop(p.name, ())
            positional.extend(starred)
            continue
        if i >= len(arguments):
            continue
        if p.kind is Parameter.VAR_KEYWORD:
            named.update(arguments[i])
            continue
        if p.kind is Parameter.KEYWORD_ONLY:
            named[p.name] = arguments[i]
        else:
            positional.append(arguments[i])
    return positional, named


def run_on_symbols(
    operator: Operator, args: Sequence[Any], kwargs: dict
) -> tuple[Any, list[SymbolArray]]:
    """Run an operator's lowering or body on symbols; return results and argument symbols."""
    positional, named = bind_arguments(operator, to_symbols(list(args)), {
        name: to_symbols(v) for name, v in kwargs.items()})
    symbols = [*_collect_symbols(positional), *_collect_symbols(list(named.values()))]
    explicit = EXPLICIT.get(operator)
    body = explicit or rebind_to_symbols(operator.body)
    with np.errstate(all="ignore"):
        if operator.kind is not Kind.POINTWISE or operator.promotion is Promotion.NONE:
            return body(*positional, **named), symbols
        return _run_pointwise(operator, body, positional, named), symbols


def _collect_symbols(values: Any) -> list[SymbolArray]:
    symbols = []
    for v in values:
        if is_symbol(v):
            symbols.append(v)
        elif v.__class__ in (list, tuple):
            symbols.extend(_collect_symbols(v))
    return symbols


def _run_pointwise(operator: Operator, body: Any, positional: list, named: dict) -> Any:
    """Run a body as ops.promotion does: cast operands to their common dtype; compute half precision
    in float32 and round once."""
    names = operator.names
    keys: list[Any] = [i for i in range(len(positional)) if i in operator.tensor_positions]
    operands = [positional[i] for i in keys] + [
        named[n] for n in named if names.index(n) in operator.tensor_positions]
    common = promote_symbols(operands)
    if operator.promotion is Promotion.FLOATING and common.category in (BOOL, INTEGER):
        common = types.get_default_dtype()
    half = common in HALF
    inside = types.float32.numpy if half else common.numpy
    stored = common.numpy if rounds_operands(operator, common) else inside
    for i in keys:
        positional[i] = _cast(positional[i], stored, inside)
    named = {n: _cast(v, stored, inside) if names.index(n) in operator.tensor_positions else v
             for n, v in named.items()}
    y = body(*positional, **named)
    return y.astype(common.numpy) if half and y.dtype == types.float32.numpy else y


def _cast(x: Any, stored: np.dtype, inside: np.dtype) -> Any:
    """Return an operand in the dtype `inside`, after rounding to `stored`."""
    if x is None:
        return None
    if is_symbol(x):
        return x.astype(stored, copy=False).astype(inside, copy=False)
    if inside.kind in "iu" and x.__class__ is int:
        return np.asarray(x & (2**64 - 1), np.uint64).astype(inside)
    return np.asarray(x).astype(stored).astype(inside)


def unwrap(y: Any) -> Any:
    """Replace symbols with their nodes, in tuples too; keep None."""
    if y is None:
        return None
    if y.__class__ in (tuple, list):
        return tuple(unwrap(v) for v in y)
    return convert_to_node(y)
