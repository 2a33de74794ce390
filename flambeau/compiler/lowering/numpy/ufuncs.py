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


def _not(a: Node) -> Node:
    return apply_operation(Scalar.NOT, a)


def logical_or(a: Node, b: Node) -> Node:
    """Logical or."""
    return apply_operation(Scalar.OR, a, b)


def logical_and(a: Node, b: Node) -> Node:
    """Logical and."""
    return apply_operation(Scalar.AND, a, b)


# ------------------------------------------------------------------------------- one operand


def _absolute(a: Node) -> Node:
    return a if not a.type.floating and not a.type.signed else apply_operation(Scalar.ABS, a)


def _build_rounding(operation: Scalar) -> Callable[[Node], Node]:
    return lambda a: apply_operation(operation, a) if a.type.floating else a


def _sign(a: Node) -> Node:
    zero = number_like(0, a)
    above = cast(apply_operation(Scalar.GT, a, zero), a.type)
    if not a.type.floating and not a.type.signed:
        return above
    sign = apply_operation(Scalar.SUB, above, cast(apply_operation(Scalar.LT, a, zero), a.type))
    return where(isnan(a), a, sign) if a.type.floating else sign


def isnan(a: Node) -> Node:
    """Whether elements are NaN."""
    return (
        apply_operation(Scalar.NE, a, a)
        if a.type.floating
        else apply_operation(Scalar.NE, _cast_bool_to_byte(a), _cast_bool_to_byte(a))
    )


def _cast_bool_to_byte(a: Node) -> Node:
    return cast(a, Type.U8) if a.type is Type.BOOL else a


def _isinf(a: Node) -> Node:
    return apply_operation(Scalar.EQ, apply_operation(Scalar.ABS, a), number_like(math.inf, a))


def _isfinite(a: Node) -> Node:
    return apply_operation(Scalar.LT, apply_operation(Scalar.ABS, a), number_like(math.inf, a))


def _signbit(a: Node) -> Node:
    if not a.type.floating:
        return apply_operation(Scalar.LT, a, number_like(0, a))
    read = bitcast(a, _INTEGERS_OF[a.type.size])
    return apply_operation(Scalar.LT, read, number_like(0, read))


def _build_multiplication(factor: float) -> Callable[[Node], Node]:
    return lambda a: apply_operation(Scalar.MUL, a, number_like(factor, a))


def _cast_to_bool(a: Node) -> Node:
    return a if a.type is Type.BOOL else apply_operation(Scalar.NE, a, number_like(0, a))


def _logical_not(a: Node) -> Node:
    return _not(a) if a.type is Type.BOOL else apply_operation(Scalar.EQ, a, number_like(0, a))


def _build_operation(operation: Scalar) -> Callable[..., Node]:
    return lambda *nodes: apply_operation(operation, *nodes)


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
    "square": lambda a: apply_operation(Scalar.MUL, a, a), "positive": lambda a: a,
    "conjugate": lambda a: a, "deg2rad": _build_multiplication(math.pi / 180),
    "radians": _build_multiplication(math.pi / 180),
    "rad2deg": _build_multiplication(180 / math.pi),
    "degrees": _build_multiplication(180 / math.pi),
    "reciprocal": lambda a: apply_operation(Scalar.DIV, number_like(1, a), a),
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
    signs = apply_operation(Scalar.XOR, apply_operation(Scalar.LT, remainder, zero),
                            apply_operation(Scalar.LT, b, number_like(0, b)))
    return logical_and(apply_operation(Scalar.NE, remainder, zero), signs)


def _floor_divide(a: Node, b: Node) -> Node:
    rest = apply_operation(Scalar.REM, a, b)
    if not a.type.floating:
        truncated = apply_operation(Scalar.DIV, a, b)
        if not a.type.signed:
            return truncated
        return apply_operation(Scalar.SUB, truncated, cast(_has_opposite_sign(rest, b), a.type))
    quotient = apply_operation(Scalar.DIV, apply_operation(Scalar.SUB, a, rest), b)
    quotient = apply_operation(Scalar.SUB, quotient, cast(_has_opposite_sign(rest, b), a.type))
    down = apply_operation(Scalar.FLOOR, quotient)
    over = apply_operation(
        Scalar.GT, apply_operation(Scalar.SUB, quotient, down), number_like(0.5, a)
    )
    truncated = apply_operation(Scalar.ADD, down, cast(over, a.type))
    plain = apply_operation(Scalar.DIV, a, b)
    truncated = where(
        apply_operation(Scalar.EQ, quotient, number_like(0, a)),
        apply_operation(Scalar.COPYSIGN, number_like(0, a), plain),
        truncated,
    )
    return where(apply_operation(Scalar.EQ, b, number_like(0, b)), plain, truncated)


