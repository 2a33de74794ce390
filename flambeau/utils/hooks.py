"""torch.utils.hooks: hook handles and the backward hooks of modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.handle import RemovableHandle
from ..native.foundation.user_frames import warn
from ..nn.backward_hook import BackwardHook
from ..tensor import Tensor

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Callable) -> Callable:
    """Mark a tensor hook as safe to drop when the tensor is saved."""
    marked: Any = f
    marked.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of each hook on a tensor that will not be saved with it."""
    for hook in (tensor.__dict__.get("_backward_hooks") or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, "
                "you can decorate the function with @torch.utils.hooks.unserializable_hook to "
                "suppress this warning",
            )
