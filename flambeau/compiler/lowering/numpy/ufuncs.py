"""NumPy's ufuncs as scalar operations on nodes of one type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....native.loop_ir.ir import ReduceOp, Scalar, Type
from ....native.target.graph_costs import MAX_MULTIPLIED_POWER
from ...ir.graph import Node, Op
from ..registry import refuse
from .node_builders import apply_operation, bitcast, cast, number, where

_INTEGERS_OF = {4: Type.I32, 8: Type.I64}


def number_like(value: Any, like: Node) -> Node:
    """A constant with a node's type and rank."""
    return number(value, like.type, len(like.shape))


def _build_operation(operation: Scalar) -> Callable[..., Node]:
    return lambda *nodes: apply_operation(operation, *nodes)


_abs, _neg, _not, _floor, _sqrt, _log1p = map(_build_operation, (
    Scalar.ABS, Scalar.NEG, Scalar.NOT, Scalar.FLOOR, Scalar.SQRT, Scalar.LOG1P))
_add, _sub, _mul, _div, _rem, _pow = map(_build_operation, (
    Scalar.ADD, Scalar.SUB, Scalar.MUL, Scalar.DIV, Scalar.REM, Scalar.POW))
_eq, _ne, _lt, _gt, _ge = map(_build_operation, (
    Scalar.EQ, Scalar.NE, Scalar.LT, Scalar.GT, Scalar.GE))
_and, _or, _xor, _maximum, _minimum, _copysign, _shift_right = map(_build_operation, (
    Scalar.AND, Scalar.OR, Scalar.XOR, Scalar.MAXIMUM, Scalar.MINIMUM, Scalar.COPYSIGN, Scalar.SHR))


# ------------------------------------------------------------------------------- one operand


def _absolute(a: Node) -> Node:
    return a if not a.type.floating and not a.type.signed else _abs(a)


def _build_rounding(operation: Scalar) -> Callable[[Node], Node]:
    return lambda a: apply_operation(operation, a) if a.type.floating else a


def _sign(a: Node) -> Node:
    zero = number_like(0, a)
    above = cast(_gt(a, zero), a.type)
    if not a.type.floating and not a.type.signed:
        return above
    sign = _sub(above, cast(_lt(a, zero), a.type))
    return where(isnan(a), a, sign) if a.type.floating else sign


def isnan(a: Node) -> Node:
    """Whether elements are NaN."""
    a = a if a.type.floating else _cast_bool_to_byte(a)
    return _ne(a, a)


def _cast_bool_to_byte(a: Node) -> Node:
    return cast(a, Type.U8) if a.type is Type.BOOL else a


def _isinf(a: Node) -> Node:
    return _eq(_abs(a), number_like(math.inf, a))


def _isfinite(a: Node) -> Node:
    return _lt(_abs(a), number_like(math.inf, a))


def _signbit(a: Node) -> Node:
    if not a.type.floating:
        return _lt(a, number_like(0, a))
    read = bitcast(a, _INTEGERS_OF[a.type.size])
    return _lt(read, number_like(0, read))


def _build_multiplication(factor: float) -> Callable[[Node], Node]:
    return lambda a: _mul(a, number_like(factor, a))


def _cast_to_bool(a: Node) -> Node:
    return a if a.type is Type.BOOL else _ne(a, number_like(0, a))


def _logical_not(a: Node) -> Node:
    return _not(a) if a.type is Type.BOOL else _eq(a, number_like(0, a))


UNARY: dict[str, Callable[[Node], Node]] = {
    name: _build_operation(operation) for name, operation in {
        "negative": Scalar.NEG, "sqrt": Scalar.SQRT, "exp": Scalar.EXP, "exp2": Scalar.EXP2,
        "expm1": Scalar.EXPM1, "log": Scalar.LOG, "log2": Scalar.LOG2, "log10": Scalar.LOG10,
        "log1p": Scalar.LOG1P, "sin": Scalar.SIN, "cos": Scalar.COS, "tan": Scalar.TAN,
        "arcsin": Scalar.ASIN, "arccos": Scalar.ACOS, "arctan": Scalar.ATAN,
        "sinh": Scalar.SINH, "cosh": Scalar.COSH, "tanh": Scalar.TANH, "arcsinh": Scalar.ASINH,
        "arccosh": Scalar.ACOSH, "arctanh": Scalar.ATANH, "invert": Scalar.NOT,
    }.items()
}
UNARY |= {
    "absolute": _absolute, "fabs": _absolute, "floor": _build_rounding(Scalar.FLOOR),
    "ceil": _build_rounding(Scalar.CEIL), "trunc": _build_rounding(Scalar.TRUNC),
    "rint": _build_rounding(Scalar.ROUND), "sign": _sign, "isnan": isnan, "isinf": _isinf,
    "isfinite": _isfinite, "signbit": _signbit, "logical_not": _logical_not,
    "square": lambda a: _mul(a, a), "positive": lambda a: a,
    "conjugate": lambda a: a, "deg2rad": _build_multiplication(math.pi / 180),
    "radians": _build_multiplication(math.pi / 180),
    "rad2deg": _build_multiplication(180 / math.pi),
    "degrees": _build_multiplication(180 / math.pi),
    "reciprocal": lambda a: _div(number_like(1, a), a),
}


