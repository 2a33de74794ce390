"""In-place writes and views: rewrites history when recorded memory changes.

`check_writable` rejects what PyTorch rejects. `rebase` gives a tensor the history of its new value;
for a view, the base's history becomes "the old base with this window replaced" (CopySlices), and
every view of that base regenerates its node when it is next read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import numpy as np

from ..native.foundation.user_frames import noted
from ..tensor.storage import VersionCounter
from ..tensor.tensor import INFERENCE, Tensor, wrap
from ..tensor.windows.batched_window import is_example
from ..tensor.windows.lazy_window import bits_of, memory_of, toggled
from .hooks import move_retained
from .mode import MODE
from .node import Node
from .outputs import Output
from .save_plan import Plan
from .tape import new_node, requires


def check_writable(x: Tensor, operator: str = "") -> bool:
    """Return whether `x` is recorded, so that writes to it must be; raise if they are forbidden."""
    if x._stamp is INFERENCE and not MODE.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make "
            "a clone to get a normal tensor before doing inplace update."
        )
    if not MODE.grad:
        return False
    base = x._base
    if not x._tracked or not requires(x):
        if base is not None and base._requires_grad and x._array.dtype.kind in "fcV":
            raise _view_of_leaf() if base._node is None else _no_grad_view_error(INSIDE_NO_GRAD)
        return False
    if x._node is None:
        raise noted(
            RuntimeError("a leaf Variable that requires grad is being used in an in-place "
                         "operation."),
            "To change a parameter by hand, do it inside of `with torch.no_grad():`.",
        )
    if base is not None:
        _check_chain(x._node, base)
        if base._node is None and base._requires_grad:
            raise _view_of_leaf()
    return True


def _check_chain(node: Any, base: Tensor) -> None:
    """Raise for a view whose history a write would lose; `node` is the view's.

    Checks the chain of views between it and its base: writes are forbidden through one of several
    outputs, a view of a custom Function, or a view made in no_grad mode.
    """
    end = base._node
    while node is not None and node is not end:
        if isinstance(node, Tensor):
            if node._base is not None:
                raise _no_grad_view_error(INSIDE_NO_GRAD, node)
            return
        owner = node.shown()
        is_view = owner.operator is not None and owner.operator.kind.name == "VIEW"
        if owner.is_custom or (is_view and node.__class__ is Output):
            several = node.__class__ is Output
            raise _node_view_error(node, SEVERAL_VIEWS if several else INSIDE_FUNCTION)
        if not is_view or len(owner.edges) != 1:
            return
        node = owner.edges[0]


def forbid_writes(view: Tensor) -> None:
    """Mark a view that a custom Function made without history: recorded writes to it raise."""
    view.__dict__["_view_of_function"] = True


def _view_of_leaf() -> RuntimeError:
    """Return the error for a write to a view of a leaf that requires grad."""
    return noted(
        RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place "
                     "operation."),
        "To change a parameter by hand, do it inside of `with torch.no_grad():`.",
    )


SEVERAL_VIEWS = (
    "This view is the output of a function that returns multiple views. Such functions do not "
    "allow the output views to be modified inplace. You should replace the inplace operation by "
    "an out-of-place one."
)
INSIDE_FUNCTION = (
    "This view was created inside a custom Function (or because an input was returned as-is) and "
    "the autograd logic to handle view+inplace would override the custom backward associated with "
    "the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix "
    "this by cloning the output of the custom Function."
)
INSIDE_NO_GRAD = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the no_grad block (if you "
    "don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)


def _node_view_error(node: Any, why: str) -> RuntimeError:
    name = node.shown().name().removesuffix("Backward")
    return RuntimeError(
        f"Output {node.output_number()} of {name} is a view and is being modified inplace. {why}"
    )


def _no_grad_view_error(why: str, leaf: Tensor | None = None) -> RuntimeError:
    """Return the error for a view made without history, or for a view of such a view (`leaf`)."""
    origin = "A view was created in" if leaf is None else \
        "This is a view of a view which was created in"
    return RuntimeError(
        f"{origin} no_grad mode and is being modified inplace with grad mode enabled. {why}"
    )


def bump(x: Tensor) -> None:
    """Count a write to the memory of `x`; with grad on, store the line outside flambeau."""
    counter = x._counter
    if counter is None:
        counter = x._counter = VersionCounter()
    counter.value += 1
    if MODE.grad:
        frame: FrameType | None = sys._getframe(2)  # the direct caller is in flambeau
        while frame is not None and frame.f_globals.get("__name__", "").startswith("flambeau"):
            frame = frame.f_back
        if frame is not None:
            counter.writer = frame.f_code, frame.f_lasti


def before_write(x: Tensor, keep_value: bool) -> Tensor:
    """Return a stand-in for the old `x` on the tape: same history, value copied if `keep_value`."""
    if x._base is not None and "_view_of_function" in x.__dict__ and MODE.grad:
        raise _no_grad_view_error(INSIDE_FUNCTION)
    old = wrap(x._array.copy("K") if keep_value else x._array)
    old._requires_grad, old._node = x._requires_grad, x._node
    if x._base is not None and x._node is not None and x._node.shown().hooks \
            and x._base._requires_grad and not is_example(x._array):
        old._node = _strided_node(x, x._base)  # a new node for the view, without its hooks
    old._tracked = x._requires_grad
    return old


def rebase(x: Tensor, node: Any) -> None:
    """Make `node` (a node or an `Output`) the history of the new value of `x`."""
    base = x._base
    if base is None:
        if "_retained" in x.__dict__:
            move_retained(x, x._node, node)
        x._node = node
        x._requires_grad = x._tracked = True
        return
    if is_example(base._array):
        Views.rebase_examples(x, node)
        return
    edges = (base._node or base, node) if base._requires_grad else (node,)
    slices = new_node(_SLICES_PLAN, edges, (), (), None)
    slices.geometry = Geometry(base._array, x._array)
    if "_retained" in base.__dict__:
        move_retained(base, base._node, slices)
    base._node = slices
    base._requires_grad = base._tracked = True
    reattach(x)


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
        self.offset = memory_of(view).ctypes.data - memory_of(base).ctypes.data
        self.bits = bits_of(view, base)
        self.base_dtype, self.dtype = base.dtype, view.dtype

    def window(self, base: np.ndarray) -> np.ndarray:
        """Return the same window of another array with the base's layout."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        start = np.ndarray(1, np.uint8, _memory(base), 0)
        offset = self.offset + base.ctypes.data - start.ctypes.data
        result = np.ndarray(self.shape, self.dtype, _memory(base), offset, self.strides)
        return toggled(result, *self.bits) if self.bits else result

    def empty_base(self) -> np.ndarray:
        """Return zeros in the base's layout."""
        from ..tensor.layout import empty_strided_array

        item = self.base_dtype.itemsize
        result = empty_strided_array(
            self.base_shape, [s // item for s in self.base_strides], self.base_dtype
        )
        result[...] = 0
        return result


def _memory(array: np.ndarray) -> np.ndarray:
    from ..tensor.storage import storage_of

    return storage_of(array)._bytes


class CopySlices(Node):
    """The history of a base after a write through one of its views."""

    __slots__ = ("geometry",)
    geometry: Geometry

    def apply(self, g: Tensor) -> list[Tensor]:
        """Return the cotangents of the base outside the window, if it needs one, and the window."""
        inside = window_of(g, self.geometry)
        if len(self.edges) == 1:
            return [inside]
        return [outside_of(g, self.geometry), inside]


class AsStridedBackward0(Node):
    """The history of a view whose base was written in place."""

    __slots__ = ("geometry",)
    geometry: Geometry

    def apply(self, g: Tensor) -> list[Tensor]:
        """Return the base's cotangent: zero outside the window."""
        return [spread_into(g, self.geometry)]


_SLICES_PLAN = Plan(CopySlices, (), (), (), False)
_STRIDED_PLAN = Plan(AsStridedBackward0, (), (), (), False)


def reattach(view: Tensor) -> None:
    """Give a view a node based on its base's current history."""
    base = view._base
    assert base is not None
    if is_example(base._array):
        Views.reattach_examples(view)
        return
    view._stamp = base._node
    if not base._requires_grad:
        return
    node = _strided_node(view, base)
    if "_retained" in view.__dict__:
        move_retained(view, view._node, node)
    view._node = node
    view._requires_grad = view._tracked = True


def _strided_node(view: Tensor, base: Tensor) -> AsStridedBackward0:
    """Create a view's node on top of its base's current history."""
    node = new_node(_STRIDED_PLAN, (base._node or base,), (), (), None)
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


def _linear(
    y: np.ndarray, g: Tensor, geometry: Geometry, adjoint: Callable[[Tensor, Geometry], Tensor],
) -> Tensor:
    result = wrap(y)
    if MODE.grad and g._tracked and requires(g):
        node = new_node(_WINDOW_PLAN, (g._node or g,), (), (), None)
        node.adjoint, node.geometry = adjoint, geometry
        result._node = node
        result._requires_grad = result._tracked = True
    return result


def _laid_out(g: np.ndarray, geometry: Geometry) -> np.ndarray:
    result = geometry.empty_base()
    result[...] = g
    return result


def window_of(g: Tensor, geometry: Geometry) -> Tensor:
    """Return the part of a base's cotangent inside the window."""
    if is_example(g._array):
        return Views.map_examples(partial(window_of, geometry=geometry), g)
    return _linear(
        geometry.window(_laid_out(g._array, geometry)).copy(), g, geometry, spread_into
    )


def outside_of(g: Tensor, geometry: Geometry) -> Tensor:
    """Return a base's cotangent with zeros in the window."""
    if is_example(g._array):
        return Views.map_examples(partial(outside_of, geometry=geometry), g)
    result = _laid_out(g._array, geometry)
    geometry.window(result)[...] = 0
    return _linear(result, g, geometry, outside_of)


def spread_into(g: Tensor, geometry: Geometry) -> Tensor:
    """Return zeros in the base's layout with the window's cotangent added inside the window."""
    if is_example(g._array):
        return Views.map_examples(partial(spread_into, geometry=geometry), g)
    result = geometry.empty_base()
    target = geometry.window(result)
    if _overlaps(geometry):
        for index in np.ndindex(target.shape):
            target[index] += g._array[index]
    else:
        target[...] = g._array
    return _linear(result, g, geometry, window_of)


def _overlaps(geometry: Geometry) -> bool:
    """Return whether two indices of the window may share memory, as in an expanded view."""
    span = 0
    lengths = [(abs(s), n) for s, n in zip(geometry.strides, geometry.shape, strict=True) if n > 1]
    for stride, n in sorted(lengths):
        if stride <= span:
            return True
        span += stride * (n - 1)
    return False
