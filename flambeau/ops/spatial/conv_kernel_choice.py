"""Choose the kernel of a convolution: a dynamic one for all shapes, or one for a single shape.

The first convolution waits for the dynamic kernel: NumPy's sums round otherwise, and a program that
compares two equal convolutions would see that. A shape that is used often gets its own static
kernel if that is faster: if Winograd's algorithm saves multiplications, for groups, and for
channels-last images, whose windows are gathered. Depthwise convolutions have separate kernels for
all shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...autograd.mode import MODE
from ...native.runtime import background_jit
from ...native.runtime.fast_call import call_kernel
from ...native.runtime.thread_pool import threads
from ...native.target.eager_costs import (
    CONV_CALLS_BEFORE_COMPILING, CONV_CALLS_BEFORE_USE, CONV_MULTIPLICATIONS_PER_CALL,
    MIN_STATIC_CONV_MULTIPLICATIONS, MULTIPLICATIONS_PER_ELEMENT,
)
from ..core.operator import Array
from ..native.static_shape_kernels import get_kernel, run_kernel

if TYPE_CHECKING:
    from ...native.kernels.conv import KernelCall
    from ...native.kernels.conv_static import Geometry
    from ...native.kernels.depthwise_plan import DepthwiseCall as DepthwiseCall
    from ...native.loop_ir.ir import Kernel
    from .conv_reference import Window


class Convolution(NamedTuple):
    """A direction, the shapes of x, weight and y, and the settings of a convolution.

    `last`: whether each of them is channels last in memory.
    """

    direction: str  # "forward", "data" or "weight"
    x: tuple[int, ...]
    weight: tuple[int, ...]
    y: tuple[int, ...]
    kind: str
    window: Window
    groups: int
    last: tuple[bool, bool, bool]

    @property
    def depthwise(self) -> bool:
        """Whether each output channel reads one input channel."""
        return self.groups > 1 and self.weight[1] == 1

    @property
    def multiplications(self) -> int:
        """The number of multiplications."""
        return prod(self.y) * prod(self.weight[1:])

    @property
    def unusual(self) -> bool:
        """Whether a kernel for all shapes is far from the best at every size."""
        return self.groups > 1 or any(self.last)

    @property
    def square(self) -> bool:
        """Whether the windows are those of Winograd's algorithm."""
        window = self.window
        return window.dense and window.kernel == (3, 3) and window.dilation == (1, 1)

    def geometry(self) -> Geometry:
        """The geometry that kernels are built from; a single spatial axis comes second."""
        from ...native.kernels.conv_static import Geometry, strides_of
        from ...native.loop_ir.ir import Type

        x, w, y = (item if len(item) == 4 else (*item[:2], 1, *item[2:])
                   for item in (self.x, self.weight, self.y))
        window, is_1d = self.window, len(self.x) == 3
        stride, dilation = ((1, *setting) if is_1d else setting
                            for setting in (window.stride, window.dilation))
        before = [0] * is_1d + [lo for lo, _ in window.padding]
        strides = [strides_of(*each) for each in zip((x, w, y), self.last, strict=True)]
        return Geometry(
            Type.F32 if self.kind == "f" else Type.F64, x[0], x[1], (x[2], x[3]), w[0],
            (y[2], y[3]), (w[2], w[3]), (stride[0], stride[1]), (before[0], before[1]),
            (dilation[0], dilation[1]), self.groups, strides[0], strides[1], strides[2],
        )


def run_kernel_for(conv: Convolution, arrays: Sequence[Array]) -> bool:
    """Run a convolution on arrays, writing the last one; return False if there is no kernel.

    Arrays by direction: forward x, weight, bias, y; data gy, weight, gx; weight x, gy, gw.
    """
    if conv.depthwise and not any(conv.last) and (call := _plan_depthwise(conv)) is not None:
        return _run_depthwise(conv, call, arrays)
    if (conv.square or conv.unusual) and conv.multiplications >= MIN_STATIC_CONV_MULTIPLICATIONS:
        function = get_kernel(("convolution", conv), lambda: _build_static_kernel(conv),
                              CONV_CALLS_BEFORE_COMPILING, CONV_CALLS_BEFORE_USE)
        if function is not None:
            run_kernel(function, arrays)
            return True
    return _run_dynamic(conv, arrays)


