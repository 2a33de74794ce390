"""Pooling windows: their arguments checked, as a Window that covers the output exactly."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..conv_reference import Window

_AXES = {1: ("width",), 2: ("H", "W"), 3: ("T", "H", "W")}
_NUMBERS = {1: "one int", 2: "two ints", 3: "three ints"}


def expand_to_axes(value: Any, n: int, name: str, argument: str) -> tuple[int, ...]:
    """Return a setting for each of n axes, from one number or a list of 1 or n."""
    if value.__class__ is int:
        return (value,) * n
    values = tuple(int(v) for v in value) if hasattr(value, "__iter__") else (int(value),)
    if len(values) == 1:
        return values * n
    if len(values) != n:
        raise RuntimeError(
            f"{name}: {argument} must either be a single int, or a tuple of {_NUMBERS[n]}"
        )
    return values


def _check(name: str, n: int, kernel: tuple, stride: tuple, pads: tuple, dilation: tuple) -> None:
    prefix = f"{name}() " if n == 1 else ""
    if any(k <= 0 for k in kernel):
        prefix = prefix or "kernel size should be greater than zero: "
        raise RuntimeError(f"{prefix}kernel_size must "
                           f"be greater than zero, but got {_spell(kernel)}")
    if any(s <= 0 for s in stride):
        if n == 1:
            raise RuntimeError(
                f"{prefix}stride must be greater than zero, but got {_spell(stride)}")
        raise RuntimeError("stride should not be zero")
    if any(d <= 0 for d in dilation):
        words = " ".join(f"dilation{a}: {d}" for a, d in zip(_AXES[n], dilation, strict=True))
        raise RuntimeError(
            f"{prefix}dilation must be greater than zero, but got {_spell(dilation)}" if n == 1
            else f"dilation should be greater than zero, but got {words}"
        )
    for k, p, d in zip(kernel, pads, dilation, strict=True):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                "pad should be at most half of effective kernel size, but got "
                f"pad={p}, kernel_size={k} and dilation={d}"
            )


def _spell(values: tuple) -> Any:
    return values[0] if len(values) == 1 else values


def _compute_length(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    out = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
    if ceil_mode and (out - 1) * s >= n + p:
        out -= 1  # the last window would begin in the padding on the right
    return out


@lru_cache(maxsize=1024)
def make_pooling_window(
    name: str, n: int, shape: tuple, kernel: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> Window:
    """Return the pooling window over the last n axes of `shape`; RuntimeError if invalid."""
    kernel = expand_to_axes(kernel, n, name, "kernel_size")
    empty = stride is None or (isinstance(stride, tuple) and not stride)
    stride = kernel if empty else expand_to_axes(stride, n, name, "stride")
    pads = expand_to_axes(padding, n, name, "padding")
    dilation = expand_to_axes(dilation, n, name, "dilation")
    _check(name, n, kernel, stride, pads, dilation)
    _check_shape(name, n, shape)
    spatial = shape[-n:]
    result = [_compute_length(*v, ceil_mode)
              for v in zip(spatial, kernel, stride, pads, dilation, strict=True)]
    if any(m < 1 for m in result):
        if name == "max_pool1d":
            raise RuntimeError(f"{name}() Invalid computed output size: {result[0]}")
        planes = (shape[-n - 1], 1) if n == 1 else (shape[-n - 1],)  # rows are images of height 1
        raise RuntimeError(
            f"Given input size: ({'x'.join(map(str, (*planes, *spatial)))}). Calculated output "
            f"size: ({'x'.join(map(str, (*planes, *result)))}). Output size is too small"
        )
    ends = [
        max((m - 1) * s + d * (k - 1) + 1 - length - p, 0)
        for m, length, k, s, p, d in zip(
            result, spatial, kernel, stride, pads, dilation, strict=True
        )
    ]
    return Window(kernel, stride, tuple(zip(pads, ends, strict=True)), dilation)


def _check_shape(name: str, n: int, shape: tuple) -> None:
    if len(shape) in (n + 1, n + 2) and 0 not in shape[-n - 1 :]:
        return
    if n == 1 and len(shape) not in (2, 3) and name.startswith("avg"):
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {name})"
        )
    if name == "max_pool3d" and len(shape) in (4, 5):
        empty = next(i for i in range(-4, 0) if shape[i] == 0)
        raise RuntimeError(
            "max_pool3d_with_indices_out_cpu_template(): Expected input's non-batch dimensions to "
            f"have positive length, but input has a shape of {list(shape)} and non-batch "
            f"dimension {empty + len(shape)} has length zero!"
        )
    prefix = f"{name}: " if n == 1 else ""
    raise RuntimeError(
        f"{prefix}Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size "
        f"for input, but got:{list(shape)} (non-empty {n + 1}D or {n + 2}D (batch mode) tensor "
        "expected for input)"
    )
