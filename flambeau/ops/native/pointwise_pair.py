"""Two pointwise results in one pass over large arrays, such as a value and its tangent."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from ...native.runtime.background_jit import KernelPolicy, request_kernel
from ...native.runtime.fast_call import call_kernel
from .route import native_route

Array = np.ndarray


@native_route
def serve_pair(
    key: Hashable, formula: Callable[..., tuple[Any, Any]], arrays: list[Array]
) -> tuple[Array, Array] | None:
    """Return both results of `formula`, which `key` identifies and which gets an element of each
    array; None until its kernel is compiled. The arrays are contiguous, of one shape and dtype,
    which the results have too."""
    first = arrays[0]
    if not KernelPolicy.allowed:
        return None
    kind = first.dtype

    def build() -> Any:
        from ...native.kernels.pointwise import FULL, pointwise
        from ...native.loop_ir.ir import Type

        return pointwise(formula, [(Type(kind.name), FULL)] * len(arrays))

    function = request_kernel(("pointwise pair", key, kind), build)
    if function is None:
        return None
    pair = np.empty(first.shape, kind), np.empty(first.shape, kind)
    call_kernel(function.address, first.size, *arrays, *pair, first.size)
    return pair
