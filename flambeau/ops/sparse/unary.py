"""Functions of one sparse tensor that map zero to zero, applied to the stored values."""

from __future__ import annotations

from typing import Any

from ...autograd import enable_grad, grad
from ...autograd.backward import require_gradients
from ...tensor.sparse import CooArray, SparseTensor, wrap_sparse
from ...tensor.tensor import Tensor, wrap
from ..core.operator import OPERATORS, Array, Number
from . import formats
from .arithmetic import mul
from .conversion import itself
from .dispatch import implements, register_in_place, sparse_operator, write_over
from .masking import mask_by_pattern

# Operators that PyTorch has for all sparse layouts. COO inputs are coalesced first.
ZERO_PRESERVING = (
    "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac log1p rad2deg sgn sign "
    "sin sinh sqrt tan tanh trunc isinf isnan isneginf isposinf signbit"
).split()
_ALIASES = {"asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atanh": "arctanh",
            "trunc": "fix", "abs": "absolute"}


def _declare(name: str, *aliases: str, dense: str | None = None, coalesces: bool = True) -> None:
    """Register an operator that applies the dense one to the stored values."""
    dense_operator = OPERATORS[dense or name]

    def body(input: Array) -> Array:
        return apply_to_values(input, dense_operator.function, coalesces)

    body.__name__ = name
    function = sparse_operator(name, *aliases, node=dense_operator.node_type.__name__)(body)
    function.operator.holomorphic = False  # `_differentiate` conjugates
    if not dense_operator.differentiable:
        function.operator.differentiable = False
        return

    @function.vjp("input")
    def _(g: Any, input: Any) -> Any:
        return _differentiate(g, input, dense_operator.function)

    @function.jvp
    def _(input_t: Any, input: Any) -> Any:
        if not input.is_complex():
            return _differentiate(input_t, input, dense_operator.function)
        return _differentiate(input_t.conj(), input, dense_operator.function).conj()


def _differentiate(g: Tensor, input: Tensor, function: Any) -> Tensor:
    """Differentiate a function of the stored values, at the input's coordinates."""
    pattern: Any = input._array
    if isinstance(pattern, CooArray):
        pattern = formats.coalesce(pattern)
    g = mask_by_pattern(g, pattern)
    with enable_grad():
        x = require_gradients(wrap(pattern.values))
        y = function(x)
    result = grad(y, x, wrap(g._array.values))[0]  # type: ignore[attr-defined]
    return wrap_sparse(g._array.like(result._array))  # type: ignore[attr-defined, union-attr]


def apply_to_values(a: Any, function: Any, coalesces: bool = True) -> Any:
    """Apply a function of tensors to the array's values."""
    if coalesces and isinstance(a, CooArray):
        a = formats.coalesce(a)
    return a.like(function(wrap(a.values))._array)


for _name in ZERO_PRESERVING:
    if _name in OPERATORS:
        _declare(_name, *([_ALIASES[_name]] if _name in _ALIASES else []))
_declare("neg", "negative", "__neg__", coalesces=False)


@sparse_operator("relu", node="ReluBackward0")
def relu(input: Array) -> Array:
    """Replace negative values by zero."""
    return apply_to_values(input, lambda values: values.relu())


@relu.vjp("input")
def _(g: Any, input: Any) -> Any:
    return mul(g, call_on_values(input, "relu").sign())


@relu.jvp
def _(input_t: Any, input: Any) -> Any:
    return mul(input_t, call_on_values(input, "relu").sign())


@sparse_operator("round", node="RoundBackward0")
def round_(input: Array, *, decimals: int = 0) -> Array:
    """Round the values to integers, or to `decimals` places."""
    return apply_to_values(input, lambda values: values.round(decimals=decimals))


@round_.vjp("input")
def _(g: Any) -> Any:
    return g * 0


@round_.jvp
def _(input_t: Any) -> Any:
    return input_t * 0


