"""The normal distribution of several numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .. import linalg, ops
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import EVENTLESS, Distribution, lazy_property, standard_normal


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Multiply matrices (..., n, n) and vectors (..., n) of batch shapes that broadcast."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """Return the squared Mahalanobis distances x^T (L L^T)^-1 x of vectors (..., n)."""
    solved = linalg.solve_triangular(bL, bx.unsqueeze(-1), upper=False)
    return solved.squeeze(-1).pow(2).sum(-1)


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """Return the Cholesky factor of the inverse of a precision matrix (..., n, n).

    The precision is factored from its last row on, so that its inverse is never needed.
    """
    factor = linalg.cholesky(P.flip(-2, -1)).flip(-2, -1).mT
    identity = ops.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return linalg.solve_triangular(factor, identity, upper=False)


class MultivariateNormal(Distribution):
    """Normal vectors, given by covariance, precision, or a lower triangle L of covariance L L^T.

    >>> covariance = torch.tensor([[2., 1.], [1., 2.]])
    >>> normal = torch.distributions.MultivariateNormal(torch.zeros(2), covariance)
    >>> normal.sample((5,)).shape, normal.log_prob(torch.zeros(2))
    (torch.Size([5, 2]), tensor(-2.3872))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _flambeau_unexpanded = frozenset({"_unbroadcasted_scale_tril"})

    def __init__(self, loc: Tensor, covariance_matrix: Tensor | None = None,
                 precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        supplied: dict[str, Any] = {
            "covariance_matrix": covariance_matrix,
            "scale_tril": scale_tril,
            "precision_matrix": precision_matrix,
        }
        supplied = {name: m for name, m in supplied.items() if m is not None}
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if len(supplied) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril "
                             "may be specified.")
        ((name, matrix),) = supplied.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading "
                             "batch dimensions")
        batch = ops.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        self.loc = loc.expand((*batch, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The covariance's Cholesky factor."""
        n = self._event_shape[0]
        return self._unbroadcasted_scale_tril.expand((*self._batch_shape, n, n))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        L, n = self._unbroadcasted_scale_tril, self._event_shape[0]
        return (L @ L.mT).expand((*self._batch_shape, n, n))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        n = self._event_shape[0]
        inverse = ops.cholesky_inverse(self._unbroadcasted_scale_tril)
        return inverse.expand((*self._batch_shape, n, n))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(
            (*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        drawn = standard_normal(self.loc, self._extended_shape(sample_shape))
        return self.loc + (self._unbroadcasted_scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        L, difference = self._unbroadcasted_scale_tril, (value - self.loc).unsqueeze(-1)
        whitened = linalg.solve_triangular(L.expand((*difference.shape[:-2], -1, -1)), difference,
                                           upper=False)
        distance = whitened.squeeze(-1).pow(2).sum(-1)
        return -0.5 * (
            self._event_shape[0] * math.log(2 * math.pi) + distance
        ) - _compute_half_log_det(L)

    def entropy(self) -> Tensor:
        level = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (level + _compute_half_log_det(self._unbroadcasted_scale_tril)).expand(
            self._batch_shape
        )


def _compute_half_log_det(L: Tensor) -> Tensor:
    return L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
