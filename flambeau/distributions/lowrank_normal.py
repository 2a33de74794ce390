"""The normal distribution whose covariance is a narrow matrix squared plus a diagonal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .. import linalg, ops
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import EVENTLESS, Distribution, lazy_property, standard_normal


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of covariance W W^T + D: `cov_factor` is W (n, rank), `cov_diag` D's diagonal.

    By the Woodbury and determinant lemmas only the rank x rank matrix I + W^T D^-1 W, the
    capacitance, is factorised.

    >>> normal = torch.distributions.LowRankMultivariateNormal(
    ...     torch.zeros(2), torch.tensor([[1.], [0.]]), torch.ones(2))
    >>> normal.covariance_matrix, normal.log_prob(torch.zeros(2))
    (tensor([[2., 0.],
            [0., 1.]]), tensor(-2.1845))
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _flambeau_unexpanded = frozenset({"_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag",
                             "_capacitance_tril"})

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor,
                 validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading "
                             "batch dimensions")
        if cov_factor.shape[-2:-1] != n:
            raise ValueError("cov_factor must be a batch of matrices with shape "
                             f"{n[0]} x m")
        if cov_diag.shape[-1:] != n:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {n}")
        batch = _broadcast_batch(loc, cov_factor, cov_diag)
        self.loc = loc.expand((*batch, -1))
        self.cov_factor = cov_factor.expand((*batch, -1, -1))
        self.cov_diag = cov_diag.expand((*batch, -1))
        super().__init__(batch, n, validate_args=validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = linalg.cholesky(capacitance(cov_factor, cov_diag))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        return (self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
                ).expand((*self._batch_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The covariance's Cholesky factor."""
        # L = sqrt(D) chol(I + (sqrt(D)^-1 W)(...)^T): the matrix inside is better conditioned
        deviation = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled_factor = self._unbroadcasted_cov_factor / deviation
        gram = scaled_factor @ scaled_factor.mT + ops.eye(self._event_shape[0],
                                                          dtype=scaled_factor.dtype)
        return self._flambeau_batched(deviation * linalg.cholesky(gram))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        w = self._unbroadcasted_cov_factor
        return self._flambeau_batched(w @ w.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, by the Woodbury identity."""
        diagonal = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / diagonal.unsqueeze(-2)  # (..., rank, n)
        half = linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._flambeau_batched(diagonal.reciprocal().diag_embed() - half.mT @ half)

    def _flambeau_batched(self, matrix: Tensor) -> Tensor:
        n = self._event_shape[0]
        return matrix.expand((*self._batch_shape, n, n))

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        shape = self._extended_shape(sample_shape)
        w = self._unbroadcasted_cov_factor
        narrow = standard_normal(self.loc, (*shape[:-1], w.shape[-1]))
        diagonal_noise = standard_normal(self.loc, shape)
        spread = (w @ narrow.unsqueeze(-1)).squeeze(-1)
        return self.loc + spread + self._unbroadcasted_cov_diag.sqrt() * diagonal_noise

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        w, diagonal = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        distance = squared_distance(w, diagonal, value - self.loc, self._capacitance_tril)
        level = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (level + log_determinant(diagonal, self._capacitance_tril) + distance)

    def entropy(self) -> Tensor:
        logarithm = log_determinant(self._unbroadcasted_cov_diag, self._capacitance_tril)
        level = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (0.5 * (level + logarithm)).expand(self._batch_shape)


def _broadcast_batch(loc: Tensor, factor: Tensor, diagonal: Tensor) -> Any:
    try:
        return ops.broadcast_shapes(loc.shape[:-1], factor.shape[:-2], diagonal.shape[:-1])
    except RuntimeError as error:
        raise ValueError(
            f"Incompatible batch shapes: loc {loc.shape}, cov_factor {factor.shape}, cov_diag "
            f"{diagonal.shape}"
        ) from error


def capacitance(factor: Tensor, diagonal: Tensor) -> Tensor:
    """I + W^T D^-1 W."""
    scaled = factor.mT / diagonal.unsqueeze(-2)
    return scaled @ factor + ops.eye(factor.shape[-1], dtype=factor.dtype)


def log_determinant(diagonal: Tensor, capacitance_tril: Tensor) -> Tensor:
    """log |W W^T + D|, from the Cholesky factor of the capacitance."""
    corner = capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return 2 * corner + diagonal.log().sum(-1)


def squared_distance(
    factor: Tensor, diagonal: Tensor, difference: Tensor, capacitance_tril: Tensor
) -> Tensor:
    """d^T (W W^T + D)^-1 d of a difference d, from the Cholesky factor of the capacitance."""
    inner = (factor.mT / diagonal.unsqueeze(-2)) @ difference.unsqueeze(-1)  # (..., rank, 1)
    factor_of = capacitance_tril.expand((*inner.shape[:-2], -1, -1))
    solved = linalg.solve_triangular(factor_of, inner, upper=False)
    return (difference.pow(2) / diagonal).sum(-1) - solved.pow(2).sum((-2, -1))
