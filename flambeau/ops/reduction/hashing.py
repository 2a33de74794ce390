"""Hashes of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tensor.promotion import build_missing_kernel_error
from ..core.operator import Array
from ..core.registry import opaque
from .extremes import needs_elements
from .reduce import parse_axes


@opaque(differentiable=False,
        ref=lambda x, dim=None: np.bitwise_xor.reduce(x.astype(np.int64).view(np.uint64), dim),
        samples=lambda rng: iter([((rng.integers(-9, 9, (3, 4)),), {}),
                                  ((rng.integers(-9, 9, (3, 4)),), {"dim": 1})]))
def hash_tensor(
    input: Array, dim: int | Sequence[int] = (), *, keepdim: bool = False, mode: int = 0
) -> Array:
    """Return the XOR of all elements over the axes `dim`, each taken as 64 bits.

    >>> torch.hash_tensor(torch.tensor([1, 2, 7]))
    tensor(4, dtype=torch.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if input.dtype.kind == "c":
        raise build_missing_kernel_error("xor_sum_cpu", input.dtype)
    if not input.size:
        needs_elements(input, dim, "hash_tensor")
    computed = np.float64 if input.dtype.kind in "fV" else np.int64
    bits = input.astype(computed, order="C").view(np.uint64)
    axes: Any = parse_axes(dim, input.ndim)
    xor: Any = np.bitwise_xor
    result = xor.reduce(bits, axis=axes, keepdims=keepdim)
    return np.asarray(result, np.uint64)
