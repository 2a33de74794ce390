"""Distributions over positive numbers and over parts of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .. import ops, special
from ..ops.indexing.embedding import one_hot
from ..tensor import dtypes as types
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import EVENTLESS, ExponentialFamily, broadcast_all


class Exponential(ExponentialFamily):
    """Density rate * exp(-rate x).

    >>> torch.distributions.Exponential(2.).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    _mean_carrier_measure: ClassVar[float] = 0

    @property
    def _natural_params(self) -> Any:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return -ops.log(-x)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.rate)

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return ops.empty(shape, dtype=self.rate.dtype).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 1 - ops.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return -ops.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - ops.log(self.rate)


class Gamma(ExponentialFamily):
    """Density proportional to x^(concentration - 1) exp(-rate x).

    >>> gamma = torch.distributions.Gamma(torch.tensor(2.), torch.tensor(4.))
    >>> gamma.mean, gamma.variance
    (tensor(0.5000), tensor(0.1250))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure: ClassVar[float] = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        shape = self._extended_shape(sample_shape)
        drawn = ops._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        drawn.detach().clamp_(min=types.finfo(drawn.dtype).tiny)  # no part of the history
        return drawn

    def log_prob(self, value: Any) -> Tensor:
        value = ops.as_tensor(value, dtype=self.rate.dtype)
        self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return ops.xlogy(a, rate) + ops.xlogy(a - 1, value) - rate * value - ops.lgamma(a)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - ops.log(self.rate) + ops.lgamma(a) + (1.0 - a) * ops.digamma(a)

    def cdf(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return special.gammainc(self.concentration, self.rate * value)

    @property
    def _natural_params(self) -> Any:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.lgamma(x + 1) + (x + 1) * ops.log(-y.reciprocal())


class Chi2(Gamma):
    """The sum of the squares of df normal numbers.

    >>> chi2 = torch.distributions.Chi2(torch.tensor(3.))
    >>> chi2.mean, chi2.variance
    (tensor(3.), tensor(6.))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """How many numbers are squared."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """Parts of one, with density proportional to the product of x_i^(concentration_i - 1).

    >>> dirichlet = torch.distributions.Dirichlet(torch.tensor([1., 3.]))
    >>> dirichlet.mean, dirichlet.sample().sum()
    (tensor([0.2500, 0.7500]), tensor(1.))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        excess = (self.concentration - 1).clamp(min=0.0)
        mode = excess / excess.sum(-1, True)
        # All parameters below one: the density is highest in a corner.
        corner = (self.concentration < 1).all(dim=-1)
        mode[corner] = one_hot(mode[corner].argmax(dim=-1), excess.shape[-1]).to(mode)
        return mode

    @property
    def _natural_params(self) -> Any:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - ops.lgamma(x.sum(-1))

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return ops._sample_dirichlet(self.concentration.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a = self.concentration
        return ops.xlogy(a - 1.0, value).sum(-1) + ops.lgamma(a.sum(-1)) - ops.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        inner = ((a - 1.0) * ops.digamma(a)).sum(-1)
        return (ops.lgamma(a).sum(-1) - ops.lgamma(total) - (k - total) * ops.digamma(total)
                - inner)


class Beta(ExponentialFamily):
    """Density proportional to x^(concentration1 - 1) (1 - x)^(concentration0 - 1).

    >>> beta = torch.distributions.Beta(torch.tensor(2.), torch.tensor(6.))
    >>> beta.mean, beta.log_prob(torch.tensor(0.5))
    (tensor(0.2500), tensor(-0.4212))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {"concentration1": constraints.positive,
                       "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any,
                 validate_args: bool | None = None) -> None:
        concentrations = ops.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(concentrations)
        super().__init__(concentrations.shape[:-1], validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        """The first exponent, plus one."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """The second exponent, plus one."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def _natural_params(self) -> Any:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.lgamma(x) + ops.lgamma(y) - ops.lgamma(x + y)

    @property
    def variance(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return a * b / ((a + b).pow(2) * (a + b + 1))

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._dirichlet.log_prob(ops.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()
