"""The Wishart distribution of positive definite matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from typing import Any, ClassVar

from .. import linalg, ops
from ..native.foundation.user_frames import warn
from ..tensor.size import Size
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import EVENTLESS, ExponentialFamily, holds_everywhere, lazy_property
from .positive import Chi2

_MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")


class Wishart(ExponentialFamily):
    """Sums of x x^T over df normal vectors x of mean 0, for any real df above n - 1.

    Exactly one of covariance_matrix, precision_matrix and scale_tril (a lower triangle L of
    covariance L L^T) gives the covariance of the vectors.

    >>> wishart = torch.distributions.Wishart(torch.tensor(3.), torch.eye(2))
    >>> wishart.mean, wishart.variance
    (tensor([[3., 0.],
            [0., 3.]]), tensor([[6., 3.],
            [3., 6.]]))
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure: ClassVar[float] = 0
    _flambeau_unexpanded = frozenset({"_unbroadcasted_scale_tril"})

    def __init__(self, df: Any, covariance_matrix: Tensor | None = None,
                 precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        name, matrix = _select_matrix((covariance_matrix, precision_matrix, scale_tril))
        if isinstance(df, Number):
            batch = Size(matrix.shape[:-2])
            self.df = ops.tensor(df, dtype=matrix.dtype)
        else:
            batch = Size(ops.broadcast_shapes(matrix.shape[:-2], df.shape))
            self.df = df.expand(batch)
        n = matrix.shape[-1]
        if not holds_everywhere(self.df > n - 1):
            raise ValueError(f"Value of df={df} must be greater than ndim - 1 = {n - 1}.")
        setattr(self, name, matrix.expand((*batch, -1, -1)))
        self.df = self.df.expand(batch)
        self._batch_shape, self._event_shape = batch, Size(matrix.shape[-2:])
        super().__init__(batch, self._event_shape, validate_args=validate_args)
        if self.df.lt(n).any():
            warn("Low df values detected. Singular samples are highly likely to occur for "
                 "ndim - 1 < df < ndim.")
        self._unbroadcasted_scale_tril = _factor(name, matrix)
        # A chi-squared number for each axis, of df, df - 1, ... degrees of freedom.
        rows = ops.arange(n, dtype=self.df.dtype)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - rows.expand((*batch, -1)))

    @property
    def arg_constraints(self) -> Any:
        """The constraints of the parameters; df must exceed n - 1."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The covariance's Cholesky factor."""
        return self._flambeau_batched(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance of the vectors."""
        factor = self._unbroadcasted_scale_tril
        return self._flambeau_batched(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._flambeau_batched(ops.cholesky_inverse(self._unbroadcasted_scale_tril))

    def _flambeau_batched(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape))

    @property
    def mean(self) -> Tensor:
        return self.df.view((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, math.nan)
        return factor.view((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        pairs = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.view((*self._batch_shape, 1, 1)) * (v.pow(2) + pairs)

    def _flambeau_draw(self, sample_shape: Sequence[int]) -> Tensor:
        """Draw by Bartlett's decomposition: chi samples on the diagonal, normal ones below it."""
        n = self._event_shape[-1]
        noise = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed(dim1=-2, dim2=-1)
        i, j = ops.tril_indices(n, n, offset=-1)
        shape = (*sample_shape, *self._batch_shape, n * (n - 1) // 2)
        noise[..., i, j] = ops.randn(shape, dtype=noise.dtype)
        chol = self._unbroadcasted_scale_tril @ noise
        return chol @ chol.mT

    def rsample(self, sample_shape: Sequence[int] = EVENTLESS,
                max_try_correction: int | None = None) -> Tensor:
        """Draw samples; redraw singular ones, at most `max_try_correction` times (default: 10)."""
        if max_try_correction is None:
            max_try_correction = 10
        sample_shape = Size(sample_shape)
        sample = self._flambeau_draw(sample_shape)
        singular = ~self.support.check(sample)
        if not singular.any():
            return sample
        warn("Singular sample detected.")
        for _ in range(max_try_correction):
            redrawn = self._flambeau_draw(sample_shape)
            sample = ops.where(singular[..., None, None], redrawn, sample)
            singular = ~self.support.check(sample)
            if not singular.any():
                break
        return sample

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        log_det = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        trace = ops.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        return (-nu * (p * math.log(2) / 2 + log_det) - ops.mvlgamma(nu / 2, p=p)
                + (nu - p - 1) / 2 * linalg.slogdet(value).logabsdet - trace / 2)

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        log_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return ((p + 1) * (p * math.log(2) / 2 + log_det) + ops.mvlgamma(nu / 2, p=p)
                - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p) + nu * p / 2)

    @property
    def _natural_params(self) -> Any:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        p = self._event_shape[-1]
        nu_half = y + (p + 1) / 2
        log_det = linalg.slogdet(-2 * x).logabsdet
        return nu_half * (p * math.log(2) - log_det) + ops.mvlgamma(nu_half, p=p)


def _select_matrix(matrices: Sequence[Tensor | None]) -> tuple[str, Tensor]:
    """Return the name and the value of the only matrix that is not None."""
    specified = [(n, m) for n, m in zip(_MATRICES, matrices, strict=True) if m is not None]
    if len(specified) != 1:
        raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril "
                         "may be specified.")
    ((name, matrix),) = specified
    if matrix.dim() < 2:
        raise ValueError("scale_tril must be at least two-dimensional, with optional leading "
                         "batch dimensions")
    return name, matrix


def _factor(name: str, matrix: Tensor) -> Tensor:
    """Return the covariance's Cholesky factor, from the matrix of a name in _MATRICES."""
    if name == "scale_tril":
        return matrix
    return linalg.cholesky(matrix if name == "covariance_matrix" else linalg.inv(matrix))


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of mvlgamma."""
    assert holds_everywhere(x.detach() > (p - 1)
                            / 2), "Wrong domain for multivariate digamma function."
    steps = ops.arange(p, dtype=x.dtype) / 2
    return ops.digamma(x.unsqueeze(-1) - steps.expand((*x.shape, -1))).sum(-1)
