"""Arithmetic of complex32 and floats of eight bits: what PyTorch's CPU has of it.

complex32 and float8_e8m0fnu are computed in complex64 and float32 and rounded once. Every other
operator raises NotImplementedError, as there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...tensor import dtypes as types
from ...tensor.dtypes import dtype
from ...tensor.narrow_dtypes import EIGHT_BIT, narrow, widen
from ...tensor.promotion import build_missing_kernel_error
from ...tensor.tensor import Tensor

if TYPE_CHECKING:
    from .operator import Operator

_COMPUTED = {
    "complex32": frozenset("""
        abs add addcmul conj eq isclose isfinite isinf isnan isreal mul ne neg positive sgn sub
        where
    """.split()),
    "float8_e8m0fnu": frozenset("eq isfinite isinf isnan mul ne where".split()),
}
_EIGHT_BIT_COMPUTED = frozenset("abs conj eq isnan mul ne positive where".split())
# What PyTorch's kernels are called in the refusal; others by the operator's name and "_cpu".
_VECTORIZED = """
    acos asin atan ceil cos erf erfinv exp expm1 floor i0 lgamma log log10 log1p log2 round sin sqrt
    tan tanh trunc
""".split()
_KERNELS = {
    **{name: f"{name}_vml_cpu" for name in _VECTORIZED},
    "pow": "pow", "pow_number": "pow", "square": "pow", "add": "add_stub",
    "mul": "mul_cpu_reduced_float", "lerp": "lerp_kernel_scalar",
    **dict.fromkeys(("sub", "rsub", "diff"), "add_stub"), "sgn": "sign_cpu",
    **dict.fromkeys(("deg2rad", "rad2deg", "isclose"), "mul_cpu_reduced_float"),
    **dict.fromkeys(("true_divide", "divide"), "div_cpu"), "floor_divide": "div_floor_cpu",
    **{name: name for name in ("exp2", "digamma", "isinf", "isfinite", "nan_to_num")},
    "sigmoid": "sigmoid_cpu_reduced_float", "relu_only": "clamp_min_scalar_cpu", "ldexp": "pow",
    "clamp": "clamp_scalar_cpu", "gelu": "GeluKernelImpl", "addcmul": "addcmul_cpu_out",
    "addcdiv": "addcdiv_cpu_out",
}


def compute_narrow(
    operator: Operator, operands: tuple, attributes: tuple, options: dict[str, Any], common: dtype
) -> np.ndarray:
    """Run a pointwise operator's body in the wider dtype."""
    name = operator.name.strip("_")
    tensors = all(isinstance(x, Tensor) for x in operands)
    if name not in _COMPUTED[common.name] or (name == "mul" and not (common.is_complex or tensors)):
        kernel = _KERNELS.get(name, f"{name}_cpu")
        raise build_missing_kernel_error(kernel, common)
    inside = types.complex64.numpy if common.is_complex else types.float32.numpy
    arrays = [_widen(x, inside) for x in operands]
    with np.errstate(all="ignore"):
        y: np.ndarray = operator.body(*arrays, *attributes, **options)
    if y.dtype == inside or not common.is_complex and y.dtype.kind == "f":
        return narrow(y, common.numpy)
    return y.astype(np.float16) if y.dtype == np.float32 else y


def refuse_eight_bit_arithmetic(operator: Operator, operands: tuple, common: dtype) -> None:
    """Raise NotImplementedError for a float of eight bits if PyTorch has no kernel for it."""
    if common.numpy not in EIGHT_BIT:
        return
    name = operator.name.strip("_")
    if name in ("isinf", "isfinite") and common is types.float8_e5m2:  # the one with infinities
        return
    tensors = all(isinstance(x, Tensor) for x in operands)
    if name not in _EIGHT_BIT_COMPUTED or (name == "mul" and not tensors):
        kernel = _KERNELS.get(name, f"{name}_cpu")
        raise build_missing_kernel_error(kernel, common)


def _widen(x: Any, inside: np.dtype) -> Any:
    array = x._array if isinstance(x, Tensor) else x
    if isinstance(array, np.ndarray):
        widened = widen(array)
        return widened if widened.dtype == np.bool_ else widened.astype(inside)
    return None if array is None else np.asarray(array, inside)
