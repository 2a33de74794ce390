"""torch._functorch.deprecated: what functorch exports; it warns and calls torch.func."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import func
from ..native.foundation.user_frames import warn
from . import make_functional as modules

__all__ = [
    "combine_state_for_ensemble", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd",
    "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "vjp", "vmap",
]


def _deprecate(function: Callable, successor: str) -> Callable:
    """`function` with the warning that `successor` has taken its place."""
    name = function.__name__

    @functools.wraps(function)
    def call_with_warning(*args: Any, **kwargs: Any) -> Any:
        warn(
            "We've integrated functorch into PyTorch. As the final step of the integration, "
            f"`functorch.{name}` is deprecated as of PyTorch 2.0 and will be deleted in a future "
            f"version of PyTorch >= 2.3. Please use `{successor}` instead; see the PyTorch 2.0 "
            "release notes and/or the `torch.func` migration guide for more details "
            "https://pytorch.org/docs/main/func.migrating.html",
            FutureWarning,
        )
        return function(*args, **kwargs)

    call_with_warning.__module__ = __name__
    return call_with_warning


vmap = _deprecate(func.vmap, "torch.vmap")
grad = _deprecate(func.grad, "torch.func.grad")
grad_and_value = _deprecate(func.grad_and_value, "torch.func.grad_and_value")
vjp = _deprecate(func.vjp, "torch.func.vjp")
jvp = _deprecate(func.jvp, "torch.func.jvp")
jacrev = _deprecate(func.jacrev, "torch.func.jacrev")
jacfwd = _deprecate(func.jacfwd, "torch.func.jacfwd")
hessian = _deprecate(func.hessian, "torch.func.hessian")
functionalize = _deprecate(func.functionalize, "torch.func.functionalize")
make_functional = _deprecate(modules.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _deprecate(
    modules.make_functional_with_buffers, "torch.func.functional_call")
combine_state_for_ensemble = _deprecate(
    modules.combine_state_for_ensemble, "torch.func.stack_module_state")
