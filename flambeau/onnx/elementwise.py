"""ONNX conversions of elementwise operators."""

from __future__ import annotations

import math
from typing import Any

from ..fx.node import Node
from ..tensor.tensor import Tensor
from .conversion_table import CONVERSIONS, converts
from .graph_builder import DTYPES, GraphBuilder, short

_SAME = {
    "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "abs": "Abs",
    "neg": "Neg", "floor": "Floor", "ceil": "Ceil", "erf": "Erf", "sin": "Sin",
    "cos": "Cos", "tan": "Tan", "reciprocal": "Reciprocal", "sign": "Sign",
    "relu": "Relu", "mish": "Mish", "softsign": "Softsign", "isnan": "IsNaN", "isinf": "IsInf",
    "atan": "Atan", "asin": "Asin", "acos": "Acos", "sinh": "Sinh", "cosh": "Cosh",
    "hardswish": "HardSwish", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh",
    "special_erf": "Erf",
}
_ROUNDING = ("floor", "ceil", "round")  # integers are equal to theirs
_ARITHMETIC = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow",
               "minimum": "Min", "maximum": "Max"}
_OF_BOOLS = {"Add": "Or", "Mul": "And", "Min": "And", "Max": "Or"}
_COMPARE = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
            "ge": "GreaterOrEqual"}
_LOGIC = {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_xor": "Xor", "logical_and": "And",
          "logical_or": "Or", "logical_xor": "Xor"}
_SIZES = {"add": "Add", "sub": "Sub", "mul": "Mul", "floordiv": "Div", "mod": "Mod"}


def _same(kind: str) -> Any:
    def convert(b: GraphBuilder, node: Node, x: Any, *rest: Any, **named: Any) -> str:
        if rest or named:
            raise NotImplementedError(f"{node.target} with further arguments")
        result = node.meta["val"]
        if not isinstance(result, Tensor):
            return b.op(kind, b.value(x))
        if kind in ("IsNaN", "IsInf"):
            kind_of_x = b.tensor(x).dtype
            return b.op(kind, b.value(x) if kind_of_x.is_floating_point else
                        b.op("Cast", b.value(x), to=DTYPES["float32"]))
        if kind.lower() in _ROUNDING and not result.dtype.is_floating_point:
            return b.op("Identity", b.value(x))
        if kind == "Relu" and not result.dtype.is_floating_point:
            return b.op("Max", b.value(x), b.value(0, result.dtype))
        return b.op(kind, b.cast(x, result.dtype))

    return convert


for _name, _kind in _SAME.items():
    CONVERSIONS[_name] = _same(_kind)


def _build_arithmetic(kind: str) -> Any:
    def convert(b: GraphBuilder, node: Node, x: Any, y: Any, alpha: Any = 1,
                rounding_mode: Any = None, out: Any = None) -> str:
        dtype = node.meta["val"].dtype
        if short(dtype) == "bool":
            return b.op(_OF_BOOLS[kind], b.cast(x, dtype), b.cast(y, dtype))
        left, right = b.cast(x, dtype), b.cast(y, dtype)
        if alpha != 1:
            right = b.op("Mul", right, b.value(alpha, dtype))
        result = b.op(kind, left, right)
        if rounding_mode is None:
            return result
        if not dtype.is_floating_point:
            return _floor_integers(b, left, right, result, dtype) \
                if rounding_mode == "floor" else result
        return b.op("Floor", result) if rounding_mode == "floor" else _truncate(b, result)

    return convert


def _floor_integers(b: GraphBuilder, x: str, y: str, quotient: str, dtype: Any) -> str:
    """Return x // y from a quotient that was rounded towards zero."""
    zero = b.value(0, dtype)
    rest = b.op("Sub", x, b.op("Mul", quotient, y))
    differs = b.op("Xor", b.op("Less", rest, zero), b.op("Less", y, zero))
    inexact = b.op("Not", b.op("Equal", rest, zero))
    lower = b.op("Cast", b.op("And", inexact, differs), to=DTYPES[short(dtype)])
    return b.op("Sub", quotient, lower)


def _truncate(b: GraphBuilder, value: str) -> str:
    return b.op("Mul", b.op("Sign", value), b.op("Floor", b.op("Abs", value)))


for _name, _kind in _ARITHMETIC.items():
    CONVERSIONS[_name] = _build_arithmetic(_kind)


@converts("trunc", "fix")
def _trunc(b: GraphBuilder, node: Node, x: Any) -> str:
    if not node.meta["val"].dtype.is_floating_point:
        return b.op("Identity", b.value(x))
    return _truncate(b, b.value(x))


@converts("round")
def _round(b: GraphBuilder, node: Node, x: Any, *, decimals: int = 0) -> str:
    dtype = node.meta["val"].dtype
    if not dtype.is_floating_point:
        return b.op("Identity", b.value(x))
    if decimals == 0:
        return b.op("Round", b.value(x))
    factor, kinds = b.value(10.0 ** abs(decimals), dtype), ("Mul", "Div")
    there, back = kinds if decimals > 0 else kinds[::-1]
    return b.op(back, b.op("Round", b.op(there, b.value(x), factor)), factor)


