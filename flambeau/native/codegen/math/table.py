"""The table of functions; the C library's for types without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from ...loop_ir.ir import Scalar, Type
from ..llvm.builder import Builder
from ..llvm.libm_calls import call_per_lane
from . import double
from .error import erf32, erf64, erfc32
from .exponential import exp2_32, exp32, exp64_exact, expm1_32
from .hyperbolic import acosh32, asinh32, atanh32, cosh32, sinh32, tanh32
from .logarithm import log10_32, log1p_32, log2_32, log32
from .power import pow32
from .remainder import rem32
from .trigonometric import acos32, asin32, atan2_32, atan32, cos32, sin32, tan32
from .vector_formulas import Lanes

FLOAT32_FUNCTIONS: dict[Scalar, Callable[..., ir.Value]] = {
    Scalar.EXP: exp32, Scalar.EXP2: exp2_32, Scalar.EXPM1: expm1_32, Scalar.LOG: log32,
    Scalar.LOG2: log2_32, Scalar.LOG10: log10_32, Scalar.LOG1P: log1p_32, Scalar.TANH: tanh32,
    Scalar.SINH: sinh32, Scalar.COSH: cosh32, Scalar.ASINH: asinh32, Scalar.ACOSH: acosh32,
    Scalar.ATANH: atanh32, Scalar.SIN: sin32, Scalar.COS: cos32, Scalar.TAN: tan32,
    Scalar.ASIN: asin32, Scalar.ACOS: acos32, Scalar.ATAN: atan32, Scalar.ATAN2: atan2_32,
    Scalar.ERF: erf32, Scalar.ERFC: erfc32, Scalar.POW: pow32, Scalar.REM: rem32,
}
FLOAT64_FUNCTIONS: dict[Scalar, Callable[..., ir.Value]] = {
    Scalar.EXP: exp64_exact, Scalar.EXP2: double.exp2, Scalar.EXPM1: double.expm1,
    Scalar.LOG: double.log, Scalar.LOG2: double.log2, Scalar.LOG10: double.log10,
    Scalar.LOG1P: double.log1p, Scalar.TANH: double.tanh, Scalar.SINH: double.sinh,
    Scalar.COSH: double.cosh, Scalar.SIN: double.sin, Scalar.COS: double.cos,
    Scalar.TAN: double.tan, Scalar.ASIN: double.asin, Scalar.ACOS: double.acos,
    Scalar.ATAN: double.atan, Scalar.ATAN2: double.atan2, Scalar.ERF: erf64,
}


def emit_function(
    b: Builder, operation: Scalar, values: Sequence[ir.Value], type: Type, lanes: int
) -> ir.Value:
    """Apply a function to operands of one floating type and lane count."""
    is_double = type is Type.F64 and not b.module.exact
    table = FLOAT32_FUNCTIONS if type is Type.F32 else FLOAT64_FUNCTIONS if is_double else {}
    formula = table.get(operation)
    if formula is not None:
        return formula(Lanes(b, type, lanes), *values)
    name = "fmod" if operation is Scalar.REM else operation.name.lower()
    return call_per_lane(b, name + ("f" if type is Type.F32 else ""), values, lanes)
