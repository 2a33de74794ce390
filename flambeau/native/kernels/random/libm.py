"""C library functions applied to float64 arrays in place; exact kernels use them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...loop_ir.ir import (
    Affine, Apply, Buffer, Index, Kernel, Load, Loop, LoopKind, Scalar, Size, Store, Type,
)


def _apply_elementwise(function: Scalar) -> Kernel:
    """x; count: the function's value in place of each number."""
    x, i, count = Buffer(Type.F64, "x"), Index("i"), Size("count")
    place = Affine(0, ((i, 1),))
    value = Apply(function, (Load(x, place),), Type.F64)
    name = function.name.lower()
    nest = Loop(i, count, [Store(x, place, value)], LoopKind.VECTORIZED)
    return Kernel(name, [x], [nest], [count], exact=True)


FUNCTIONS: dict[str, Callable[[], Kernel]] = {
    function.name.lower(): partial(_apply_elementwise, function)
    for function in (Scalar.LOG, Scalar.LOG1P, Scalar.EXP, Scalar.SIN, Scalar.COS, Scalar.TAN)
}
