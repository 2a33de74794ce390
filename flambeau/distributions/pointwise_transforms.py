"""Transforms of single numbers: exp, powers, sigmoids, affine maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Number
from typing import Any

from .. import ops
from ..ops.activation.softplus import softplus
from ..tensor import dtypes as types
from ..tensor.capture_marks import are_all_true, holds
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Distribution, sum_rightmost
from .transform import Shape, Transform


class _Parameterless(Transform):
    """A monotonically increasing transform; two of the same class are equal."""

    bijective = True
    sign: int = 1
    domain = constraints.real

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))

    __hash__ = None


class ExpTransform(_Parameterless):
    """exp(x).

    >>> torch.distributions.ExpTransform().inv(torch.tensor([1.]))
    tensor([0.])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


def _clip_sigmoid(x: Tensor) -> Tensor:
    """Return sigmoid(x), between the smallest normal number and the largest below 1."""
    limits = types.finfo(x.dtype)
    return ops.clamp(ops.sigmoid(x), min=limits.tiny, max=1.0 - limits.eps)


class SigmoidTransform(_Parameterless):
    """1 / (1 + exp(-x)), clamped away from 0 and 1.

    >>> torch.distributions.SigmoidTransform()(torch.tensor([0.]))
    tensor([0.5000])
    """

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _clip_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = types.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class TanhTransform(_Parameterless):
    """tanh(x).

    >>> torch.distributions.TanhTransform()(torch.tensor([1.]))
    tensor([0.7616])
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class SoftplusTransform(_Parameterless):
    """log(1 + exp(x)).

    >>> torch.distributions.SoftplusTransform()(torch.tensor([0.]))
    tensor([0.6931])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class AbsTransform(Transform):
    """x|; the inverse returns the positive one of two solutions.

    >>> torch.distributions.AbsTransform()(torch.tensor([-1., 2.]))
    tensor([1., 2.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = None

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


def _is_equal(a: Any, b: Any) -> bool:
    """Whether two parameters are equal in all elements."""
    if a is b or isinstance(a, Number) and isinstance(b, Number):
        return a is b or a == b
    return holds(ops.as_tensor(a) == ops.as_tensor(b), are_all_true)


class PowerTransform(Transform):
    """x^exponent for positive x.

    >>> torch.distributions.PowerTransform(torch.tensor(2.))(torch.tensor([3.]))
    tensor([9.])
    """

    bijective = True
    domain = constraints.positive
    codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = (exponent if isinstance(exponent, Tensor) else ops.tensor(exponent),)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    @property
    def sign(self) -> Tensor:
        """The sign of the exponent."""
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _is_equal(self.exponent, other.exponent)

    __hash__ = None

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Any:
        return ops.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape: Callable[..., Any] = forward_shape


class AffineTransform(Transform):
    """loc + scale * x.

    event_dim: number of trailing axes of one value, over which the Jacobian is summed.

    >>> transform = torch.distributions.AffineTransform(loc=1., scale=2.)
    >>> x = torch.tensor([0., 3.])
    >>> transform(x), transform.inv(transform(x)), transform.log_abs_det_jacobian(x, transform(x))
    (tensor([1., 7.]), tensor([0., 3.]), tensor([0.6931, 0.6931]))
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        """Real arrays with `event_dim` axes."""
        dims = self._event_dim
        return constraints.independent(constraints.real, dims) if dims else constraints.real

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        """The same as the domain."""
        return self.domain

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size)

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, AffineTransform) and _is_equal(self.loc, other.loc)
                and _is_equal(self.scale, other.scale))

    __hash__ = None

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            logarithm = ops.abs(self.scale).log()
        else:
            logarithm = ops.full_like(x, math.log(abs(self.scale)))
        summed = sum_rightmost(logarithm.expand(self.forward_shape(x.shape)), self._event_dim)
        return summed.expand(x.shape[: x.dim() - self._event_dim])

    def forward_shape(self, shape: Shape) -> Any:
        return ops.broadcast_shapes(
            shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape: Callable[..., Any] = forward_shape


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function, which maps a distribution's values to uniform ones.

    >>> D = torch.distributions
    >>> D.CumulativeDistributionTransform(D.Normal(0., 1.))(torch.tensor([0.]))
    tensor([0.5000])
    """

    bijective = True
    sign: int = 1
    codomain = constraints.unit_interval

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        """The support of the distribution."""
        return self.distribution.support

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
