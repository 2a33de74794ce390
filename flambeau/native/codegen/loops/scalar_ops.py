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
        emit = FLOAT_EMITTERS.get(operation)
        return emit(b, values, type, lanes) if emit \
            else _emit_function(b, operation, values, type, lanes)
    emit = INTEGER_EMITTERS.get(operation)
    if emit is None:
        raise NotImplementedError(f"no {operation.name} on {type.value} in a kernel")
    return emit(b, values, type, lanes)


def _compare(b: Builder, sign: str, values: Values, type: Type) -> ir.Value:
    if type.floating:
        return (b.fcmp_unordered if sign == "!=" else b.fcmp_ordered)(sign, *values)
    return (b.icmp_signed if type.signed else b.icmp_unsigned)(sign, *values)


def _emit_function(
    b: Builder, operation: Scalar, values: Values, type: Type, lanes: int
) -> ir.Value:
    """Emit a function that expands to a sequence of instructions, such as exp."""
    from ..math import table

    return table.emit_function(b, operation, values, type, lanes)


Emitter = Callable[[Builder, Values, Type, int], ir.Value]  # of operands, their type, the lanes


def _combine(operation: ReduceOp) -> Emitter:
    return lambda b, v, type, lanes: combine(b, operation, type, *v)


def _return_operand(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    return v[0]


FLOAT_EMITTERS: dict[Scalar, Emitter] = {
    Scalar.ADD: lambda b, v, type, lanes: b.fadd(*v, flags=b.contract),
    Scalar.SUB: lambda b, v, type, lanes: b.fsub(*v, flags=b.contract),
    Scalar.MUL: lambda b, v, type, lanes: b.fmul(*v, flags=b.contract),
    Scalar.DIV: lambda b, v, type, lanes: b.fdiv(*v),
    Scalar.NEG: lambda b, v, type, lanes: b.fneg(*v),
    Scalar.ABS: lambda b, v, type, lanes: b.intrinsic("fabs", v[0].type, v),
    Scalar.MAXIMUM: _combine(ReduceOp.MAXIMUM), Scalar.MINIMUM: _combine(ReduceOp.MINIMUM),
}

# ------------------------------------------------------------------------------- integers


def _negate(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    return b.sub(b.splat(constant(type, 0), lanes), v[0])


def _emit_abs(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    if not type.signed:
        return v[0]
    return b.intrinsic("abs", v[0].type, (v[0], ir.Constant(ir.IntType(1), 0)))


def _emit_not(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    return b.xor(v[0], b.splat(constant(type, 1 if type is Type.BOOL else -1), lanes))


def _shift_left(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    return _shift(b, v, type, lanes, right=False)


def _shift_right(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    return _shift(b, v, type, lanes, right=True)


def _shift(b: Builder, v: Values, type: Type, lanes: int, right: bool) -> ir.Value:
    """Emit a shift. Counts of at least the bit width give 0 (or copies of the sign)."""
    bits = 8 * type.size
    within = b.icmp_unsigned("<", v[1], b.splat(constant(type, bits), lanes))
    if right and type.signed:
        return b.ashr(v[0], b.select(within, v[1], b.splat(constant(type, bits - 1), lanes)))
    safe = b.select(within, v[1], b.splat(constant(type, 0), lanes))
    shifted = (b.lshr if right else b.shl)(v[0], safe)
    return b.select(within, shifted, b.splat(constant(type, 0), lanes))


def _divide(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    """Emit integer division toward zero; 0 for a divisor of 0."""
    zero, unit = b.splat(constant(type, 0), lanes), b.splat(constant(type, 1), lanes)
    is_zero = b.icmp_unsigned("==", v[1], zero)
    traps = is_zero
    if type.signed:  # the least number by -1 traps too
        is_minus_1 = b.icmp_signed("==", v[1], b.splat(constant(type, -1), lanes))
        traps = b.or_(is_zero, is_minus_1)
    quotient = _divide_rounding_to_zero(b, v[0], b.select(traps, unit, v[1]), type, lanes)
    if type.signed:
        quotient = b.select(is_minus_1, b.sub(zero, v[0]), quotient)
    return b.select(is_zero, zero, quotient)


def _emit_remainder(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    """Emit the remainder of `_divide`: the dividend for a divisor of 0."""
    return b.sub(v[0], b.mul(_divide(b, v, type, lanes), v[1]))


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


def _emit_philox(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    from ..math.philox import philox

    return philox(b, v, type, lanes)


def _emit_philox_word(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    from ..math.philox import philox_word

    return philox_word(b, v, type, lanes)


def _emit_dot_bytes(b: Builder, v: Values, type: Type, lanes: int) -> ir.Value:
    return dot_bytes(b, v[0], v[1], b.splat(constant(Type.I32, 0), lanes))


INTEGER_EMITTERS: dict[Scalar, Emitter] = {
    Scalar.ADD: lambda b, v, type, lanes: b.add(*v),
    Scalar.SUB: lambda b, v, type, lanes: b.sub(*v),
    Scalar.MUL: lambda b, v, type, lanes: b.mul(*v),
    Scalar.FMA: lambda b, v, type, lanes: b.add(b.mul(v[0], v[1]), v[2]),
    Scalar.DIV: _divide, Scalar.REM: _emit_remainder, Scalar.NEG: _negate, Scalar.ABS: _emit_abs,
    Scalar.MAXIMUM: _combine(ReduceOp.MAXIMUM), Scalar.MINIMUM: _combine(ReduceOp.MINIMUM),
    Scalar.AND: lambda b, v, type, lanes: b.and_(*v),
    Scalar.OR: lambda b, v, type, lanes: b.or_(*v),
    Scalar.XOR: lambda b, v, type, lanes: b.xor(*v),
    Scalar.NOT: _emit_not, Scalar.SHL: _shift_left, Scalar.SHR: _shift_right,
    Scalar.PHILOX: _emit_philox, Scalar.PHILOX_WORD: _emit_philox_word,
    Scalar.DOT_BYTES: _emit_dot_bytes, Scalar.DOT_LOW_BYTES: _emit_dot_bytes,
    Scalar.FLOOR: _return_operand, Scalar.CEIL: _return_operand,
    Scalar.TRUNC: _return_operand, Scalar.ROUND: _return_operand,
}
