"""Transforms of vectors and matrices: to probabilities that sum to one, and to Cholesky factors."""

from __future__ import annotations

import math
from typing import Any

from .. import linalg, ops
from ..ops.activation.softmax import softmax
from ..ops.activation.softplus import softplus
from ..ops.view.padding import pad
from ..tensor import dtypes as types
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import tril_matrix_to_vec, vec_to_tril_matrix
from .transform import Shape, Transform


class _Parameterless(Transform):
    """A transform without parameters; two of the same class are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))

    __hash__ = None


class SoftmaxTransform(_Parameterless):
    """exp(x), normalized so that each row sums to 1; the inverse returns one of many solutions.

    >>> torch.distributions.SoftmaxTransform()(torch.tensor([0., 0.]))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Shape) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Parameterless):
    """Map n numbers to n + 1 shares that sum to one: each is a fraction of what is left.

    The shift by log(n), ..., log(1) maps zeros to equal shares.

    >>> torch.distributions.StickBreakingTransform()(torch.tensor([0., 0.]))
    tensor([0.3333, 0.3333, 0.3333])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _shift(x: Tensor) -> Tensor:
        """The logarithm of the number of shares left after each one."""
        n = x.shape[-1]
        return ops.arange(n, 0, -1, dtype=x.dtype).log()

    def _call(self, x: Tensor) -> Tensor:
        fraction = ops.sigmoid(x - self._shift(x))
        remainder = (1 - fraction).cumprod(-1)
        return pad(fraction, [0, 1], value=1) * pad(remainder, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        probabilities = y[..., :-1]
        # Rounding may exhaust the remainder before the last element; its logarithm must exist.
        remainder = ops.clamp(1 - probabilities.cumsum(-1), min=types.finfo(y.dtype).tiny)
        return probabilities.log() - remainder.log() + self._shift(probabilities)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._shift(x)
        return (-x - softplus(-x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return (*tuple(shape[:-1]), shape[-1] + 1)

    def inverse_shape(self, shape: Shape) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return (*tuple(shape[:-1]), shape[-1] - 1)


class CorrCholeskyTransform(_Parameterless):
    """n (n - 1) / 2 numbers to the Cholesky factor of an n x n correlation matrix.

    The tanh of the numbers are the partial correlations, which fill the lower triangle by rows;
    along a row, each takes its part of the length left by the previous ones.

    >>> factor = torch.distributions.CorrCholeskyTransform()(torch.tensor([0.5]))
    >>> factor, factor @ factor.mT
    (tensor([[1.0000, 0.0000],
            [0.4621, 0.8868]]), tensor([[1.0000, 0.4621],
            [0.4621, 1.0000]]))
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = types.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        remainder = (1 - partial**2).sqrt().cumprod(-1)
        rows = partial + ops.eye(partial.shape[-1], dtype=partial.dtype)
        return rows * pad(remainder[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        remainder = pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(remainder, diag=-1).sqrt()
        return (partial.log1p() - partial.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        remainder = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        along_rows = 0.5 * remainder.log().sum(-1)
        return along_rows - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Shape) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        count = shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Shape) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        n = shape[-1]
        return (*shape[:-2], n * (n - 1) // 2)


class LowerCholeskyTransform(_Parameterless):
    """Map a matrix to a Cholesky factor: its lower triangle, with exp of the diagonal.

    >>> torch.distributions.LowerCholeskyTransform()(torch.tensor([[0., 5.], [2., 0.]]))
    tensor([[1., 0.],
            [2., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Parameterless):
    """Map a matrix to a positive definite one, L L^T of its Cholesky factor L.

    >>> torch.distributions.PositiveDefiniteTransform()(torch.tensor([[0., 5.], [2., 0.]]))
    tensor([[1., 2.],
            [2., 5.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))