# ------------------------------------------------------------------------------- two operands


def _with_bool_operation(operation: Scalar, logical: Scalar) -> Callable[[Node, Node], Node]:
    return lambda a, b: apply_operation(logical if a.type is Type.BOOL else operation, a, b)


def _build_extreme(operation: Scalar, logical: Scalar) -> Callable[[Node, Node], Node]:
    """A maximum or minimum; of 0.0 and -0.0 NumPy takes the second, the operation the first."""
    extreme = _with_bool_operation(operation, logical)
    return lambda a, b: extreme(b, a)


def _build_comparison(operation: Scalar) -> Callable[[Node, Node], Node]:
    return lambda a, b: apply_operation(operation, _cast_bool_to_byte(a), _cast_bool_to_byte(b))


def _build_logical(operation: Scalar) -> Callable[[Node, Node], Node]:
    return lambda a, b: apply_operation(operation, _cast_to_bool(a), _cast_to_bool(b))


def _has_opposite_sign(remainder: Node, b: Node) -> Node:
    """Where a remainder is nonzero and its sign differs from the divisor's."""
    zero = number_like(0, remainder)
    signs = _xor(_lt(remainder, zero), _lt(b, number_like(0, b)))
    return _and(_ne(remainder, zero), signs)


def _floor_divide(a: Node, b: Node) -> Node:
    rest = _rem(a, b)
    if not a.type.floating:
        truncated = _div(a, b)
        if not a.type.signed:
            return truncated
        return _sub(truncated, cast(_has_opposite_sign(rest, b), a.type))
    quotient = _div(_sub(a, rest), b)
    quotient = _sub(quotient, cast(_has_opposite_sign(rest, b), a.type))
    down = _floor(quotient)
    over = _gt(_sub(quotient, down), number_like(0.5, a))
    truncated = _add(down, cast(over, a.type))
    plain = _div(a, b)
    signed_zero = _copysign(number_like(0, a), plain)
    truncated = where(_eq(quotient, number_like(0, a)), signed_zero, truncated)
    return where(_eq(b, number_like(0, b)), plain, truncated)


def _remainder(a: Node, b: Node) -> Node:
    rest = _rem(a, b)
    if not a.type.floating and not a.type.signed:
        return rest
    result = where(_has_opposite_sign(rest, b), _add(rest, b), rest)
    if not a.type.floating:
        return result
    return where(_eq(rest, number_like(0, rest)), _copysign(number_like(0, a), b), result)


def _power(a: Node, b: Node) -> Node:
    if b.op is Op.CONSTANT:
        simple_power = _expand_constant_power(a, b)
        if simple_power is not None:
            return simple_power
    if not a.type.floating:
        refuse("integer powers")
    return _pow(a, b)


def _expand_constant_power(a: Node, b: Node) -> Node | None:
    """Expand a power into products or a root if the result is exact, or nearly so; else None."""
    n = b.value
    if a.type.floating and n == 0.5:
        return _sqrt(a)
    if a.type.floating and n == -1:
        return _div(number_like(1, a), a)
    if n != int(n) if math.isfinite(n) else True:
        return None
    n = int(n)
    if n == 2:
        return _mul(a, a)
    if n == 3 and a.type.floating:
        return _mul(_mul(a, a), a)
    if a.type.floating or not 0 < n <= MAX_MULTIPLIED_POWER:
        return None
    result = a
    for _ in range(n - 1):
        result = _mul(result, a)
    return result


def _build_nan_ignoring_extreme(operation: Scalar) -> Callable[[Node, Node], Node]:
    """A maximum or minimum that ignores NaN."""

    def extreme(a: Node, b: Node) -> Node:
        y = apply_operation(operation, a, b)
        if not a.type.floating:
            return y
        return where(isnan(a), b, where(isnan(b), a, y))

    return extreme


def _shift_builder(operation: Scalar) -> Callable[[Node, Node], Node]:
    """A shift; an out-of-range count gives 0, or the sign for a signed right shift."""

    def shift(a: Node, b: Node) -> Node:
        width = a.type.size * 8
        in_range = _and(_lt(b, number_like(width, b)), _ge(b, number_like(0, b)))
        y = apply_operation(operation, a, where(in_range, b, number_like(0, b)))
        overflow = number_like(0, a)
        if operation is Scalar.SHR and a.type.signed:
            overflow = _shift_right(a, number_like(width - 1, a))
        return where(in_range, y, overflow)

    return shift


