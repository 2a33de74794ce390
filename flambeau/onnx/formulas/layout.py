"""Formulas of operators that copy, divide, combine and rearrange tensors."""

from __future__ import annotations

from typing import Any

from ...tensor.tensor import Tensor
from ..formula_table import FORMULAS, formula, torch

# Operators that copy what a view shows; their aten names end in `_copy`.
_VIEWS = ("alias", "detach", "diagonal", "expand", "permute", "select", "split",
          "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "view",
          "as_strided", "narrow")


def _create_copy(name: str) -> Any:
    def copy(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(torch.Tensor, name)(x, *args, **kwargs)

    return copy


for _name in _VIEWS:
    FORMULAS[f"{_name}_copy"] = _create_copy(_name)


@formula("slice_copy")
def _slice_copy(x: Tensor, dim: int = 0, start: Any = None, end: Any = None,
                step: int = 1) -> Tensor:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


@formula("view_as", "reshape_as")
def _view_as(x: Tensor, other: Tensor) -> Tensor:
    return x.reshape(other.shape)


@formula("ravel")
def _ravel(x: Tensor) -> Tensor:
    return x.reshape(-1)


@formula("unsafe_split_with_sizes")
def _unsafe_split(x: Tensor, sizes: Any, dim: int = 0) -> Any:
    return x.split(sizes, dim)


@formula("linalg_diagonal")
def _linalg_diagonal(x: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    return x.diagonal(offset, dim1, dim2)


@formula("trace")
def _trace(x: Tensor) -> Tensor:
    return x.diagonal().sum()


@formula("diag_embed")
def _diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    length = x.shape[-1] + abs(offset)
    rank = x.ndim + 1
    first, second = dim1 % rank, dim2 % rank
    rows = torch.arange(length).unsqueeze(1)
    on_diagonal = rows + offset == torch.arange(length)
    if offset:
        padding = torch.zeros_like(x[..., :1]).expand(*x.shape[:-1], abs(offset))
        x = torch.cat([padding, x] if offset > 0 else [x, padding], -1)
        # the element of column c > offset, or of row r > -offset
    across = x.unsqueeze(-2) if offset >= 0 else x.unsqueeze(-1)
    wide = across.expand(*x.shape[:-1], length, length)
    square = torch.where(on_diagonal, wide, torch.zeros_like(wide))
    return square.movedim((-2, -1), (first, second))


@formula("index_fill")
def _index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    return torch.where(_mark(x, dim, index), value, x)


def _mark(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return which places along `dim` are in `index`, in a shape that broadcasts with x."""
    rank = max(x.ndim, 1)
    places = torch.arange(x.shape[dim] if x.ndim else 1)
    is_chosen = (places.unsqueeze(1) == index.reshape(1, -1)).any(1)
    if not x.ndim:
        return is_chosen.reshape(())
    return is_chosen.reshape([-1 if d == dim % rank else 1 for d in range(rank)])


def _create_division(axis: int) -> Any:
    """Return hsplit, vsplit or dsplit: split along an axis, the only one if there is only one."""
    def divide(x: Tensor, sections: Any) -> Any:
        return x.tensor_split(sections, axis if x.ndim > 1 else 0)

    return divide


for _name, _axis in (("hsplit", 1), ("vsplit", 0), ("dsplit", 2)):
    FORMULAS[_name] = _create_division(_axis)


@formula("new_tensor")
def _new_tensor(x: Tensor, data: Any, **named: Any) -> Tensor:
    return torch.tensor(data, dtype=named.get("dtype") or x.dtype)


@formula("linspace")
def _linspace(start: Any, end: Any, steps: int, **named: Any) -> Tensor:
    kind = named.get("dtype") or torch.get_default_dtype()
    places = torch.arange(steps).double() / max(steps - 1, 1)
    return (start + (end - start) * places).to(kind)


@formula("fill")
def _fill(x: Tensor, value: Any) -> Tensor:
    return torch.full_like(x, value) if not isinstance(value, Tensor) \
        else value.to(x.dtype).expand(x.shape)


@formula("one_hot")
def _one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    if num_classes < 0:
        raise NotImplementedError("one_hot without num_classes")
    return (x.unsqueeze(-1) == torch.arange(num_classes)).long()
