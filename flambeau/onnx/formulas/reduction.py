"""Formulas of reductions and scans."""

from __future__ import annotations

import math
from typing import Any

from ...tensor.tensor import Tensor
from ..formula_table import formula, torch


def _read_correction(dim: Any, unbiased: Any, correction: Any) -> tuple[Any, Any]:
    """Return the axes and the correction of a variance, whose second argument may be either."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 0 if unbiased is False else 1
    return dim, correction


@formula("var_mean")
def _var_mean(x: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
              correction: Any = None) -> Any:
    dim, less = _read_correction(dim, unbiased, correction)
    mean = x.mean() if dim is None else x.mean(dim, keepdim)
    return torch.var(x, dim, correction=less, keepdim=keepdim), mean


@formula("std_mean")
def _std_mean(x: Tensor, *args: Any, **kwargs: Any) -> Any:
    variance, mean = _var_mean(x, *args, **kwargs)
    return variance.sqrt(), mean


@formula("native_layer_norm")
def _native_layer_norm(x: Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    mean = x.mean(dims, True)
    scale = ((x - mean) ** 2).mean(dims, True).add(eps).rsqrt()
    y = torch.nn.functional.layer_norm(x, shape, weight, bias, eps)
    return y, mean, scale


@formula("native_group_norm")
def _native_group_norm(x: Tensor, weight: Any, bias: Any, batch: int, channels: int, length: int,
                       groups: int, eps: float) -> Any:
    rows = x.reshape(batch, groups, -1)
    mean = rows.mean(-1)
    scale = ((rows - mean.unsqueeze(-1)) ** 2).mean(-1).add(eps).rsqrt()
    return torch.nn.functional.group_norm(x, groups, weight, bias, eps), mean, scale


@formula("median", "nanmedian")
def _median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        row = x.reshape(-1)
        return row.sort().values[(row.shape[0] - 1) // 2]
    return _kthvalue(x, (x.shape[dim] + 1) // 2 if x.ndim else 1, dim, keepdim)


@formula("kthvalue")
def _kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    values, indices = x.sort(dim)
    if not x.ndim:
        return values, indices
    parts = [part.narrow(dim, k - 1, 1) for part in (values, indices)]
    return tuple(part if keepdim else part.squeeze(dim) for part in parts)


@formula("renorm")
def _renorm(x: Tensor, p: Any, dim: int, maxnorm: Any) -> Tensor:
    others = tuple(d for d in range(x.ndim) if d != dim % x.ndim)
    norm = _vector_norm(x, p, others, True)
    return torch.where(norm > maxnorm, x * (maxnorm / (norm + 1e-7)), x)


@formula("count_nonzero")
def _count_nonzero(x: Tensor, dim: Any = None) -> Tensor:
    is_counted = (x != 0).long()
    return is_counted.sum() if dim is None else is_counted.sum(dim)


@formula("nansum")
def _nansum(x: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    finite = torch.where(x.isnan(), torch.zeros_like(x), x) if x.is_floating_point() else x
    return finite.sum(dtype=dtype) if dim is None else finite.sum(dim, keepdim, dtype=dtype)


@formula("aminmax")
def _aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    dims = tuple(range(x.ndim)) if dim is None else dim
    return x.amin(dims, keepdim), x.amax(dims, keepdim)


@formula("linalg_vector_norm", "vector_norm")
def _vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *,
                 dtype: Any = None) -> Tensor:
    x = x if dtype is None else x.to(dtype)
    dims = tuple(range(x.ndim)) if dim is None else dim
    size = x.abs()
    if ord == math.inf:
        return size.amax(dims, keepdim)
    if ord == -math.inf:
        return size.amin(dims, keepdim)
    if ord == 0:
        return (x != 0).to(x.dtype).sum(dims, keepdim)
    if ord == 1:
        return size.sum(dims, keepdim)
    return size.pow(ord).sum(dims, keepdim).pow(1 / ord)


@formula("logcumsumexp")
def _logcumsumexp(x: Tensor, dim: int) -> Tensor:
    highest = x.amax(dim, keepdim=True) if x.ndim else x
    return (x - highest).exp().cumsum(dim).log() + highest


@formula("dist")
def _dist(x: Tensor, y: Tensor, p: Any = 2) -> Tensor:
    return _vector_norm(x - y, p)


@formula("isin")
def _isin(elements: Any, test_elements: Any, *, assume_unique: bool = False,
          invert: bool = False) -> Tensor:
    x = elements if isinstance(elements, Tensor) else torch.tensor(elements)
    values = test_elements if isinstance(test_elements, Tensor) else torch.tensor(test_elements)
    result = (x.unsqueeze(-1) == values.reshape(-1)).any(-1)
    return ~result if invert else result


@formula("bucketize")
def _bucketize(x: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
               ) -> Tensor:
    x = x if isinstance(x, Tensor) else torch.tensor(x)
    wide = x.unsqueeze(-1)
    is_below = boundaries <= wide if right else boundaries < wide
    counts = is_below.long().sum(-1)
    return counts.int() if out_int32 else counts


@formula("norm")
def _norm(x: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, *,
          dtype: Any = None) -> Tensor:
    if p == "nuc":
        raise NotImplementedError("a nuclear norm")
    order = 2 if p in ("fro", None) else p
    return _vector_norm(x, order, dim, keepdim, dtype=dtype)


@formula("linalg_matrix_norm")
def _matrix_norm(A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *,
                 dtype: Any = None) -> Tensor:
    if ord != "fro":
        raise NotImplementedError(f"a matrix norm of order {ord}")
    return _vector_norm(A, 2, dim, keepdim, dtype=dtype)
