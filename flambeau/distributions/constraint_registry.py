"""biject_to and transform_to: transforms from all real numbers to a constraint.

Optimizers and variational inference work with unconstrained numbers. `biject_to` gives a bijection,
whose density can be corrected; `transform_to` a map that is good for optimization.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from . import constraints, transforms
from .constraints import Constraint
from .transform import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Transforms by constraint class.

    >>> D = torch.distributions
    >>> D.transform_to(D.constraints.positive)(torch.tensor(0.))
    tensor(1.)
    >>> class Even(D.constraints.Constraint):
    ...     pass
    >>> @D.transform_to.register(Even)
    ... def _(constraint):
    ...     return D.AffineTransform(0., 2.)
    >>> D.transform_to(Even())(torch.tensor(3.))
    tensor(6.)
    """

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Factory | None = None) -> Callable[[Any], Any]:
        """Declare the transform of a class of constraints, or of an instance's class.

        factory: takes the constraint and returns the transform; omit it to use this as a decorator.
        TypeError if `constraint` is not one.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, Constraint):
            raise TypeError("Expected constraint to be either a Constraint subclass or instance, "
                            f"but got {constraint}")
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """Return the transform for a constraint; NotImplementedError if none is declared."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints"
            ) from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _declare_in_both(*constraint_classes: Any) -> Callable[[Factory], Factory]:
    def declare(factory: Factory) -> Factory:
        for cls in constraint_classes:
            biject_to.register(cls, factory)
            transform_to.register(cls, factory)
        return factory

    return declare


@_declare_in_both(constraints.real)
def _(constraint: Any) -> Transform:
    return transforms.identity_transform


@biject_to.register(constraints.independent)
def _(constraint: Any) -> Transform:
    return _extend_over_axes(biject_to(constraint.base_constraint), constraint)


@transform_to.register(constraints.independent)
def _(constraint: Any) -> Transform:
    return _extend_over_axes(transform_to(constraint.base_constraint), constraint)


def _extend_over_axes(base: Transform, constraint: Any) -> Transform:
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@_declare_in_both(constraints.positive, constraints.nonnegative, constraints.greater_than,
                  constraints.greater_than_eq)
def _(constraint: Any) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)])


@_declare_in_both(constraints.less_than)
def _(constraint: Any) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)])


@_declare_in_both(constraints.interval, constraints.half_open_interval)
def _(constraint: Any) -> Transform:
    lower: Any = constraint.lower_bound
    upper: Any = constraint.upper_bound
    if all(isinstance(x, Number) for x in (lower, upper)) and (lower, upper) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(lower, upper - lower)])


@biject_to.register(constraints.simplex)
def _(constraint: Any) -> Transform:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _(constraint: Any) -> Transform:
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _(constraint: Any) -> Transform:
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
@transform_to.register(constraints.positive_semidefinite)
def _(constraint: Any) -> Transform:
    return transforms.PositiveDefiniteTransform()


@_declare_in_both(constraints.corr_cholesky)
def _(constraint: Any) -> Transform:
    return transforms.CorrCholeskyTransform()


@biject_to.register(constraints.cat)
def _(constraint: Any) -> Transform:
    parts = [biject_to(part) for part in constraint.cseq]
    return transforms.CatTransform(parts, constraint.dim, constraint.lengths)


@transform_to.register(constraints.cat)
def _(constraint: Any) -> Transform:
    parts = [transform_to(part) for part in constraint.cseq]
    return transforms.CatTransform(parts, constraint.dim, constraint.lengths)


@biject_to.register(constraints.stack)
def _(constraint: Any) -> Transform:
    return transforms.StackTransform([biject_to(c) for c in constraint.cseq], constraint.dim)


@transform_to.register(constraints.stack)
def _(constraint: Any) -> Transform:
    return transforms.StackTransform([transform_to(c) for c in constraint.cseq], constraint.dim)
