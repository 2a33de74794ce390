"""Cross entropy of a linear layer's outputs, the layer and the loss in one call."""

from __future__ import annotations

from typing import Any

from ...native.foundation.user_frames import warn
from ...tensor import dtypes as types
from ...tensor.tensor import Tensor
from ..core.registry import composite
from ..linalg.linear import linear
from .cross_entropy import cross_entropy


def _describe_refusal(input: Tensor, weight: Tensor, bias: Tensor | None) -> str | None:
    """The error message for shapes that do not fit, or None."""
    if input.dim() not in (1, 2):
        return f"expected input with dimensionality 1 or 2, got {input.dim()}"
    if weight.dim() < 2:
        return f"expected linear_weight with dimensionality at least 2, got {weight.dim()}"
    n, m = input.shape[-1], weight.shape[-1]
    if n != m:
        return (
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{n} and {m}, respectively"
        )
    expected = tuple(weight.shape[:-1])
    if bias is not None and tuple(bias.shape) != expected:
        return f"expected linear_bias shape {expected}, got {tuple(bias.shape)}"
    if len(expected) > 1 and input.dim() == 1:
        return (
            f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires "
            f"batched input, (N, {n}), got unbatched input with shape {tuple(input.shape)}"
        )
    return None


def _compute_logits(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if weight.dim() == 2:
        return linear(input, weight, bias)
    flat = weight.reshape(-1, weight.shape[-1])
    y = linear(input, flat, None if bias is None else bias.reshape(-1))
    return y.reshape(-1, *weight.shape[:-1])  # (batch, classes, positions...)


@composite(expose=("nn.functional",), explains=True)
def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: Any = None
) -> Tensor:
    """Compute cross_entropy(linear(input, linear_weight, linear_bias), target).

    input (in,) or (n, in), linear_weight (classes, ..., in). `options` only control PyTorch's
    memory use; they do not change the result.

    >>> x, weight, target = torch.zeros(3, 4), torch.zeros(10, 4), torch.tensor([0, 5, 9])
    >>> torch.nn.functional.linear_cross_entropy(x, weight, target)
    tensor(2.3026)
    """
    refusal = _describe_refusal(input, linear_weight, linear_bias)
    if refusal is not None:
        raise RuntimeError(refusal)
    logits = _compute_logits(input, linear_weight, linear_bias)
    if ignore_index is not None and target.shape == logits.shape:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if options is not None and (
        linear_weight.dim() > 2 or label_smoothing or target.dtype is not types.int64
    ):
        warn("linear_cross_entropy: options ignored: they need indices as targets, a "
             "matrix as weight, and no label_smoothing")
    return cross_entropy(
        logits, target, weight, ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction, label_smoothing=label_smoothing,
    )
