"""torch._jit_internal: marks on functions for TorchScript, under the name by which libraries import
them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035  # its public names

from ..jit import Attribute, _overload, _overload_method, export, ignore, is_scripting, unused
from ..jit.annotations import (
    BroadcastingList1,
    BroadcastingList2,
    BroadcastingList3,
)
from ..jit.empty_containers import check_empty_containers
from ..tensor.absent import make_absent_getattr

__all__ = [
    "Any", "Attribute", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict",
    "Final", "List", "Optional", "Tuple", "Union", "_copy_to_script_wrapper", "_overload",
    "_overload_method", "boolean_dispatch", "check_empty_containers", "export",
    "get_callable_argument_names", "ignore", "is_scripting", "unused",
]


def get_callable_argument_names(fn: Callable) -> list[str]:
    """Return the names of parameters that calls may pass by position or by name.

    >>> from flambeau._jit_internal import get_callable_argument_names
    >>> get_callable_argument_names(lambda x, *rest, y=1, **more: x)
    ['x']
    """
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return []
    return [name for name, parameter in parameters.items()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]


def _disable_emit_hooks() -> AbstractContextManager[None]:
    """Return a no-op context: scripting has no hooks to disable."""
    return nullcontext()


def _copy_to_script_wrapper(fn: Callable) -> Callable:
    """Mark a method that scripted modules have as it is: here all of them have it."""
    marked: Any = fn
    marked._torchscript_modifier = (
        "if this method is not scripted, copy the python method onto the scripted model")
    return fn


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Callable, if_false: Callable,
    module_name: str | None, func_name: str | None,
) -> Callable:
    """Return a function that calls one of two, by an argument that has a name and a position.

    >>> from flambeau._jit_internal import boolean_dispatch
    >>> join = boolean_dispatch("upper", 1, False, lambda x, upper: x.upper(), lambda x: x,
    ...                         None, "join")
    >>> join("a"), join("a", upper=True)
    ('a', 'A')
    """
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        chosen = kwargs[arg_name] if arg_name in kwargs \
            else args[arg_index] if arg_index < len(args) else default
        return (if_true if chosen else if_false)(*args, **kwargs)

    dispatch.__doc__ = if_true.__doc__ or if_false.__doc__
    dispatch.__module__ = module_name or dispatch.__module__
    dispatch.__name__ = func_name or dispatch.__name__
    return dispatch


__getattr__ = make_absent_getattr(__name__)
