"""Pooling windows: their arguments checked, as a Window that covers the output exactly."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..conv_reference import Window
from .pool_checks import Pooling

def _compute_length(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    out = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
    if ceil_mode and (out - 1) * s >= n + p:
        out -= 1  # the last window would begin in the padding on the right
    return out


@lru_cache(maxsize=1024)
def make_pooling_window(
    name: str, n: int, shape: tuple, kernel: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, with_indices: bool = False
) -> Window:
    """Return the pooling window over the last n axes of `shape`; RuntimeError if invalid."""
    pooling = Pooling(name, n, with_indices)
    if n == 1:
        pooling.check_rank(shape)
        if pooling.is_plain_line:
            pooling.check_sizes(shape)
    kernel = pooling.expand(kernel, "kernel_size")
    empty = stride is None or (isinstance(stride, tuple) and not stride)
    stride = kernel if empty else pooling.expand(stride, "stride")
    pads = pooling.expand(padding, "padding")
    dilation = pooling.expand(dilation, "dilation")
    pooling.check_rank(shape)
    pooling.check_settings(kernel, stride, pads, dilation)
    pooling.check_sizes(shape)
    spatial = shape[-n:]
    result = [_compute_length(*v, ceil_mode)
              for v in zip(spatial, kernel, stride, pads, dilation, strict=True)]
    pooling.check_output(shape, result, kernel)
    ends = [
        max((m - 1) * s + d * (k - 1) + 1 - length - p, 0)
        for m, length, k, s, p, d in zip(
            result, spatial, kernel, stride, pads, dilation, strict=True
        )
    ]
    return Window(kernel, stride, tuple(zip(pads, ends, strict=True)), dilation)
