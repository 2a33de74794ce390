"""Formulas of losses. Those of other composites follow from their bodies."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from ..formula_table import formula, torch

_REDUCTIONS = ("none", "mean", "sum")  # by aten's numbers


def _reduce(values: Tensor, reduction: Any) -> Tensor:
    name = _REDUCTIONS[reduction] if isinstance(reduction, int) else reduction
    if name == "none":
        return values
    return values.mean() if name == "mean" else values.sum()


@formula("soft_margin_loss")
def _soft_margin(x: Tensor, target: Tensor, *_: Any, reduction: Any = "mean", **__: Any) -> Tensor:
    return _reduce((-target * x).exp().log1p(), reduction)


@formula("hinge_embedding_loss")
def _hinge_embedding(x: Tensor, target: Tensor, margin: float = 1.0, *_: Any,
                     reduction: Any = "mean", **__: Any) -> Tensor:
    zero = torch.zeros_like(x)
    outside = torch.where(target == 1, zero, (margin - x).clamp(min=0))
    inside = torch.where(target == -1, zero, x)
    return _reduce(outside + inside, reduction)


@formula("margin_ranking_loss")
def _margin_ranking(a: Tensor, b: Tensor, target: Tensor, margin: float = 0.0, *_: Any,
                    reduction: Any = "mean", **__: Any) -> Tensor:
    return _reduce((-target * (a - b) + margin).clamp(min=0), reduction)


@formula("mse_loss")
def _mse(x: Tensor, target: Tensor, *_: Any, reduction: Any = "mean", weight: Any = None,
         **__: Any) -> Tensor:
    squares = (x - target) ** 2
    return _reduce(squares if weight is None else squares * weight, reduction)


@formula("l1_loss")
def _l1(x: Tensor, target: Tensor, *_: Any, reduction: Any = "mean", weight: Any = None,
        **__: Any) -> Tensor:
    distance = (x - target).abs()
    return _reduce(distance if weight is None else distance * weight, reduction)


@formula("huber_loss")
def _huber(x: Tensor, target: Tensor, reduction: Any = "mean", delta: float = 1.0,
           weight: Any = None) -> Tensor:
    distance = (x - target).abs()
    values = torch.where(distance < delta, distance * distance * 0.5,
                         delta * (distance - delta / 2))
    return _reduce(values if weight is None else values * weight, reduction)


@formula("smooth_l1_loss")
def _smooth_l1(x: Tensor, target: Tensor, *_: Any, reduction: Any = "mean", beta: float = 1.0,
               **__: Any) -> Tensor:
    distance = (x - target).abs()
    if beta == 0:
        return _reduce(distance, reduction)
    near = distance * distance * (0.5 / beta)
    return _reduce(torch.where(distance < beta, near, distance - beta / 2), reduction)


@formula("binary_cross_entropy")
def _binary_cross_entropy(x: Tensor, target: Tensor, weight: Any = None, *_: Any,
                          reduction: Any = "mean", **__: Any) -> Tensor:
    low = -100.0  # PyTorch's bound of a logarithm
    values = -(target * x.log().clamp(min=low) + (1 - target) * (1 - x).log().clamp(min=low))
    return _reduce(values if weight is None else values * weight, reduction)


@formula("binary_cross_entropy_with_logits")
def _binary_with_logits(x: Tensor, target: Tensor, weight: Any = None, *_: Any,
                        reduction: Any = "mean", pos_weight: Any = None, **__: Any) -> Tensor:
    softplus = torch.nn.functional.softplus(-x)
    factor = 1 if pos_weight is None else (pos_weight - 1) * target + 1
    values = (1 - target) * x + factor * softplus
    return _reduce(values if weight is None else values * weight, reduction)


@formula("multilabel_soft_margin_loss")
def _multilabel_soft_margin(x: Tensor, target: Tensor, weight: Any = None, *_: Any,
                            reduction: Any = "mean", **__: Any) -> Tensor:
    log_sigmoid = torch.nn.functional.logsigmoid
    values = -(target * log_sigmoid(x) + (1 - target) * log_sigmoid(-x))
    values = values if weight is None else values * weight
    return _reduce(values.mean(-1), reduction)


@formula("kl_div")
def _kl_div(x: Tensor, target: Tensor, *_: Any, reduction: Any = "mean",
            log_target: bool = False, **__: Any) -> Tensor:
    values = target.exp() * (target - x) if log_target else \
        torch.xlogy(target, target) - target * x
    if reduction == "batchmean":
        return values.sum() / (x.shape[0] if x.ndim else 1)
    return _reduce(values, reduction)


@formula("poisson_nll_loss")
def _poisson(x: Tensor, target: Tensor, log_input: bool = True, full: bool = False, *_: Any,
             eps: float = 1e-8, reduction: Any = "mean", **__: Any) -> Tensor:
    values = x.exp() - target * x if log_input else x - target * (x + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * torch.pi * target).log()
        values = values + torch.where(target <= 1, torch.zeros_like(values), stirling)
    return _reduce(values, reduction)


@formula("multi_margin_loss")
def _multi_margin(x: Tensor, target: Tensor, p: Any = 1, margin: float = 1.0, weight: Any = None,
                  *_: Any, reduction: Any = "mean", **__: Any) -> Tensor:
    rows, labels = (x, target) if x.ndim > 1 else (x.unsqueeze(0), target.reshape(1))
    own = rows.gather(1, labels.unsqueeze(1))
    excess = (margin - own + rows).clamp(min=0)
    excess = excess if p == 1 else excess * excess
    if weight is not None:
        excess = excess * weight.index_select(0, labels).unsqueeze(1)
    is_own = torch.arange(rows.shape[1]) == labels.unsqueeze(1)
    values = torch.where(is_own, torch.zeros_like(excess), excess).sum(1) / rows.shape[1]
    return _reduce(values if x.ndim > 1 else values.squeeze(0), reduction)


@formula("nll_loss")
def _nll(x: Tensor, target: Tensor, weight: Any = None, *_: Any, ignore_index: int = -100,
         reduction: Any = "mean", **__: Any) -> Tensor:
    axis = 1 if x.ndim > 1 else 0
    is_counted = target != ignore_index
    labels = torch.where(is_counted, target, torch.zeros_like(target))
    values = -x.gather(axis, labels.unsqueeze(axis)).squeeze(axis)
    factors = is_counted.to(x.dtype)
    if weight is not None:
        chosen = weight.index_select(0, labels.reshape(-1))
        factors = factors * chosen.reshape(labels.shape)
    values = values * factors
    name = _REDUCTIONS[reduction] if isinstance(reduction, int) else reduction
    return values.sum() / factors.sum() if name == "mean" else _reduce(values, name)


@formula("cross_entropy", "cross_entropy_loss")
def _cross_entropy(x: Tensor, target: Tensor, weight: Any = None, *_: Any,
                   ignore_index: int = -100, reduction: Any = "mean",
                   label_smoothing: float = 0.0, **__: Any) -> Tensor:
    axis = 1 if x.ndim > 1 else 0
    logarithms = x.log_softmax(axis)
    if label_smoothing or target.is_floating_point():
        if not target.is_floating_point() or weight is not None:
            raise NotImplementedError("cross_entropy with smoothed labels or weighted classes")
        smooth = target * (1 - label_smoothing) + label_smoothing / x.shape[axis]
        values = -(logarithms * smooth).sum(axis)
        return _reduce(values, reduction)
    return _nll(logarithms, target, weight, ignore_index=ignore_index, reduction=reduction)


@formula("cosine_similarity")
def _cosine_similarity(x: Tensor, y: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    x, y = torch.broadcast_tensors(x, y)
    norms = [(v * v).sum(dim, True).sqrt().clamp(min=eps) for v in (x, y)]
    return ((x / norms[0]) * (y / norms[1])).sum(dim)
