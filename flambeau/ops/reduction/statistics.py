"""Covariances and correlations, and differences along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...native.foundation.user_frames import warn
from ...tensor import dtypes as types
from ...tensor.capture_marks import are_nonnegative, holds
from ...tensor.promotion import legacy_name
from ...tensor.tensor import Tensor
from ..core.axes import canonicalize_dims
from ..core.registry import composite
from ..linalg.matmul import matmul
from ..view.join import cat
from ..view.triangles import diag


def _read_observations(input: Tensor, name: str) -> Tensor:
    if input._array.ndim > 2:
        raise RuntimeError(f"{name}(): expected input to have two or fewer dimensions but got an "
                           f"input with {input._array.ndim} dimensions")
    if input.dtype is types.bool_:
        raise RuntimeError(f"{name}(): bool dtype is not supported for input")
    return input if input._array.ndim == 2 else input.reshape(1, -1)


def _check_weights(weights: Tensor, count: int, label: str, integral: bool) -> None:
    if weights._array.ndim > 1:
        raise RuntimeError(f"cov(): expected {label} to have one or fewer dimensions but got "
                           f"{label} with {weights._array.ndim} dimensions")
    is_integral = not (weights.dtype.is_floating_point or weights.dtype.is_complex)
    if is_integral != integral or weights.dtype is types.bool_:
        words = "integral" if integral else "floating point"
        raise RuntimeError(f"cov(): expected {label} to have {words} dtype but got {label} with "
                           f"{legacy_name(weights.dtype)} dtype")
    if weights._array.size != count:
        raise RuntimeError(
            f"cov(): expected {label} to have the same numel as there are observations in the "
            f"input but got {weights._array.size} != {count}"
        )
    if count and not holds(weights, are_nonnegative):
        raise RuntimeError(f"cov(): {label} cannot be negative")


def _is_nonzero(total: np.ndarray) -> Any:
    return total != 0


def _is_positive(norm: np.ndarray) -> Any:
    return norm > 0


@composite(explains=True)
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
    aweights: Tensor | None = None
) -> Tensor:
    """Covariance matrix of variables in rows, observed in columns.

    Args:
        input: Variables in rows, observations in columns, (n, k) or (k,).

    >>> torch.cov(torch.tensor([[0., 1., 2.], [2., 1., 0.]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    x = _read_observations(input, "cov")
    count = x.shape[1]
    weights = None
    if fweights is not None:
        _check_weights(fweights, count, "fweights", True)
        weights = fweights
    if aweights is not None:
        _check_weights(aweights, count, "aweights", False)
        weights = aweights if weights is None else weights * aweights
    if weights is None:
        total = count
        mean = x.sum(1, True) / count
        norm = total - correction
    else:
        total = weights.sum()
        if count and not holds(total, _is_nonzero):
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        mean = (x * weights).sum(1, True) / total
        norm = total - correction
        if aweights is not None and correction != 0:
            norm = total - correction * (weights * aweights).sum() / total
    if not (holds(norm, _is_positive) if isinstance(norm, Tensor) else norm > 0):
        warn("cov(): degrees of freedom is <= 0. Correction should be strictly less than the "
             "number of observations.")
    centred = x - mean
    scaled = centred if weights is None else centred * weights
    norm = norm.clamp(min=0) if isinstance(norm, Tensor) else max(norm, 0)
    adjoint = scaled.t().conj() if scaled.is_complex() else scaled.t()
    if adjoint.dtype is not centred.dtype:
        centred = centred.to(adjoint.dtype)
    y = matmul(centred, adjoint) / norm
    return y.squeeze()


@composite(explains=True)
def corrcoef(input: Tensor) -> Tensor:
    """Matrix of correlation coefficients of variables in rows, observed in columns.

    Args:
        input: Variables in rows, observations in columns, (n, k) or (k,).

    >>> torch.corrcoef(torch.tensor([[0., 1., 2.], [2., 1., 0.]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    _read_observations(input, "corrcoef")
    c = cov(input)
    if not c._array.ndim:
        return c / c
    d = diag(c)
    deviation = (d.real if d.is_complex() else d).sqrt()
    y = c / deviation.unsqueeze(-1) / deviation.unsqueeze(0)
    if y.is_complex():
        return _clip_complex(y)
    return y.clamp(-1, 1)


def _clip_complex(y: Tensor) -> Tensor:
    from ..pointwise.complex_numbers import complex

    return complex(y.real.clamp(-1, 1), y.imag.clamp(-1, 1))


# -------------------------------------------------------------------------------- gradients


def _compute_difference(x: Tensor, axis: int, spacing: Any, edge_order: int) -> Tensor:
    """Second-order differences inside along an axis, one-sided ones at its ends."""
    n = x.shape[axis]

    def part(start: int, length: int) -> Tensor:
        return x.narrow(axis, start, length)

    if not isinstance(spacing, Tensor):
        h = spacing
        inside = (part(2, n - 2) - part(0, n - 2)) / (2 * h)
        if edge_order == 1:
            ends = (part(1, 1) - part(0, 1)) / h, (part(n - 1, 1) - part(n - 2, 1)) / h
        else:
            ends = (
                (part(0, 1) * -1.5 + part(1, 1) * 2 - part(2, 1) * 0.5) / h,
                (part(n - 1, 1) * 1.5 - part(n - 2, 1) * 2 + part(n - 3, 1) * 0.5) / h,
            )
        return cat([ends[0], inside, ends[1]], axis)
    shape = [-1 if i == axis else 1 for i in range(len(x.shape))]
    steps = spacing.diff().reshape(shape)
    h1, h2 = steps.narrow(axis, 0, n - 2), steps.narrow(axis, 1, n - 2)
    a, b, c = -h2 / (h1 * (h1 + h2)), (h2 - h1) / (h1 * h2), h1 / (h2 * (h1 + h2))
    inside = a * part(0, n - 2) + b * part(1, n - 2) + c * part(2, n - 2)
    first, last = steps.narrow(axis, 0, 1), steps.narrow(axis, n - 2, 1)
    if edge_order == 1:
        ends = (part(1, 1) - part(0, 1)) / first, (part(n - 1, 1) - part(n - 2, 1)) / last
    else:
        d, e = steps.narrow(axis, 1, 1), steps.narrow(axis, n - 3, 1)
        ends = (
            -(2 * first + d) / (first * (first + d)) * part(0, 1)
            + (first + d) / (first * d) * part(1, 1) - first / (d * (first + d)) * part(2, 1),
            (2 * last + e) / (last * (last + e)) * part(n - 1, 1)
            - (last + e) / (last * e) * part(n - 2, 1) + last / (e * (last + e)) * part(n - 3, 1),
        )
    return cat([ends[0], inside, ends[1]], axis)


def _read_spacings(spacing: Any, axes: Sequence[int]) -> list[Any]:
    if spacing is None:
        return [1] * len(axes)
    if isinstance(spacing, (list, tuple)):
        if len(spacing) != len(axes):
            raise RuntimeError(
                "torch.gradient expected spacing to be unspecified, a scalar or a list of length "
                f"equal to 'self.dim() - 1' ({len(axes)}), but got a list of length {len(spacing)}"
            )
        return list(spacing)
    if isinstance(spacing, Tensor) and not spacing._array.ndim:
        return [spacing.item()] * len(axes)
    return [spacing] * len(axes)


@composite(expose=("torch",), explains=True)
def gradient(
    input: Tensor, *, spacing: Any = None, dim: int | Sequence[int] | None = None,
    edge_order: int = 1
) -> Any:
    """Estimate the derivative along each axis; return a tuple of tensors shaped like input.

    >>> torch.gradient(torch.tensor([1., 4., 9.]))
    (tensor([3., 4., 5.]),)
    """
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    axes = canonicalize_dims(dim, input._array.ndim)
    spacings = _read_spacings(spacing, axes)
    for axis in axes:
        if input.shape[axis] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least "
                               "edge_order+1")
    for h in spacings:
        if isinstance(h, Tensor) and h.device != input.device:
            raise RuntimeError(
                "torch.gradient expected each tensor to be on the same device, but got devices "
                f"{input.device} and {h.device}!"
            )
    for axis, h in zip(axes, spacings, strict=True):
        if isinstance(h, Tensor) and h._array.size != input.shape[axis]:
            raise RuntimeError(
                "torch.gradient expected each element to be a 1D tensor with the same length as "
                f"the corresponding dimension, but got {h._array.size} for {input.shape[axis]}"
            )
    return tuple(_compute_difference(input, axis, h, edge_order)
                 for axis, h in zip(axes, spacings, strict=True))
