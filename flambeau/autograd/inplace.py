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
from ..tensor.storage import VersionCounter
from ..tensor.tensor import INFERENCE, Tensor, wrap
from ..tensor.windows.batched_window import is_example
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
    if not x._tracked or not requires(x):
        if base is not None and base._requires_grad and x._array.dtype.kind in "fcV":
            if "_view_of_function" in x.__dict__:
                raise _create_no_grad_view_error(INSIDE_FUNCTION)
            raise _create_leaf_view_error() if base._node is None else _create_no_grad_view_error(
                INSIDE_NO_GRAD
            )
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
            raise _create_leaf_view_error()
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
                raise _create_no_grad_view_error(INSIDE_NO_GRAD, node)
            return
        owner = node.shown()
        is_view = owner.operator is not None and owner.operator.kind.name == "VIEW"
        if owner.is_custom or (is_view and node.__class__ is Output):
            several = node.__class__ is Output
            raise _create_node_view_error(node, SEVERAL_VIEWS if several else INSIDE_FUNCTION)
        if not is_view or len(owner.edges) != 1:
            return
        node = owner.edges[0]


def forbid_writes(view: Tensor) -> None:
    """Mark a view that a custom Function made without history: recorded writes to it raise."""
    view.__dict__["_view_of_function"] = True


def _create_leaf_view_error() -> RuntimeError:
    """Return the error for a write to a view of a leaf that requires grad."""
    return add_notes(
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


def _create_node_view_error(node: Any, why: str) -> RuntimeError:
    name = node.shown().name().rstrip("0123456789").removesuffix("Backward")
    return RuntimeError(
        f"Output {node.output_number()} of {name} is a view and is being modified inplace. {why}"
    )


def _create_no_grad_view_error(why: str, leaf: Tensor | None = None) -> RuntimeError:
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


def prepare_write(x: Tensor, keep_value: bool) -> Tensor:
    """Return a stand-in for the old `x` on the tape: same history, value copied if `keep_value`."""
    if x._base is not None and "_view_of_function" in x.__dict__ and MODE.grad:
        raise _create_no_grad_view_error(INSIDE_FUNCTION)
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
