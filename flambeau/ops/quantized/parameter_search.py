"""Ranges of values that 4 or 2 bits hold with the least error, and weights that float16 holds."""

from __future__ import annotations

import numpy as np

from ...tensor.tensor import Tensor, wrap
from ..creation.creation import public

_LANES = 8  # partial sums of PyTorch's float32 loop over the errors


def _measure_loss(row: np.ndarray, low: np.float32, high: np.float32, bit_width: int) -> np.float32:
    """The norm of what rounding to even steps between two values changes.

    The least value and the step are float16 numbers, as in packed tables.
    """
    max_code = np.float32(2**bit_width - 1)
    start = np.float32(np.float16(low))
    span = high - start
    step = np.float32(1) if span == 0 else np.float32(np.float16(span / max_code))
    inverse = np.float32(1) if step == 0 else np.float32(1) / step
    codes = np.clip(np.rint((row - start) * inverse), np.float32(0), max_code)
    squares = np.square(row - (codes * step + start))
    full_lanes = squares.size // _LANES * _LANES
    sums = np.zeros(_LANES, np.float32)
    for part in squares[:full_lanes].reshape(-1, _LANES):
        sums += part
    total = np.float32(0)
    for number in (*sums, *squares[full_lanes:]):
        total += number
    return np.sqrt(total)


@public()
def choose_qparams_optimized(
    input: Tensor, numel: int, n_bins: int, ratio: float, bit_width: int
) -> tuple[Tensor, Tensor]:
    """Return the greatest and least value between which to quantize a float32 row.

    A greedy search narrows the range in steps of 1 / `n_bins`, by at most the fraction `ratio`,
    and keeps the range of least error that a single step cannot improve.

    >>> x = torch.tensor([0., 1., 15.])
    >>> torch.choose_qparams_optimized(x, 3, 200, 0.16, 4)
    (tensor([15.]), tensor([0.]))
    """
    if not 0 <= numel <= input.numel():
        raise RuntimeError("numel is out of the bound of input tensor")
    row = np.ascontiguousarray(input._array, np.float32).reshape(-1)[:numel]
    low, high = row.min(), row.max()
    step = np.float32((high - low) / np.float32(n_bins))
    narrowest = np.float32(n_bins * (1.0 - float(np.float32(ratio)))) * step
    best = (low, high)
    loss = best_loss = _measure_loss(row, low, high, bit_width)
    while low + narrowest < high:
        from_left, from_right = low + step, high - step
        left = _measure_loss(row, from_left, high, bit_width)
        right = _measure_loss(row, low, from_right, bit_width)
        if loss < min(left, right, best_loss):
            best, best_loss = (low, high), loss
        if left < right:
            low, loss = from_left, left
        else:
            high, loss = from_right, right
    return wrap(np.array([best[1]])), wrap(np.array([best[0]]))


@public()
def _saturate_weight_to_fp16(weight: Tensor) -> Tensor:
    """Clip the weight to the finite range of float16.

    >>> torch._saturate_weight_to_fp16(torch.tensor([1., -1e6]))
    tensor([ 1.0000e+00, -6.5504e+04])
    """
    limit = float(np.finfo(np.float16).max)
    return weight.clamp(-limit, limit)
