"""The continuous Bernoulli distribution, on the whole interval from 0 to 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..autograd import no_grad
from ..ops.loss.binary import binary_cross_entropy_with_logits
from ..tensor.tensor import Tensor
from . import constraints
from .discrete import Binary
from .distribution import (
    EVENTLESS, ExponentialFamily, broadcast_all, clamp_probs, holds_everywhere, lazy_property,
)


class ContinuousBernoulli(Binary, ExponentialFamily):
    """Density proportional to probs^x (1 - probs)^(1 - x) on the unit interval.

    lims: for probs between these, formulas that divide by 2 probs - 1 give way to Taylor series.

    Loaiza-Ganem and Cunningham, "The continuous Bernoulli", 2019.

    >>> pixel = torch.distributions.ContinuousBernoulli(torch.tensor(0.5))
    >>> pixel.mean, pixel.variance, pixel.log_prob(torch.tensor(0.3))
    (tensor(0.5000), tensor(0.0833), tensor(0.))
    """

    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure: ClassVar[float] = 0

    def __init__(self, probs: Any = None, logits: Any = None,
                 lims: tuple[float, float] = (0.499, 0.501),
                 validate_args: bool | None = None) -> None:
        (result,) = self._flambeau_hold(probs, logits)
        if validate_args is not None:
            self._validate_args = validate_args
        if probs is not None:
            constraint = self.arg_constraints["probs"]
            if self._validate_args and not holds_everywhere(constraint.check(result)):
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(result)
        self._lims = lims
        super().__init__(result.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter, off the ends of the interval, where the formulas divide by zero."""
        return clamp_probs(ops.sigmoid(self.logits))

    def _flambeau_outside(self) -> Tensor:
        """Where the exact formulas are safe."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _flambeau_safe_probs(self) -> Tensor:
        """The probabilities, off the middle."""
        return ops.where(self._flambeau_outside(), self.probs, self._lims[0])

    def _flambeau_log_norm(self) -> Tensor:
        """The logarithm of the normalizing constant."""
        p = self._flambeau_safe_probs()
        lower_half, upper_half = p.clamp(max=0.5), p.clamp(min=0.5)
        exact = (ops.log(ops.abs(ops.log1p(-p) - ops.log(p)))
                 - ops.where(p <= 0.5, ops.log1p(-2 * lower_half), ops.log(2 * upper_half - 1)))
        x = (self.probs - 0.5).pow(2)
        return ops.where(self._flambeau_outside(), exact, math.log(2) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Tensor:
        p, x = self._flambeau_safe_probs(), self.probs - 0.5
        exact = p / (2 * p - 1) + 1 / (ops.log1p(-p) - ops.log(p))
        return ops.where(self._flambeau_outside(), exact, 0.5 + (1 / 3 + 16 / 45 * x.pow(2)) * x)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    @property
    def variance(self) -> Tensor:
        p, x = self._flambeau_safe_probs(), (self.probs - 0.5).pow(2)
        exact = p * (p - 1) / (1 - 2 * p).pow(2) + 1 / (ops.log1p(-p) - ops.log(p)).pow(2)
        return ops.where(self._flambeau_outside(), exact, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        drawn = ops.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype)
        return self.icdf(drawn)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        entropy = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return -entropy + self._flambeau_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        p = self._flambeau_safe_probs()
        exact = (p.pow(value) * (1 - p).pow(1 - value) + p - 1) / (2 * p - 1)
        within = ops.where(self._flambeau_outside(), exact, value)
        return ops.where(value <= 0, 0.0, ops.where(value >= 1, 1.0, within).to(within.dtype))

    def icdf(self, value: Tensor) -> Tensor:
        p = self._flambeau_safe_probs()
        exact = (ops.log1p(-p + value * (2 * p - 1)) - ops.log1p(-p)) / (ops.log(p) - ops.log1p(-p))
        return ops.where(self._flambeau_outside(), exact, value)

    def entropy(self) -> Tensor:
        no, yes = ops.log1p(-self.probs), ops.log(self.probs)
        return self.mean * (no - yes) - self._flambeau_log_norm() - no

    @property
    def _natural_params(self) -> Any:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        is_exact = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        safe = ops.where(is_exact, x, self._lims[0] - 0.5)
        exact = ops.log(ops.abs(ops.expm1(safe))) - ops.log(ops.abs(safe))
        return ops.where(is_exact, exact, 0.5 * x + x.pow(2) / 24 - x.pow(4) / 2880)
