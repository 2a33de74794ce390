"""Errors of writes to views whose history a write would lose, with PyTorch's texts."""

from __future__ import annotations

from typing import Any

from ...native.foundation.user_frames import add_notes
from ...tensor.windows.view_origins import IN_FUNCTION, IN_INFERENCE, IN_SEVERAL, read_origin

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
    "code by moving both the view and the inplace either both inside the {block} block (if you "
    "don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)
WRITTEN = "is being modified inplace"
BASE_WRITTEN = "its base or another view of its base has been modified inplace"


def create_leaf_view_error() -> RuntimeError:
    """Return the error for a write to a view of a leaf that requires grad."""
    return add_notes(
        RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place "
                     "operation."),
        "To change a parameter by hand, do it inside of `with torch.no_grad():`.",
    )


def create_node_view_error(node: Any, why: str) -> RuntimeError:
    """Return the error for a write to a view that `node` made."""
    return RuntimeError(f"{_name_output(node)} is a view and {WRITTEN}. {why}")


def create_unrecorded_view_error(
    stamp: Any, event: str = WRITTEN, node: Any = None
) -> RuntimeError:
    """Return the error for a view made without history, of which the stamp tells how
    (windows/view_origins.py), or for a view of such a view, which `node` made."""
    origin = read_origin(stamp)
    inference = origin == IN_INFERENCE
    subject = "A view was created in" if node is None else \
        f"{_name_output(node)} is a view of a view which was created in"
    modes = "inference mode and {} in normal mode" if inference else \
        "no_grad mode and {} with grad mode enabled"
    reasons = {IN_SEVERAL: SEVERAL_VIEWS, IN_FUNCTION: INSIDE_FUNCTION}
    why = reasons.get(origin) or INSIDE_NO_GRAD.format(
        block="inference_mode" if inference else "no_grad")
    return RuntimeError(f"{subject} {modes.format(event)}. {why}")


def _name_output(node: Any) -> str:
    name = node.shown().name().rstrip("0123456789").removesuffix("Backward")
    return f"Output {node.output_number()} of {name}"
