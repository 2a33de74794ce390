"""View tracking: the history of a base and of its views after a write to one of them.

The base's history becomes "the old base with this window replaced" (CopySlices); every view of
that base regenerates its node (AsStridedBackward0) when it is next read.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from ..tensor.storage import get_version
from ..tensor.tensor import Tensor, wrap
from ..tensor.windows.batched_window import is_example
from ..tensor.windows.lazy_window import compare_bits, get_memory, toggle_bits
from ..tensor.windows.view_origins import is_current, is_unrecorded
from .errors.view_errors import BASE_WRITTEN, create_unrecorded_view_error
from .hooks import move_retained
from .mode import MODE
from .node import Node
from .saved.plan import Plan
from .tape import create_node, requires


class Views:
    """`rebase`, `reattach` and mapping for examples of a vmap, set by the operators' layer."""

    rebase_examples: Callable[[Tensor, Any], None]
    reattach_examples: Callable[[Tensor], None]
    map_examples: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]


class Geometry:
    """A view's position in its base: shapes, strides and dtypes of both, and the offset."""

    __slots__ = (
        "base_dtype", "base_shape", "base_strides", "bits", "dtype", "offset", "shape", "strides",
    )

    def __init__(self, base: np.ndarray, view: np.ndarray) -> None:
        self.base_shape, self.base_strides = base.shape, base.strides
        self.shape, self.strides = view.shape, view.strides
        self.offset = get_memory(view).ctypes.data - get_memory(base).ctypes.data
        self.bits = compare_bits(view, base)
        self.base_dtype, self.dtype = base.dtype, view.dtype

    def describe(self) -> tuple:
        """Return what tells it from others."""
        return tuple([getattr(self, name) for name in self.__slots__])

    def window(self, base: np.ndarray) -> np.ndarray:
        """Return the same window of another array with the base's layout."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        start = np.ndarray(1, np.uint8, _view_memory(base), 0)
        offset = self.offset + base.ctypes.data - start.ctypes.data
        result = np.ndarray(self.shape, self.dtype, _view_memory(base), offset, self.strides)
        return toggle_bits(result, *self.bits) if self.bits else result

    def empty_base(self) -> np.ndarray:
        """Return zeros in the base's layout."""
        from ..tensor.layout import empty_strided_array

        item = self.base_dtype.itemsize
        result = empty_strided_array(
            self.base_shape, [s // item for s in self.base_strides], self.base_dtype
        )
        result[...] = 0
        return result


def _view_memory(array: np.ndarray) -> np.ndarray:
    from ..tensor.storage import get_storage

    return get_storage(array)._bytes


class CopySlices(Node):
    """The history of a base after a write through one of its views."""

    __slots__ = ("geometry",)
    geometry: Geometry

    def apply(self, g: Tensor) -> list[Tensor]:
        """Return the cotangents of the base outside the window, if it needs one, and the window."""
        inside = read_window(g, self.geometry)
        if len(self.edges) == 1:
            return [inside]
        return [clear_window(g, self.geometry), inside]


class AsStridedBackward0(Node):
    """The history of a view whose base was written in place."""

    __slots__ = ("geometry",)
    geometry: Geometry

    def apply(self, g: Tensor) -> list[Tensor]:
        """Return the base's cotangent: zero outside the window."""
        return [spread_into(g, self.geometry)]


_SLICES_PLAN = Plan(CopySlices, (), (), (), False)
_STRIDED_PLAN = Plan(AsStridedBackward0, (), (), (), False)


def rebase_view(view: Tensor, base: Tensor, node: Any) -> None:
    """Make `node` the history of a view's new value: the base's history becomes "the old base with
    this window replaced", and the view is recomputed from it."""
    if is_example(base._array):
        Views.rebase_examples(view, node)
        return
    edges = (base._node or base, node) if base._requires_grad else (node,)
    slices = create_node(_SLICES_PLAN, edges, (), (), None)
    slices.geometry = Geometry(base._array, view._array)
    if "_retained" in base.__dict__:
        move_retained(base, base._node, slices)
    base._node = slices
    base._requires_grad = base._tracked = True
    reattach(view)


def reattach(view: Tensor) -> None:
    """Give a view a node based on its base's current history."""
    base = view._base
    assert base is not None
    if is_example(base._array):
        Views.reattach_examples(view)
        return
    unrecorded = is_unrecorded(view._stamp)
    if unrecorded and view._node is None:
        _read_unrecorded(view, base)
        return
    view._stamp = base._node
    if unrecorded:
        return  # a view of a view that was made without history, and requires grad itself
    if not base._requires_grad:
        return
    node = create_strided_node(view, base)
    if "_retained" in view.__dict__:
        move_retained(view, view._node, node)
    view._node = node
    view._requires_grad = view._tracked = True


def _read_unrecorded(view: Tensor, base: Tensor) -> None:
    """Take a view that was made without history for a leaf, as long as its base keeps the value
    that the view was made of; RuntimeError if a recorded write would be its history."""
    if not base._requires_grad:
        return
    if not is_current(view._stamp, get_version(base)):
        if not MODE.grad:  # nothing asks for its history
            return
        raise create_unrecorded_view_error(view._stamp, BASE_WRITTEN)
    view._requires_grad = view._tracked = True


def create_strided_node(view: Tensor, base: Tensor) -> AsStridedBackward0:
    """Create a view's node on top of its base's current history."""
    node = create_node(_STRIDED_PLAN, (base._node or base,), (), (), None)
    node.geometry = Geometry(base._array, view._array)
    return node


Tensor._reattach = reattach


# ------------------------------------------------------------ the three maps, differentiable


class _WindowBackward(Node):
    """One of the three linear maps between a base's cotangent and a window's."""

    __slots__ = ("adjoint", "geometry")
    adjoint: Callable[[Tensor, Geometry], Tensor]
    geometry: Geometry

    def apply(self, g: Tensor) -> list[Tensor]:
        return [self.adjoint(g, self.geometry)]


_WINDOW_PLAN = Plan(_WindowBackward, (), (), (), False)


class WindowMap(Enum):
    """What a linear map between the cotangents of a base and of a window computes."""

    READ = "the window's part of a base's"
    CLEAR = "a base's with zeros in the window"
    SPREAD = "a base's that is zero outside the window"


def _window_map(kind: WindowMap) -> Callable[[Callable], Callable]:
    """Declare for the compiler what a function computes; copies of the function keep it."""

    def declare(function: Callable) -> Callable:
        function.__dict__["_flambeau_window_map"] = kind
        return function

    return declare


def _record_linear(
    y: np.ndarray, g: Tensor, geometry: Geometry, adjoint: Callable[[Tensor, Geometry], Tensor],
) -> Tensor:
    result = wrap(y)
    if MODE.grad and g._tracked and requires(g):
        node = create_node(_WINDOW_PLAN, (g._node or g,), (), (), None)
        node.adjoint, node.geometry = adjoint, geometry
        result._node = node
        result._requires_grad = result._tracked = True
    return result


def _lay_out(g: np.ndarray, geometry: Geometry) -> np.ndarray:
    result = geometry.empty_base()
    result[...] = g
    return result


@_window_map(WindowMap.READ)
def read_window(g: Tensor, geometry: Geometry) -> Tensor:
    """Return the part of a base's cotangent inside the window."""
    if is_example(g._array):
        return Views.map_examples(partial(read_window, geometry=geometry), g)
    return _record_linear(
        geometry.window(_lay_out(g._array, geometry)).copy(), g, geometry, spread_into
    )


@_window_map(WindowMap.CLEAR)
def clear_window(g: Tensor, geometry: Geometry) -> Tensor:
    """Return a base's cotangent with zeros in the window."""
    if is_example(g._array):
        return Views.map_examples(partial(clear_window, geometry=geometry), g)
    result = _lay_out(g._array, geometry)
    geometry.window(result)[...] = 0
    return _record_linear(result, g, geometry, clear_window)


@_window_map(WindowMap.SPREAD)
def spread_into(g: Tensor, geometry: Geometry) -> Tensor:
    """Return zeros in the base's layout with the window's cotangent added inside the window."""
    if is_example(g._array):
        return Views.map_examples(partial(spread_into, geometry=geometry), g)
    result = geometry.empty_base()
    target = geometry.window(result)
    if _may_overlap(geometry):
        for index in np.ndindex(target.shape):
            target[index] += g._array[index]
    else:
        target[...] = g._array
    return _record_linear(result, g, geometry, read_window)


def _may_overlap(geometry: Geometry) -> bool:
    """Return whether two indices of the window may share memory, as in an expanded view."""
    span = 0
    lengths = [(abs(s), n) for s, n in zip(geometry.strides, geometry.shape, strict=True) if n > 1]
    for stride, n in sorted(lengths):
        if stride <= span:
            return True
        span += stride * (n - 1)
    return False
