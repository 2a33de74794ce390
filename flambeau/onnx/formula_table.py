"""Table of formulas: operators as functions of other operators; the modules of formulas fill it.

A formula takes the arguments of the aten operator. It must not read values of tensors, and every
tensor that it makes depends on its arguments or is constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..fx.qualified_names import torch_module

__all__ = ["FORMULAS", "formula", "torch"]

FORMULAS: dict[str, Callable[..., Any]] = {}


class _Torch:
    """The public functions; flambeau itself is imported after this package."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch_module(), name)


torch: Any = _Torch()


def formula(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers the formula of these aten operators."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        FORMULAS.update(dict.fromkeys(names, function))
        return function

    return register