def _hypot(a: Node, b: Node) -> Node:
    a, b = _abs(a), _abs(b)
    large, small = _maximum(a, b), _minimum(a, b)
    ratio = _div(small, large)
    root = _sqrt(_add(_mul(ratio, ratio), number_like(1, a)))
    # If both are zero or infinite, their ratio is NaN; infinity wins over NaN.
    result = where(_eq(small, large), _mul(large, number_like(math.sqrt(2), a)), _mul(large, root))
    infinite = _or(_isinf(a), _isinf(b))
    return where(infinite, number_like(math.inf, result), result)


def _log_sum(exp: Scalar, log: Scalar | None) -> Callable[[Node, Node], Node]:
    def log_sum(a: Node, b: Node) -> Node:
        larger = _maximum(a, b)
        gap = _neg(_abs(_sub(a, b)))
        extra = _log1p(apply_operation(exp, gap))
        log_two = math.log(2) if log is None else 1
        if log is not None:
            extra = _mul(extra, number_like(1 / math.log(2), extra))
        return where(_eq(a, b), _add(larger, number_like(log_two, larger)), _add(larger, extra))

    return log_sum


def _build_xlogy(log: Scalar) -> Callable[[Node, Node], Node]:
    def xlogy(a: Node, b: Node) -> Node:
        y = _mul(a, apply_operation(log, b))
        skip = _and(_eq(a, number_like(0, a)), _not(isnan(b)))
        return where(skip, number_like(0, y), y)

    return xlogy


BINARY: dict[str, Callable[[Node, Node], Node]] = {
    "add": _with_bool_operation(Scalar.ADD, Scalar.OR),
    "subtract": _build_operation(Scalar.SUB),
    "multiply": _with_bool_operation(Scalar.MUL, Scalar.AND),
    "divide": _build_operation(Scalar.DIV),
    "true_divide": _build_operation(Scalar.DIV),
    "fmod": _build_operation(Scalar.REM),
    "maximum": _build_extreme(Scalar.MAXIMUM, Scalar.OR),
    "minimum": _build_extreme(Scalar.MINIMUM, Scalar.AND),
    "arctan2": _build_operation(Scalar.ATAN2),
    "copysign": _build_operation(Scalar.COPYSIGN),
    "equal": _build_comparison(Scalar.EQ),
    "not_equal": _build_comparison(Scalar.NE),
    "less": _build_comparison(Scalar.LT),
    "less_equal": _build_comparison(Scalar.LE),
    "greater": _build_comparison(Scalar.GT),
    "greater_equal": _build_comparison(Scalar.GE),
    "logical_and": _build_logical(Scalar.AND),
    "logical_or": _build_logical(Scalar.OR),
    "logical_xor": _build_logical(Scalar.XOR),
    "bitwise_and": _build_operation(Scalar.AND),
    "bitwise_or": _build_operation(Scalar.OR),
    "bitwise_xor": _build_operation(Scalar.XOR),
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "power": _power,
    "float_power": _power,
    "fmax": _build_nan_ignoring_extreme(Scalar.MAXIMUM),
    "fmin": _build_nan_ignoring_extreme(Scalar.MINIMUM),
    "left_shift": _shift_builder(Scalar.SHL),
    "right_shift": _shift_builder(Scalar.SHR),
    "hypot": _hypot,
    "logaddexp": _log_sum(Scalar.EXP, None),
    "logaddexp2": _log_sum(Scalar.EXP2, Scalar.LOG2),
    "xlogy": _build_xlogy(Scalar.LOG),
    "xlog1py": _build_xlogy(Scalar.LOG1P),
}

# The reductions of ufuncs; on BOOL, some become ANY or ALL (BOOL_REDUCTIONS).
REDUCTIONS = {
    "add": ReduceOp.SUM,
    "multiply": ReduceOp.PRODUCT,
    "maximum": ReduceOp.MAXIMUM,
    "minimum": ReduceOp.MINIMUM,
    "logical_or": ReduceOp.ANY,
    "logical_and": ReduceOp.ALL,
    "bitwise_or": ReduceOp.ANY,
    "bitwise_and": ReduceOp.ALL,
}
BOOL_REDUCTIONS = {
    ReduceOp.MAXIMUM: ReduceOp.ANY,
    ReduceOp.MINIMUM: ReduceOp.ALL,
    ReduceOp.SUM: ReduceOp.ANY,
    ReduceOp.PRODUCT: ReduceOp.ALL,
}
