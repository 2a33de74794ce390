"""Windows to weigh the samples of a frame with: hann, hamming, blackman, bartlett, kaiser."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.dtypes import dtype as Dtype
from ...tensor.tensor import Tensor
from ..creation.creation import get_numpy_dtype, place, public
from ..creation.factories import Contents


def cosine_sum(points: int, coefficients: tuple[float, ...]) -> np.ndarray:
    """Return the sum over k of (-1)^k a_k cos(2 pi k n / (points - 1)), for n < points."""
    phase = 2 * np.pi * np.arange(points) / max(points - 1, 1)
    result = np.zeros(points)
    for k, a in enumerate(coefficients):
        result += (-1) ** k * a * np.cos(k * phase)
    return result


def triangle(points: int) -> np.ndarray:
    """Return a triangle that is zero at both ends."""
    return 1 - np.abs(2 * np.arange(points) / max(points - 1, 1) - 1)


def kaiser(points: int, beta: float) -> np.ndarray:
    """Return I0(beta sqrt(1 - r^2)) / I0(beta), with r from -1 to 1."""
    place_between = 2 * np.arange(points) / max(points - 1, 1) - 1
    return np.i0(beta * np.sqrt(np.maximum(1 - place_between**2, 0))) / np.i0(beta)


def _create_window(
    name: str, length: int, periodic: bool, make: Any, dtype: Dtype | None, device: Any,
    requires_grad: bool,
) -> Tensor:
    kind = get_numpy_dtype(dtype)
    if kind.kind in "biu":
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    if length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={length}"
        )
    if length < 2:
        array = np.ones(length)
    else:  # a periodic window is a longer one without its last point
        array = make(length + 1)[:-1] if periodic else make(length)
    return place(array.astype(kind), device, requires_grad)


@public(explains=True, creates=Contents.FIXED)
def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Dtype | None = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:
    """Return the Hann window, 0.5 - 0.5 cos(2 pi n / N).

    >>> torch.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _create_window("hann_window", window_length, periodic,
                          lambda n: cosine_sum(n, (0.5, 0.5)), dtype, device, requires_grad)


@public(explains=True, creates=Contents.FIXED)
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
    dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return the Hamming window, alpha - beta cos(2 pi n / N).

    >>> torch.hamming_window(5, periodic=False)
    tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    def points(n: int) -> np.ndarray:
        return cosine_sum(n, (alpha, beta))

    return _create_window(
        "hamming_window", window_length, periodic, points, dtype, device, requires_grad
    )


@public(explains=True, creates=Contents.FIXED)
def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Dtype | None = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:
    """Return the Blackman window, 0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N).

    N is `window_length`, or one less for periodic=False, which makes the window symmetric.

    >>> torch.blackman_window(5, periodic=False)[1:4]
    tensor([0.3400, 1.0000, 0.3400])
    """
    def points(n: int) -> np.ndarray:
        return cosine_sum(n, (0.42, 0.5, 0.08))

    return _create_window(
        "blackman_window", window_length, periodic, points, dtype, device, requires_grad
    )


@public(explains=True, creates=Contents.FIXED)
def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Dtype | None = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:
    """Return the Bartlett window, a triangle that starts at zero.

    >>> torch.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _create_window("bartlett_window", window_length, periodic, triangle, dtype, device,
                          requires_grad)


@public(explains=True, creates=Contents.FIXED)
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Dtype | None = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:
    """Return the Kaiser window, which narrows as `beta` grows.

    >>> torch.kaiser_window(5, periodic=False, beta=4.)
    tensor([0.0885, 0.6334, 1.0000, 0.6334, 0.0885])
    """
    return _create_window("kaiser_window", window_length, periodic, lambda n: kaiser(n, beta),
                          dtype, device, requires_grad)
