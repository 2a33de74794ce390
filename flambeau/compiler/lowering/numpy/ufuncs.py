"""NumPy's ufuncs as scalar operations, on nodes that have one type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....native.loop_ir.ir import ReduceOp, Scalar, Type
from ...ir.graph import Node, Op
from .node_builders import applied, bits, cast, number, where
from ..registry import refuse

_INTEGERS_OF = {4: Type.I32, 8: Type.I64}


def of(value: Any, like: Node) -> Node:
    """A number of a node's type and rank."""
    return number(value, like.type, len(like.shape))


def _not(a: Node) -> Node:
    return applied(Scalar.NOT, a)


def either(a: Node, b: Node) -> Node:
    """Logical or."""
    return applied(Scalar.OR, a, b)


def both(a: Node, b: Node) -> Node:
    """Logical and."""
    return applied(Scalar.AND, a, b)


# ------------------------------------------------------------------------------- one operand


def _absolute(a: Node) -> Node:
    return a if not a.type.floating and not a.type.signed else applied(Scalar.ABS, a)


def _rounding(operation: Scalar) -> Callable[[Node], Node]:
    return lambda a: applied(operation, a) if a.type.floating else a


def _sign(a: Node) -> Node:
    zero = of(0, a)
    above = cast(applied(Scalar.GT, a, zero), a.type)
    if not a.type.floating and not a.type.signed:
        return above
    made = applied(Scalar.SUB, above, cast(applied(Scalar.LT, a, zero), a.type))
    return where(isnan(a), a, made) if a.type.floating else made


def isnan(a: Node) -> Node:
    """Whether elements are NaN."""
    return applied(Scalar.NE, a, a) if a.type.floating else applied(Scalar.NE, _plain(a), _plain(a))


def _plain(a: Node) -> Node:
    return cast(a, Type.U8) if a.type is Type.BOOL else a


def _isinf(a: Node) -> Node:
    return applied(Scalar.EQ, applied(Scalar.ABS, a), of(math.inf, a))


def _isfinite(a: Node) -> Node:
    return applied(Scalar.LT, applied(Scalar.ABS, a), of(math.inf, a))


def _signbit(a: Node) -> Node:
    if not a.type.floating:
        return applied(Scalar.LT, a, of(0, a))
    read = bits(a, _INTEGERS_OF[a.type.size])
    return applied(Scalar.LT, read, of(0, read))


def _times(factor: float) -> Callable[[Node], Node]:
    return lambda a: applied(Scalar.MUL, a, of(factor, a))


def _truth(a: Node) -> Node:
    return a if a.type is Type.BOOL else applied(Scalar.NE, a, of(0, a))


def _logical_not(a: Node) -> Node:
    return _not(a) if a.type is Type.BOOL else applied(Scalar.EQ, a, of(0, a))


def _simple(operation: Scalar) -> Callable[..., Node]:
    return lambda *nodes: applied(operation, *nodes)


UNARY: dict[str, Callable[[Node], Node]] = {
    name: _simple(operation) for name, operation in {
        "negative": Scalar.NEG, "sqrt": Scalar.SQRT, "exp": Scalar.EXP, "exp2": Scalar.EXP2,
        "expm1": Scalar.EXPM1, "log": Scalar.LOG, "log2": Scalar.LOG2, "log10": Scalar.LOG10,
        "log1p": Scalar.LOG1P, "sin": Scalar.SIN, "cos": Scalar.COS, "tan": Scalar.TAN,
        "arcsin": Scalar.ASIN, "arccos": Scalar.ACOS, "arctan": Scalar.ATAN,
        "sinh": Scalar.SINH, "cosh": Scalar.COSH, "tanh": Scalar.TANH, "arcsinh": Scalar.ASINH,
        "arccosh": Scalar.ACOSH, "arctanh": Scalar.ATANH, "invert": Scalar.NOT,
    }.items()
}  # fmt: skip
UNARY |= {
    "absolute": _absolute, "fabs": _absolute, "floor": _rounding(Scalar.FLOOR),
    "ceil": _rounding(Scalar.CEIL), "trunc": _rounding(Scalar.TRUNC),
    "rint": _rounding(Scalar.ROUND), "sign": _sign, "isnan": isnan, "isinf": _isinf,
    "isfinite": _isfinite, "signbit": _signbit, "logical_not": _logical_not,
    "square": lambda a: applied(Scalar.MUL, a, a), "positive": lambda a: a,
    "conjugate": lambda a: a, "deg2rad": _times(math.pi / 180), "radians": _times(math.pi / 180),
    "rad2deg": _times(180 / math.pi), "degrees": _times(180 / math.pi),
    "reciprocal": lambda a: applied(Scalar.DIV, of(1, a), a),
}  # fmt: skip


