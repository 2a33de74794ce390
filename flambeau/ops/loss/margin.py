"""Losses with a margin: rankings, several classes, several labels, angles, triplets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tensor.capture_marks import are_all_true, holds
from ...tensor.dtypes import int64
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor
from ..core.autocast import Policy, make_autocasting
from ..core.operator import publish
from ..core.registry import composite
from ..linalg.vector_distance import pairwise_distance
from ..pointwise.selection import where
from .reduction import NONE, parse_reduction, reduce_tensor

_LEAST_SQUARE = 1e-12


def _margin_ranking(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, reduction: int | str = NONE
) -> Tensor:
    """Compute max(0, margin - target * (input1 - input2)), with the reduction as a number.

    Args:
        reduction (int): 0: each loss, 1: their mean, 2: their sum.

    Returns:
        Tensor: Each loss, or their mean or sum as a 0-dimensional tensor.

    >>> torch.margin_ranking_loss(torch.tensor([1.]), torch.tensor([3.]), torch.ones(1), 0., 1)
    tensor(2.)
    """
    return reduce_tensor((-target * (input1 - input2) + margin).clamp_min(0), reduction)


publish(make_autocasting("margin_ranking_loss", _margin_ranking, Policy.FULL),
        ("margin_ranking_loss",),
        ("torch",))


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
    size_average: bool | None = None, reduce: bool | None = None, reduction: int | str = "mean"
) -> Tensor:
    """Compute max(0, margin - target * (input1 - input2)).

    Target 1 ranks input1 above input2, -1 the opposite.

    >>> x, y = torch.tensor([1.]), torch.tensor([3.])
    >>> torch.nn.functional.margin_ranking_loss(x, y, torch.tensor([1]))
    tensor(2.)
    """
    number = parse_reduction(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return _margin_ranking(input1, input2, target, margin, number)


def _cosine_embedding(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int | str = NONE
) -> Tensor:
    """Compute the cosine embedding loss, with the reduction as a number.

    Each loss is 1 - cos where the target is 1, max(0, cos - margin) where it is -1.

    Args:
        reduction (int): 0: each loss, 1: their mean, 2: their sum.

    Returns:
        Tensor: Each loss, or their mean or sum as a 0-dimensional tensor.

    >>> torch.cosine_embedding_loss(torch.ones(1, 2), torch.ones(1, 2), torch.tensor([-1.]), 0.5, 1)
    tensor(0.5000)
    """
    if target.dim() > 1 or target.dim() + 1 != input1.dim() or input1.dim() != input2.dim():
        if target.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        rank = target.dim() + 1
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {rank}D input tensors, but found inputs with "
            f"sizes {list(input1.size())} and {list(input2.size())}."
        )
    squares = [(x * x).sum(-1) + _LEAST_SQUARE for x in (input1, input2)]
    cos = (input1 * input2).sum(-1) / (squares[0] * squares[1]).sqrt()
    y = where(target == 1, 1 - cos, 0) + where(target == -1, (cos - margin).clamp_min(0), 0)
    return reduce_tensor(y, reduction)


publish(make_autocasting("cosine_embedding_loss", _cosine_embedding, Policy.FULL),
        ("cosine_embedding_loss",), ("torch",))


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
    size_average: bool | None = None, reduce: bool | None = None, reduction: int | str = "mean"
) -> Tensor:
    """Return 1 - cos for pairs with target 1, max(0, cos - margin) for pairs with target -1.

    input1 and input2 (n, d) or (d,), target (n,) or ().

    >>> x, y = torch.tensor([[1., 0.]]), torch.tensor([[2., 0.]])
    >>> torch.nn.functional.cosine_embedding_loss(x, y, torch.tensor([-1]), margin=0.5)
    tensor(0.5000)
    """
    number = parse_reduction(reduction, size_average, reduce)
    return _cosine_embedding(input1, input2, target, margin, number)


# -------------------------------------------------------------------------------- classes


def _check_rows(input: Tensor) -> None:
    shape = input._array.shape
    if len(shape) > 2 or 0 in shape[-1:]:
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(shape)}"
        )


def _select_positive(y: Tensor) -> Tensor:
    """Return the positive elements, and zeros in place of others and of NaN."""
    return y.masked_fill((y > 0).logical_not(), 0)


@composite(autocast=Policy.FULL, expose=("nn.functional",), node="MultiMarginLossBackward0")
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Compute the mean over classes of max(0, margin - (score of the target) + score) ** p.

    input (n, classes) or (classes,), target (n,) or () of class indices.

    Args:
        p: The exponent of each term, 1 or 2.
        target: Class indices, (n,) or (), int64.

    >>> torch.nn.functional.multi_margin_loss(torch.tensor([0.1, 0.2, 0.9]), torch.tensor(2))
    tensor(0.1667)
    """
    number = parse_reduction(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    _check_rows(input)
    classes = input.size(-1) if input.dim() else 1
    x = input.reshape(-1, classes)
    if target.dim() > 1 or target.numel() != x.size(0):
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{x.size(0)}], but got "
            f"{list(target.size())}. Input has shape {list(input.size())}."
        )
    if weight is not None and weight.size(0) != classes:
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.size())}"
        )
    if target.dtype is not int64:
        raise RuntimeError(f"expected scalar type Long but found {legacy_name(target.dtype)}")
    columns = target.reshape(-1, 1)
    if columns.numel() and not holds((columns >= 0) & (columns < classes), are_all_true):
        raise RuntimeError("target out of range")
    y = _select_positive(margin - x.gather(1, columns) + x).scatter(1, columns, value=0.0)
    y = y * y if p == 2 else y
    y = y if weight is None else y * weight[columns]
    y = y.sum(1) / classes
    return reduce_tensor(y if input.dim() == 2 else y.reshape(target.shape), number)


