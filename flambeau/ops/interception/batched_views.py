"""In-place writes through recorded views inside vmap: the new history of base and views.

A view's elements are located in its base by their addresses, once for all examples. The base's new
history is an index_copy to those places, the view's an index_select from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd.mode import enable_grad
from ...autograd.views import Views
from ...tensor.tensor import Tensor, wrap
from ...tensor.windows.batch import find_innermost_batch
from ...tensor.windows.batched_window import BatchedWindow
from ..core.operator import OPERATORS
from .batched_loops import loop_recorded


def _rebase(x: Tensor, node: Any) -> None:
    """Make `node` the history of the value written to the view `x`."""
    base = x._base
    assert base is not None
    value = _with_history(x, node)
    old = _with_history(base, base._node) if base._requires_grad else _with_history(base, None)
    positions = _find_places(base, x)
    with enable_grad():
        new = OPERATORS["index_copy"].function(old.reshape(-1), 0, positions, value.reshape(-1))
        base._node = new.reshape(base.shape)._node
    base._requires_grad = base._tracked = True
    _reattach(x)


def _reattach(view: Tensor) -> None:
    """Give a view a node based on its base's current history."""
    base = view._base
    assert base is not None
    view._stamp = base._node
    if not base._requires_grad:
        return
    with enable_grad():
        flat = _with_history(base, base._node or base).reshape(-1)
        chosen = OPERATORS["index_select"].function(flat, 0, _find_places(base, view))
        view._node = chosen.reshape(view.shape)._node
    view._requires_grad = view._tracked = True


def _with_history(x: Tensor, node: Any) -> Tensor:
    """Return a tensor on the same window with history `node`."""
    result: Tensor = wrap(x._array)
    if node is not None:
        result._node = node
        result._requires_grad = result._tracked = True
    return result


def _find_places(base: Tensor, view: Tensor) -> Tensor:
    """Return the row-major index in the base of each element of the view."""
    item = base._array.itemsize
    if view._array.itemsize != item:
        raise NotImplementedError("vmap: a write through a view of another dtype, where gradients "
                                  "flow through its base")
    start = (_read_address(view) - _read_address(base)) // item
    of_base, of_view = _compute_offsets(base, item), start + _compute_offsets(view, item)
    order = np.argsort(of_base, kind="stable")
    return wrap(order[np.searchsorted(of_base[order], of_view)])


def _compute_offsets(x: Tensor, item: int) -> np.ndarray:
    result = np.zeros((), np.int64)
    for n, stride in zip(x._array.shape, x._array.strides, strict=True):
        result = result[..., None] + np.arange(n) * (stride // item)
    return result.reshape(-1)


def _read_address(x: Tensor) -> int:
    window: Any = x._array
    while window.__class__ is BatchedWindow:
        window = window.below._array
    address: int = window.ctypes.data
    return address


def _map(function: Callable[[Tensor], Tensor], g: Tensor) -> Tensor:
    """Apply a function to each example's cotangent, in a loop, if the view is not batched."""
    batch = find_innermost_batch((g,))
    assert batch is not None
    result: Tensor = loop_recorded(function, batch, (g,), "as_strided_scatter")
    return result


Views.rebase_examples, Views.reattach_examples = staticmethod(_rebase), staticmethod(_reattach)
Views.map_examples = staticmethod(_map)
