"""How far two tensors differ: measures for `extend_logger_results_with_comparison`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .... import ops
from ....nn import functional as F
from ....tensor import Tensor
from ....tensor.dtypes import float32

__all__ = ["compute_cosine_similarity", "compute_normalized_l2_error", "compute_sqnr",
           "maybe_dequantize_first_two_tensor_args_and_handle_tuples"]


def maybe_dequantize_first_two_tensor_args_and_handle_tuples(f: Callable[..., Any]) -> Any:
    """Apply a measure of two float32 tensors to quantized tensors too, and to tuples of tensors.

    It returns None for other dtypes.
    """
    @functools.wraps(f)
    def measure(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
        for sequence in (tuple, list):
            if isinstance(a, sequence) and isinstance(b, sequence):
                return [measure(x, y, *args, **kwargs) for x, y in zip(a, b, strict=False)]
        a, b = (x.dequantize() if x.is_quantized else x for x in (a, b))
        if a.dtype is not float32 or b.dtype is not float32:
            return None
        return f(a, b, *args, **kwargs)

    return measure


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_sqnr(x: Tensor, y: Tensor) -> Any:
    """Return the ratio of signal x to noise x - y in decibels."""
    return 20 * ops.log10(x.norm() / (x - y).norm())


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_normalized_l2_error(x: Tensor, y: Tensor) -> Any:
    """Return |x - y| / |x|."""
    return (((x - y) ** 2).sum() / (x ** 2).sum()).sqrt()


@maybe_dequantize_first_two_tensor_args_and_handle_tuples
def compute_cosine_similarity(x: Tensor, y: Tensor) -> Any:
    """Return the cosine of the angle between x and y as vectors, of shape (1,)."""
    return F.cosine_similarity(x.reshape(1, -1), y.reshape(1, -1))
