"""Distributions of angles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .. import ops, special
from ..autograd import no_grad
from ..tensor import dtypes as types
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import EVENTLESS, Distribution, broadcast_all, lazy_property


class VonMises(Distribution):
    """Angles in radians, of density proportional to exp(concentration cos(x - loc)).

    >>> angles = torch.distributions.VonMises(torch.tensor(0.), torch.tensor(8.))
    >>> angles.log_prob(torch.tensor(0.)), angles.variance
    (tensor(0.1040), tensor(0.0648))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        k = self.concentration
        log_bessel = special.i0e(k).log() + k  # without overflow
        return k * ops.cos(value - self.loc) - math.log(2 * math.pi) - log_bessel

    @lazy_property
    def _proposal_r(self) -> Tensor:
        """The parameter of the wrapped Cauchy distribution that proposes; float64."""
        k = self.concentration.double()
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return ops.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        """Best and Fisher, "Efficient simulation of the von Mises distribution", 1979."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            k, r = self.concentration.double(), self._proposal_r
            x = ops.empty(shape, dtype=types.float64)
            is_done = ops.zeros(shape, dtype=types.bool_)
            while not is_done.all():
                u1, u2, u3 = ops.rand((3, *shape), dtype=types.float64).unbind()
                z = ops.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accepted = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                x = ops.where(accepted, (u3 - 0.5).sign() * f.acos(), x)
                is_done = is_done | accepted
            angle = (x + math.pi + self.loc.double()) % (2 * math.pi) - math.pi
            return angle.to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """The mean direction."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance: 1 minus the length of the mean of the unit vectors."""
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)
