"""Correlation matrices, by their Cholesky factors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .. import ops
from ..autograd import no_grad
from ..tensor import dtypes as types
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import EVENTLESS, Distribution, broadcast_all
from .positive import Beta


class LKJCholesky(Distribution):
    """Cholesky factors L of correlation matrices, with density det(L L^T)^(concentration - 1)
    of the matrix: 1 makes all matrices alike, more makes those near the identity likelier.

    >>> factor = torch.distributions.LKJCholesky(3, 0.5).sample()
    >>> (factor @ factor.mT).diagonal()
    tensor([1.0000, 1.0000, 1.0000])
    """

    arg_constraints: ClassVar[Mapping[str, Constraint]] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0,
                 validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError("Expected dim to be an integer greater than or equal to 2. Found "
                             f"dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        rows = ops.arange(dim - 1, dtype=self.concentration.dtype)
        rows = ops.cat([rows.new_zeros(1), rows])
        beta_concentration = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(rows + 0.5, beta_concentration.unsqueeze(-1) - 0.5 * rows)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Sequence[int] = EVENTLESS) -> Tensor:
        with no_grad():  # the onion method: each row is a direction and its length
            squared = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            rows = ops.randn(shape, dtype=squared.dtype).tril(-1)
            rows = rows / rows.norm(dim=-1, keepdim=True)
            rows[..., 0, :] = 0.0
            rows = squared.sqrt() * rows
            remainder = (1 - rows.square().sum(-1)).clamp(min=types.finfo(rows.dtype).tiny)
            return rows + ops.diag_embed(remainder.sqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, dof = self.dim, self.dim - 1
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + n - ops.arange(2, n + 1)
        alpha = self.concentration + 0.5 * dof
        log_norm = (0.5 * dof * math.log(math.pi) + ops.mvlgamma(alpha - 0.5, dof)
                    - ops.lgamma(alpha) * dof)
        return (powers * diagonal.log()).sum(-1) - log_norm
