"""Distributions that are transforms of exponential, gamma, uniform and normal numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from .. import ops
from ..tensor.tensor import Tensor
from . import constraints
from .combined import TransformedDistribution
from .constraints import Constraint
from .distribution import EULER, broadcast_all
from .positive import Exponential, Gamma
from .real_line import Normal, Uniform
from .transforms import AffineTransform, ExpTransform, PowerTransform, StickBreakingTransform


class InverseGamma(TransformedDistribution):
    """1 / x of gamma numbers x.

    >>> inverse = torch.distributions.InverseGamma(torch.tensor(3.), torch.tensor(4.))
    >>> inverse.mean, inverse.mode
    (tensor(2.), tensor(1.))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        power = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, power, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape parameter."""
        return self.base_dist.concentration  # type: ignore[attr-defined]

    @property
    def rate(self) -> Tensor:
        """The scale of 1 / x."""
        return self.base_dist.rate  # type: ignore[attr-defined]

    @property
    def mean(self) -> Tensor:
        mean = self.rate / (self.concentration - 1)
        return ops.where(self.concentration > 1, mean, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        variance = self.rate.square() / ((a - 1).square() * (a - 2))
        return ops.where(a > 2, variance, math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Pareto(TransformedDistribution):
    """Density proportional to x^(-alpha - 1) from `scale` on.

    >>> pareto = torch.distributions.Pareto(torch.tensor(1.), torch.tensor(3.))
    >>> pareto.mean, pareto.log_prob(torch.tensor(1.))
    (tensor(1.5000), tensor(1.0986))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "alpha": constraints.positive,
        "scale": constraints.positive,
    }

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        steps = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions as a larger batch."""
        return _rebuild(self, Pareto, batch_shape, _instance, "scale", "alpha")

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From the scale on."""
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """P(x > t) = exp(-(t / scale)^concentration).

    >>> weibull = torch.distributions.Weibull(torch.tensor(2.), torch.tensor(1.))
    >>> weibull.mean, weibull.cdf(torch.tensor(2.))
    (tensor(2.), tensor(0.6321))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(ops.ones_like(self.scale), validate_args=validate_args)
        steps = [PowerTransform(exponent=self.concentration_reciprocal),
                 AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions as a larger batch."""
        return _rebuild(self, Weibull, batch_shape, _instance, "scale", "concentration")

    def _flambeau_moment(self, n: int) -> Tensor:
        """The mean of (x / scale)^n."""
        return ops.exp(ops.lgamma(1 + n * self.concentration_reciprocal))

    @property
    def mean(self) -> Tensor:
        return self.scale * self._flambeau_moment(1)

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (self._flambeau_moment(2) - self._flambeau_moment(1).pow(2))

    def entropy(self) -> Tensor:
        r = self.concentration_reciprocal
        return EULER * (1 - r) + ops.log(self.scale * r) + 1


class Kumaraswamy(TransformedDistribution):
    """P(x > t) = (1 - t^concentration1)^concentration0, of numbers between 0 and 1.

    >>> share = torch.distributions.Kumaraswamy(torch.tensor(1.), torch.tensor(1.))
    >>> share.mean, share.variance
    (tensor(0.5000), tensor(0.0833))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any,
                 validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(ops.zeros_like(self.concentration0), ops.ones_like(self.concentration0),
                       validate_args=validate_args)
        steps = [PowerTransform(exponent=self.concentration0.reciprocal()),
                 AffineTransform(loc=1.0, scale=-1.0),
                 PowerTransform(exponent=self.concentration1.reciprocal())]
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions as a larger batch."""
        return _rebuild(
            self, Kumaraswamy, batch_shape, _instance, "concentration1", "concentration0")

    def _flambeau_moment(self, n: int) -> Tensor:
        """The mean of x^n: concentration0 B(1 + n / concentration1, concentration0)."""
        b, shifted = self.concentration0, 1 + n / self.concentration1
        return (b.log() + ops.lgamma(shifted) + ops.lgamma(b) - ops.lgamma(shifted + b)).exp()

    @property
    def mean(self) -> Tensor:
        return self._flambeau_moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return mode.exp().masked_fill((a < 1) | (b < 1), math.nan)

    @property
    def variance(self) -> Tensor:
        return self._flambeau_moment(2) - self._flambeau_moment(1).pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = ops.digamma(b + 1) + EULER
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - ops.log(a) - ops.log(b)


class LogisticNormal(TransformedDistribution):
    """Shares of one that stick breaking makes of normal numbers.

    >>> shares = torch.distributions.LogisticNormal(torch.zeros(3), torch.ones(3)).sample()
    >>> shares.shape, bool((shares.sum() - 1).abs() < 1e-6)
    (torch.Size([4]), True)
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal numbers."""
        return self.base_dist.base_dist.scale  # type: ignore[attr-defined]


def _rebuild(old: Any, cls: Any, batch_shape: Any, instance: Any, *names: str) -> Any:
    """Rebuild an instance for a larger batch: its transforms hold parameters of the old one."""
    new = old._get_checked_instance(cls, instance)
    parameters = [getattr(old, name).expand(batch_shape) for name in names]
    cls.__init__(new, *parameters, validate_args=False)
    new._validate_args = old._validate_args
    return new