# ------------------------------------------------------------------------------- two operands


def _on_bools(operation: Scalar, logical: Scalar) -> Callable[[Node, Node], Node]:
    return lambda a, b: applied(logical if a.type is Type.BOOL else operation, a, b)


def _compared(operation: Scalar) -> Callable[[Node, Node], Node]:
    return lambda a, b: applied(operation, _plain(a), _plain(b))


def _logical(operation: Scalar) -> Callable[[Node, Node], Node]:
    return lambda a, b: applied(operation, _truth(a), _truth(b))


def _apart(remainder: Node, b: Node) -> Node:
    """Where a remainder is not zero and has not the divisor's sign."""
    zero = of(0, remainder)
    signs = applied(Scalar.XOR, applied(Scalar.LT, remainder, zero),
                    applied(Scalar.LT, b, of(0, b)))  # fmt: skip
    return both(applied(Scalar.NE, remainder, zero), signs)


def _floor_divide(a: Node, b: Node) -> Node:
    rest = applied(Scalar.REM, a, b)
    if not a.type.floating:
        made = applied(Scalar.DIV, a, b)
        if not a.type.signed:
            return made
        return applied(Scalar.SUB, made, cast(_apart(rest, b), a.type))
    quotient = applied(Scalar.DIV, applied(Scalar.SUB, a, rest), b)
    quotient = applied(Scalar.SUB, quotient, cast(_apart(rest, b), a.type))
    down = applied(Scalar.FLOOR, quotient)
    over = applied(Scalar.GT, applied(Scalar.SUB, quotient, down), of(0.5, a))
    made = applied(Scalar.ADD, down, cast(over, a.type))
    plain = applied(Scalar.DIV, a, b)
    made = where(applied(Scalar.EQ, quotient, of(0, a)), applied(Scalar.COPYSIGN, of(0, a), plain),
                 made)  # fmt: skip
    return where(applied(Scalar.EQ, b, of(0, b)), plain, made)


def _remainder(a: Node, b: Node) -> Node:
    rest = applied(Scalar.REM, a, b)
    if not a.type.floating and not a.type.signed:
        return rest
    made = where(_apart(rest, b), applied(Scalar.ADD, rest, b), rest)
    if not a.type.floating:
        return made
    nothing = applied(Scalar.EQ, rest, of(0, rest))
    return where(nothing, applied(Scalar.COPYSIGN, of(0, a), b), made)


_LARGEST_POWER = 8


def _power(a: Node, b: Node) -> Node:
    if b.op is Op.CONSTANT:
        made = _constant_power(a, b)
        if made is not None:
            return made
    if not a.type.floating:
        refuse("powers of integers")
    return applied(Scalar.POW, a, b)


def _constant_power(a: Node, b: Node) -> Node | None:
    """Powers that products and roots make exactly, or nearly so."""
    n = b.value
    if a.type.floating and n == 0.5:
        return applied(Scalar.SQRT, a)
    if a.type.floating and n == -1:
        return applied(Scalar.DIV, of(1, a), a)
    if n != int(n) if math.isfinite(n) else True:
        return None
    n = int(n)
    if n == 2:
        return applied(Scalar.MUL, a, a)
    if n == 3 and a.type.floating:
        return applied(Scalar.MUL, applied(Scalar.MUL, a, a), a)
    if a.type.floating or not 0 < n <= _LARGEST_POWER:
        return None
    made = a
    for _ in range(n - 1):
        made = applied(Scalar.MUL, made, a)
    return made


def _either_number(operation: Scalar) -> Callable[[Node, Node], Node]:
    """An extreme that passes over NaN."""

    def made(a: Node, b: Node) -> Node:
        y = applied(operation, a, b)
        if not a.type.floating:
            return y
        return where(isnan(a), b, where(isnan(b), a, y))

    return made


def _shifted(operation: Scalar) -> Callable[[Node, Node], Node]:
    """Shifts by the width or more leave what is shifted in."""

    def made(a: Node, b: Node) -> Node:
        width = a.type.size * 8
        kept = both(applied(Scalar.LT, b, of(width, b)), applied(Scalar.GE, b, of(0, b)))
        y = applied(operation, a, where(kept, b, of(0, b)))
        gone = of(0, a)
        if operation is Scalar.SHR and a.type.signed:
            gone = applied(Scalar.SHR, a, of(width - 1, a))
        return where(kept, y, gone)

    return made


