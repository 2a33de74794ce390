"""Inputs of masked reductions: replace masked-out elements by the reduction's identity."""

from __future__ import annotations

from typing import Any

from ...autograd.function import Function
from ...tensor.tensor import Tensor
from ..reductions import _input_mask, _reduction_identity, _where
from .core import as_masked_tensor, is_masked_tensor


class _Combination(Function):
    """The input where the mask is True, else `filling`. Gradients are masked tensors."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, mask: Tensor, filling: Tensor | None) -> Tensor:
        """Replace the masked-out elements."""
        ctx.mask = mask
        return _where(_input_mask(input, mask=mask), input, filling)

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """Return the cotangent as a masked tensor with the input's mask."""
        data = gs[0].get_data() if is_masked_tensor(gs[0]) else gs[0]
        return as_masked_tensor(data, ctx.mask), None, None


def _combine_input_and_mask(op: Any, input: Any, mask: Tensor | None, *args: Any) -> Tensor:
    """Return the input with the identity of the reduction `op` where the mask is False."""
    if is_masked_tensor(input):
        input, mask = input.get_data(), input.get_mask()
        masked: Tensor = _Combination.apply(
            input, mask, _reduction_identity(op.__name__, input, *args))
        return masked
    if mask is None:
        unmasked: Tensor = input
        return unmasked
    if not callable(op):
        raise ValueError("_combine_input_and_mask expected masked operation (got "
                         f"{type(op).__name__} object)")
    identity = _reduction_identity(op.__name__, input, *args)
    return _where(_input_mask(input, mask=mask), input, identity)
