"""functionalize: a function without in-place operators, which computes the same here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..ops.interception.torch_function import STATE

__all__ = ["functionalize"]


def functionalize(func: Callable, *, remove: str = "mutations") -> Callable:
    """Return a function with the results of `func` and its writes to the arguments.

    `remove` names the operators that a trace of it shall not show: "mutations" for in-place ones,
    "mutations_and_views" for views too. Raises RuntimeError for another value, and
    NotImplementedError if make_fx or torch.export traces the result: flambeau's traces contain
    the operators that ran.

    >>> double = torch.func.functionalize(lambda x: x.clone().mul_(2))
    >>> double(torch.tensor([1., 2.]))
    tensor([2., 4.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. "
            "Valid options are:\n     remove='mutations': all inplace and out= operators will be "
            "removed from the program, and replaced with their out-of-place equivalents.\n     "
            "remove='mutations_and_views': In addition to the above, all aliasing operators "
            "{view} will be replaced with their non-aliasing counterparts, {view}_copy.\n"
        )

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        if STATE.modes and _is_traced():
            error = NotImplementedError(
                "torch.func.functionalize: traces with the in-place operators replaced are not "
                "implemented in flambeau"
            )
            error.add_note("Trace the function itself; the trace keeps the in-place operators.")
            raise error
        return func(*args, **kwargs)

    return call


def _is_traced() -> bool:
    """Return whether make_fx or torch.export records the calling code."""
    from ..export.recorder import Recorder

    return any(isinstance(mode, Recorder) for mode in STATE.modes)
