"""Transforms: invertible functions with the logarithm of their derivative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..ops.activation.softplus import softplus
from ..tensor.tensor import Tensor
from .distribution import sum_rightmost


class Transform:
    """y = f(x). `event_dim`: how many last axes belong to one value.

    `t(x)` is y, `t.inv(y)` x, `t.log_abs_det_jacobian(x, y)` the logarithm of |dy / dx|.

    >>> transform = torch.distributions.ExpTransform()
    >>> x = torch.tensor([0., 1.])
    >>> transform(x), transform.inv(transform(x)), transform.log_abs_det_jacobian(x, transform(x))
    (tensor([1.0000, 2.7183]), tensor([0.0000, 1.0000]), tensor([0., 1.]))
    """

    bijective = True
    event_dim = 0

    def __init__(self, cache_size: int = 0) -> None:
        self.cache_size = cache_size

    def __call__(self, x: Tensor) -> Tensor:
        """f(x)."""
        return self._call(x)

    @property
    def inv(self) -> Transform:
        """The inverse."""
        return _Inverse(self)

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}.__call__")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}.inv")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy/dx| of each value."""
        raise NotImplementedError(f"{type(self).__name__}.log_abs_det_jacobian")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, forward: Transform) -> None:
        super().__init__()
        self._flambeau_forward, self.bijective, self.event_dim = (
            forward, forward.bijective, forward.event_dim)  # fmt: skip

    @property
    def inv(self) -> Transform:
        return self._flambeau_forward

    def _call(self, x: Tensor) -> Tensor:
        return self._flambeau_forward._inverse(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._flambeau_forward._call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._flambeau_forward.log_abs_det_jacobian(y, x)


class ComposeTransform(Transform):
    """Several, one after the other.

    >>> D = torch.distributions
    >>> transform = D.ComposeTransform([D.AffineTransform(1., 2.), D.ExpTransform()])
    >>> transform(torch.tensor([0.])), transform.inv(torch.tensor([1.]))
    (tensor([2.7183]), tensor([-0.5000]))
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        self.bijective = all(p.bijective for p in self.parts)
        self.event_dim = max((p.event_dim for p in self.parts), default=0)

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inverse(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        total: Any = 0
        for part in self.parts:
            z = part(x)
            found = part.log_abs_det_jacobian(x, z)
            total, x = total + sum_rightmost(found, self.event_dim - part.event_dim), z
        return total if self.parts else ops.zeros_like(x)


class ExpTransform(Transform):
    """exp(x).

    >>> torch.distributions.ExpTransform().inv(torch.tensor([1.]))
    tensor([0.])
    """

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class AffineTransform(Transform):
    """loc + scale * x.

    >>> transform = torch.distributions.AffineTransform(loc=1., scale=2.)
    >>> x = torch.tensor([0., 3.])
    >>> transform(x), transform.inv(transform(x)), transform.log_abs_det_jacobian(x, transform(x))
    (tensor([1., 7.]), tensor([0., 3.]), tensor([0.6931, 0.6931]))
    """

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            found = self.scale.abs().log().expand(x.shape)
        else:
            found = ops.full_like(x, math.log(abs(self.scale)))
        return sum_rightmost(found, self.event_dim)


class SigmoidTransform(Transform):
    """1 / (1 + exp(-x)).

    >>> torch.distributions.SigmoidTransform()(torch.tensor([0.]))
    tensor([0.5000])
    """

    def _call(self, x: Tensor) -> Tensor:
        return ops.sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class TanhTransform(Transform):
    """tanh(x).

    >>> torch.distributions.TanhTransform()(torch.tensor([1.]))
    tensor([0.7616])
    """

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class SoftplusTransform(Transform):
    """log(1 + exp(x)).

    >>> torch.distributions.SoftplusTransform()(torch.tensor([0.]))
    tensor([0.6931])
    """

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class PowerTransform(Transform):
    """x^exponent, of positive x.

    >>> torch.distributions.PowerTransform(torch.tensor(2.))(torch.tensor([3.]))
    tensor([9.])
    """

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()


class AbsTransform(Transform):
    """|x|, which has no inverse.

    >>> torch.distributions.AbsTransform()(torch.tensor([-1., 2.]))
    tensor([1., 2.])
    """

    bijective = False

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


identity_transform = ComposeTransform([])