def _hypot(a: Node, b: Node) -> Node:
    a, b = applied(Scalar.ABS, a), applied(Scalar.ABS, b)
    large, small = applied(Scalar.MAXIMUM, a, b), applied(Scalar.MINIMUM, a, b)
    ratio = applied(Scalar.DIV, small, large)
    root = applied(Scalar.SQRT, applied(Scalar.ADD, applied(Scalar.MUL, ratio, ratio), of(1, a)))
    made = applied(Scalar.MUL, large, root)
    # Zero and infinity have no ratio; an infinity wins over NaN.
    made = where(applied(Scalar.EQ, small, large), applied(Scalar.MUL, large, of(math.sqrt(2), a)),
                 made)  # fmt: skip
    infinite = either(_isinf(a), _isinf(b))
    return where(infinite, of(math.inf, made), made)


def _log_sum(exp: Scalar, log: Scalar | None) -> Callable[[Node, Node], Node]:
    def made(a: Node, b: Node) -> Node:
        larger = applied(Scalar.MAXIMUM, a, b)
        gap = applied(Scalar.NEG, applied(Scalar.ABS, applied(Scalar.SUB, a, b)))
        extra = applied(Scalar.LOG1P, applied(exp, gap))
        one = math.log(2) if log is None else 1
        if log is not None:
            extra = applied(Scalar.MUL, extra, of(1 / math.log(2), extra))
        same = applied(Scalar.EQ, a, b)
        return where(same, applied(Scalar.ADD, larger, of(one, larger)),
                     applied(Scalar.ADD, larger, extra))  # fmt: skip

    return made


def _xlogy(log: Scalar) -> Callable[[Node, Node], Node]:
    def made(a: Node, b: Node) -> Node:
        y = applied(Scalar.MUL, a, applied(log, b))
        skip = both(applied(Scalar.EQ, a, of(0, a)), _not(isnan(b)))
        return where(skip, of(0, y), y)

    return made


BINARY: dict[str, Callable[[Node, Node], Node]] = {
    "add": _on_bools(Scalar.ADD, Scalar.OR), "subtract": _simple(Scalar.SUB),
    "multiply": _on_bools(Scalar.MUL, Scalar.AND), "divide": _simple(Scalar.DIV),
    "true_divide": _simple(Scalar.DIV), "fmod": _simple(Scalar.REM),
    "maximum": _on_bools(Scalar.MAXIMUM, Scalar.OR),
    "minimum": _on_bools(Scalar.MINIMUM, Scalar.AND), "arctan2": _simple(Scalar.ATAN2),
    "copysign": _simple(Scalar.COPYSIGN), "equal": _compared(Scalar.EQ),
    "not_equal": _compared(Scalar.NE), "less": _compared(Scalar.LT),
    "less_equal": _compared(Scalar.LE), "greater": _compared(Scalar.GT),
    "greater_equal": _compared(Scalar.GE), "logical_and": _logical(Scalar.AND),
    "logical_or": _logical(Scalar.OR), "logical_xor": _logical(Scalar.XOR),
    "bitwise_and": _simple(Scalar.AND), "bitwise_or": _simple(Scalar.OR),
    "bitwise_xor": _simple(Scalar.XOR), "floor_divide": _floor_divide, "remainder": _remainder,
    "power": _power, "float_power": _power, "fmax": _either_number(Scalar.MAXIMUM),
    "fmin": _either_number(Scalar.MINIMUM), "left_shift": _shifted(Scalar.SHL),
    "right_shift": _shifted(Scalar.SHR), "hypot": _hypot,
    "logaddexp": _log_sum(Scalar.EXP, None), "logaddexp2": _log_sum(Scalar.EXP2, Scalar.LOG2),
    "xlogy": _xlogy(Scalar.LOG), "xlog1py": _xlogy(Scalar.LOG1P),
}  # fmt: skip

# Folds of ufuncs; those on BOOL are others.
FOLDS = {
    "add": ReduceOp.SUM,
    "multiply": ReduceOp.PRODUCT,
    "maximum": ReduceOp.MAXIMUM,
    "minimum": ReduceOp.MINIMUM,
    "logical_or": ReduceOp.ANY,
    "logical_and": ReduceOp.ALL,
    "bitwise_or": ReduceOp.ANY,
    "bitwise_and": ReduceOp.ALL,
}
ON_BOOLS = {
    ReduceOp.MAXIMUM: ReduceOp.ANY,
    ReduceOp.MINIMUM: ReduceOp.ALL,
    ReduceOp.SUM: ReduceOp.ANY,
    ReduceOp.PRODUCT: ReduceOp.ALL,
}