def _remainder(a: Node, b: Node) -> Node:
    rest = apply_operation(Scalar.REM, a, b)
    if not a.type.floating and not a.type.signed:
        return rest
    remainder_fixed = where(_has_opposite_sign(rest, b), apply_operation(Scalar.ADD, rest, b), rest)
    if not a.type.floating:
        return remainder_fixed
    is_zero = apply_operation(Scalar.EQ, rest, number_like(0, rest))
    return where(is_zero, apply_operation(Scalar.COPYSIGN, number_like(0, a), b), remainder_fixed)


def _power(a: Node, b: Node) -> Node:
    if b.op is Op.CONSTANT:
        simple_power = _expand_constant_power(a, b)
        if simple_power is not None:
            return simple_power
    if not a.type.floating:
        refuse("integer powers")
    return apply_operation(Scalar.POW, a, b)


def _expand_constant_power(a: Node, b: Node) -> Node | None:
    """Expand a power into products or a root if the result is exact, or nearly so; else None."""
    n = b.value
    if a.type.floating and n == 0.5:
        return apply_operation(Scalar.SQRT, a)
    if a.type.floating and n == -1:
        return apply_operation(Scalar.DIV, number_like(1, a), a)
    if n != int(n) if math.isfinite(n) else True:
        return None
    n = int(n)
    if n == 2:
        return apply_operation(Scalar.MUL, a, a)
    if n == 3 and a.type.floating:
        return apply_operation(Scalar.MUL, apply_operation(Scalar.MUL, a, a), a)
    if a.type.floating or not 0 < n <= MAX_MULTIPLIED_POWER:
        return None
    result = a
    for _ in range(n - 1):
        result = apply_operation(Scalar.MUL, result, a)
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
        in_range = logical_and(
            apply_operation(Scalar.LT, b, number_like(width, b)),
            apply_operation(Scalar.GE, b, number_like(0, b)),
        )
        y = apply_operation(operation, a, where(in_range, b, number_like(0, b)))
        overflow = number_like(0, a)
        if operation is Scalar.SHR and a.type.signed:
            overflow = apply_operation(Scalar.SHR, a, number_like(width - 1, a))
        return where(in_range, y, overflow)

    return shift


def _hypot(a: Node, b: Node) -> Node:
    a, b = apply_operation(Scalar.ABS, a), apply_operation(Scalar.ABS, b)
    large, small = apply_operation(Scalar.MAXIMUM, a, b), apply_operation(Scalar.MINIMUM, a, b)
    ratio = apply_operation(Scalar.DIV, small, large)
    root = apply_operation(
        Scalar.SQRT,
        apply_operation(Scalar.ADD, apply_operation(Scalar.MUL, ratio, ratio), number_like(1, a)),
    )
    result = apply_operation(Scalar.MUL, large, root)
    # If both are zero or infinite, their ratio is NaN; infinity wins over NaN.
    result = where(
        apply_operation(Scalar.EQ, small, large),
        apply_operation(Scalar.MUL, large, number_like(math.sqrt(2), a)),
        result,
    )
    infinite = logical_or(_isinf(a), _isinf(b))
    return where(infinite, number_like(math.inf, result), result)


def _log_sum(exp: Scalar, log: Scalar | None) -> Callable[[Node, Node], Node]:
    def log_sum(a: Node, b: Node) -> Node:
        larger = apply_operation(Scalar.MAXIMUM, a, b)
        gap = apply_operation(
            Scalar.NEG, apply_operation(Scalar.ABS, apply_operation(Scalar.SUB, a, b))
        )
        extra = apply_operation(Scalar.LOG1P, apply_operation(exp, gap))
        log_two = math.log(2) if log is None else 1
        if log is not None:
            extra = apply_operation(Scalar.MUL, extra, number_like(1 / math.log(2), extra))
        same = apply_operation(Scalar.EQ, a, b)
        return where(same, apply_operation(Scalar.ADD, larger, number_like(log_two, larger)),
                     apply_operation(Scalar.ADD, larger, extra))

    return log_sum


def _build_xlogy(log: Scalar) -> Callable[[Node, Node], Node]:
    def xlogy(a: Node, b: Node) -> Node:
        y = apply_operation(Scalar.MUL, a, apply_operation(log, b))
        skip = logical_and(apply_operation(Scalar.EQ, a, number_like(0, a)), _not(isnan(b)))
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