@converts("softplus")
def _softplus(b: GraphBuilder, node: Node, x: Any, beta: Any = 1, threshold: Any = 20) -> str:
    dtype, value = node.meta["val"].dtype, b.cast(x, node.meta["val"].dtype)
    factor = b.value(float(beta), dtype)
    scaled = value if beta == 1 else b.op("Mul", value, factor)
    soft = b.op("Softplus", scaled)
    soft = soft if beta == 1 else b.op("Div", soft, factor)
    return b.op("Where", b.op("Greater", scaled, b.value(float(threshold), dtype)), value, soft)


@converts("fmod")
def _fmod(b: GraphBuilder, node: Node, x: Any, y: Any) -> str:
    dtype = node.meta["val"].dtype
    return b.op("Mod", b.cast(x, dtype), b.cast(y, dtype), fmod=1)


@converts("remainder")
def _remainder(b: GraphBuilder, node: Node, x: Any, y: Any) -> str:
    dtype = node.meta["val"].dtype
    left, right = b.cast(x, dtype), b.cast(y, dtype)
    if not dtype.is_floating_point:
        return b.op("Mod", left, right)
    quotient = b.op("Floor", b.op("Div", left, right))
    return b.op("Sub", left, b.op("Mul", quotient, right))


@converts("rsub")
def _rsub(b: GraphBuilder, node: Node, x: Any, y: Any, alpha: Any = 1) -> str:
    return _build_arithmetic("Sub")(b, node, y, x, alpha)


@converts("floor_divide")
def _floor_divide(b: GraphBuilder, node: Node, x: Any, y: Any) -> str:
    return _build_arithmetic("Div")(b, node, x, y, rounding_mode="floor")


def _find_common_dtype(x: Any, y: Any) -> Any:
    from ..tensor.promotion import result_type

    values = [v.meta["val"] if isinstance(v, Node) else v for v in (x, y)]
    return result_type(*values)


def _build_comparison(kind: str) -> Any:
    def convert(b: GraphBuilder, node: Node, x: Any, y: Any, out: Any = None) -> str:
        dtype = _find_common_dtype(x, y)
        return b.op(kind, b.cast(x, dtype), b.cast(y, dtype))

    return convert


for _name, _kind in _COMPARE.items():
    CONVERSIONS[_name] = _build_comparison(_kind)


@converts("ne")
def _ne(b: GraphBuilder, node: Node, x: Any, y: Any) -> str:
    return b.op("Not", _build_comparison("Equal")(b, node, x, y))


def _build_logic(kind: str) -> Any:
    def convert(b: GraphBuilder, node: Node, x: Any, y: Any) -> str:
        dtype = node.meta["val"].dtype
        name = kind if short(dtype) == "bool" else f"Bitwise{kind}"
        return b.op(name, b.cast(x, dtype), b.cast(y, dtype))

    return convert


for _name, _kind in _LOGIC.items():
    CONVERSIONS[_name] = _build_logic(_kind)


@converts("bitwise_not", "logical_not")
def _not(b: GraphBuilder, node: Node, x: Any) -> str:
    dtype = node.meta["val"].dtype
    return b.op("Not" if short(dtype) == "bool" else "BitwiseNot", b.cast(x, dtype))


@converts("where")
def _where(b: GraphBuilder, node: Node, condition: Any, x: Any, y: Any) -> str:
    dtype = node.meta["val"].dtype
    chosen = b.op("Cast", b.value(condition), to=DTYPES["bool"])
    if short(dtype) != "bool":
        return b.op("Where", chosen, b.cast(x, dtype), b.cast(y, dtype))
    first, second = b.op("And", chosen, b.cast(x, dtype)), b.op("Not", chosen)
    return b.op("Or", first, b.op("And", second, b.cast(y, dtype)))


@converts("masked_fill")
def _masked_fill(b: GraphBuilder, node: Node, x: Any, mask: Any, value: Any) -> str:
    return _where(b, node, mask, value, x)


@converts("clamp", "clip")
def _clamp(b: GraphBuilder, node: Node, x: Any, min: Any = None, max: Any = None) -> str:
    dtype = node.meta["val"].dtype
    value = b.cast(x, dtype)
    if any(isinstance(v, Node) and b.rank(v) for v in (min, max)):
        value = value if min is None else b.op("Max", value, b.cast(min, dtype))
        return value if max is None else b.op("Min", value, b.cast(max, dtype))
    if not dtype.is_floating_point:
        min, max = (v if v is None or isinstance(v, Node) else int(v) for v in (min, max))
    bounds = ["" if v is None else b.cast(v, dtype) for v in (min, max)]
    return b.op("Min", b.op("Max", value, bounds[0]), bounds[1]) if all(bounds) \
        else b.op("Clip", value, *bounds)


