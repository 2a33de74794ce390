"""Operators on complex numbers, as operators on their real and imaginary parts.

An operator that is declared linear, or a product, maps over the parts; pointwise operators have a
formula each. All others are called eagerly, on memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...ops.core.operator import OPERATORS, Operator
from ..ir.graph import Node, concat, reshape, strided_slice
from ..lowering import NotLowered, lower
from ..lowering.numpy.node_builders import broadcast_to, number, type_of
from ..lowering.numpy.symbolic_array import convert_to_node, wrap_node
from ..trace.trace import Value


class Parts(NamedTuple):
    """A complex operand or result: symbols or plain numbers, 0 where a part is zero."""

    real: Any
    imag: Any


def lower_on_parts(operator: Operator, args: tuple) -> Node | Parts:
    """Return an operator's result: a node if it is real, else the symbols of its parts.

    `args` has `Parts` in place of complex operands and nodes in place of real ones.
    """
    formula = FORMULAS.get(operator)
    if formula is not None:
        symbols = [wrap_node(x) if isinstance(x, Node) else x for x in args]
        result = formula(*symbols)
        return result if isinstance(result, Parts) else convert_to_node(result)
    terms = [term.strip().split(" * ") for term in operator.linear_in.split("+")]
    products = [term for term in terms if len(term) > 1]
    if not operator.linear_in or len(products) > 1 or any(len(term) > 2 for term in products):
        raise NotLowered(operator, "has no formula for complex numbers")
    factors = products[0] if products else []
    addends = [name for term in terms if len(term) == 1 for name in term]
    return _map_linear(_Linear(operator, args), factors, addends)


def split_pairs(pairs: Node) -> Parts:
    """Return the parts of pairs: their last axis has the real and the imaginary numbers."""
    rank, shape = len(pairs.shape), pairs.shape[:-1]
    return Parts(*[wrap_node(reshape(strided_slice(pairs, (0,) * (rank - 1) + (k,), (1,) * rank,
                                                   (*shape, 1)), shape)) for k in (0, 1)])


def join_pairs(parts: Parts, window: Value) -> Node:
    """Return the pairs of two parts, of the shape and type of a window of pairs."""
    shape, kind = window.shape[:-1], type_of(window.dtype)
    halves = [broadcast_to(number(x, kind) if isinstance(x, (int, float)) else convert_to_node(x),
                           shape) for x in parts]
    return concat([reshape(half, (*shape, 1)) for half in halves], len(shape))


# --------------------------------------------------------------------------- linear operators


class _Linear:
    """A call of an operator of which some operands are complex."""

    def __init__(self, operator: Operator, args: tuple) -> None:
        self.operator, self.args = operator, args

    def apply(self, part_of: dict[str, int | None]) -> Any:
        """Return the operator's result, given the part of each linear parameter to take: 0 for the
        real one, 1 for the imaginary one, None for zeros instead."""
        args = []
        for name, x in zip(self.operator.names, self.args, strict=True):
            args.append(_select(x, part_of[name]) if name in part_of else x)
        y = lower(self.operator, tuple(args), {})
        if not isinstance(y, Node):
            raise NotLowered(self.operator, "has several complex results")
        return wrap_node(y)

    def has_part(self, name: str, k: int) -> bool:
        """Whether a part of a parameter may differ from zero."""
        x = self.args[self.operator.names.index(name)]
        items = x if isinstance(x, (tuple, list)) and not isinstance(x, Parts) else [x]
        return any(not (isinstance(part, (int, float)) and part == 0)
                   for item in items if item is not None for part in [_part(item, k)])


def _map_linear(call: _Linear, factors: list[str], addends: list[str]) -> Parts:
    """Return the parts of a sum of linear terms and at most one product."""
    for name, x in zip(call.operator.names, call.args, strict=True):
        if isinstance(x, Parts) and name not in (*factors, *addends):
            raise NotLowered(call.operator, f"takes a complex {name}")

    def compute(k: int) -> Any:
        if not factors:
            return call.apply(dict.fromkeys(addends, k)) \
                if any(call.has_part(name, k) for name in addends) else 0
        first, second = factors
        terms = []
        for i, j in ((0, k), (1, 1 - k)):  # re re - im im, re im + im re
            if call.has_part(first, i) and call.has_part(second, j):
                rest = dict.fromkeys(addends, None if i else k)
                term = call.apply({first: i, second: j, **rest})
                terms.append(-term if i and j else term)
            elif not i and any(call.has_part(name, k) for name in addends):
                raise NotLowered(call.operator, "adds to a product of which a part is zero")
        return sum(terms[1:], terms[0]) if terms else 0

    return Parts(compute(0), compute(1))


def _select(x: Any, k: int | None) -> Any:
    """Return a part of an operand as a node; zeros for None."""
    if isinstance(x, (tuple, list)) and not isinstance(x, Parts):
        return type(x)(_select(item, k) for item in x)
    if x is None:
        return None
    part = 0 if k is None else _part(x, k)
    if not isinstance(part, (int, float)):
        return convert_to_node(part)
    like = convert_to_node(x.real) if isinstance(x, Parts) else x
    if not isinstance(like, Node):
        return part
    return broadcast_to(number(part, like.type), like.shape)


def _part(x: Any, k: int) -> Any:
    if isinstance(x, Parts):
        return x[k]
    if isinstance(x, complex):
        return (x.real, x.imag)[k]
    return 0.0 if k else x


# ------------------------------------------------------------------------- pointwise formulas


def _complex(x: Any) -> Parts:
    """Return an operand as complex: a real one gets an imaginary part of zero, as in NumPy, which
    turns infinities into NaN."""
    return Parts(_part(x, 0), _part(x, 1))


def _add(a: Any, b: Any) -> Parts:
    a, b = _complex(a), _complex(b)
    return Parts(a.real + b.real, a.imag + b.imag)


def _subtract(a: Any, b: Any) -> Parts:
    a, b = _complex(a), _complex(b)
    return Parts(a.real - b.real, a.imag - b.imag)


def _multiply(a: Any, b: Any) -> Parts:
    a, b = _complex(a), _complex(b)
    return Parts(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def _divide(a: Any, b: Any) -> Parts:
    """Divide by the larger part first (Smith, 1962), as PyTorch does: nothing overflows."""
    if isinstance(b, (bool, int, float, complex)) and not b:
        raise NotLowered(OPERATORS["_div"], "divides complex numbers by zero")
    a, b = _complex(a), _complex(b)
    sizes = abs(b.real), abs(b.imag)
    is_real_larger = sizes[0] >= sizes[1]
    large, small = _choose(is_real_larger, *b), _choose(is_real_larger, b.imag, b.real)
    ratio = small / large
    scale = 1 / (large + small * ratio)
    real = _choose(is_real_larger, a.real + a.imag * ratio, a.real * ratio + a.imag) * scale
    imag = _choose(is_real_larger, a.imag - a.real * ratio, a.imag * ratio - a.real) * scale
    if isinstance(is_real_larger, bool):
        return Parts(real, imag)
    is_zero = (sizes[0] == 0) & (sizes[1] == 0)
    return Parts(np.where(is_zero, a.real / sizes[0], real),
                 np.where(is_zero, a.imag / sizes[0], imag))


def _choose(condition: Any, x: Any, y: Any) -> Any:
    """Return np.where(condition, x, y); the condition may be a plain bool."""
    return (x if condition else y) if isinstance(condition, bool) else np.where(condition, x, y)


def _sign(x: Parts) -> Parts:
    size = np.hypot(x.real, x.imag)
    return Parts(*[np.where(size == 0, part * 0, part / size) for part in x])


def _power(x: Any, exponent: Any) -> Parts:
    if exponent != 2 or isinstance(exponent, complex):
        raise NotLowered(OPERATORS["_pow_number"], "raises complex numbers to a power")
    return _multiply(x, x)


def _where(condition: Any, a: Any, b: Any) -> Parts:
    a, b = _complex(a), _complex(b)
    return Parts(np.where(condition, a.real, b.real), np.where(condition, a.imag, b.imag))


def _exponential(x: Parts) -> Parts:
    size = np.exp(x.real)
    return Parts(size * np.cos(x.imag), size * np.sin(x.imag))


_FORMULAS: dict[str, Callable[..., Any]] = {
    "_add": _add, "_sub": _subtract, "mul": _multiply, "_div": _divide, "_where": _where,
    "neg": lambda x: Parts(-x.real, -x.imag), "_conj": lambda x: Parts(x.real, -x.imag),
    "square": lambda x: _multiply(x, x), "exp": _exponential, "_pow_number": _power,
    "abs": lambda x: np.hypot(x.real, x.imag), "complex": Parts, "sgn": _sign,
    "reciprocal": lambda x: _divide(1, x), "angle": lambda x: np.arctan2(x.imag, x.real),
}
FORMULAS = {OPERATORS[name]: formula for name, formula in _FORMULAS.items()}
