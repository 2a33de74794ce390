"""Tables of vectors in 8, 4 or 2 bits, and bags of their rows: `torch.ops.quantized.embedding_*`.

Rows of bytes hold the integers, then the row's step and least value: of 8 bits as float32, of fewer
as float16. A table that was quantized by channel has its numbers beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor.dtypes import quint4x2, quint8
from ...tensor.quantized import QuantizedArray, QuantizedTensor, wrap_quantized
from ...tensor.quantizers import PerChannel
from ...tensor.tensor import Tensor, wrap
from ..core.operator import PUBLIC
from .parameter_search import choose_qparams_optimized

_functional = PUBLIC["nn.functional"]


class EmbeddingPackedParams:
    """A table quantized by row, in quint8 or quint4x2."""

    def __init__(self, weight: Any) -> None:
        if not isinstance(weight, QuantizedTensor) or weight.dtype not in (quint8, quint4x2):
            raise RuntimeError("quantized::embedding_bag_prepack takes tables of quint8 and "
                               "quint4x2")
        if not isinstance(weight._array.quantizer, PerChannel):
            raise RuntimeError("quantized::embedding_bag_prepack takes tables that are quantized "
                               "by row")
        self.array: QuantizedArray = weight._array
        self.count = weight.shape[0]

    def unpack(self) -> Tensor:
        """Return the table as a quantized tensor."""
        return wrap_quantized(self.array)

    def rows(self, positions: np.ndarray) -> np.ndarray:
        """Some rows as float32."""
        quantizer: Any = self.array.quantizer
        scales = quantizer.scales[positions][:, None]
        zeros = quantizer.zero_points[positions][:, None]
        return ((self.array.rows(positions) - zeros) * scales).astype(np.float32)

    def __getstate__(self) -> Any:
        return self.unpack()

    def __setstate__(self, state: Any) -> None:
        EmbeddingPackedParams.__init__(self, state)


def embedding_bag_prepack(weight: Tensor) -> EmbeddingPackedParams:
    """Pack a table quantized by row for lookup."""
    return EmbeddingPackedParams(weight)


def embedding_bag_unpack(W_prepack: EmbeddingPackedParams) -> Tensor:
    """Return the quantized table of packed parameters."""
    return W_prepack.unpack()


# ------------------------------------------------------------------ rows of bytes


def embedding_bag_byte_prepack(weight: Tensor) -> Tensor:
    """Quantize rows to 8 bits, each followed by its float32 step and least value."""
    values = weight.detach()._array.astype(np.float32)
    low, high = (f(axis=-1, keepdims=True) for f in (values.min, values.max))
    span = high - low
    codes = np.rint((values - low) * (np.float32(255) / (span + np.float32(1e-8))))
    tail = np.concatenate([span / np.float32(255), low], -1).astype(np.float32)
    return wrap(np.concatenate([codes.astype(np.uint8), tail.view(np.uint8)], -1))


def embedding_bag_byte_unpack(weight: Tensor) -> Tensor:
    """Return rows of bytes as float32 numbers."""
    return wrap(_unpack_byte_rows(weight._array))


def _unpack_byte_rows(table: np.ndarray) -> np.ndarray:
    tail = np.ascontiguousarray(table[..., -8:]).view(np.float32)
    rows: np.ndarray = table[..., :-8].astype(np.float32) * tail[..., :1] + tail[..., 1:]
    return rows


def _prepack_narrow(weight: Tensor, bits: int, optimized: bool) -> Tensor:
    values = weight.detach()._array.astype(np.float32)
    codes_per_byte, max_code = 8 // bits, np.float32(2**bits - 1)
    low, high = values.min(-1, keepdims=True), values.max(-1, keepdims=True)
    if optimized:
        for i, row in enumerate(values):
            ends = choose_qparams_optimized(wrap(row), row.size, 200, 0.16, bits)
            high[i], low[i] = (end._array for end in ends)
    low = low.astype(np.float16)
    span = high - low.astype(np.float32)
    step = np.where(span == 0, np.float32(1), span / max_code).astype(np.float16)
    step = np.where(step == 0, np.float16(1), step)
    inverse = np.float32(1) / step.astype(np.float32)
    codes = np.clip(np.rint((values - low.astype(np.float32)) * inverse), 0, max_code)
    columns = -(-values.shape[-1] // codes_per_byte) * codes_per_byte
    padded = np.zeros((*values.shape[:-1], columns), np.uint8)
    padded[..., : values.shape[-1]] = codes
    shifts = np.arange(codes_per_byte, dtype=np.uint8) * np.uint8(bits)
    packed = np.bitwise_or.reduce(
        padded.reshape(*padded.shape[:-1], -1, codes_per_byte) << shifts, axis=-1)
    tail = np.concatenate([step, low], -1)
    return wrap(np.concatenate([packed, tail.view(np.uint8)], -1))


def _narrow_rows(table: np.ndarray, bits: int) -> np.ndarray:
    tail = np.ascontiguousarray(table[..., -4:]).view(np.float16).astype(np.float32)
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    codes = (table[..., :-4, None] >> shifts) & np.uint8(2**bits - 1)
    values = codes.reshape(*table.shape[:-1], codes.shape[-2] * codes.shape[-1])
    rows: np.ndarray = values.astype(np.float32) * tail[..., :1] + tail[..., 1:]
    return rows


def _declare_packing(bits: int) -> tuple[Callable, Callable]:
    def prepack(
        weight: Tensor, optimized_qparams: bool = False, nbins: int = 200, ratio: float = 0.16
    ) -> Tensor:
        """Rows of integers of less than a byte, each with its step and least value as float16.

        `optimized_qparams`: the range of each row is the one with the least error.
        """
        return _prepack_narrow(weight, bits, optimized_qparams)

    def unpack(weight: Tensor) -> Tensor:
        """The float32 numbers of rows of bytes."""
        return wrap(_narrow_rows(weight._array, bits))

    return prepack, unpack


embedding_bag_4bit_prepack, embedding_bag_4bit_unpack = _declare_packing(4)
embedding_bag_2bit_prepack, embedding_bag_2bit_unpack = _declare_packing(2)


# ------------------------------------------------------------------ looking up


def _look_up_rows(
    indices: Any, rows_of: Callable, pruned: bool, mapping: Any
) -> tuple[Tensor, Tensor]:
    """The rows that are looked up, each once, and their numbers; pruned rows are zeros."""
    chosen, inverse = np.unique(indices._array.reshape(-1), return_inverse=True)
    positions = chosen.astype(np.int64)
    if pruned and mapping is not None and mapping.numel() > 1:
        positions = mapping._array[positions].astype(np.int64)
    rows = rows_of(np.maximum(positions, 0))
    rows[positions < 0] = 0
    return wrap(rows), wrap(inverse.reshape(indices.shape).astype(np.int64))


def _declare_bag(rows_of: Callable) -> Callable:
    def embedding_bag(
        weight: Any, indices: Tensor, offsets: Tensor | None = None,
        scale_grad_by_freq: bool = False, mode: int = 0, pruned_weights: bool = False,
        per_sample_weights: Tensor | None = None,
        compressed_indices_mapping: Tensor | None = None, include_last_offset: bool = False,
    ) -> Tensor:
        """The sum of each bag of rows, as float32."""
        if mode != 0:
            raise RuntimeError("quantized embedding bags only add up: mode must be 0")
        rows, places = _look_up_rows(indices, lambda chosen: rows_of(weight, chosen),
                                     pruned_weights, compressed_indices_mapping)
        return _functional["embedding_bag"](
            places, rows, None if offsets is None else offsets.long(), mode="sum",
            per_sample_weights=per_sample_weights, include_last_offset=include_last_offset)

    return embedding_bag


def _read_packed_rows(weight: EmbeddingPackedParams, chosen: np.ndarray) -> np.ndarray:
    return weight.rows(chosen)


embedding_bag_byte = embedding_bag_4bit = embedding_bag_2bit = _declare_bag(_read_packed_rows)
embedding_bag_byte_rowwise_offsets = _declare_bag(lambda w, i: _unpack_byte_rows(w._array[i]))
embedding_bag_4bit_rowwise_offsets = _declare_bag(lambda w, i: _narrow_rows(w._array[i], 4))
embedding_bag_2bit_rowwise_offsets = _declare_bag(lambda w, i: _narrow_rows(w._array[i], 2))


def embedding_byte(
    weight: EmbeddingPackedParams, indices: Tensor, pruned_weights: bool = False
) -> Tensor:
    """Look up rows of a packed table, as float32."""
    rows, places = _look_up_rows(indices, weight.rows, False, None)
    return _functional["embedding"](places, rows)


embedding_4bit = embedding_2bit = embedding_byte
