"""Ratios of gamma numbers, and excesses over thresholds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .. import ops
from ..tensor import dtypes as types
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import EVENTLESS, Distribution, broadcast_all
from .positive import Gamma


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared numbers, each divided by its degrees of freedom.

    >>> ratio = torch.distributions.FisherSnedecor(torch.tensor(4.), torch.tensor(6.))
    >>> ratio.mean, ratio.mode
    (tensor(1.5000), tensor(0.3750))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "df1": constraints.positive,
        "df2": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        df2 = self.df2.masked_fill(self.df2 <= 2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Tensor:
        df1, df2 = self.df1, self.df2.masked_fill(self.df2 <= 4, math.nan)
        return 2 * df2.pow(2) * (df1 + df2 - 2) / (df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        numerator = self._gamma1.rsample(sample_shape)
        denominator = self._gamma2.rsample(sample_shape)
        tiny = types.finfo(denominator.dtype).tiny
        return (numerator / denominator.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        level = (a + b).lgamma() - a.lgamma() - b.lgamma()
        power = a * ratio.log() + (a - 1) * ops.log(value)
        return level + power - (a + b) * ops.log1p(ratio * value)


class GeneralizedPareto(Distribution):
    """How far numbers exceed a high threshold `loc`: heavier tails for larger concentrations.

    Concentration 0 is exponential, a negative one ends at loc - scale / concentration.

    >>> excess = torch.distributions.GeneralizedPareto(0., 1., torch.tensor([0., 0.5, -0.5]))
    >>> excess.mean, excess.cdf(torch.tensor(1.))
    (tensor([1.0000, 2.0000, 0.6667]), tensor([0.6321, 0.5556, 0.7500]))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any,
                 validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _flambeau_is_exponential(self) -> Tensor:
        return ops.isclose(self.concentration, ops.tensor(0.0).type_as(self.concentration))

    def _flambeau_nonzero(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is zero, and it with ones there, so that it may divide."""
        zero = self._flambeau_is_exponential()
        return zero, ops.where(zero, ops.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        drawn = ops.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.icdf(drawn)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        zero, c = self._flambeau_nonzero()
        y = (value - self.loc) / self.scale
        fall = ops.where(zero, y, (1 / c + 1) * ops.log1p(c * y))
        return -ops.log(self.scale) - fall

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of more than `value`."""
        self._validate_sample(value)
        zero, c = self._flambeau_nonzero()
        y = (value - self.loc) / self.scale
        return ops.where(zero, -y, -ops.log1p(c * y) / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of up to `value`."""
        return ops.log1p(-ops.exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        return ops.exp(self.log_cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        zero, c = self._flambeau_nonzero()
        exponential = -ops.log1p(-value)
        return self.loc + self.scale * ops.where(zero, exponential, ops.expm1(c * exponential) / c)

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        return ops.where(c < 1, self.loc + self.scale / (1 - c), math.inf)

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        spread = self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c))
        return ops.where(c < 0.5, spread, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        return ops.log(self.scale) + self.concentration + 1

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From loc on, to the end that a negative concentration sets."""
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, ops.where(self.concentration < 0, end, math.inf))
