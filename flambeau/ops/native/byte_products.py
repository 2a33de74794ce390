"""Linear layers of 8-bit integers in machine code, with weights that were packed once.

Until its kernels are there, a function returns None and NumPy does the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...native.runtime.background_jit import KernelPolicy, request_kernel
from ...native.runtime.fast_call import call_on_threads
from ...native.target.cost_model import (
    BYTE_BLOCK_ROWS, MAX_BYTE_STEP_MULTIPLICATIONS, MAX_SPECIALIZED_BYTE_ROWS,
    MIN_BYTE_KERNEL_MULTIPLICATIONS, MIN_PARALLEL_BYTE_WORK,
)
from .route import native_route

if TYPE_CHECKING:
    from ...native.jit.kernel_function import KernelFunction
    from ...native.loop_ir.ir import Kernel

Form = tuple[int, int | None, bool, bool, bool]  # a ByteProductForm, without its import


class Panels(NamedTuple):
    """Weights (n, k) as kernels read them: panel, quad of the depth, column; the last is padded."""

    quads: np.ndarray  # int32
    n: int
    columns: int


def pack_panels(codes: np.ndarray) -> Panels | None:
    """Pack int8 weights (n, k) into panels; None if no kernel would be faster."""
    from ...native.target.machine import host

    target = host()
    if not target.triple.startswith("x86_64"):
        return None
    from ...native.kernels.byte_products import panel_columns

    columns = panel_columns()
    n, k = codes.shape
    panels, quads = -(-n // columns), -(-k // 4)
    padded = np.zeros((panels * columns, quads * 4), np.int8)
    padded[:n, :k] = codes
    order = padded.reshape(panels, columns, quads, 4).transpose(0, 2, 1, 3)
    return Panels(np.ascontiguousarray(order).view(np.int32)[..., 0], n, columns)


def _build_quantization() -> Kernel:
    from ...native.kernels.byte_products import quantize_bytes

    return quantize_bytes()


def quantize_rows(x: np.ndarray, scale: float, zero_point: int) -> np.ndarray | None:
    """float32 rows (m, k) as unsigned bytes (m, padded k), or None."""
    function = request_kernel(("quantize bytes",), _build_quantization)
    if function is None:
        return None
    m, k = x.shape
    y = np.empty((m, -(-k // 4) * 4), np.uint8)
    parameters = np.array([np.float32(1) / np.float32(scale), zero_point], np.float32)
    call_on_threads(function.address, x, parameters, y, m, k, y.shape[1],
                    threads=0 if x.size >= MIN_PARALLEL_BYTE_WORK else 1)
    return y


def _build_product(form: Form) -> Kernel:
    from ...native.kernels.byte_products import ByteProductForm, build_byte_product

    return build_byte_product(ByteProductForm(*form))


def _request_kernel(form: Form) -> KernelFunction | None:
    return request_kernel(("byte product", form), lambda: _build_product(form))


@native_route
def try_byte_product(
    a: np.ndarray, weights: Panels | None, corrections: np.ndarray,
    factors: tuple[np.ndarray, np.ndarray] | None, low: bool,
) -> np.ndarray | None:
    """a @ w - corrections in int32, or times factors[0] plus factors[1] in float32; or None.

    a: unsigned bytes (m, padded k). `low`: none above 127. The others have an element a column.
    """
    if weights is None or not KernelPolicy.allowed:
        return None
    m, n = a.shape[0], weights.n
    work = m * n * a.shape[1]
    if work < MIN_BYTE_KERNEL_MULTIPLICATIONS:
        return None
    columns, rows = weights.columns, m if m <= MAX_SPECIALIZED_BYTE_ROWS else None
    full, tail = divmod(n, columns)
    forms = [(columns, rows, low, factors is None, whole)
             for whole, some in ((True, full), (False, tail)) if some]
    kernels = [_request_kernel(form) for form in forms]
    if any(kernel is None for kernel in kernels):
        return None
    y = np.empty((m, n), np.int32 if factors is None else np.float32)
    each = (corrections, *(factors or ()))
    quads = a.view(np.int32)
    threads = 0 if work >= MIN_PARALLEL_BYTE_WORK else 1
    for start in range(0, m, BYTE_BLOCK_ROWS):
        block = quads[start : start + BYTE_BLOCK_ROWS]
        sizes = len(block), quads.shape[1], n, full, quads.shape[1] * columns, tail
        for form, kernel in zip(forms, kernels, strict=True):
            assert kernel is not None
            whole = form[-1]
            first = 0 if whole else full * columns
            call_on_threads(
                kernel.address, block, weights.quads[0 if whole else full],
                *(numbers[first:] for numbers in each), y[start : start + BYTE_BLOCK_ROWS, first:],
                *sizes, threads=threads)
    return y


def _build_recurrent(form: tuple[str, int, int, float, int]) -> Kernel:
    from ...native.kernels.byte_recurrent import ByteRecurrentForm, build_byte_recurrent

    return build_byte_recurrent(ByteRecurrentForm(*form))


@native_route
def try_byte_recurrent(
    cell: str, sums: np.ndarray, states: tuple[np.ndarray, ...], weights: Panels,
    factors: tuple[np.ndarray, np.ndarray, np.ndarray], quantization: tuple[float, int],
    backward: bool,
) -> np.ndarray | None:
    """The outputs (steps, rows, width) of a recurrent layer, whose states change in place; or None.

    sums: from the input (steps, rows, gates * width). factors: the recurrent weights' sums,
    scales and biases, an element a column. quantization: of states, the smallest scale and the
    greatest byte, at most 127.
    """
    (steps, rows, wide), width = sums.shape, states[0].shape[1]
    if not KernelPolicy.allowed or width % 4 or not steps * rows \
            or rows * wide * width > MAX_BYTE_STEP_MULTIPLICATIONS:
        return None
    form = (cell, width, weights.columns, *quantization)
    kernel = request_kernel(("byte recurrent", form), lambda: _build_recurrent(form))
    if kernel is None:
        return None
    y = np.empty((steps, rows, width), np.float32)
    work = (np.empty(3, np.float32), np.empty((rows, width // 4), np.int32),
            np.empty((rows, wide), np.float32))
    first, sign = (steps - 1, -1) if backward else (0, 1)
    call_on_threads(kernel.address, sums[first], *states, y[first], weights.quads, *factors, *work,
                    steps, rows, sign * rows * wide, sign * rows * width, threads=1)
    return y
