"""Transform: an invertible function of random values, with its effect on the density."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from ..native.foundation.public_names import class_of
from ..tensor.tensor import Tensor
from .constraints import Constraint

Shape = Sequence[int]


class Transform:
    """A function from values in `domain` to values in `codomain`.

    `t(x)` is y, `t.inv(y)` is x, and `t.log_abs_det_jacobian(x, y)` the logarithm of |dy / dx|.

    cache_size: 1 keeps the last pair of x and y, so that inverting the very tensor y returns x
    itself, without rounding; 0 keeps none.

    >>> transform = torch.distributions.ExpTransform()
    >>> x = torch.tensor([0., 1.])
    >>> transform(x), transform.inv(transform(x)), transform.log_abs_det_jacobian(x, transform(x))
    (tensor([1.0000, 2.7183]), tensor([0.0000, 1.0000]), tensor([0., 1.]))
    """

    bijective: Any = False
    domain: Constraint
    codomain: Constraint

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        if cache_size:
            self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}  # a weak reference; recreated on access

    @property
    def event_dim(self) -> int:
        """Number of trailing axes of one value, if it is the same for x and y."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse."""
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """1 if y increases with x, -1 if it decreases; NotImplementedError if neither."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the transform with another `cache_size`."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{class_of(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self.__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # subclasses compare their parameters

    def __call__(self, x: Tensor) -> Tensor:
        """f(x)."""
        if self._cache_size == 0:
            return self._call(x)
        known_x, known_y = self._cached_x_y
        if x is known_x:
            return known_y
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        known_x, known_y = self._cached_x_y
        if y is known_y:
            return known_x
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy/dx| of each value."""
        raise NotImplementedError

    def forward_shape(self, shape: Shape) -> Any:
        """The shape of y for an x of this shape."""
        return shape

    def inverse_shape(self, shape: Shape) -> Any:
        """The shape of x for a y of this shape."""
        return shape

    def __repr__(self) -> str:
        return type(self).__name__ + "()"


class _InverseTransform(Transform):
    """The inverse of a transform; delegates everything to it, including the cache."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Transform = transform

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        """The codomain of the inverted transform."""
        return self._inv.codomain

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        """The domain of the inverted transform."""
        return self._inv.domain

    @property
    def bijective(self) -> bool:
        """Whether the inverted transform is bijective."""
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = None

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"
