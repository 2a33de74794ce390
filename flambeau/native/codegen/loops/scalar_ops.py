"""LLVM instructions for scalar operations, on scalars or vectors of lanes.

Transcendental functions are in codegen/math.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from ...loop_ir.ir import ReduceOp, Scalar, Type
from ..llvm.builder import REGISTER, Builder, constant, vector
from ..llvm.byte_products import dot_bytes
from .reductions import combine

COMPARISONS = {
    Scalar.EQ: "==", Scalar.NE: "!=", Scalar.LT: "<", Scalar.LE: "<=", Scalar.GT: ">",
    Scalar.GE: ">=",
}
INTRINSICS = {
    Scalar.SQRT: "sqrt", Scalar.FLOOR: "floor", Scalar.CEIL: "ceil", Scalar.TRUNC: "trunc",
    Scalar.ROUND: "roundeven", Scalar.COPYSIGN: "copysign", Scalar.FMA: "fma",
}
Values = Sequence[ir.Value]


def emit_operation(
    b: Builder, operation: Scalar, values: Values, type: Type, lanes: int
) -> ir.Value:
    """Emit an operation on operands of one type and `lanes` lanes.

    Raises NotImplementedError for an operation that the type does not have.
    """
    if operation in COMPARISONS:
        return _compare(b, COMPARISONS[operation], values, type)
    if operation is Scalar.WHERE:
        return b.select(*values)
    if type.floating:
        if operation in INTRINSICS:
            return b.intrinsic(INTRINSICS[operation], values[0].type, values)
        rule = FLOAT_EMITTERS.get(operation)
        return rule(b, values, type) if rule else _function(b, operation, values, type, lanes)
    rule = INTEGER_EMITTERS.get(operation)
    if rule is None:
        raise NotImplementedError(f"no {operation.name} on {type.value} in a kernel")
    return rule(b, values, type, lanes)


def _compare(b: Builder, sign: str, values: Values, type: Type) -> ir.Value:
    if type.floating:
        return (b.fcmp_unordered if sign == "!=" else b.fcmp_ordered)(sign, *values)
    return (b.icmp_signed if type.signed else b.icmp_unsigned)(sign, *values)


def _function(b: Builder, operation: Scalar, values: Values, type: Type, lanes: int) -> ir.Value:
    """Emit a function that expands to a sequence of instructions, such as exp."""
    from ..math import table

    return table.emit_function(b, operation, values, type, lanes)


FLOAT_EMITTERS: dict[Scalar, Callable[..., ir.Value]] = {
    Scalar.ADD: lambda b, v, t: b.fadd(*v, flags=b.contract),
    Scalar.SUB: lambda b, v, t: b.fsub(*v, flags=b.contract),
    Scalar.MUL: lambda b, v, t: b.fmul(*v, flags=b.contract),
    Scalar.DIV: lambda b, v, t: b.fdiv(*v),
    Scalar.NEG: lambda b, v, t: b.fneg(*v),
    Scalar.ABS: lambda b, v, t: b.intrinsic("fabs", v[0].type, v),
    Scalar.MAXIMUM: lambda b, v, t: combine(b, ReduceOp.MAXIMUM, t, *v),
    Scalar.MINIMUM: lambda b, v, t: combine(b, ReduceOp.MINIMUM, t, *v),
}

# ------------------------------------------------------------------------------- integers


def _negate(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    return b.sub(b.splat(constant(type, 0), lanes), v[0])


def _abs(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    if not type.signed:
        return v[0]
    return b.intrinsic("abs", v[0].type, (v[0], ir.Constant(ir.IntType(1), 0)))


def _not(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    return b.xor(v[0], b.splat(constant(type, 1 if type is Type.BOOL else -1), lanes))


def _shift(b: Builder, v: Values, type: Type, lanes: int, right: bool) -> ir.Value:
    """Emit a shift. Counts of at least the bit width give 0 (or copies of the sign)."""
    bits = 8 * type.size
    within = b.icmp_unsigned("<", v[1], b.splat(constant(type, bits), lanes))
    if right and type.signed:
        return b.ashr(v[0], b.select(within, v[1], b.splat(constant(type, bits - 1), lanes)))
    safe = b.select(within, v[1], b.splat(constant(type, 0), lanes))
    shifted = (b.lshr if right else b.shl)(v[0], safe)
    return b.select(within, shifted, b.splat(constant(type, 0), lanes))


def _divide(
    b: Builder, v: Values, type: Type, lanes: int, remainder: bool = False
) -> ir.Value:
    """Emit integer division toward zero. Division by 0 gives 0, with the dividend as remainder."""
    zero, unit = b.splat(constant(type, 0), lanes), b.splat(constant(type, 1), lanes)
    nought = b.icmp_unsigned("==", v[1], zero)
    unsafe = nought
    if type.signed:  # the least number by -1 traps
        minus = b.icmp_signed("==", v[1], b.splat(constant(type, -1), lanes))
        unsafe = b.or_(nought, minus)
    quotient = _divide_rounding_to_zero(b, v[0], b.select(unsafe, unit, v[1]), type, lanes)
    if type.signed:
        quotient = b.select(minus, b.sub(zero, v[0]), quotient)
    quotient = b.select(nought, zero, quotient)
    return b.sub(v[0], b.mul(quotient, v[1])) if remainder else quotient


def _divide_rounding_to_zero(
    b: Builder, x: ir.Value, y: ir.Value, type: Type, lanes: int
) -> ir.Value:
    if lanes > 1 and type.size <= 4 and not isinstance(y, ir.Constant):
        # LLVM has no vector division of integers; dividing as doubles is exact here.
        double = vector(REGISTER[Type.F64], lanes)
        convert = b.sitofp if type.signed else b.uitofp
        ratio = b.fdiv(convert(x, double), convert(y, double))
        return (b.fptosi if type.signed else b.fptoui)(ratio, x.type)
    return (b.sdiv if type.signed else b.udiv)(x, y)


def _philox(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    from ..math.philox import philox

    return philox(b, v, type, lanes)


def _philox_word(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    from ..math.philox import philox_word

    return philox_word(b, v, type, lanes)


def _dot_bytes(b: Builder, v: Values, lanes: int) -> ir.Value:
    return dot_bytes(b, v[0], v[1], b.splat(constant(Type.I32, 0), lanes))


INTEGER_EMITTERS: dict[Scalar, Callable[..., ir.Value]] = {
    Scalar.ADD: lambda b, v, t, n: b.add(*v),
    Scalar.SUB: lambda b, v, t, n: b.sub(*v),
    Scalar.MUL: lambda b, v, t, n: b.mul(*v),
    Scalar.FMA: lambda b, v, t, n: b.add(b.mul(v[0], v[1]), v[2]),
    Scalar.DIV: _divide,
    Scalar.REM: lambda b, v, t, n: _divide(b, v, t, n, remainder=True),
    Scalar.NEG: _negate,
    Scalar.ABS: _abs,
    Scalar.MAXIMUM: lambda b, v, t, n: combine(b, ReduceOp.MAXIMUM, t, *v),
    Scalar.MINIMUM: lambda b, v, t, n: combine(b, ReduceOp.MINIMUM, t, *v),
    Scalar.AND: lambda b, v, t, n: b.and_(*v),
    Scalar.OR: lambda b, v, t, n: b.or_(*v),
    Scalar.XOR: lambda b, v, t, n: b.xor(*v),
    Scalar.NOT: _not,
    Scalar.PHILOX: _philox, Scalar.PHILOX_WORD: _philox_word,
    Scalar.DOT_BYTES: lambda b, v, t, n: _dot_bytes(b, v, n),
    Scalar.DOT_LOW_BYTES: lambda b, v, t, n: _dot_bytes(b, v, n),
    Scalar.SHL: lambda b, v, t, n: _shift(b, v, t, n, right=False),
    Scalar.SHR: lambda b, v, t, n: _shift(b, v, t, n, right=True),
    Scalar.FLOOR: lambda b, v, t, n: v[0],
    Scalar.CEIL: lambda b, v, t, n: v[0],
    Scalar.TRUNC: lambda b, v, t, n: v[0],
    Scalar.ROUND: lambda b, v, t, n: v[0],
}
