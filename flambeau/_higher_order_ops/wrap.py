"""wrap_with_set_grad_enabled: a graph that runs with gradients switched on or off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.mode import set_grad_enabled
from ..ops.registration.custom_operators import get_namespace

__all__ = ["wrap_with_set_grad_enabled"]


def wrap_with_set_grad_enabled(enable_grad: bool, wrapped_func: Callable[..., Any], *args: Any,
                               **kwargs: Any) -> Any:
    """Call a function in a grad mode: the form of `with torch.no_grad():` in exported graphs.

    >>> from flambeau._higher_order_ops.wrap import wrap_with_set_grad_enabled
    >>> x = torch.ones(2, requires_grad=True)
    >>> wrap_with_set_grad_enabled(False, lambda x: (x * 2).requires_grad, x)
    False
    """
    with set_grad_enabled(enable_grad):
        return wrapped_func(*args, **kwargs)


wrap_with_set_grad_enabled.__module__ = "torch.ops.higher_order"
setattr(get_namespace("higher_order"), "wrap_with_set_grad_enabled",  # noqa: B010
        wrap_with_set_grad_enabled)
