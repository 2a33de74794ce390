"""Value: an expression that a kernel computes at one element, with NumPy's operators.

A formula on arrays (`x * np.exp(-x)`) called with Values builds the loop IR expression; NumPy
functions without a counterpart raise NotImplementedError.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .ir import Apply, Constant, Expression, Scalar, Type

HALVES = (Type.F16, Type.BF16)


def compute_type(type: Type) -> Type:
    """Return the type in which values stored as `type` are computed."""
    return Type.F32 if type in HALVES else type


class Value:
    """An expression with NumPy's operators. Half precision computes in F32."""

    __slots__ = ("expression",)
    tangent: Value | None = None  # see Dual
    ndim = 0  # so that formulas do not use `out=`
    size = 1
    shape = ()

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    @property
    def type(self) -> Type:
        """The type of its elements."""
        return self.expression.type

    @property
    def dtype(self) -> np.dtype:
        """The dtype of its elements."""
        return np.dtype(self.type.value)

    def astype(self, dtype: Any, copy: bool = True) -> Value:
        """Convert to another dtype."""
        return self.cast(Type(np.dtype(dtype).name))

    def cast(self, type: Type) -> Value:
        """Convert to another type."""
        if type is self.type:
            return self
        return Value(Apply(Scalar.CAST, (self.expression,), type))

    def copy(self) -> Value:
        """The same, as a body's result that is its input."""
        return self

    def erf(self) -> Value:
        """The error function."""
        return apply(Scalar.ERF, self)

    def erfc(self) -> Value:
        """1 minus the error function."""
        return apply(Scalar.ERFC, self)

    def chosen(self, a: Any, b: Any) -> Value:
        """Return a where this BOOL holds, else b."""
        return where(self, a, b)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Value:
        if method != "__call__" or any(v is not None for v in options.values()):
            raise NotImplementedError(f"{ufunc.__name__} {method} {sorted(options)}")
        if ufunc.__name__ not in UFUNCS:
            raise NotImplementedError(ufunc.__name__)
        return _apply_ufunc(ufunc.__name__, *inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Value:
        if function is np.where and len(args) == 3 and not kwargs:
            return where(*args)
        raise NotImplementedError(f"numpy.{function.__name__}")

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("the value of an element is not known")

    __bool__ = __float__ = __int__ = __index__ = __iter__ = __len__ = __array__ = _refuse
    __getitem__ = __setitem__ = _refuse

    # ------------------------------------------------------------------ operators

    def __add__(self, other: Any) -> Value:
        return _apply_ufunc("add", self, other)

    def __radd__(self, other: Any) -> Value:
        return _apply_ufunc("add", other, self)

    def __sub__(self, other: Any) -> Value:
        return _apply_ufunc("subtract", self, other)

    def __rsub__(self, other: Any) -> Value:
        return _apply_ufunc("subtract", other, self)

    def __mul__(self, other: Any) -> Value:
        return _apply_ufunc("multiply", self, other)

    def __rmul__(self, other: Any) -> Value:
        return _apply_ufunc("multiply", other, self)

    def __truediv__(self, other: Any) -> Value:
        return _apply_ufunc("divide", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return _apply_ufunc("divide", other, self)

    def __pow__(self, other: Any) -> Value:
        return _apply_ufunc("power", self, other)

    def __rpow__(self, other: Any) -> Value:
        return _apply_ufunc("power", other, self)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return _apply_ufunc("equal", self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return _apply_ufunc("not_equal", self, other)

    def __lt__(self, other: Any) -> Value:
        return _apply_ufunc("less", self, other)

    def __le__(self, other: Any) -> Value:
        return _apply_ufunc("less_equal", self, other)

    def __gt__(self, other: Any) -> Value:
        return _apply_ufunc("greater", self, other)

    def __ge__(self, other: Any) -> Value:
        return _apply_ufunc("greater_equal", self, other)

    def __and__(self, other: Any) -> Value:
        return _apply_ufunc("bitwise_and", self, other)

    def __or__(self, other: Any) -> Value:
        return _apply_ufunc("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Value:
        return _apply_ufunc("bitwise_xor", self, other)

    def __neg__(self) -> Value:
        return _apply_ufunc("negative", self)

    def __abs__(self) -> Value:
        return _apply_ufunc("absolute", self)

    def __pos__(self) -> Value:
        return _apply_ufunc("positive", self)

    def __invert__(self) -> Value:
        return _apply_ufunc("invert", self)

    __hash__ = object.__hash__


class Dual(Value):
    """A value with its tangent, which operations push to their results."""

    __slots__ = ("tangent",)

    def __init__(self, value: Value, tangent: Value) -> None:
        super().__init__(value.expression)
        self.tangent = tangent

    def cast(self, type: Type) -> Value:
        """Convert the value and its tangent to another type."""
        assert self.tangent is not None
        return self if type is self.type else Dual(super().cast(type), self.tangent.cast(type))


def _push(
    operation: Scalar, values: list[Value], tangents: list[Value | None], y: Value
) -> Dual:
    """Return the result of an operation with its tangent."""
    if operation not in _DERIVATIVES:
        raise NotImplementedError(f"the tangent of {operation.name}")
    plain = [Value(v.expression) for v in values]
    terms = [_DERIVATIVES[operation][i](t, y, *plain)
             for i, t in enumerate(tangents) if t is not None]
    return Dual(y, functools.reduce(operator.add, terms))


# The tangent of a result, for each operand: from the operand's tangent, the result, the operands.
_DERIVATIVES: dict[Scalar, tuple[Callable[..., Value], ...]] = {
    Scalar.ADD: (lambda t, y, a, b: t, lambda t, y, a, b: t),
    Scalar.SUB: (lambda t, y, a, b: t, lambda t, y, a, b: -t),
    Scalar.MUL: (lambda t, y, a, b: t * b, lambda t, y, a, b: a * t),
    Scalar.DIV: (lambda t, y, a, b: t / b, lambda t, y, a, b: -(y / b) * t),
    Scalar.NEG: (lambda t, y, a: -t,),
    Scalar.SQRT: (lambda t, y, a: t / (y + y),),
    Scalar.EXP: (lambda t, y, a: t * y,),
    Scalar.LOG: (lambda t, y, a: t / a,),
    Scalar.TANH: (lambda t, y, a: t * (1 - y * y),),
    Scalar.MAXIMUM: (lambda t, y, a, b: where(a >= b, t, 0), lambda t, y, a, b: where(b > a, t, 0)),
}


def _apply_ufunc(ufunc: str, *operands: Any) -> Value:
    return UFUNCS[ufunc](*unify_types(*operands))


class VaryingNumber(Value):
    """A number that changes from call to call. It equals no constant, so that bodies take none of
    the shortcuts that they have for some numbers."""

    __slots__ = ()
    __hash__ = Value.__hash__

    def __eq__(self, other: object) -> Any:
        return False if isinstance(other, (int, float)) else super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        return True if isinstance(other, (int, float)) else super().__ne__(other)


def constant(number: Any, type: Type) -> Value:
    """Return a number as a Value."""
    return Value(Constant(type, number))


def unify_types(*operands: Any) -> list[Value]:
    """Return values and numbers as Values of one common type."""
    values = [v for v in operands if isinstance(v, Value)]
    numbers = [v for v in values if v.type is not Type.BOOL] or values
    types = {v.type for v in numbers}
    if len(types) != 1:
        raise NotImplementedError(f"operands of {sorted(t.value for t in types)}")
    type = types.pop()
    operands_unified = []
    for operand in operands:
        if isinstance(operand, Value):
            operands_unified.append(operand.cast(type))
        elif isinstance(operand, (bool, int, float, np.generic)) or (
            isinstance(operand, np.ndarray) and not operand.ndim
        ):
            if type is Type.BOOL and not isinstance(operand, (bool, np.bool_)):
                raise NotImplementedError("a bool with a number")
            if not type.floating and isinstance(operand, (float, np.floating)):
                raise NotImplementedError(f"{operand} with a {type.value}")
            operands_unified.append(
                constant(operand.item() if hasattr(operand, "item") else operand, type)
            )
        else:
            raise NotImplementedError(f"an operand of {operand.__class__.__name__}")
    return operands_unified


def apply(operation: Scalar, *operands: Any) -> Value:
    """Apply an operation to values and numbers of one type; the result has that type."""
    values = unify_types(*operands)
    y = Value(Apply(operation, tuple(v.expression for v in values), values[0].type))
    tangents = [v.tangent for v in values]
    return y if all(t is None for t in tangents) else _push(operation, values, tangents, y)


def compare(operation: Scalar, a: Any, b: Any) -> Value:
    """Compare two values; the result is BOOL."""
    values = unify_types(a, b)
    return Value(Apply(operation, tuple(v.expression for v in values), Type.BOOL))


def where(condition: Value, a: Any, b: Any) -> Value:
    """Return a where a BOOL holds, else b."""
    x, y = unify_types(a, b)
    branches = (condition.expression, x.expression, y.expression)
    return Value(Apply(Scalar.WHERE, branches, x.type))


_INTEGER_OPERATIONS = frozenset((
    Scalar.ADD, Scalar.SUB, Scalar.MUL, Scalar.NEG, Scalar.ABS, Scalar.FLOOR, Scalar.CEIL,
    Scalar.TRUNC, Scalar.ROUND, Scalar.MAXIMUM, Scalar.MINIMUM,
))


def _build_operation(operation: Scalar) -> Callable[..., Value]:
    def formula(*operands: Value) -> Value:
        if all(v.type is Type.BOOL for v in operands):
            raise NotImplementedError(f"{operation.name} of bools, which NumPy takes for numbers")
        if operation not in _INTEGER_OPERATIONS and not operands[0].type.floating:
            raise NotImplementedError(f"{operation.name} of {operands[0].type.value}")
        return apply(operation, *operands)

    return formula


def _build_extreme(operation: Scalar) -> Callable[..., Value]:
    """A maximum or minimum; of 0.0 and -0.0 NumPy takes the second, the operation the first."""
    extreme = _build_operation(operation)
    return lambda a, b: extreme(b, a)


def _build_comparison(operation: Scalar) -> Callable[..., Value]:
    return lambda a, b: compare(operation, a, b)


def _build_logical(operation: Scalar) -> Callable[..., Value]:
    def formula(*operands: Value) -> Value:
        """Apply the operation; nonzero numbers count as true."""
        return apply(operation, *[
            v if v.type is Type.BOOL else compare(Scalar.NE, v, 0) for v in operands
        ])

    return formula


def _build_bitwise(operation: Scalar) -> Callable[..., Value]:
    def formula(*operands: Value) -> Value:
        if any(v.type.floating for v in operands):
            raise NotImplementedError(f"the bits of {operands[0].type.value}")
        return apply(operation, *operands)

    return formula


def _as_floating(a: Value) -> None:
    if not a.type.floating:
        raise NotImplementedError(f"division of {a.type.value}, whose divisor may be 0")


def _divide(a: Value, b: Value) -> Value:
    _as_floating(a)
    return apply(Scalar.DIV, a, b)


def _fmod(a: Value, b: Value) -> Value:
    _as_floating(a)
    return apply(Scalar.REM, a, b)


def _floor_divide(a: Value, b: Value) -> Value:
    """NumPy's floor division, which C lacks: by the remainder, so that the quotient is exact."""
    rest = _fmod(a, b)
    quotient = (a - rest) / b
    below = (rest != 0) & ((b < 0) ^ (rest < 0))
    quotient = where(below, quotient - 1, quotient)
    down = apply(Scalar.FLOOR, quotient)
    down = where(quotient - down > 0.5, down + 1, down)
    down = where(quotient != 0, down, apply(Scalar.COPYSIGN, constant(0, a.type), a / b))
    return where(b != 0, down, a / b)


def _hypot(a: Value, b: Value) -> Value:
    """sqrt(a^2 + b^2) without overflow or underflow: float32 in float64, float64 by a ratio."""
    x, y = (abs(v).cast(Type.F64) for v in (a, b))
    endless = (x == math.inf) | (y == math.inf)
    if a.type is Type.F32:
        size = apply(Scalar.SQRT, x * x + y * y)
    else:
        great, small = where(x < y, y, x), where(x < y, x, y)
        ratio = small / where(great == 0, 1, great)
        size = great * apply(Scalar.SQRT, 1 + ratio * ratio)
    return where(endless, math.inf, size).cast(a.type)


def _test_not_nan(a: Value) -> Value:
    return compare(Scalar.EQ, a, a)


def _sign(a: Value) -> Value:
    zero = constant(0, a.type)  # of either sign
    sign = where(compare(Scalar.GT, a, 0), 1, where(compare(Scalar.LT, a, 0), -1, zero))
    return where(_test_not_nan(a), sign, a)


def _power(a: Value, b: Value) -> Value:
    number = b.expression.value if isinstance(b.expression, Constant) else None
    if number == 2:
        return a * a
    if number == 3:
        return a * a * a
    if number == 0.5:
        return apply(Scalar.SQRT, a)
    return apply(Scalar.POW, a, b)


UFUNCS: dict[str, Callable[..., Value]] = {
    name: _build_operation(operation) for name, operation in {
        "add": Scalar.ADD, "subtract": Scalar.SUB, "multiply": Scalar.MUL,
        "negative": Scalar.NEG, "absolute": Scalar.ABS, "fabs": Scalar.ABS, "sqrt": Scalar.SQRT,
        "exp": Scalar.EXP, "exp2": Scalar.EXP2, "expm1": Scalar.EXPM1, "log": Scalar.LOG,
        "log2": Scalar.LOG2, "log10": Scalar.LOG10, "log1p": Scalar.LOG1P, "sin": Scalar.SIN,
        "cos": Scalar.COS, "tan": Scalar.TAN, "arcsin": Scalar.ASIN, "arccos": Scalar.ACOS,
        "arctan": Scalar.ATAN, "sinh": Scalar.SINH, "cosh": Scalar.COSH, "tanh": Scalar.TANH,
        "arcsinh": Scalar.ASINH, "arccosh": Scalar.ACOSH, "arctanh": Scalar.ATANH,
        "floor": Scalar.FLOOR, "ceil": Scalar.CEIL, "trunc": Scalar.TRUNC, "rint": Scalar.ROUND,
        "copysign": Scalar.COPYSIGN, "arctan2": Scalar.ATAN2,
    }.items()
}
UFUNCS |= {
    name: _build_extreme(operation)
    for name, operation in {"maximum": Scalar.MAXIMUM, "minimum": Scalar.MINIMUM}.items()
}
UFUNCS |= {
    name: _build_comparison(operation) for name, operation in {
        "equal": Scalar.EQ, "not_equal": Scalar.NE, "less": Scalar.LT, "less_equal": Scalar.LE,
        "greater": Scalar.GT, "greater_equal": Scalar.GE,
    }.items()
}
UFUNCS |= {
    name: _build_logical(operation) for name, operation in {
        "logical_and": Scalar.AND, "logical_or": Scalar.OR, "logical_xor": Scalar.XOR,
        "logical_not": Scalar.NOT,
    }.items()
}
UFUNCS |= {
    name: _build_bitwise(operation) for name, operation in {
        "bitwise_and": Scalar.AND, "bitwise_or": Scalar.OR, "bitwise_xor": Scalar.XOR,
        "invert": Scalar.NOT, "left_shift": Scalar.SHL, "right_shift": Scalar.SHR,
    }.items()
}
UFUNCS |= {
    "square": lambda a: a * a, "positive": lambda a: a, "reciprocal": lambda a: 1 / a,
    "sign": _sign, "power": _power, "divide": _divide, "fmod": _fmod, "hypot": _hypot,
    "floor_divide": _floor_divide,
    "isnan": lambda a: compare(Scalar.NE, a, a),
    "isinf": lambda a: compare(Scalar.EQ, abs(a), math.inf),
    "isfinite": lambda a: compare(Scalar.LT, abs(a), math.inf),
}
