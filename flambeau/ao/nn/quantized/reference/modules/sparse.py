"""Embeddings of torch.ao.nn.quantized.reference."""

from __future__ import annotations

from typing import Any

from ......nn import functional as F
from ......nn import modules as float_modules
from ......tensor import Tensor
from .utils import ReferenceQuantizedModule


class Embedding(ReferenceQuantizedModule, float_modules.Embedding):
    """A table with rounded rows."""

    def __init__(
        self, *args: Any, weight_qparams: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        float_modules.Embedding.__init__(self, *args, **kwargs)
        self._init_weight_qparams(weight_qparams, None)

    def forward(self, input: Tensor) -> Tensor:
        """The rounded rows."""
        return F.embedding(input, self.get_weight(), self.padding_idx, self.max_norm,
                           self.norm_type, self.scale_grad_by_freq, self.sparse)

    @classmethod
    def from_float(cls, mod: Any, weight_qparams: dict[str, Any]) -> Any:
        """With a float module's rows."""
        return cls(mod.num_embeddings, mod.embedding_dim, mod.padding_idx, mod.max_norm,
                   mod.norm_type, mod.scale_grad_by_freq, mod.sparse, mod.weight,
                   weight_qparams=weight_qparams)


class EmbeddingBag(ReferenceQuantizedModule, float_modules.EmbeddingBag):
    """A table with rounded rows, which are summed."""

    def __init__(
        self, *args: Any, weight_qparams: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        float_modules.EmbeddingBag.__init__(self, *args, **kwargs)
        self._init_weight_qparams(weight_qparams, None)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """The bags of rounded rows."""
        return F.embedding_bag(
            input, self.get_weight(), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
            self.include_last_offset, self.padding_idx)

    @classmethod
    def from_float(cls, mod: Any, weight_qparams: dict[str, Any]) -> Any:
        """With a float module's rows."""
        return cls(mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type,
                   mod.scale_grad_by_freq, mod.mode, mod.sparse, mod.weight,
                   mod.include_last_offset, mod.padding_idx, weight_qparams=weight_qparams)

    def _get_name(self) -> str:
        return "QuantizedEmbedding(Reference)"
