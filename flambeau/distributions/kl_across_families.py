"""Kullback-Leibler divergences between families: minus the entropy of p and the mean of log q.

The mean of log q needs a few means over p, tabulated here: of x and its square, of log x and of
exp(-x / s). The divergence is infinite if p has values that q cannot have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import ops
from ..tensor.tensor import Tensor
from .combined import Gumbel
from .continuous_bernoulli import ContinuousBernoulli
from .discrete import Bernoulli, Binomial, Poisson
from .distribution import EULER
from .kl import register_kl
from .positive import Beta, Exponential, Gamma
from .real_line import Laplace, Normal, Uniform
from .transformed_families import Pareto

# ---------------------------------------------------------------------- means over p


def _x_log_x(x: Tensor) -> Tensor:
    return ops.xlogy(x, x)


def _log_of_uniform(p: Any) -> Tensor:
    return (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1


# The mean of log x, for positive x.
_MEAN_LOG: dict[type, Callable[[Any], Tensor]] = {
    Beta: lambda p: (p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()),
    Exponential: lambda p: -EULER - p.rate.log(),
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.alpha.reciprocal() + p.scale.log(),
    Uniform: _log_of_uniform,
}


def _fall_of_uniform(p: Any, loc: Tensor, scale: Tensor) -> Tensor:
    ends = ((loc - p.low) / scale).exp() - ((loc - p.high) / scale).exp()
    return scale * ends / (p.high - p.low)


# The mean of exp((loc - x) / s).
_MEAN_FALL: dict[type, Callable[[Any, Tensor, Tensor], Tensor]] = {
    Exponential: lambda p, loc, s: (loc / s).exp() * p.rate / (p.rate + s.reciprocal()),
    Gamma: lambda p, loc, s: (
        loc / s + p.concentration * (p.rate / (p.rate + s.reciprocal())).log()).exp(),
    Normal: lambda p, loc, s: ((loc - p.loc) / s + 0.5 * (p.scale / s).pow(2)).exp(),
    Uniform: _fall_of_uniform,
}


# ------------------------------------------------------------------- the mean of log q


def _log_normal(p: Any, q: Normal) -> Tensor:
    squared = p.variance + (p.mean - q.loc).pow(2)
    return -0.5 * (2 * math.pi * q.variance).log() - squared / (2 * q.variance)


def _log_exponential(p: Any, q: Exponential) -> Tensor:
    return q.rate.log() - q.rate * p.mean


def _log_gamma(p: Any, q: Gamma) -> Tensor:
    a = q.concentration
    powers = (a - 1) * _MEAN_LOG[_find_family(p, _MEAN_LOG)](p)
    return a * q.rate.log() - a.lgamma() + powers - q.rate * p.mean


def _log_gumbel(p: Any, q: Gumbel) -> Tensor:
    fall = _MEAN_FALL[_find_family(p, _MEAN_FALL)](p, q.loc, q.scale)
    return -q.scale.log() - (p.mean - q.loc) / q.scale - fall


def _log_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    return p.mean * q.logits + ops.log1p(-q.probs) + q._flambeau_log_norm()


def _log_pareto(p: Any, q: Pareto) -> Tensor:
    return q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _log_of_uniform(p)


def _log_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    log_norm = (a + b).lgamma() - a.lgamma() - b.lgamma()
    mean_log_1mx = (_x_log_x(1 - p.low) - _x_log_x(1 - p.high)) / (p.high - p.low) - 1
    return log_norm + (a - 1) * _log_of_uniform(p) + (b - 1) * mean_log_1mx


def _log_uniform(p: Any, q: Uniform) -> Tensor:
    return -(q.high - q.low).log()


def _log_laplace(p: Normal, q: Laplace) -> Tensor:
    away = p.loc - q.loc
    r = away / p.scale
    mean = (math.sqrt(2 / math.pi) * p.scale * (-0.5 * r.pow(2)).exp()
            + away * ops.erf(r * math.sqrt(0.5)))
    return -(2 * q.scale).log() - mean / q.scale


def _log_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return p.probs * q.rate.log() - q.rate


def _find_family(p: Any, table: dict[type, Any]) -> type:
    return next(cls for cls in type(p).__mro__ if cls in table)


# ----------------------------------------------------------------- where q is nothing


def _return_false(p: Any, q: Any) -> bool:
    return False


def _low_below_zero(p: Any, q: Any) -> Any:
    return p.low < 0


def _leaves_unit_interval(p: Any, q: Any) -> Any:
    return (p.high > 1) | (p.low < 0)


def _low_below_scale(p: Any, q: Any) -> Any:
    return p.low < q.scale


def _within_unit_interval(p: Any, q: Any) -> Any:
    return (q.high < 1) | (q.low > 0)


def _declare(p_classes: tuple[type, ...], q_kind: type, log_q: Callable[[Any, Any], Tensor],
             outside: Callable[[Any, Any], Any] = _return_false) -> None:
    def divergence(p: Any, q: Any) -> Tensor:
        finite = -p.entropy() - log_q(p, q)
        is_infinite = outside(p, q)
        return finite if is_infinite is False else ops.where(is_infinite, math.inf, finite)

    for cls in p_classes:
        register_kl(cls, q_kind)(divergence)


_declare((Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform), Normal,
         _log_normal)
_declare((Pareto,), Normal, _log_normal, lambda p, q: p.alpha <= 2)
_declare((Beta, ContinuousBernoulli, Gamma), Exponential, _log_exponential)
_declare((Pareto,), Exponential, _log_exponential, lambda p, q: p.alpha <= 1)
_declare((Uniform,), Exponential, _log_exponential, _low_below_zero)
_declare((Beta, Exponential), Gamma, _log_gamma)
_declare((Pareto,), Gamma, _log_gamma, lambda p, q: p.alpha <= 1)
_declare((Uniform,), Gamma, _log_gamma, _low_below_zero)
_declare((Exponential, Gamma, Normal, Uniform), Gumbel, _log_gumbel)
_declare((Beta,), ContinuousBernoulli, _log_continuous_bernoulli)
_declare((Uniform,), ContinuousBernoulli, _log_continuous_bernoulli, _leaves_unit_interval)
_declare((Beta, ContinuousBernoulli), Uniform, _log_uniform, _within_unit_interval)
_declare((Uniform,), Beta, _log_beta, _leaves_unit_interval)
_declare((Uniform,), Pareto, _log_pareto, _low_below_scale)
_declare((Normal,), Laplace, _log_laplace)
_declare((Bernoulli,), Poisson, _log_poisson)


def _fill_with_infinity(p: Any, q: Any) -> Tensor:
    return ops.full_like(p.mean, math.inf)


_UNIT = (Beta, ContinuousBernoulli)
_POSITIVE = (Exponential, Gamma)
_INFINITE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,), ContinuousBernoulli: (Pareto,),
    Exponential: (*_UNIT, Pareto, Uniform), Gamma: (*_UNIT, Pareto, Uniform),
    Gumbel: (*_UNIT, *_POSITIVE, Pareto, Uniform), Laplace: (*_UNIT, *_POSITIVE, Pareto, Uniform),
    Normal: (*_UNIT, *_POSITIVE, Pareto, Uniform), Pareto: (*_UNIT, Uniform),
    Poisson: (Bernoulli, Binomial),
}
for _p, _others in _INFINITE.items():
    for _q in _others:
        register_kl(_p, _q)(_fill_with_infinity)
