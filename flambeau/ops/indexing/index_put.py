"""index_put and index_put_: assignments through indices, as functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor.tensor import Tensor, wrap
from ...tensor.windows.batch import find_innermost_batch
from ..core.errors import wrap_with_explanation
from ..core.operator import publish
from .index import check_dtypes, view_basic, put_at, split_index
from .position_checks import check_positions


def _complete_index(self: Tensor, indices: Any) -> tuple[Tensor, tuple]:
    items = tuple(slice(None) if i is None else i for i in indices)
    basic, rest = split_index(self, items)
    return (self if basic is None else view_basic(self, basic)), rest or ()


def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Write or add values at the positions given by a tuple of index tensors, in place.

    >>> x = torch.zeros(3)
    >>> torch.index_put_(x, (torch.tensor([1, 1]),), torch.tensor([1., 2.]), accumulate=True)
    tensor([0., 3., 0.])
    """
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            "index_put_(): argument 'indices' (position 1) must be tuple of Tensors, not "
            f"{type(indices).__name__}"
        )
    target, positions = _complete_index(self, indices)
    check_dtypes(self, values, positions or ())
    try:
        put_at(target, values, positions or (Ellipsis,), accumulate, "index_put_")
    except (IndexError, ValueError) as error:
        if isinstance(error, IndexError):
            check_positions(target._array, positions)
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
            f"indexing result of shape {list(target._array[positions or (Ellipsis,)].shape)}"
        ) from None
    return self


def index_put(
    input: Tensor, indices: Any, values: Tensor, accumulate: bool = False
) -> Tensor:
    """Return a copy of `input` with values written or added at the given positions.

    >>> torch.index_put(torch.zeros(3), (torch.tensor([0, 2]),), torch.tensor(5.))
    tensor([5., 0., 5.])
    """
    return index_put_(_copy_target(input, (indices, values)), indices, values, accumulate)


def _copy_target(input: Tensor, others: tuple) -> Tensor:
    """Return a copy to write to; inside vmap, one per example if the others are of examples."""
    batch = find_innermost_batch(others)
    if batch is None or batch.holds(input):
        return input.clone()
    nothing = batch.wrap(wrap(np.full(batch.size, -0.0).astype(input._array.dtype)))
    return input + nothing  # x + -0.0 is x, for x = 0.0 and -0.0 too


publish(wrap_with_explanation("index_put", index_put), ("index_put",), ("torch", "Tensor"))
publish(index_put_, ("index_put_",), ("torch", "Tensor"))