@sparse_operator("nan_to_num")
def nan_to_num(
    input: Array, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """Replace NaN and infinities among the values."""
    replace = wrap(input.values).nan_to_num  # type: ignore[attr-defined]
    return apply_to_values(input, lambda _: replace(nan, posinf, neginf), False)


@sparse_operator(node="PowBackward0")
def _pow(input: Array, exponent: Array | Number) -> Array:
    return apply_to_values(input, lambda values: values.pow(exponent))


@_pow.vjp("input")
def _(g: Any, input: Any, exponent: Any) -> Any:
    return _scale_by_slope(g, input, exponent)


@_pow.jvp
def _(input_t: Any, input: Any, exponent: Any) -> Any:
    return _scale_by_slope(input_t, input, exponent)


def _scale_by_slope(x: Tensor, input: Tensor, exponent: Any) -> Tensor:
    """Multiply by the derivative of `input ** exponent`."""
    if exponent in (0, 1):
        return x * exponent
    return mul(x, pow_(input, exponent - 1) * exponent)


@implements("pow", "__pow__")
def pow_(input: Tensor, exponent: Any, *, out: Any = None) -> Tensor:
    """Raise the values to a nonzero power."""
    if isinstance(exponent, Tensor):
        if exponent.dim():
            raise NotImplementedError(
                "Could not run 'aten::pow.Tensor_Tensor_out' with arguments from the 'SparseCPU' "
                "backend."
            )
        exponent = exponent.item()
    if exponent == 0:
        raise RuntimeError("pow(): sparse tensors do not support 0 as exponent, whose result is "
                           "dense")
    return _pow(input, exponent, out=out)


@implements("square")
def square(input: Tensor, *, out: Any = None) -> Tensor:
    """Square the values."""
    return pow_(input, 2, out=out)


# ------------------------------------------------------------------------------ complex numbers


def _declare_linear(name: str, *aliases: str) -> Any:
    """Declare an operator that is linear over the reals, so the input need not be coalesced."""

    def body(input: Array) -> Array:
        return apply_to_values(
            input, lambda x: getattr(wrap(x._array), name)() if name == "conj" else
            (x.real if name == "real" else x.imag).clone(), False)

    body.__name__ = name
    result = sparse_operator(node=name.capitalize() + "Backward0")(body)
    result.operator.holomorphic = False
    return result


_conj, _real, _imag = map(_declare_linear, ("conj", "real", "imag"))


@_conj.vjp("input")  # type: ignore[untyped-decorator]
def _(g: Any) -> Any:
    return g.conj()


@_real.vjp("input")  # type: ignore[untyped-decorator]
def _(g: Any, input_dtype: Any) -> Any:
    return g.to(input_dtype)


@_imag.vjp("input")  # type: ignore[untyped-decorator]
def _(g: Any, input_dtype: Any) -> Any:
    return g.to(input_dtype) * 1j


@implements("conj", "conj_physical")
def conj(input: Tensor, *, out: Any = None) -> Tensor:
    """Complex conjugate; a real tensor is returned unchanged."""
    if not input.is_complex():
        return input if out is None else write_over(out, input)
    return _conj(input, out=out)


def _create_part(function: Any) -> property:
    return property(lambda self: function(self) if self.is_complex() else itself(self))


implements("real")(lambda input: _real(input) if input.is_complex() else input)
implements("imag")(_imag)
_methods: Any = SparseTensor
_methods.real, _methods.imag = _create_part(_real), property(lambda self: _imag(self))
_methods.H = property(lambda self: conj(self.t()))


@implements("angle")
def angle(input: Tensor, *, out: Any = None) -> Tensor:
    """Argument of the stored values."""
    return call_on_values(input, "angle")


def call_on_values(x: Tensor, name: str) -> Tensor:
    """A method of dense tensors on the stored values, without history."""
    return wrap_sparse(apply_to_values(x._array, lambda values: getattr(values, name)()))


for _name in ZERO_PRESERVING:
    register_in_place(_name, coalesced=True)
register_in_place("round", coalesced=True)
for _name in ("neg", "negative", "relu", "nan_to_num", "pow", "square"):
    register_in_place(_name)
for _name, _alias in _ALIASES.items():
    setattr(_methods, _alias + "_", getattr(_methods, _name + "_"))
