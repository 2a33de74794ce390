"""Constraints on a distribution's parameters and values.

Constraints are classes, so programs can subclass them and use `isinstance`. Sets without parameters
are instances (`positive`, `simplex`); sets with parameters are classes (`greater_than(0.)`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import linalg, ops
from ..tensor import dtypes as types
from ..tensor.tensor import Tensor

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky",
    "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive",
    "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector",
    "simplex", "square", "stack", "symmetric", "unit_interval",
]


class Constraint:
    """A set; `check` tests each element of a batch for membership.

    is_discrete: whether the members are discrete points.
    event_dim: number of trailing axes that make up one value.

    >>> positive = torch.distributions.constraints.positive
    >>> positive.check(torch.tensor([-1., 2.]))
    tensor([False,  True])
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: Any) -> Tensor:
        """Return a bool tensor of the batch's shape."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.removeprefix("_") + "()"


# ------------------------------------------------------------- sets that other values decide


class _Dependent(Constraint):
    """A set that depends on other parameters, so it cannot be checked without them."""

    def __init__(self, *, is_discrete: Any = NotImplemented,
                 event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether the members are discrete points; NotImplementedError unless known statically."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """Number of trailing axes of one value; NotImplementedError unless known statically."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented,
                 event_dim: Any = NotImplemented) -> _Dependent:
        """Return a copy that knows more about itself: `dependent(event_dim=1)`."""
        if is_discrete is NotImplemented:
            is_discrete = self._is_discrete
        if event_dim is NotImplemented:
            event_dim = self._event_dim
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Any) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether the set depends on other parameters.

    >>> constraints = torch.distributions.constraints
    >>> constraints.is_dependent(constraints.dependent), constraints.is_dependent(constraints.real)
    (True, False)
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that gives a constraint on an instance and a dependent constraint on the class.

    >>> constraints = torch.distributions.constraints
    >>> class Above(torch.distributions.Distribution):
    ...     @constraints.dependent_property(is_discrete=False, event_dim=0)
    ...     def support(self):
    ...         return constraints.greater_than(self.low)
    >>> constraints.is_dependent(Above.support)
    True
    """

    def __init__(self, fn: Callable | None = None, *, is_discrete: Any = NotImplemented,
                 event_dim: Any = NotImplemented) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable) -> _DependentProperty:  # type: ignore[override]
        """Return the property of `fn`: the second call of `@dependent_property(...)`."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


# ---------------------------------------------------------------------------- numbers


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Tensor:
        return (value == 0) | (value == 1)


class _Real(Constraint):
    def check(self, value: Any) -> Tensor:
        return value == value  # false for NaN


class _Bounded(Constraint):
    """Bounded numbers; subclasses set the bounds and whether they are included."""

    def __repr__(self) -> str:
        bounds = {name: vars(self)[name] for name in ("lower_bound", "upper_bound")
                  if name in vars(self)}
        inner = ", ".join(f"{name}={bound}" for name, bound in bounds.items())
        return f"{type(self).__name__.removeprefix('_')}({inner})"


class _Above(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound
        super().__init__()


class _Below(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound
        super().__init__()


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        super().__init__()


class _GreaterThan(_Above):
    def check(self, value: Any) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_Above):
    def check(self, value: Any) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_Below):
    def check(self, value: Any) -> Tensor:
        return value < self.upper_bound


class _Interval(_Between):
    def check(self, value: Any) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    def check(self, value: Any) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Between):
    is_discrete = True

    def check(self, value: Any) -> Tensor:
        holds = (self.lower_bound <= value) & (value <= self.upper_bound)
        return (value % 1 == 0) & holds


class _IntegerGreaterThan(_Above):
    is_discrete = True

    def check(self, value: Any) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _IntegerLessThan(_Below):
    is_discrete = True

    def check(self, value: Any) -> Tensor:
        return (value % 1 == 0) & (value <= self.upper_bound)


# ---------------------------------------------------------------------------- vectors


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# --------------------------------------------------------------------------- matrices


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Tensor:
        lower = (value.tril() == value).flatten(-2).all(-1)
        return lower & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Tensor:
        tolerance = 10 * value.size(-1) * types.finfo(value.dtype).eps
        unit = ((value.square().sum(-1) - 1).abs() <= tolerance).all(-1)
        return lower_cholesky.check(value) & unit


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Tensor:
        return ops.full(value.shape[:-2], value.size(-1) == value.size(-2))


class _Symmetric(_Square):
    def check(self, value: Any) -> Tensor:
        if value.size(-1) != value.size(-2):
            return super().check(value)
        return ops.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Tensor:
        if value.size(-1) != value.size(-2):
            return super().check(value)
        return super().check(value) & linalg.eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Tensor:
        if value.size(-1) != value.size(-2):
            return super().check(value)
        return super().check(value) & (linalg.cholesky_ex(value).info == 0)


# ----------------------------------------------------------------- sets made of others


class _IndependentConstraint(Constraint):
    """A constraint whose last `reinterpreted_batch_ndims` batch axes become part of one value."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether the base constraint is discrete."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The base constraint's event axes plus the reinterpreted ones."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Tensor:
        holds = self.base_constraint.check(value)
        dims = self.reinterpreted_batch_ndims
        if holds.dim() < dims:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return holds.flatten(-dims).all(-1) if dims else holds

    def __repr__(self) -> str:
        return (f"{type(self).__name__.removeprefix('_')}({self.base_constraint!r}, "
                f"{self.reinterpreted_batch_ndims})")


class MixtureSameFamilyConstraint(Constraint):
    """The values of a mixture: those in the support of every component."""

    def __init__(self, base_constraint: Constraint) -> None:
        assert isinstance(base_constraint, Constraint)
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether the components are discrete."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The components' event axes."""
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Tensor:
        axis = -1 - self.event_dim
        holds = self.base_constraint.check(value.unsqueeze(axis))  # (..., components, event)
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        members = value.dim() - self.event_dim
        return holds.reshape((*holds.shape[:members], -1)).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Parts(Constraint):
    """One constraint per part of an axis."""

    cseq: list[Constraint]

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether any part is discrete."""
        return any(part.is_discrete for part in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The largest event_dim of the parts."""
        return max(part.event_dim for part in self.cseq)


class _Cat(_Parts):
    """Parts concatenated along axis `dim`, with the given `lengths`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0,
                 lengths: Sequence[int] | None = None) -> None:
        assert all(isinstance(part, Constraint) for part in cseq)
        self.cseq = list(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.cseq)
        self.dim = dim
        super().__init__()

    def check(self, value: Any) -> Tensor:
        assert -value.dim() <= self.dim < value.dim()
        parts, start = [], 0
        for part, length in zip(self.cseq, self.lengths, strict=True):
            parts.append(part.check(value.narrow(self.dim, start, length)))
            start += length
        return ops.cat(parts, self.dim)


class _Stack(_Parts):
    """Parts stacked along axis `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        assert all(isinstance(part, Constraint) for part in cseq)
        self.cseq, self.dim = list(cseq), dim
        super().__init__()

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """The largest event_dim of the parts, plus the stacking axis if it is an event axis."""
        dim = super().event_dim
        return dim if self.dim + dim >= 0 else dim + 1

    def check(self, value: Any) -> Tensor:
        assert -value.dim() <= self.dim < value.dim()
        parts = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        checked = [c.check(part) for c, part in zip(self.cseq, parts, strict=False)]
        return ops.stack(checked, self.dim)


# ------------------------------------------------------------------------------- names

dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
