"""Embedding tables in 8 or 4 bits, with a scale and a zero point per row."""

from __future__ import annotations

from typing import Any

from ..... import ops
from .....nn import functional as F
from .....nn.module import Module
from .....tensor import Tensor
from .....tensor.dtypes import quint4x2, quint8
from .weights import quantize_weight


def _check_table(dtype: Any) -> Any:
    """Return the dtype; NotImplementedError if embeddings do not support it."""
    if dtype not in (quint8, quint4x2):
        raise NotImplementedError(f"a table of {dtype} is not implemented in flambeau")
    return dtype


class Embedding(Module):
    """Embeddings stored as quint8 or quint4x2; lookups return float32.

    >>> torch.ao.nn.quantized.Embedding(10, 3)(torch.tensor([1, 2])).shape
    torch.Size([2, 3])
    """

    _version = 1

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Any = None, dtype: Any = quint8,
    ) -> None:
        super().__init__()
        _check_table(dtype)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx, self.dtype = padding_idx, dtype
        if _weight is None:
            _weight = ops.quantize_per_channel(
                ops.zeros(num_embeddings, embedding_dim), ops.ones(num_embeddings),
                ops.zeros(num_embeddings), 0, dtype)
        self.set_weight(_weight)

    def set_weight(self, w: Tensor) -> None:
        """Replace the table."""
        self.dtype = _check_table(w.dtype)
        self._table = w

    def weight(self) -> Tensor:
        """Return the table."""
        return self._table

    def _look_up_rows(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return the distinct rows that are looked up, in float32, and their positions."""
        chosen, inverse = indices.reshape(-1).unique(return_inverse=True)
        array: Any = self._table._array
        positions = chosen._array
        scale, zero = array.quantizer.scales[positions], array.quantizer.zero_points[positions]
        values = (array.rows(positions) - zero[:, None]) * scale[:, None]
        return ops.tensor(values.astype("float32")), inverse.reshape(indices.shape)

    def forward(self, indices: Tensor) -> Tensor:
        """Return the vectors as float32."""
        rows, positions = self._look_up_rows(indices)
        return F.embedding(positions, rows)

    def _get_name(self) -> str:
        return "QuantizedEmbedding"

    def extra_repr(self) -> str:
        """Return sizes and scheme."""
        table: Any = self._table
        return (f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, "
                f"dtype={self.dtype}, qscheme={table.qscheme()}")

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "_packed_params.dtype"] = self.dtype
        destination[prefix + "_packed_params._packed_weight"] = self._table

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        state_dict.pop(prefix + "_packed_params.dtype", None)
        self.set_weight(state_dict.pop(prefix + "_packed_params._packed_weight"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *lists)

    @classmethod
    def _quantize_table(cls, mod: Any) -> Tensor:
        assert hasattr(mod, "qconfig"), "Embedding input float module must have qconfig defined"
        observer = mod.qconfig.weight()
        _check_table(observer.dtype)
        observer(mod.weight.detach())
        return quantize_weight(mod.weight.float(), observer)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """Convert a float Embedding."""
        return cls._from_table(mod, cls._quantize_table(mod))

    @classmethod
    def from_reference(cls, ref_embedding: Any) -> Any:
        """Convert a reference module."""
        return cls._from_table(ref_embedding, ref_embedding.get_quantized_weight())

    @classmethod
    def _from_table(cls, mod: Any, table: Tensor) -> Any:
        return cls(mod.num_embeddings, mod.embedding_dim, mod.padding_idx, _weight=table,
                   dtype=table.dtype)


class EmbeddingBag(Embedding):
    """Embedding bags stored as quint8 or quint4x2, reduced in float32.

    >>> bag = torch.ao.nn.quantized.EmbeddingBag(10, 3)
    >>> bag(torch.tensor([1, 2, 4]), torch.tensor([0, 2])).shape
    torch.Size([2, 3])
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "sum",
        sparse: bool = False, _weight: Any = None, include_last_offset: bool = False,
        dtype: Any = quint8,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(
        self, indices: Tensor, offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None, compressed_indices_mapping: Any = None,
    ) -> Tensor:
        """Return the reduction of each bag."""
        rows, positions = self._look_up_rows(indices)
        return F.embedding_bag(positions, rows, offsets, mode=self.mode,
                               per_sample_weights=per_sample_weights,
                               include_last_offset=self.include_last_offset)

    def _get_name(self) -> str:
        return "QuantizedEmbeddingBag"

    @classmethod
    def _from_table(cls, mod: Any, table: Tensor) -> Any:
        return cls(mod.num_embeddings, mod.embedding_dim, mode=mod.mode, _weight=table,
                   include_last_offset=mod.include_last_offset, dtype=table.dtype)