@composite(autocast=Policy.FULL, expose=("nn.functional",), node="MultilabelMarginLossBackward0")
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean"
) -> Tensor:
    """Compute the multi-label hinge loss, max(0, 1 - (score of a label) + (score of a non-label)).

    The sum over such pairs is divided by the number of classes. input (n, classes) or (classes,);
    target the same, label indices up to the first -1.

    Args:
        target: Class indices up to the first -1, int64, of the shape of `input`.

    >>> scores, labels = torch.tensor([0.1, 0.2, 0.8]), torch.tensor([2, 0, -1])
    >>> torch.nn.functional.multilabel_margin_loss(scores, labels)
    tensor(0.5000)
    """
    number = parse_reduction(reduction, size_average, reduce)
    _check_rows(input)
    if target.size() != input.size():
        raise RuntimeError(
            f"inconsistent target size: {list(target.size())} for input of size: "
            f"{list(input.size())}"
        )
    classes = input.size(-1) if input.dim() else 1
    x, labels = input.reshape(-1, classes), target.reshape(-1, classes)
    if labels.numel() and not holds((labels >= -1) & (labels < classes), are_all_true):
        raise RuntimeError("argument #2 'target' is out of range")
    listed = (labels == -1).long().cumsum(1) == 0  # before the first -1
    targets = labels.masked_fill(~listed, 0)
    is_label = x.detach().new_zeros(x.shape).scatter_add(1, targets, listed.to(x.dtype)) > 0
    y = 1 - x.gather(1, targets).unsqueeze(2) + x.unsqueeze(1)  # (n, labels, classes)
    y = _select_positive(y).masked_fill(~listed.unsqueeze(2) | is_label.unsqueeze(1), 0)
    y = y.sum((1, 2)) / classes
    return reduce_tensor(y if input.dim() == 2 else y.reshape(()), number)


# -------------------------------------------------------------------------------- triplets


def _triplet(anchor: Tensor, positive: Tensor, negative: Tensor, distance: Callable,
             margin: float, swap: bool, number: int | str) -> Tensor:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    ranks = [x.dim() for x in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {ranks[0]}D, positive {ranks[1]}D, and negative "
            f"{ranks[2]}D inputs"
        )
    positive_distance, negative_distance = distance(anchor, positive), distance(anchor, negative)
    if swap:
        negative_distance = negative_distance.minimum(distance(positive, negative))
    return reduce_tensor((margin + positive_distance - negative_distance).clamp_min(0), number)


def _torch_triplet(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: int | str = NONE
) -> Tensor:
    """Compute the triplet margin loss, with the reduction as a number.

    Each loss is max(0, margin + |anchor - positive| - |anchor - negative|).

    Args:
        reduction (int): 0: each loss, 1: their mean, 2: their sum.

    Returns:
        Tensor: Each loss, or their mean or sum as a 0-dimensional tensor.

    >>> anchor, near, far = torch.tensor([[0.], [1.], [1.5]]).unsqueeze(1)
    >>> torch.triplet_margin_loss(anchor, near, far, reduction=1)
    tensor(0.5000)
    """

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


publish(make_autocasting("triplet_margin_loss", _torch_triplet, Policy.FULL),
        ("triplet_margin_loss",),
        ("torch",))


@composite(autocast=Policy.FULL, expose=("nn.functional",))
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, size_average: bool | None = None,
    reduce: bool | None = None, reduction: int | str = "mean"
) -> Tensor:
    """Compute max(0, margin + |anchor - positive| - |anchor - negative|).

    Distances are p-norms along the last axis. `swap`: use the distance from positive to negative
    if it is smaller.

    >>> anchor, near, far = torch.tensor([[0.], [1.], [1.5]]).unsqueeze(1)
    >>> torch.nn.functional.triplet_margin_loss(anchor, near, far)
    tensor(0.5000)
    """
    number = parse_reduction(reduction, size_average, reduce)
    return _torch_triplet(anchor, positive, negative, margin, p, eps, swap, number)


@composite(expose=("nn.functional",), explains=True)
def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None,
    margin: float = 1.0, swap: bool = False, reduction: str = "mean"
) -> Tensor:
    """Compute the triplet margin loss with a custom distance function.

    >>> anchor, near, far = torch.tensor([[0.], [1.], [1.5]]).unsqueeze(1)
    >>> torch.nn.functional.triplet_margin_with_distance_loss(
    ...     anchor, near, far, distance_function=lambda x, y: abs(x - y).sum(-1))
    tensor(0.5000)
    """
    number = parse_reduction(reduction)
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet(anchor, positive, negative, distance, margin, swap, number)
