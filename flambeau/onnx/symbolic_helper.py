"""torch.onnx.symbolic_helper: declare the argument kinds of export functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..tensor.absent import Lacking

__all__ = ["parse_args"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.onnx.symbolic_helper' has no attribute '{name}'")
    return Lacking(f"torch.onnx.symbolic_helper.{name}")


def parse_args(*arg_descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that declares the kind of each argument after the graph: "v" a graph
    value, "i", "f", "b", "s" an int, float, bool, str; "is", "fs" lists; "t" a tensor.

    Arguments that are not graph values pass unchanged, as in PyTorch. Raises AssertionError for
    more arguments than kinds.

    >>> from flambeau.onnx.symbolic_helper import parse_args
    >>> @parse_args("v", "f")
    ... def exported(g, x, factor): return factor
    >>> exported(None, "x", 2.0)
    2.0
    """

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def wrapper(g: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) > len(arg_descriptors):
                raise AssertionError(
                    f"A mismatch between the number of arguments ({len(args)}) and their "
                    f"descriptors ({len(arg_descriptors)}) was found at symbolic function "
                    f"'{fn.__name__}'."
                )
            return fn(g, *args, **kwargs)

        wrapper._arg_descriptors = arg_descriptors  # type: ignore[attr-defined]
        return wrapper

    return decorate
