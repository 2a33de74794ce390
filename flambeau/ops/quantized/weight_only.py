"""Weights of 8 and 4 bits, with inputs in floating point: torch._weight_int8pack_mm and its like.

Nothing of the input is lost; weights take a quarter or an eighth of the memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.operator import Array
from ..core.registry import opaque
from ..core.sample_inputs import Rng, Sample


def _int8_samples(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(3, 5)),
           rng.integers(-128, 128, (4, 5)).astype(np.int8),
           rng.uniform(0.1, 1, 4)), {}


@opaque(name="_weight_int8pack_mm", expose=("torch",), differentiable=False,
        samples=_int8_samples, ref=lambda x, w, s: (x @ w.T.astype(np.float64)) * s)
def weight_int8pack_mm(self: Array, mat2: Array, scales: Array) -> Array:
    """Multiply rows (m, k) by int8 weights (n, k) with one scale per output column.

    >>> w = torch.ones(2, 3, dtype=torch.int8)
    >>> torch._weight_int8pack_mm(torch.ones(1, 3), w, torch.tensor([1., 0.5]))
    tensor([[3.0000, 1.5000]])
    """
    if mat2.dtype != np.int8 or self.shape[1] != mat2.shape[1] or scales.shape != mat2.shape[:1]:
        raise RuntimeError("_weight_int8pack_mm: expected int8 weights (n, k) and n scales, got "
                           f"{mat2.dtype} {mat2.shape} and {scales.shape}")
    computed = np.float64 if self.dtype == np.float64 else np.float32
    product = self.astype(computed) @ mat2.T.astype(computed)
    return (product * scales.astype(computed)).astype(self.dtype)


@opaque(name="_convert_weight_to_int4pack_for_cpu", expose=("torch",), differentiable=False,
        samples=lambda rng: iter([((rng.integers(0, 16, (32, 8)).astype(np.int32), 2), {})]),
        ref=lambda w, tiles: (w[:, 1::2] << 4 | w[:, ::2]).astype(np.uint8))
def pack_int4(self: Array, innerKTiles: int) -> Array:
    """Pack weights (n, k) of integers 0 to 15, two per byte: (n, k / 2) of uint8.

    >>> w = torch.tensor([[1, 2, 3, 4]], dtype=torch.int32)
    >>> torch._convert_weight_to_int4pack_for_cpu(w, 2)
    tensor([[33, 67]], dtype=torch.uint8)
    """
    if self.dtype != np.int32 or self.ndim != 2 or self.shape[1] % 2:
        raise RuntimeError("_convert_weight_to_int4pack_for_cpu: expect weight to be int32 (n, k) "
                           "with an even k.")
    result: np.ndarray = (self[:, 1::2] << 4 | self[:, ::2]).astype(np.uint8)
    return result


def _unpack(packed: np.ndarray) -> np.ndarray:
    result = np.empty((packed.shape[0], packed.shape[1] * 2), np.float32)
    result[:, ::2], result[:, 1::2] = packed & 15, packed >> 4
    return result


def _unpack_int4_weights(packed: np.ndarray, group: int, parameters: np.ndarray) -> np.ndarray:
    """The float32 weights (n, k): of each group of the depth, (integer - 8) * scale + zero."""
    integers = _unpack(packed)
    n, k = integers.shape
    scale, zero = (np.moveaxis(parameters[..., i].astype(np.float32), 0, 1)[..., None]
                   for i in (0, 1))
    weights = (integers.reshape(n, k // group, group) - 8) * scale + zero
    return weights.reshape(n, k)


def _int4_samples(rng: Rng) -> Iterator[Sample]:
    yield (rng.normal(size=(3, 64)).astype(np.float32),
           rng.integers(0, 256, (4, 32)).astype(np.uint8), 32,
           rng.uniform(0.1, 1, (2, 4, 2)).astype(np.float32)), {}


@opaque(name="_weight_int4pack_mm_for_cpu", expose=("torch",), differentiable=False,
        samples=_int4_samples, ref=lambda x, w, g, p: x @ _unpack_int4_weights(w, g, p).T)
def weight_int4pack_mm(self: Array, mat2: Array, qGroupSize: int, qScaleAndZeros: Array) -> Array:
    """Multiply rows (m, k) by packed 4-bit weights (n, k / 2).

    `qScaleAndZeros` (k / group, n, 2) holds, for each group of `qGroupSize` steps of the depth, the
    scale and the value that the midpoint, 8, represents. RuntimeError for groups other than 32, 64,
    128 or 256.

    >>> w = torch.full((1, 32), 0x99, dtype=torch.uint8)
    >>> parameters = torch.tensor([[[0.5, 0.]], [[1., 0.]]])
    >>> torch._weight_int4pack_mm_for_cpu(torch.ones(1, 64), w, 32, parameters)
    tensor([[48.]])
    """
    if qGroupSize not in (32, 64, 128, 256):
        raise RuntimeError("_weight_int4pack_mm_for_cpu: expect qGroupSize to be 32, 64, 128 or "
                           f"256, got {qGroupSize}")
    weights = _unpack_int4_weights(mat2, qGroupSize, qScaleAndZeros)
    return (self.astype(np.float32) @ weights.T).astype(self.dtype)
