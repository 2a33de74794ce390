"""In-place writes: rewrites history when recorded memory changes.

`check_writable` rejects what PyTorch rejects. `bump` counts a write. `rebase` gives a tensor the
history of its new value, and its base too if it is a view (views.py). The version check, which
compares the writes counted since a tensor was saved, is in saved/values.py.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from ..native.foundation.user_frames import add_notes
from ..tensor.storage import VersionCounter, get_version
from ..tensor.tensor import INFERENCE, Tensor, wrap
from ..tensor.windows.batched_window import is_example
from ..tensor.windows.view_origins import IN_FUNCTION, is_unrecorded
from .errors.view_errors import (
    INSIDE_FUNCTION, SEVERAL_VIEWS, create_leaf_view_error, create_node_view_error,
    create_unrecorded_view_error,
)
from .hooks import move_retained
from .mode import MODE
from .outputs import Output
from .tape import requires
from .views import create_strided_node, rebase_view


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
    if base is not None and base._requires_grad and x._node is None \
            and x._array.dtype.kind in "fcV":
        _refuse_unrecorded(x)
        if base._node is None:
            raise create_leaf_view_error()
    if not x._tracked or not requires(x):
        return False
    if x._node is None:
        raise add_notes(
            RuntimeError("a leaf Variable that requires grad is being used in an in-place "
                         "operation."),
            "To change a parameter by hand, do it inside of `with torch.no_grad():`.",
        )
    if base is not None:
        _check_chain(x._node, base)
        if base._node is None and base._requires_grad:
            raise create_leaf_view_error()
    return True


def _check_chain(node: Any, base: Tensor) -> None:
    """Raise for a view whose history a write would lose; `node` is the view's.

    Checks the chain of views between it and its base: writes are forbidden through one of several
    outputs, a view of a custom Function, or a view made in no_grad mode.
    """
    end, last = base._node, node
    while node is not None and node is not end:
        if isinstance(node, Tensor):
            if node._base is not None:
                raise create_unrecorded_view_error(node._stamp, node=last)
            return
        owner = node.shown()
        is_view = owner.operator is not None and owner.operator.kind.name == "VIEW"
        if owner.is_custom or (is_view and node.__class__ is Output):
            several = node.__class__ is Output
            raise create_node_view_error(node, SEVERAL_VIEWS if several else INSIDE_FUNCTION)
        if not is_view or len(owner.edges) != 1:
            return
        last, node = node, owner.edges[0]


def _refuse_unrecorded(view: Tensor) -> None:
    """Raise if a view was made without history, which recorded writes to it would need."""
    if is_unrecorded(view._stamp):
        raise create_unrecorded_view_error(view._stamp)


def forbid_writes(view: Tensor) -> None:
    """Mark a view that a custom Function made without history: recorded writes to it raise."""
    view._stamp = get_version(view) << 2 | IN_FUNCTION


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


def prepare_write(x: Tensor, keep_value: bool) -> Tensor:
    """Return a stand-in for the old `x` on the tape: same history, value copied if `keep_value`."""
    if x._base is not None and MODE.grad:
        _refuse_unrecorded(x)
    old = wrap(x._array.copy("K") if keep_value else x._array)
    old._requires_grad, old._node = x._requires_grad, x._node
    if x._base is not None and x._node is not None and x._node.shown().hooks \
            and x._base._requires_grad and not is_example(x._array):
        old._node = create_strided_node(x, x._base)  # a new node for the view, without its hooks
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
    else:
        rebase_view(x, base, node)
