"""Distributions over the real line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .. import ops
from ..autograd import no_grad
from ..native.foundation.shared_constructors import own_constructor
from ..tensor import dtypes as types
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import EVENTLESS, Distribution, ExponentialFamily, broadcast_all, standard_normal
from .positive import Chi2


class _Located(Distribution):
    """With a location and a scale."""

    __init_subclass__ = own_constructor

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _flambeau_standard(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (value - self.loc) / self.scale


class Normal(_Located, ExponentialFamily):
    """The normal distribution of mean loc and standard deviation scale.

    >>> torch.distributions.Normal(0., 2.).log_prob(torch.tensor(0.))
    tensor(-1.6121)
    """

    _mean_carrier_measure: ClassVar[float] = 0

    @property
    def _natural_params(self) -> Any:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x.pow(2) / y + 0.5 * ops.log(-math.pi / y)

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2)

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        return self.loc + standard_normal(self.loc, self._extended_shape(sample_shape)) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        squared = (value - self.loc) ** 2 / (2 * self.scale**2)
        return -squared - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        return 0.5 * (1 + ops.erf(self._flambeau_standard(value) / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * ops.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + ops.log(self.scale)


class Laplace(_Located):
    """Density exp(-|x - loc| / scale) / (2 scale).

    >>> laplace = torch.distributions.Laplace(torch.tensor(0.), torch.tensor(1.))
    >>> laplace.variance, laplace.cdf(torch.tensor(0.))
    (tensor(2.), tensor(0.5000))
    """

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = ops.empty(shape, dtype=self.loc.dtype).uniform_(types.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * ops.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -ops.log(2 * self.scale) - ops.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        away = self._flambeau_standard(value)
        return 0.5 - 0.5 * away.sign() * ops.expm1(-away.abs())

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * ops.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        return 1 + ops.log(2 * self.scale)


class Cauchy(_Located):
    """Density 1 / (pi scale (1 + ((x - loc) / scale)^2)).

    >>> cauchy = torch.distributions.Cauchy(torch.tensor(0.), torch.tensor(1.))
    >>> cauchy.mean, cauchy.cdf(torch.tensor(1.))
    (tensor(nan), tensor(0.7500))
    """

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return ops.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        result = ops.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype).cauchy_()
        return self.loc + result * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - (self._flambeau_standard(value) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return ops.atan(self._flambeau_standard(value)) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return ops.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class StudentT(Distribution):
    """Student's t of df degrees of freedom, shifted and scaled.

    >>> student = torch.distributions.StudentT(torch.tensor([1., 4.]))
    >>> student.mean, student.variance
    (tensor([nan, 0.]), tensor([nan, 2.]))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0,
                 validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        spread = self.scale.pow(2) * self.df / (self.df - 2)
        return spread.masked_fill(self.df <= 2, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        x = standard_normal(self.df, self._extended_shape(sample_shape))
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * x * ops.rsqrt(z / self.df)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        level = (self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
                 + ops.lgamma(0.5 * self.df) - ops.lgamma(0.5 * (self.df + 1)))
        return -0.5 * (self.df + 1) * ops.log1p(y**2 / self.df) - level

    def entropy(self) -> Tensor:
        half, half_plus = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = ops.lgamma(half) + math.lgamma(0.5) - ops.lgamma(half_plus)
        return (self.scale.log() + half_plus * (ops.digamma(half_plus) - ops.digamma(half))
                + 0.5 * self.df.log() + log_beta)


class Uniform(Distribution):
    """Constant from low up to high.

    >>> torch.distributions.Uniform(0., 4.).log_prob(torch.tensor(1.))
    tensor(-1.3863)
    """

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> Any:
        """Each bound limits the other."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From low to high."""
        return constraints.interval(self.low, self.high)

    @property
    def mode(self) -> Tensor:
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        drawn = ops.rand(self._extended_shape(sample_shape), dtype=self.low.dtype)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        indicator = ((self.low <= value) & (self.high > value)).type_as(self.low)
        return ops.log(indicator) - ops.log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return ops.log(self.high - self.low)
