"""Two pointwise results in one pass over large arrays, such as a value and its tangent."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from ...native.runtime.background_jit import KernelPolicy, request_kernel
from ...native.runtime.fast_call import call_kernel
from ...native.target.eager_costs import MAX_POINTWISE_KERNELS
from .pointwise_walk import plan_walk
from .route import native_route

Array = np.ndarray

_straight: dict[Hashable, int] = {}  # addresses of kernels for contiguous arrays of one shape


@native_route
def serve_pair(
    key: Hashable, formula: Callable[..., tuple[Any, Any]], arrays: list[Array],
    shape: tuple[int, ...], kind: np.dtype,
) -> tuple[Array, Array] | None:
    """Return both results of `formula`, which `key` identifies and which gets an element of each
    array; None until its kernel is compiled, or where it cannot walk the arrays. They broadcast to
    `shape`, that of the results of dtype `kind`."""
    if not KernelPolicy.allowed:
        return None
    is_straight = True
    for a in arrays:
        is_straight = is_straight and a.shape == shape and a.dtype is kind and a.flags.c_contiguous
    if is_straight and (address := _straight.get(key)):
        pair = np.empty(shape, kind), np.empty(shape, kind)
        call_kernel(address, pair[0].size, *arrays, *pair, pair[0].size)
        return pair
    walk = plan_walk(shape, tuple([(a.shape, a.strides, a.dtype) for a in arrays]))
    if walk is None:
        return None

    def build() -> Any:
        from ...native.kernels.pointwise import pointwise
        from ...native.loop_ir.ir import Type

        return pointwise(formula, [(Type(d.name), layout) for d, layout in walk.layouts])

    function = request_kernel(("pointwise pair", key, walk.layouts), build)
    if function is None:
        return None
    if is_straight and len(_straight) < MAX_POINTWISE_KERNELS:
        _straight[key] = function.address
    if walk.full is None or walk.in_order:
        pair = np.empty(shape, kind), np.empty(shape, kind)
    else:
        full = arrays[walk.full]
        pair = np.empty_like(full, kind), np.empty_like(full, kind)
    call_kernel(function.address, pair[0].size, *arrays, *pair, *walk.sizes)
    return pair
