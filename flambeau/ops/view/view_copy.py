"""Copies of views: `view_copy` and its variants return new memory; `*_scatter` operators return a
copy of a tensor in which a view's elements are overwritten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...tensor.layout import contiguous_format
from ...tensor.tensor import Tensor
from ...tensor.tree import get_leaves, map_leaves
from ..core.axes import canonicalize_dim
from ..core.errors import wrap_with_explanation
from ..core.operator import PUBLIC, publish
from ..core.out import write_result
from ..core.registry import composite
from .expand import squeeze, unsqueeze
from .sections import split, split_with_sizes, unbind
from .slices import basic_index, diagonal, narrow, select
from .strided import as_strided, unfold
from .transpose import permute, t, transpose

# ------------------------------------------------------------------------------------- copies


def _copy(y: Any) -> Any:
    return map_leaves(lambda view: view.clone(memory_format=contiguous_format), y)


def _write(name: str, y: Any, out: Any) -> Any:
    for view, target in zip(get_leaves(y), get_leaves(out), strict=True):
        write_result(name, view, target)
    return out


def _publish_copy(
    name: str, function: Callable, spaces: tuple[str, ...] = ("torch",), doc: str | None = None
) -> None:
    def copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        y = function(input, *args, **kwargs)
        return _copy(y) if out is None else _write(name, y, out)

    copy.__name__ = copy.__qualname__ = name
    copy.__doc__ = doc or f"Like `{name.removesuffix('_copy')}`, in memory of its own."
    publish(wrap_with_explanation(name, copy), (name,), spaces)


def _slice(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """The view of a slice along one axis."""
    axis = canonicalize_dim(dim, input._array.ndim)
    if step <= 0:
        raise RuntimeError(f"slice step must be positive, got {step}")
    return basic_index(input, (*(slice(None),) * axis, slice(start, end, step), Ellipsis))


for _view in (diagonal, permute, select, split, split_with_sizes, squeeze, t, transpose, unbind,
              unsqueeze):
    _publish_copy(f"{_view.__name__}_copy", _view)


def _narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """The view of narrow, with narrow_copy's error messages."""
    shape = input._array.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if dim < -len(shape):
        canonicalize_dim(dim, len(shape))
    if dim >= len(shape):
        raise RuntimeError(
            "Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false.  "
            "(Could this error message be improved?  If so, please report an enhancement request "
            "to PyTorch.)"
        )
    if length < 0:
        raise RuntimeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({shape[dim]})."
        )
    return narrow(input, dim, start, length)


_publish_copy("narrow_copy", _narrow, ("torch", "Tensor"),
              doc="Like `narrow`, in memory of its own.")
_publish_copy("as_strided_copy", as_strided)
_publish_copy("unfold_copy", unfold)
_publish_copy("alias_copy", lambda input: input, doc="Like `clone`: a copy of the whole tensor.")
_publish_copy("detach_copy", Tensor.detach)
_publish_copy("expand_copy", lambda input, size, **options: input.expand(*size, **options))
_publish_copy("view_copy", lambda input, size=None, dtype=None: input.reshape(
    size) if dtype is None else input.view(dtype))
_publish_copy("slice_copy", _slice, doc="""A copy of what lies from `start` to `end` along an axis.

    >>> torch.slice_copy(torch.arange(6), 0, 1, 6, 2)
    tensor([1, 3, 5])
    """)


def _create_complex_view(name: str) -> Callable:
    """torch.view_as_real or view_as_complex, looked up at call time."""
    return lambda input: PUBLIC["torch"][name](input)


_publish_copy("view_as_real_copy", _create_complex_view("view_as_real"))
_publish_copy("view_as_complex_copy", _create_complex_view("view_as_complex"))

# ----------------------------------------------------------------------------------- scatters


def _scatter(input: Tensor, src: Tensor, window: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a copy of `input` whose window contains `src`; RuntimeError if their shapes differ."""
    result = input.clone()
    target = window(result)
    if target._array.shape != src._array.shape:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(target.shape)}"
        )
    target.copy_(src)
    return result


@composite(explains=True, node="SelectScatterBackward0")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Return a copy with `src` written at one index of an axis.

    >>> torch.select_scatter(torch.zeros(2, 2), torch.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    return _scatter(input, src, lambda x: select(x, dim, index))


@composite(explains=True, node="SliceScatterBackward0")
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1
) -> Tensor:
    """Return a copy with `src` written to a slice of an axis.

    >>> torch.slice_scatter(torch.zeros(4), torch.ones(2), start=1, end=3)
    tensor([0., 1., 1., 0.])
    """
    return _scatter(input, src, lambda x: _slice(x, dim, start, end, step))


@composite(explains=True, node="DiagonalScatterBackward0")
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """Return a copy with `src` written to a diagonal.

    >>> torch.diagonal_scatter(torch.zeros(2, 2), torch.tensor([1., 2.]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    return _scatter(input, src, lambda x: diagonal(x, offset, dim1, dim2))


@composite(explains=True, node="AsStridedScatterBackward0")
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int],
    storage_offset: int | None = None
) -> Tensor:
    """Return a copy with `src` written through a strided view of its memory.

    >>> torch.as_strided_scatter(torch.zeros(2, 2), torch.ones(2), (2,), (3,))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return _scatter(input, src, lambda x: as_strided(x, size, stride, storage_offset))


publish(_slice, ("slice",), ("aten",))
