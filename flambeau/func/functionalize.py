"""functionalize: a function without in-place operators, which computes the same here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..autograd.mode import transforming
from ..ops.interception.torch_function import STATE
from ..tensor.tensor import Tensor
from ..utils import _pytree as pytree

__all__ = ["functionalize"]


def functionalize(func: Callable, *, remove: str = "mutations") -> Callable:
    """Return a function with the results of `func` and its writes to the arguments.

    `remove` names the operators that a trace of it shall not show: "mutations" for in-place ones,
    "mutations_and_views" for views too; RuntimeError for another value. While make_fx or
    torch.export traces the result, `func` is traced by itself, on copies of its arguments, and the
    trace replayed without these operators.

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
            return _replay(func, args, kwargs, remove == "mutations_and_views")
        with transforming():
            return func(*args, **kwargs)

    return call


def _replay(func: Callable, args: tuple, kwargs: dict[str, Any], copies_views: bool) -> Any:
    """Trace `func` on copies of the arguments, and run the trace without in-place operators."""
    from ..fx.experimental.proxy_tensor import make_fx
    from ..fx.passes.functional_replay import FunctionalReplay

    leaves, spec = pytree.tree_flatten((args, kwargs))
    structure: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        inner_args, inner_kwargs = pytree.tree_unflatten(list(values), spec)
        result, result_spec = pytree.tree_flatten(func(*inner_args, **inner_kwargs))
        structure.append(result_spec)
        return list(result)

    modes = STATE.modes[:]
    STATE.modes.clear()
    try:
        copies = [x.detach().clone() if isinstance(x, Tensor) else x for x in leaves]
        module = make_fx(flat)(*copies)
    finally:
        STATE.modes[:] = modes
    return pytree.tree_unflatten(FunctionalReplay(module, copies_views).run(*leaves), structure[0])


def _is_traced() -> bool:
    """Return whether make_fx or torch.export records the calling code."""
    from ..export.recorder import Recorder

    return any(isinstance(mode, Recorder) for mode in STATE.modes)
