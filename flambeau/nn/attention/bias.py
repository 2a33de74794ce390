"""Causal masks for scaled_dot_product_attention that need not be stored in memory."""

from __future__ import annotations

import enum
from typing import Any

from ... import ops
from ...native.foundation.user_frames import warn
from ...tensor import Tensor
from ...tensor import dtypes as types
from .. import functional as F

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """The corner of the score matrix that a causal mask's triangle is aligned with.

    >>> torch.nn.attention.bias.CausalVariant.LOWER_RIGHT.name
    'LOWER_RIGHT'
    """

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A mask that lets each query attend to keys up to its position, counted from a corner.

    variant: the corner; seq_len_q, seq_len_kv: rows and columns. Functions other than
    scaled_dot_product_attention see an uninitialized tensor, as in PyTorch.

    Raises AssertionError for a variant of another class.

    >>> bias = torch.nn.attention.bias.causal_lower_right(2, 3)
    >>> bias
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(
                f"variant must be a CausalVariant, got {type(variant).__name__}")
        super().__init__()
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            warn("Lower right causal bias will produce NaNs in the output when seq_len_q > "
                 "seq_len_kv!")

    def _materialize(self, device: Any = None) -> Tensor:
        """Return the mask as a bool tensor, True where a query attends to a key."""
        aligned = self.variant == CausalVariant.LOWER_RIGHT
        shift = self.seq_len_kv - self.seq_len_q if aligned else 0
        return ops.tril(ops.ones(self.seq_len_q, self.seq_len_kv, dtype=types.bool_), shift)

    @staticmethod
    def _dispatch(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: CausalBias, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Tensor:
        """Attend under this mask, using `is_causal` for upper-left and square masks."""
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        square = attn_mask.seq_len_q == attn_mask.seq_len_kv
        is_upper_left = square or attn_mask.variant == CausalVariant.UPPER_LEFT
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=None if is_upper_left else attn_mask._materialize(),
            dropout_p=dropout_p, is_causal=is_upper_left, scale=scale, enable_gqa=enable_gqa)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is F.scaled_dot_product_attention:
            return cls._dispatch(*args, **kwargs or {})
        return super().__torch_function__(func, types, args, kwargs or {})

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return repr(self._materialize())


def causal_upper_left(*size: int) -> CausalBias:
    """Return the mask aligned with the upper left corner, like `is_causal=True`.

    size: number of queries, number of keys. Raises AssertionError unless there are two sizes.

    >>> torch.nn.attention.bias.causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    if len(size) != 2:
        raise AssertionError("causal_upper_left only supports 2D tensors")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """Return the mask aligned with the lower right corner, for decoding with a KV cache.

    size: number of queries, number of keys. Raises AssertionError unless there are two sizes.

    >>> torch.nn.attention.bias.causal_lower_right(1, 3)
    tensor([[True, True, True]])
    """
    if len(size) != 2:
        raise AssertionError("causal_lower_right only supports 2D tensors")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
