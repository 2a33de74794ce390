"""Distances and similarities of vectors along an axis, and their normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.capture_marks import shape_only
from ...tensor.promotion import legacy_name, result_dtype
from ...tensor.tensor import Tensor, wrap
from ..core.errors import broadcast_mismatch
from ..core.out import write_result
from ..core.registry import composite


def _broadcast(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    a, b = x1._array.shape, x2._array.shape
    if a == b:
        return x1, x2
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError:
        raise RuntimeError(broadcast_mismatch([a, b])) from None
    return x1.expand(shape), x2.expand(shape)


def clamp_from(x: Tensor, minimum: float) -> Tensor:
    """max(x, least) whose gradient is that of x."""
    low = x.detach()
    return x if bool((low >= minimum).all()) else x + (low.clamp(min=minimum) - low)


@composite(expose=("torch", "nn.functional"), explains=True)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Compute the cosine of the angle between vectors along `dim`; norms are at least `eps`.

    >>> torch.cosine_similarity(torch.tensor([[1., 0.]]), torch.tensor([[2., 0.]]))
    tensor([1.])
    """
    kind = result_dtype((x1, x2))
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {legacy_name(kind)}"
        )
    x1, x2 = _broadcast(x1.to(kind), x2.to(kind))
    norms = [clamp_from(x.norm(2, dim, True), eps) for x in (x1, x2)]
    return (x1 / norms[0] * (x2 / norms[1])).sum(dim)


@composite(expose=("torch", "nn.functional"), explains=True, node="NormBackward1")
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Compute the p-norm of x1 - x2 + eps along the last axis.

    >>> torch.pairwise_distance(torch.tensor([[0., 0.]]), torch.tensor([[3., 4.]]), eps=0)
    tensor([5.])
    """
    x1, x2 = _broadcast(x1, x2)
    return (x1 - x2 + eps).norm(p, -1, keepdim)


@composite(expose=("torch", "nn.functional"), explains=True, node="PdistBackward0")
@shape_only
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Compute the distances between all pairs of a matrix's rows, starting with the first row's.

    Args:
        input: The vectors, (n, d).

    >>> torch.pdist(torch.tensor([[0., 0.], [3., 4.], [0., 1.]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    n = input.size(0)
    if n < 2:
        return input.new_empty(0) if not input.requires_grad else input.reshape(-1)[:0]
    rows, columns = np.triu_indices(n, 1)
    first, second = wrap(rows), wrap(columns)
    return (input.index_select(0, first) - input.index_select(0, second)).norm(p, 1)


@composite(expose=("nn.functional",), explains=True)
def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None
) -> Tensor:
    """Divide `input` by its norm along `dim`, clamped to at least `eps`.

    >>> torch.nn.functional.normalize(torch.tensor([[3., 4.]]))
    tensor([[0.6000, 0.8000]])
    """
    y = input / input.norm(p, dim, True).clamp_min(eps)
    return y if out is None else write_result("div", y, out)