@lru_cache(maxsize=1024)
def _plan_depthwise(conv: Convolution) -> DepthwiseCall | None:
    """Return the call of the depthwise kernel; None if windows are too large for it."""
    from ...native.kernels import depthwise_plan

    call = {"forward": depthwise_plan.plan_forward, "data": depthwise_plan.plan_backward_data,
            "weight": depthwise_plan.plan_backward_weight}[conv.direction]
    return call(conv.geometry())


def _run_depthwise(conv: Convolution, call: DepthwiseCall, arrays: Sequence[Array]) -> bool:
    from ...native.loop_ir.ir import Type

    kind = Type.F32 if conv.kind == "f" else Type.F64
    key = ("depthwise", call.builder.__name__, conv.kind, call.step)
    call_weight = max(1.0, conv.multiplications / CONV_MULTIPLICATIONS_PER_CALL)
    function = background_jit.request_kernel(
        key, lambda: call.builder(kind, call.step), weight=call_weight,
        at_once=not background_jit.is_recording(),
    )
    if function is None:
        return False
    x, *others = arrays
    if conv.direction == "data":
        weight, result = others
        others = [weight, np.zeros(conv.x[1], x.dtype), result]
    call_kernel(
        function.address, conv.multiplications // MULTIPLICATIONS_PER_ELEMENT, x, call.offsets,
        *others, *call.sizes
    )
    return True


def _build_static_kernel(conv: Convolution) -> Kernel:
    """Build a kernel for one shape; raise Unsupported if the dynamic kernel is as fast."""
    from ...native.codegen.contraction import check_winograd
    from ...native.kernels import conv_static

    g = conv.geometry()
    if conv.direction == "forward":
        kernel = conv_static.build_forward(g, True)
    else:
        kernel = (
            conv_static.build_backward_data(g)
            if conv.direction == "data"
            else conv_static.build_backward_weight(g)
        )
    if not conv.unusual:
        check_winograd(kernel)
    return kernel


# --------------------------------------------------------------------- the kernel for all shapes


@lru_cache(maxsize=1024)
def _plan_calls(conv: Convolution, grouped: bool) -> tuple[KernelCall, ...]:
    """Return the calls of the dynamic kernel that compute a convolution."""
    from ...native.kernels import conv as any_conv

    calls = {"forward": any_conv.plan_forward_calls, "data": any_conv.plan_data_calls,
             "weight": any_conv.weight_calls}[conv.direction]
    return tuple(calls(conv.geometry(), grouped))


def _build_dynamic_kernel(conv: Convolution, grouped: bool) -> Kernel:
    from ...native.kernels import conv as any_conv
    from ...native.loop_ir.ir import Type

    builder = any_conv.weight if conv.direction == "weight" else any_conv.build_window_sums
    return builder(Type.F32 if conv.kind == "f" else Type.F64, grouped)


def _request_dynamic_kernel(conv: Convolution, grouped: bool) -> Any:
    """Return the dynamic kernel, or None until it is compiled."""
    key = ("any convolution", conv.direction == "weight", conv.kind, grouped)
    call_weight = max(1.0, conv.multiplications / CONV_MULTIPLICATIONS_PER_CALL)
    return background_jit.request_kernel(
        key, lambda: _build_dynamic_kernel(conv, grouped), weight=call_weight,
        at_once=not background_jit.is_recording(),
    )


def _run_dynamic(conv: Convolution, arrays: Sequence[Array]) -> bool:
    grouped = conv.groups > 1 and conv.groups >= threads()
    function = _request_dynamic_kernel(conv, grouped)
    if function is None:
        if conv.direction == "forward" and background_jit.is_recording() and MODE.grad:
            # The backward pass will need this one; compile both at the same time.
            _request_dynamic_kernel(conv._replace(direction="weight"), grouped)
        return False
    if conv.direction == "data":
        g, weight, result = arrays
        arrays = [g, weight, np.zeros(conv.x[1], g.dtype), result]
    size, work = arrays[0].itemsize, conv.multiplications // MULTIPLICATIONS_PER_ELEMENT
    for offsets, sizes in _plan_calls(conv, grouped):
        if any(offsets):
            starts = zip(arrays, offsets, strict=True)
            call_kernel(
                function.address, work, *[a.ctypes.data + at * size for a, at in starts], *sizes
            )
        else:
            call_kernel(function.address, work, *arrays, *sizes)
    return True
