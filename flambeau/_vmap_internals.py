"""torch._vmap_internals: vmap as autograd calls it, by its first name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .autograd.mode import below_transforms
from .func.vmap import map_calls

__all__ = ["_vmap"]


def _vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False
) -> Callable:
    """`func` over the axes `in_dims` of its arguments; RuntimeError where it draws numbers.

    allow_none_pass_through: results may be None, and stay None. Unlike in `torch.vmap`, custom
    functions need no `setup_context`, and backward may run.
    """

    @functools.wraps(func)
    def on_examples(*args: Any, **kwargs: Any) -> Any:
        with below_transforms(1):
            return func(*args, **kwargs)

    return map_calls(
        on_examples, in_dims, out_dims, "error", allow_none_pass_through,
        "vmap: We do not yet support calling random operations inside of vmap. Please perform "
        "random operations outside of vmap as a workaround",
    )


vmap = _vmap
