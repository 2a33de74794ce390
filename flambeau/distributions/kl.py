"""Kullback-Leibler divergences, by the classes of the two distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import linalg, ops
from ..ops.activation.softplus import softplus
from ..tensor.tensor import Tensor
from .combined import Independent, TransformedDistribution
from .discrete import Bernoulli, Categorical, OneHotCategorical, Poisson
from .distribution import Distribution, sum_rightmost
from .multivariate import MultivariateNormal
from .positive import Beta, Dirichlet, Exponential, Gamma
from .real_line import Laplace, Normal, Uniform

_RULES: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """Declares the divergence of a pair of classes (and of theirs).

    >>> D = torch.distributions
    >>> class Mine(D.Normal):
    ...     pass
    >>> @D.register_kl(Mine, Mine)
    ... def _(p, q):
    ...     return torch.tensor(42.)
    >>> D.kl_divergence(Mine(0., 1.), Mine(0., 1.))
    tensor(42.)
    """

    def declare(rule: Callable[[Any, Any], Tensor]) -> Callable:
        _RULES[type_p, type_q] = rule
        return rule

    return declare


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The mean of log p(x) - log q(x) over x of p.

    >>> N = torch.distributions.Normal
    >>> torch.distributions.kl_divergence(N(0., 1.), N(1., 1.))
    tensor(0.5000)
    """
    for one in type(p).__mro__:
        for other in type(q).__mro__:
            if (one, other) in _RULES:
                return _RULES[one, other](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


@register_kl(Normal, Normal)
def _(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Bernoulli, Bernoulli)
def _(p: Bernoulli, q: Bernoulli) -> Tensor:
    yes = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    no = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    found = yes.masked_fill(p.probs == 0, 0) + no.masked_fill(p.probs == 1, 0)
    return found.masked_fill(((q.probs == 0) & (p.probs > 0)) | ((q.probs == 1) & (p.probs < 1)),
                             math.inf)  # fmt: skip


@register_kl(Categorical, Categorical)
def _(p: Categorical, q: Categorical) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = t.masked_fill((q.probs == 0).expand_as(t), math.inf)
    return t.masked_fill((p.probs == 0).expand_as(t), 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Beta, Beta)
def _(p: Beta, q: Beta) -> Tensor:
    return kl_divergence(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    level = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return level + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return (b * (p.rate / q.rate).log() + ops.lgamma(b) - ops.lgamma(a)
            + (a - b) * ops.digamma(a) + (q.rate - p.rate) * (a / p.rate))  # fmt: skip


@register_kl(Laplace, Laplace)
def _(p: Laplace, q: Laplace) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Poisson, Poisson)
def _(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _(p: Uniform, q: Uniform) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return found.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(MultivariateNormal, MultivariateNormal)
def _(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    first, second = p.scale_tril, q.scale_tril
    levels = second.diagonal(dim1=-2, dim2=-1).log() - first.diagonal(dim1=-2, dim2=-1).log()
    batch = ops.broadcast_shapes(first.shape, second.shape)
    second = second.expand(batch)
    spread = linalg.solve_triangular(second, first.expand(batch), upper=False).pow(2).sum((-2, -1))
    away = (q.loc - p.loc).unsqueeze(-1)
    distance = linalg.solve_triangular(second, away, upper=False).pow(2).sum((-2, -1))
    return levels.sum(-1) + 0.5 * (spread + distance - p.event_shape[0])


@register_kl(Independent, Independent)
def _(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence of Independent with other numbers of axes")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    same = [type(t) for t in p.transforms] == [type(t) for t in q.transforms]
    if not same or any(vars(t) != vars(u) for t, u in zip(p.transforms, q.transforms, strict=True)):
        raise NotImplementedError("kl_divergence of distributions with other transforms")
    return kl_divergence(p.base_dist, q.base_dist)
