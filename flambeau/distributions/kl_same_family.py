"""Kullback-Leibler divergences of two distributions of one family."""

from __future__ import annotations

import math
from typing import Any

from .. import linalg, ops
from ..ops.activation.softplus import softplus
from ..tensor.tensor import Tensor
from .combined import Gumbel, HalfNormal, Independent, TransformedDistribution
from .continuous_bernoulli import ContinuousBernoulli
from .discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import EULER, sum_rightmost
from .kl import kl_divergence, register_kl
from .lowrank_normal import LowRankMultivariateNormal, log_determinant, squared_distance
from .multivariate import MultivariateNormal
from .positive import Beta, Dirichlet, Exponential, Gamma
from .real_line import Cauchy, Laplace, Normal, Uniform
from .transformed_families import Pareto


@register_kl(Normal, Normal)
def _(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Bernoulli, Bernoulli)
def _(p: Bernoulli, q: Bernoulli) -> Tensor:
    yes = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    yes = ops.where(q.probs == 0, math.inf, yes)
    yes = ops.where(p.probs == 0, 0.0, yes)
    no = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    no = ops.where(q.probs == 1, math.inf, no)
    no = ops.where(p.probs == 1, 0.0, no)
    return yes + no


@register_kl(Binomial, Binomial)
def _(p: Binomial, q: Binomial) -> Tensor:
    per_trial = (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return ops.where(p.total_count > q.total_count, math.inf, p.total_count * per_trial)


@register_kl(Geometric, Geometric)
def _(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - ops.log1p(-q.probs) / p.probs - q.logits


@register_kl(Categorical, Categorical)
def _(p: Categorical, q: Categorical) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = ops.where(q.probs == 0, math.inf, t)
    return ops.where(p.probs == 0, 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    level = p._flambeau_log_norm() - q._flambeau_log_norm()
    level = level + ops.log1p(-p.probs) - ops.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + level


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
            + (a - b) * ops.digamma(a) + (q.rate - p.rate) * (a / p.rate))


@register_kl(Laplace, Laplace)
def _(p: Laplace, q: Laplace) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _(p: Cauchy, q: Cauchy) -> Tensor:
    """Chyzak and Nielsen, "A closed-form formula for the Kullback-Leibler divergence between
    Cauchy distributions", 2019."""
    variance = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return variance.log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    t = p.loc / q.scale - q.loc / q.scale
    return ((-t + ops.lgamma(1 + ratio)).exp() + t - ratio.log() + ratio * EULER - (1 + EULER))


@register_kl(Pareto, Pareto)
def _(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    divergence = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return ops.where(p.scale < q.scale, math.inf, divergence)


@register_kl(Poisson, Poisson)
def _(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _(p: Uniform, q: Uniform) -> Tensor:
    divergence = ((q.high - q.low) / (p.high - p.low)).log()
    return ops.where((q.low > p.low) | (q.high < p.high), math.inf, divergence)


@register_kl(HalfNormal, HalfNormal)
def _(p: HalfNormal, q: HalfNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


# --------------------------------------------------------------------- normal vectors


def _normal_vectors(p: Any, q: Any) -> Tensor:
    """log |Q| / |P| / 2 + (trace(Q^-1 P) + |loc difference|^2 in Q - n) / 2."""
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL-divergence between two {_name_plural(p, q)} Normals with different "
                         "event shapes cannot be computed")
    difference = q.loc - p.loc
    trace = sum(_trace(q, factor) for factor in _list_factors(p))
    distance = _measure_distance(q, difference)
    return 0.5 * (_log_det(q) - _log_det(p) + trace + distance - p.event_shape[0])


def _name_plural(p: Any, q: Any) -> str:
    if isinstance(p, MultivariateNormal) and isinstance(q, MultivariateNormal):
        return "Multivariate"
    is_low_rank = [isinstance(d, LowRankMultivariateNormal) for d in (p, q)]
    return "Low Rank Multivariate" if all(is_low_rank) else "(Low Rank) Multivariate"


def _list_factors(p: Any) -> list[Tensor]:
    """Matrices F whose F F^T add up to the covariance."""
    if isinstance(p, LowRankMultivariateNormal):
        return [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]
    return [p._unbroadcasted_scale_tril]


def _log_det(p: Any) -> Tensor:
    if isinstance(p, LowRankMultivariateNormal):
        return log_determinant(p._unbroadcasted_cov_diag, p._capacitance_tril)
    return 2 * p._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _solve_lower(tril: Tensor, right_side: Tensor) -> Tensor:
    """Solve `tril x = right_side`; the batches broadcast."""
    batch = ops.broadcast_shapes(tril.shape[:-2], right_side.shape[:-2])
    return linalg.solve_triangular(
        tril.expand((*batch, -1, -1)), right_side.expand((*batch, -1, -1)), upper=False)


def _trace(q: Any, factor: Tensor) -> Tensor:
    """trace(Q^-1 F F^T)."""
    if not isinstance(q, LowRankMultivariateNormal):
        return _solve_lower(q._unbroadcasted_scale_tril, factor).pow(2).sum((-2, -1))
    w, diagonal = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag
    inner = (w.mT / diagonal.unsqueeze(-2)) @ factor  # (..., rank, columns)
    corner = _solve_lower(q._capacitance_tril, inner).pow(2).sum((-2, -1))
    return (factor.pow(2) / diagonal.unsqueeze(-1)).sum((-2, -1)) - corner


def _measure_distance(q: Any, away: Tensor) -> Tensor:
    if not isinstance(q, LowRankMultivariateNormal):
        return _solve_lower(q._unbroadcasted_scale_tril, away.unsqueeze(-1)).pow(2).sum((-2, -1))
    return squared_distance(
        q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, away, q._capacitance_tril)


for _p in (MultivariateNormal, LowRankMultivariateNormal):
    for _q in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_p, _q)(_normal_vectors)
