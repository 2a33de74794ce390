"""PyTorch's built-in parametrizations: orthogonal, spectral_norm, weight_norm."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from ... import linalg, ops
from ...autograd import no_grad
from ...tensor import Tensor, dtypes
from .. import functional as F
from ..module import Module
from . import parametrize
from .spectral_norm import axis_of_outputs
from .weight_norm import norm_except_dim, normalised_weight

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _OrthMaps(Enum):
    """How to make an orthogonal matrix from any matrix."""

    matrix_exp = auto()
    cayley = auto()
    householder = auto()


def _is_orthogonal(q: Tensor) -> bool:
    """Whether the columns are orthonormal, up to rounding."""
    rows, columns = q.shape[-2:]
    tolerance = 10.0 * rows * dtypes.finfo(q.dtype).eps
    return ops.allclose(q.mH @ q, ops.eye(columns, dtype=q.dtype), atol=tolerance)


def _make_orthogonal(a: Tensor) -> Tensor:
    """The orthogonal factor of a matrix, with signs chosen to preserve an orthogonal matrix."""
    reflectors, tau = ops.geqrf(a)
    q = linalg.householder_product(reflectors, tau)
    return q * reflectors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """Map any matrix to one with orthonormal columns (or rows, if it is wide).

    With `base`, the map starts from that matrix, so that any value can be assigned.
    """

    def __init__(
        self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        is_wide = x.size(-2) < x.size(-1)
        if is_wide:
            x = x.mT
        if self.orthogonal_map is _OrthMaps.householder:
            q = self._map_by_reflections(x)
        else:
            q = self._map_by_skew_symmetric(x)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if is_wide else q

    def _map_by_reflections(self, x: Tensor) -> Tensor:
        reflectors = x.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (reflectors * reflectors).sum(dim=-2))
        q = linalg.householder_product(reflectors, tau)
        # The diagonal holds signs; as integers they have no gradient.
        return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def _map_by_skew_symmetric(self, x: Tensor) -> Tensor:
        rows, columns = x.shape[-2:]
        x = x.tril()
        if rows != columns:  # pad with zeros to a square
            zeros = x.new_zeros(rows, rows - columns).expand(*x.shape[:-2], -1, -1)
            x = ops.cat([x, zeros], dim=-1)
        skew = x - x.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            q = ops.matrix_exp(skew)
        else:
            identity = ops.eye(rows, dtype=skew.dtype)
            q = linalg.solve(identity - 0.5 * skew, identity + 0.5 * skew)
        return q if rows == columns else q[..., :columns]

    def right_inverse(self, q: Tensor) -> Tensor:
        """Return an original that gives `q`; ValueError for another shape."""
        if q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {q.shape}."
            )
        with no_grad():
            if hasattr(self, "base"):
                return self._rebase(q)
            return self._compute_reflectors(q)

    def _compute_reflectors(self, q: Tensor) -> Tensor:
        if self.orthogonal_map is not _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        is_wide = q.size(-2) < q.size(-1)
        a, tau = ops.geqrf(q.mT if is_wide else q)
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        diagonal.sign_()
        # tau = 0 is the identity, which 2 / (1 + |v|^2) cannot express: compensate with a sign.
        diagonal[tau == 0.0] *= -1
        return a.mT if is_wide else a

    def _rebase(self, q: Tensor) -> Tensor:
        tall = q.mT if q.size(-2) < q.size(-1) else q
        rows, columns = tall.shape[-2:]
        if rows != columns:  # complete to a square at random
            random_columns = ops.randn(*tall.shape[:-2], rows, rows - columns, dtype=q.dtype)
            base = _make_orthogonal(ops.cat([tall, random_columns], dim=-1))
        else:
            base = tall.clone() if _is_orthogonal(tall) else _make_orthogonal(tall)
        self.base = base
        # The original for which every map gives the identity, up to householder's sign.
        start = ops.zeros_like(q)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(
    module: Any,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Any:
    """Make a parameter's matrix orthogonal, and keep it orthogonal in training.

    `orthogonal_map` is "matrix_exp", "cayley" or "householder"; defaults to "matrix_exp" for square
    and complex matrices, "householder" for others.

    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
    >>> torch.allclose(layer.weight @ layer.weight.T, torch.eye(3), atol=1e-5)
    True
    """
    weight = _require_tensor(module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    chosen = getattr(_OrthMaps, orthogonal_map, None)
    if chosen is None:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
            f"{orthogonal_map}"
        )
    result = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, result, unsafe=True)


def _require_tensor(module: Any, name: str) -> Tensor:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return tensor


class _WeightNorm(Module):
    """Compute a weight from norms and directions."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return normalised_weight(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the norms, and the weight as directions."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Split a parameter into its norm over all axes but `dim` (original0) and its direction.

    Salimans and Kingma, 2016.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> layer.parametrizations.weight.original0.shape, layer.weight.shape
    (torch.Size([2, 1]), torch.Size([2, 3]))
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def read_hook_version(state_dict: dict, prefix: str, *rest: Any) -> None:
        """Convert state written with the older `torch.nn.utils.weight_norm`."""
        old = [f"{prefix}{name}_{suffix}" for suffix in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(read_hook_version)
    return module


class _SpectralNorm(Module):
    """A weight divided by its largest singular value, which power iteration estimates."""

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got "
                f"{dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % ndim
        self.eps = eps
        if ndim == 1:
            return
        self.n_power_iterations = n_power_iterations
        matrix = self._reshape_weight_to_matrix(weight.detach())
        for name, length in zip(("_u", "_v"), matrix.size(), strict=True):
            drawn = matrix.new_empty(length).normal_(0, 1)
            self.register_buffer(name, F.normalize(drawn, dim=0, eps=eps))
        self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight as (axis `dim`, all others)."""
        return (weight.movedim(self.dim, 0) if self.dim else weight).flatten(1)

    def _power_method(self, weight_mat: Tensor, n_power_iterations: int) -> None:
        """Improve the singular vectors in place."""
        with no_grad():
            for _ in range(n_power_iterations):
                u = F.normalize(ops.mv(weight_mat, self._v), dim=0, eps=self.eps)
                self._u.copy_(u)
                v = F.normalize(ops.mv(weight_mat.mH, self._u), dim=0, eps=self.eps)
                self._v.copy_(v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # The next forward overwrites the vectors while backward may still need them.
        u, v = self._u.clone(), self._v.clone()
        return weight / ops.vdot(u, ops.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the value: it can serve as the original."""
        return value


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Divide a parameter by its largest singular value (Miyato et al., 2018).

    In training, every access of the parameter runs `n_power_iterations` steps of the estimate.

    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3), n_power_iterations=100)
    >>> bool(abs(torch.linalg.matrix_norm(layer.weight, 2) - 1) < 1e-3)
    True
    """
    weight = _require_tensor(module, name)
    dim = axis_of_outputs(module) if dim is None else dim
    result = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, result)