@converts("clamp_min")
def _clamp_min(b: GraphBuilder, node: Node, x: Any, min: Any) -> str:
    return _clamp(b, node, x, min, None)


@converts("clamp_max")
def _clamp_max(b: GraphBuilder, node: Node, x: Any, max: Any) -> str:
    return _clamp(b, node, x, None, max)


@converts("hardtanh")
def _hardtanh(b: GraphBuilder, node: Node, x: Any, min_val: Any = -1.0,
              max_val: Any = 1.0) -> str:
    return _clamp(b, node, x, min_val, max_val)


@converts("relu6")
def _relu6(b: GraphBuilder, node: Node, x: Any) -> str:
    return _clamp(b, node, x, 0, 6)


@converts("hardsigmoid")
def _hardsigmoid(b: GraphBuilder, node: Node, x: Any) -> str:
    return b.op("HardSigmoid", b.value(x), alpha=1 / 6, beta=0.5)


@converts("silu")
def _silu(b: GraphBuilder, node: Node, x: Any) -> str:
    return b.op("Mul", b.value(x), b.op("Sigmoid", b.value(x)))


@converts("gelu")
def _gelu(b: GraphBuilder, node: Node, x: Any, approximate: str = "none") -> str:
    dtype = node.meta["val"].dtype
    value, half, single = b.value(x), b.constant(0.5, short(dtype)), b.constant(1.0, short(dtype))
    if approximate == "none":
        inner = b.op("Erf", b.op("Mul", value, b.constant(1 / math.sqrt(2), short(dtype))))
    else:
        cube = b.op("Mul", b.op("Mul", value, value), value)
        cubed = b.op("Mul", cube, b.constant(0.044715, short(dtype)))
        scale = b.constant(math.sqrt(2 / math.pi), short(dtype))
        inner = b.op("Tanh", b.op("Mul", b.op("Add", value, cubed), scale))
    return b.op("Mul", b.op("Mul", value, half), b.op("Add", inner, single))


@converts("leaky_relu")
def _leaky_relu(b: GraphBuilder, node: Node, x: Any, negative_slope: float = 0.01) -> str:
    return b.op("LeakyRelu", b.cast(x, node.meta["val"].dtype), alpha=float(negative_slope))


@converts("elu")
def _elu(b: GraphBuilder, node: Node, x: Any, alpha: float = 1.0, scale: float = 1.0,
         input_scale: float = 1.0) -> str:
    if scale != 1 or input_scale != 1:
        raise NotImplementedError("elu with scales")
    return b.op("Elu", b.value(x), alpha=float(alpha))


@converts("selu")
def _selu(b: GraphBuilder, node: Node, x: Any) -> str:
    return b.op("Selu", b.value(x))


@converts("prelu")
def _prelu(b: GraphBuilder, node: Node, x: Any, weight: Any) -> str:
    slope = b.value(weight)
    if b.rank(x) > 1:
        slope = b.op("Reshape", slope, b.sizes([-1] + [1] * (b.rank(x) - 2)))
    return b.op("PRelu", b.value(x), slope)


@converts("rsqrt")
def _rsqrt(b: GraphBuilder, node: Node, x: Any) -> str:
    return b.op("Reciprocal", b.op("Sqrt", b.cast(x, node.meta["val"].dtype)))


@converts("log1p")
def _log1p(b: GraphBuilder, node: Node, x: Any) -> str:
    single, value = (b.cast(v, node.meta["val"].dtype) for v in (1.0, x))
    return b.op("Log", b.op("Add", value, single))


@converts("expm1")
def _expm1(b: GraphBuilder, node: Node, x: Any) -> str:
    single, value = (b.cast(v, node.meta["val"].dtype) for v in (1.0, x))
    return b.op("Sub", b.op("Exp", value), single)


@converts("to", "type_as", "float", "half", "double", "long", "int", "bool", "_to_copy", "byte",
          "char", "short", "bfloat16")
def _to(b: GraphBuilder, node: Node, x: Any, *args: Any, **kwargs: Any) -> str:
    return b.cast(x, node.meta["val"].dtype) if isinstance(node.meta["val"], Tensor) else b.value(x)


def _of_sizes(kind: str) -> Any:
    def convert(b: GraphBuilder, node: Node, x: Any, y: Any) -> str:
        return b.op(kind, *(b.value(v) if isinstance(v, Node) else b.constant(v, "int64")
                            for v in (x, y)))

    return convert


for _name, _kind in _SIZES.items():
    CONVERSIONS[f"operator.{_name}"] = _of_sizes(_kind)
CONVERSIONS["operator.neg"] = _same("Neg")
for _name, _kind in _COMPARE.items():
    CONVERSIONS[f"operator.{_name}"] = _of_sizes(_kind)
