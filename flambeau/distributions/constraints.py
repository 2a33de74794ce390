"""Constraints: where a distribution's parameters and values must lie."""

from __future__ import annotations

from typing import Any

from .. import linalg, ops
from ..tensor import dtypes as types
from ..tensor.tensor import Tensor


class Constraint:
    """A set; `check` says for each element whether it lies in it."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """A bool tensor of the batch's shape."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__.removeprefix('_')}()"


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # NaN is no number


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Bounded(Constraint):
    """Between two bounds, each of which belongs to the set or not; None: no bound."""

    def __init__(self, low: Any = None, high: Any = None, closed: tuple = (True, True),
                 name: str = "Interval") -> None:  # fmt: skip
        self.lower_bound, self.upper_bound, self.closed, self.name = low, high, closed, name

    def check(self, value: Tensor) -> Tensor:
        inside = value == value
        if self.lower_bound is not None:
            low = self.lower_bound
            inside = inside & ((value >= low) if self.closed[0] else (value > low))
        if self.upper_bound is not None:
            high = self.upper_bound
            inside = inside & ((value <= high) if self.closed[1] else (value < high))
        return inside

    def __repr__(self) -> str:
        bounds = (("lower_bound", self.lower_bound), ("upper_bound", self.upper_bound))
        inner = ", ".join(f"{n}={b}" for n, b in bounds if b is not None)
        return f"{self.name}({inner})"


class _IntegerBounded(_Bounded):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value % 1 == 0)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: int) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        lower = (value.tril() == value).flatten(-2).all(-1)
        return lower & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Tensor) -> Tensor:
        near = 10 * value.size(-1) * types.finfo(value.dtype).eps
        unit = ((value.square().sum(-1) - 1).abs() <= near).all(-1)
        return super().check(value) & unit


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return ops.full(value.shape[:-2], value.size(-1) == value.size(-2))


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        close = ops.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)
        return super().check(value) & close


class _PositiveDefinite(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        close = ops.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)
        return close & (linalg.cholesky_ex(value).info == 0)


class _Independent(Constraint):
    """A constraint whose last `dims` batch axes count as one value."""

    def __init__(self, base: Constraint, dims: int) -> None:
        self.base, self.is_discrete = base, base.is_discrete
        self.event_dim = base.event_dim + dims
        self.dims = dims

    def check(self, value: Tensor) -> Tensor:
        inside = self.base.check(value)
        return inside.flatten(-self.dims).all(-1) if self.dims else inside


real = _Real()
boolean = _Boolean()
positive = _Bounded(0.0, None, (False, True), "GreaterThan")
nonnegative = _Bounded(0.0, None, (True, True), "GreaterThanEq")
nonnegative_integer = _IntegerBounded(0, None, (True, True), "IntegerGreaterThan")
positive_integer = _IntegerBounded(1, None, (True, True), "IntegerGreaterThan")
unit_interval = _Bounded(0.0, 1.0)
simplex = _Simplex()
one_hot = _OneHot()
multinomial = _Multinomial
lower_cholesky = _LowerCholesky()
lower_triangular = _LowerTriangular()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_definite = _PositiveDefinite()
real_vector = _Independent(real, 1)
independent = _Independent


def interval(low: Any, high: Any) -> Constraint:
    """low <= value <= high."""
    return _Bounded(low, high)


def greater_than(low: Any) -> Constraint:
    """value > low."""
    return _Bounded(low, None, (False, True), "GreaterThan")


def integer_interval(low: Any, high: Any) -> Constraint:
    """Integers from low to high."""
    return _IntegerBounded(low, high, (True, True), "IntegerInterval")


def greater_than_eq(low: Any) -> Constraint:
    """value >= low."""
    return _Bounded(low, None, (True, True), "GreaterThanEq")


def less_than(high: Any) -> Constraint:
    """value < high."""
    return _Bounded(None, high, (True, False), "LessThan")


def half_open_interval(low: Any, high: Any) -> Constraint:
    """low <= value < high."""
    return _Bounded(low, high, (True, False), "HalfOpenInterval")
